"""The part of a job's order that is for docker alone: the engine, and the options of its containers."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from vtrain.backends import ReplicaOptions
from vtrain.containers.discovery import EngineAddress
from vtrain.runtime.job_order import JobOrder

USER_BASE = "/opt/vtrain/user"
"""In a runtime image, the link to the packages installed for the image's own user (PYTHONUSERBASE)."""


class DockerPart(msgspec.Struct, frozen=True, kw_only=True):
    """The `launcher` document of a job's order, as this backend writes it."""

    engine: EngineAddress
    container: ReplicaOptions = ReplicaOptions()


def with_docker_part(order: JobOrder, engine: EngineAddress, options: ReplicaOptions) -> JobOrder:
    """The order with what its launcher will need."""
    document = msgspec.json.encode(DockerPart(engine=engine, container=options))
    return replace(order, launcher=msgspec.Raw(document))


def docker_part(order: JobOrder) -> DockerPart:
    """The part that was kept; its credentials are the job's own copy. Raises msgspec.DecodeError."""
    part = msgspec.json.decode(order.launcher, type=DockerPart, strict=False)
    options = replace(part.container, credentials_file=order.setting.credentials_file)
    return replace(part, container=options)
