"""The jobs and persistent resources behind the emulator in tests: they lie on a shelf, and tests move them.

No job runs. All projects are one, as everywhere in the emulator; what is created is kept as that of PROJECT.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from vtrain.backends import PROTOCOL_VERSION, Page, Plan, Query
from vtrain.backends.job_storage import GS
from vtrain.backends.local_plan import runnable
from vtrain.emulator.vertex.documents import with_project
from vtrain.emulator.vertex.open_backends import OpenBackends
from vtrain.emulator.vertex.training_service import TrainingService
from vtrain.errors import ConfigError, ConflictError, NotFoundError
from vtrain.messages import states
from vtrain.messages.codec import from_document, to_document
from vtrain.messages.log import LogPage, LogQuery
from vtrain.messages.names import LOCAL_PROJECT, PERSISTENT_RESOURCES, TRAINING_PIPELINES
from vtrain.messages.persistent_resource import PersistentResource, ResourcePage
from vtrain.messages.resources import RESOURCES, Job, collection_of
from vtrain.messages.rules import check_job
from vtrain.messages.structs import Operation
from vtrain.runtime.supervisor_process import random_job_id
from vtrain.times import timestamp

PROJECT = "demo"
Document = dict[str, Any]


class Shelf:
    """Documents of resources by their full names, the newest last."""

    def __init__(self) -> None:
        self.documents: dict[str, Document] = {}
        self.lock = threading.RLock()

    def put(self, name: str, **document: Any) -> Document:
        """Keep a resource, as if somebody else had created it; the newest of all."""
        with self.lock:
            self.documents[name] = {"name": name, "createTime": timestamp(), **document}
            return self.documents[name]

    def move(self, name: str, *states: str, **fields: Any) -> bool:
        """Change a resource, if it is still in one of these states."""
        with self.lock:
            document = self.documents.get(name, {})
            if document.get("state") not in states:
                return False
            self.change(name, **fields)
            return True

    def change(self, name: str, **fields: Any) -> None:
        """Keep another document in the place of the old one, which somebody may be reading."""
        with self.lock:
            key = self.key(name)
            self.documents[key] = self.documents[key] | fields

    def key(self, name: str) -> str:
        """The name under which a resource is kept, in whatever project. Raises NotFoundError."""
        place = _place(name)
        with self.lock:
            found = next((key for key in self.documents if _place(key) == place), "")
        if not found:
            raise NotFoundError(f"There is no {name}.")
        return found

    def read(self, name: str) -> Any:
        """A resource as the backends of this machine give it to the emulator."""
        document = with_project(self.documents[self.key(name)], LOCAL_PROJECT)
        return from_document(RESOURCES[_place(name).split("/")[2]], document)

    def newest(self, query: Query) -> list[str]:
        """The names of a collection in a region, or in all of them, the newest first."""
        with self.lock:
            places = [(key, *_place(key).split("/")) for key in reversed(self.documents)]
        return [
            key
            for key, _, region, collection, _ in places
            if collection == query.collection and query.location in ("", region)
        ]

    def make(self, collection: str, region: str, own_id: str, state: str, resource: Any) -> str:
        """Keep a new resource. Raises ConflictError for an id that is taken."""
        name = f"projects/{PROJECT}/locations/{region}/{collection}/{own_id}"
        with self.lock:
            if name in self.documents:
                raise ConflictError(f"{name} exists already.")
            document = with_project(to_document(resource), PROJECT, only=LOCAL_PROJECT)
            now = timestamp()
            self.documents[name] = {
                **document,
                "name": name,
                "state": state,
                "createTime": now,
                "updateTime": now,
            }
        return name

    def remove(self, name: str) -> None:
        """Forget a resource."""
        with self.lock:
            del self.documents[self.key(name)]


class ShelvedJobs:
    """The jobs of a region: pending until a test moves them, or a client cancels them."""

    protocol_version = PROTOCOL_VERSION

    def __init__(self, shelf: Shelf, region: str) -> None:
        self._shelf = shelf
        self._region = region

    def plan(self, job: Job) -> Plan:
        check_job(runnable(job), executor_required=False)
        return Plan(job=job, backend="shelf")

    def submit(self, plan: Plan) -> Job:
        collection = collection_of(plan.job)
        name = self._shelf.make(
            collection, self._region, random_job_id(), _state(collection, "PENDING"), plan.job
        )
        return self.get(name)

    def get(self, name: str) -> Job:
        job: Job = self._shelf.read(name)
        return job

    def list(self, query: Query) -> Page:
        names, start = self._shelf.newest(query), int(query.page_token or 0)
        stop = start + query.page_size
        jobs = tuple(self.get(name) for name in names[start:stop])
        return Page(jobs=jobs, next_page_token=str(stop) if names[stop:] else "")

    def logs(self, query: LogQuery) -> LogPage:
        return LogPage(entries=(), cursor="")

    def cancel(self, name: str) -> None:
        with self._shelf.lock:
            state = str(self._shelf.documents[self._shelf.key(name)].get("state", ""))
            if not states.has_ended(state):
                error = {"code": 1, "message": "CANCELED"}
                cancelled = _state(name.split("/")[-2], "CANCELLED")
                self._shelf.change(name, state=cancelled, error=error, endTime=timestamp())

    def delete(self, name: str) -> None:
        if not states.has_ended(self.get(name).state):
            raise ConflictError(f"{name} has not ended.")
        self._shelf.remove(name)


class ShelvedResources:
    """The persistent resources of a region: provisioned until a test moves them."""

    def __init__(self, shelf: Shelf, region: str) -> None:
        self._shelf = shelf
        self._region = region

    def create_resource(
        self, resource_id: str, resource: PersistentResource, unknown_fields: Document
    ) -> Operation:
        name = self._shelf.make(PERSISTENT_RESOURCES, self._region, resource_id, "PROVISIONING", resource)
        return Operation(done=True, response=to_document(self.get_resource(name)))

    def get_resource(self, name: str) -> PersistentResource:
        resource: PersistentResource = self._shelf.read(name)
        return resource

    def list_resources(self, query: Query) -> ResourcePage:
        return ResourcePage(resources=tuple(map(self.get_resource, self._shelf.newest(query))))

    def delete_resource(self, name: str, *, force: bool = False) -> Operation:
        self._shelf.remove(name)
        return Operation(done=True)

    def reboot_resource(self, name: str) -> Operation:
        return Operation(done=True, response=to_document(self.get_resource(name)))


class ShelfBackends(OpenBackends):
    """Jobs and persistent resources on a shelf; models are those of a home, as always."""

    def __init__(self, home: Path, shelf: Shelf) -> None:
        super().__init__(home, "process", GS)
        self._shelf = shelf

    def open_part(self, kind: str, name: str, location: str) -> Any:
        if kind == "jobs":
            return ShelvedJobs(self._shelf, location)
        if kind == "resources":
            return ShelvedResources(self._shelf, location)
        return super().open_part(kind, name, location)


class ShelfService(TrainingService):
    """The emulator over a shelf."""

    def __init__(self, home: Path, shelf: Shelf) -> None:
        super().__init__(home, "process")
        self.backends = ShelfBackends(home, shelf)


def _place(name: str) -> str:
    """The part of a full name behind the project: `locations/R/customJobs/1`."""
    parts = name.split("/", 2)
    if len(parts) < 3:
        raise ConfigError(f"{name!r} is no full name.")
    return parts[2]


def _state(collection: str, word: str) -> str:
    return f"{'PIPELINE' if collection == TRAINING_PIPELINES else 'JOB'}_STATE_{word}"
