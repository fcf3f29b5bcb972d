"""Cloud Storage as containers see it: `/gcs/BUCKET` is the local bucket of that name."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from vtrain.backends.docker.container import bind
from vtrain.engine.replica import OUTPUT_FOLDERS
from vtrain.messages.custom_job import CustomJobSpec
from vtrain.staging import LocalBuckets, join_uri, split_uri

MOUNT_POINT = "/gcs"
OPEN_TO_ALL = 0o777
"""Mode of the folders that a job writes to: an image may run as any user. Others on this machine do not
reach them, as vtrain's home is the caller's own."""


def output_uri(spec: CustomJobSpec) -> str:
    """The base output directory as replicas are told it, without a trailing slash: `gs://…`, or a path."""
    base = spec.base_output_directory
    if base is None or not base.output_uri_prefix:
        return ""
    scheme, rest = split_uri(base.output_uri_prefix)
    return (rest if scheme == "file" else base.output_uri_prefix).rstrip("/")


def bucket_mounts(spec: CustomJobSpec, home: Path) -> tuple[dict[str, Any], ...]:
    """The mounts of all local buckets, and of the job's output. Makes the folders of the output."""
    buckets = LocalBuckets(home)
    mounts = []
    base = spec.base_output_directory
    if base is not None and base.output_uri_prefix:
        scheme, rest = split_uri(base.output_uri_prefix)
        top = Path(rest) if scheme == "file" else buckets.folder / rest.partition("/")[0]
        for name in OUTPUT_FOLDERS.values():
            _make_open(buckets.local_path(join_uri(base.output_uri_prefix, name)), top)
        if scheme == "file":
            mounts.append(bind(top, str(top)))
    names = sorted(path.name for path in buckets.folder.iterdir()) if buckets.folder.is_dir() else []
    for name in names:
        mounts.append(bind(buckets.folder / name, f"{MOUNT_POINT}/{name}"))
    return tuple(mounts)


def output_top(spec: CustomJobSpec, home: Path) -> Path | None:
    """The folder below which the job's output lies on this machine."""
    base = spec.base_output_directory
    if base is None or not base.output_uri_prefix:
        return None
    return LocalBuckets(home).local_path(base.output_uri_prefix)


def _make_open(folder: Path, top: Path) -> None:
    """Make a folder below `top` that every user of a container can write to, `top` included."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in (folder, *folder.parents):
        if not path.is_relative_to(top):
            return
        with suppress(PermissionError):  # made by a container that ran as another user, which left it open
            os.chmod(path, OPEN_TO_ALL)  # noqa: PTH101
