"""The steps of a job before its first replica starts: the preparation, and the order of every replica."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from itertools import repeat
from pathlib import Path

import msgspec

from vtrain.retry import retry, steady, wait_until
from vtrain.runtime.folder import JobFolder, read_struct, write_struct
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.launching import PREPARATION, Launcher, Preparation, PrepareFailed, Runtime
from vtrain.runtime.log.service_log import PREPARING, STARTING, ServiceLog
from vtrain.runtime.process.process_tree import signal_all
from vtrain.runtime.recovery import RESTARTS_PER_JOB
from vtrain.runtime.replica.vertex_view import replica_ids
from vtrain.runtime.spawning import spawn_holding
from vtrain.runtime.supervisor_process import SUPERVISOR_LOG
from vtrain.runtime.working_folder import fill

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
    has_ended = wait_until(lambda: os.waitpid(program, os.WNOHANG)[0], END_SECONDS)
    signal_all(group, signal.SIGKILL)
    if not has_ended:
        os.waitpid(program, 0)
