"""Counts the calls that each client makes, by what it says about itself in the headers of its requests."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

OTHER = "others"
_MARKS = (
    ("vtrain/", "vtrain"),
    ("google-cloud-sdk", "gcloud"),
    ("model-builder", "google-cloud-aiplatform"),
    ("gcloud-python", "google-cloud-storage"),
    ("gapic/", "Google's generated clients"),
)


class Calls:
    """The calls of each client so far; several threads count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()

    def count(self, headers: Mapping[str, str], transport: str = "") -> None:
        """Count one call with these headers, with names in lower case."""
        said = " ".join(headers.get(name, "") for name in ("user-agent", "x-goog-api-client")).lower()
        client = next((name for mark, name in _MARKS if mark in said), OTHER)
        with self._lock:
            self.counts[f"{client} over {transport}" if transport else client] += 1

    def sentence(self) -> str:
        """`Calls: gcloud 12, vtrain 4.`; empty where there were none."""
        listed = ", ".join(f"{name} {number}" for name, number in sorted(self.counts.items()))
        return f"Calls: {listed}." if listed else ""
