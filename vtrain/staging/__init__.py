"""Staging of packages: into folders of this machine, and to Cloud Storage.

Staging is by content: a name is made of what it holds, so what is there is not written again.
"""

from __future__ import annotations

from vtrain.staging.buckets import Buckets, LocalBuckets, Show, Staged
from vtrain.staging.uris import (
    file_uri,
    find_staging_bucket,
    is_bucket_name,
    join_uri,
    split_object,
    split_uri,
)

__all__ = [
    "Buckets",
    "LocalBuckets",
    "Show",
    "Staged",
    "file_uri",
    "find_staging_bucket",
    "is_bucket_name",
    "join_uri",
    "split_object",
    "split_uri",
]
