"""Lay flags over the file of a hyperparameter tuning job.

In order: the project's job, where nothing else names what a trial runs; the file; single flags in place of
their field, those of the trials in `trialJobSpec`; labels in place of the file's; the trainer, its arguments
and its variables in every pool; `--set` last. Source of gcloud's rules: `gcloud ai hp-tuning-jobs create
--help`.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec

from vtrain.core.compose import Draft, JobRequest, check_place, compose, lay_over_pools
from vtrain.core.config_file import ConfigFile, check_not_legacy, read_config
from vtrain.errors import ConfigError, FieldError, UsageError
from vtrain.flags.request import FIRST_POOL, resource_fields
from vtrain.flags.row import fields_of
from vtrain.flags.tuning_options import TuningFlags
from vtrain.messages.codec import read_message, to_document, with_json_names
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.paths import PathRoot, assign
from vtrain.messages.rules import check_enum_names
from vtrain.messages.service_documents import ApiHas, accepted_fields, api_has_no_more
from vtrain.packaging.source import TrainerSource

Document = dict[str, Any]

TRIAL = "trialJobSpec"
_PATHS = PathRoot(job=HyperparameterTuningJob, spec=TRIAL)


def check_given(flags: TuningFlags) -> None:
    """Raise UsageError where the name or the file is not given, and for a flag that does not parse."""
    if flags.display_name is None or flags.config is None:
        raise UsageError("Both --display-name=NAME and --config=FILE must be given.")
    fields_of(flags)


def read_tuning_file(flags: TuningFlags) -> ConfigFile:
    """The file of `--config`. Raises ConfigError for one that cannot be read."""
    if flags.config == "-":  # as gcloud, although its other commands read it
        raise ConfigError("--config: expected a file, found '-'.", hint="Standard input is /dev/stdin.")
    return read_config(flags.config or "", "the fields of a HyperparameterTuningJob")


def names_task(file: ConfigFile) -> bool:
    """Whether the file says itself what its trials run; what is wrong with it is an error later."""
    spec = _of(file.content, TRIAL, "trial_job_spec")
    pools = _of(spec, "workerPoolSpecs", "worker_pool_specs")
    tasks = ("containerSpec", "container_spec", "pythonPackageSpec", "python_package_spec")
    return any(_of(pool, *tasks) for pool in (pools if isinstance(pools, list) else [pools]))


def _of(content: Any, *names: str) -> Any:
    """The value below one of these names; None where there is none."""
    return (
        next((content[name] for name in names if name in content), None)
        if isinstance(content, dict)
        else None
    )


def compose_tuning(
    flags: TuningFlags,
    file: ConfigFile,
    trial: JobRequest,
    project: str,
    api_has: ApiHas = api_has_no_more,
) -> Draft:
    """The draft of a tuning job, whose trials run what `trial` asks for, unless the file says that.

    `project` owns the encryption key where nothing else is said. Raises UsageError where a flag does not
    parse, ConfigError where the file or a value is wrong.
    """
    given = resource_fields(flags, project)
    trial_fields, study_fields = given.pop("jobSpec", {}), given.pop("studySpec", {})
    if machine := trial_fields.pop(FIRST_POOL, {}):
        trial = msgspec.structs.replace(trial, machine=machine)
    document, unknown = _described(file, api_has)
    file_document = deepcopy(document)
    # a name to fall back on comes with the project's job: the trials run that, and it is drafted as a job
    base = compose(trial, executor_required=False, api_has=api_has) if trial.fallback_name else None
    source = _lay_over_spec(document, base, trial)
    document |= given
    for name in ("maxTrialCount", "parallelTrialCount"):
        document.setdefault(name, 1)
    if "studySpec" in document:
        document["studySpec"] |= study_fields
    _lay_over_trials(document, trial_fields)
    for assignment in flags.assignments:
        assign(document, assignment, _PATHS)
    unknown_below = {TRIAL: base.unknown_fields["jobSpec"]} if base and base.unknown_fields else {}
    return Draft(
        document=document,
        source=source,
        command=trial.command,
        unknown_fields=unknown_below | unknown,
        config=file,
        file_document=file_document,
        paths=_PATHS,
    )


def _described(config: ConfigFile, api_has: ApiHas) -> tuple[Document, Document]:
    """The job in the file, and a document of the fields that only the API knows."""
    with config.blamed():
        if not config.content:
            raise ConfigError("the file says nothing.", hint="Describe studySpec and trialJobSpec.")
        check_not_legacy(config.content)
        content = with_json_names(HyperparameterTuningJob, config.content)
        if "jobSpec" in content:
            hint = "Rename the field."
            raise FieldError("jobSpec", f"the job of each trial is called {TRIAL}.", hint=hint)
        check_place(content, _PATHS)
        known, unknown = accepted_fields(HyperparameterTuningJob, content, allowed=False, api_has=api_has)
        job = read_message(HyperparameterTuningJob, known)
        if job.trial_job_spec is not None:
            check_enum_names(job.trial_job_spec, TRIAL)
        return to_document(job), unknown


def _lay_over_spec(document: Document, base: Draft | None, trial: JobRequest) -> TrainerSource | None:
    """Lay the file over the project's job, and the trainer over both. The trainer to package, if any."""
    spec: Document = document.get(TRIAL, {})
    if base is not None:
        spec = base.document["jobSpec"] | spec
        labels = base.document.get("labels", {}) | document.get("labels", {})
        document |= {"labels": labels} if labels else {}
        document.setdefault("displayName", base.document["displayName"])
    source = lay_over_pools(spec, trial)
    if spec:
        document[TRIAL] = spec
    return source


def _lay_over_trials(document: Document, trial_fields: Document) -> None:
    if TRIAL in document:
        document[TRIAL] |= trial_fields
    elif any(trial_fields.values()):
        raise ConfigError(
            f"--config: the file has no trialJobSpec, which is where {', '.join(trial_fields)} belongs.",
            hint="Describe the job of a trial under trialJobSpec.",
        )
