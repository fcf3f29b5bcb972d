"""gcloud's value grammar: lists `a,b`, dictionaries `k=v,k=v`, other delimiters by `^D^`, durations."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Sequence

from vtrain.errors import ConfigError, UsageError
from vtrain.messages.nearest import did_you_mean
from vtrain.sizes import read_size

_DURATION_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_MOST_DIGITS = 1000
"""More than any field takes; Python reads 4300 at most."""
_DELIMITERS = tuple(map(ord, ",;|:#~/@!"))
"""Delimiters of a list instead of ',', in the order of preference."""
POOL_FLAG = "--worker-pool-spec"
POOL_FIELDS = {
    "machine-type": "machineSpec.machineType",
    "replica-count": "replicaCount",
    "accelerator-type": "machineSpec.acceleratorType",
    "accelerator-count": "machineSpec.acceleratorCount",
    "container-image-uri": "containerSpec.imageUri",
    "executor-image-uri": "pythonPackageSpec.executorImageUri",
    "python-module": "pythonPackageSpec.pythonModule",
}
"""The fields of a WorkerPoolSpec that keys of `--worker-pool-spec` set."""
_TRAINER_KEYS = ("local-package-path", "script", "requirements", "extra-packages", "extra-dirs")
POOL_KEYS = frozenset((*POOL_FIELDS, *_TRAINER_KEYS, "output-image-uri"))


def split_list(text: str, flag: str, delimiter: str = ",") -> tuple[str, ...]:
    """The items of a list value: no quoting, `^D^` at the start changes the delimiter.

    One trailing delimiter is swallowed, inner empty items stay, an empty value is the empty list.
    Raises UsageError for an empty delimiter. Source: `gcloud topic escaping`.
    """
    match = re.match(r"\^([^^]*)\^", text)
    if match:
        delimiter, text = match[1], text[match.end() :]
        if not delimiter:
            raise UsageError(
                f"{flag}: the delimiter between the two '^' is empty.", hint="Write ^;^a;b to split on ';'."
            )
    if not text:
        return ()
    return tuple(text.removesuffix(delimiter).split(delimiter))


def join_items(items: Sequence[str], delimiter: str = ",") -> str:
    """The value that `split_list` reads as these items, with another delimiter where it has to be."""
    if any(delimiter in item for item in items):
        used = {letter for item in items for letter in item} | {"^"}
        letters = map(chr, (*_DELIMITERS, *range(0xA1, 0xD800)))
        chosen = next(letter for letter in letters if letter not in used)
        return f"^{chosen}^{_joined(items, chosen)}"
    text = _joined(items, delimiter)
    return f"^{delimiter}^{text}" if text.startswith("^") else text


def _joined(items: Sequence[str], delimiter: str) -> str:
    """Join the items, with one more delimiter after an empty last item: `split_list` drops a trailing one."""
    return delimiter.join(items) + (delimiter if items and not items[-1] else "")


def split_dict(text: str, flag: str, keys: Collection[str] = ()) -> dict[str, str]:
    """The items of a dictionary value, cut at their first `=`; of a repeated key the last counts.

    Raises UsageError for an item without `=` or key, and for a key that is not among `keys`.
    """
    items: dict[str, str] = {}
    for item in split_list(text, flag):
        key, equals, value = item.partition("=")
        if not equals or not key:
            escape = "A value that holds ',' needs another delimiter: begin with ^;^ and separate by ';'."
            hint = f"Write {item}=VALUE." if item in keys else escape
            raise UsageError(f"{flag}: expected KEY=VALUE, found {item!r}.", hint=hint)
        if keys and key not in keys:
            every = f"The keys are {', '.join(sorted(keys))}."
            hint = did_you_mean(key.strip().replace("_", "-"), keys, otherwise=every)
            raise UsageError(f"{flag}: there is no key {key!r}.", hint=hint)
        items[key] = value
    return items


def whole_number(text: str, what: str) -> int:
    """An integer as gcloud reads it. Raises UsageError for anything else."""
    if len(text) > _MOST_DIGITS or not re.fullmatch(r"\s*[-+]?\d+(_\d+)*\s*", text):
        raise UsageError(f"{what}: expected a whole number, found {text!r}.")
    return int(text)


def duration_seconds(text: str, flag: str) -> float:
    """Seconds in `90`, `90s`, `30m`, `2h`, `1h30m`, `7d`. Raises UsageError for anything else."""
    from vtrain.messages.structs import MOST_SECONDS  # the messages are not imported by every command

    parts = re.findall(r"([0-9]+(?:\.[0-9]+)?)([a-z]?)", text)
    whole = "".join(number + unit for number, unit in parts) == text
    if not text or not whole or any(unit not in _DURATION_UNITS for _, unit in parts):
        raise UsageError(f"{flag}: expected a duration such as 90s, 30m or 2h, found {text!r}.")
    seconds = sum(float(number) * _DURATION_UNITS[unit] for number, unit in parts)
    if seconds > MOST_SECONDS:
        raise UsageError(f"{flag}: {text:.100} is longer than the API's longest duration, 10,000 years.")
    return seconds


def proto_duration(text: str, flag: str) -> str:
    """The same in the API's form: `"3600s"`."""
    return f"{duration_seconds(text, flag):.9f}".rstrip("0").rstrip(".") + "s"


def size_in_bytes(text: str, flag: str) -> int:
    """The bytes of `64m` or `1.5g`; units are powers of 1024. Raises UsageError for other text, and for 0."""
    try:
        return read_size(text)
    except ValueError:
        raise UsageError(f"{flag}: {text!r} is not a size.", hint="Write 512m or 2g.") from None


def positive_number(text: str, flag: str) -> int:
    """A whole number from 1. Raises UsageError for anything else."""
    number = whole_number(text, flag)
    if number < 1:
        raise UsageError(f"{flag}: expected 1 or more, found {number}.")
    return number


def gigabytes(text: str, flag: str) -> int:
    """The number in `200` or `200GB`. Raises UsageError for anything else."""
    return positive_number(re.sub(r"(?i)\s*gi?b?\Z", "", text), flag)


def accelerator(text: str, flag: str) -> dict[str, str | int]:
    """The MachineSpec's part that `T4:2` names, as `accelerator_named` reads it."""
    from vtrain.messages.hardware import accelerator_named  # the messages are not imported by every command

    return accelerator_named(text, flag)


def join_lists(values: Iterable[str], flag: str) -> tuple[str, ...]:
    """The items of a repeatable list flag, in order."""
    return tuple(item for value in values for item in split_list(value, flag))


def join_dicts(values: Iterable[str], flag: str) -> dict[str, str]:
    """The items of a repeatable dictionary flag. Raises UsageError for a key in two of them."""
    merged: dict[str, str] = {}
    for value in values:
        items = split_dict(value, flag)
        for key in items:
            if key in merged:
                raise UsageError(f"{flag}: {key!r} is given more than once: {merged[key]}, {items[key]}.")
        merged |= items
    return merged


def count_or_unlimited(text: str, flag: str) -> int | None:
    """A whole number from 1, or None for `unlimited`."""
    if text == "unlimited":
        return None
    return min(positive_number(text, flag), sys.maxsize)  # there is no more of anything


def labels(values: list[str], flag: str) -> dict[str, str]:
    """The labels of a repeated flag, sorted as gcloud sends them. Raises UsageError for any that is none."""
    from vtrain.messages.rules import check_labels  # the messages are not imported by every command

    found = join_dicts(values, flag)
    try:
        check_labels(found)
    except ConfigError as error:
        raise UsageError(f"{flag}: {error.message.removeprefix('labels: ')}", hint=error.hint) from error
    return dict(sorted(found.items()))


def variables(values: list[str], flag: str) -> list[dict[str, str]]:
    """The variables of a container, as messages have them."""
    return [{"name": name, "value": value} for name, value in join_dicts(values, flag).items()]


def split_env(values: Iterable[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """`--env`, repeated: the variables with a value, and the names whose value the caller has.

    A value may hold anything, commas too. Of a name that is given twice the last counts. Raises UsageError
    for what is neither.
    """
    from vtrain.messages.rules import ENV_NAME  # the messages are not imported by every command

    given: dict[str, str | None] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not ENV_NAME.fullmatch(name):
            raise UsageError(
                f"--env: expected NAME=VALUE or NAME, found {text!r}.",
                hint="Repeat --env for each variable.",
            )
        given[name] = value if equals else None
    with_value = {name: value for name, value in given.items() if value is not None}
    return with_value, tuple(name for name, value in given.items() if value is None)


def account(text: str, flag: str) -> str:
    """A service account. Raises UsageError for what is neither an e-mail nor a number."""
    from vtrain.messages.rules import ACCOUNT_HINT, is_account  # for a flag that few lines have

    if not is_account(text):
        raise UsageError(f"{flag}: {text!r} is not an account.", hint=ACCOUNT_HINT)
    return text
