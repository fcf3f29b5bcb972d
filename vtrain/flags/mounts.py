"""`--mount`, in Docker's own words: `type=bind,source=DIR,target=/DIR,readonly`."""

from __future__ import annotations

import csv
import posixpath
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

from vtrain.backends.replica_options import Mount
from vtrain.errors import ConfigError, UsageError
from vtrain.flags.grammar import size_in_bytes
from vtrain.settings import user_path

MountType = Literal["bind", "volume", "tmpfs"]
KEYS = {
    "type": "type",
    "source": "source",
    "src": "source",
    "target": "target",
    "destination": "target",
    "dst": "target",
    "readonly": "readonly",
    "ro": "readonly",
    "tmpfs-size": "tmpfs-size",
}
TAKEN = {"/gcs": "the buckets are mounted", "/opt/vtrain": "the trainer's code is mounted"}
"""Folders of a container that are vtrain's own."""
EXAMPLE = "Write type=bind,source=FOLDER,target=/FOLDER."
_SWITCH = {"true": True, "1": True, "false": False, "0": False}


def read_mount(text: str) -> Mount:
    """One `--mount`; without a type it is a volume.

    Raises UsageError where it does not parse, ConfigError where there is nothing to bind.
    """
    values = dict(_items(text))
    kind = _type(values.get("type", "volume"))
    source = values.get("source", "")
    _check_source(kind, source, values)
    return Mount(
        type=kind,
        source=str(_bound(source)) if kind == "bind" else source,
        target=_target(values.get("target", "")),
        read_only=_is_read_only(values.get("readonly", "false")),
        tmpfs_size=size_in_bytes(values["tmpfs-size"], "--mount: tmpfs-size")
        if "tmpfs-size" in values
        else 0,
    )


def read_mounts(texts: Sequence[str]) -> tuple[Mount, ...]:
    """All `--mount`s of a command line. Raises UsageError for two at one place."""
    mounts = tuple(read_mount(text) for text in texts)
    targets = [posixpath.normpath(mount.target) for mount in mounts]
    twice = next((target for target in targets if targets.count(target) > 1), "")
    if twice:
        raise UsageError(f"--mount: two have the target {twice}.")
    return mounts


def _items(text: str) -> Iterator[tuple[str, str]]:
    """Keys and values, split as Docker does it: as one row of CSV, so that a quoted item may hold a comma."""
    try:
        row = next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        raise UsageError(f"--mount: {text!r} does not parse: {error}.", hint=EXAMPLE) from error
    for item in row:
        word, equals, value = item.partition("=")
        key = KEYS.get(word.strip().lower())
        if key is None:
            raise UsageError(f"--mount: there is no key {word!r}.", hint=f"The keys are {', '.join(KEYS)}.")
        if not equals and key != "readonly":
            raise UsageError(f"--mount: expected {word}=VALUE, found {item!r}.", hint=EXAMPLE)
        yield key, value if equals else "true"


def _type(text: str) -> MountType:
    for known in get_args(MountType):
        if text.lower() == known:
            found: MountType = known
            return found
    raise UsageError(f"--mount: there is no type {text!r}.", hint="Take bind, volume or tmpfs.")


def _check_source(kind: MountType, source: str, values: dict[str, str]) -> None:
    if kind == "tmpfs" and source:
        raise UsageError("--mount: type=tmpfs has no source.")
    if kind != "tmpfs" and not source:
        raise UsageError(f"--mount: type={kind} needs source=…", hint=EXAMPLE)
    if kind == "volume" and source.startswith((".", "/", "~")):
        raise UsageError(f"--mount: {source} is no name of a volume.", hint=f"To bind a folder: {EXAMPLE}")
    if kind != "tmpfs" and "tmpfs-size" in values:
        raise UsageError("--mount: tmpfs-size goes with type=tmpfs only.")


def _target(text: str) -> str:
    if not text.startswith("/") or not text.strip("/"):
        raise UsageError(f"--mount: target={text} is no absolute path below /.", hint="Write target=/FOLDER.")
    target = posixpath.normpath(text)
    taken = next((own for own in TAKEN if target == own or target.startswith(f"{own}/")), "")
    if taken:
        raise UsageError(
            f"--mount: target={text} lies in {taken}, where {TAKEN[taken]}.", hint="Take another folder."
        )
    return text


def _is_read_only(text: str) -> bool:
    if text.lower() not in _SWITCH:
        raise UsageError(f"--mount: readonly={text} is neither true nor false.")
    return _SWITCH[text.lower()]


def _bound(text: str) -> Path:
    path = user_path(text).absolute()
    if not path.exists():
        raise ConfigError(f"--mount: {path} does not exist.", hint="Docker binds only what is there.")
    return path
