"""Every option, said once. A command names the groups that it takes; their fields are its flags.

The annotations here are evaluated at every start, so they are not left as text (no `annotations` import).
"""

from typing import Annotated

import msgspec
from typer import Argument, Option

from vtrain.flags.completion import backends, custom_jobs, pool, regions

REGION_HELP = "Region of the resource. Local backends need none."


WaitTimeout = Annotated[
    str,
    Option("--wait-timeout", metavar="DURATION", help="Wait no longer; the job goes on (exit code 124)."),
]


class FlagGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Flags that belong together; each field is one flag of the commands that take the group."""


class CommonFlags(FlagGroup, frozen=True):
    """What every command takes, before or after its name."""

    project: Annotated[
        str | None, Option("--project", metavar="PROJECT_ID", help="Project of the resource.")
    ] = None
    format: Annotated[
        str, Option("--format", metavar="FORMAT", help="json, yaml, value(KEYS), csv(KEYS), table(KEYS), …")
    ] = ""
    flatten: Annotated[
        list[str],
        Option("--flatten", metavar="KEY[],…", help="Print each element of these lists as a resource."),
    ] = []
    quiet: Annotated[
        bool, Option("--quiet/--no-quiet", "-q", help="Ask nothing; leave out words about progress.")
    ] = False
    verbosity: Annotated[
        str, Option("--verbosity", metavar="LEVEL", help="debug, info, warning, error, critical or none.")
    ] = "warning"
    user_output: Annotated[
        bool | None,
        Option("--user-output-enabled/--no-user-output-enabled", help="Print results and words."),
    ] = None
    flags_file: Annotated[
        str, Option("--flags-file", metavar="FILE", help="YAML or JSON of flags, put in this one's place.")
    ] = ""
    configuration: Annotated[
        str, Option("--configuration", metavar="NAME", help="gcloud's named configuration to read.")
    ] = ""
    account: Annotated[
        str, Option("--account", metavar="ACCOUNT", help="Account to call the service as.")
    ] = ""
    access_token_file: Annotated[
        str, Option("--access-token-file", metavar="FILE", help="File with an access token to use.")
    ] = ""
    impersonate_service_account: Annotated[
        str,
        Option(
            "--impersonate-service-account",
            metavar="ACCOUNT,…",
            help="Service account to act as; those before the last delegate to it.",
        ),
    ] = ""
    billing_project: Annotated[
        str, Option("--billing-project", metavar="PROJECT_ID", help="Project whose quota is used.")
    ] = ""
    api_version: Annotated[
        str,
        Option("--api-version", metavar="VERSION", help="v1, or v1beta1 as `vtrain beta ai …` speaks."),
    ] = "v1"
    log_http: Annotated[
        bool, Option("--log-http/--no-log-http", help="Show requests and answers on stderr.")
    ] = False
    trace_token: Annotated[
        str, Option("--trace-token", metavar="TOKEN", help="Token that the service traces requests by.")
    ] = ""


class PlaceFlags(FlagGroup, frozen=True):
    """Where a resource lives."""

    backend: Annotated[
        str,
        Option(
            "--backend",
            metavar="NAME",
            help="local, process, docker or vertex; by default vertex where a project is known, else local.",
            autocompletion=backends,
        ),
    ] = ""
    region: Annotated[str, Option("--region", metavar="REGION", help=REGION_HELP, autocompletion=regions)] = (
        ""
    )


class JobNameFlag(FlagGroup, frozen=True):
    """Which job."""

    custom_job: Annotated[
        str,
        Argument(
            metavar="CUSTOM_JOB",
            help="Id, or projects/PROJECT/locations/REGION/customJobs/ID.",
            autocompletion=custom_jobs,
        ),
    ]


class ResourceFlags(FlagGroup, frozen=True):
    """What every resource that is created may be given."""

    display_name: Annotated[
        str | None, Option("--display-name", metavar="NAME", help="Name to be shown under.")
    ] = None
    labels: Annotated[list[str], Option("--labels", metavar="KEY=VALUE,…", help="Labels to give.")] = []
    network: Annotated[
        str | None, Option("--network", metavar="NETWORK", help="VPC network to peer with.")
    ] = None
    kms_key: Annotated[
        str | None, Option("--kms-key", metavar="KEY", help="Encryption key: id or full name.")
    ] = None
    kms_keyring: Annotated[
        str | None, Option("--kms-keyring", metavar="RING", help="Key ring of --kms-key.")
    ] = None
    kms_location: Annotated[
        str | None, Option("--kms-location", metavar="REGION", help="Location of --kms-key.")
    ] = None
    kms_project: Annotated[
        str | None, Option("--kms-project", metavar="PROJECT", help="Project of --kms-key.")
    ] = None


class JobFlags(ResourceFlags, frozen=True):
    """What every job may be given, over and above its config file."""

    service_account: Annotated[
        str | None,
        Option("--service-account", metavar="ACCOUNT", help="Service account that the job runs as."),
    ] = None
    enable_web_access: Annotated[
        bool | None, Option("--enable-web-access/--no-enable-web-access", help="Open an interactive shell.")
    ] = None
    enable_dashboard_access: Annotated[
        bool | None,
        Option("--enable-dashboard-access/--no-enable-dashboard-access", help="Expose the dashboard."),
    ] = None
    assignments: Annotated[
        list[str],
        Option(
            "--set",
            metavar="PATH=VALUE",
            help="Any field of the API, such as scheduling.strategy=SPOT; repeatable.",
        ),
    ] = []


class SpecFlags(JobFlags, frozen=True):
    """A custom job, over and above its config file."""

    config: Annotated[
        str | None,
        Option("--config", metavar="FILE", help="YAML or JSON of a CustomJobSpec or CustomJob; - is stdin."),
    ] = None
    allow_unknown_fields: Annotated[
        bool,
        Option(
            "--allow-unknown-fields", help="Send fields of --config that vtrain does not know as they are."
        ),
    ] = False
    worker_pool_spec: Annotated[
        list[str],
        Option(
            "--worker-pool-spec",
            metavar="KEY=VALUE,…",
            help="A worker pool; repeat for up to four. Keys: machine-type, replica-count, accelerator-type, "
            "accelerator-count, container-image-uri, executor-image-uri, python-module, script, "
            "local-package-path, output-image-uri, requirements, extra-packages, extra-dirs (lists split "
            "on ;). Takes the place of the pools of --config.",
            autocompletion=pool,
        ),
    ] = []
    args: Annotated[
        list[str],
        Option(
            "--args", metavar="ARG,…", help="Arguments of the trainer in every pool; the same as -- ARG …."
        ),
    ] = []
    command: Annotated[
        list[str], Option("--command", metavar="WORD,…", help="Command of the container in every pool.")
    ] = []
    python_package_uris: Annotated[
        str,
        Option("--python-package-uris", metavar="URI,…", help="Packages of pools that run a Python module."),
    ] = ""
    env: Annotated[
        list[str],
        Option(
            "--env",
            metavar="NAME[=VALUE]",
            help="Variable in every pool; repeat for more. Without a value: yours, on local backends only.",
        ),
    ] = []
    persistent_resource_id: Annotated[
        str | None, Option("--persistent-resource-id", metavar="ID", help="Persistent resource to run on.")
    ] = None
    base_output_dir: Annotated[
        str | None,
        Option("--base-output-dir", metavar="URI", help="baseOutputDirectory: AIP_MODEL_DIR lies below it."),
    ] = None
    timeout: Annotated[
        str | None,
        Option("--timeout", metavar="DURATION", help="The job's own limit (scheduling.timeout), such as 2h."),
    ] = None


class TrainerFlags(FlagGroup, frozen=True):
    """The trainer on this machine, and how it is packaged."""

    local_package_path: Annotated[
        str | None, Option("--local-package-path", metavar="DIR", help="Folder with the training code.")
    ] = None
    python_module: Annotated[
        str, Option("--python-module", metavar="MODULE", help="Module to run, such as trainer.task.")
    ] = ""
    script: Annotated[
        str, Option("--script", metavar="FILE", help="Python or shell script to run instead.")
    ] = ""
    requirements: Annotated[
        str,
        Option(
            "--requirements", metavar="REQ,…", help="Requirements to install beside those of the package."
        ),
    ] = ""
    extra_packages: Annotated[
        str,
        Option(
            "--extra-packages", metavar="FILE,…", help="Package files to install, relative to the folder."
        ),
    ] = ""
    extra_dirs: Annotated[
        str, Option("--extra-dirs", metavar="DIR,…", help="Folders to take along, relative to the package's.")
    ] = ""
    executor_image_uri: Annotated[
        str,
        Option(
            "--executor-image-uri", metavar="IMAGE", help="Image to run in. Local backends may do without."
        ),
    ] = ""
    package_format: Annotated[
        str, Option("--package-format", metavar="FORMAT", help="auto, sdist or image.")
    ] = "auto"
    staging_bucket: Annotated[
        str,
        Option(
            "--staging-bucket", metavar="URI", help="Bucket for packages: gs://NAME, or here file:///folder."
        ),
    ] = ""
    strict: Annotated[
        bool,
        Option(
            "--strict",
            help="Refuse imports that nothing provides, fields not reproduced here, and secrets that "
            "would be sent, instead of warning.",
        ),
    ] = False


class ReplicaFlags(FlagGroup, frozen=True):
    """Whose view."""

    replica: Annotated[
        str, Option("--replica", metavar="REPLICA", help="The replica, such as workerpool1-0.")
    ] = "workerpool0-0"
    trial: Annotated[
        str, Option("--trial", metavar="N", help="As the job of this trial of a tuning job sees it.")
    ] = ""


class DryRunFlag(FlagGroup, frozen=True):
    """How far the command goes."""

    dry_run: Annotated[
        bool, Option("--dry-run", help="Show what would be sent or started, and touch nothing.")
    ] = False


class KeyFlag(FlagGroup, frozen=True):
    """What makes a `create` safe to run again."""

    idempotency_key: Annotated[
        str | None,
        Option(
            "--idempotency-key",
            metavar="KEY",
            help="Create one job for this key: where there is one that has not failed, it is returned.",
        ),
    ] = None
    reuse_failed: Annotated[
        bool,
        Option(
            "--reuse-failed",
            help="With --idempotency-key, return a job that failed or was cancelled as well.",
        ),
    ] = False


class PlaintextFlag(FlagGroup, frozen=True):
    """What a job that leaves this machine may carry."""

    allow_plaintext_secrets: Annotated[
        bool,
        Option(
            "--allow-plaintext-secrets",
            help="Send variables that look like keys, tokens or passwords without a warning.",
        ),
    ] = False


class InterruptFlag(FlagGroup, frozen=True):
    """What a signal does."""

    on_interrupt: Annotated[
        str, Option("--on-interrupt", metavar="ACTION", help="What Ctrl-C does to the job: detach or cancel.")
    ] = ""


class WaitFlags(FlagGroup, frozen=True):
    """Whether and how long to wait."""

    stream_logs: Annotated[
        bool, Option("--stream-logs", help="Stay until the job ends, with its log on stderr.")
    ] = False
    wait: Annotated[bool, Option("--wait", help="Stay until the job ends.")] = False
    wait_timeout: WaitTimeout = ""


class TimeoutFlag(FlagGroup, frozen=True):
    """How long to wait."""

    wait_timeout: WaitTimeout = ""


class ListFlags(FlagGroup, frozen=True):
    """Which jobs, in which order."""

    filter: Annotated[
        str, Option("--filter", metavar="EXPRESSION", help="Such as state=JOB_STATE_FAILED.")
    ] = ""
    sort_by: Annotated[
        str, Option("--sort-by", metavar="KEY,…", help="Keys to sort by; ~KEY for descending.")
    ] = ""
    limit: Annotated[str, Option("--limit", metavar="N", help="At most this many, or unlimited.")] = (
        "unlimited"
    )
    page_size: Annotated[
        str, Option("--page-size", metavar="N", help="Rows under one heading of a table, or unlimited.")
    ] = "unlimited"
    uri: Annotated[bool, Option("--uri/--no-uri", help="Print the URIs of the resources only.")] = False


class StreamFlags(FlagGroup, frozen=True):
    """Which lines, and how."""

    task_name: Annotated[
        str,
        Option("--task-name", metavar="REPLICA", help="Only this replica's lines, such as workerpool0-0."),
    ] = ""
    polling_interval: Annotated[
        str, Option("--polling-interval", metavar="SECONDS", help="Longest pause between two looks.")
    ] = ""
    allow_multiline_logs: Annotated[
        bool,
        Option(
            "--allow-multiline-logs/--no-allow-multiline-logs", help="Leave newlines inside a message alone."
        ),
    ] = False


class OutputDirFlag(FlagGroup, frozen=True):
    """Where a package goes."""

    output_dir: Annotated[
        str, Option("--output-dir", metavar="DIR", help="Folder, file:///folder or gs://bucket/folder.")
    ] = "dist"


class ImageFlags(FlagGroup, frozen=True):
    """An image to build, and what becomes of it."""

    output_image_uri: Annotated[
        str, Option("--output-image-uri", metavar="IMAGE", help="Name to give the image, NAME[:TAG].")
    ] = ""
    dockerfile: Annotated[
        str,
        Option("--dockerfile", metavar="FILE", help="Your own Dockerfile, with the folder as its context."),
    ] = ""
    platform: Annotated[
        str | None,
        Option(
            "--platform",
            metavar="OS/ARCH",
            help="Platform of the image; by default the engine's own, and linux/amd64 with --push.",
        ),
    ] = None
    pull: Annotated[
        str,
        Option("--pull", metavar="WHEN", help="When to pull the base image: missing, always or never."),
    ] = "missing"
    push: Annotated[bool, Option("--push", help="Push the image to the registry in --output-image-uri.")] = (
        False
    )
    print_dockerfile: Annotated[
        bool, Option("--print-dockerfile", help="Print the Dockerfile, and build nothing.")
    ] = False


class ContainerFlags(FlagGroup, frozen=True):
    """How containers are run (the docker backend)."""

    pull: Annotated[
        str | None, Option("--pull", metavar="WHEN", help="When to pull images: missing, always or never.")
    ] = None
    platform: Annotated[
        str | None,
        Option("--platform", metavar="OS/ARCH", help="Platform of the images; by default the engine's."),
    ] = None
    bake: Annotated[
        bool, Option("--bake", help="Run the image that `package image` makes: --package-format=image.")
    ] = False
    memory: Annotated[
        str | None, Option("--memory", metavar="SIZE", help="Memory of a replica, over its machine type's.")
    ] = None
    cpus: Annotated[
        str | None, Option("--cpus", metavar="N", help="Processors of a container, over its machine type's.")
    ] = None
    shm_size: Annotated[
        str | None, Option("--shm-size", metavar="SIZE", help="Size of /dev/shm; by default half the memory.")
    ] = None
    mount: Annotated[
        list[str],
        Option(
            "--mount", metavar="KEY=VALUE,…", help="type=bind,source=DIR,target=/DIR[,readonly]; repeatable."
        ),
    ] = []
    user: Annotated[
        str | None, Option("--user", metavar="UID[:GID]", help="User in the container, over the image's own.")
    ] = None
    add_host: Annotated[
        list[str], Option("--add-host", metavar="NAME:ADDRESS", help="An entry of /etc/hosts; repeatable.")
    ] = []
    cap_add: Annotated[
        list[str], Option("--cap-add", metavar="CAPABILITY", help="A Linux capability; repeatable.")
    ] = []
    ulimit: Annotated[
        list[str], Option("--ulimit", metavar="NAME=SOFT[:HARD]", help="A resource limit; repeatable.")
    ] = []
    require_accelerators: Annotated[
        bool, Option("--require-accelerators", help="Refuse to run on the CPU where a pool asks for GPUs.")
    ] = False
    credentials: Annotated[
        str | None,
        Option(
            "--credentials",
            metavar="none|adc|FILE",
            help="Credentials of a job on this machine: none (the default), your Application Default "
            "Credentials, or a file.",
        ),
    ] = None


class EmulatorFlags(FlagGroup, frozen=True):
    """Where a service listens."""

    host: Annotated[
        str, Option("--host", metavar="ADDRESS", help="Address to listen on. See --require-token.")
    ] = "127.0.0.1"
    port: Annotated[str, Option("--port", metavar="N", help="Port to listen on; 0 takes a free one.")] = "0"
    allowed_host: Annotated[
        list[str],
        Option(
            "--allowed-host",
            metavar="NAME",
            help="A name by which clients reach this machine, beside localhost; repeatable.",
        ),
    ] = []
    require_token: Annotated[
        bool,
        Option(
            "--require-token",
            help="Make a token for this start, print it in the address, and answer nobody without it.",
        ),
    ] = False


class PruneFlags(FlagGroup, frozen=True):
    """What to remove."""

    older_than: Annotated[
        str | None,
        Option(
            "--older-than",
            metavar="DURATION",
            help="Remove what ended, or was used last, before that time: 12h, 7d; 30d by default.",
        ),
    ] = None
    images: Annotated[
        bool,
        Option(
            "--images",
            help="Only what is on the Docker engine: images that vtrain built, of any age unless "
            "--older-than is given, and what ended jobs left there.",
        ),
    ] = False
    all_homes: Annotated[
        bool,
        Option(
            "--all-homes",
            help="Images that another vtrain home made, too; by default only those of this home.",
        ),
    ] = False


class GpuFlags(FlagGroup, frozen=True):
    """Flags of gcloud's local-run that concern containers."""

    gpu: Annotated[
        bool, Option("--gpu/--no-gpu", help="Give the container the machine's GPUs (docker backend).")
    ] = False
    service_account_key_file: Annotated[
        str | None,
        Option("--service-account-key-file", metavar="FILE", help="Key for GOOGLE_APPLICATION_CREDENTIALS."),
    ] = None
    output_image_uri: Annotated[
        str | None, Option("--output-image-uri", metavar="IMAGE", help="Name of the image (docker backend).")
    ] = None
    docker_run_options: Annotated[
        str, Option("--docker-run-options", metavar="OPTION,…", hidden=True, help="Accepted, and ignored.")
    ] = ""
