"""`vtrain ai-platform local train`: a package on this machine, as one process or as a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from vtrain.commands.local_run import local_run
from vtrain.errors import UsageError
from vtrain.flags.ai_platform_job import package_source
from vtrain.flags.ai_platform_options import ClusterFlags, PackageFlags
from vtrain.flags.grammar import join_items, whole_number
from vtrain.flags.job_options import ContainerFlags, GpuFlags, LocalRunLine, SpecFlags, TrainerFlags
from vtrain.flags.local_options import InteractiveFlag, LocalFlags, RuntimeFlags
from vtrain.flags.options import CommonFlags, DryRunFlag, InterruptFlag, PlaceFlags

MACHINE = "machine-type=n1-standard-4"
"""A pool has to name one; processes have no use for it."""
_JOB_DIR = "--job-dir"
DEFAULT_COUNT = 2
"""Workers, and parameter servers, where no number is given."""


def train(
    package: PackageFlags,
    cluster: ClusterFlags,
    interrupt: InterruptFlag,
    local: RuntimeFlags,
    place: PlaceFlags,
    common: CommonFlags,
    remainder: tuple[str, ...] | None,
) -> None:
    """`local-run` of the package. Its arguments are followed by the job directory, as gcloud does it."""
    if not package.module_name:
        raise UsageError("--module-name=MODULE must be given.")
    folder = "." if package.package_path is None else str(package_source(package).folder)
    args = (*(remainder or ()), *((_JOB_DIR, package.job_dir) if package.job_dir else ()))
    args = tuple(_with_users_folder(args, Path(folder).absolute()))
    counts = _counts(cluster)
    pools: list[str] = []
    if cluster.distributed:
        first = [MACHINE, "replica-count=1", f"local-package-path={folder}"]
        first.append(f"python-module={package.module_name}")
        pools = [join_items(first)]
        pools += [join_items([MACHINE, f"replica-count={count}"]) if count else "" for count in counts]
    config = {"job": {"job_name": package.module_name, "args": args}, "task": {}, "cluster": {}}
    env = [] if pools else [f"TF_CONFIG={json.dumps(config | {'environment': 'cloud'})}"]
    trainer = TrainerFlags()
    if not pools:
        trainer = TrainerFlags(local_package_path=folder, python_module=package.module_name)
    given = LocalRunLine(
        spec=SpecFlags(worker_pool_spec=pools, env=env),
        trainer=trainer,
        run=DryRunFlag(),
        interrupt=interrupt,
        typing=InteractiveFlag(),
        gpu=GpuFlags(),
        container=ContainerFlags(),
        local=LocalFlags(**{field: getattr(local, field) for field in local.__struct_fields__}),
        place=place,
        common=common,
    )
    local_run(given, args, command="local train")


def _with_users_folder(args: tuple[str, ...], folder: Path) -> Iterator[str]:
    """The arguments with the job directory below `folder`, where gcloud runs a trainer.

    Here it runs in a copy, which goes with the job.
    """
    before = ""
    for arg in args:
        flag, equals, value = ("", "", arg) if before == _JOB_DIR else arg.partition("=")
        is_job_dir = _JOB_DIR in (flag, before) and value and "://" not in value
        yield f"{flag}{equals}{folder / value}" if is_job_dir else arg
        before = arg


def _counts(cluster: ClusterFlags) -> tuple[int, ...]:
    """The workers, parameter servers and evaluators of a cluster, up to the last role that has some."""
    texts = {
        "--worker-count": (cluster.worker_count, DEFAULT_COUNT),
        "--parameter-server-count": (cluster.parameter_server_count, DEFAULT_COUNT),
        "--evaluator-count": (cluster.evaluator_count, 0),
    }
    counts = [whole_number(text, flag) if text else count for flag, (text, count) in texts.items()]
    while counts and not counts[-1]:
        counts.pop()
    return tuple(counts)
