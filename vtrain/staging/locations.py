"""Where a bucket lies, and whether a region is part of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.cloud.storage import Bucket

DUAL_REGIONS = {
    "asia1": ("asia-northeast1", "asia-northeast2"),
    "eur4": ("europe-north1", "europe-west4"),
    "eur5": ("europe-west1", "europe-west2"),
    "eur7": ("europe-west2", "europe-west3"),
    "eur8": ("europe-west3", "europe-west6"),
    "nam4": ("us-central1", "us-east1"),
}
"""The dual-regions that have a name, and the two regions in each."""

_PREFIXES = {"us": "us-", "eu": "europe-", "asia": "asia-"}
"""What the names of a multi-region's regions begin with."""

_OUTSIDE = ("europe-west2", "europe-west6")
"""Regions of Europe that are not part of the multi-region `eu`."""


def holds(bucket: Bucket, region: str) -> bool:
    """Whether a bucket lies in a region, or in a pair or multi-region that contains it; true if unknown."""
    location = (bucket.location or "").lower()
    pair = DUAL_REGIONS.get(location) or tuple(part.lower() for part in bucket.data_locations or ())
    if pair:
        return region in pair
    if location in _PREFIXES:
        return region.startswith(_PREFIXES[location]) and region not in _OUTSIDE
    return location in ("", region)
