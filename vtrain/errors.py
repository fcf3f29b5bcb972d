"""The errors of vtrain, with their exit codes.

    VtrainError                 1    the request failed
    ├── UsageError              2    the command line does not parse
    ├── ConfigError             1    what parses is wrong: a file, a pool rule, a path, a format
    │   └── FieldError          1    … one field of a document
    ├── NotFoundError           1    no such job
    ├── ConflictError           1    not in the job's present state
    │   └── KeyTakenError       1    … another job has the idempotency key
    ├── UnavailableError        1    a backend that this version or this machine does not have
    │   └── EngineError         1    … the Docker engine refuses
    │       └── EngineAwayError 1    … the Docker engine does not answer
    ├── ImageError              1    an image cannot be had: pulled, built or pushed
    ├── PackagingError          1    the trainer cannot be packaged
    ├── StorageError            1    home, bucket or disk refused
    │   └── HomeError           1    … and will again: vtrain's home is not for this user or version
    │       └── DamagedError    1    … or its store, or one entry of it, cannot be read
    ├── CredentialsError        1    no credentials, or none that still count
    ├── ServiceError            1    the service refused what was asked of it
    │   ├── UnusableAnswerError 1    … its answer cannot be used: empty, too large, not of its API
    │   ├── ServiceAwayError    1    … the service does not answer
    │   └── ServiceBusyError    1    … it is asked too often, or a quota is used up
    ├── CommandError            *    a command in a replica did not end with 0; its own exit code
    ├── OutputError             1    stdout or stderr cannot be written
    │   └── ClosedPipeError   141    … because its reader went away
    ├── JobFailedError         10    the job ran and failed
    ├── JobCancelledError      11    the job was cancelled or expired
    ├── ContactLostError       12    the job's state is unknown
    ├── WaitTimeoutError      124    --wait-timeout passed; the job goes on
    ├── LocalRunError         125    local-run failed before or around the trainer
    ├── InterruptedByUser     130    Ctrl-C
    └── TerminatedBySignal    143    SIGTERM
        └── HungUp            129    SIGHUP: the terminal is gone

Each class carries its exit code and, where there is one, what to do next.
"""

from __future__ import annotations

from typing import ClassVar


class VtrainError(Exception):
    """The request failed; nothing else was changed."""

    exit_code: ClassVar[int] = 1
    prefix: ClassVar[str] = "ERROR: "
    meaning: ClassVar[str] = "the request failed: rejected, not found, build or staging failed"

    def __init__(self, message: str, *, hint: str = "", http_status: int = 0) -> None:
        """`http_status` is that of the answer that refused the request; 0 where there was none."""
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.http_status = http_status


class UsageError(VtrainError):
    """The command line does not parse."""

    exit_code = 2
    meaning = "the command line does not parse: unknown or missing flag, bad dictionary, integer or label"


class ConfigError(VtrainError):
    """Input that parses, but is wrong: a config file, a pool rule, a path, a format."""


class FieldError(ConfigError):
    """One field of a document is wrong: the one at `path`, such as `workerPoolSpecs[0].replicaCount`."""

    def __init__(self, path: str, problem: str, *, hint: str = "") -> None:
        super().__init__(f"{path or 'The document'}: {problem}", hint=hint)
        self.path = path


class NotFoundError(VtrainError):
    """No resource has that name."""


class ConflictError(VtrainError):
    """The resource's present state does not allow this."""


class KeyTakenError(ConflictError):
    """Another job has the idempotency key: the one called `name`."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} has this idempotency key.")
        self.name = name


class UnavailableError(VtrainError):
    """This version, or this machine, does not have what was asked for."""


class EngineError(UnavailableError):
    """The Docker Engine refuses a request, or does not answer. `words` are its own, where it gave any."""

    def __init__(self, message: str, *, hint: str = "", http_status: int = 0, words: str = "") -> None:
        super().__init__(message, hint=hint, http_status=http_status)
        self.words = words


class EngineAwayError(EngineError):
    """The Docker engine does not answer; it may be back in a moment."""


class ImageError(VtrainError):
    """A container image cannot be had: pulled, built or pushed."""


class PackagingError(VtrainError):
    """The trainer cannot be packaged as it is."""


class StorageError(VtrainError):
    """A folder, bucket or disk refused to read or write."""


class HomeError(StorageError):
    """vtrain's home is another user's, or another version's: asking again does not help."""


class DamagedError(HomeError):
    """The store of vtrain's home, or an entry of it, cannot be read."""


class CredentialsError(VtrainError):
    """There are no credentials for a service, or they do not count any more."""


class ServiceError(VtrainError):
    """The service refused what was asked of it."""


class UnusableAnswerError(ServiceError):
    """The service answered, and not with what was asked for; whether it did that is not known."""


class ServiceAwayError(ServiceError):
    """The service does not answer, or cannot at present; it may in a moment."""


class ServiceBusyError(ServiceError):
    """The service is asked too often, or a quota is used up."""


class CommandError(VtrainError):
    """A command in a replica did not end with 0, or could not be started; the exit code is its own."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]


class OutputError(VtrainError):
    """Output cannot be written."""


class ClosedPipeError(OutputError):
    """The reader of the output went away, as `| head` does: nothing is left to say."""

    exit_code = 141
    meaning = "the reader of the output went away (SIGPIPE)"


class JobFailedError(VtrainError):
    """The job ran and failed."""

    exit_code = 10
    meaning = "the job ran and failed (`--stream-logs`, `--wait`, `wait`, `stream-logs`)"


class JobCancelledError(VtrainError):
    """The job was cancelled, or expired."""

    exit_code = 11
    meaning = "the job was cancelled or expired"


class ContactLostError(VtrainError):
    """The job's state cannot be learned any more; it may still be running."""

    exit_code = 12
    meaning = "contact lost: the job's state is unknown"


class WaitTimeoutError(VtrainError):
    """The time to wait is over; the job goes on."""

    exit_code = 124
    meaning = "`--wait-timeout` passed; the job goes on"


class LocalRunError(VtrainError):
    """`local-run` failed before or around the trainer, as `docker run` says it."""

    exit_code = 125
    meaning = "`local-run`: vtrain itself failed before or around the trainer"


class InterruptedByUser(VtrainError):
    """SIGINT."""

    prefix = ""

    exit_code = 130
    meaning = "interrupted (SIGINT)"


class TerminatedBySignal(VtrainError):
    """SIGTERM."""

    prefix = ""

    exit_code = 143
    meaning = "terminated (SIGTERM)"


class HungUp(TerminatedBySignal):
    """SIGHUP: the terminal is gone."""

    exit_code = 129
    meaning = "hung up (SIGHUP): the terminal was closed"


def refusal(error: OSError) -> str:
    """The system's words, and the file that they are about: `Permission denied: out/model`."""
    place = f": {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{place}"
