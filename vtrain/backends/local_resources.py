"""Persistent resources on this machine: slots that jobs take in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vtrain.backends import Query, ResourcePage
from vtrain.errors import ConfigError
from vtrain.messages.base import Operation
from vtrain.messages.codec import to_document
from vtrain.messages.names import PERSISTENT_RESOURCES, ResourceName
from vtrain.messages.persistent_resource import PersistentResource
from vtrain.retry import wait_until
from vtrain.runtime.child_jobs import is_living, request_end
from vtrain.runtime.database import has_store
from vtrain.runtime.resource_registry import ResourceRegistry
from vtrain.runtime.store import Store
from vtrain.runtime.supervisor_process import random_job_id
from vtrain.times import timestamp

if TYPE_CHECKING:
    from vtrain.backends import BackendSettings

_TYPE = "type.googleapis.com/google.cloud.aiplatform.v1.PersistentResource"
_EMPTY = "type.googleapis.com/google.protobuf.Empty"
END_SECONDS = 120.0
"""The longest wait for the end of jobs whose resource is deleted by force."""


class LocalResources:
    """The resources in vtrain's home. What Vertex AI continues after its answer is done here at once."""

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings
        self._home = settings.home

    def create_resource(
        self, resource_id: str, resource: PersistentResource, unknown_fields: dict[str, Any]
    ) -> Operation:
        """Make a resource of that id. Raises ConfigError for fields that nothing here knows."""
        if unknown_fields:
            raise ConfigError(
                f"This machine does not know {', '.join(unknown_fields)} of a persistent resource."
            )
        settings = self._settings
        name = ResourceName(
            project=settings.project,
            location=settings.region,
            collection=PERSISTENT_RESOURCES,
            id=resource_id,
        )
        made = self._registry().create(name, resource, self._settings.preload)
        return _done(made.name, {"@type": _TYPE} | to_document(made))

    def get_resource(self, name: str) -> PersistentResource:
        """The resource, with the slots that are used now."""
        return self._registry().get(name)

    def list_resources(self, query: Query) -> ResourcePage:
        """The resources of a place, on one page."""
        if not has_store(self._home):
            return ResourcePage(resources=())
        found, damaged = self._registry().page(project=query.project, location=query.location)
        return ResourcePage(resources=tuple(found), damaged=tuple(damaged))

    def delete_resource(self, name: str, *, force: bool = False) -> Operation:
        """Remove a resource. Raises ConflictError while jobs run on it, unless these are to be cancelled."""
        store = Store.open(self._home)
        registry = ResourceRegistry(store)
        registry.check_known(name)
        if force:
            jobs = registry.jobs(name)
            for job in jobs:
                request_end(store, self._home, job, "cancel")
            wait_until(
                lambda: not any(is_living(store, self._home, job) for job in jobs), END_SECONDS, longest=0.5
            )
        registry.delete(name)
        return _done(name, {"@type": _EMPTY})

    def reboot_resource(self, name: str) -> Operation:
        """Start the slots of a resource anew. Raises ConflictError while a job has one."""
        rebooted = self._registry().reboot(name)
        return _done(name, {"@type": _TYPE} | to_document(rebooted))

    def _registry(self) -> ResourceRegistry:
        return ResourceRegistry(Store.open(self._home))


def _done(name: str, response: dict[str, Any]) -> Operation:
    """The operation of what was done before its answer."""
    now = timestamp()
    return Operation(
        name=f"{name}/operations/{random_job_id()}",
        metadata={"genericMetadata": {"createTime": now, "updateTime": now}},
        done=True,
        response=response,
    )
