"""The options of AI Platform's command lines, under gcloud's own names.

Source: `gcloud ai-platform jobs submit training --help` and `gcloud ai-platform local train --help`.
"""

import re
from typing import Any, ClassVar

from vtrain.errors import UsageError
from vtrain.flags.completion import files, one_of
from vtrain.flags.grammar import account, split_dict, whole_number
from vtrain.flags.job_options import CreationFlags
from vtrain.flags.local_options import RuntimeFlags
from vtrain.flags.options import (
    GOOGLE_CLOUD,
    JOB,
    OUTPUT,
    TRAINER,
    CommonFlags,
    NameFlag,
    PlaceFlags,
    ResourceFlags,
)
from vtrain.flags.row import IGNORED, FlagGroup, FlagSet, argument, flag, switch, text

MACHINES = "Machines"
_TIERS = ("BASIC", "BASIC_GPU", "BASIC_TPU", "STANDARD_1", "PREMIUM_1", "CUSTOM")
_ACCELERATOR = re.compile(r"(?:nvidia-tesla-(?:a100|k80|p100|p4|t4|v100)|tpu-(?:v[23](?:-pod)?|v4-pod))")
_OBJECT = re.compile(r"gs://[^/]+/.+|gs://[^/]{3,}/?")
_BOOLS = {"true": True, "yes": True, "false": False, "no": False}


def _job_dir(text: str, flag: str) -> str:
    if not _OBJECT.fullmatch(text):
        raise UsageError(f"{flag}: {text!r} is not of the form gs://BUCKET/OBJECT.")
    return text


def _tier(text: str, flag: str) -> str:
    name = text.upper().replace("-", "_")
    if name not in _TIERS:
        known = ", ".join(tier.lower().replace("_", "-") for tier in _TIERS)
        raise UsageError(f"{flag}: there is no {text!r}.", hint=f"There are {known}.")
    return name


def _accelerator(text: str, flag: str) -> dict[str, Any]:
    values = split_dict(text, flag, ("type", "count"))
    missing = next((key for key in ("count", "type") if key not in values), "")
    if missing:
        raise UsageError(f"{flag}: it needs {missing}.", hint="Write type=nvidia-tesla-t4,count=1.")
    count = whole_number(values["count"], flag)
    if count < 1:
        raise UsageError(f"{flag}: the count must be greater than 0.")
    kind = values["type"].lower().replace("_", "-")
    if not _ACCELERATOR.fullmatch(kind):
        raise UsageError(f"{flag}: {values['type']!r} is not an accelerator of AI Platform.")
    return {"type": kind.upper().replace("-", "_"), "count": count}


def _boolean(text: str, flag: str) -> bool:
    if text.lower() not in _BOOLS:
        raise UsageError(f"{flag}: expected true or false, found {text!r}.")
    return _BOOLS[text.lower()]


class LegacyJobFlag(NameFlag, frozen=True):
    """The name of a job of AI Platform."""

    job: str = argument("JOB", "Name of the job.")


class PackageFlags(FlagGroup, frozen=True):
    """The trainer, as both commands that train take it."""

    heading: ClassVar[str] = TRAINER

    module_name: str = text("MODULE", "Module to run, such as trainer.task.", to="pythonModule")
    package_path: str | None = flag("DIR", "Package to run: a folder with __init__.py.", offer=files)
    job_dir: str = text(
        "URI", "Folder for output; the trainer gets it as --job-dir.", to="jobDir", read=_job_dir
    )


def _machine(metavar: str, words: str, **more: Any) -> Any:
    return text(metavar, words, panel=MACHINES, **more)


class SubmitFlags(ResourceFlags, frozen=True):
    """Flags of `jobs submit training`, laid over the config file."""

    heading: ClassVar[str] = JOB

    network: str | None = flag(
        "NETWORK", "VPC network to peer with.", panel=GOOGLE_CLOUD, to="network", empty=IGNORED
    )
    config: str | None = flag("FILE", "Read the job from a YAML or JSON file.", offer=files)
    packages: str = text("FILE,…", "Packages that are built already: files, or gs://….", panel=TRAINER)
    staging_bucket: str = text("BUCKET", "Bucket for packages: gs://NAME.", panel=TRAINER)
    runtime_version: str = text(
        "VERSION", "Runtime version, such as 2.11.", panel=TRAINER, to="runtimeVersion"
    )
    python_version: str = text("VERSION", "Python version.", panel=TRAINER, to="pythonVersion")
    scale_tier: str = _machine(
        "TIER",
        "basic, basic-gpu, basic-tpu, standard-1, premium-1 or custom.",
        offer=one_of("basic", "basic-gpu", "basic-tpu", "standard-1", "premium-1", "custom"),
        to="scaleTier",
        read=_tier,
    )
    master_machine_type: str = _machine("TYPE", "Master machine.", to="masterType")
    master_accelerator: str = _machine(
        "type=TYPE,count=N", "GPUs of the master.", to="masterConfig.acceleratorConfig", read=_accelerator
    )
    master_image_uri: str = _machine("IMAGE", "Image of the master.", to="masterConfig.imageUri")
    worker_machine_type: str = _machine("TYPE", "Worker machines.", to="workerType")
    worker_count: str = _machine("N", "Number of workers.", to="workerCount", read=whole_number)
    worker_accelerator: str = _machine(
        "type=TYPE,count=N", "GPUs of each worker.", to="workerConfig.acceleratorConfig", read=_accelerator
    )
    worker_image_uri: str = _machine("IMAGE", "Image of the workers.", to="workerConfig.imageUri")
    parameter_server_machine_type: str = _machine(
        "TYPE", "Parameter server machines.", to="parameterServerType"
    )
    parameter_server_count: str = _machine(
        "N", "Number of parameter servers.", to="parameterServerCount", read=whole_number
    )
    parameter_server_accelerator: str = _machine(
        "type=TYPE,count=N",
        "GPUs of each parameter server.",
        to="parameterServerConfig.acceleratorConfig",
        read=_accelerator,
    )
    parameter_server_image_uri: str = _machine(
        "IMAGE", "Image of the parameter servers.", to="parameterServerConfig.imageUri"
    )
    tpu_tf_version: str = _machine(
        "VERSION", "TensorFlow of the TPU workers; no effect.", to="workerConfig.tpuTfVersion"
    )
    use_chief_in_tf_config: str = _machine(
        "BOOL",
        "Call the master chief in TF_CONFIG.",
        offer=one_of("true", "false"),
        to="useChiefInTfConfig",
        read=_boolean,
    )
    service_account: str | None = flag(
        "ACCOUNT",
        "Service account that the job runs as.",
        panel=GOOGLE_CLOUD,
        to="serviceAccount",
        read=account,
    )
    enable_web_access: bool = switch(
        "Allow an interactive shell in the job's containers.", has_opposite=True, panel=GOOGLE_CLOUD
    )
    asynchronous: bool = switch("Return at once; the default.", name="async", panel=OUTPUT)
    explain: bool = switch(
        "Print the vtrain command and the file that say the same, and do nothing else.", panel=OUTPUT
    )


class LegacyLine(FlagSet, frozen=True):
    """A command line that submits a training job."""

    job: LegacyJobFlag
    package: PackageFlags
    spec: SubmitFlags
    how: CreationFlags
    local: RuntimeFlags
    place: PlaceFlags
    common: CommonFlags


class ClusterFlags(FlagGroup, frozen=True):
    """The processes of `local train`."""

    heading: ClassVar[str] = MACHINES

    distributed: bool = switch("Run a chief, workers and parameter servers.")
    worker_count: str = text("N", "Number of workers. Default: 2.")
    parameter_server_count: str = text("N", "Number of parameter servers. Default: 2.")
    evaluator_count: str = text("N", "Number of evaluators. Default: 0.")
    start_port: str = text("PORT", "No effect: free ports are taken.")
