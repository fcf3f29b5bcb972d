"""The life of one container, from its creation to its exit code, in a thread of the job's supervisor.

Only the supervisor reads the engine's log. It attaches to nothing but a terminal, because a trainer stops
if an attached reader stops reading. The state that the engine reports for the container decides. The end of a
log stream is only a reason to ask for it.
"""

from __future__ import annotations

import math
import re
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from vtrain.backends.docker.container import ContainerOrder
from vtrain.backends.docker.container_log import ContainerOutput, output_of
from vtrain.backends.docker.job_engine import LONGEST_PAUSE_SECONDS, ContainerView, JobEngine
from vtrain.containers.engine import HOME_LABEL, JOB_LABEL, is_going
from vtrain.containers.streams import Piece
from vtrain.errors import EngineAwayError, EngineError
from vtrain.retry import wait_until
from vtrain.runtime.database import lacks_room
from vtrain.runtime.folder import ReplicaExit, ReplicaFolder, write_struct
from vtrain.runtime.working_folder import BESIDE_BUCKETS, BUCKETS
from vtrain.times import epoch

GROUPS = Path("/sys/fs/cgroup")
PLACES = ("docker/{id}", "system.slice/docker-{id}.scope")
"""The control group of a container, by the engine's cgroup driver: cgroupfs, systemd."""


class KernelUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of memory at the most (0: not known), without files that the kernel can drop; and seconds.

    The kernel forgets both as soon as the container has ended. A machine does not show the control groups of
    an engine that runs in a virtual machine or without root.
    """

    peak_memory_bytes: int = 0
    cpu_seconds: float = 0.0

    def most(self, other: KernelUsage) -> KernelUsage:
        """The larger of both: the kernel's numbers only grow, what is dropped from them does not count."""
        return KernelUsage(
            peak_memory_bytes=max(self.peak_memory_bytes, other.peak_memory_bytes),
            cpu_seconds=max(self.cpu_seconds, other.cpu_seconds),
        )


def kernel_usage(container: str, groups: Path = GROUPS) -> KernelUsage | None:
    """The kernel's counters of a running container; None where this machine does not show them."""
    for place in PLACES:
        inside = place.format(id=container)
        try:
            if (groups / "memory").is_dir():  # the first version of control groups
                memory = groups / "memory" / inside
                used, dropped = memory / "memory.max_usage_in_bytes", "total_inactive_file"
                seconds = int((groups / "cpuacct" / inside / "cpuacct.usage").read_text()) / 1e9
            else:
                memory, dropped = groups / inside, "inactive_file"
                peak = memory / "memory.peak"  # since Linux 5.19
                used = peak if peak.exists() else memory / "memory.current"
                seconds = int(_field(memory / "cpu.stat", "usage_usec")) / 1e6
            held = int(used.read_text()) - int(_field(memory / "memory.stat", dropped))
        except (OSError, ValueError):  # another place, or it has just ended
            continue
        return KernelUsage(peak_memory_bytes=max(held, 0), cpu_seconds=seconds)
    return None


def _field(file: Path, name: str) -> str:
    """The text behind a name in a file of names and numbers; empty if the name is not there."""
    return dict(line.split(" ", 1) for line in file.read_text().splitlines()).get(name, "")


SETTLE_SECONDS = 0.6
"""The time for the engine to report the end of a container whose log has ended."""
SETTLE_PAUSE_SECONDS = 0.01
"""The first pause between two such requests; each pause is twice the one before."""
LAST_WORDS = 8
LOOK_SECONDS = 0.5
DISK_PATIENCE_SECONDS = 60.0
"""The time for which the end of a log waits for space on a full disk."""
FAULT_PATIENCE_SECONDS = 60.0
"""After this time of unexpected faults, one upon the other, the replica ends with the last as its message."""
FORGOTTEN_SECONDS = 10.0
"""A fault that comes later than this after another begins anew."""
STOP_RETRY_SECONDS = 0.5
ALREADY_THERE = "already exists"
"""Words of an engine that was killed while it started a container (`task ID: already exists`)."""

ENDED_FROM_OUTSIDE = (137, 143)
"""SIGKILL and SIGTERM. A trainer that sends one to itself is not distinguished."""
UNKNOWN_CODE = 255
"""The code that the engine writes where it was away; also the code of many programs that fail."""
REFUSED_CODE = 125
"""The exit code of a container that the engine refused to create or to start, as `docker run` has it."""
INIT_NOT_EXECUTED, NOT_EXECUTABLE = 1, 126
NOT_STARTED = (INIT_NOT_EXECUTED, NOT_EXECUTABLE, 127)
"""Exit codes of an init that could not be executed, and of a program that could not be, or was not found."""
STOPPED = "a person, the Docker engine or the kernel stopped its container"
ENGINE_AWAY = "its container ended while the Docker engine was away"
REMOVED = "its container was removed by somebody else"
UNREAD = "what it wrote last may be lost with its container"
HALF_STARTED = "the Docker engine was stopped while it started the container"
_INIT_FAILED = re.compile(rb"\[FATAL tini \(\d+\)\] exec (.+) failed: (.+)")
_INIT_NOT_RUN = re.compile(rb"\Aexec (/\S+/docker-init): (.+)\s*\Z")
"""The words of runc, which ends with 1, where the arguments are too long for the system."""


class ContainerLife(threading.Thread):
    """One attempt of a replica. The exit goes into the attempt's folder, the output into the log."""

    def __init__(
        self, replica: ReplicaFolder, order: ContainerOrder, job_engine: JobEngine, *, stopping: bool
    ) -> None:
        """With `stopping` the container is not started. If it runs, it is watched to its end."""
        super().__init__(name=f"watch {replica.name}", daemon=True)
        self._replica = replica
        self._order = order
        self._job_engine = job_engine
        self._view = ContainerView(job_engine, order.name)
        self._must_end = stopping
        self._terminated_at = self._asked_at = 0.0
        self._asking: threading.Thread | None = None
        self._used = KernelUsage()
        self._look_due = math.inf
        self._seen_running = 0.0
        self._has_recorded = False

    @property
    def is_watching(self) -> bool:
        """Whether the container's exit is still to be stored."""
        return self.is_alive() and not self._has_recorded

    def run(self) -> None:
        """Watch until the exit is stored; then remove the container.

        A fault here does no harm to the container, so the watch begins again.
        """
        said, since, last = "", 0.0, -math.inf
        while True:
            try:
                self._record(self._watch())
                break
            except Exception as fault:  # a full disk, or an unexpected answer
                if not self._replica.path.exists():  # somebody removed the folder
                    break
                now = time.monotonic()
                is_new = now - last > FORGOTTEN_SECONDS
                if is_new or repr(fault) != said:
                    said = repr(fault)
                    traceback.print_exc(file=sys.stderr)  # a file of the job
                if is_new or lacks_room(fault):  # the engine keeps the output until the disk has room
                    since = now
                last = now
                if now - since > FAULT_PATIENCE_SECONDS:
                    with suppress(OSError):  # a full disk
                        self._record(refused_exit(f"vtrain cannot watch its container: {said}"))
                        break
                time.sleep(LONGEST_PAUSE_SECONDS)
        with suppress(EngineError):  # the job's end removes what is left
            self._view.remove()

    def look(self) -> None:
        """Note what the container has used by now, at most twice a second, as the kernel will forget it."""
        now = time.monotonic()
        if now >= self._look_due:
            self._look_due = now + LOOK_SECONDS
            self._used = self._used.most(kernel_usage(self._view.id) or KernelUsage())

    def outlived(self, moment: float) -> bool:
        """Whether the container is known to have run at `moment`, in epoch seconds."""
        if self._seen_running < moment:
            try:
                state = self._view.inspect() if self._job_engine.is_connected else None
            except EngineError:
                return False  # its exit will show it
            if state is not None and state["Running"]:  # it runs now, so it ran at every moment before
                self._seen_running = max(time.time(), moment)
            elif state is not None and state["Status"] == "exited":
                self._seen_running = epoch(state["FinishedAt"])
        return self._seen_running >= moment

    def stop(self) -> None:
        """Ask the container to end. Repeated calls kill it when the grace period is over.

        Another thread sends the signal, so that all containers of a job are stopped at the same time. The
        engine gets at most two requests a second, and none before it has answered once.
        """
        self._must_end = True
        is_due = self._job_engine.is_connected and time.monotonic() - self._asked_at >= STOP_RETRY_SECONDS
        if is_due and (self._asking is None or not self._asking.is_alive()):
            self._asked_at = time.monotonic()
            self._asking = threading.Thread(target=self._ask_to_end, name="stop", daemon=True)
            self._asking.start()

    def kill(self) -> None:
        """End the container now."""
        self._must_end = True
        if self._job_engine.is_connected:
            self._signal("SIGKILL")

    def _ask_to_end(self) -> None:
        with self._job_engine.signals:
            now = time.monotonic()
            if not self._terminated_at:
                self._terminated_at = now if self._signal("SIGTERM") else 0.0
            elif now - self._terminated_at > self._order.grace_seconds:
                self._signal("SIGKILL")

    def _signal(self, name: str) -> bool:
        """Whether the engine accepted the signal."""
        try:
            self._view.signal(name)
        except EngineError:
            return False  # the engine is away, or the container does not run; the watch finds out which
        return True

    def _watch(self) -> ReplicaExit:
        output = output_of(self._view, self._order)
        try:
            end = self._view.patiently(lambda: self._start(output))
            if end is None:
                self._look_due = time.monotonic() + LOOK_SECONDS
                end = self._view.patiently(lambda: self._follow(output))
        finally:
            output.close()
        return end

    def _record(self, end: ReplicaExit) -> None:
        end = replace(
            end,
            log_error=self._view.log_error,
            peak_memory_bytes=(end.oom and self._order.memory_bytes) or self._used.peak_memory_bytes,
            cpu_seconds=self._used.cpu_seconds,
        )
        write_struct(self._replica.path / "exit.json", end)
        self._has_recorded = True
        self._replica.job.wake()

    def _start(self, output: ContainerOutput) -> ReplicaExit | None:
        """Start the container unless it runs or has run; its exit if it cannot be started.

        It can be repeated after a failure at any point. Raises EngineAwayError.
        """
        was_started = self._replica.started()
        state = self._view.inspect() if was_started or self._must_end else None
        if state is None and was_started:
            return self._removed()
        with self._job_engine.turns:
            if state is None and self._must_end:
                return self._unseen("")
            started = time.time()
            try:
                state = state or self._view.create(self._order.config)
                if state["Status"] != "created":
                    started = epoch(state["StartedAt"])
                elif state["Error"]:
                    return self._not_started(state["Error"], state["ExitCode"])
                elif not self._begin(output):
                    return self._unseen("")
            except EngineAwayError:
                raise
            except EngineError as error:
                if ALREADY_THERE in error.message:
                    self._view.remove()
                    raise EngineAwayError(error.message) from error
                return self._not_started(error.message, (self._view.inspect() or {}).get("ExitCode", 0))
        if not was_started:
            write_struct(self._replica.path / "started.json", {"time": started})
            self._replica.job.wake()
        return None

    def _begin(self, output: ContainerOutput) -> bool:
        """Start the container that was made; False if it has to end meanwhile."""
        order = self._order
        labels = {name: order.labels[name] for name in (JOB_LABEL, HOME_LABEL)}
        self._job_engine.have_network(order.network, labels, again=order.attempt > 0)
        if self._must_end:
            return False
        output.before_start()
        self._view.start()
        output.after_start()
        return True

    def _not_started(self, message: str, code: int) -> ReplicaExit:
        """The exit of a container that the engine did not start.

        If the engine was away meanwhile, or shuts down, that may be the cause: the attempt was interrupted.
        """
        is_lost = self._view.gap or is_going(message)
        return self._unseen(HALF_STARTED) if is_lost else refused_exit(message, code)

    def _removed(self) -> ReplicaExit:
        self._view.log_error = UNREAD
        return self._unseen(REMOVED)

    def _unseen(self, interruption: str) -> ReplicaExit:
        """The end of a container that nobody can ask any more, or that was never started."""
        code, why = (143, "") if self._must_end else (255, interruption)
        now = time.time()
        return ReplicaExit(code=code, started=now, ended=now, stopped=self._must_end, interruption=why)

    def _follow(self, output: ContainerOutput) -> ReplicaExit:
        """Store the output until the container has ended."""
        while True:
            try:
                output.follow()
            except OSError as error:
                if not lacks_room(error):
                    raise
            state = self._settled()
            if state is None:
                return self._removed()
            if _has_ended(state):
                return self._end(output, state)
            if self._view.log_error:
                time.sleep(LONGEST_PAUSE_SECONDS)

    def _settled(self) -> dict[str, Any] | None:
        """The container's State after the end of its log. The engine sets it a moment later than that."""
        state: dict[str, Any] | None = None

        def is_settled() -> bool:
            nonlocal state
            state = self._view.inspect()
            return state is None or _has_ended(state)

        wait_until(is_settled, SETTLE_SECONDS, SETTLE_PAUSE_SECONDS, longest=LONGEST_PAUSE_SECONDS)
        return state

    def _end(self, output: ContainerOutput, state: dict[str, Any]) -> ReplicaExit:
        """Store the end of the log. If the disk is full, the watch tries again: the engine keeps the log."""
        try:
            output.drain()
        except OSError as error:
            if time.time() - epoch(state["FinishedAt"]) < DISK_PATIENCE_SECONDS:
                raise
            self._view.log_error = f"the disk refused it ({error.strerror})"
        own_folder = "WorkingDir" not in self._order.config  # else it is one of this machine
        if own_folder and self._view.has_in_working_folder(BUCKETS):
            (self._replica.path / BESIDE_BUCKETS).touch()
        code = state["ExitCode"]
        if code in NOT_STARTED and (why := start_failure(code, output.last_words(LAST_WORDS))):
            return refused_exit(why, max(code, NOT_EXECUTABLE))
        return replica_exit(state, stopped=self._must_end, gap=self._view.gap)


def _has_ended(state: dict[str, Any]) -> bool:
    return not state["Running"] and state["Status"] in ("exited", "dead")


def replica_exit(state: dict[str, Any], *, stopped: bool, gap: tuple[float, float] | None) -> ReplicaExit:
    """The end that a container's State describes. `gap` is when the engine was away, in epoch seconds.

    `stopped`: vtrain asked the container to end. It is an interruption if something else did.
    """
    code, ended = state["ExitCode"], epoch(state["FinishedAt"])
    is_missed = gap is not None and gap[0] <= ended <= gap[1]
    interruption = ""
    if not stopped and not state["OOMKilled"]:
        if code in ENDED_FROM_OUTSIDE:
            interruption = STOPPED
        elif code == UNKNOWN_CODE and is_missed:
            interruption = ENGINE_AWAY
    return ReplicaExit(
        code=code,
        signal=code - 128 if 128 < code < 192 else 0,
        started=epoch(state["StartedAt"]),
        ended=ended,
        oom=bool(state["OOMKilled"]),
        stopped=stopped,
        interruption=interruption,
        gap=gap if is_missed else None,
        gap_of="The Docker engine" if is_missed else "",
    )


def refused_exit(message: str, code: int = 0) -> ReplicaExit:
    """The end of a container that did not begin; `code` is 0 where the engine gives none."""
    now = time.time()
    return ReplicaExit(code=code or REFUSED_CODE, started=now, ended=now, message=message.strip().rstrip("."))


def start_failure(code: int, last: list[Piece]) -> str:
    """The reason why the container's init, or its program, could not be started; empty where it was.

    `last` are the last lines of a container that ended with one of NOT_STARTED.
    """
    if code == INIT_NOT_EXECUTED and len(last) != 1:  # a program can say the same, but hardly that alone
        return ""
    words = _INIT_NOT_RUN if code == INIT_NOT_EXECUTED else _INIT_FAILED
    for _, _, text in reversed(last):
        if found := words.search(text):
            program, reason = (part.decode("utf-8", "replace").strip() for part in found.groups())
            return f"{reason}: {program}"
    return ""
