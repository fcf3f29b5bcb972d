"""Lay flags over the file of a hyperparameter tuning job.

In order: the file; single flags in place of their field, those of the trials in `trialJobSpec`; labels in
place of the file's; `--set` last. Source of the rules: `gcloud ai hp-tuning-jobs create --help`.
"""

from __future__ import annotations

from typing import Any

from vtrain.errors import ConfigError, UsageError
from vtrain.flags.grammar import whole_number
from vtrain.flags.input_files import check_not_legacy, read_config
from vtrain.flags.job_options import TuningFlags
from vtrain.flags.resource_fields import check_account, shared_fields
from vtrain.messages.codec import fields, read_message, to_document, with_json_names
from vtrain.messages.custom_job import CustomJobSpec
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, StudySpec
from vtrain.messages.paths import PathRoot, assign
from vtrain.messages.rules import check_enum_names
from vtrain.messages.service_documents import ApiHas, accepted_fields, api_has_no_more

Document = dict[str, Any]

_PATHS = PathRoot(
    job=HyperparameterTuningJob,
    spec="trialJobSpec",
    output_fields=HyperparameterTuningJob.output_fields,
)


def check_given(flags: TuningFlags) -> None:
    """Raise UsageError where the name or the file is not given."""
    if flags.display_name is None or flags.config is None:
        raise UsageError("Both --display-name=NAME and --config=FILE must be given.")


def compose_tuning(
    flags: TuningFlags, project: str, api_has: ApiHas = api_has_no_more
) -> tuple[HyperparameterTuningJob, Document]:
    """The job of a command line, and a document of the fields that only the API knows.

    `project` owns the encryption key where nothing else is said.

    Raises UsageError where a flag does not parse, ConfigError where the file or a value is wrong.
    """
    job_fields, trial_fields = _job_fields(flags, project), _trial_fields(flags)
    algorithm = _algorithm(flags.algorithm)
    document, unknown = _read_file(flags, api_has)
    document |= job_fields
    for name in ("maxTrialCount", "parallelTrialCount"):
        document.setdefault(name, 1)
    if algorithm and "studySpec" in document:
        document["studySpec"]["algorithm"] = algorithm
    _lay_over_trials(document, trial_fields)
    for assignment in flags.assignments:
        assign(document, assignment, _PATHS)
    return read_message(HyperparameterTuningJob, document), unknown


def _read_file(flags: TuningFlags, api_has: ApiHas) -> tuple[Document, Document]:
    if not flags.config:
        raise ConfigError("--config: the name of the file is empty.", hint="Give --config=FILE.")
    if flags.config == "-":
        raise ConfigError("--config: expected a file, found '-'.", hint="Standard input is /dev/stdin.")
    config = read_config(flags.config, "the fields of a HyperparameterTuningJob")
    with config.blamed():
        if not config.content:
            raise ConfigError("the file says nothing.", hint="Describe studySpec and trialJobSpec.")
        check_not_legacy(config.content)
        content = with_json_names(HyperparameterTuningJob, config.content)
        _check_place(content)
        known, unknown = accepted_fields(HyperparameterTuningJob, content, allowed=False, api_has=api_has)
        job = read_message(HyperparameterTuningJob, known)
        if job.trial_job_spec is not None:
            check_enum_names(job.trial_job_spec, "trialJobSpec")
        return to_document(job), unknown


def _check_place(content: Document) -> None:
    """Raise ConfigError for fields of a custom job, which describe a trial here."""
    if "jobSpec" in content:
        raise ConfigError("jobSpec: the job of each trial is called trialJobSpec.", hint="Rename the field.")
    elsewhere = fields(CustomJobSpec).keys() - fields(HyperparameterTuningJob).keys()
    misplaced = [name for name in content if name in elsewhere]
    if misplaced:
        raise ConfigError(
            f"{', '.join(misplaced)}: belongs under trialJobSpec, which is the job of each trial.",
            hint="Write trialJobSpec: above it, and indent what belongs to it.",
        )


def _job_fields(flags: TuningFlags, project: str) -> Document:
    """Fields of the job that a flag sets; a name that is empty and a count of 0 leave it to the file."""
    values = {
        "displayName": flags.display_name or None,
        "maxTrialCount": _count(flags.max_trial_count, "--max-trial-count"),
        "parallelTrialCount": _count(flags.parallel_trial_count, "--parallel-trial-count"),
        **shared_fields(flags, project),
    }
    return {name: value for name, value in values.items() if value is not None}


def _count(text: str | None, flag: str) -> int | None:
    return (whole_number(text, flag) if text is not None else 0) or None


def _trial_fields(flags: TuningFlags) -> Document:
    """Fields of each trial's CustomJobSpec that a flag sets."""
    check_account(flags.service_account)
    values = {
        "network": flags.network or None,
        "serviceAccount": flags.service_account,
        "enableWebAccess": flags.enable_web_access,
        "enableDashboardAccess": flags.enable_dashboard_access,
    }
    return {name: value for name, value in values.items() if value is not None}


def _lay_over_trials(document: Document, trial_fields: Document) -> None:
    if "trialJobSpec" in document:
        document["trialJobSpec"] |= trial_fields
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
