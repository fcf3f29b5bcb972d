"""Stays with one replica from its start to its end: `python -I -S shim.py FOLDER LOCK`.

As containerd's shims do, it owns the replica's pipes, adopts grandchildren, stores what is written,
and writes the exit code in one piece, so that a supervisor that dies costs nothing. SIGTERM to the
shim stops the replica: SIGTERM to every descendant, and SIGKILL after the grace period. Standard
library only, and little of it: it lives as long as the trainer does.
"""

# ruff: noqa: PTH100, PTH104, PTH120, PTH123
# pathlib would cost more than all the rest of the start.

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vtrain.engine.journal import STDERR, STDOUT, JournalWriter
    from vtrain.engine.process_tree import descendants, signal_all
else:  # alone, without the package: importing vtrain would take its dependencies along
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from journal import STDERR, STDOUT, JournalWriter
    from process_tree import descendants, signal_all

PIPE_BYTES = 1024 * 1024
LEFTOVER_GRACE_SECONDS = 2.0
"""What descendants get after the replica's own process has ended, before SIGKILL."""
TICK_SECONDS = 0.02
BUSY_PAUSE_SECONDS = 0.001
"""Pause between reads under load, so that one read takes many lines."""
RESERVED_BYTES = 4096

_F_SETPIPE_SZ = 1031
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform.startswith("linux")
_MAXRSS_UNIT = 1024 if _LINUX else 1
_EXIT_CODES = {errno.ENOENT: 127, errno.ENOTDIR: 127}


def main(folder: str, lock: int) -> None:
    """Run the replica described in FOLDER/spec.json. `lock` is the held lock that says: it has a shim."""
    os.set_inheritable(lock, False)
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    with open(f"{folder}/spec.json", "rb") as file:
        spec = json.load(file)
    Shim(folder, spec).run()
    os._exit(0)  # all is written; Python's own farewell would only keep the lock longer


class Shim:
    """One replica's life."""

    def __init__(self, folder: str, spec: dict) -> None:  # type: ignore[type-arg]
        self._folder = folder
        self._spec = spec
        self._report: dict[str, object] = {"code": None, "signal": 0, "message": "", "stopped": False}
        self._journal = JournalWriter(spec["log"], spec["attempt"])
        self._pipes: dict[int, int] = {}
        self._poller = select.poll()
        self._buffer = memoryview(bytearray(PIPE_BYTES))
        self._child = 0
        self._deadline = 0.0
        self._terminated: set[int] = set()
        self._last_read = 0.0
        self._cpu_seconds = 0.0
        self._peak_memory = 0

    def run(self) -> None:
        """Start, pump until nothing of the replica is left, report."""
        self._reserve_report()
        wake = self._listen()
        oom_kills = count_oom_kills()
        self._report["started"] = time.time()
        self._start()
        self._notify()
        while not self._finished():
            self._wait(wake)
        for pipe in list(self._pipes):
            while self._read(pipe):
                pass
        self._report["oom"] = count_oom_kills() > oom_kills
        self._write_report()
        self._notify()

    def _listen(self) -> int:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_stop)
        for ignored in (signal.SIGINT, signal.SIGHUP):
            signal.signal(ignored, signal.SIG_IGN)
        self._poller.register(reading, select.POLLIN)
        set_process_control(_PR_SET_CHILD_SUBREAPER, 1)
        return reading

    def _on_stop(self, *_: object) -> None:
        self._report["stopped"] = True

    def _start(self) -> None:
        out, err, failure = os.pipe(), os.pipe(), os.pipe()
        self._child = os.fork()
        if self._child == 0:
            become_trainer(self._spec, out[1], err[1], failure[1])
        for writing in (out[1], err[1], failure[1]):
            os.close(writing)
        for reading, stream in ((out[0], STDOUT), (err[0], STDERR)):
            self._adopt_pipe(reading, stream)
        with os.fdopen(failure[0], "rb") as file:
            told = file.read()
        if told:
            os.waitpid(self._child, 0)
            code, _, message = told.decode("utf-8", "replace").partition(" ")
            self._report.update(code=int(code), message=message)
        else:
            told_pipes = [out[0], err[0]]
            started = {"pid": self._child, "time": time.time(), "pipes": told_pipes}
            write_json(f"{self._folder}/started.json", started)

    def _adopt_pipe(self, pipe: int, stream: int) -> None:
        if _LINUX:
            try:
                fcntl.fcntl(pipe, _F_SETPIPE_SZ, PIPE_BYTES)
            except OSError:
                self._report["small_pipes"] = True
        os.set_blocking(pipe, False)
        self._pipes[pipe] = stream
        self._poller.register(pipe, select.POLLIN)

    def _wait(self, wake: int) -> None:
        ending = self._report["stopped"] or self._report["code"] is not None
        for ready, _ in self._poller.poll(TICK_SECONDS * 1000 if ending else None):
            if ready == wake:
                os.read(wake, 4096)
            else:
                self._read(ready)
        now = time.monotonic()
        if now - self._last_read < 2 * BUSY_PAUSE_SECONDS:
            time.sleep(BUSY_PAUSE_SECONDS)
        self._last_read = now

    def _read(self, pipe: int) -> bool:
        """Store what is there; False when there is nothing more (for now, or ever)."""
        try:
            count = os.readv(pipe, [self._buffer])
        except BlockingIOError:
            return False
        if count:
            self._journal.write(self._buffer[:count], self._pipes[pipe])
            return True
        self._poller.unregister(pipe)
        del self._pipes[pipe]
        os.close(pipe)
        return False

    def _finished(self) -> bool:
        self._reap()
        exited = self._report["code"] is not None
        if not exited and not self._report["stopped"]:
            return False
        left = descendants(self._child)
        if exited and not left:
            return True
        self._end(left, exited)
        return False

    def _reap(self) -> None:
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._add_usage(used)
            if pid == self._child:
                self._record_exit(os.waitstatus_to_exitcode(status))

    def _add_usage(self, used) -> None:  # type: ignore[no-untyped-def]
        self._cpu_seconds += used.ru_utime + used.ru_stime
        self._peak_memory = max(self._peak_memory, used.ru_maxrss * _MAXRSS_UNIT)

    def _record_exit(self, code: int) -> None:
        self._report["code"] = code if code >= 0 else 128 - code
        self._report["signal"] = max(-code, 0)
        self._report["ended"] = time.time()
        if not self._report["stopped"]:
            self._deadline = 0.0

    def _end(self, left: set[int], exited: bool) -> None:
        now = time.monotonic()
        if not self._deadline:
            self._deadline = now + (LEFTOVER_GRACE_SECONDS if exited else self._spec["grace_seconds"])
        if now >= self._deadline:
            signal_all(left, signal.SIGKILL)
        else:
            signal_all(left - self._terminated, signal.SIGTERM)
            self._terminated |= left

    def _reserve_report(self) -> None:
        # A disk that fills up later must still take the exit code.
        with open(f"{self._folder}/exit.json.tmp", "wb") as file:
            file.write(b" " * RESERVED_BYTES)
            file.flush()
            os.fsync(file.fileno())

    def _write_report(self) -> None:
        self._journal.close()
        self._report.setdefault("ended", time.time())
        self._report["log_lost_bytes"] = self._journal.lost
        self._report["peak_memory_bytes"] = self._peak_memory
        self._report["cpu_seconds"] = self._cpu_seconds
        text = json.dumps(self._report).encode()
        with open(f"{self._folder}/exit.json.tmp", "r+b") as file:
            file.write(text)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        os.rename(f"{self._folder}/exit.json.tmp", f"{self._folder}/exit.json")

    def _notify(self) -> None:
        try:
            fifo = os.open(self._spec["wake"], os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return  # no supervisor lives; the one that takes over reads the files
        try:
            os.write(fifo, b".")
        except (BlockingIOError, BrokenPipeError):
            return  # it has been woken often enough, or it died just now
        finally:
            os.close(fifo)


def become_trainer(spec: dict, out: int, err: int, failure: int) -> None:  # type: ignore[type-arg]
    """In the forked child: become the trainer's program, or say through `failure` why not."""
    wanted = spec["cwd"]
    try:
        parent = os.getppid()
        os.setsid()
        if spec.get("gcs"):
            wanted = f"{spec['gcs']} as /gcs"
            show_buckets_of(spec["gcs"])
            wanted = spec["cwd"]
        set_process_control(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (out, 1), (err, 2)):
            os.dup2(source, target)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        os.chdir(wanted)
        wanted = spec["argv"][0]
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])
    except OSError as error:
        code = _EXIT_CODES.get(error.errno or 0, 126)
        os.write(failure, f"{code} {error.strerror}: {wanted}".encode())
    os._exit(127)


def show_buckets_of(folder: str) -> None:
    """Mount /gcs for this process. Imported by those replicas only that want it."""
    if TYPE_CHECKING:
        from vtrain.engine.bucket_mount import show_buckets
    else:
        from bucket_mount import show_buckets
    show_buckets(folder)


def set_process_control(option: int, value: int) -> None:
    """Linux's prctl(2); elsewhere nothing."""
    if _LINUX:
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def count_oom_kills() -> int:
    """How many processes the kernel has ended for want of memory since it started."""
    try:
        with open("/proc/vmstat", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(b"oom_kill ")), 0)


def write_json(path: str, document: dict) -> None:  # type: ignore[type-arg]
    """Write a small file in one piece."""
    with open(path + ".tmp", "w") as file:
        json.dump(document, file)
    os.rename(path + ".tmp", path)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
