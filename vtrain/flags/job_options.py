"""The options of jobs and persistent resources: their fields, trainers, images and containers.

Typer evaluates the annotations when it builds a command, so this module does not import `annotations`.
"""

from typing import Annotated, ClassVar

from typer import Argument, Option

from vtrain.flags.completion import credential_sources, files, modules, one_of, pool
from vtrain.flags.options import (
    CONTAINERS,
    GOOGLE_CLOUD,
    JOB,
    LOCAL,
    OUTPUT,
    TRAINER,
    FlagGroup,
    NameFlag,
    ResourceFlags,
)

AllowUnknownFields = Annotated[
    bool,
    Option("--allow-unknown-fields", help="Send fields of --config that vtrain does not know."),
]


class JobFlags(ResourceFlags, frozen=True):
    """Flags of custom jobs and tuning jobs, laid over the config file."""

    heading: ClassVar[str] = JOB

    service_account: Annotated[
        str | None,
        Option(
            "--service-account",
            metavar="ACCOUNT",
            help="Service account that the job runs as.",
            rich_help_panel=GOOGLE_CLOUD,
        ),
    ] = None
    persistent_resource_id: Annotated[
        str | None,
        Option(
            "--persistent-resource-id",
            metavar="ID",
            help="Persistent resource to run on.",
            rich_help_panel=GOOGLE_CLOUD,
        ),
    ] = None
    enable_web_access: Annotated[
        bool | None,
        Option(
            "--enable-web-access/--no-enable-web-access",
            help="Allow an interactive shell in the job's containers.",
            rich_help_panel=GOOGLE_CLOUD,
        ),
    ] = None
    enable_dashboard_access: Annotated[
        bool | None,
        Option(
            "--enable-dashboard-access/--no-enable-dashboard-access",
            help="Allow access to the dashboard of the training container.",
            rich_help_panel=GOOGLE_CLOUD,
        ),
    ] = None
    assignments: Annotated[
        list[str],
        Option(
            "--set",
            metavar="PATH=VALUE",
            help="Any field of the API, as scheduling.strategy=SPOT. Repeatable.",
        ),
    ] = []


class SpecFlags(JobFlags, frozen=True):
    """Flags of custom jobs, laid over the config file."""

    config: Annotated[
        str | None,
        Option(
            "--config",
            metavar="FILE",
            help="Read the job from a YAML or JSON file; - is standard input.",
            autocompletion=files,
        ),
    ] = None
    allow_unknown_fields: AllowUnknownFields = False
    worker_pool_spec: Annotated[
        list[str],
        Option(
            "--worker-pool-spec",
            metavar="KEY=VALUE,…",
            help="Worker pool. Repeat for up to four. Keys: machine-type, replica-count, "
            "accelerator-type, accelerator-count, container-image-uri, executor-image-uri, "
            "python-module, script, local-package-path, output-image-uri, requirements, "
            "extra-packages, extra-dirs (lists split at ;).",
            autocompletion=pool,
        ),
    ] = []
    args: Annotated[
        list[str],
        Option("--args", metavar="ARG,…", help="Arguments of the trainer, or write them after --."),
    ] = []
    command: Annotated[
        list[str],
        Option("--command", metavar="WORD,…", help="Command of the container, in place of the image's."),
    ] = []
    python_package_uris: Annotated[
        str,
        Option(
            "--python-package-uris",
            metavar="URI,…",
            help="Packages to install for pools with a Python module.",
        ),
    ] = ""
    env: Annotated[
        list[str],
        Option(
            "--env",
            metavar="NAME[=VALUE]",
            help="Variable for the trainer. NAME alone copies yours. Repeatable.",
        ),
    ] = []
    base_output_dir: Annotated[
        str | None,
        Option(
            "--base-output-dir",
            metavar="URI",
            help="Folder for models and checkpoints: gs://… or file:///….",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    timeout: Annotated[
        str | None,
        Option("--timeout", metavar="DURATION", help="Time limit of the job, such as 2h."),
    ] = None


class EntryFlags(FlagGroup, frozen=True):
    """The script or folder to run, as an argument without a flag."""

    heading: ClassVar[str] = TRAINER

    entry: Annotated[
        str | None,
        Argument(
            metavar="[SCRIPT|FOLDER]",
            help="Script to run, or the folder of a trainer. A script in the current folder or below "
            "is packaged with the whole current folder.",
            autocompletion=files,
        ),
    ] = None
    module: Annotated[
        str,
        Option(
            "--module", "-m", metavar="MODULE", help="Module of the folder to run.", autocompletion=modules
        ),
    ] = ""


class TrainerFlags(FlagGroup, frozen=True):
    """The trainer on this machine, and how it is packaged."""

    heading: ClassVar[str] = TRAINER

    local_package_path: Annotated[
        str | None,
        Option(
            "--local-package-path",
            metavar="DIR",
            help="Folder with the training code, or a single script.",
            autocompletion=files,
        ),
    ] = None
    python_module: Annotated[
        str,
        Option(
            "--python-module",
            metavar="MODULE",
            help="Module to run, such as trainer.task.",
            autocompletion=modules,
        ),
    ] = ""
    script: Annotated[
        str,
        Option(
            "--script",
            metavar="FILE",
            help="Python or shell script to run, in place of a module.",
            autocompletion=files,
        ),
    ] = ""
    requirements: Annotated[
        str,
        Option("--requirements", metavar="REQ,…", help="Packages to install, such as pandas,pyarrow."),
    ] = ""
    extra_packages: Annotated[
        str,
        Option(
            "--extra-packages",
            metavar="FILE,…",
            help="Package files to install. Paths are relative to the folder.",
            autocompletion=files,
        ),
    ] = ""
    extra_dirs: Annotated[
        str,
        Option(
            "--extra-dirs",
            metavar="DIR,…",
            help="More folders to package. Paths are relative to the folder.",
            autocompletion=files,
        ),
    ] = ""
    executor_image_uri: Annotated[
        str,
        Option("--executor-image-uri", metavar="IMAGE", help="Image to run in. Optional on local backends."),
    ] = ""
    package_format: Annotated[
        str,
        Option(
            "--package-format",
            metavar="FORMAT",
            help="How to package the trainer: sdist, image or auto.",
            autocompletion=one_of("auto", "sdist", "image"),
        ),
    ] = "auto"
    staging_bucket: Annotated[
        str,
        Option(
            "--staging-bucket",
            metavar="URI",
            help="Where to upload packages: gs://BUCKET or file:///FOLDER.",
        ),
    ] = ""
    strict: Annotated[
        bool,
        Option("--strict", help="Treat warnings about imports, settings, fields and secrets as errors."),
    ] = False


class ImageFlags(FlagGroup, frozen=True):
    """An image to build, name and push."""

    heading: ClassVar[str] = "Image"

    output_image_uri: Annotated[
        str, Option("--output-image-uri", metavar="IMAGE", help="Name of the image: NAME[:TAG].")
    ] = ""
    dockerfile: Annotated[
        str,
        Option(
            "--dockerfile",
            metavar="FILE",
            help="Use this Dockerfile; the folder is its context.",
            autocompletion=files,
        ),
    ] = ""
    platform: Annotated[
        str | None,
        Option(
            "--platform",
            metavar="OS/ARCH",
            help="Platform of the image. Default: the engine's; linux/amd64 with --push.",
            autocompletion=one_of("linux/amd64", "linux/arm64"),
        ),
    ] = None
    pull: Annotated[
        str,
        Option(
            "--pull",
            metavar="WHEN",
            help="When to pull the base image: missing, always or never.",
            autocompletion=one_of("missing", "always", "never"),
        ),
    ] = "missing"
    push: Annotated[bool, Option("--push", help="Push the image to the registry in --output-image-uri.")] = (
        False
    )
    print_dockerfile: Annotated[
        bool, Option("--print-dockerfile", help="Print the Dockerfile, and build nothing.")
    ] = False


class ContainerFlags(FlagGroup, frozen=True):
    """Options of containers on the docker backend."""

    heading: ClassVar[str] = CONTAINERS

    pull: Annotated[
        str | None,
        Option(
            "--pull",
            metavar="WHEN",
            help="When to pull images: missing (the default), always or never.",
            autocompletion=one_of("missing", "always", "never"),
        ),
    ] = None
    platform: Annotated[
        str | None,
        Option(
            "--platform",
            metavar="OS/ARCH",
            help="Platform of the images. Default: the engine's.",
            autocompletion=one_of("linux/amd64", "linux/arm64"),
        ),
    ] = None
    bake: Annotated[
        bool, Option("--bake", help="Build and run an image: the same as --package-format=image.")
    ] = False
    memory: Annotated[
        str | None,
        Option(
            "--memory",
            metavar="SIZE",
            help="Memory per replica, instead of the machine type's. Only containers are limited to it.",
            rich_help_panel=LOCAL,
        ),
    ] = None
    cpus: Annotated[
        str | None, Option("--cpus", metavar="N", help="CPUs per container; overrides the machine type.")
    ] = None
    shm_size: Annotated[
        str | None, Option("--shm-size", metavar="SIZE", help="Size of /dev/shm. Default: half the memory.")
    ] = None
    mount: Annotated[
        list[str],
        Option(
            "--mount",
            metavar="KEY=VALUE,…",
            help="Mount, such as type=bind,source=DIR,target=/DIR. Repeatable.",
        ),
    ] = []
    user: Annotated[
        str | None, Option("--user", metavar="UID[:GID]", help="User in the container. Default: the image's.")
    ] = None
    add_host: Annotated[
        list[str], Option("--add-host", metavar="NAME:ADDRESS", help="As in docker run.")
    ] = []
    cap_add: Annotated[list[str], Option("--cap-add", metavar="CAPABILITY", help="As in docker run.")] = []
    ulimit: Annotated[
        list[str],
        Option("--ulimit", metavar="NAME=SOFT[:HARD]", help="As in docker run."),
    ] = []
    require_accelerators: Annotated[
        bool,
        Option(
            "--require-accelerators",
            help="Fail if requested GPUs are missing, instead of using the CPU.",
            rich_help_panel=LOCAL,
        ),
    ] = False
    credentials: Annotated[
        str | None,
        Option(
            "--credentials",
            metavar="none|adc|FILE",
            help="Google credentials: none (default), adc (your own) or a file.",
            rich_help_panel=LOCAL,
            autocompletion=credential_sources,
        ),
    ] = None


class GpuFlags(FlagGroup, frozen=True):
    """Flags of gcloud's local-run that concern containers."""

    heading: ClassVar[str] = CONTAINERS

    gpu: Annotated[bool, Option("--gpu/--no-gpu", help="Give the container this machine's GPUs.")] = False
    service_account_key_file: Annotated[
        str | None,
        Option(
            "--service-account-key-file",
            metavar="FILE",
            help="Key file for the job's GOOGLE_APPLICATION_CREDENTIALS.",
            autocompletion=files,
        ),
    ] = None
    output_image_uri: Annotated[
        str | None, Option("--output-image-uri", metavar="IMAGE", help="Name of the image.")
    ] = None
    docker_run_options: Annotated[
        str, Option("--docker-run-options", metavar="OPTION,…", hidden=True, help="Accepted, and ignored.")
    ] = ""


class PersistentResourceFlags(ResourceFlags, frozen=True):
    """Flags of persistent resources: the id and the machines."""

    heading: ClassVar[str] = "Machines"

    persistent_resource_id: Annotated[
        str | None, Option("--persistent-resource-id", metavar="ID", help="Id of the new resource.")
    ] = None
    config: Annotated[
        str | None,
        Option(
            "--config",
            metavar="FILE",
            help="Read resourcePools from a YAML or JSON file; - is standard input.",
            autocompletion=files,
        ),
    ] = None
    allow_unknown_fields: AllowUnknownFields = False
    resource_pool_spec: Annotated[
        list[str],
        Option(
            "--resource-pool-spec",
            metavar="KEY=VALUE,…",
            help="Pool of machines, after those of --config. Repeatable. Keys: machine-type, "
            "replica-count, min-replica-count, max-replica-count, accelerator-type, "
            "accelerator-count, disk-type, disk-size.",
        ),
    ] = []
    preload: Annotated[
        str | None,
        Option(
            "--preload",
            metavar="MODULE,…",
            help="Keep these modules imported between jobs of the process backend, so that the next "
            "job starts with them. Local backends only.",
        ),
    ] = None
    enable_custom_service_account: Annotated[
        bool,
        Option(
            "--enable-custom-service-account/--no-enable-custom-service-account",
            help="Require that each job names its service account.",
            rich_help_panel=GOOGLE_CLOUD,
        ),
    ] = False


class ResourceNameFlag(NameFlag, frozen=True):
    """The name of a persistent resource."""

    persistent_resource: Annotated[
        str,
        Argument(
            metavar="PERSISTENT_RESOURCE",
            help="Id, or projects/PROJECT/locations/REGION/persistentResources/ID.",
        ),
    ]


class ForceFlag(FlagGroup, frozen=True):
    """The switch that ends what is in the way."""

    heading: ClassVar[str] = JOB

    force: Annotated[bool, Option("--force", help="Cancel the jobs that run or wait on it.")] = False
