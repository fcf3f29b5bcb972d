"""PersistentResource (`google/cloud/aiplatform/v1/persistent_resource.proto`)."""

from typing import Annotated, ClassVar

import msgspec

from vtrain.messages.custom_job import DiskSpec, MachineSpec, PscInterfaceConfig
from vtrain.messages.structs import EncryptionSpec, Int64, Message, Resource, Status, enum

ResourceState = Annotated[
    str, enum("STATE_UNSPECIFIED PROVISIONING - RUNNING STOPPING ERROR REBOOTING UPDATING", is_open=True)
]


class AutoscalingSpec(Message, frozen=True):
    min_replica_count: Int64 | None = None
    max_replica_count: Int64 | None = None


class ResourcePool(Message, frozen=True):
    """Machines of one kind that run on between jobs."""

    id: str = ""
    machine_spec: MachineSpec | None = None
    replica_count: Int64 | None = None
    disk_spec: DiskSpec | None = None
    used_replica_count: Int64 = 0
    autoscaling_spec: AutoscalingSpec | None = None


class ServiceAccountSpec(Message, frozen=True):
    enable_custom_service_account: bool = False
    service_account: str = ""


class RayMetricSpec(Message, frozen=True):
    disabled: bool = False


class RayLogsSpec(Message, frozen=True):
    disabled: bool = False


class RaySpec(Message, frozen=True):
    image_uri: str = ""
    resource_pool_images: dict[str, str] = {}
    head_node_resource_pool_id: str = ""
    ray_metric_spec: RayMetricSpec | None = None
    ray_logs_spec: RayLogsSpec | None = None


class ResourceRuntimeSpec(Message, frozen=True):
    service_account_spec: ServiceAccountSpec | None = None
    ray_spec: RaySpec | None = None


class ResourceRuntime(Message, frozen=True):
    access_uris: dict[str, str] = {}


class PersistentResource(Resource, frozen=True):
    """Machines that jobs of a project share."""

    output_fields: ClassVar[frozenset[str]] = Resource.output_fields | {"resourceRuntime"}
    name: str = ""
    display_name: str = ""
    resource_pools: tuple[ResourcePool, ...] = ()
    state: ResourceState = ""
    error: Status | None = None
    create_time: str = ""
    start_time: str = ""
    update_time: str = ""
    labels: dict[str, str] = {}
    network: str = ""
    psc_interface_config: PscInterfaceConfig | None = None
    encryption_spec: EncryptionSpec | None = None
    resource_runtime_spec: ResourceRuntimeSpec | None = None
    resource_runtime: ResourceRuntime | None = None
    reserved_ip_ranges: tuple[str, ...] = ()


class ResourcePage(msgspec.Struct, frozen=True, kw_only=True):
    """Persistent resources, and the token of the next page (empty: this was the last).

    `damaged` names the resources whose stored entry cannot be read.
    """

    resources: tuple[PersistentResource, ...]
    next_page_token: str = ""
    damaged: tuple[str, ...] = ()
