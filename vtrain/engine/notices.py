"""What this machine does not reproduce of a job: one sentence per field that is set, never swallowed."""

from __future__ import annotations

from collections.abc import Iterator

from vtrain.messages.custom_job import CustomJob, CustomJobSpec, WorkerPoolSpec

_SPEC_FIELDS = (
    ("persistent_resource_id", "persistentResourceId", "the job does not run on a persistent resource"),
    ("network", "network", "replicas use this machine's network"),
    ("reserved_ip_ranges", "reservedIpRanges", "replicas use this machine's addresses"),
    ("psc_interface_config", "pscInterfaceConfig", "replicas use this machine's network"),
    ("protected_artifact_location_id", "protectedArtifactLocationId", "nothing is stored there"),
    (
        "tensorboard",
        "tensorboard",
        "nothing is uploaded to it; the event files stay in AIP_TENSORBOARD_LOG_DIR",
    ),
    ("enable_dashboard_access", "enableDashboardAccess", "there is no dashboard address"),
    ("experiment", "experiment", "nothing is recorded in an experiment"),
    ("experiment_run", "experimentRun", "nothing is recorded in an experiment"),
    ("models", "models", "no model version is registered"),
)
_PROCESS_FIELDS = (
    ("service_account", "serviceAccount", "replicas run as you, with your credentials"),
    (
        "enable_web_access",
        "enableWebAccess",
        "there is no web shell; the replicas are processes that you can inspect",
    ),
)
_CONTAINER_FIELDS = (
    (
        "service_account",
        "serviceAccount",
        "containers have no credentials but those that --credentials gives",
    ),
    ("enable_web_access", "enableWebAccess", "there is no web shell; `docker exec` opens one in a replica"),
)
_POOL_FIELDS = (
    ("nfs_mounts", "nfsMounts", "nothing is mounted at /mnt/nfs"),
    ("lustre_mounts", "lustreMounts", "nothing is mounted at /mnt/lustre"),
)
_PLAIN_STRATEGIES = ("", "STRATEGY_UNSPECIFIED", "STANDARD", "ON_DEMAND", "LOW_COST")


def process_notices(job: CustomJob) -> tuple[str, ...]:
    """Sentences about the fields of a job that processes on this machine do not see."""
    pools = job.job_spec.worker_pool_specs
    machines = [line for number, pool in enumerate(pools) for line in _machine_notices(number, pool)]
    return (*machines, *_notices(job, _PROCESS_FIELDS))


def container_notices(job: CustomJob) -> tuple[str, ...]:
    """Sentences about the fields of a job that containers on this machine do not see.

    Machine types and accelerators are not among them: containers have limits, and may have GPUs.
    """
    return tuple(_notices(job, _CONTAINER_FIELDS))


def _notices(job: CustomJob, own_fields: tuple[tuple[str, str, str], ...]) -> Iterator[str]:
    spec = job.job_spec
    for number, pool in enumerate(spec.worker_pool_specs):
        yield from _pool_notices(f"workerPoolSpecs[{number}]", pool)
    for attribute, name, effect in (*_SPEC_FIELDS, *own_fields):
        if getattr(spec, attribute):
            yield _sentence(name, effect)
    yield from _scheduling_notices(spec)
    if job.encryption_spec is not None:
        yield _sentence("encryptionSpec", "what the job writes here is not encrypted with that key")


def _machine_notices(number: int, pool: WorkerPoolSpec) -> Iterator[str]:
    path, machine = f"workerPoolSpecs[{number}]", pool.machine_spec
    if machine is not None and machine.accelerator_type not in ("", "ACCELERATOR_TYPE_UNSPECIFIED"):
        count = machine.accelerator_count or 1
        yield (
            f"NO ACCELERATOR: {path} asks for {count} x {machine.accelerator_type}; here its replicas run on "
            "the CPU and on what this machine has."
        )
    if machine is not None and machine.machine_type:
        yield _sentence(f"{path}.machineSpec.machineType", "replicas share this machine")


def _pool_notices(path: str, pool: WorkerPoolSpec) -> Iterator[str]:
    machine = pool.machine_spec
    if machine is not None and machine.reservation_affinity is not None:
        yield _sentence(f"{path}.machineSpec.reservationAffinity", "no reservation is used")
    for attribute, name, effect in _POOL_FIELDS:
        if getattr(pool, attribute):
            yield _sentence(f"{path}.{name}", effect)


def _scheduling_notices(spec: CustomJobSpec) -> Iterator[str]:
    scheduling = spec.scheduling
    if scheduling is None:
        return
    if scheduling.strategy not in _PLAIN_STRATEGIES:
        yield _sentence(
            "scheduling.strategy", f"{scheduling.strategy} machines are not there; the job starts at once"
        )
    if scheduling.max_wait_duration:
        yield _sentence("scheduling.maxWaitDuration", "the job starts at once")
    if scheduling.restart_job_on_worker_restart:
        yield _sentence("scheduling.restartJobOnWorkerRestart", "no replica is restarted")


def _sentence(name: str, effect: str) -> str:
    return f"{name} is not reproduced here: {effect}."
