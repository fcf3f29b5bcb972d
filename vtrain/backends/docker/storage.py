"""Cloud Storage as containers see it: `/gcs/BUCKET` is the local bucket of that name."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from vtrain.backends.docker.container import bind
from vtrain.engine.job_storage import LOCAL
from vtrain.engine.replica import OUTPUT_FOLDERS
from vtrain.messages.custom_job import CustomJobSpec
from vtrain.staging import LocalBuckets, join_uri, split_uri

MOUNT_POINT = "/gcs"
OPEN_TO_ALL = 0o777
"""Mode of the folders that a job writes to: an image may run as any user. Others on this machine do not
reach them, as vtrain's home is the caller's own."""


def output_uri(spec: CustomJobSpec, aip_dirs: str = "") -> str:
    """The base output directory as replicas are told it, without a trailing slash: `gs://…`, or a path."""
    if not spec.output_uri:
        return ""
    scheme, rest = split_uri(spec.output_uri)
    if scheme == "gs" and aip_dirs == LOCAL:
        return f"{MOUNT_POINT}/{rest}".rstrip("/")
    return (rest if scheme == "file" else spec.output_uri).rstrip("/")


def bucket_mounts(spec: CustomJobSpec, home: Path) -> tuple[dict[str, Any], ...]:
    """The mounts of all local buckets, and of the job's output. Makes the folders of the output."""
    buckets = LocalBuckets(home)
    mounts = []
    if spec.output_uri:
        scheme, rest = split_uri(spec.output_uri)
        for name in OUTPUT_FOLDERS.values():
            folder = buckets.local_path(join_uri(spec.output_uri, name))
            folder.mkdir(parents=True, exist_ok=True)
            if scheme == "gs":
                _open_to_all(folder, buckets.folder)
        if scheme == "file":
            mounts.append(bind(rest, rest))
    for bucket in sorted(buckets.folder.iterdir()) if buckets.folder.is_dir() else ():
        if bucket.is_dir():
            _open_to_all(bucket, buckets.folder)
            mounts.append(bind(bucket, f"{MOUNT_POINT}/{bucket.name}"))
    return tuple(mounts)


def _open_to_all(folder: Path, top: Path) -> None:
    """Let every user of a container write to a folder and those between it and `top`; follows no link."""
    for path in (folder, *folder.parents):
        if path == top or path.is_symlink():
            return
        with suppress(PermissionError):  # made by a container that ran as another user, which left it open
            os.chmod(path, OPEN_TO_ALL)  # noqa: PTH101
