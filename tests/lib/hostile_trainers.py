"""Trainers that misbehave: programs of the standard library alone, what they write, and how they end.

Each is a function of its volume, so that the default tests take a little and the chaos session takes a lot.
`code` runs as a module or by `python -c`, on any backend.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from vtrain.backends import JobBackend
from vtrain.messages.log import LogEntry, LogQuery

PRIMARY = "workerpool0-0"
PIECE_BYTES = 1024 * 1024


class Written(NamedTuple):
    """How much was written to a stream, and the digest of it: 200 MB need not be held twice."""

    size: int
    digest: str


class Trainer(NamedTuple):
    """A program, the code it ends with, and what it writes to stdout in each attempt (None: not known)."""

    code: str
    exit_code: int
    stdout: Callable[[], Iterator[bytes]] | None = None


def grandchildren(count: int) -> Trainer:
    """Daemons, as careless programs make them: two forks, a session of their own, deaf, output held open.

    Writes the id of each as a line; they would live for ten minutes.
    """
    return Trainer(_GRANDCHILDREN.format(count=count), 0)


def deaf() -> Trainer:
    """Ignores every signal that can be ignored, and counts lines without end."""
    return Trainer(_DEAF, 137)


def closed_output(lines: int, *, exit_code: int = 7) -> Trainer:
    """Writes to both streams, closes them, works on for a moment, and ends."""
    return Trainer(_CLOSED.format(lines=lines, exit_code=exit_code), exit_code, lambda: numbered(lines))


def one_long_line(size: int) -> Trainer:
    """Writes that many bytes without a newline, as fast as it can."""
    return Trainer(_LONG_LINE.format(size=size), 0, lambda: long_line(size))


def many_lines(count: int) -> Trainer:
    """Writes that many numbered lines, as fast as it can."""
    return Trainer(_MANY_LINES.format(count=count), 0, lambda: numbered(count))


def at_once(exit_code: int = 3) -> Trainer:
    """Ends as soon as it begins, a last word without a newline behind it."""
    return Trainer(
        f"import os; os.write(1, b'gone'); os._exit({exit_code})", exit_code, lambda: iter([b"gone"])
    )


def hungry(cgroup: str = "") -> Trainer:
    """Takes memory until the kernel ends it; `cgroup` is a folder to join first, which has a limit."""
    return Trainer(_HUNGRY.format(cgroup=cgroup), 137, lambda: iter([b"hungry\n"]))


def crashing(lines: int, signal: str = "SIGSEGV") -> Trainer:
    """Writes lines and the beginning of one, and dies by that signal."""
    code = {"SIGSEGV": 139, "SIGABRT": 134, "SIGBUS": 135}[signal]
    return Trainer(
        _CRASHING.format(lines=lines, signal=signal), code, lambda: iter([*numbered(lines), b"half a line"])
    )


_GRANDCHILDREN = """
import os, signal, time
reading, writing = os.pipe()
for number in range({count}):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(ignored, signal.SIG_IGN)
        os.write(1, b"%d\\n" % os.getpid())
        os.write(writing, b".")
        time.sleep(600)
        os._exit(0)
seen = 0
while seen < {count}:
    seen += len(os.read(reading, 100))
"""

_DEAF = """
import os, signal, time
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
    try:
        signal.signal(number, signal.SIG_IGN)
    except OSError:  # the C library's own
        continue
number = 0
while True:
    os.write(1, b"line %d\\n" % number)
    number += 1
    time.sleep(0.002)
"""

_CLOSED = """
import os, time
for number in range({lines}):
    os.write(1, b"line %d\\n" % number)
    os.write(2, b"line %d\\n" % number)
os.close(1)
os.close(2)
time.sleep(0.3)
os._exit({exit_code})
"""

_LONG_LINE = """
import os
left = {size}
piece = bytes(97 + number % 26 for number in range(65536 * 13))
sent = 0
while sent < left:
    start = sent % 26
    sent += os.write(1, piece[start : start + min(left - sent, 65536)])
"""

_MANY_LINES = """
import os
for start in range(0, {count}, 1000):
    text = b"".join(b"line %d\\n" % number for number in range(start, min(start + 1000, {count})))
    while text:
        text = text[os.write(1, text) :]
"""

_HUNGRY = """
import os
if "{cgroup}":
    with open("{cgroup}/cgroup.procs", "w") as file:
        file.write(str(os.getpid()))
os.write(1, b"hungry\\n")
held = []
while True:
    held.append(bytearray(os.urandom(4096) * 1024))
"""

_CRASHING = """
import os, resource, signal
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
for number in range({lines}):
    os.write(1, b"line %d\\n" % number)
os.write(1, b"half a line")
signal.signal(signal.{signal}, signal.SIG_DFL)
os.kill(os.getpid(), signal.{signal})
"""


def numbered(count: int) -> Iterator[bytes]:
    """`line 0`, `line 1`, …: in pieces."""
    for start in range(0, count, 10_000):
        yield b"".join(b"line %d\n" % number for number in range(start, min(start + 10_000, count)))


def long_line(size: int) -> Iterator[bytes]:
    """The alphabet over and over, `size` bytes of it."""
    piece = bytes(range(97, 123)) * (PIECE_BYTES // 26)
    for start in range(0, size, len(piece)):
        yield piece[: size - start]


def written(pieces: Iterator[bytes]) -> Written:
    """Size and digest of all pieces in a row."""
    size, digest = 0, hashlib.sha256()
    for piece in pieces:
        size += len(piece)
        digest.update(piece)
    return Written(size, digest.hexdigest())


def entries_of(
    backend: JobBackend, name: str, task: str = PRIMARY, *, raw: bool = False, limit: int = 2**20
) -> Iterator[LogEntry]:
    """All entries of a replica that there are now, page by page."""
    cursor = ""
    while True:
        query = LogQuery(name=name, task_name=task, cursor=cursor, raw=raw, limit=limit)
        page = backend.logs(query)
        yield from page.entries
        if not page.entries:
            return
        cursor = page.cursor


def stored(backend: JobBackend, name: str, stream: str = "stdout", *, attempt: int = 0) -> Written:
    """What the log holds of a stream of the primary, byte for byte."""
    entries = entries_of(backend, name, raw=True)
    return written(e.payload for e in entries if (e.stream, e.attempt) == (stream, attempt))


def stored_lines(backend: JobBackend, name: str, stream: str = "stdout", *, attempt: int = 0) -> list[bytes]:
    """The lines that a reader is shown of a stream of the primary, parts of one joined."""
    pieces = [
        entry.payload + (b"" if entry.partial else b"\n")
        for entry in entries_of(backend, name)
        if (entry.stream, entry.attempt) == (stream, attempt)
    ]
    return b"".join(pieces).removesuffix(b"\n").split(b"\n") if pieces else []


def check_stdout(backend: JobBackend, name: str, trainer: Trainer, *, attempt: int = 0) -> None:
    """Assert that the log has what the trainer wrote, once and in order, and that readers are shown it."""
    assert trainer.stdout is not None
    expected = written(trainer.stdout())
    assert stored(backend, name, attempt=attempt) == expected
    text = b"\n".join(stored_lines(backend, name, attempt=attempt)) + b"\n"
    ending = b"" if _ends_a_line(trainer) else b"\n"
    assert written(iter([text])) == written(iter([*trainer.stdout(), ending]))
    ids = [entry.insert_id for entry in entries_of(backend, name)]
    assert len(set(ids)) == len(ids), "an entry came twice"


def _ends_a_line(trainer: Trainer) -> bool:
    assert trainer.stdout is not None
    last = b""
    for piece in trainer.stdout():
        last = piece or last
    return last.endswith(b"\n")
