"""Runs a launcher's preparation in a child, so that it can be cancelled while tools are at work."""

from __future__ import annotations

import os
import select
import signal
import time
import traceback
from collections.abc import Iterator

import msgspec

from vtrain.engine.folder import JobOrder
from vtrain.engine.launcher import Launcher, PrepareFailed, Runtime
from vtrain.engine.process_tree import adopt_orphans, descendants, signal_all

KILL_SECONDS = 3.0
"""What the tools get to end before the rest of their process group is killed."""


class _Result(msgspec.Struct):
    """What the child came to."""

    runtimes: tuple[Runtime, ...] = ()
    failure: str = ""
    hint: str = ""
    is_transient: bool = False


class Preparation:
    """One preparation under way. Its output comes through `pipe`."""

    def __init__(self, launcher: Launcher, order: JobOrder, *, closing: tuple[int, ...]) -> None:
        self.pipe, output = os.pipe()
        self._result_pipe, result = os.pipe()
        self.ended = False
        self._child = os.fork()
        if self._child == 0:
            # A copy of the job's lock would outlive a supervisor that dies.
            for descriptor in (*closing, self.pipe, self._result_pipe):
                os.close(descriptor)
            _prepare(launcher, order, output, result)
        os.close(output)
        os.close(result)

    def output(self) -> Iterator[bytes]:
        """What the tools wrote since; sets `ended` at the end. Call it when `pipe` is readable."""
        while not self.ended and select.select([self.pipe], [], [], 0)[0]:
            block = os.read(self.pipe, 65536)
            self.ended = not block
            if block:
                yield block

    def result(self) -> tuple[Runtime, ...]:
        """What was made. Raises PrepareFailed."""
        with os.fdopen(self._result_pipe, "rb") as file:
            told = file.read()
        os.close(self.pipe)
        os.waitpid(self._child, 0)
        if not told:
            raise PrepareFailed("The preparation of the environment was killed.")
        result = msgspec.json.decode(told, type=_Result)
        if result.failure:
            raise PrepareFailed(result.failure, result.hint, is_transient=result.is_transient)
        return result.runtimes

    def kill(self) -> None:
        """End it, the tools it runs included: they are its to end, then it is ours."""
        deadline = time.monotonic() + KILL_SECONDS
        os.kill(self._child, signal.SIGTERM)
        while os.waitpid(self._child, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                signal_all({(-self._child, 0)}, signal.SIGKILL)
            time.sleep(0.01)
        os.close(self.pipe)
        os.close(self._result_pipe)


class _Interrupted(BaseException):
    """SIGTERM, for the code that waits for a tool."""


def _prepare(launcher: Launcher, order: JobOrder, output: int, result: int) -> None:
    """In the child: prepare, tell the result, and never return: what follows here is the supervisor's own."""
    try:
        os.setsid()
        adopt_orphans()
        signal.signal(signal.SIGTERM, _interrupt)
        _write(result, msgspec.json.encode(_outcome(launcher, order, output)))
    finally:
        os._exit(0)


def _outcome(launcher: Launcher, order: JobOrder, output: int) -> _Result:
    try:
        return _Result(runtimes=launcher.prepare(order, lambda block: _write(output, block)))
    except PrepareFailed as failed:
        return _Result(failure=failed.message, hint=failed.hint, is_transient=failed.is_transient)
    except _Interrupted:
        _kill_tools()
        return _Result(failure="The preparation of the environment was cancelled.")
    except BaseException as error:  # the child's only way out is the pipe
        _write(output, traceback.format_exc().encode())
        return _Result(failure=f"The environment could not be made: {error!r}.")


def _kill_tools() -> None:
    """End all that came from this process, even what was forked just before its parent was killed."""
    deadline = time.monotonic() + KILL_SECONDS
    while _has_children() and time.monotonic() < deadline:
        left = descendants(os.getpid())
        if left and left <= signal_all(left, signal.SIGKILL):
            return  # another user's: nothing can be done about them
        time.sleep(0.01)


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
