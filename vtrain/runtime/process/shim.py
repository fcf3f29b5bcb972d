"""Stays with one replica from its start to its end: `python -I -S shim.py FOLDER LOCK`.

As containerd's shims do, it owns the replica's pipes, adopts grandchildren, stores what is written,
and writes the exit code in one piece, so that a supervisor that dies costs nothing. SIGTERM to the
shim stops the replica: SIGTERM to every descendant, and SIGKILL after the grace period; SIGQUIT to the
shim kills it now. Standard library only, and little of it: it lives as long as the trainer does.
"""

# ruff: noqa: PTH100, PTH116, PTH120, PTH123
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
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from vtrain.runtime.process.cgroup import join_group, kill_group, make_group, members, remove_group
    from vtrain.runtime.process.exit_report import ExitReport, remove_file, write_json
    from vtrain.runtime.process.journal import STDERR, STDOUT, JournalWriter
    from vtrain.runtime.process.process_tree import (
        LINUX,
        PR_SET_PDEATHSIG,
        Process,
        adopt_orphans,
        boot_id,
        descendants,
        read_stat,
        set_process_control,
        signal_all,
    )
    from vtrain.runtime.process.trainer_terminal import TrainerTerminal
else:  # alone, without the package: importing vtrain would take its dependencies along
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from cgroup import join_group, kill_group, make_group, members, remove_group
    from exit_report import ExitReport, remove_file, write_json
    from journal import STDERR, STDOUT, JournalWriter
    from process_tree import (
        LINUX,
        PR_SET_PDEATHSIG,
        adopt_orphans,
        boot_id,
        descendants,
        read_stat,
        set_process_control,
        signal_all,
    )

PIPE_BYTES = 1024 * 1024
"""The size of each pipe, and of a read. With the kernel's 64 KiB a trainer that writes much would wait."""
TERMINAL_BYTES = 64 * 1024
"""How much is read of a terminal in one go."""
LEFTOVER_GRACE_SECONDS = 2.0
"""Seconds that descendants get after the replica's own process has ended, before SIGKILL."""
CHANGED_SIGNALS = (
    *(signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ),
    *(signal.SIGTERM, signal.SIGQUIT),
)
"""The signals that Python or this module handles, which the program of a replica gets as they were."""
KILL_SECONDS = 2.0
"""How long processes may take to be gone that have been sent SIGKILL; the job's end waits no longer."""
TICK_SECONDS = 0.02
"""Pause between two looks at processes that have to end: the kernel tells only of the end of children."""
LIST_SECONDS = 1.0
"""How often the list of processes is brought up to date, where there is no cgroup."""
BUSY_PAUSE_SECONDS = 0.001
"""Pause between reads under load, so that one read takes many lines."""
MOST_LEFT = 20
"""How many of the processes that could not be ended are named."""
LEFT_CODE = 255
"""The exit code of a program that could not be ended itself."""

_F_SETPIPE_SZ = 1031
_NEWLINE = 10
_EXIT_CODES = {errno.ENOENT: 127, errno.ENOTDIR: 127}


def main(folder: str, lock: int) -> None:
    """Run the replica described in FOLDER/spec.json. `lock` is the held lock that says: it has a shim."""
    os.set_inheritable(lock, False)
    with open(f"{folder}/spec.json", "rb") as file:
        spec = json.load(file)
    Shim(folder, spec, execute).run(lock)
    os._exit(0)  # all is written; Python's own farewell would only keep the lock longer


class Shim:
    """One replica's life."""

    def __init__(
        self,
        folder: str,
        spec: dict,  # type: ignore[type-arg]
        execute: Callable[[dict], None],  # type: ignore[type-arg]
    ) -> None:
        """`execute` makes the forked child the trainer's program; it never returns."""
        # An order holds for all attempts of a replica: what is of this one alone is added here.
        spec["cwd"] = f"{folder}/work"
        spec["env"].setdefault("TMPDIR", f"{folder}/tmp")
        self._folder = folder
        self._spec = spec
        self._execute = execute
        self._report = ExitReport(folder, os.path.dirname(spec["wake"]))
        self._journal = JournalWriter(spec["log"], spec["attempt"])
        self._pipes: dict[int, int] = {}
        self._open_lines: set[int] = set()
        self._terminal = open_terminal(spec["terminal"]) if spec.get("terminal") else None
        self._poller = select.poll()
        self._buffer = memoryview(bytearray(PIPE_BYTES))
        self._own = os.getpid()
        self._child = 0
        self._deadline = 0.0
        self._terminated: set[Process] = set()
        self._left: set[Process] = set()
        self._listed: set[Process] = set()
        self._listed_at = 0.0
        self._group = ""
        self._last_read = 0.0

    def run(self, lock: int) -> None:
        """Start, pump until nothing of the replica is left, report."""
        self._report.reserve()
        wake = self._listen()
        # Other processes may know the number from now on, as SIGTERM is handled.
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        self._report.begin()
        self._start()
        self._notify()
        while not self._finished():
            self._wait(wake)
        for pipe in list(self._pipes):
            left = PIPE_BYTES  # and no more: a process that could not be ended may write on
            while left > 0 and (count := self._read(pipe)):
                left -= count
        self._journal.close()
        self._report.log_lost_bytes = self._journal.lost
        self._report.write()
        self._forget_processes()
        self._notify()

    def _listen(self) -> int:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_stop)
        signal.signal(signal.SIGQUIT, self._on_kill)
        for ignored in (signal.SIGINT, signal.SIGHUP):
            signal.signal(ignored, signal.SIG_IGN)
        self._poller.register(reading, select.POLLIN)
        if self._terminal is not None and self._terminal.fifo >= 0:
            self._poller.register(self._terminal.fifo, select.POLLIN)
        adopt_orphans()
        return reading

    def _on_stop(self, *_: object) -> None:
        self._report.stopped = True

    def _on_kill(self, *_: object) -> None:
        """Stop, without a grace period."""
        self._report.stopped = True
        self._deadline = time.monotonic()

    def _start(self) -> None:
        out, failure = self._output("stdout"), os.pipe()
        is_one = self._terminal is not None and self._terminal.is_for_both
        err = out if is_one else self._output("stderr")
        groups = self._spec.get("groups")
        self._group = make_group(f"{groups}-r{self._spec['attempt']}") if groups else ""
        try:
            self._child = os.fork()
        except OSError as error:  # this user may have no more processes
            os.write(failure[1], f"126 {error.strerror}: {self._spec['argv'][0]}".encode())
        if self._child == 0 and os.getpid() != self._own:  # it is 0 here, too, where no fork was possible
            keys = out[1] if self._terminal and self._terminal.is_interactive else -1
            become_trainer(self._spec, self._execute, self._group, out[1], err[1], failure[1], keys)
        for writing in {out[1], err[1], failure[1]}:
            os.close(writing)
        self._adopt_pipe(out[0], STDOUT)
        if not is_one:
            self._adopt_pipe(err[0], STDERR)
        with os.fdopen(failure[0], "rb") as file:
            report = file.read()
        if report:
            if self._child:
                os.waitpid(self._child, 0)
            code, _, message = report.decode("utf-8", "replace").partition(" ")
            self._report.code, self._report.message = int(code), message
        else:
            # A program that has ended already is no member any more; a group with its children stays.
            if self._group and self._child not in members(self._group) and remove_group(self._group):
                self._group = ""
            self._list_processes()
            own_pipes = [out[0], err[0]]
            note = self._spec.get("start_note", "")
            started = {"pid": self._child, "time": time.time(), "pipes": own_pipes, "note": note}
            write_json(f"{self._folder}/started.json", started)

    def _output(self, stream: str) -> tuple[int, int]:
        """The reading and the writing end of a stream."""
        if self._terminal and self._terminal.replaces(stream):
            return self._terminal.open()
        return os.pipe()

    def _adopt_pipe(self, pipe: int, stream: int) -> None:
        if LINUX and not os.isatty(pipe):
            with suppress(OSError):  # the pipes of this user have too many bytes together
                fcntl.fcntl(pipe, _F_SETPIPE_SZ, PIPE_BYTES)
        os.set_blocking(pipe, False)
        self._pipes[pipe] = stream
        self._poller.register(pipe, select.POLLIN)

    def _wait(self, wake: int) -> None:
        ending = self._report.stopped or self._report.code is not None
        is_typing = self._terminal is not None and self._terminal.is_typing
        pause = TICK_SECONDS if ending or is_typing else None if self._group or not LINUX else LIST_SECONDS
        found = [ready for ready, _ in self._poller.poll(None if pause is None else pause * 1000)]
        # First a stream that has begun a line: its next bytes end the line, before the other stream's come.
        for ready in sorted(found, key=lambda number: number not in self._open_lines):
            if ready == wake:
                os.read(wake, 4096)
            elif self._terminal is not None and ready == self._terminal.fifo:
                if self._terminal.hear():
                    # The window has another size. Programs that do not care for it ignore this signal.
                    signal_all(descendants(self._child), signal.SIGWINCH)
            else:
                self._read(ready)
        if is_typing and self._terminal is not None:
            self._terminal.type()
        now = time.monotonic()
        if now - self._last_read < 2 * BUSY_PAUSE_SECONDS:
            time.sleep(BUSY_PAUSE_SECONDS)
        self._last_read = now

    def _read(self, pipe: int) -> int:
        """Store what is there; how many bytes that were, 0 when there is nothing more (for now, or ever)."""
        try:
            count = self._fill(pipe)
        except BlockingIOError:
            return 0
        if count:
            self._journal.write(self._buffer[:count], self._pipes[pipe])
            ends_line = self._buffer[count - 1] == _NEWLINE
            (self._open_lines.discard if ends_line else self._open_lines.add)(pipe)
            return count
        self._poller.unregister(pipe)
        del self._pipes[pipe]
        if self._terminal is not None and self._terminal.owns(pipe):
            self._terminal.forget()
        os.close(pipe)
        return 0

    def _fill(self, pipe: int) -> int:
        """Read into the buffer; a terminal, which gives 4 KiB at most, as long as it gives any."""
        count = 0
        try:
            count = read = os.readv(pipe, [self._buffer])
            while read and count < TERMINAL_BYTES and self._terminal and self._terminal.owns(pipe):
                read = os.readv(pipe, [self._buffer[count:]])
                count += read
        except BlockingIOError:
            if not count:
                raise
        except OSError as error:
            if error.errno != errno.EIO:  # Linux: no process has this terminal open any more
                raise
        return count

    def _finished(self) -> bool:
        self._reap()
        exited = self._report.code is not None
        if not exited and not self._report.stopped:
            self._list_processes()
            return False
        living = descendants(self._child)
        is_settled = exited or any(abs(pid) == self._child for pid, _ in living)
        if is_settled and living <= self._left:
            # These processes could not be ended: the job ends all the same.
            self._report.left = [describe(pid) for pid, _ in sorted(living)[:MOST_LEFT]]
            if self._report.code is None:
                self._report.code = LEFT_CODE
            return True
        self._end(living, exited)
        return False

    def _reap(self) -> None:
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._report.add_usage(used)
            if pid == self._child:
                self._report.log_lost_bytes = self._journal.lost
                self._report.record_exit(os.waitstatus_to_exitcode(status))

    def _end(self, living: set[Process], exited: bool) -> None:
        """Ask each process once to end, and kill what is left after the grace period."""
        now = time.monotonic()
        if not self._deadline:
            self._deadline = now + (LEFTOVER_GRACE_SECONDS if exited else self._spec["grace_seconds"])
        if now < self._deadline:
            signal_all(living - self._terminated, signal.SIGTERM)
            self._terminated |= living
            return
        refused = signal_all(living, signal.SIGKILL)
        if now >= self._deadline + KILL_SECONDS:
            self._left = living  # it may hang in the kernel, where no signal reaches it
        elif not (self._group and kill_group(self._group)):
            self._left = refused

    def _list_processes(self) -> None:
        """Keep a list of the replica's processes for a later supervisor, where there is no cgroup."""
        now = time.monotonic()
        if self._group or not LINUX or now - self._listed_at < LIST_SECONDS:
            return
        self._listed_at, living = now, descendants(self._child)
        if living != self._listed:
            self._listed = living
            document = {"boot_id": boot_id(), "processes": sorted(living)}
            write_json(f"{self._folder}/processes.json", document)

    def _forget_processes(self) -> None:
        """Remove the cgroup, or the list, unless there is a process that somebody has to know of."""
        if self._group:
            remove_group(self._group)
        elif not self._left and self._listed:
            remove_file(f"{self._folder}/processes.json")

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


def become_trainer(
    spec: dict,  # type: ignore[type-arg]
    execute: Callable[[dict], None],  # type: ignore[type-arg]
    group: str,
    out: int,
    err: int,
    failure: int,
    keys: int,
) -> None:
    """Become, in the forked child, the trainer's program, or say through `failure` why not.

    `keys` is the terminal of its stdin; -1: stdin is empty.
    """
    wanted = spec["cwd"]
    try:
        parent = os.getppid()
        os.setsid()
        if group:
            join_group(group)
        if spec.get("gcs"):
            wanted = f"{spec['gcs']} as /gcs"
            show_buckets_of(spec["gcs"])
            wanted = spec["cwd"]
        # Without its shim the lines and the exit code of a trainer would be lost, so it does not outlive it.
        set_process_control(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the shim died before the kernel knew of this wish
            os._exit(1)
        stdin = os.open(os.devnull, os.O_RDONLY) if keys < 0 else keys
        for source, target in ((stdin, 0), (out, 1), (err, 2)):
            os.dup2(source, target)
        for number in CHANGED_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        os.chdir(wanted)
        wanted = spec["argv"][0]
        execute(spec)
    except OSError as error:
        code = _EXIT_CODES.get(error.errno or 0, 126)
        os.write(failure, f"{code} {error.strerror}: {wanted}".encode())
    except Exception as error:  # a NUL in a word, say; this process can report only through the pipe
        os.write(failure, f"126 {error}".encode())
    os._exit(127)


def execute(spec: dict) -> None:  # type: ignore[type-arg]
    """Execute the order's program in place of this one."""
    os.execvpe(spec["argv"][0], spec["argv"], spec["env"])


def open_terminal(spec: dict) -> TrainerTerminal:  # type: ignore[type-arg]
    """The terminal of a replica. Imported only for a replica that gets one."""
    if not TYPE_CHECKING:
        from trainer_terminal import TrainerTerminal
    return TrainerTerminal(spec)


def show_buckets_of(folder: str) -> None:
    """Mount /gcs for this process. Imported only for a replica that wants it."""
    if TYPE_CHECKING:
        from vtrain.runtime.process.bucket_mount import show_buckets
    else:
        from bucket_mount import show_buckets
    show_buckets(folder)


def describe(pid: int) -> dict[str, object]:
    """A process for the job's log: its id, its name, its user."""
    stat = read_stat(abs(pid))
    try:
        user = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        user = -1
    return {"pid": abs(pid), "name": stat.name if stat is not None else "", "user": user}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
