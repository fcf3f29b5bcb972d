"""Files that flags name: `--config`, a mapping in YAML or JSON, and `--flags-file`, a list of flags."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from reprlib import repr as short
from typing import TYPE_CHECKING, Any

import msgspec

from vtrain.command_log import is_repeated
from vtrain.errors import ConfigError, FieldError, UsageError
from vtrain.flags.grammar import join_items
from vtrain.settings import user_path
from vtrain.special_files import why_special
from vtrain.text_files import decoded, encoding_of

if TYPE_CHECKING:
    from vtrain.messages.yaml_reader import YamlEntry


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
            line = self.line_of(self._in_file(error.path)) if isinstance(error, FieldError) else 0
            place = f"{self.origin}:{line}" if line else self.origin
            raise ConfigError(f"{place}: {self._in_file(error.message)}", hint=error.hint) from error

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


FLAG = "--flags-file"
_GONE = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Where paths begin that are gone with the command that read them: `<(…)` of a shell gives `/dev/fd/63`."""
ONE_EACH = frozenset({"--env", "--set", "--mount", "--add-host", "--allowed-host", "--cap-add", "--ulimit"})
"""Flags that hold one item each and are repeated for more; a list of others is one value."""


def expand_flags_files(argv: Sequence[str]) -> list[str]:
    """The words with each `--flags-file=FILE` replaced by the flags in the file.

    Raises ConfigError for a file that cannot be read or names itself, UsageError for a key that is no flag.
    """
    words: list[str] = []
    rest = iter(argv)
    for word in rest:
        name, equals, path = word.partition("=")
        if word == FLAG:
            path = next(rest, "")
        if name != FLAG or not (equals or path):
            words.append(word)
        else:
            words += _flags_in(path, ())
    return words


def _flags_in(path: str, above: tuple[str, ...]) -> Iterator[str]:
    if path in above:
        raise ConfigError(f"{FLAG}: {path} names itself, by way of {' > '.join((*above, path))}.")
    from vtrain.messages.yaml_reader import load_entries

    origin, text = origin_of(path), read_text(path, FLAG)
    if not text.strip():
        raise ConfigError(f"{FLAG}: {path} is empty.", hint="Write one --flag: value per line.")
    for entry in load_entries(text, origin):
        if entry.key == FLAG:
            paths = entry.value if isinstance(entry.value, list) else [entry.value]
            for nested in paths:
                yield from _flags_in(_scalar(nested), (*above, path))
        else:
            yield from _words(entry, origin)


def _words(entry: YamlEntry, origin: str) -> list[str]:
    """The words of one flag. None gives the bare flag, false its opposite: gcloud takes false for true."""
    flag, value = entry.key, entry.value
    if not flag.startswith("-"):
        raise UsageError(f"{origin}:{entry.line}: {flag!r} is not a flag.", hint=f"Write --{flag}.")
    if value is None or value is True:
        return [flag]
    if value is False:
        return [f"--{flag[5:]}" if flag.startswith("--no-") else f"--no-{flag.removeprefix('--')}"]
    return [f"{flag}={text}" for text in _values(flag, value)]


def _values(flag: str, value: Any) -> list[str]:
    """The values of a flag, one for each of its repetitions."""
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        return [text for item in value for text in _values(flag, item)]
    if isinstance(value, Mapping):
        items = [f"{key}={_inner(content)}" for key, content in value.items()]
    elif isinstance(value, list):
        items = [_scalar(item) for item in value]
    else:
        return [_scalar(value)]
    return items if flag in ONE_EACH else [join_items(items)]


def _inner(value: Any) -> str:
    """A value of a mapping; lists inside a dictionary are split on ';'."""
    return join_items([_scalar(item) for item in value], ";") if isinstance(value, list) else _scalar(value)


def _scalar(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, Mapping)):
        raise ConfigError(f"{FLAG}: {short(value)[:60]} lies too deep for the value of a flag.")
    return str(value)
