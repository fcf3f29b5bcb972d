"""The environment that a trainer runs in on this machine: planned from content, made once, then reused.

    environments/dependencies/<key>   a virtual environment with what the packages require
    environments/packages/<key>       a virtual environment with the packages; it reads the former
    environments/frameworks/<key>     links to a framework that is installed beside vtrain
    environments/wheels/<key>         a package built once, where it has to be built
    environments/plans/<key>.json     what a plan came to, so that the next one only hashes the packages
    environments/pip/<abi>            a pip made by virtualenv, where vtrain's Python has none

An edited line in a trainer changes the second alone. A folder is complete once it holds `complete`,
which tells the state that it was made in. Where files in it have changed since, the marker becomes `changed`,
the folder stays for the jobs that run in it, and another is made beside it: `<key>-2`.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from vtrain.engine.environments.layers import (
    EnvironmentFailed,
    Log,
    claim,
    copy_environment,
    python_of,
    writing_environments,
)
from vtrain.engine.environments.plan import EnvironmentPlan, EnvironmentSpec, plan_environment
from vtrain.privacy import make_private

__all__ = [
    "Environment",
    "EnvironmentFailed",
    "EnvironmentPlan",
    "EnvironmentSpec",
    "make_environment",
    "plan_environment",
]


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """A complete environment: its interpreter, and the folders to put first on PATH."""

    python: str
    path_entries: tuple[str, ...]

    def copied_to(self, folder: Path) -> Environment:
        """The same with a copy of the packages below `folder`, for a trainer that writes beside its modules.

        What the packages require is not copied: a change there is noticed at the next use. Each call makes a
        new copy. Raises EnvironmentFailed.
        """
        binaries, *others = self.path_entries
        shared = Path(binaries).parent
        own = folder / f"{shared.name}-{os.urandom(3).hex()}"
        with writing_environments(folder):
            make_private(folder)
            copy_environment(shared, own)
        return Environment(python=str(python_of(own)), path_entries=(str(own / "bin"), *others))


def make_environment(plan: EnvironmentPlan, log: Log) -> Environment:
    """Make what the plan lacks, and answer once it is complete; at once where it is.

    `log` receives the lines of the installer. What is used counts as used from now on. Raises
    EnvironmentFailed, which names the requirement.
    """
    with writing_environments(plan.home):
        while plan.cached and not claim(plan.path, log):
            plan = plan_environment(plan.spec, plan.home)  # it was cleaned up meanwhile, or is damaged
    if not plan.cached:
        from vtrain.engine.environments.construction import construct

        plan = construct(plan, log)
    folders = (str(plan.path / "bin"), str(plan.dependencies_path / "bin"))
    return Environment(python=str(python_of(plan.path)), path_entries=folders)
