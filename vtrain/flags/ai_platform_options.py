"""The options of AI Platform's command lines, under gcloud's own names.

Source: `gcloud ai-platform jobs submit training --help` and `gcloud ai-platform local train --help`.
"""

from typing import ClassVar

from vtrain.flags.completion import files, one_of
from vtrain.flags.options import GOOGLE_CLOUD, JOB, OUTPUT, TRAINER, NameFlag, ResourceFlags
from vtrain.flags.row import FlagGroup, argument, flag, switch, text

MACHINES = "Machines"


class LegacyJobFlag(NameFlag, frozen=True):
    """The name of a job of AI Platform."""

    job: str = argument("JOB", "Name of the job.")


class PackageFlags(FlagGroup, frozen=True):
    """The trainer, as both commands that train take it."""

    heading: ClassVar[str] = TRAINER

    module_name: str = text("MODULE", "Module to run, such as trainer.task.")
    package_path: str | None = flag("DIR", "Package to run: a folder with __init__.py.", offer=files)
    job_dir: str = text("URI", "Folder for output; the trainer gets it as --job-dir.")


class SubmitFlags(ResourceFlags, frozen=True):
    """Flags of `jobs submit training`, laid over the config file."""

    heading: ClassVar[str] = JOB

    config: str | None = flag("FILE", "Read the job from a YAML or JSON file.", offer=files)
    packages: str = text("FILE,…", "Packages that are built already: files, or gs://….", panel=TRAINER)
    staging_bucket: str = text("BUCKET", "Bucket for packages: gs://NAME.", panel=TRAINER)
    runtime_version: str = text("VERSION", "Runtime version, such as 2.11.", panel=TRAINER)
    python_version: str = text("VERSION", "Python version.", panel=TRAINER)
    scale_tier: str = text(
        "TIER",
        "basic, basic-gpu, basic-tpu, standard-1, premium-1 or custom.",
        panel=MACHINES,
        offer=one_of("basic", "basic-gpu", "basic-tpu", "standard-1", "premium-1", "custom"),
    )
    master_machine_type: str = text("TYPE", "Master machine.", panel=MACHINES)
    master_accelerator: str = text("type=TYPE,count=N", "GPUs of the master.", panel=MACHINES)
    master_image_uri: str = text("IMAGE", "Image of the master.", panel=MACHINES)
    worker_machine_type: str = text("TYPE", "Worker machines.", panel=MACHINES)
    worker_count: str = text("N", "Number of workers.", panel=MACHINES)
    worker_accelerator: str = text("type=TYPE,count=N", "GPUs of each worker.", panel=MACHINES)
    worker_image_uri: str = text("IMAGE", "Image of the workers.", panel=MACHINES)
    parameter_server_machine_type: str = text("TYPE", "Parameter server machines.", panel=MACHINES)
    parameter_server_count: str = text("N", "Number of parameter servers.", panel=MACHINES)
    parameter_server_accelerator: str = text(
        "type=TYPE,count=N", "GPUs of each parameter server.", panel=MACHINES
    )
    parameter_server_image_uri: str = text("IMAGE", "Image of the parameter servers.", panel=MACHINES)
    tpu_tf_version: str = text("VERSION", "TensorFlow of the TPU workers; no effect.", panel=MACHINES)
    use_chief_in_tf_config: str = text(
        "BOOL",
        "Call the master chief in TF_CONFIG.",
        panel=MACHINES,
        offer=one_of("true", "false"),
    )
    service_account: str | None = flag("ACCOUNT", "Service account that the job runs as.", panel=GOOGLE_CLOUD)
    enable_web_access: bool = switch(
        "Allow an interactive shell in the job's containers.", has_opposite=True, panel=GOOGLE_CLOUD
    )
    asynchronous: bool = switch("Return at once; the default.", name="async", panel=OUTPUT)
    explain: bool = switch(
        "Print the vtrain command and the file that say the same, and do nothing else.", panel=OUTPUT
    )


class ClusterFlags(FlagGroup, frozen=True):
    """The processes of `local train`."""

    heading: ClassVar[str] = MACHINES

    distributed: bool = switch("Run a chief, workers and parameter servers.")
    worker_count: str = text("N", "Number of workers. Default: 2.")
    parameter_server_count: str = text("N", "Number of parameter servers. Default: 2.")
    evaluator_count: str = text("N", "Number of evaluators. Default: 0.")
    start_port: str = text("PORT", "No effect: free ports are taken.")
