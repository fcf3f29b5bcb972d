"""Lists of 20,000 ended jobs: `--limit=20` against a store with 10, and all of them against one with 100.

How long a whole list takes is told in processor time, which a busy machine does not change.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import measure
from measure import VTRAIN, alternate, arguments, judge, scene, seconds

LIMIT = 1.5
WHOLE_LIMIT = 9
FEW, SOME, MANY = 10, 100, 20_000
LIST = [*VTRAIN, "custom-jobs", "list", "--limit=20"]


def main() -> int:
    options = arguments(__doc__, runs=15)
    with scene() as folder:
        homes = {count: folder / f"home-{count}" for count in (FEW, SOME, MANY)}
        for count, home in homes.items():
            fill(home, count)
        sides = {f"list --limit=20 of {count:,} jobs": timed(homes[count], LIST) for count in (FEW, MANY)}
        medians = [*alternate(sides, options.runs).values()]
        judge("list --limit=20 of 20,000 jobs against 10", medians[1] / medians[0], LIMIT, " times")
        whole = {f"list of {count:,} jobs": worked(homes[count]) for count in (SOME, MANY)}
        medians = [*alternate(whole, max(options.runs // 3, 1)).values()]
        judge("list of 20,000 jobs against 100", medians[1] / medians[0], WHOLE_LIMIT, " times")
        shown = {
            "one of 20,000 by --filter=state": timed(homes[MANY], [*LIST, "--filter=state:FAILED"]),
            "describe, of 20,000": timed(homes[MANY], [*VTRAIN, "custom-jobs", "describe", _name(5)]),
            "gc --dry-run, of 20,000": timed(homes[MANY], [*VTRAIN, "gc", "--dry-run"]),
        }
        alternate(shown, max(options.runs // 5, 1))
    return min(measure.failures, 1)


def timed(home: Path, argv: list[str]) -> Callable[[], float]:
    """Runs a command in that home."""
    return lambda: seconds(argv, env={**os.environ, "VTRAIN_HOME": str(home)})


def worked(home: Path) -> Callable[[], float]:
    """The processor time of a list of all names in that home."""
    argv = [*VTRAIN, "custom-jobs", "list", "--format=value(name)"]

    def run() -> float:
        before = os.times()
        seconds(argv, env={**os.environ, "VTRAIN_HOME": str(home)})
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    return run


def fill(home: Path, count: int) -> None:
    """Put ended jobs into a store as the backend does; the earliest has failed."""
    import msgspec

    from vtrain.messages.codec import to_document
    from vtrain.messages.custom_job import CustomJob, CustomJobSpec, PythonPackageSpec, WorkerPoolSpec
    from vtrain.runtime.store import Record, Store
    from vtrain.times import timestamp

    pool = WorkerPoolSpec(
        replica_count=1, python_package_spec=PythonPackageSpec(python_module="trainer.task")
    )
    spec, moment = CustomJobSpec(worker_pool_specs=(pool,)), timestamp()
    store = Store.open(home)
    with store.transaction():
        for number in range(count):
            state = "JOB_STATE_SUCCEEDED" if number else "JOB_STATE_FAILED"
            fields = {"name": _name(number), "state": state, "create_time": moment, "end_time": moment}
            job = CustomJob(display_name=f"job {number}", job_spec=spec, **fields)
            document = msgspec.json.encode(to_document(job)).decode()
            store.insert(Record(collection="customJobs", backend="process", document=document, **fields))


def _name(number: int) -> str:
    return f"projects/local/locations/us-central1/customJobs/{10**18 + number}"


if __name__ == "__main__":
    sys.exit(main())
