"""The supervisor of a job with replicas, which do not depend on it: shims own them, or the engine.

Before the first replica starts, a program prepares the job, and the order of every replica is written.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import repeat
from pathlib import Path
from typing import Any

import msgspec

from vtrain.atomic import clear
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.structs import Status
from vtrain.retry import retry, steady, wait_until
from vtrain.runtime import job_error as verdict
from vtrain.runtime import working_folder
from vtrain.runtime.attempts import KILL_MARGIN_SECONDS, Attempts, Ended
from vtrain.runtime.capacity.leases import Waiting
from vtrain.runtime.capacity.queue import admit, attend, release
from vtrain.runtime.folder import JobFolder, ReplicaFolder, read_struct, write_struct
from vtrain.runtime.history import FIELD, replica_records
from vtrain.runtime.inheritance import drop_credentials
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.launching import PREPARATION, Launcher, Preparation, PrepareFailed, Runtime
from vtrain.runtime.log.service_log import PREPARING, RUNNING, STARTING, TEARING_DOWN, TORN_DOWN, ServiceLog
from vtrain.runtime.process.process_tree import boot_seconds, signal_all
from vtrain.runtime.recovery import RESTARTS_PER_JOB, Action, Cause
from vtrain.runtime.replica.vertex_view import replica_ids
from vtrain.runtime.spawning import spawn_holding
from vtrain.runtime.store import Store
from vtrain.runtime.supervision.base import POLL_SECONDS, Decision, NotNeeded, Supervisor
from vtrain.runtime.supervisor_process import SUPERVISOR_LOG
from vtrain.runtime.working_folder import fill
from vtrain.times import timestamp

PREPARATION_PATIENCE_SECONDS = 60.0
"""How long a preparation is tried again while what it needs (an engine) does not answer."""
END_SECONDS = 3.0
"""The time for a program that prepares to end, before it and its tools are killed."""
_BLOCK_BYTES = 65536

Pause = Callable[..., None]
"""Sleep until something happens, also on further descriptors; raises where the job's end was asked for."""


class PreparationKilled(PrepareFailed):
    """Something outside has ended the process that prepares: a person, or the kernel for want of memory."""


class Provisioning:
    """One job on its way to its first replica. `pause` may raise to end it; `program` prepares a job."""

    def __init__(
        self,
        folder: JobFolder,
        order: JobOrder,
        launcher: Launcher,
        log: ServiceLog,
        pause: Pause,
        program: Path,
    ) -> None:
        self._folder = folder
        self._order = order
        self._launcher = launcher
        self._log = log
        self._pause = pause
        self._program = program

    def order_replicas(self, devices: Mapping[str, tuple[str, ...]]) -> list[str]:
        """Prepare what the replicas need, and write how each is run; their names, the primary first."""
        self._log.say(*PREPARING)

        def pause(_: float) -> None:
            self._pause()  # the supervisor's own, which a request to cancel ends

        def prepared() -> Mapping[str, msgspec.Struct]:
            runtimes = retry(
                self._prepare,
                PreparationKilled,
                pauses=repeat(0.0, RESTARTS_PER_JOB),
                before_pause=lambda killed: self._log.complain(f"{killed} It begins again."),
                sleep=pause,
            )
            return self._launcher.replica_orders(self._order, self._folder, runtimes, devices)

        orders = retry(
            prepared,
            PrepareFailed,
            passes=lambda failed: failed.is_transient,
            seconds=PREPARATION_PATIENCE_SECONDS,
            pauses=steady(0.0),
            sleep=pause,
        )
        self._log.say(*STARTING)
        for name, order in orders.items():
            fill(self._folder.replica(name), opened=self._launcher.opens_work)
            self._folder.replica(name).order(order)
        write_struct(self._folder.path / "replicas.json", list(orders))
        return [*orders]

    def _prepare(self) -> tuple[Runtime, ...]:
        """Prepare the job: where tools have to work, in a program of its own, which can be cancelled."""
        ready = self._launcher.ready(self._order, self._log.pass_on)
        if ready is not None:
            return ready
        result = self._folder.path / PREPARATION
        result.unlink(missing_ok=True)
        ours, theirs = socket.socketpair()
        with ours:
            argv = [sys.executable, str(self._program), str(self._folder.path)]
            log = self._folder.path / SUPERVISOR_LOG
            program = spawn_holding(theirs.detach(), argv, dict(os.environ), log)
            try:
                self._pass_on(ours)
            finally:
                _end(program)
        prepared = read_struct(result, Preparation)
        if prepared is None:
            raise PreparationKilled("The preparation of the environment was killed.")
        if prepared.failure:
            raise PrepareFailed(prepared.failure, prepared.hint, is_transient=prepared.is_transient)
        return prepared.runtimes

    def _pass_on(self, output: socket.socket) -> None:
        """Write the output of tools into the log, in whole lines, until the program ends."""
        rest = b""
        while True:
            self._pause(output.fileno())
            try:
                block = output.recv(_BLOCK_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
            lines, newline, rest = (rest + block).rpartition(b"\n")
            self._log.pass_on(lines + newline)
            if not block or len(rest) > _BLOCK_BYTES:
                self._log.pass_on(rest)
                rest = b""
            if not block:
                return


def ordered_replicas(folder: JobFolder) -> list[str]:
    """The replicas' names, in order, when it was decided how they run; else none."""
    is_decided = (folder.path / "replicas.json").exists()
    return [member.name for member in replica_ids(folder.order().job.job_spec)] if is_decided else []


def _end(program: int) -> None:
    """End a program and its tools, which are its process group."""
    group = {(-program, 0)}
    signal_all(group, signal.SIGTERM)
    has_ended = wait_until(lambda: os.waitpid(program, os.WNOHANG)[0], END_SECONDS, 0.001, longest=0.05)
    signal_all(group, signal.SIGKILL)
    if not has_ended:
        os.waitpid(program, 0)


DEFAULT_TIMEOUT_SECONDS = 7 * 24 * 3600.0
CHANGING_POLL_SECONDS = 0.01
"""The pause between two looks while replicas are about to end: a lock is let go after the wakeup."""
SLOWEST_TEAR_DOWN_SECONDS = 0.1


class _Rebooted(Exception):
    """The machine was started anew: what ran here is gone."""


class JobSupervisor(Supervisor[CustomJob]):
    """One job's life."""

    message = CustomJob

    def __init__(
        self, folder: JobFolder, store: Store, lock: int, program: Path, *, launcher: Launcher, prepare: Path
    ) -> None:
        """`prepare` is the program that prepares a job."""
        super().__init__(folder, store, lock, program)
        self._launcher = launcher
        self._attempts = self._known_attempts(ordered_replicas(folder))
        self._provisioning = Provisioning(folder, self._order, launcher, self._log, self._pause, prepare)

    def _known_attempts(self, names: list[str]) -> Attempts:
        return Attempts(self._folder, self._launcher, names, self._order.grace_seconds)

    def _own_fields(self) -> dict[str, Any]:
        if not self._attempts.names:
            return super()._own_fields()
        records = replica_records(self._folder, self._attempts.names, self._attempts.history)
        return super()._own_fields() | {FIELD: records}

    def _failure(self, fault: Exception) -> Status:
        if isinstance(fault, _Rebooted):
            return verdict.machine_restarted(self._folder)
        if isinstance(fault, PrepareFailed):
            return verdict.environment_failed(self._folder, fault.message, fault.hint)
        return super()._failure(fault)

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
        devices = self._wait_in_queue()
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

    def _wait_in_queue(self) -> Mapping[str, tuple[str, ...]]:
        """The accelerators of each replica, once the job fits here.

        Raises NotNeeded for a job that is not the first in line: a change of the queue starts a process.
        """
        reported = ""
        while isinstance(answer := admit(self._store, self._start, self._order), Waiting):
            if answer.reason != reported:
                self._log.say(f"Job is queued: {answer.reason}")
                reported = answer.reason
            if self._job.state == states.PENDING:
                self._change(state=states.QUEUED)
            if not attend(self._store, self._start, own=self._order.name):
                raise NotNeeded
            self._pause()
        if self._job.state == states.QUEUED:
            self._change(state=states.PENDING)
        return answer.devices

    def _note_running(self) -> None:
        if self._job.state != states.PENDING or not self._attempts.run():
            return
        if not self._attempts.history.running_since:
            self._attempts.note_running(boot_seconds())
        self._change(state=states.RUNNING, start_time=self._job.start_time or timestamp())
        self._log.say(*self._attempts.start_notes(), RUNNING)

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
            ended.reported_exit,
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
        most = CHANGING_POLL_SECONDS if self._attempts.is_changing() else POLL_SECONDS
        self._wait(min(most, max(self._time_left(), 0.0)), *others)
        self._check_requests()

    def _abandon(self) -> None:
        self._attempts.abandon()
        self._launcher.clear(self._order)

    def _end_all(self, decision: Decision) -> None:  # noqa: ARG002 - replicas end alike, whatever the reason
        attempts = self._attempts.all()
        if attempts:
            self._log.say(TEARING_DOWN)
        living = self._stop(attempts)
        self._attempts.kill([a for a in attempts if a in living or (a.touched and a.exit() is None)])
        for attempt in self._folder.attempt_folders():
            with suppress(OSError):
                clear(attempt.tmp)
        left = self._clean_up()
        self._log.tell_losses(attempts)
        self._log.complain(*left)
        if attempts:
            self._log.say(TORN_DOWN)

    def _stop(self, attempts: Sequence[ReplicaFolder]) -> list[ReplicaFolder]:
        """Ask all that live to end, for as long as they may take; those that still live."""
        deadline = time.monotonic() + self._order.grace_seconds + KILL_MARGIN_SECONDS
        asked, pause = 0.0, CHANGING_POLL_SECONDS
        living = [attempt for attempt in attempts if self._launcher.lives(attempt)]
        while living and (now := time.monotonic()) < deadline:
            if now - asked >= POLL_SECONDS:
                if self._is_to_be_killed():
                    break
                asked = now
            for attempt in living:  # repeatedly, because a shim that has just started may miss a request
                self._launcher.stop(attempt)
            self._wakeup.wait(pause)
            pause = min(2 * pause, SLOWEST_TEAR_DOWN_SECONDS)
            living = [attempt for attempt in living if self._launcher.lives(attempt)]
        return living

    def _clean_up(self) -> list[str]:
        """Remove what the job needs no more. Return sentences on what could not be removed.

        The decision is stored already, so no fault here may keep the verdict from being written.
        """
        reported: list[str] = []

        @contextmanager
        def faults_noted() -> Iterator[None]:
            try:
                yield
            except Exception as fault:
                traceback.print_exc()
                reported.append(f"Not all that was made for the job could be removed: {fault}.")

        with faults_noted():
            reported += filter(None, [self._launcher.clear(self._order)])
        with faults_noted():
            self._folder.environment.unlink(missing_ok=True)
            drop_credentials(self._folder)
        with faults_noted():
            remarks = working_folder.tell(self._folder, self._attempts.all())
            self._log.say(*remarks.notes)
            reported += remarks.warnings
        return reported

    def _finish(self, decision: Decision) -> None:
        super()._finish(decision)
        # The lease goes last: the next job must not start before the end of this one is in the store.
        release(self._store, self._job.name)
