"""Job and TrainingInput of AI Platform Training (`google.cloud.ml.v1`, `projects.jobs`)."""

from typing import Any

from vtrain.messages.structs import Duration, EncryptionSpec, EnumName, Int64, Message


class AcceleratorConfig(Message, frozen=True):
    count: Int64 = 0
    type: EnumName = ""


class DiskConfig(Message, frozen=True):
    boot_disk_type: str = ""
    boot_disk_size_gb: int = 0


class ReplicaConfig(Message, frozen=True):
    accelerator_config: AcceleratorConfig | None = None
    image_uri: str = ""
    container_command: tuple[str, ...] = ()
    container_args: tuple[str, ...] = ()
    disk_config: DiskConfig | None = None
    tpu_tf_version: str = ""


class ParameterSpec(Message, frozen=True):
    """A parameter to tune. `min_value` and `max_value` are for DOUBLE and INTEGER."""

    parameter_name: str = ""
    type: EnumName = ""
    min_value: float = 0.0
    max_value: float = 0.0
    categorical_values: tuple[str, ...] = ()
    discrete_values: tuple[float, ...] = ()
    scale_type: EnumName = ""


class HyperparameterSpec(Message, frozen=True):
    goal: EnumName = ""
    params: tuple[ParameterSpec, ...] = ()
    max_trials: int = 0
    max_parallel_trials: int = 0
    max_failed_trials: int = 0
    hyperparameter_metric_tag: str = ""
    resume_previous_job_id: str = ""
    enable_trial_early_stopping: bool = False
    algorithm: EnumName = ""


class Scheduling(Message, frozen=True):
    max_running_time: Duration = ""
    max_wait_time: Duration = ""
    priority: int = 0
    resilient_to_worker_restart: bool | None = None
    strategy: EnumName = ""


class TrainingInput(Message, frozen=True):
    """The trainer of a job, and the machines that it runs on."""

    scale_tier: EnumName = ""
    master_type: str = ""
    master_config: ReplicaConfig | None = None
    worker_type: str = ""
    worker_config: ReplicaConfig | None = None
    worker_count: Int64 = 0
    parameter_server_type: str = ""
    parameter_server_config: ReplicaConfig | None = None
    parameter_server_count: Int64 = 0
    evaluator_type: str = ""
    evaluator_config: ReplicaConfig | None = None
    evaluator_count: Int64 = 0
    package_uris: tuple[str, ...] = ()
    python_module: str = ""
    args: tuple[str, ...] = ()
    hyperparameters: HyperparameterSpec | None = None
    region: str = ""
    job_dir: str = ""
    runtime_version: str = ""
    python_version: str = ""
    scheduling: Scheduling | None = None
    network: str = ""
    service_account: str = ""
    use_chief_in_tf_config: bool | None = None
    enable_web_access: bool = False
    encryption_config: EncryptionSpec | None = None


class LegacyJob(Message, frozen=True):
    """A job of AI Platform. What the service wrote is not read."""

    job_id: str = ""
    training_input: TrainingInput = TrainingInput()
    labels: dict[str, str] = {}
    prediction_input: dict[str, Any] | None = None
