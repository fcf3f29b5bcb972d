"""The options of AI Platform's command lines, under gcloud's own names.

Typer evaluates the annotations when it builds a command, so this module does not import `annotations`.
Source: `gcloud ai-platform jobs submit training --help` and `gcloud ai-platform local train --help`.
"""

from typing import Annotated, ClassVar

from typer import Argument, Option

from vtrain.flags.completion import files, one_of
from vtrain.flags.options import GOOGLE_CLOUD, JOB, OUTPUT, TRAINER, FlagGroup, NameFlag, ResourceFlags

MACHINES = "Machines"


class LegacyJobFlag(NameFlag, frozen=True):
    """The name of a job of AI Platform."""

    job: Annotated[str, Argument(metavar="JOB", help="Name of the job.")]


class PackageFlags(FlagGroup, frozen=True):
    """The trainer, as both commands that train take it."""

    heading: ClassVar[str] = TRAINER

    module_name: Annotated[
        str, Option("--module-name", metavar="MODULE", help="Module to run, such as trainer.task.")
    ] = ""
    package_path: Annotated[
        str | None,
        Option(
            "--package-path",
            metavar="DIR",
            help="Package to run: a folder with __init__.py.",
            autocompletion=files,
        ),
    ] = None
    job_dir: Annotated[
        str,
        Option("--job-dir", metavar="URI", help="Folder for output; the trainer gets it as --job-dir."),
    ] = ""


class SubmitFlags(ResourceFlags, frozen=True):
    """Flags of `jobs submit training`, laid over the config file."""

    heading: ClassVar[str] = JOB

    config: Annotated[
        str | None,
        Option(
            "--config", metavar="FILE", help="Read the job from a YAML or JSON file.", autocompletion=files
        ),
    ] = None
    packages: Annotated[
        str,
        Option(
            "--packages",
            metavar="FILE,…",
            help="Packages that are built already: files, or gs://….",
            rich_help_panel=TRAINER,
        ),
    ] = ""
    staging_bucket: Annotated[
        str,
        Option(
            "--staging-bucket",
            metavar="BUCKET",
            help="Bucket for packages: gs://NAME.",
            rich_help_panel=TRAINER,
        ),
    ] = ""
    runtime_version: Annotated[
        str,
        Option(
            "--runtime-version",
            metavar="VERSION",
            help="Runtime version, such as 2.11.",
            rich_help_panel=TRAINER,
        ),
    ] = ""
    python_version: Annotated[
        str,
        Option("--python-version", metavar="VERSION", help="Python version.", rich_help_panel=TRAINER),
    ] = ""
    scale_tier: Annotated[
        str,
        Option(
            "--scale-tier",
            metavar="TIER",
            help="basic, basic-gpu, basic-tpu, standard-1, premium-1 or custom.",
            rich_help_panel=MACHINES,
            autocompletion=one_of("basic", "basic-gpu", "basic-tpu", "standard-1", "premium-1", "custom"),
        ),
    ] = ""
    master_machine_type: Annotated[
        str,
        Option("--master-machine-type", metavar="TYPE", help="Master machine.", rich_help_panel=MACHINES),
    ] = ""
    master_accelerator: Annotated[
        str,
        Option(
            "--master-accelerator",
            metavar="type=TYPE,count=N",
            help="GPUs of the master.",
            rich_help_panel=MACHINES,
        ),
    ] = ""
    master_image_uri: Annotated[
        str,
        Option("--master-image-uri", metavar="IMAGE", help="Image of the master.", rich_help_panel=MACHINES),
    ] = ""
    worker_machine_type: Annotated[
        str,
        Option("--worker-machine-type", metavar="TYPE", help="Worker machines.", rich_help_panel=MACHINES),
    ] = ""
    worker_count: Annotated[
        str, Option("--worker-count", metavar="N", help="Number of workers.", rich_help_panel=MACHINES)
    ] = ""
    worker_accelerator: Annotated[
        str,
        Option(
            "--worker-accelerator",
            metavar="type=TYPE,count=N",
            help="GPUs of each worker.",
            rich_help_panel=MACHINES,
        ),
    ] = ""
    worker_image_uri: Annotated[
        str,
        Option("--worker-image-uri", metavar="IMAGE", help="Image of the workers.", rich_help_panel=MACHINES),
    ] = ""
    parameter_server_machine_type: Annotated[
        str,
        Option(
            "--parameter-server-machine-type",
            metavar="TYPE",
            help="Parameter server machines.",
            rich_help_panel=MACHINES,
        ),
    ] = ""
    parameter_server_count: Annotated[
        str,
        Option(
            "--parameter-server-count",
            metavar="N",
            help="Number of parameter servers.",
            rich_help_panel=MACHINES,
        ),
    ] = ""
    parameter_server_accelerator: Annotated[
        str,
        Option(
            "--parameter-server-accelerator",
            metavar="type=TYPE,count=N",
            help="GPUs of each parameter server.",
            rich_help_panel=MACHINES,
        ),
    ] = ""
    parameter_server_image_uri: Annotated[
        str,
        Option(
            "--parameter-server-image-uri",
            metavar="IMAGE",
            help="Image of the parameter servers.",
            rich_help_panel=MACHINES,
        ),
    ] = ""
    tpu_tf_version: Annotated[
        str,
        Option(
            "--tpu-tf-version",
            metavar="VERSION",
            help="TensorFlow of the TPU workers; no effect.",
            rich_help_panel=MACHINES,
        ),
    ] = ""
    use_chief_in_tf_config: Annotated[
        str,
        Option(
            "--use-chief-in-tf-config",
            metavar="BOOL",
            help="Call the master chief in TF_CONFIG.",
            rich_help_panel=MACHINES,
            autocompletion=one_of("true", "false"),
        ),
    ] = ""
    service_account: Annotated[
        str | None,
        Option(
            "--service-account",
            metavar="ACCOUNT",
            help="Service account that the job runs as.",
            rich_help_panel=GOOGLE_CLOUD,
        ),
    ] = None
    enable_web_access: Annotated[
        bool,
        Option(
            "--enable-web-access/--no-enable-web-access",
            help="Allow an interactive shell in the job's containers.",
            rich_help_panel=GOOGLE_CLOUD,
        ),
    ] = False
    asynchronous: Annotated[
        bool, Option("--async", help="Return at once; the default.", rich_help_panel=OUTPUT)
    ] = False
    explain: Annotated[
        bool,
        Option(
            "--explain",
            help="Print the vtrain command and the file that say the same, and do nothing else.",
            rich_help_panel=OUTPUT,
        ),
    ] = False


class ClusterFlags(FlagGroup, frozen=True):
    """The processes of `local train`."""

    heading: ClassVar[str] = MACHINES

    distributed: Annotated[
        bool, Option("--distributed", help="Run a chief, workers and parameter servers.")
    ] = False
    worker_count: Annotated[
        str, Option("--worker-count", metavar="N", help="Number of workers. Default: 2.")
    ] = ""
    parameter_server_count: Annotated[
        str, Option("--parameter-server-count", metavar="N", help="Number of parameter servers. Default: 2.")
    ] = ""
    evaluator_count: Annotated[
        str, Option("--evaluator-count", metavar="N", help="Number of evaluators. Default: 0.")
    ] = ""
    start_port: Annotated[
        str, Option("--start-port", metavar="PORT", help="No effect: free ports are taken.")
    ] = ""
