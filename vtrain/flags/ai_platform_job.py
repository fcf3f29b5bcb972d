"""Lay flags over the file of a job of AI Platform, and check what gcloud checks.

Source of the rules: `gcloud ai-platform jobs submit training`, as it was recorded.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from vtrain.ai_platform.tables import CUSTOM
from vtrain.ai_platform.training_input import LegacyJob, TrainingInput
from vtrain.ai_platform.translation import translate
from vtrain.core.config_file import ConfigFile, read_config
from vtrain.core.job_layers import Document, Fold, Layer, nobody
from vtrain.errors import ConfigError, UsageError
from vtrain.flags.ai_platform_options import PackageFlags, SubmitFlags
from vtrain.flags.grammar import split_list
from vtrain.flags.request import kms_key_name
from vtrain.flags.row import fields_of
from vtrain.messages.codec import read_message, to_document, with_json_names
from vtrain.messages.service_documents import split_unknown
from vtrain.packaging.source import TrainerSource
from vtrain.settings import user_path

Remainder = tuple[str, ...] | None
_JOB_ID = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")


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
    labels = fields.pop("labels", None)
    if not _JOB_ID.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not the name of a job.",
            hint="It has letters, digits and '_', begins with a letter, and has 128 characters at most.",
        )
    file = read_config(flags.config, "the fields of a Job") if flags.config is not None else None
    document = _described(file) if file is not None else {}
    given = document.get("trainingInput", {})
    uris, files = _packages(flags.packages)
    fold = Fold([Layer(nobody, given), Layer(nobody, fields | {"packageUris": list(uris)})])
    job = LegacyJob(
        job_id=name,
        training_input=read_message(TrainingInput, fold.document),
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
    """The fields of TrainingInput that the line sets, and the job's labels.

    Raises UsageError for a type of machine without a count, or a count without a type.
    """
    if flags.staging_bucket and not re.fullmatch(r"gs://[^/]+/?", flags.staging_bucket):
        raise UsageError(f"--staging-bucket: {flags.staging_bucket!r} is not of the form gs://BUCKET.")
    for role in ("worker", "parameter-server"):
        field = role.replace("-", "_")
        machine, count = getattr(flags, f"{field}_machine_type"), getattr(flags, f"{field}_count")
        if bool(machine) != bool(count):
            missing = f"--{role}-machine-type" if count else f"--{role}-count"
            raise UsageError(f"{missing} must be given.", hint="A type of machine and a count go together.")
    key = kms_key_name(flags, project)
    fields = fields_of(package) | fields_of(flags) | {"enableWebAccess": flags.enable_web_access}
    fields.pop("displayName", None)  # which a job of AI Platform does not have
    if region:
        fields["region"] = region
    if key:
        fields["encryptionConfig"] = {"kmsKeyName": key}
    if remainder is not None:
        fields["args"] = list(remainder)
    return fields


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
