"""vtrain's own log, with one line per command, and crash reports; both below vtrain's home."""

from __future__ import annotations

import fcntl
import os
import shlex
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TextIO

import msgspec

from vtrain import __version__
from vtrain.atomic import publish_file
from vtrain.errors import StorageError, VtrainError
from vtrain.messages.secrets import masked_text, masked_words
from vtrain.privacy import FILE_MODE, FOLDER_MODE, make_private
from vtrain.settings import home_folder
from vtrain.times import from_epoch

MAX_LOG_BYTES = 1_000_000
_ENV = "--env"
_LISTS = ("--args", "--command")


_current: ContextVar[tuple[str, ...]] = ContextVar("current_command", default=())
_is_repeated: ContextVar[bool] = ContextVar("is_repeated", default=False)


class CommandRecord(msgspec.Struct):
    """The result of one command, for its line in the log."""

    exit_code: int = 1


@contextmanager
def record_command(argv: Sequence[str], *, is_repeated: bool = False) -> Iterator[CommandRecord]:
    """Add a line about this command to `logs/vtrain.log` (or `VTRAIN_LOG`) when it ends."""
    record, started = CommandRecord(), time.time()
    token = _current.set(tuple(argv))
    repeated = _is_repeated.set(is_repeated)
    try:
        yield record
    finally:
        _current.reset(token)
        _is_repeated.reset(repeated)
        stamp = from_epoch(started, 0)
        spent = f"{time.time() - started:.3f}s"
        line = f"{stamp} pid={os.getpid()} exit={record.exit_code} {spent} {masked_line(argv)}\n"
        _keep(line)


def split_line(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of a line: vtrain's own, and from `--` on the trainer's."""
    cut = words.index("--") if "--" in words else len(words)
    return (*words[:cut],), (*words[cut:],)


def current_command() -> tuple[str, ...]:
    """The words of the command line that runs now; none in a program that uses vtrain as a library."""
    return _current.get()


def is_repeated() -> bool:
    """Whether `rerun` runs the command line."""
    return _is_repeated.get()


def _keep(line: str) -> None:
    """Append to the log, which is never why a command fails; one that `VTRAIN_LOG` names is warned about."""
    named = os.environ.get("VTRAIN_LOG")
    try:
        _append(Path(named) if named else home_folder() / "logs" / "vtrain.log", line, own_folder=not named)
    except (OSError, StorageError) as error:
        if named and isinstance(error, OSError):
            with suppress(OSError):
                sys.stderr.write(f"WARNING: VTRAIN_LOG: cannot write to {named}: {error.strerror}.\n")


def masked_line(argv: Sequence[str]) -> str:
    """The command line without secrets and the values of `--env`, as reports are passed on."""
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
    """The masked value of a flag that holds a command line: `A,B`, or `^;^A;B`."""
    _, delimiter, words = (
        value.split("^", 2) if value.startswith("^") and "^" in value[1:] else ("", "", value)
    )
    head = f"^{delimiter}^" if delimiter else ""
    delimiter = delimiter or ","
    return head + delimiter.join(masked_words(words.split(delimiter)))


def _append(file: Path, line: str, *, own_folder: bool) -> None:
    """Append to the log, and keep one older part of at most a megabyte.

    With `own_folder`, the log's folder in vtrain's home is made, but no home. Raises OSError.
    """
    if own_folder and not file.parent.is_dir():
        if not file.parent.parent.is_dir():
            return
        file.parent.mkdir(mode=FOLDER_MODE, exist_ok=True)
    with _opened(file) as log:
        own = os.fstat(log.fileno())
        if not stat.S_ISREG(own.st_mode) or own.st_size <= MAX_LOG_BYTES:
            log.write(line)
            return
        fcntl.flock(log, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):  # another command has just renamed it
            if os.path.samestat(own, file.stat()):
                file.replace(file.with_suffix(".log.1"))
    with _opened(file) as log:
        log.write(line)


def _opened(file: Path) -> TextIO:
    # Without blocking: VTRAIN_LOG may name a FIFO that nobody reads.
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, FILE_MODE)
    return os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")


def write_crash_report(argv: Sequence[str], error: Exception) -> VtrainError:
    """Write an unexpected error to a file for a report; the returned error names the file."""
    import platform
    import traceback

    text = "\n".join(
        [
            f"vtrain {__version__}, Python {platform.python_version()}, {platform.platform()}",
            f"command: vtrain {masked_line(argv)}",
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
