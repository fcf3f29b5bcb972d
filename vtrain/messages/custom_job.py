"""The messages of a CustomJob, under the API's own names and with all of its fields.

Source: `google/cloud/aiplatform/v1/{custom_job,machine_resources,env_var,encryption_spec,io,
job_state,reservation_affinity,service_networking,accelerator_type}.proto`. Enum values are kept by name, and
unknown names are accepted, as the service may know new ones.
"""

from typing import Annotated

from vtrain.messages.structs import (
    Duration,
    EncryptionSpec,
    GcsDestination,
    Int64,
    Message,
    Resource,
    Status,
    enum,
)

AcceleratorType = Annotated[
    str,
    enum(
        "ACCELERATOR_TYPE_UNSPECIFIED NVIDIA_TESLA_K80 NVIDIA_TESLA_P100 NVIDIA_TESLA_V100 NVIDIA_TESLA_P4 "
        "NVIDIA_TESLA_T4 TPU_V2 TPU_V3 NVIDIA_TESLA_A100 NVIDIA_A100_80GB TPU_V4_POD NVIDIA_L4 "
        "TPU_V5_LITEPOD NVIDIA_H100_80GB NVIDIA_H100_MEGA_80GB NVIDIA_H200_141GB NVIDIA_B200 NVIDIA_GB200 "
        "NVIDIA_RTX_PRO_6000",
        is_open=True,
    ),
]
NO_ACCELERATOR = ("", "ACCELERATOR_TYPE_UNSPECIFIED")
ReservationAffinityType = Annotated[
    str, enum("TYPE_UNSPECIFIED NO_RESERVATION ANY_RESERVATION SPECIFIC_RESERVATION", is_open=True)
]
Strategy = Annotated[
    str, enum("STRATEGY_UNSPECIFIED ON_DEMAND LOW_COST STANDARD SPOT - FLEX_START", is_open=True)
]
JobState = Annotated[
    str,
    enum(
        "UNSPECIFIED QUEUED PENDING RUNNING SUCCEEDED FAILED CANCELLING CANCELLED PAUSED EXPIRED UPDATING "
        "PARTIALLY_SUCCEEDED",
        "JOB_STATE_",
        is_open=True,
    ),
]


class ReservationAffinity(Message, frozen=True):
    reservation_affinity_type: ReservationAffinityType = ""
    key: str = ""
    values: tuple[str, ...] = ()


class MachineSpec(Message, frozen=True):
    machine_type: str = ""
    accelerator_type: AcceleratorType = ""
    accelerator_count: int = 0
    gpu_partition_size: str = ""
    tpu_topology: str = ""
    reservation_affinity: ReservationAffinity | None = None


class DiskSpec(Message, frozen=True):
    boot_disk_type: str = ""
    boot_disk_size_gb: int = 0


class NfsMount(Message, frozen=True):
    server: str = ""
    path: str = ""
    mount_point: str = ""


class LustreMount(Message, frozen=True):
    instance_ip: str = ""
    volume_handle: str = ""
    filesystem: str = ""
    mount_point: str = ""


class EnvVar(Message, frozen=True):
    name: str = ""
    value: str = ""


class ContainerSpec(Message, frozen=True):
    image_uri: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()


class PythonPackageSpec(Message, frozen=True):
    executor_image_uri: str = ""
    package_uris: tuple[str, ...] = ()
    python_module: str = ""
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()


class WorkerPoolSpec(Message, frozen=True):
    """One pool of equal replicas. Pools have their meaning by position, and the empty message skips one."""

    container_spec: ContainerSpec | None = None
    python_package_spec: PythonPackageSpec | None = None
    machine_spec: MachineSpec | None = None
    replica_count: Int64 = 0
    nfs_mounts: tuple[NfsMount, ...] = ()
    lustre_mounts: tuple[LustreMount, ...] = ()
    disk_spec: DiskSpec | None = None

    @property
    def task(self) -> ContainerSpec | PythonPackageSpec | None:
        """The API's oneof `task`: the image or Python package that the pool's replicas run."""
        return self.container_spec or self.python_package_spec


class Scheduling(Message, frozen=True):
    timeout: Duration = ""
    restart_job_on_worker_restart: bool = False
    strategy: Strategy = ""
    disable_retries: bool = False
    max_wait_duration: Duration = ""


class DnsPeeringConfig(Message, frozen=True):
    domain: str = ""
    target_project: str = ""
    target_network: str = ""


class PscInterfaceConfig(Message, frozen=True):
    network_attachment: str = ""
    dns_peering_configs: tuple[DnsPeeringConfig, ...] = ()


class CustomJobSpec(Message, frozen=True):
    persistent_resource_id: str = ""
    worker_pool_specs: tuple[WorkerPoolSpec, ...] = ()
    scheduling: Scheduling | None = None
    service_account: str = ""
    network: str = ""
    reserved_ip_ranges: tuple[str, ...] = ()
    psc_interface_config: PscInterfaceConfig | None = None
    base_output_directory: GcsDestination | None = None
    protected_artifact_location_id: str = ""
    tensorboard: str = ""
    enable_web_access: bool = False
    enable_dashboard_access: bool = False
    experiment: str = ""
    experiment_run: str = ""
    models: tuple[str, ...] = ()

    @property
    def output_uri(self) -> str:
        """The base output directory; empty without one."""
        return self.base_output_directory.output_uri_prefix if self.base_output_directory else ""


class CustomJob(Resource, frozen=True):
    """A job. The service alone writes `name`, and the fields that `output_fields` lists."""

    name: str = ""
    display_name: str = ""
    job_spec: CustomJobSpec = CustomJobSpec()
    state: JobState = ""
    create_time: str = ""
    start_time: str = ""
    end_time: str = ""
    update_time: str = ""
    error: Status | None = None
    labels: dict[str, str] = {}
    encryption_spec: EncryptionSpec | None = None
    web_access_uris: dict[str, str] = {}
    satisfies_pzs: bool = False
    satisfies_pzi: bool = False
