"""Everything before the first replica starts: the queue, the preparation, the order of every replica."""

from __future__ import annotations

import os
import select
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from pathlib import Path

import msgspec

from vtrain.retry import retry, steady, wait_until
from vtrain.runtime.capacity.queue import Waiting, admit, attend
from vtrain.runtime.folder import DamagedFileError, JobFolder, read_struct, write_struct
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.launcher import Launcher, PrepareFailed, Runtime
from vtrain.runtime.process_tree import (
    PR_SET_PDEATHSIG,
    adopt_orphans,
    descendants,
    offspring,
    set_process_control,
    signal_all,
    snapshot,
)
from vtrain.runtime.recovery import RESTARTS_PER_JOB
from vtrain.runtime.replica.vertex_view import replica_ids
from vtrain.runtime.service_log import PREPARING, STARTING, ServiceLog
from vtrain.runtime.store import Store
from vtrain.runtime.supervision.base import NotNeeded
from vtrain.runtime.working_folder import fill

PREPARATION_PATIENCE_SECONDS = 60.0
"""How long a preparation is tried again while what it needs (an engine) does not answer."""
KILL_SECONDS = 3.0
"""Seconds that the tools get to end before the rest of their process group is killed."""
_BLOCK_BYTES = 65536

Pause = Callable[..., None]
"""Sleep until something happens, also on further descriptors; raises where the job's end was asked for."""


class PreparationKilled(PrepareFailed):
    """Something outside has ended the process that prepares: a person, or the kernel for want of memory."""


class NotFirstInQueue(NotNeeded):
    """The job waits in the queue, and needs no process for that: a change of the queue starts another."""


class Provisioning:
    """One job on its way to its first replica. `pause` sleeps, and may raise to end it all."""

    def __init__(
        self,
        folder: JobFolder,
        order: JobOrder,
        launcher: Launcher,
        log: ServiceLog,
        pause: Pause,
        lock: int,
    ) -> None:
        self._folder = folder
        self._order = order
        self._launcher = launcher
        self._log = log
        self._pause = pause
        self._lock = lock

    def wait_in_queue(self, store: Store, queued: Callable[[], None]) -> Mapping[str, tuple[str, ...]]:
        """The accelerators of each replica, once the job fits here; `queued` hears that it waits.

        Raises NotFirstInQueue for a job that is not the first in line.
        """
        told = ""
        while isinstance(answer := admit(store, self._order), Waiting):
            if answer.reason != told:
                self._log.say(f"Job is queued: {answer.reason}")
                told = answer.reason
            queued()
            if not attend(store, Path(self._order.home), own=self._order.name):
                raise NotFirstInQueue
            self._pause()
        return answer.devices

    def order_replicas(self, devices: Mapping[str, tuple[str, ...]]) -> list[str]:
        """Write how each replica is run, the primary first, and return their names."""
        self._log.say(*PREPARING)
        orders = self._patient_orders(devices)
        for name, order in orders.items():
            fill(self._folder.replica(name), opened=self._launcher.opens_work)
            self._folder.replica(name).order(order)
        write_struct(self._folder.path / "replicas.json", list(orders))
        return [*orders]

    def _patient_orders(self, devices: Mapping[str, tuple[str, ...]]) -> Mapping[str, msgspec.Struct]:
        """Prepare what the replicas need, and return how each one is run."""

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
        return orders

    def _prepare(self) -> tuple[Runtime, ...]:
        if not self._launcher.needs_preparation(self._order):
            return self._launcher.prepare(self._order, self._log.pass_on)
        preparation = Preparation(self._launcher, self._order, closing=(self._lock,))
        try:
            self._launcher.begin(self._order)
            while not preparation.ended:
                self._pause(preparation.pipe)
                for block in preparation.output():
                    self._log.pass_on(block)
        except BaseException:
            preparation.kill()
            raise
        return preparation.result()


def ordered_replicas(folder: JobFolder) -> list[str]:
    """The replicas' names, in order, when it was decided how they run; else none."""
    try:
        return read_struct(folder.path / "replicas.json", list[str]) or []
    except DamagedFileError:
        return [member.name for member in replica_ids(folder.order().job.job_spec)]


class _Result(msgspec.Struct):
    """The result that the child reports."""

    runtimes: tuple[Runtime, ...] = ()
    failure: str = ""
    hint: str = ""
    is_transient: bool = False


class Preparation:
    """One preparation in a child, which can be cancelled while tools work. Its output comes by `pipe`."""

    def __init__(self, launcher: Launcher, order: JobOrder, *, closing: tuple[int, ...]) -> None:
        self.pipe, output = os.pipe()
        self._result_pipe, result = os.pipe()
        self.ended = False
        self._open_line = b""
        supervisor = os.getpid()
        self._child = os.fork()
        if self._child == 0:
            # A copy of the job's lock would outlive a supervisor that dies.
            for descriptor in (*closing, self.pipe, self._result_pipe):
                os.close(descriptor)
            _prepare(launcher, order, output, result, supervisor)
        os.close(output)
        os.close(result)

    def output(self) -> Iterator[bytes]:
        """The tools' output since the last call, in whole lines. Call it when `pipe` is readable.

        Sets `ended` at the end.
        """
        while not self.ended and select.select([self.pipe], [], [], 0)[0]:
            block = os.read(self.pipe, _BLOCK_BYTES)
            self.ended = not block
            lines, newline, self._open_line = (self._open_line + block).rpartition(b"\n")
            yield lines + newline
            if self.ended or len(self._open_line) > _BLOCK_BYTES:
                yield self._open_line
                self._open_line = b""

    def result(self) -> tuple[Runtime, ...]:
        """The runtimes that were made. Raises PrepareFailed, PreparationKilled."""
        with os.fdopen(self._result_pipe, "rb") as file:
            told = file.read()
        os.close(self.pipe)
        os.waitpid(self._child, 0)
        try:
            result = msgspec.json.decode(told, type=_Result)
        except msgspec.DecodeError:  # it has said nothing, or only a part
            raise PreparationKilled("The preparation of the environment was killed.") from None
        if result.failure:
            raise PrepareFailed(result.failure, result.hint, is_transient=result.is_transient)
        return result.runtimes

    def kill(self) -> None:
        """End the child, which ends its tools. If it does not, kill it and the tools."""
        os.kill(self._child, signal.SIGTERM)
        if not wait_until(lambda: os.waitpid(self._child, os.WNOHANG)[0], KILL_SECONDS):
            # The code that runs there may have swallowed the interrupt, as Python itself does in __del__.
            signal_all(offspring({self._child}, snapshot()), signal.SIGKILL)
            signal_all({(-self._child, 0)}, signal.SIGKILL)
            os.waitpid(self._child, 0)
        os.close(self.pipe)
        os.close(self._result_pipe)


class _Interrupted(BaseException):
    """SIGTERM, for the code that waits for a tool."""


def _prepare(launcher: Launcher, order: JobOrder, output: int, result: int, supervisor: int) -> None:
    """Prepare in the child, report the result and exit: the code after the fork is for the supervisor."""
    try:
        os.setsid()
        adopt_orphans()
        signal.signal(signal.SIGTERM, _interrupt)
        set_process_control(PR_SET_PDEATHSIG, signal.SIGTERM)  # the next supervisor prepares anew
        if os.getppid() != supervisor:  # it died before the kernel knew of this wish
            os._exit(1)
        outcome = _outcome(launcher, order, output)
        os.close(output)  # its end lets the supervisor read the result, which a pipe may be too small for
        _write(result, msgspec.json.encode(outcome))
    except _Interrupted:
        _kill_tools()
    finally:
        os._exit(0)


def _outcome(launcher: Launcher, order: JobOrder, output: int) -> _Result:
    try:
        return _Result(runtimes=launcher.prepare(order, lambda block: _write(output, block)))
    except PrepareFailed as failed:
        return _Result(failure=failed.message, hint=failed.hint, is_transient=failed.is_transient)
    except _Interrupted:
        raise
    except BaseException as error:  # the child can report only through the pipe
        _write(output, traceback.format_exc().encode())
        return _Result(failure=f"The environment could not be made: {error!r}.")


def _kill_tools() -> None:
    """End all that came from this process, even what was forked just before its parent was killed."""

    def all_gone() -> bool:
        if not _has_children():
            return True
        left = descendants(os.getpid())
        refused = signal_all(left, signal.SIGKILL)
        return bool(left) and left <= refused  # another user's: nothing can be done about them

    wait_until(all_gone, KILL_SECONDS)


def _has_children() -> bool:
    """Whether any child is left, one that was adopted included; takes the exit codes of the ended ones."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _interrupt(*_: object) -> None:
    raise _Interrupted


def _write(descriptor: int, block: bytes) -> None:
    while block:
        block = block[os.write(descriptor, block) :]
