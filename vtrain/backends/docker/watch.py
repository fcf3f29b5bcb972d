"""Stays with one container from its creation to its exit code: one thread of the job's supervisor.

The supervisor is the only reader of the engine's log, and never attaches: an attached reader that stops
reading would stop the trainer. What the engine says of the container (its inspection) is the truth; the
end of a log stream only means: look.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from typing import Any

import msgspec

from vtrain.backends.docker.container import ContainerOrder
from vtrain.backends.docker.ending import NOT_STARTED, interruption_of, replica_exit, start_failure
from vtrain.backends.docker.network import ensure_network
from vtrain.backends.docker.transcript import Transcript
from vtrain.backends.docker.view import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, ContainerView
from vtrain.containers.labels import HOME_LABEL, JOB_LABEL
from vtrain.engine.folder import JobFolder, ReplicaExit, ReplicaFolder, write_struct
from vtrain.engine.instants import epoch
from vtrain.errors import EngineAwayError, EngineError

STOP_RETRY_SECONDS = 0.5
LAST_WORDS = 8
DISK_PATIENCE_SECONDS = 60.0
"""How long the end of a log waits for a disk that is full."""
HALF_STARTED = "already exists"
"""In the engine's refusal to start what it was starting when it was killed (`task ID: already exists`)."""
REFUSED_CODE = 125
"""The exit code of a container that the engine refused to create or to start, as `docker run` has it."""


class ContainerWatch(threading.Thread):
    """One replica's container. What it finds out goes into the replica's folder and the job's logs."""

    def __init__(
        self,
        job: JobFolder,
        replica: ReplicaFolder,
        order: ContainerOrder,
        network_lock: threading.Lock,
        *,
        stopping: bool,
    ) -> None:
        """With `stopping` nothing is started any more; what runs is watched to its end.

        `network_lock` is the job's: engines make two networks of one name for two who ask at once.
        """
        super().__init__(name=f"watch {replica.name}", daemon=True)
        self._job = job
        self._replica = replica
        self._order = order
        self._network_lock = network_lock
        self._view = ContainerView(order.engine, order.name)
        self._seen_running = 0.0
        self._terminated_at = 0.0
        self._asked_at = 0.0
        self._stopping = threading.Event()
        if stopping:
            self._stopping.set()

    def run(self) -> None:
        """Until the exit code is written.

        Whatever goes wrong here, the container is none the worse for it: watching begins anew.
        """
        told = ""
        while True:
            try:
                self._watch()
                return
            except Exception as fault:  # a full disk, an answer that nobody foresaw
                told = _tell_once(fault, told)
                time.sleep(LONGEST_PAUSE_SECONDS)

    def _watch(self) -> None:
        transcript = Transcript(self._order.log, self._order.attempt)
        try:
            end = self._view.patiently(self._ensure_started)
            if end is None:
                end = self._view.patiently(lambda: self._follow(transcript))
        finally:
            transcript.close()
        end = msgspec.structs.replace(end, log_error=self._view.log_error)
        write_struct(self._replica.path / "exit.json", end)
        self._view.close()
        self._job.wake()

    def stop(self) -> None:
        """Ask the container to end; called again and again, it kills it when the grace period is over."""
        self._stopping.set()
        now = time.monotonic()
        if not self._terminated_at:
            self._terminated_at = now if self._signal("SIGTERM") else 0.0
        elif now - self._terminated_at > self._order.grace_seconds:
            self._signal("SIGKILL")

    def outlived(self, moment: float) -> bool:
        """Whether the container is known to have run at that time, in seconds since the epoch."""
        if self._seen_running < moment:
            try:
                state = self._view.inspect() if self._view.is_connected else None
            except EngineError:
                return False  # its exit will tell
            if state is not None and state["Running"]:
                self._seen_running = time.time()
            elif state is not None and state["Status"] == "exited":
                self._seen_running = epoch(state["FinishedAt"])
        return self._seen_running >= moment

    def kill(self) -> None:
        """End the container now."""
        self._stopping.set()
        self._asked_at = 0.0
        self._signal("SIGKILL")

    def _signal(self, name: str) -> bool:
        """Whether the engine took the signal. Asked at most twice a second."""
        if not self._view.is_connected or time.monotonic() - self._asked_at < STOP_RETRY_SECONDS:
            return False
        self._asked_at = time.monotonic()
        try:
            self._view.signal(name)
        except EngineError:
            return False  # away, or not running: not yet, or not any more; the watch finds out which
        return True

    def _ensure_started(self) -> ReplicaExit | None:
        """Create and start the container unless that was done before; how it ended when it cannot be."""
        state = self._view.inspect()
        if state is None and self._replica.started():
            return self._ended("its container was removed by somebody else")
        try:
            if state is None:
                state = self._create()
            if state["Status"] == "created" and not state["Error"]:
                if self._stopping.is_set():
                    return self._ended("")
                self._view.start()
                state = self._view.inspect() or state
        except EngineAwayError:
            raise
        except EngineError as error:
            if HALF_STARTED in error.message:
                self._view.remove()
                raise EngineAwayError(error.message) from error
            return self._refused(error.message, (self._view.inspect() or {}).get("ExitCode", 0))
        if state["Status"] == "created":
            return self._refused(state["Error"], state["ExitCode"])
        if not self._replica.started():
            write_struct(self._replica.path / "started.json", {"time": epoch(state["StartedAt"])})
            self._job.wake()
        return None

    def _create(self) -> dict[str, Any]:
        order = self._order
        with self._network_lock:
            labels = _without_replica(order.labels)
            ensure_network(self._view.engine, order.network, labels, order.replicas)
        return self._view.create(order.config)

    def _follow(self, transcript: Transcript) -> ReplicaExit:
        """Read the log until the container has ended."""
        while True:
            self._view.read_log(transcript)
            state = self._view.inspect()
            if state is None:
                return self._ended("its container was removed by somebody else")
            if not state["Running"] and state["Status"] in ("exited", "dead"):
                self._drain(transcript, state)
                return self._ending(state)
            time.sleep(LONGEST_PAUSE_SECONDS if self._view.log_error else FIRST_PAUSE_SECONDS)

    def _drain(self, transcript: Transcript, state: dict[str, Any]) -> None:
        """Store the end of the log, when the disk takes it; the engine keeps it for some time."""
        try:
            transcript.drain(self._view.read_tail)
        except OSError as error:
            if time.time() - epoch(state["FinishedAt"]) < DISK_PATIENCE_SECONDS:
                raise
            self._view.log_error = f"the disk refused it ({error.strerror})"

    def _ending(self, state: dict[str, Any]) -> ReplicaExit:
        stopped = self._stopping.is_set()
        if state["ExitCode"] in NOT_STARTED and (why := start_failure(self._view.read_tail(LAST_WORDS))):
            return self._refused(why, state["ExitCode"])
        cause = "" if stopped else interruption_of(self._view.engine, self._order.name, state, self._view.gap)
        return replica_exit(state, stopped=stopped, interruption=cause, gap=self._view.gap)

    def _ended(self, interruption: str) -> ReplicaExit:
        """The end of a container that nobody can ask any more, or that was never started."""
        stopped = self._stopping.is_set()
        now = time.time()
        return ReplicaExit(
            code=143 if stopped else 255,
            started=now,
            ended=now,
            stopped=stopped,
            interruption="" if stopped else interruption,
        )

    def _refused(self, message: str, code: int = 0) -> ReplicaExit:
        now = time.time()
        return ReplicaExit(
            code=code or REFUSED_CODE, started=now, ended=now, message=message.strip().rstrip(".")
        )


def _tell_once(fault: Exception, told: str) -> str:
    """Print what went wrong, unless it was just that; the supervisor's stderr is a file of the job."""
    text = "".join(traceback.format_exception(fault))
    if text != told:
        print(text, file=sys.stderr, flush=True)
    return text


def _without_replica(labels: dict[str, str]) -> dict[str, str]:
    return {name: labels[name] for name in (JOB_LABEL, HOME_LABEL)}
