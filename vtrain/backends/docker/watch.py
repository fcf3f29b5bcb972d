"""Stays with one container from its creation to its exit code: one thread of the job's supervisor.

The supervisor is the only reader of the engine's log, and never attaches: an attached reader that stops
reading would stop the trainer. What the engine says of the container (its inspection) is the truth; the
end of a log stream only means: look.
"""

from __future__ import annotations

import threading
import time
from contextlib import closing, suppress
from typing import Any

import msgspec

from vtrain.backends.docker.beginning import Beginning
from vtrain.backends.docker.container import ContainerOrder
from vtrain.backends.docker.ending import (
    NOT_STARTED,
    REMOVED,
    UNREAD,
    interruption_of,
    refused_exit,
    replica_exit,
    start_failure,
    unseen_exit,
)
from vtrain.backends.docker.faults import Faults
from vtrain.backends.docker.station import Station
from vtrain.backends.docker.stopping import Stopping
from vtrain.backends.docker.transcript import Transcript
from vtrain.backends.docker.view import LONGEST_PAUSE_SECONDS, ContainerView
from vtrain.engine.database import lacks_room
from vtrain.engine.folder import ReplicaExit, ReplicaFolder, write_struct
from vtrain.engine.instants import epoch
from vtrain.errors import EngineError

SETTLE_PAUSE_SECONDS = 0.01
"""The first pause between the end of a log and another look whether the container has ended; doubled."""
LAST_WORDS = 8
DISK_PATIENCE_SECONDS = 60.0
"""How long the end of a log waits for a disk that is full."""


class ContainerWatch(threading.Thread):
    """One attempt's container. What it finds out goes into the attempt's folder and the job's logs."""

    def __init__(
        self, replica: ReplicaFolder, order: ContainerOrder, station: Station, *, stopping: bool
    ) -> None:
        """With `stopping` nothing is started any more; what runs is watched to its end."""
        super().__init__(name=f"watch {replica.name}", daemon=True)
        self.order = order
        self._replica = replica
        self._station = station
        self._view = ContainerView(station.engine, station.hang_up, order.name)
        self._stopping = Stopping(self._view, station.meter, order.grace_seconds)
        self._stopping.wanted = stopping
        self._seen_running = 0.0

    def run(self) -> None:
        """Until the exit is written; then the container is removed.

        Whatever goes wrong here, the container is none the worse for it: watching begins anew.
        """
        faults = Faults()
        while True:
            try:
                self._record(self._watch())
                break
            except Exception as fault:  # a full disk, an answer that nobody foresaw
                if not self._replica.path.exists():  # somebody has removed it: there is nothing to write to
                    break
                if not faults.are_borne(fault) and self._gave_up(fault):
                    break
                time.sleep(LONGEST_PAUSE_SECONDS)
        self._station.meter.drop(self._view.id)
        with suppress(EngineError):  # the job's end removes what is left
            self._view.remove()

    def _watch(self) -> ReplicaExit:
        beginning = Beginning(self._replica, self.order, self._station, self._view, self._stopping)
        transcript = Transcript(self.order.log, self.order.attempt)
        try:
            end = self._view.patiently(beginning.ensure)
            if end is None:
                self._station.meter.add(self._view.id)
                end = self._view.patiently(lambda: self._follow(transcript))
        finally:
            transcript.close()
        return end

    def _record(self, end: ReplicaExit) -> None:
        used = self._station.meter.usage(self._view.id)
        end = msgspec.structs.replace(
            end,
            log_error=self._view.log_error,
            peak_memory_bytes=(end.oom and self.order.memory_bytes) or used.peak_memory_bytes,
            cpu_seconds=used.cpu_seconds,
        )
        write_struct(self._replica.path / "exit.json", end)
        self._replica.job.wake()

    def _gave_up(self, fault: Exception) -> bool:
        """Whether an exit is written that says so."""
        try:
            self._record(refused_exit(f"vtrain cannot watch its container: {fault!r}"))
        except OSError:
            return False
        return True

    def stop(self) -> None:
        """Ask the container to end; called again and again, it kills it when the grace period is over."""
        self._stopping.ask()

    def kill(self) -> None:
        """End the container now."""
        self._stopping.kill()

    def outlived(self, moment: float) -> bool:
        """Whether the container is known to have run at that time, in seconds since the epoch."""
        if self._seen_running < moment:
            try:
                state = self._view.inspect() if self._view.is_connected else None
            except EngineError:
                return False  # its exit will tell
            if state is not None and state["Running"]:  # so it outlived whatever is known to have ended
                self._seen_running = max(time.time(), moment)
            elif state is not None and state["Status"] == "exited":
                self._seen_running = epoch(state["FinishedAt"])
        return self._seen_running >= moment

    def _follow(self, transcript: Transcript) -> ReplicaExit:
        """Read the log until the container has ended."""
        while True:
            self._read_log(transcript)
            self._station.meter.look(self._view.id)
            state = self._settled()
            if state is None:
                self._view.log_error = UNREAD
                return unseen_exit(REMOVED, stopped=self._stopping.wanted)
            if _has_ended(state):
                self._drain(transcript, state)
                return self._ending(state, transcript)
            if self._view.log_error:
                time.sleep(LONGEST_PAUSE_SECONDS)

    def _read_log(self, transcript: Transcript) -> None:
        """From where the transcript ends, until the stream does, or the disk is full."""
        try:
            with closing(self._view.follow_log(transcript.resume())) as log:
                for pieces in log:
                    transcript.take(pieces)
        except OSError as error:
            if not lacks_room(error):
                raise

    def _settled(self) -> dict[str, Any] | None:
        """The container's State when its log has ended: the engine writes its end a moment later."""
        pause = SETTLE_PAUSE_SECONDS
        state = self._view.inspect()
        while state is not None and not _has_ended(state) and pause < LONGEST_PAUSE_SECONDS:
            time.sleep(pause)
            pause *= 2
            state = self._view.inspect()
        return state

    def _drain(self, transcript: Transcript, state: dict[str, Any]) -> None:
        """Store the end of the log, when the disk takes it; the engine keeps it for some time."""
        try:
            transcript.drain(self._view.read_tail)
        except OSError as error:
            if time.time() - epoch(state["FinishedAt"]) < DISK_PATIENCE_SECONDS:
                raise
            self._view.log_error = f"the disk refused it ({error.strerror})"

    def _ending(self, state: dict[str, Any], transcript: Transcript) -> ReplicaExit:
        stopped, gap = self._stopping.wanted, self._view.gap
        if state["ExitCode"] in NOT_STARTED and (why := start_failure(self._view.read_tail(LAST_WORDS))):
            return refused_exit(why, state["ExitCode"])
        cause = ""
        if not stopped:
            is_silent = transcript.is_empty
            cause = interruption_of(self._view.engine, self.order.name, state, gap, is_silent=is_silent)
        return replica_exit(state, stopped=stopped, interruption=cause, gap=gap)


def _has_ended(state: dict[str, Any]) -> bool:
    return not state["Running"] and state["Status"] in ("exited", "dead")
