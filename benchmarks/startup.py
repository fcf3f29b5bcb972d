"""Start-up: `vtrain --help` and `vtrain custom-jobs list` of 100 jobs, piped, against `import typer`."""

from __future__ import annotations

import sys
from pathlib import Path

import measure
from measure import VTRAIN, alternate, arguments, judge, scene, seconds

HELP_LIMIT, LIST_LIMIT = 1.25, 1.5
JOBS = 100


def main() -> int:
    options = arguments(__doc__, runs=15)
    with scene() as folder:
        fill(folder / "home")
        sides = {
            "python -c 'import typer'": lambda: seconds([sys.executable, "-c", "import typer"]),
            "vtrain --help": lambda: seconds([*VTRAIN, "--help"]),
            f"vtrain custom-jobs list ({JOBS} jobs)": lambda: seconds([*VTRAIN, "custom-jobs", "list"]),
        }
        medians = alternate(sides, options.runs)
        base, *others = medians
        for name, limit in zip(others, (HELP_LIMIT, LIST_LIMIT), strict=True):
            judge(f"{name} against {base}", medians[name] / medians[base], limit, " times")
    return min(measure.failures, 1)


def fill(home: Path) -> None:
    """Put jobs into the store as the backend does; none of them is started."""
    import msgspec

    from vtrain.messages.codec import to_document
    from vtrain.messages.custom_job import CustomJob, CustomJobSpec, PythonPackageSpec, WorkerPoolSpec
    from vtrain.runtime.store import Record, Store

    pool = WorkerPoolSpec(
        replica_count=1, python_package_spec=PythonPackageSpec(python_module="trainer.task")
    )
    state, spec = "JOB_STATE_SUCCEEDED", CustomJobSpec(worker_pool_specs=(pool,))
    store = Store.open(home)
    for number in range(JOBS):
        name = f"projects/local/locations/us-central1/customJobs/{10**18 + number}"
        moment = f"2024-05-01T12:{number // 60:02}:{number % 60:02}Z"
        job = CustomJob(
            name=name, display_name=f"job {number}", job_spec=spec, state=state, create_time=moment
        )
        document = msgspec.json.encode(to_document(job)).decode()
        fields = {"name": name, "collection": "customJobs", "state": state, "create_time": moment}
        store.insert(Record(backend="process", document=document, **fields))


if __name__ == "__main__":
    sys.exit(main())
