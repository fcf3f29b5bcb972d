"""A home of vtrain on this machine: where each thing in it lies."""

from __future__ import annotations

from pathlib import Path

import msgspec

from vtrain.digests import content_digest
from vtrain.runtime.folder import JobFolder


class Home(msgspec.Struct, frozen=True):
    """`~/.vtrain`, or the folder that VTRAIN_HOME names."""

    path: Path

    def job(self, name: str) -> JobFolder:
        """The folder of a job, by its full name or its id."""
        return JobFolder(self.jobs / name.rpartition("/")[2])

    @property
    def jobs(self) -> Path:
        """A folder for each job, named by its id."""
        return self.path / "jobs"

    def job_folders(self) -> list[Path]:
        """The folders of all jobs that nobody is removing, by their ids."""
        return sorted(self.jobs.glob("[!.]*"))

    @property
    def environments(self) -> Path:
        """The environments of trainers, and the wheels that were built for them."""
        return self.path / "environments"

    @property
    def packages(self) -> Path:
        """A folder for each package, named by its content."""
        return self.path / "packages"

    @property
    def buckets(self) -> Path:
        """A folder for each `gs://` bucket of this machine, in which `staging` puts files."""
        return self.path / "buckets"

    @property
    def emulator(self) -> Path:
        """The records of running emulators, and a folder for each collection of resources that they keep."""
        return self.path / "emulator"

    @property
    def tls_key(self) -> Path:
        """The key, with its certificate, by which emulators and servers of jobs stand for Google's hosts."""
        return self.emulator / "tls.key"

    @property
    def slots(self) -> Path:
        """A folder for the warm slots of each persistent resource."""
        return self.path / "slots"

    def slots_of(self, resource: str) -> Path:
        """The warm slots of the persistent resource of that full name."""
        return self.slots / content_digest(resource.encode())[:16]
