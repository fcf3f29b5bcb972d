"""The attempts of a job's replicas: which one counts now, how it ended, and which action follows.

Each decision is stored in the history before it is carried out, so that another supervisor can go on where
this one died.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from vtrain.failure import meaning
from vtrain.messages.custom_job import Scheduling
from vtrain.privacy import make_private
from vtrain.retry import wait_until
from vtrain.runtime.folder import (
    FOLDER_REMOVED,
    LOST,
    LOST_CODE,
    DamagedFileError,
    JobFolder,
    ReplicaExit,
    ReplicaFolder,
    write_struct,
)
from vtrain.runtime.history import History, Preempted, read_history, write_history
from vtrain.runtime.launching import Launcher
from vtrain.runtime.recovery import Action, Cause, Restart, action_after, cause_of
from vtrain.runtime.working_folder import fill

KILL_MARGIN_SECONDS = 5.0
"""Seconds that a shim gets beyond the grace period before it is ended itself."""
KILL_PAUSE_SECONDS = 0.01
MACHINE_END_CODES = (137, 143, LOST_CODE)
"""The exit codes of containers whose machine was switched off, or lost its power."""
PREEMPTED_REASON = "its machine was preempted (simulated)"


class Ended(msgspec.Struct, frozen=True):
    """A present attempt that has ended, and why."""

    attempt: ReplicaFolder
    exit: ReplicaExit
    cause: Cause

    @property
    def reason(self) -> str:
        """The cause of the end, in a few words."""
        if self.cause is Cause.PREEMPTED:
            return PREEMPTED_REASON
        return self.exit.interruption or f"exit code {self.exit.code}, {meaning(self.exit.code)}"

    @property
    def left_with_machine(self) -> bool:
        """Whether the machine's own end may have ended it. Meaningful only after the machine started anew."""
        return self.exit.stopped and self.exit.code in MACHINE_END_CODES and not self.exit.oom

    @property
    def reported_exit(self) -> ReplicaExit:
        """The exit as users see it: a preemption counts as an interruption."""
        if self.cause is not Cause.PREEMPTED:
            return self.exit
        return msgspec.structs.replace(self.exit, interruption=self.reason)


class Attempts:
    """The replicas of one job, the primary first."""

    def __init__(
        self, folder: JobFolder, launcher: Launcher, names: Sequence[str], grace_seconds: float
    ) -> None:
        self._folder = folder
        self._launcher = launcher
        self.names = tuple(names)
        self._patience = grace_seconds + KILL_MARGIN_SECONDS
        self._begun: set[ReplicaFolder] = set()
        self._leaving: dict[ReplicaFolder, float] = {}
        self.damage: DamagedFileError | None = None
        try:
            self.history = read_history(folder)
        except DamagedFileError as damage:
            self.history, self.damage = History(), damage

    def current(self) -> tuple[ReplicaFolder, ...]:
        """The attempt of each replica that counts now."""
        return tuple(self._folder.replica(name, self.history.attempt(name)) for name in self.names)

    def all(self) -> tuple[ReplicaFolder, ...]:
        """Every attempt of every replica, those that are missing in a damaged history included."""
        return tuple(
            self._folder.replica(name, number)
            for name in self.names
            for number in sorted({*range(self.history.attempt(name) + 1)} | self._folder.attempts(name))
        )

    def keep_started(self) -> None:
        """Start each current attempt that has not been started, once the attempt before it has ended."""
        for attempt in self.current():
            if attempt not in self._begun and self._has_left(attempt):
                if attempt.exit() is None:
                    self._start(attempt)
                self._begun.add(attempt)

    def is_changing(self) -> bool:
        """Whether a current attempt waits for the end of the one before it."""
        return not self._begun.issuperset(self.current())

    def run(self) -> bool:
        """Whether the program of every replica runs or has run."""
        return all(attempt.started() for attempt in self.current())

    def ended(self) -> list[Ended]:
        """The current attempts that have ended or were lost, in the order in which they count.

        The end of a preempted attempt has the time of the preemption. So it comes before the failures of
        peers that the preemption caused.
        """
        lost = [attempt for attempt in self.current() if attempt in self._begun and self._is_lost(attempt)]
        self.kill(lost)
        found = []
        for attempt in self.current():
            if (end := attempt.exit()) is not None:
                lost_at = self.history.preempted_at(attempt)
                # It may have ended by itself an instant before its machine was lost.
                cause = cause_of(end, preempted=lost_at is not None and end.ended >= lost_at)
                found.append(Ended(attempt, end, cause))
        return sorted(found, key=self._moment)

    def is_first(self, ended: Ended) -> bool:
        """Whether no other replica can have ended earlier. Exits need not be seen in their order."""
        moment = self._moment(ended)
        for attempt in self.current():
            if attempt.exit() is None:
                lost_at = self.history.preempted_at(attempt)
                if not (self._launcher.outlived(attempt, moment) if lost_at is None else moment < lost_at):
                    return False
        return True

    def action(self, ended: Ended, scheduling: Scheduling | None) -> Action:
        """The action that the rules prescribe. A job with a replica whose order is lost cannot restart."""
        if not all(self._folder.replica(name).is_ordered for name in self.names):
            return Action.FAIL
        return action_after(ended.cause, ended.attempt.name, self.history.restarts, scheduling)

    def restart(self, ended: Ended, action: Action) -> None:
        """Store a restart of the replicas that `action` names."""
        name = ended.attempt.name
        restart = Restart(
            time=time.time(),
            cause=name,
            replicas=(name,) if action is Action.RESTART_REPLICA else self.names,
            reason=ended.reason,
            is_retry=action is Action.RETRY_JOB,
        )
        self._remember(restarts=(*self.history.restarts, restart))

    def start_notes(self) -> list[str]:
        """Sentences about replicas that did not start in the usual way."""
        return [attempt.start_note for attempt in self.current() if attempt.start_note]

    def note_running(self, moment: float) -> None:
        """Remember when all replicas first ran."""
        self._remember(running_since=moment)

    def preempt(self, name: str) -> bool:
        """Store that the machine of a replica is preempted. False if the replica does not run."""
        attempt = self._folder.replica(name, self.history.attempt(name))
        if not attempt.started() or attempt.exit() is not None:
            return False
        self._remember(preempted=Preempted(replica=name, attempt=attempt.attempt, time=time.time()))
        return True

    def stop_preempted(self) -> None:
        """Ask the preempted replica to end. The supervisor calls this at each look."""
        lost = self.history.preempted
        if lost is None:
            return
        attempt = self._folder.replica(lost.replica, lost.attempt)
        if attempt.exit() is None and self._launcher.lives(attempt):
            self._launcher.stop(attempt)

    def look_back(self) -> None:
        """After the machine was started anew: read how attempts had ended, where an engine still knows it."""

        def all_known() -> bool:
            unknown = [a for a in self.current() if a.exit() is None and self._launcher.lives(a)]
            for attempt in unknown:
                self._launcher.stop(attempt)
            return not unknown

        wait_until(all_known, self._patience, KILL_PAUSE_SECONDS)

    def kill(self, attempts: Sequence[ReplicaFolder]) -> None:
        """End attempts now. Where no process is left that stores its exit, store that it was lost."""
        if not attempts:
            return
        losses = self._launcher.kill(attempts)
        for attempt in filter(self._is_lost, attempts):
            self._write_lost(attempt, losses.get(attempt, ""))

    def abandon(self) -> None:
        """End all started attempts of a job whose folder is gone. Nothing can be stored."""
        self._launcher.kill(list(self._begun))

    def _remember(self, **fields: object) -> None:
        self.history = msgspec.structs.replace(self.history, **fields)
        write_history(self._folder, self.history)

    def _start(self, attempt: ReplicaFolder) -> None:
        if not self._folder.replica(attempt.name).is_ordered:
            losses = self._launcher.kill([attempt])
            # Also where its backend cannot tell whether it lives.
            self._write_lost(attempt, losses.get(attempt, ""))
            return
        if not attempt.is_ordered:
            fill(attempt, opened=self._launcher.opens_work)
            attempt.order_again()
        self._launcher.start(attempt)

    def _has_left(self, attempt: ReplicaFolder) -> bool:
        """Whether the attempt before has ended. If not, ask it to end, and kill it when its time is over."""
        if attempt.attempt == 0:
            return True
        before = self._folder.replica(attempt.name, attempt.attempt - 1)
        if self._launcher.lives(before):
            since = self._leaving.setdefault(before, time.monotonic())
            if time.monotonic() - since < self._patience:
                self._launcher.stop(before)
                return False
        if before.exit() is None or self._launcher.lives(before):
            self.kill([before])
        return not self._launcher.lives(before)

    def _is_lost(self, attempt: ReplicaFolder) -> bool:
        # The order matters: a shim writes the exit before it releases its lock.
        return not self._launcher.lives(attempt) and attempt.exit() is None

    def _write_lost(self, attempt: ReplicaFolder, log_error: str) -> None:
        """Store the exit of an attempt that no process watches: that of its program, if it is known."""
        now = time.time()
        why = LOST if attempt.is_ordered else FOLDER_REMOVED
        start = min(attempt.start_time() or now, now)  # the clock may have been set back
        end = attempt.early_exit() or ReplicaExit(code=LOST_CODE, started=start, ended=now, interruption=why)
        make_private(attempt.path)
        write_struct(attempt.path / "exit.json", msgspec.structs.replace(end, log_error=log_error))
        attempt.clear_begun()

    def _moment(self, ended: Ended) -> float:
        lost = self.history.preempted
        return lost.time if lost is not None and ended.cause is Cause.PREEMPTED else ended.exit.ended
