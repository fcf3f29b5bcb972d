"""`--flags-file`: a list of flags in YAML or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from reprlib import repr as short
from typing import TYPE_CHECKING, Any

from vtrain.core.config_file import origin_of, read_text
from vtrain.errors import ConfigError, UsageError
from vtrain.flags.grammar import join_items

if TYPE_CHECKING:
    from vtrain.messages.yaml_reader import YamlEntry

FLAG = "--flags-file"
ONE_EACH = frozenset(
    {
        "--env",
        "--set",
        "--mount",
        "--add-host",
        "--allowed-host",
        "--bucket",
        "--cap-add",
        "--ulimit",
        "--param",
        "--metric",
    }
)
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
