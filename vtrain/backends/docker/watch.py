"""Watches one container from its creation to its exit code, in a thread of the job's supervisor.

Only the supervisor reads the engine's log. It attaches to nothing but a terminal, because a trainer stops
if an attached reader stops reading. The state that the engine reports for the container decides. The end of a
log stream is only a reason to ask for it.
"""

from __future__ import annotations

import math
import sys
import threading
import time
import traceback
from contextlib import suppress
from typing import Any

import msgspec

from vtrain.backends.docker.container import ContainerOrder
from vtrain.backends.docker.container_log import ContainerOutput, output_of
from vtrain.backends.docker.container_view import LONGEST_PAUSE_SECONDS, ContainerView
from vtrain.backends.docker.exits import (
    HALF_STARTED,
    NOT_EXECUTABLE,
    NOT_STARTED,
    REMOVED,
    UNREAD,
    refused_exit,
    replica_exit,
    start_failure,
    unseen_exit,
)
from vtrain.backends.docker.job_engine import JobEngine
from vtrain.backends.docker.kernel_usage import Usage, kernel_usage
from vtrain.containers.engine import is_going
from vtrain.containers.labels import HOME_LABEL, JOB_LABEL
from vtrain.errors import EngineAwayError, EngineError
from vtrain.retry import wait_until
from vtrain.runtime.database import lacks_room
from vtrain.runtime.folder import ReplicaExit, ReplicaFolder, write_struct
from vtrain.runtime.working_folder import BESIDE_BUCKETS, BUCKETS
from vtrain.times import epoch

SETTLE_SECONDS = 0.6
"""The time for the engine to report the end of a container whose log has ended."""
SETTLE_PAUSE_SECONDS = 0.01
"""The first pause between two such requests; each pause is twice the one before."""
LAST_WORDS = 8
LOOK_SECONDS = 0.5
DISK_PATIENCE_SECONDS = 60.0
"""The time for which the end of a log waits for space on a full disk."""


class ContainerWatch(threading.Thread):
    """The watch of one attempt. It stores the exit in the attempt's folder, and the output in the log."""

    def __init__(
        self, replica: ReplicaFolder, order: ContainerOrder, job_engine: JobEngine, *, stopping: bool
    ) -> None:
        """With `stopping` the container is not started. If it runs, it is watched to its end."""
        super().__init__(name=f"watch {replica.name}", daemon=True)
        self.order = order
        self._replica = replica
        self._job_engine = job_engine
        self._view = ContainerView(job_engine.engine, job_engine.hang_up, order.name)
        self._stopping = Stopping(self._view, job_engine, order.grace_seconds)
        self._stopping.wanted = stopping
        self._used = Usage()
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
        faults = Faults()
        while True:
            try:
                self._record(self._watch())
                break
            except Exception as fault:  # a full disk, or an unexpected answer
                if not self._replica.path.exists():  # somebody removed the folder
                    break
                if not faults.are_borne(fault) and self._gave_up(fault):
                    break
                time.sleep(LONGEST_PAUSE_SECONDS)
        with suppress(EngineError):  # the job's end removes what is left
            self._view.remove()

    def _watch(self) -> ReplicaExit:
        output = output_of(self._view, self.order)
        start = ContainerStart(
            self._replica, self.order, self._job_engine, self._view, self._stopping, output
        )
        try:
            end = self._view.patiently(start.ensure)
            if end is None:
                self._look_due = time.monotonic() + LOOK_SECONDS
                end = self._view.patiently(lambda: self._follow(output))
        finally:
            output.close()
        return end

    def _record(self, end: ReplicaExit) -> None:
        end = msgspec.structs.replace(
            end,
            log_error=self._view.log_error,
            peak_memory_bytes=(end.oom and self.order.memory_bytes) or self._used.peak_memory_bytes,
            cpu_seconds=self._used.cpu_seconds,
        )
        write_struct(self._replica.path / "exit.json", end)
        self._has_recorded = True
        self._replica.job.wake()

    def _gave_up(self, fault: Exception) -> bool:
        """Store an exit that names the fault. False if the disk refuses it."""
        try:
            self._record(refused_exit(f"vtrain cannot watch its container: {fault!r}"))
        except OSError:
            return False
        return True

    def look(self) -> None:
        """Note what the container has used by now, at most twice a second, as the kernel will forget it."""
        now = time.monotonic()
        if now >= self._look_due:
            self._look_due = now + LOOK_SECONDS
            self._used = self._used.most(kernel_usage(self._view.id) or Usage())

    def stop(self) -> None:
        """Ask the container to end. Repeated calls kill it when the grace period is over."""
        self._stopping.ask()

    def kill(self) -> None:
        """End the container now."""
        self._stopping.kill()

    def outlived(self, moment: float) -> bool:
        """Whether the container is known to have run at `moment`, in epoch seconds."""
        if self._seen_running < moment:
            try:
                state = self._view.inspect() if self._view.is_connected else None
            except EngineError:
                return False  # its exit will show it
            if state is not None and state["Running"]:  # it runs now, so it ran at every moment before
                self._seen_running = max(time.time(), moment)
            elif state is not None and state["Status"] == "exited":
                self._seen_running = epoch(state["FinishedAt"])
        return self._seen_running >= moment

    def _follow(self, output: ContainerOutput) -> ReplicaExit:
        """Read the log until the container has ended."""
        while True:
            self._read_log(output)
            state = self._settled()
            if state is None:
                self._view.log_error = UNREAD
                return unseen_exit(REMOVED, stopped=self._stopping.wanted)
            if _has_ended(state):
                self._drain(output, state)
                own_folder = "WorkingDir" not in self.order.config  # else it is one of this machine
                if own_folder and self._view.has_in_working_folder(BUCKETS):
                    (self._replica.path / BESIDE_BUCKETS).touch()
                return self._ending(state, output)
            if self._view.log_error:
                time.sleep(LONGEST_PAUSE_SECONDS)

    def _read_log(self, output: ContainerOutput) -> None:
        """Store the output until the stream ends or the disk is full."""
        try:
            output.follow()
        except OSError as error:
            if not lacks_room(error):
                raise

    def _settled(self) -> dict[str, Any] | None:
        """The container's State after the end of its log. The engine sets it a moment later than that."""
        state: dict[str, Any] | None = None

        def is_settled() -> bool:
            nonlocal state
            state = self._view.inspect()
            return state is None or _has_ended(state)

        wait_until(is_settled, SETTLE_SECONDS, SETTLE_PAUSE_SECONDS, longest=LONGEST_PAUSE_SECONDS)
        return state

    def _drain(self, output: ContainerOutput, state: dict[str, Any]) -> None:
        """Store the end of the log. If the disk is full, the watch tries again: the engine keeps the log."""
        try:
            output.drain()
        except OSError as error:
            if time.time() - epoch(state["FinishedAt"]) < DISK_PATIENCE_SECONDS:
                raise
            self._view.log_error = f"the disk refused it ({error.strerror})"

    def _ending(self, state: dict[str, Any], output: ContainerOutput) -> ReplicaExit:
        code = state["ExitCode"]
        if code in NOT_STARTED and (why := start_failure(code, output.last_words(LAST_WORDS))):
            return refused_exit(why, max(code, NOT_EXECUTABLE))
        return replica_exit(state, stopped=self._stopping.wanted, gap=self._view.gap)


def _has_ended(state: dict[str, Any]) -> bool:
    return not state["Running"] and state["Status"] in ("exited", "dead")


ALREADY_THERE = "already exists"
"""Words of an engine that was killed while it started a container (`task ID: already exists`)."""


class ContainerStart:
    """The start of one attempt, which can be repeated after a failure at any point."""

    def __init__(
        self,
        replica: ReplicaFolder,
        order: ContainerOrder,
        job_engine: JobEngine,
        view: ContainerView,
        stopping: Stopping,
        output: ContainerOutput,
    ) -> None:
        self._replica = replica
        self._order = order
        self._job_engine = job_engine
        self._view = view
        self._stopping = stopping
        self._output = output

    def ensure(self) -> ReplicaExit | None:
        """Start the container unless it runs or has run. Return its exit if it cannot be started.

        Raises EngineAwayError.
        """
        was_started = self._replica.started()
        state = self._view.inspect() if was_started or self._stopping.wanted else None
        if state is None and was_started:
            self._view.log_error = UNREAD
            return self._unseen(REMOVED)
        with self._job_engine.turns:
            if state is None and self._stopping.wanted:
                return self._unseen("")
            return self._start(state)

    def _start(self, state: dict[str, Any] | None) -> ReplicaExit | None:
        order, started = self._order, time.time()
        try:
            state = state or self._view.create(order.config)
            if state["Status"] != "created":
                started = epoch(state["StartedAt"])
            elif state["Error"]:
                return self._failed(state["Error"], state["ExitCode"])
            else:
                labels = {name: order.labels[name] for name in (JOB_LABEL, HOME_LABEL)}
                self._job_engine.have_network(order.network, labels, order.replicas, again=order.attempt > 0)
                if self._stopping.wanted:
                    return self._unseen("")
                self._output.before_start()
                self._view.start()
                self._output.after_start()
        except EngineAwayError:
            raise
        except EngineError as error:
            return self._refused(error)
        if not self._replica.started():
            write_struct(self._replica.path / "started.json", {"time": started})
            self._replica.job.wake()
        return None

    def _refused(self, error: EngineError) -> ReplicaExit:
        if ALREADY_THERE in error.message:
            self._view.remove()
            raise EngineAwayError(error.message) from error
        return self._failed(error.message, (self._view.inspect() or {}).get("ExitCode", 0))

    def _failed(self, message: str, code: int) -> ReplicaExit:
        """The exit of a container that the engine did not start.

        If the engine was away meanwhile, or shuts down, that may be the cause: the attempt was interrupted.
        """
        is_lost = self._view.gap or is_going(message)
        return self._unseen(HALF_STARTED) if is_lost else refused_exit(message, code)

    def _unseen(self, interruption: str) -> ReplicaExit:
        return unseen_exit(interruption, stopped=self._stopping.wanted)


STOP_RETRY_SECONDS = 0.5


class Stopping:
    """Requests to a container to end, repeated until it has. `wanted` says that it has to end."""

    def __init__(self, view: ContainerView, job_engine: JobEngine, grace_seconds: float) -> None:
        self.wanted = False
        self._view = view
        self._job_engine = job_engine
        self._grace_seconds = grace_seconds
        self._terminated_at = 0.0
        self._asked_at = 0.0
        self._asking: threading.Thread | None = None

    def ask(self) -> None:
        """Send SIGTERM from another thread, so that all containers of a job are stopped at the same time.

        The engine gets at most two requests a second, and none before it has answered once.
        """
        self.wanted = True
        is_due = self._view.is_connected and time.monotonic() - self._asked_at >= STOP_RETRY_SECONDS
        if is_due and (self._asking is None or not self._asking.is_alive()):
            self._asked_at = time.monotonic()
            self._asking = threading.Thread(target=self._ask, name="stop", daemon=True)
            self._asking.start()

    def kill(self) -> None:
        """End the container now."""
        self.wanted = True
        if self._view.is_connected:
            self._signal("SIGKILL")

    def _ask(self) -> None:
        with self._job_engine.signals:
            now = time.monotonic()
            if not self._terminated_at:
                self._terminated_at = now if self._signal("SIGTERM") else 0.0
            elif now - self._terminated_at > self._grace_seconds:
                self._signal("SIGKILL")

    def _signal(self, name: str) -> bool:
        """Whether the engine accepted the signal."""
        try:
            self._view.signal(name)
        except EngineError:
            return False  # the engine is away, or the container does not run; the watch finds out which
        return True


FAULT_PATIENCE_SECONDS = 60.0
"""The time for which a watch tries again after the same fault."""
FORGOTTEN_SECONDS = 10.0
"""A fault that comes back after this time counts as a new one."""


class Faults:
    """The last fault of a watch, and how long it has lasted."""

    def __init__(self) -> None:
        self._place = ""
        self._since = 0.0
        self._last = 0.0

    def are_borne(self, fault: Exception) -> bool:
        """Whether to try again. Prints the traceback of a new fault to stderr, which is a file of the job.

        A full disk may last for any time, because the engine keeps the output meanwhile.
        """
        now, place = time.monotonic(), _place(fault)
        if place != self._place or now - self._last > FORGOTTEN_SECONDS:
            print("".join(traceback.format_exception(fault)), file=sys.stderr, flush=True)
            self._place, self._since = place, now
        self._last = now
        return lacks_room(fault) or now - self._since < FAULT_PATIENCE_SECONDS


def _place(fault: Exception) -> str:
    """The type of a fault and its line of code. Its message may differ each time."""
    frames = traceback.extract_tb(fault.__traceback__)
    return f"{type(fault).__name__} {frames[-1].filename}:{frames[-1].lineno}" if frames else repr(fault)
