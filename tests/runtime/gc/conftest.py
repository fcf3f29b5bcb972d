"""A home with jobs of any age, as if they had been there for long."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from vtrain.messages.names import CUSTOM_JOBS
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.gc.candidate import Candidate, Search
from vtrain.runtime.gc.sweep import on_machine
from vtrain.runtime.store import Record, Store
from vtrain.times import from_epoch

DAY = 86400.0


class Home:
    """A vtrain home that a test furnishes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = time.time()
        self.store = Store.open(path)

    def search(self, days: float = 30, *kinds: str) -> Search:
        return Search(home=self.path, older_than=days * DAY, now=self.now, kinds=frozenset(kinds))

    def found(self, kind: str, days: float = 30) -> list[Candidate]:
        """What `vtrain gc --kind` finds of that kind."""
        return list(on_machine(self.search(days, kind)))

    def job(
        self,
        number: int,
        state: str = "SUCCEEDED",
        *,
        days: float = 40,
        packages: tuple[str, ...] = (),
        output: str = "",
    ) -> JobFolder:
        """A job that was submitted and ended that many days ago, with a folder."""
        moment = from_epoch(self.now - days * DAY)
        ended = state in ("SUCCEEDED", "FAILED", "CANCELLED")
        pools = [{"pythonPackageSpec": {"packageUris": list(packages)}}]
        spec: dict[str, object] = {"workerPoolSpecs": pools}
        if output:
            spec["baseOutputDirectory"] = {"outputUriPrefix": output}
        told = {"name": self.name(number), "state": f"JOB_STATE_{state}"}
        record = Record(
            name=self.name(number),
            collection=CUSTOM_JOBS,
            state=f"JOB_STATE_{state}",
            create_time=moment,
            end_time=moment if ended else "",
            backend="process",
            document=json.dumps(told | {"jobSpec": spec}),
        )
        self.store.insert(record)
        folder = JobFolder(self.path / "jobs" / str(number))
        folder.logs.mkdir(parents=True)
        folder.log("workerpool0-0").write_bytes(b"x" * 1000)
        return folder

    def name(self, number: int) -> str:
        return f"projects/local/locations/us-central1/customJobs/{number}"

    def names(self) -> list[str]:
        return [record.name for record in self.store.page(CUSTOM_JOBS, size=100, token="")[0]]

    def age(self, path: Path, days: float = 40) -> Path:
        """Let everything below a path be that old."""
        for entry in (*path.rglob("*"), path):
            os.utime(entry, (self.now - days * DAY,) * 2, follow_symlinks=False)
        return path


@pytest.fixture
def home(vtrain_home: Path) -> Home:
    return Home(vtrain_home)


def discard(found: Candidate) -> str:
    """Remove it, unless it is kept; why it stayed."""
    return found.kept or found.discard()
