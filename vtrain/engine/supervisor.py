"""Runs one job from its submission to its verdict, or goes on where another supervisor died.

One small process per job, the only writer of the job's state. Everything it decides lies in the job's
folder before it acts, so that it may die at any moment: replicas have shims of their own.
"""

from __future__ import annotations

import os
import shutil
import time
import traceback
from collections.abc import Mapping
from pathlib import Path

import msgspec

from vtrain.engine import verdict
from vtrain.engine.folder import SERVICE, JobFolder, ReplicaExit, ReplicaFolder, read_struct, write_struct
from vtrain.engine.instants import epoch, from_epoch, timestamp
from vtrain.engine.journal import SERVICE_WORDS, STDERR, STDOUT, JournalWriter
from vtrain.engine.launcher import Launcher, PrepareFailed, Runtime
from vtrain.engine.preparation import Preparation
from vtrain.engine.store import Store
from vtrain.engine.wakeup import Wakeup
from vtrain.errors import StorageError
from vtrain.messages import states
from vtrain.messages.base import Status
from vtrain.messages.codec import from_document, to_document
from vtrain.messages.custom_job import CustomJob

DEFAULT_TIMEOUT_SECONDS = 7 * 24 * 3600.0
POLL_SECONDS = 0.5
"""How often the supervisor looks around when nothing wakes it: a shim that was killed says nothing."""
PREPARATION_PATIENCE_SECONDS = 60.0
"""How long a preparation is tried again while what it needs (an engine) does not answer."""
TEAR_DOWN_POLL_SECONDS = 0.01
KILL_MARGIN_SECONDS = 5.0
"""What a shim gets beyond the grace period before it is ended itself."""

_PREPARING = (
    "Waiting for job to be provisioned.",
    "vtrain is provisioning job running framework.",
    "vtrain is setting up this job.",
)
_STARTING = ("Waiting for training program to start.", "Job is preparing.")


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """How the job ends. Once written, nothing changes it."""

    state: str
    error: Status | None = None


class _Cancelled(Exception):
    """Somebody requested the job's end."""


def supervise(path: Path, launcher: Launcher, lock: int) -> None:
    """Bring the job in that folder to its end. `lock` is the job's lock, held."""
    os.set_inheritable(lock, False)
    folder = JobFolder(path)
    store = Store.open(Path(folder.order().home))
    Supervisor(folder, launcher, store, lock).run()
    store.close()
    os.close(lock)


class Supervisor:
    """One job's life."""

    def __init__(self, folder: JobFolder, launcher: Launcher, store: Store, lock: int) -> None:
        self._folder = folder
        self._order = folder.order()
        self._launcher = launcher
        self._store = store
        self._lock = lock
        self._job = self._load()
        self._replicas = self._ordered_replicas()
        self._wakeup = Wakeup(folder.wake_fifo)
        self._journal = JournalWriter(str(folder.logs / SERVICE))

    def run(self) -> None:
        """Everything, up to the verdict in the store."""
        if states.has_ended(self._job.state):
            return
        decision = self._known_decision() or self._decide()
        self._tear_down()
        self._finish(decision)

    def _load(self) -> CustomJob:
        record = self._store.get(self._order.name)
        return from_document(CustomJob, msgspec.json.decode(record.document))

    def _known_decision(self) -> Decision | None:
        return read_struct(self._folder.path / "decision.json", Decision)

    def _decide(self) -> Decision:
        try:
            decision = self._live()
        except _Cancelled:
            self._change(state=states.CANCELLING)
            self._say("Job is being cancelled.")
            decision = Decision(state=states.CANCELLED, error=verdict.cancelled())
        except StorageError:
            raise
        except PrepareFailed as failed:
            error = verdict.environment_failed(self._folder, failed.message, failed.hint)
            decision = Decision(state=states.FAILED, error=error)
        except Exception as fault:  # a job must end, whatever the engine's own fault is
            traceback.print_exc()
            decision = Decision(state=states.FAILED, error=verdict.engine_failed(self._folder, fault))
        write_struct(self._folder.path / "decision.json", decision)
        return decision

    def _live(self) -> Decision:
        self._check_requests()
        self._replicas = self._replicas or self._prepare_replicas()
        for replica in self._replicas:
            self._launcher.start(replica)
        while True:
            decision = self._outcome() or self._timeout()
            if decision is not None:
                return decision
            if self._job.state == states.PENDING and all(replica.started() for replica in self._replicas):
                self._change(state=states.RUNNING, start_time=self._job.start_time or timestamp())
                self._say("Job is running.")
            self._pause()

    def _prepare_replicas(self) -> list[ReplicaFolder]:
        self._say(*_PREPARING)
        orders = self._patient_orders()
        for name, order in orders.items():
            self._folder.replica(name).order(order)
        write_struct(self._folder.path / "replicas.json", list(orders))
        return self._ordered_replicas()

    def _patient_orders(self) -> Mapping[str, msgspec.Struct]:
        """How each replica is run, once what it needs is made."""
        deadline = time.monotonic() + PREPARATION_PATIENCE_SECONDS
        while True:
            try:
                runtimes = self._prepare()
                orders = self._launcher.replica_orders(self._order, self._folder, runtimes)
            except PrepareFailed as failed:
                self._check_requests()
                if not failed.is_transient or time.monotonic() > deadline:
                    raise
                self._pause()
            else:
                self._say(*_STARTING)
                return orders

    def _prepare(self) -> tuple[Runtime, ...]:
        if not self._launcher.needs_preparation(self._order):
            return self._launcher.prepare(self._order, self._journal_block)
        preparation = Preparation(self._launcher, self._order, closing=(self._lock,))
        try:
            self._launcher.begin(self._order)
            while not preparation.ended:
                self._pause(preparation.pipe)
                for block in preparation.output():
                    self._journal_block(block)
        except _Cancelled:
            preparation.kill()
            raise
        return preparation.result()

    def _ordered_replicas(self) -> list[ReplicaFolder]:
        """The replicas, in order, when it was decided how they run."""
        try:
            names = msgspec.json.decode((self._folder.path / "replicas.json").read_bytes(), type=list[str])
        except FileNotFoundError:
            return []
        return [self._folder.replica(name) for name in names]

    def _outcome(self) -> Decision | None:
        """The end that the replicas have brought about, by the earliest exit that decides."""
        lost = [replica for replica in self._replicas if not self._launcher.lives(replica)]
        ends = [(replica, end) for replica in self._replicas if (end := replica.exit()) is not None]
        for replica, end in sorted(ends, key=lambda pair: pair[1].ended):
            failed = end.code != 0 or bool(end.interruption)
            if (failed or replica == self._replicas[0]) and self._is_first(end.ended):
                return self._failed(replica, end) if failed else Decision(state=states.SUCCEEDED)
        gone = {replica for replica, _ in ends}
        for replica in lost:
            if replica not in gone:
                error = verdict.supervision_lost(self._folder, replica.name)
                return Decision(state=states.FAILED, error=error)
        return None

    def _is_first(self, ended: float) -> bool:
        """Whether no other replica can have ended before: what is found first need not have come first."""
        others = (replica for replica in self._replicas if replica.exit() is None)
        return all(self._launcher.outlived(replica, ended) for replica in others)

    def _failed(self, replica: ReplicaFolder, end: ReplicaExit) -> Decision:
        error = verdict.replica_failed(self._folder, replica.name, end, self._order.source_folder)
        return Decision(state=states.FAILED, error=error)

    def _timeout(self) -> Decision | None:
        scheduling = self._job.job_spec.scheduling
        text = scheduling.timeout if scheduling else ""
        seconds = float(text.removesuffix("s") or 0) or DEFAULT_TIMEOUT_SECONDS
        if not self._job.start_time or time.time() - epoch(self._job.start_time) < seconds:
            return None
        return Decision(state=states.CANCELLED, error=verdict.timed_out(text))

    def _pause(self, *others: int) -> None:
        self._wakeup.wait(self._patience(), *others)
        self._check_requests()

    def _patience(self) -> float:
        scheduling = self._job.job_spec.scheduling
        if not (self._job.start_time and scheduling and scheduling.timeout):
            return POLL_SECONDS
        left = epoch(self._job.start_time) + float(scheduling.timeout.removesuffix("s")) - time.time()
        return min(POLL_SECONDS, max(left, 0.0))

    def _check_requests(self) -> None:
        if self._store.requests(self._order.name) & {"cancel", "kill"}:
            raise _Cancelled

    def _must_kill(self) -> bool:
        return "kill" in self._store.requests(self._order.name)

    def _tear_down(self) -> None:
        """Nothing of the job runs afterwards."""
        living = [replica for replica in self._replicas if self._launcher.lives(replica)]
        if self._replicas:
            self._say("Tearing down training program.")
        deadline = time.monotonic() + self._order.grace_seconds + KILL_MARGIN_SECONDS
        while living and time.monotonic() < deadline and not self._must_kill():
            for replica in living:  # again and again: a shim that has just started may miss the first
                self._launcher.stop(replica)
            self._wakeup.wait(TEAR_DOWN_POLL_SECONDS)
            living = [replica for replica in living if self._launcher.lives(replica)]
        for replica in self._replicas:
            if replica in living or (replica.touched and replica.exit() is None):
                self._launcher.kill(replica)
            shutil.rmtree(replica.tmp, ignore_errors=True)
        left = self._launcher.clear(self._order)
        self._tell_lost_lines()
        if left:
            self._say(left, stream=STDERR)
        if self._replicas:
            self._say("Finished tearing down training program.")

    def _tell_lost_lines(self) -> None:
        """A log that is not whole says so itself: the disk refused a part of it."""
        for replica in self._replicas:
            end = replica.exit()
            if end is not None and end.log_lost_bytes:
                lost = f"At least {end.log_lost_bytes} bytes of the log of {replica.name} are lost"
                self._say(f"{lost}: the disk refused them.", stream=STDERR)
            if end is not None and end.log_error:
                self._say(
                    f"A part of the log of {replica.name} could not be read: {end.log_error}.", stream=STDERR
                )
            if end is not None and end.gap is not None:
                away, back = (from_epoch(moment) for moment in end.gap)
                lost = f"What {replica.name} wrote then may be lost"
                self._say(f"The Docker engine was away from {away} to {back}. {lost}.", stream=STDERR)

    def _finish(self, decision: Decision) -> None:
        error = decision.error
        if error is not None and decision.state == states.FAILED:
            self._say(*error.message.split("\n"), stream=STDERR)
        self._say(_LAST_WORDS[decision.state])
        self._journal.close()
        self._change(state=decision.state, error=error, end_time=timestamp())

    def _change(self, **fields: object) -> None:
        self._job = msgspec.structs.replace(self._job, **fields, update_time=timestamp())
        document = msgspec.json.encode(to_document(self._job)).decode()
        self._store.update(
            self._job.name, state=self._job.state, end_time=self._job.end_time, document=document
        )

    def _say(self, *lines: str, stream: int = SERVICE_WORDS) -> None:
        text = "".join(f"{line}\n" for line in lines)
        self._journal.write(text.encode(), stream)

    def _journal_block(self, block: bytes) -> None:
        self._journal.write(block if block.endswith(b"\n") else block + b"\n", STDOUT)


_LAST_WORDS = {
    states.SUCCEEDED: "Job completed successfully.",
    states.FAILED: "Job failed.",
    states.CANCELLED: "Job cancelled.",
}
