"""Files that flags and arguments name: `--config`, a mapping in YAML or JSON, and texts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from reprlib import repr as short
from typing import Any

import msgspec

from vtrain.command_log import is_repeated
from vtrain.errors import ConfigError, FieldError
from vtrain.settings import user_path
from vtrain.special_files import why_special
from vtrain.text_files import decoded, encoding_of

_GONE = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Where paths begin that are gone with the command that read them: `<(…)` of a shell gives `/dev/fd/63`."""
_PARENTS = ("", "jobSpec.", "trialJobSpec.", "trainingTaskInputs.", "trainingTaskInputs.trialJobSpec.")
"""The places in a file from which the path of a field is counted."""


class ConfigFile(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a file and its content, and the name that errors give it.

    `renamed` is the beginning of a field's path in the content, and what it is in the file.
    """

    origin: str
    text: str
    content: dict[Any, Any]
    renamed: tuple[str, str] = ("", "")

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Name the file in a ConfigError about its content, and the line of the field that is wrong."""
        try:
            yield
        except ConfigError as error:
            raise self._blame(error) from error

    def blame_line(self, error: FieldError) -> ConfigError:
        """The error with the file and the line in front; unchanged where no line of the file is meant."""
        return self._blame(error) if self.line_of(error.path) else error

    def _blame(self, error: ConfigError) -> ConfigError:
        line = self.line_of(self._in_file(error.path)) if isinstance(error, FieldError) else 0
        place = f"{self.origin}:{line}" if line else self.origin
        return ConfigError(f"{place}: {self._in_file(error.message)}", hint=error.hint)

    def _in_file(self, text: str) -> str:
        """A path, or the sentence that begins with one, as the file has it."""
        here, there = self.renamed
        return there + text.removeprefix(here) if here and text.startswith(here) else text

    def line_of(self, path: str) -> int:
        """The line of a field, or of the nearest one above it that is there; 0 where none is.

        The path begins at the job or, for a field that it lacks, at its spec, its task or its trials.
        """
        from vtrain.messages.yaml_reader import line_of

        return line_of(self.text, *(f"{parent}{path}" for parent in _PARENTS))


def read_config(path: str, expected: str) -> ConfigFile:
    """The mapping in a file; `-` is standard input.

    Raises ConfigError for a file that cannot be read, and for one that holds something else.
    """
    from vtrain.messages.yaml_reader import load_yaml

    origin = origin_of(path)
    text = read_text(path, "--config")
    content = load_yaml(text, origin)
    if not isinstance(content, dict):
        found = "nothing" if content is None else short(content)[:60]
        raise ConfigError(f"{origin}: expected {expected}, found {found}.")
    return ConfigFile(origin=origin, text=text, content=content)


def check_not_legacy(content: dict[Any, Any]) -> None:
    """Raise ConfigError for a job of AI Platform Training."""
    found = next((name for name in ("trainingInput", "training_input") if name in content), None)
    if found is not None:
        raise ConfigError(
            f"{found} describes a job of AI Platform Training, which Vertex AI has replaced.",
            hint="Write workerPoolSpecs: machineSpec.machineType in place of scaleTier and masterType, "
            "and a pythonPackageSpec in place of pythonModule, packageUris and args. It works as it is with: "
            "vtrain ai-platform jobs submit training JOB --config=FILE",
        )


def origin_of(path: str) -> str:
    """The name of a file in errors."""
    return "standard input" if path == "-" else path


def read_text(path: str, flag: str) -> str:
    """The text of the file that a flag names. Raises ConfigError where it cannot be read, or is no text."""
    if not path:  # the current folder, as a path
        raise ConfigError(f"{flag}: the name of the file is empty.", hint=f"Give {flag}=FILE.")
    if is_repeated() and (path == "-" or path.startswith(_GONE)):
        raise ConfigError(
            f"The job's {flag} came from standard input or a pipe, which is not kept.",
            hint=f"Write it to a file and create a job with {flag}=FILE.",
        )
    reason = why_special(user_path(path)) if path != "-" else ""
    if reason == "it is a device":  # which may give without end; a pipe that is named here has a writer
        raise ConfigError(f"{flag}: cannot read {path}: {reason}.")
    try:
        data = sys.stdin.buffer.read() if path == "-" else user_path(path).read_bytes()
        return decoded(data)
    except OSError as error:
        raise ConfigError(f"{flag}: cannot read {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        encoding = encoding_of(data) or "UTF-8"
        raise ConfigError(f"{flag}: {path} is not {encoding} text.") from error
