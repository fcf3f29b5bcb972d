"""The supervisor: runs one job from its submission to its verdict, or goes on where another one died.

There is one small process for each job, and it alone writes the job's state. It stores each decision in the
job's folder before it acts, so it may die at any moment. The replicas do not depend on it: shims own them.
"""

from __future__ import annotations

import os
import time
import traceback
from contextlib import suppress
from pathlib import Path

import msgspec

from vtrain.atomic import clear
from vtrain.errors import DamagedError, StorageError, VtrainError
from vtrain.messages import states
from vtrain.messages.base import Status
from vtrain.messages.codec import to_document
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.secrets import masked_document
from vtrain.runtime import verdict, working_folder
from vtrain.runtime.attempts import KILL_MARGIN_SECONDS, Attempts, Ended
from vtrain.runtime.boot import boot_id, boot_seconds
from vtrain.runtime.capacity.queue import attend, release
from vtrain.runtime.child_jobs import wake_parent
from vtrain.runtime.database import lacks_room
from vtrain.runtime.file_limit import allow_files
from vtrain.runtime.folder import DamagedFileError, JobFolder, read_struct, write_struct
from vtrain.runtime.history import FIELD, PARENT_FIELD, replica_records, stored_job
from vtrain.runtime.inheritance import drop_credentials
from vtrain.runtime.job_storage import stop_serving
from vtrain.runtime.launcher import Launcher, PrepareFailed
from vtrain.runtime.locks import still_holds
from vtrain.runtime.provisioning import NotFirstInQueue, Provisioning, ordered_replicas
from vtrain.runtime.recovery import Action, Cause
from vtrain.runtime.service_log import LAST_WORDS, RUNNING, TEARING_DOWN, TORN_DOWN, ServiceLog
from vtrain.runtime.store import Store
from vtrain.runtime.supervisor_process import reap
from vtrain.runtime.wakeup import Wakeup
from vtrain.times import timestamp

DEFAULT_TIMEOUT_SECONDS = 7 * 24 * 3600.0
POLL_SECONDS = 0.5
"""The pause between two looks at the replicas when nothing wakes the supervisor: a killed shim cannot."""
TEAR_DOWN_POLL_SECONDS = 0.01


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a job: its state and its error. Once it is stored, nothing changes it."""

    state: str
    error: Status | None = None


class _Cancelled(Exception):
    """Somebody requested the job's end."""


class _Replaced(Exception):
    """Somebody removed the job's lock, and another supervisor has the new one."""


class _Rebooted(Exception):
    """The machine was started anew: what ran here is gone."""


def supervise(path: Path, launcher: Launcher, lock: int) -> None:
    """Bring the job in the folder `path` to its end. `lock` is the descriptor of its lock, which is held."""
    os.set_inheritable(lock, False)
    folder = JobFolder(path)
    folder.clear_unpublished()
    order = folder.order()
    allow_files(order.files)
    home = Path(order.home)
    store = Store.open(home)
    supervisor = Supervisor(folder, launcher, store, lock)
    supervisor.run()
    supervisor.close()
    os.close(lock)
    # Only after the lock is free: until then other processes left changes of the queue to this supervisor.
    with suppress(VtrainError):
        attend(store, home, changed=True)
    with suppress(VtrainError):
        wake_parent(folder, store, home)
    store.close()


class Supervisor:
    """One job's life."""

    def __init__(self, folder: JobFolder, launcher: Launcher, store: Store, lock: int) -> None:
        self._folder = folder
        self._order = folder.order()
        self._launcher = launcher
        self._store = store
        self._job = self._load()
        self._attempts = self._known_attempts(ordered_replicas(folder))
        self._wakeup = Wakeup(folder.wake_fifo)
        self._lock = lock
        self._log = ServiceLog(folder)
        self._provisioning = Provisioning(folder, self._order, launcher, self._log, self._pause, lock)

    def run(self) -> None:
        """Everything, up to the verdict in the store."""
        if states.has_ended(self._job.state):
            return
        try:
            decision = self._known_decision() or self._decide()
            self._tear_down()
            self._finish(decision)
        except (NotFirstInQueue, _Replaced):
            self._log.close()
        except (OSError, VtrainError):
            if self._folder.path.exists():
                raise
            # Somebody removed the folder. The next command writes the verdict.
            self._attempts.abandon()
            self._launcher.clear(self._order)

    def close(self) -> None:
        """Stop listening for wakeups. Writers of the FIFO see that nobody reads it."""
        self._wakeup.close()

    def _load(self) -> CustomJob:
        """The job from the store or, if its row is damaged, as it was submitted: the row is written anew."""
        record = self._store.get(self._order.name)
        try:
            found = stored_job(record)
            assert isinstance(found, CustomJob)
            return msgspec.structs.replace(found, answer=None)
        except DamagedError:
            state = record.state if states.has_ended(record.state) else states.PENDING
            return msgspec.structs.replace(self._order.job, state=state)

    def _known_attempts(self, names: list[str]) -> Attempts:
        return Attempts(self._folder, self._launcher, names, self._order.grace_seconds)

    def _known_decision(self) -> Decision | None:
        try:
            return read_struct(self._folder.path / "decision.json", Decision)
        except DamagedFileError:
            return None  # the supervisor decides once more

    def _decide(self) -> Decision:
        try:
            decision = self._live()
        except _Cancelled:
            self._change(state=states.CANCELLING)
            self._log.say("Job is being cancelled.")
            decision = Decision(state=states.CANCELLED, error=verdict.cancelled())
        except (StorageError, NotFirstInQueue, _Replaced):
            raise
        except _Rebooted:
            decision = Decision(state=states.FAILED, error=verdict.machine_restarted(self._folder))
        except DamagedFileError as damage:
            decision = Decision(state=states.FAILED, error=verdict.file_damaged(self._folder, damage.path))
        except PrepareFailed as failed:
            error = verdict.environment_failed(self._folder, failed.message, failed.hint)
            decision = Decision(state=states.FAILED, error=error)
        except Exception as fault:  # a job must end, whatever the runtime's own fault is
            if lacks_room(fault):  # which is no fault: the next supervisor goes on
                raise
            traceback.print_exc()
            decision = Decision(state=states.FAILED, error=verdict.engine_failed(self._folder, fault))
        write_struct(self._folder.path / "decision.json", decision)
        return decision

    def _live(self) -> Decision:
        if self._attempts.damage is not None:
            raise self._attempts.damage
        self._check_requests()
        if self._has_rebooted():
            self._attempts.look_back()
            decision = self._outcome()
            if decision is None:
                raise _Rebooted
            return decision
        devices = self._provisioning.wait_in_queue(self._store, self._be_queued)
        if self._job.state == states.QUEUED:
            self._change(state=states.PENDING)
        if not self._attempts.names:
            self._attempts = self._known_attempts(self._provisioning.order_replicas(devices))
        self._folder.environment.unlink(missing_ok=True)
        while True:
            self._attempts.keep_started()
            self._note_running()
            self._preempt()
            decision = self._outcome() or self._timeout()
            if decision is not None:
                return decision
            self._pause()

    def _be_queued(self) -> None:
        if self._job.state == states.PENDING:
            self._change(state=states.QUEUED)

    def _note_running(self) -> None:
        if self._job.state != states.PENDING or not self._attempts.run():
            return
        if not self._attempts.history.running_since:
            self._attempts.note_running(boot_seconds())
        self._change(state=states.RUNNING, start_time=self._job.start_time or timestamp())
        self._log.say(*self._attempts.start_notes(), RUNNING)

    def _has_rebooted(self) -> bool:
        return bool(self._order.boot_id) and boot_id() != self._order.boot_id

    def _outcome(self) -> Decision | None:
        """The end of the job if a replica's exit decides it. The earliest such exit counts."""
        primary = self._attempts.names[:1]  # none before the first attempt
        for ended in self._attempts.ended():
            if ended.cause is Cause.DONE and ended.attempt.name not in primary:
                continue  # a worker's exit with 0 ends only itself: not documented
            if not (self._attempts.is_first(ended) or self._has_rebooted()):
                continue
            if ended.cause is Cause.DONE:
                return Decision(state=states.SUCCEEDED)
            action = self._attempts.action(ended, self._job.job_spec.scheduling)
            if action is Action.FAIL:
                return self._failed(ended)
            self._restart(ended, action)
            return None
        return None

    def _restart(self, ended: Ended, action: Action) -> None:
        if self._has_rebooted():
            raise _Rebooted
        self._attempts.restart(ended, action)
        self._change()
        what = ended.attempt.name if action is Action.RESTART_REPLICA else "all replicas"
        self._log.complain(f"{ended.attempt.name} ended: {ended.reason}.")
        self._log.say(f"Restarting {what} (restart {len(self._attempts.history.restarts)} of this job).")
        self._attempts.keep_started()
        self._folder.wake()  # other replicas may have ended too: look at them without a pause

    def _failed(self, ended: Ended) -> Decision:
        if self._has_rebooted() and (ended.cause is Cause.OUTSIDE or ended.left_with_machine):
            raise _Rebooted
        error = verdict.replica_failed(
            self._order,
            self._folder,
            ended.attempt,
            ended.told_exit,
            restarts=len(self._attempts.history.restarts),
        )
        return Decision(state=states.FAILED, error=error)

    def _preempt(self) -> None:
        """Simulate a preemption of a replica's machine, if the job asks for one and its time has come."""
        wanted, history = self._order.preemption, self._attempts.history
        if wanted is not None and history.preempted is None and history.running_since:
            name = wanted.replica or self._attempts.names[-1]
            due = history.running_since + wanted.after_seconds - boot_seconds()
            if due <= 0 and self._attempts.preempt(name):
                self._log.complain(f"Simulated preemption: {name} is sent SIGTERM.")
        self._attempts.stop_preempted()

    def _timeout(self) -> Decision | None:
        scheduling = self._job.job_spec.scheduling
        if self._time_left() > 0:
            return None
        return Decision(
            state=states.CANCELLED, error=verdict.timed_out(scheduling.timeout if scheduling else "")
        )

    def _time_left(self) -> float:
        """Seconds until the job's timeout, which counts from the moment when all replicas first ran."""
        scheduling, since = self._job.job_spec.scheduling, self._attempts.history.running_since
        text = scheduling.timeout if scheduling else ""
        seconds = float(text.removesuffix("s") or 0) or DEFAULT_TIMEOUT_SECONDS
        return since + seconds - boot_seconds() if since else seconds

    def _pause(self, *others: int) -> None:
        most = TEAR_DOWN_POLL_SECONDS if self._attempts.is_changing() else POLL_SECONDS
        self._wakeup.wait(min(most, max(self._time_left(), 0.0)), *others)
        reap()
        self._check_requests()

    def _check_requests(self) -> None:
        self._folder.path.stat()  # raises where somebody has removed it
        if not still_holds(self._lock, self._folder.lock):
            raise _Replaced
        if self._store.requests(self._order.name) & {"cancel", "kill"}:
            raise _Cancelled

    def _tear_down(self) -> None:
        """End and remove everything that the job started."""
        attempts = self._attempts.all()
        living = [attempt for attempt in attempts if self._launcher.lives(attempt)]
        if attempts:
            self._log.say(TEARING_DOWN)
        deadline = time.monotonic() + self._order.grace_seconds + KILL_MARGIN_SECONDS
        while living and time.monotonic() < deadline and "kill" not in self._store.requests(self._order.name):
            for attempt in living:  # repeatedly, because a shim that has just started may miss a request
                self._launcher.stop(attempt)
            self._wakeup.wait(TEAR_DOWN_POLL_SECONDS)
            living = [attempt for attempt in living if self._launcher.lives(attempt)]
        for attempt in attempts:
            if attempt in living or (attempt.touched and attempt.exit() is None):
                self._attempts.kill(attempt)
        for attempt in self._folder.attempt_folders():
            with suppress(OSError):
                clear(attempt.tmp)
        left = self._clean_up()
        self._log.tell_losses(attempts)
        self._log.complain(*left)
        if attempts:
            self._log.say(TORN_DOWN)

    def _clean_up(self) -> list[str]:
        """Remove what the job needs no more. Return sentences on what could not be removed.

        The decision is stored already, so no fault here may keep the verdict from being written.
        """
        told = []
        for step in (self._clear, self._stop_storage, self._drop_credentials, self._tell_of_work):
            try:
                told += step()
            except Exception as fault:
                traceback.print_exc()
                told.append(f"Not all that was made for the job could be removed: {fault}.")
        return told

    def _clear(self) -> list[str]:
        left = self._launcher.clear(self._order)
        return [left] if left else []

    def _stop_storage(self) -> list[str]:
        stop_serving(self._folder)
        return []

    def _drop_credentials(self) -> list[str]:
        self._folder.environment.unlink(missing_ok=True)
        drop_credentials(self._folder)
        return []

    def _tell_of_work(self) -> list[str]:
        remarks = working_folder.tell(self._folder, self._attempts.all())
        self._log.say(*remarks.notes)
        return list(remarks.warnings)

    def _finish(self, decision: Decision) -> None:
        error = decision.error
        if error is not None and decision.state == states.FAILED:
            failed = masked_document(to_document(msgspec.structs.replace(self._job, error=error)))
            self._log.complain(*failed["error"]["message"].split("\n"))
        self._log.say(LAST_WORDS[decision.state])
        self._log.close()
        self._change(state=decision.state, error=error, end_time=timestamp())
        # The lease goes last: the next job must not start before the end of this one is in the store.
        release(self._store, self._job.name)

    def _change(self, **fields: object) -> None:
        self._job = msgspec.structs.replace(self._job, **fields, update_time=timestamp())
        document = to_document(self._job)
        if self._attempts.names:
            history = self._attempts.history
            document[FIELD] = replica_records(self._folder, self._attempts.names, history)
        if self._order.parent:
            document[PARENT_FIELD] = self._order.parent
        self._store.update(
            self._job.name,
            state=self._job.state,
            end_time=self._job.end_time,
            document=msgspec.json.encode(document).decode(),
        )
