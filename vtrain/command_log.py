"""vtrain's own log, a line a command, and crash reports; both below its home."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from vtrain.atomic import publish_file
from vtrain.errors import StorageError, VtrainError
from vtrain.messages.secrets import masked_text, masked_words
from vtrain.privacy import FILE_MODE, FOLDER_MODE, close_to_others, make_private
from vtrain.settings import home_folder

MAX_LOG_BYTES = 1_000_000
_ENV = "--env"
_LISTS = ("--args", "--command")


class CommandRecord(msgspec.Struct):
    """What the log will say about one command."""

    exit_code: int = 1


@contextmanager
def record_command(argv: Sequence[str]) -> Iterator[CommandRecord]:
    """Add a line about this command to `logs/vtrain.log` (or `VTRAIN_LOG`) when it ends."""
    record, started = CommandRecord(), time.time()
    try:
        yield record
    finally:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started))
        spent = f"{time.time() - started:.3f}s"
        line = f"{stamp} pid={os.getpid()} exit={record.exit_code} {spent} {_masked(argv)}\n"
        with suppress(OSError, StorageError):  # the log must never be why a command fails
            _append(_log_file(), line)


def _masked(argv: Sequence[str]) -> str:
    """The command line without secrets and the values of `--env`: reports are passed around."""
    words, before = [], ""
    for word in argv:
        flag, equals, rest = word.partition("=")
        if not (equals and flag in (_ENV, *_LISTS)):
            flag, equals, rest = before, "", word
        if flag == _ENV:
            rest = rest.partition("=")[0] + "=…"
        elif flag in _LISTS:
            rest = _masked_list(rest)
        words.append(flag + equals + rest if equals else rest)
        before = word
    return masked_text(shlex.join(masked_words(words)), argv, os.environ)


def _masked_list(value: str) -> str:
    """The value of a flag that holds words of a command line: `A,B`, or `^;^A;B`."""
    _, delimiter, words = (
        value.split("^", 2) if value.startswith("^") and "^" in value[1:] else ("", "", value)
    )
    head = f"^{delimiter}^" if delimiter else ""
    delimiter = delimiter or ","
    return head + delimiter.join(masked_words(words.split(delimiter)))


def _log_file() -> Path:
    return Path(os.environ.get("VTRAIN_LOG") or home_folder() / "logs" / "vtrain.log")


def _append(file: Path, line: str) -> None:
    """Append to the log, which keeps one older part of at most a megabyte. Makes no home for it."""
    if not file.parent.is_dir():
        if not file.parent.parent.is_dir():
            return
        file.parent.mkdir(mode=FOLDER_MODE, exist_ok=True)
    if file.exists() and file.stat().st_size > MAX_LOG_BYTES:
        file.replace(file.with_suffix(".log.1"))
    if file.parent.parent == home_folder():
        close_to_others(file)  # older versions left it open
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE_MODE)
    with os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace") as log:
        log.write(line)


def write_crash_report(argv: Sequence[str], error: Exception) -> VtrainError:
    """Keep an unexpected error in a file that can be attached to a report; say where it lies."""
    import platform
    import traceback

    from vtrain import __version__

    text = "\n".join(
        [
            f"vtrain {__version__}, Python {platform.python_version()}, {platform.platform()}",
            f"command: vtrain {_masked(argv)}",
            masked_text("".join(traceback.format_exception(error)), argv, os.environ),
        ]
    )
    reason = masked_text(f"{type(error).__name__}: {error}", argv, os.environ)
    message = f"vtrain failed unexpectedly: {reason}."
    try:
        file = home_folder() / "logs" / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
        make_private(file.parent)
        publish_file(file, text.encode("utf-8", "backslashreplace"))
    except (OSError, StorageError):
        sys.stderr.write(text)
        return VtrainError(message, hint="Please report it with the text above.")
    return VtrainError(message, hint=f"Please report it with {file}.")
