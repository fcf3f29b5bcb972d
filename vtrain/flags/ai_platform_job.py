"""Lay flags over the file of a job of AI Platform, and check what gcloud checks.

Source of the rules: `gcloud ai-platform jobs submit training`, as it was recorded.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from vtrain.ai_platform.tables import CUSTOM
from vtrain.ai_platform.training_input import LegacyJob, TrainingInput
from vtrain.ai_platform.translation import translate
from vtrain.errors import ConfigError, UsageError
from vtrain.flags.ai_platform_options import PackageFlags, SubmitFlags
from vtrain.flags.grammar import split_dict, split_list, whole_number
from vtrain.flags.input_files import ConfigFile, read_config
from vtrain.flags.resource_fields import check_account, kms_key_name, read_labels
from vtrain.messages.codec import read_message, to_document, with_json_names
from vtrain.messages.service_documents import split_unknown
from vtrain.packaging.source import TrainerSource
from vtrain.settings import user_path

Document = dict[str, Any]
Remainder = tuple[str, ...] | None
_JOB_ID = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")
_TIERS = ("BASIC", "BASIC_GPU", "BASIC_TPU", "STANDARD_1", "PREMIUM_1", CUSTOM)
_ACCELERATOR = re.compile(r"(?:nvidia-tesla-(?:a100|k80|p100|p4|t4|v100)|tpu-(?:v[23](?:-pod)?|v4-pod))")
_OBJECT = re.compile(r"gs://[^/]+/.+|gs://[^/]{3,}/?")
_ROLES = ("master", "worker", "parameter_server")
_BOOLS = {"true": True, "yes": True, "false": False, "no": False}


class LegacyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The job that a line describes, the trainer to package, and packages that lie on this machine."""

    job: LegacyJob
    source: TrainerSource | None = None
    files: tuple[Path, ...] = ()


def read_request(
    name: str, flags: SubmitFlags, package: PackageFlags, remainder: Remainder, *, region: str, project: str
) -> LegacyRequest:
    """The job of a line. Raises UsageError where a flag does not parse, ConfigError for a wrong one."""
    fields = _fields(flags, package, remainder, region=region, project=project)
    if not _JOB_ID.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not the name of a job.",
            hint="It has letters, digits and '_', begins with a letter, and has 128 characters at most.",
        )
    file = read_config(flags.config, "the fields of a Job") if flags.config is not None else None
    document = _described(file) if file is not None else {}
    given = document.get("trainingInput", {})
    merged = given | fields | {"packageUris": []}
    for role in ("masterConfig", "workerConfig", "parameterServerConfig"):
        if role in fields:
            merged[role] = given.get(role, {}) | fields[role]
    labels = read_labels(flags.labels)
    uris, files = _packages(flags.packages)
    job = LegacyJob(
        job_id=name,
        training_input=read_message(TrainingInput, merged | {"packageUris": list(uris)}),
        labels=labels if labels is not None else document.get("labels", {}),
        prediction_input=document.get("predictionInput"),
    )
    source = package_source(package) if package.package_path is not None else None
    _check(job.training_input, flags, has_package=source is not None or bool(uris or files))
    if file is not None:
        with file.blamed():  # what has no equal on Vertex AI is in the file: no flag says it
            translate(job)
    return LegacyRequest(job=job, source=source, files=files)


def _described(file: ConfigFile) -> Document:
    """The file's job; what vtrain does not know of it is left out, as the service decided on that."""
    with file.blamed():
        content = with_json_names(LegacyJob, file.content)
        known, _ = split_unknown(LegacyJob, content)
        return to_document(read_message(LegacyJob, known))


def _fields(
    flags: SubmitFlags, package: PackageFlags, remainder: Remainder, *, region: str, project: str
) -> Document:
    """The fields of TrainingInput that the line sets."""
    check_account(flags.service_account)
    if package.job_dir and not _OBJECT.fullmatch(package.job_dir):
        raise UsageError(f"--job-dir: {package.job_dir!r} is not of the form gs://BUCKET/OBJECT.")
    if flags.staging_bucket and not re.fullmatch(r"gs://[^/]+/?", flags.staging_bucket):
        raise UsageError(f"--staging-bucket: {flags.staging_bucket!r} is not of the form gs://BUCKET.")
    key = kms_key_name(flags, project)
    values: Document = {
        "scaleTier": _tier(flags.scale_tier),
        "region": region,
        "jobDir": package.job_dir,
        "pythonModule": package.module_name,
        "runtimeVersion": flags.runtime_version,
        "pythonVersion": flags.python_version,
        "network": flags.network,
        "serviceAccount": flags.service_account,
        "encryptionConfig": {"kmsKeyName": key} if key else None,
        "useChiefInTfConfig": _boolean(flags.use_chief_in_tf_config),
    }
    for role in _ROLES:
        values |= _role_fields(flags, role)
    if remainder is not None:
        values["args"] = list(remainder)
    found = {name: value for name, value in values.items() if value is not None and value != ""}
    return found | {"enableWebAccess": flags.enable_web_access}


def _role_fields(flags: SubmitFlags, role: str) -> Document:
    """The machines of a role. Raises UsageError for a type without a count, or a count without a type."""
    words = role.replace("_", "-")
    machine, count = getattr(flags, f"{role}_machine_type"), getattr(flags, f"{role}_count", "")
    if role != "master" and bool(machine) != bool(count):
        missing = f"--{words}-machine-type" if count else f"--{words}-count"
        raise UsageError(f"{missing} must be given.", hint="A type of machine and a count go together.")
    name = re.sub(r"_(.)", lambda match: match[1].upper(), role)
    config: Document = {}
    if text := getattr(flags, f"{role}_accelerator"):
        config["acceleratorConfig"] = _accelerator(text, f"--{words}-accelerator")
    if image := getattr(flags, f"{role}_image_uri"):
        config["imageUri"] = image
    if role == "worker" and flags.tpu_tf_version:
        config["tpuTfVersion"] = flags.tpu_tf_version
    return {
        f"{name}Type": machine,
        f"{name}Count": whole_number(count, f"--{words}-count") if count else None,
        f"{name}Config": config or None,
    }


def _accelerator(text: str, flag: str) -> Document:
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


def _tier(text: str) -> str:
    name = text.upper().replace("-", "_")
    if name and name not in _TIERS:
        known = ", ".join(tier.lower().replace("_", "-") for tier in _TIERS)
        raise UsageError(f"--scale-tier: there is no {text!r}.", hint=f"There are {known}.")
    return name


def _boolean(text: str) -> bool | None:
    if text and text.lower() not in _BOOLS:
        raise UsageError(f"--use-chief-in-tf-config: expected true or false, found {text!r}.")
    return _BOOLS[text.lower()] if text else None


def _packages(text: str) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """The packages of `--packages`: those in buckets, and files of this machine."""
    items = split_list(text, "--packages")
    uris = tuple(item for item in items if item.startswith("gs://"))
    files = tuple(user_path(item).absolute() for item in items if not item.startswith("gs://"))
    names = [file.name for file in files]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ConfigError(f"--packages: {', '.join(doubled)} is given twice; names must differ.")
    for file in files:
        if not file.is_file():
            raise ConfigError(f"--packages: {file} is not a file.")
    return uris, files


def package_source(package: PackageFlags) -> TrainerSource:
    """The package that a line runs: the folder around it, and the module. Raises ConfigError."""
    folder = user_path(package.package_path or ".").absolute()
    if not (folder / "__init__.py").is_file():
        raise ConfigError(
            f"--package-path: {folder} is not a Python package, as it has no __init__.py.",
            hint="Name the folder that has it.",
        )
    return TrainerSource(folder=folder.parent, python_module=package.module_name)


def _check(given: TrainingInput, flags: SubmitFlags, *, has_package: bool) -> None:
    """Raise ConfigError where gcloud would refuse the job."""
    has_image = bool(given.master_config and given.master_config.image_uri)
    if flags.scale_tier and given.scale_tier == CUSTOM and not flags.master_machine_type:
        raise ConfigError("--master-machine-type is required with --scale-tier=custom.")
    if has_image and given.runtime_version:
        raise ConfigError("Only one of --master-image-uri and --runtime-version can be given.")
    if not has_package and not has_image:
        raise ConfigError(
            "A job without an image of its own needs packages.",
            hint="Give --package-path=DIR, --packages=FILE or --master-image-uri=IMAGE.",
        )
