"""The lines that the runtime itself writes into a job's log, as the service does."""

from __future__ import annotations

import pwd

from vtrain.messages import states
from vtrain.runtime.folder import SERVICE, JobFolder, LeftProcess, ReplicaFolder
from vtrain.runtime.process.journal import SERVICE_WORDS, STDERR, STDOUT, JournalWriter
from vtrain.times import from_epoch

PREPARING = (
    "Waiting for job to be provisioned.",
    "vtrain is provisioning job running framework.",
    "vtrain is setting up this job.",
)
STARTING = ("Waiting for training program to start.", "Job is preparing.")
RUNNING = "Job is running."
TEARING_DOWN, TORN_DOWN = "Tearing down training program.", "Finished tearing down training program."
JOB_FAILED = "Job failed."
LAST_WORDS = {
    states.SUCCEEDED: "Job completed successfully.",
    states.FAILED: JOB_FAILED,
    states.CANCELLED: "Job cancelled.",
}
LAST_WORDS_OF_PIPELINES = {
    states.SUCCEEDED: "Pipeline completed successfully.",
    states.FAILED: "Pipeline failed.",
    states.CANCELLED: "Pipeline cancelled.",
}
ALL_JOBS = frozenset(
    {
        *(*PREPARING, *STARTING, RUNNING, TEARING_DOWN, TORN_DOWN),
        *(*LAST_WORDS.values(), *LAST_WORDS_OF_PIPELINES.values()),
    }
)
"""The lines that the log of every job has, whatever happens in it."""


class ServiceLog:
    """The journal of the task `service`."""

    def __init__(self, folder: JobFolder) -> None:
        self._journal = JournalWriter(str(folder.logs / SERVICE))

    def say(self, *lines: str) -> None:
        """Write lines about the job's progress."""
        self._write(lines, SERVICE_WORDS)

    def complain(self, *lines: str) -> None:
        """Write lines about an error."""
        self._write(lines, STDERR)

    def pass_on(self, block: bytes) -> None:
        """Write the output of a tool that prepares the job; its next output begins a line."""
        if block:
            self._journal.write(block if block.endswith(b"\n") else block + b"\n", STDOUT)

    def tell_losses(self, attempts: tuple[ReplicaFolder, ...]) -> None:
        """Write into the log which parts of it are lost."""
        for attempt in attempts:
            end, name = attempt.exit(), attempt.name
            if end is None:
                continue
            if end.log_lost_bytes:
                lost = f"At least {end.log_lost_bytes} bytes of the log of {name}"
                self.complain(f"{lost} are lost: the disk refused them.")
            if end.log_error:
                self.complain(f"A part of the log of {name} could not be read: {end.log_error}.")
            for process in end.left:
                self.complain(f"{_described(process)} of {name} could not be ended, and goes on.")
            if end.gap is not None:
                away, back = map(from_epoch, end.gap)
                self.complain(
                    f"{end.gap_of} was away from {away} to {back}. What {name} wrote then may be lost."
                )

    def close(self) -> None:
        """Write everything to the disk."""
        self._journal.close()

    def _write(self, lines: tuple[str, ...], stream: int) -> None:
        if lines:
            self._journal.write("".join(f"{line}\n" for line in lines).encode(), stream)


def _described(process: LeftProcess) -> str:
    """`The process 12 (sleep, of the user root)`."""
    try:
        user = pwd.getpwuid(process.user).pw_name
    except (KeyError, OverflowError):
        user = str(process.user) if process.user >= 0 else ""
    about = ", ".join(filter(None, [process.name, user and f"of the user {user}"]))
    return f"The process {process.pid}{about and f' ({about})'}"
