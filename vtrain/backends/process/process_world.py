"""The world of processes. Where the kernel lets it, their `/gcs/BUCKET` is the local bucket."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from vtrain.backends.job_storage import GS
from vtrain.messages.custom_job import CustomJobSpec
from vtrain.program_output import reason_line
from vtrain.runtime.folder import METRIC_FILE, JobFolder
from vtrain.runtime.inheritance import EMPTY_CONFIGURATION
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.replica.replica_plan import World
from vtrain.runtime.replica.vertex_view import PRIMARY, replica_ids
from vtrain.staging import LocalBuckets

HOST = "127.0.0.1"
"""The address at which replicas that are processes listen."""
PROBE_SECONDS = 60.0
"""A probe that takes longer than this, when it should take a tenth of a second, is taken for a refusal."""
_MENTION = re.compile(r"(?<![\w.-])/gcs(?![\w.-])")


def process_world(order: JobOrder, folder: JobFolder, master_port: int, ports: Iterable[int]) -> World:
    """What processes see: this machine, and ports of its own for each replica."""
    home, members = Path(order.home), replica_ids(order.job.job_spec)
    configuration = {"CLOUDSDK_CONFIG": str(folder.path / EMPTY_CONFIGURATION)}
    return World(
        hosts={member: f"{HOST}:{port}" for member, port in zip(members, ports, strict=False)},
        master_port=master_port,
        folder=lambda uri: seen_folder(uri, home, order.setting.aip_dirs),
        work=str(folder.replica(PRIMARY.name).work),
        # Only what the primary reports counts: the others, on the same machine, do not write over it.
        metric_files={member: str(folder.replica(member.name).path / METRIC_FILE) for member in members}
        | {PRIMARY: str(folder.metric_file)},
        credentials=order.setting.credentials_file,
        variables={"PATH": os.defpath} | order.setting.variables | configuration,
        terminal=order.terminal,
    )


def mentions_buckets(spec: CustomJobSpec) -> bool:
    """Whether an argument or a variable of the job names a path below /gcs."""
    tasks = [pool.task for pool in spec.worker_pool_specs if pool.task is not None]
    words = [word for task in tasks for word in (*task.args, *(variable.value for variable in task.env))]
    return any(map(_MENTION.search, words))


def buckets_folder(spec: CustomJobSpec, home: Path, aip_dirs: str) -> str:
    """The folder that replicas see as /gcs, made now; empty where they see none.

    A trainer that gets gs:// URIs may make paths below /gcs of them, as on Vertex AI.
    """
    if not (aip_dirs == GS or mentions_buckets(spec)) or refusal():
        return ""
    folder = LocalBuckets(home.absolute()).folder
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return str(folder)


def bucket_notices(spec: CustomJobSpec) -> tuple[str, ...]:
    """A notice that a job which names /gcs will not find it here, and why.

    A mount is really tried: the kernel's settings alone do not tell whether it works.
    """
    why = refusal() if mentions_buckets(spec) else ""
    if not why:
        return ()
    return (
        f"The job names /gcs, which processes cannot be shown here ({why}): a mount of their own is refused. "
        "--backend=docker has it.",
    )


def refusal() -> str:
    """The reason why processes of this machine cannot be shown /gcs; empty where they can."""
    program = Path(__file__).parents[2] / "runtime" / "process" / "bucket_mount.py"
    argv = [sys.executable, "-I", "-S", str(program)]
    try:
        tried = subprocess.run(argv, capture_output=True, text=True, timeout=PROBE_SECONDS, check=True)
    except subprocess.SubprocessError as error:
        return reason_line((getattr(error, "stderr", "") or "").splitlines()) or str(error)
    return tried.stdout.strip()


def seen_folder(uri: str, home: Path, aip_dirs: str = "") -> str:
    """A folder of a bucket as processes get it: a path, or its gs:// URI; empty for none."""
    if not uri:
        return ""
    if aip_dirs == GS:
        return uri.rstrip("/")
    return str(LocalBuckets(home).local_path(uri)).rstrip("/")
