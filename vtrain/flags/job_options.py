"""The options of jobs and persistent resources: their fields, trainers, images and containers."""

from typing import ClassVar

from vtrain.flags.completion import credential_sources, files, machines, modules, one_of, pool, processors
from vtrain.flags.grammar import (
    accelerator,
    account,
    gigabytes,
    join_lists,
    positive_number,
    proto_duration,
    split_env,
)
from vtrain.flags.local_options import InteractiveFlag, LocalFlags
from vtrain.flags.options import (
    CONTAINERS,
    GOOGLE_CLOUD,
    JOB,
    LOCAL,
    MACHINES,
    OUTPUT,
    TRAINER,
    CommonFlags,
    DryRunFlag,
    InterruptFlag,
    KeyFlag,
    NameFlag,
    PlaceFlags,
    PlaintextFlag,
    ReplicaFlags,
    ResourceFlags,
    WaitFlags,
)
from vtrain.flags.row import IGNORED, FlagGroup, FlagSet, argument, flag, items, switch, text


class JobFlags(ResourceFlags, frozen=True):
    """Flags of custom jobs and tuning jobs, laid over the config file.

    What they set below `jobSpec`, a tuning job has below `trialJobSpec`: `compose_tuning` lays it there.
    """

    heading: ClassVar[str] = JOB

    network: str | None = flag(
        "NETWORK", "VPC network to peer with.", panel=GOOGLE_CLOUD, to="jobSpec.network"
    )
    service_account: str | None = flag(
        "ACCOUNT",
        "Service account that the job runs as.",
        panel=GOOGLE_CLOUD,
        to="jobSpec.serviceAccount",
        read=account,
    )
    persistent_resource_id: str | None = flag(
        "ID",
        "Persistent resource to run on.",
        panel=GOOGLE_CLOUD,
        to="jobSpec.persistentResourceId",
        empty=IGNORED,
    )
    enable_web_access: bool | None = switch(
        "Allow an interactive shell in the job's containers.",
        default=None,
        has_opposite=True,
        panel=GOOGLE_CLOUD,
        to="jobSpec.enableWebAccess",
    )
    enable_dashboard_access: bool | None = switch(
        "Allow access to the dashboard of the training container.",
        default=None,
        has_opposite=True,
        panel=GOOGLE_CLOUD,
        to="jobSpec.enableDashboardAccess",
    )
    yes: bool = switch("Take the image that is proposed.", short="-y", panel=TRAINER)
    assignments: list[str] = items(
        "PATH=VALUE", "Any field of the API, as scheduling.strategy=SPOT. Repeatable.", name="set"
    )


class MachineFlags(JobFlags, frozen=True):
    """The machines of a job, laid over its first pool (`lay_over_machines`)."""

    machine_type: str | None = flag(
        "TYPE",
        "Machine type, such as n1-standard-4.",
        panel=MACHINES,
        offer=machines,
        to="jobSpec.workerPoolSpecs[0].machineSpec.machineType",
    )
    accelerator: str | None = flag(
        "TYPE[:COUNT]",
        "GPUs or TPUs of a replica, such as T4 or L4:2.",
        name="gpus",
        short="--accelerator",
        panel=MACHINES,
        offer=processors,
        to="jobSpec.workerPoolSpecs[0].machineSpec",
        read=accelerator,
    )
    replicas: str | None = flag(
        "N",
        "Replicas, of which all but the primary are the second pool.",
        panel=MACHINES,
        to="jobSpec.workerPoolSpecs[0].replicaCount",
        read=positive_number,
    )
    boot_disk_size: str | None = flag(
        "GB",
        "Size of each machine's disk, such as 200.",
        panel=MACHINES,
        to="jobSpec.workerPoolSpecs[0].diskSpec.bootDiskSizeGb",
        read=gigabytes,
    )
    spot: bool = switch(
        "Cheaper machines that may be taken away.",
        panel=MACHINES,
        to="jobSpec.scheduling.strategy",
        read=lambda _given, _flag: "SPOT",
    )
    flex_start: bool = switch(
        "Wait for machines that are in demand.",
        panel=MACHINES,
        to="jobSpec.scheduling.strategy",
        read=lambda _given, _flag: "FLEX_START",
    )


class SpecFlags(MachineFlags, frozen=True):
    """Flags of custom jobs, laid over the config file."""

    config: str | None = flag(
        "FILE", "Read the job from a YAML or JSON file; - is standard input.", offer=files
    )
    allow_unknown_fields: bool = switch("Send fields of --config that vtrain does not know.")
    worker_pool_spec: list[str] = items(
        "KEY=VALUE,…",
        "Worker pool, by machine-type, replica-count, accelerator-type, accelerator-count, "
        "container-image-uri, executor-image-uri, python-module and more. Repeat for up to four.",
        offer=pool,
    )
    args: list[str] = items(
        "ARG,…",
        "Arguments of the trainer, or write them after --.",
        to="jobSpec.workerPoolSpecs[*].args",
        read=join_lists,
    )
    command: list[str] = items(
        "WORD,…",
        "Command of the container, in place of the image's.",
        to="jobSpec.workerPoolSpecs[*].command",
        read=join_lists,
    )
    python_package_uris: str = text("URI,…", "Packages to install for pools with a Python module.")
    env: list[str] = items(
        "NAME[=VALUE]",
        "Variable for the trainer. NAME alone copies yours. Repeatable.",
        to="jobSpec.workerPoolSpecs[*].env",
        read=lambda given, _flag: split_env(given)[0],
    )
    base_output_dir: str | None = flag(
        "URI",
        "Folder for models and checkpoints: gs://… or file:///….",
        panel=OUTPUT,
        to="jobSpec.baseOutputDirectory.outputUriPrefix",
        empty=IGNORED,
    )
    timeout: str = text(
        "DURATION", "Time limit of the job, such as 2h.", to="jobSpec.scheduling.timeout", read=proto_duration
    )


class EntryFlags(FlagGroup, frozen=True):
    """The script or folder to run, as an argument without a flag."""

    heading: ClassVar[str] = TRAINER

    entry: str | None = argument(
        "[SCRIPT|FOLDER]",
        "Script to run, or the folder of a trainer. A script in the current folder or below is packaged "
        "with the whole current folder.",
        default=None,
        offer=files,
    )
    module: str = text("MODULE", "Module of the folder to run.", short="-m", offer=modules)


class TrainerFlags(FlagGroup, frozen=True):
    """The trainer on this machine, and how it is packaged."""

    heading: ClassVar[str] = TRAINER

    local_package_path: str | None = flag(
        "DIR", "Folder with the training code, or a single script.", offer=files
    )
    python_module: str = text("MODULE", "Module to run, such as trainer.task.", offer=modules)
    script: str = text("FILE", "Python or shell script to run, in place of a module.", offer=files)
    requirements: str = text("REQ,…", "Packages to install, such as pandas,pyarrow.")
    extra_packages: str = text(
        "FILE,…", "Package files to install. Paths are relative to the folder.", offer=files
    )
    extra_dirs: str = text("DIR,…", "More folders to package. Paths are relative to the folder.", offer=files)
    executor_image_uri: str = text("IMAGE", "Image to run in. Optional on local backends.")
    package_format: str = flag(
        "FORMAT",
        "How to package the trainer: sdist, image or auto.",
        default="auto",
        offer=one_of("auto", "sdist", "image"),
    )
    staging_bucket: str = text("URI", "Where to upload packages: gs://BUCKET or file:///FOLDER.")
    strict: bool = switch("Treat warnings as errors, also of what Vertex AI may refuse.")


class ImageFlags(FlagGroup, frozen=True):
    """An image to build, name and push."""

    heading: ClassVar[str] = "Image"

    output_image_uri: str = text("IMAGE", "Name of the image: NAME[:TAG].")
    dockerfile: str = text("FILE", "Use this Dockerfile; the folder is its context.", offer=files)
    platform: str | None = flag(
        "OS/ARCH",
        "Platform of the image. Default: the engine's; linux/amd64 with --push.",
        offer=one_of("linux/amd64", "linux/arm64"),
    )
    pull: str = flag(
        "WHEN",
        "When to pull the base image: missing, always or never.",
        default="missing",
        offer=one_of("missing", "always", "never"),
    )
    push: bool = switch("Push the image to the registry in --output-image-uri.")
    print_dockerfile: bool = switch("Print the Dockerfile, and build nothing.")


class ContainerFlags(FlagGroup, frozen=True):
    """Options of containers on the docker backend."""

    heading: ClassVar[str] = CONTAINERS

    pull: str | None = flag(
        "WHEN",
        "When to pull images: missing (the default), always or never.",
        offer=one_of("missing", "always", "never"),
    )
    platform: str | None = flag(
        "OS/ARCH",
        "Platform of the images. Default: the engine's.",
        offer=one_of("linux/amd64", "linux/arm64"),
    )
    bake: bool = switch("Build and run an image: the same as --package-format=image.")
    memory: str | None = flag(
        "SIZE",
        "Memory per replica, instead of the machine type's. Only containers are limited to it.",
        panel=LOCAL,
    )
    cpus: str | None = flag("N", "CPUs per container; overrides the machine type.")
    shm_size: str | None = flag("SIZE", "Size of /dev/shm. Default: half the memory.")
    mount: list[str] = items("KEY=VALUE,…", "Mount, such as type=bind,source=DIR,target=/DIR. Repeatable.")
    user: str | None = flag("UID[:GID]", "User in the container. Default: the image's.")
    add_host: list[str] = items("NAME:ADDRESS", "As in docker run.")
    cap_add: list[str] = items("CAPABILITY", "As in docker run.")
    ulimit: list[str] = items("NAME=SOFT[:HARD]", "As in docker run.")
    require_accelerators: bool = switch(
        "Fail if requested GPUs are missing, instead of using the CPU.", panel=LOCAL
    )
    credentials: str | None = flag(
        "none|adc|FILE",
        "Google credentials: none (default), adc (your own) or a file.",
        panel=LOCAL,
        offer=credential_sources,
    )


class GpuFlags(FlagGroup, frozen=True):
    """Flags of gcloud's local-run that concern containers."""

    heading: ClassVar[str] = CONTAINERS

    gpu: bool = switch("Give the container this machine's GPUs.", has_opposite=True)
    service_account_key_file: str | None = flag(
        "FILE", "Key file for the job's GOOGLE_APPLICATION_CREDENTIALS.", offer=files
    )
    output_image_uri: str | None = flag("IMAGE", "Name of the image.")
    docker_run_options: str = text("OPTION,…", "Accepted, and ignored.", hidden=True)


class PersistentResourceFlags(ResourceFlags, frozen=True):
    """Flags of persistent resources: the id and the machines."""

    heading: ClassVar[str] = "Machines"

    persistent_resource_id: str | None = flag("ID", "Id of the new resource.")
    config: str | None = flag(
        "FILE", "Read resourcePools from a YAML or JSON file; - is standard input.", offer=files
    )
    allow_unknown_fields: bool = switch("Send fields of --config that vtrain does not know.")
    resource_pool_spec: list[str] = items(
        "KEY=VALUE,…",
        "Pool of machines, after those of --config. Repeatable. Keys: machine-type, replica-count, "
        "min-replica-count, max-replica-count, accelerator-type, accelerator-count, disk-type, disk-size.",
    )
    preload: str | None = flag(
        "MODULE,…",
        "Keep these modules imported between jobs of the process backend, so that the next job starts with "
        "them. Local backends only.",
    )
    enable_custom_service_account: bool = switch(
        "Require that each job names its service account.",
        has_opposite=True,
        panel=GOOGLE_CLOUD,
        to="resourceRuntimeSpec.serviceAccountSpec.enableCustomServiceAccount",
    )


class ResourceNameFlag(NameFlag, frozen=True):
    """The name of a persistent resource."""

    persistent_resource: str = argument(
        "PERSISTENT_RESOURCE", "Id, or projects/PROJECT/locations/REGION/persistentResources/ID."
    )


class ForceFlag(FlagGroup, frozen=True):
    """The switch that ends what is in the way."""

    heading: ClassVar[str] = JOB

    force: bool = switch("Cancel the jobs that run or wait on it.")


class CreationFlags(FlagSet, frozen=True):
    """The way in which a job of any kind is created: planned only, once for a key, followed to its end."""

    run: DryRunFlag
    once: KeyFlag
    plaintext: PlaintextFlag
    interrupt: InterruptFlag
    waiting: WaitFlags
    container: ContainerFlags


class CustomJobLine(FlagSet, frozen=True):
    """A command line that creates a custom job."""

    spec: SpecFlags
    trainer: TrainerFlags
    how: CreationFlags
    local: LocalFlags
    place: PlaceFlags
    common: CommonFlags


class LocalRunLine(FlagSet, frozen=True):
    """A command line that runs a trainer on this machine."""

    spec: SpecFlags
    trainer: TrainerFlags
    run: DryRunFlag
    interrupt: InterruptFlag
    typing: InteractiveFlag
    gpu: GpuFlags
    container: ContainerFlags
    local: LocalFlags
    place: PlaceFlags
    common: CommonFlags


class SubmitLine(FlagSet, frozen=True):
    """A short command line that creates a custom job."""

    entry: EntryFlags
    job: CustomJobLine


class RunLine(FlagSet, frozen=True):
    """A short command line that runs a trainer on this machine."""

    entry: EntryFlags
    job: LocalRunLine


class EnvironmentLine(FlagSet, frozen=True):
    """A command line that shows what a replica would see."""

    spec: SpecFlags
    trainer: TrainerFlags
    wanted: ReplicaFlags
    container: ContainerFlags
    place: PlaceFlags
    common: CommonFlags
