"""A trainer's actions, as a value: played by a real process (`player`) or by the backend in memory."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from vtrain.messages.custom_job import CustomJob, CustomJobSpec, EnvVar, PythonPackageSpec, WorkerPoolSpec

PLAYER = "vtrain.testing.player"


class Script(msgspec.Struct, frozen=True):
    """Steps, one after the other; a script that runs out of them exits with 0."""

    steps: tuple[tuple[str, str | int | float], ...] = ()

    def write(self, text: str) -> Script:
        """Write to stdout, exactly this."""
        return self._then("stdout", text)

    def write_error(self, text: str) -> Script:
        """Write to stderr, exactly this."""
        return self._then("stderr", text)

    def count(self, lines: int) -> Script:
        """Write that many numbered lines to stdout: `line 0`, `line 1`, …"""
        return self._then("count", lines)

    def sleep(self, seconds: float) -> Script:
        """Do nothing for a while."""
        return self._then("sleep", seconds)

    def ignore_sigterm(self) -> Script:
        """Take no notice of SIGTERM from now on."""
        return self._then("ignore", 15)

    def leave_grandchild(self) -> Script:
        """Start a process in a session of its own that ignores SIGTERM, and write its id as a line."""
        return self._then("grandchild", 0)

    def hang(self) -> Script:
        """Do nothing until ended from outside."""
        return self._then("hang", 0)

    def exit(self, code: int) -> Script:
        """End with this code."""
        return self._then("exit", code)

    def die(self, signal: int) -> Script:
        """End by this signal."""
        return self._then("die", signal)

    def crash_first(self, times: int) -> Script:
        """Abort (SIGABRT), unless the replica has been started more often; needs an output directory."""
        return self._then("crash_first", times)

    def hang_first(self, times: int) -> Script:
        """Do nothing until ended from outside, unless the replica has been started more often."""
        return self._then("hang_first", times)

    def _then(self, action: str, value: str | float) -> Script:
        return Script((*self.steps, (action, value)))


def script_job(*scripts: Script, env: Sequence[EnvVar] = (), display_name: str = "contract") -> CustomJob:
    """A job of one replica per script, each in a worker pool of its own, the primary first."""
    pools = tuple(
        WorkerPoolSpec(
            python_package_spec=PythonPackageSpec(
                python_module=PLAYER, args=(json.dumps(script.steps),), env=tuple(env)
            )
        )
        for script in scripts
    )
    return CustomJob(display_name=display_name, job_spec=CustomJobSpec(worker_pool_specs=pools))


def read_script(pool: WorkerPoolSpec) -> Script:
    """The script in a pool of such a job."""
    task = pool.python_package_spec
    steps = json.loads(task.args[0]) if task is not None and task.args else []
    return Script(tuple((action, value) for action, value in steps))
