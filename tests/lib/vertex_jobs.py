"""Jobs and resources for tests of the backend `vertex`."""

from __future__ import annotations

from pathlib import Path

from vtrain.backends import BackendSettings, ServiceAccess
from vtrain.messages.custom_job import (
    ContainerSpec,
    CustomJob,
    CustomJobSpec,
    DiskSpec,
    MachineSpec,
    WorkerPoolSpec,
)
from vtrain.messages.hyperparameter_tuning_job import (
    DoubleValueSpec,
    HyperparameterTuningJob,
    MetricSpec,
    ParameterSpec,
    StudySpec,
)
from vtrain.messages.persistent_resource import PersistentResource, ResourcePool
from vtrain.messages.training_pipeline import TrainingPipeline

MACHINE = MachineSpec(machine_type="n1-standard-4")
POOL = WorkerPoolSpec(
    machine_spec=MACHINE, replica_count=1, container_spec=ContainerSpec(image_uri="gcr.io/demo/image")
)
SPEC = CustomJobSpec(worker_pool_specs=(POOL,))
CUSTOM_JOB = CustomJob(display_name="train", job_spec=SPEC)
TUNING_JOB = HyperparameterTuningJob(
    display_name="tune",
    max_trial_count=4,
    parallel_trial_count=2,
    study_spec=StudySpec(
        metrics=(MetricSpec(metric_id="loss", goal="MINIMIZE"),),
        parameters=(
            ParameterSpec(
                parameter_id="rate", double_value_spec=DoubleValueSpec(min_value=0.1, max_value=1.0)
            ),
        ),
    ),
    trial_job_spec=SPEC,
)
PIPELINE = TrainingPipeline(
    display_name="pipeline",
    training_task_definition="gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml",
    training_task_inputs={
        "workerPoolSpecs": [{"replicaCount": 1, "containerSpec": {"imageUri": "gcr.io/demo/image"}}]
    },
)
CLUSTER = PersistentResource(
    resource_pools=(
        ResourcePool(
            machine_spec=MACHINE,
            replica_count=2,
            disk_spec=DiskSpec(boot_disk_type="pd-ssd", boot_disk_size_gb=100),
        ),
    )
)
PARENT = "projects/demo/locations/us-central1"


def settings_at(home: Path, access: ServiceAccess | None = None) -> BackendSettings:
    """The settings of project `demo` in `us-central1`."""
    return BackendSettings(home=home, project="demo", region="us-central1", access=access or ServiceAccess())
