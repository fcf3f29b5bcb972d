"""A job of AI Platform in the words of Vertex AI: a custom job, or a hyperparameter tuning job. Pure.

Source: the descriptions of both APIs, field by field. AI Platform passed the job directory to the trainer as
`--job-dir`, and set TF_CONFIG also for a single machine; both is done here, so that old code runs unchanged.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from vtrain.ai_platform.tables import (
    ACCELERATORS,
    CUSTOM,
    GPU_SUCCESSOR,
    MACHINES,
    SCALE_TIERS,
    Machines,
    runtime_image,
)
from vtrain.ai_platform.training_input import (
    HyperparameterSpec,
    LegacyJob,
    ParameterSpec,
    ReplicaConfig,
    TrainingInput,
)
from vtrain.errors import ConfigError, FieldError
from vtrain.messages.codec import mapped, snake_case, to_document
from vtrain.messages.custom_job import (
    ContainerSpec,
    CustomJob,
    CustomJobSpec,
    DiskSpec,
    EnvVar,
    MachineSpec,
    PythonPackageSpec,
    Scheduling,
    WorkerPoolSpec,
)
from vtrain.messages.hyperparameter_tuning_job import (
    CategoricalValueSpec,
    DiscreteValueSpec,
    DoubleValueSpec,
    HyperparameterTuningJob,
    IntegerValueSpec,
    MedianAutomatedStoppingSpec,
    MetricSpec,
    StudySpec,
)
from vtrain.messages.hyperparameter_tuning_job import ParameterSpec as StudyParameter
from vtrain.messages.structs import EncryptionSpec, GcsDestination

ROLES = ("master", "worker", "parameter_server", "evaluator")
"""The roles of machines, in the order of the pools that they become."""
DEFAULT_METRIC = "training/hptuning/metric"
LOCAL_ADDRESS = "127.0.0.1:2222"
"""The only machine of a cluster in TF_CONFIG, as seen in jobs of AI Platform."""
_SCALES = {"UNIT_LINEAR_SCALE", "UNIT_LOG_SCALE", "UNIT_REVERSE_LOG_SCALE"}


class Translation(msgspec.Struct, frozen=True, kw_only=True):
    """The job in the words of Vertex AI; `notes` are sentences about what has no equal there."""

    job: CustomJob | HyperparameterTuningJob
    notes: tuple[str, ...]


def translate(legacy: LegacyJob, *, job_dir: str = "") -> Translation:
    """The job with the same meaning. `job_dir` is the job directory as the trainer gets it.

    Raises ConfigError for a job that has no equal.
    """
    given = legacy.training_input
    if legacy.prediction_input is not None:
        raise ConfigError("predictionInput: batch prediction is not training.", hint="vtrain trains only.")
    notes: list[str] = []
    pools = _pools(given, job_dir or given.job_dir, notes)
    spec = CustomJobSpec(
        worker_pool_specs=pools,
        scheduling=_scheduling(given, notes),
        service_account=given.service_account,
        network=given.network,
        base_output_directory=GcsDestination(output_uri_prefix=given.job_dir) if given.job_dir else None,
        enable_web_access=given.enable_web_access,
    )
    encryption = given.encryption_config
    job: CustomJob | HyperparameterTuningJob = CustomJob(
        display_name=legacy.job_id,
        job_spec=spec,
        labels=legacy.labels,
        encryption_spec=_encryption(encryption),
    )
    if given.hyperparameters is not None:
        tuning = given.hyperparameters
        job = HyperparameterTuningJob(
            display_name=legacy.job_id,
            study_spec=_study(tuning, notes),
            max_trial_count=tuning.max_trials or 1,
            parallel_trial_count=tuning.max_parallel_trials or 1,
            max_failed_trial_count=tuning.max_failed_trials,
            trial_job_spec=spec,
            labels=legacy.labels,
            encryption_spec=_encryption(encryption),
        )
    return Translation(job=job, notes=tuple(notes))


def _encryption(config: EncryptionSpec | None) -> EncryptionSpec | None:
    return config if config is not None and config.kms_key_name else None


def _pools(given: TrainingInput, job_dir: str, notes: list[str]) -> tuple[WorkerPoolSpec, ...]:
    """The worker pools; a role without machines between others is an empty pool."""
    machines = _machines(given)
    single = sum(each.count for each in machines if each is not None) == 1
    pools = [
        WorkerPoolSpec() if each is None else _pool(given, role, each, job_dir, single=single, notes=notes)
        for role, each in zip(ROLES, machines, strict=True)
    ]
    while pools and pools[-1] == WorkerPoolSpec():
        pools.pop()
    return tuple(pools)


def _machines(given: TrainingInput) -> list[Machines | None]:
    """The machines of each role. Those that fields name count more than those of the tier."""
    tier = given.scale_tier or "BASIC"
    if tier != CUSTOM and tier not in SCALE_TIERS:
        known = ", ".join((*SCALE_TIERS, CUSTOM))
        raise FieldError("trainingInput.scaleTier", f"there is no tier {tier!r}.", hint=f"There are {known}.")
    of_tier = [*SCALE_TIERS.get(tier, ()), *[None] * len(ROLES)][: len(ROLES)]
    found = [_of_role(given, role, default) for role, default in zip(ROLES, of_tier, strict=True)]
    if found[0] is None:
        raise FieldError(
            "trainingInput.masterType", "the tier CUSTOM needs it.", hint="Give --master-machine-type=TYPE."
        )
    return found


def _of_role(given: TrainingInput, role: str, default: Machines | None) -> Machines | None:
    machine_type = getattr(given, f"{role}_type")
    count = 1 if role == "master" else getattr(given, f"{role}_count")
    config: ReplicaConfig = getattr(given, f"{role}_config") or ReplicaConfig()
    if machine_type and count:
        spec = MACHINES.get(machine_type, MachineSpec(machine_type=machine_type))
    elif default is not None:
        spec, count = default.spec, count if count and role != "master" else default.count
    else:
        return None
    accelerator = config.accelerator_config
    if accelerator is not None and accelerator.type:
        kind = ACCELERATORS.get(accelerator.type, accelerator.type)
        spec = msgspec.structs.replace(spec, accelerator_type=kind, accelerator_count=accelerator.count)
    return Machines(spec=spec, count=count)


def _pool(
    given: TrainingInput, role: str, machines: Machines, job_dir: str, *, single: bool, notes: list[str]
) -> WorkerPoolSpec:
    config: ReplicaConfig = getattr(given, f"{role}_config") or ReplicaConfig()
    master = given.master_config or ReplicaConfig()
    image = config.image_uri or master.image_uri
    args = (*(config.container_args or given.args), *(("--job-dir", job_dir) if job_dir else ()))
    disk = config.disk_config
    task: dict[str, Any]
    if image:
        command = config.container_command or master.container_command
        container = ContainerSpec(image_uri=image, command=command, args=args)
        task = {"container_spec": container}
    else:
        package = PythonPackageSpec(
            executor_image_uri=_image(given, machines.spec, notes),
            package_uris=given.package_uris,
            python_module=given.python_module,
            args=args,
        )
        task = {"python_package_spec": package}
    if single:
        env = (EnvVar(name="TF_CONFIG", value=_tf_config(given, custom_container=bool(image))),)
        task = {name: msgspec.structs.replace(value, env=env) for name, value in task.items()}
    if accelerator := config.accelerator_config:
        _note(
            notes,
            ACCELERATORS.get(accelerator.type) == GPU_SUCCESSOR,
            f"{accelerator.type} is no longer offered: {GPU_SUCCESSOR} replaces it.",
        )
    _note(notes, bool(config.tpu_tf_version), "tpuTfVersion has no equal: the image decides.")
    return WorkerPoolSpec(
        machine_spec=machines.spec,
        replica_count=machines.count,
        disk_spec=DiskSpec(boot_disk_type=disk.boot_disk_type, boot_disk_size_gb=disk.boot_disk_size_gb)
        if disk is not None
        else None,
        **task,
    )


def _note(notes: list[str], applies: bool, sentence: str) -> None:
    if applies and sentence not in notes:
        notes.append(sentence)


def _image(given: TrainingInput, machine: MachineSpec, notes: list[str]) -> str:
    gpu = machine.accelerator_type.startswith("NVIDIA")
    runtime = runtime_image(given.runtime_version, given.python_version, gpu=gpu)
    _note(notes, bool(runtime.note), runtime.note)
    return runtime.image_uri


def _tf_config(given: TrainingInput, *, custom_container: bool) -> str:
    """TF_CONFIG of a job with one machine, which Vertex AI does not set."""
    chief = given.use_chief_in_tf_config
    if chief is None:
        chief = not custom_container and _is_since(given.runtime_version, (2, 1))
    name = "chief" if chief else "master"
    document = {
        "cluster": {name: [LOCAL_ADDRESS]},
        "environment": "cloud",
        "job": json.dumps(mapped(to_document(given), _snake), separators=(",", ":")),
        "task": {"index": 0, "type": name},
    }
    return json.dumps(document, separators=(",", ":"))


def _is_since(version: str, first: tuple[int, int]) -> bool:
    numbers = re.fullmatch(r"(\d{1,3})\.(\d{1,3})", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= first


def _snake(value: Any) -> Any:
    """A mapping with its fields in snake_case, as the older service wrote them for trainers."""
    return {snake_case(name): item for name, item in value.items()} if isinstance(value, dict) else value


def _scheduling(given: TrainingInput, notes: list[str]) -> Scheduling | None:
    wanted = given.scheduling
    if wanted is None:
        return None
    _note(notes, bool(wanted.max_wait_time), "scheduling.maxWaitTime has no equal: a job waits for machines.")
    _note(notes, bool(wanted.priority), "scheduling.priority has no equal.")
    restart = wanted.resilient_to_worker_restart is False  # the new field has the inverse sense
    if not (wanted.max_running_time or restart):
        return None
    return Scheduling(timeout=wanted.max_running_time, restart_job_on_worker_restart=restart)


def _study(tuning: HyperparameterSpec, notes: list[str]) -> StudySpec:
    if tuning.resume_previous_job_id:
        raise FieldError(
            "trainingInput.hyperparameters.resumePreviousJobId",
            "Vertex AI does not resume a tuning job.",
            hint="On this machine: vtrain hp-tuning-jobs create --continue-from=JOB.",
        )
    algorithm = tuning.algorithm if tuning.algorithm in ("GRID_SEARCH", "RANDOM_SEARCH") else ""
    _note(
        notes,
        bool(tuning.algorithm) and not algorithm and tuning.algorithm != "ALGORITHM_UNSPECIFIED",
        f"hyperparameters.algorithm {tuning.algorithm} has no equal: Bayesian optimisation stands for it.",
    )
    metric = tuning.hyperparameter_metric_tag or DEFAULT_METRIC
    goal = "MAXIMIZE" if tuning.goal in ("", "GOAL_TYPE_UNSPECIFIED") else tuning.goal
    if goal not in ("MAXIMIZE", "MINIMIZE"):
        raise FieldError(
            "trainingInput.hyperparameters.goal",
            f"there is no goal {goal!r}.",
            hint="Write MAXIMIZE or MINIMIZE.",
        )
    return StudySpec(
        metrics=(MetricSpec(metric_id=metric, goal=goal),),
        parameters=tuple(map(_parameter, tuning.params)),
        algorithm=algorithm,
        median_automated_stopping_spec=MedianAutomatedStoppingSpec()
        if tuning.enable_trial_early_stopping
        else None,
    )


def _parameter(given: ParameterSpec) -> StudyParameter:
    fields: dict[str, Any] = {"parameter_id": given.parameter_name}
    if given.scale_type in _SCALES:
        fields["scale_type"] = given.scale_type
    low, high = given.min_value, given.max_value
    if given.type == "INTEGER":
        if not (low.is_integer() and high.is_integer()):
            raise FieldError(
                "trainingInput.hyperparameters.params",
                f"{given.parameter_name!r} is an INTEGER from {low} to {high}.",
                hint="Write whole numbers, or take DOUBLE.",
            )
        fields["integer_value_spec"] = IntegerValueSpec(min_value=int(low), max_value=int(high))
    elif given.type == "CATEGORICAL":
        fields["categorical_value_spec"] = CategoricalValueSpec(values=given.categorical_values)
    elif given.type == "DISCRETE":
        fields["discrete_value_spec"] = DiscreteValueSpec(values=given.discrete_values)
    elif given.type == "DOUBLE":
        fields["double_value_spec"] = DoubleValueSpec(min_value=low, max_value=high)
    else:
        raise FieldError(
            "trainingInput.hyperparameters.params",
            f"{given.parameter_name!r} has the type {given.type!r}.",
            hint="Write DOUBLE, INTEGER, CATEGORICAL or DISCRETE.",
        )
    return StudyParameter(**fields)
