"""Lay flags over the file of a hyperparameter tuning job.

In order: the project's job, where nothing else names what a trial runs; the file; single flags in place of
their field, those of the trials in `trialJobSpec`; labels in place of the file's; the trainer, its arguments
and its variables in every pool; `--set` last. Source of gcloud's rules: `gcloud ai hp-tuning-jobs create
--help`.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from vtrain.errors import ConfigError, FieldError, UsageError
from vtrain.flags.compose import Draft, JobRequest, check_place, compose, lay_over_pools
from vtrain.flags.grammar import whole_number
from vtrain.flags.input_files import ConfigFile, check_not_legacy, read_config
from vtrain.flags.resource_fields import check_account, shared_fields
from vtrain.flags.tuning_options import TuningFlags
from vtrain.messages.codec import fields, read_message, to_document, with_json_names
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, StudySpec
from vtrain.messages.paths import PathRoot, assign
from vtrain.messages.rules import check_enum_names
from vtrain.messages.service_documents import ApiHas, accepted_fields, api_has_no_more
from vtrain.packaging.source import TrainerSource

Document = dict[str, Any]

TRIAL = "trialJobSpec"
_PATHS = PathRoot(
    job=HyperparameterTuningJob,
    spec=TRIAL,
    output_fields=HyperparameterTuningJob.output_fields,
)
_COUNTS = {
    "maxTrialCount": ("max_trial_count", "--max-trial-count"),
    "parallelTrialCount": ("parallel_trial_count", "--parallel-trial-count"),
    "maxFailedTrialCount": ("max_failed_trial_count", "--max-failed-trial-count"),
}
"""Fields of the job that count trials, with their flags."""


def check_given(flags: TuningFlags) -> None:
    """Raise UsageError where the name or the file is not given, and for a flag that does not parse."""
    if flags.display_name is None or flags.config is None:
        raise UsageError("Both --display-name=NAME and --config=FILE must be given.")
    _counts(flags)
    _algorithm(flags.algorithm)


def read_tuning_file(flags: TuningFlags) -> ConfigFile:
    """The file of `--config`. Raises ConfigError for one that cannot be read."""
    if flags.config == "-":  # as gcloud, although its other commands read it
        raise ConfigError("--config: expected a file, found '-'.", hint="Standard input is /dev/stdin.")
    return read_config(flags.config or "", "the fields of a HyperparameterTuningJob")


def names_task(file: ConfigFile) -> bool:
    """Whether the file says itself what its trials run; what is wrong with it is told later."""
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
    job_fields, trial_fields = _job_fields(flags, project), _trial_fields(flags)
    algorithm = _algorithm(flags.algorithm)
    document, unknown = _described(file, api_has)
    file_document = deepcopy(document)
    # a name to fall back on comes with the project's job: the trials run that, and it is drafted as a job
    base = compose(trial, executor_required=False, api_has=api_has) if trial.fallback_name else None
    source = _lay_over_spec(document, base, trial)
    document |= job_fields
    for name in ("maxTrialCount", "parallelTrialCount"):
        document.setdefault(name, 1)
    if algorithm and "studySpec" in document:
        document["studySpec"]["algorithm"] = algorithm
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


def _job_fields(flags: TuningFlags, project: str) -> Document:
    """Fields of the job that a flag sets; a name that is empty and a count of 0 leave it to the file."""
    values = {"displayName": flags.display_name or None, **_counts(flags), **shared_fields(flags, project)}
    return {name: value for name, value in values.items() if value is not None}


def _counts(flags: TuningFlags) -> dict[str, int | None]:
    given = {name: (getattr(flags, field), flag) for name, (field, flag) in _COUNTS.items()}
    return {
        name: (whole_number(text, flag) if text is not None else 0) or None
        for name, (text, flag) in given.items()
    }


def _trial_fields(flags: TuningFlags) -> Document:
    """Fields of each trial's CustomJobSpec that a flag sets."""
    check_account(flags.service_account)
    values = {
        "network": flags.network or None,
        "serviceAccount": flags.service_account,
        "persistentResourceId": flags.persistent_resource_id or None,
        "enableWebAccess": flags.enable_web_access,
        "enableDashboardAccess": flags.enable_dashboard_access,
        "baseOutputDirectory": {"outputUriPrefix": flags.base_output_dir} if flags.base_output_dir else None,
    }
    return {name: value for name, value in values.items() if value is not None}


def _lay_over_trials(document: Document, trial_fields: Document) -> None:
    if TRIAL in document:
        document[TRIAL] |= trial_fields
    elif any(trial_fields.values()):
        raise ConfigError(
            f"--config: the file has no trialJobSpec, which is where {', '.join(trial_fields)} belongs.",
            hint="Describe the job of a trial under trialJobSpec.",
        )


def _algorithm(text: str | None) -> str:
    """The API's name of an algorithm, in whatever spelling: `grid-search`, `GRID_SEARCH`."""
    if text is None:
        return ""
    names = fields(StudySpec)["algorithm"].names
    name = text.upper().replace("-", "_")
    if name not in names:
        choices = sorted(name.lower().replace("_", "-") for name in names)
        raise UsageError(f"--algorithm: there is no {text!r}.", hint=f"Take {', '.join(choices)}.")
    return name
