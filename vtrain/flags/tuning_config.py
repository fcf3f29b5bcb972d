"""Lay flags over the file of a hyperparameter tuning job.

In order: the project's job, where nothing else names what a trial runs; the file; `--worker-pool-spec` in
place of its pools; single flags in place of their field, those of the trials in `trialJobSpec`; labels in
place of the file's; the trainer, its arguments and its variables in every pool; `--set` last. Source of
gcloud's rules: `gcloud ai hp-tuning-jobs create --help`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from vtrain.core.compose import Draft, JobRequest, check_place, compose
from vtrain.core.config_file import ConfigFile, check_not_legacy, read_config
from vtrain.core.job_layers import POOLS, Document, Fold, Layer, nobody
from vtrain.errors import ConfigError, FieldError, UsageError
from vtrain.flags.row import fields_of
from vtrain.flags.tuning_options import TuningFlags
from vtrain.messages.codec import read_message, to_document, with_json_names
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.paths import PathRoot
from vtrain.messages.rules import check_enum_names
from vtrain.messages.service_documents import ApiHas, accepted_fields, api_has_no_more

TRIAL = "trialJobSpec"
TUNING_PATHS = PathRoot(job=HyperparameterTuningJob, spec=TRIAL)


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


def compose_tuning(file: ConfigFile, request: JobRequest, api_has: ApiHas = api_has_no_more) -> Draft:
    """The draft of a tuning job, whose trials run what the request asks for, unless the file says that.

    Raises ConfigError where the file or a value is wrong.
    """
    document, unknown = _described(file, api_has, allowed=request.allow_unknown_fields)
    if not request.fallback_name:  # which comes with the project's job: another file is the one that is given
        request = msgspec.structs.replace(request, config=None)
    if request.says(f"jobSpec.{POOLS}"):
        unknown.get(TRIAL, {}).pop(POOLS, None)
    layers = _of_fields(document, request)
    if any("labels" in layer.document for layer in layers):
        layers.insert(0, Layer(nobody, {"labels": None}))
    counts = Layer(nobody, {"maxTrialCount": 1, "parallelTrialCount": 1})
    request = msgspec.structs.replace(
        request,
        project_layers=(counts, *request.project_layers),
        layers=(Layer(file.blame_line, document), *layers),
    )
    draft = compose(request, api_has=api_has, paths=TUNING_PATHS)
    return msgspec.structs.replace(draft, unknown_fields=draft.unknown_fields | unknown)


def _of_fields(document: Document, request: JobRequest) -> list[Layer]:
    """The layers about what there is: a study in the file, the job of trials there or in the request.

    Raises ConfigError for a flag about trials, where nothing tells their job.
    """
    lacking = {"studySpec"} - document.keys()
    if not (TRIAL in document or request.says_what_runs):
        lacking.add("jobSpec")
        said = Fold(request.layers).document.get("jobSpec", {})
        if any(said.values()):
            raise ConfigError(
                f"--config: the file has no trialJobSpec, which is where {', '.join(said)} belongs.",
                hint="Describe the job of a trial under trialJobSpec.",
            )
    return [layer for layer in request.layers if lacking.isdisjoint(layer.document)]


def _described(config: ConfigFile, api_has: ApiHas, *, allowed: bool) -> tuple[Document, Document]:
    """The job in the file, and a document of the fields that only the API knows."""
    with config.blamed():
        if not config.content:
            raise ConfigError("the file says nothing.", hint="Describe studySpec and trialJobSpec.")
        check_not_legacy(config.content)
        content = with_json_names(HyperparameterTuningJob, config.content)
        if "jobSpec" in content:
            hint = "Rename the field."
            raise FieldError("jobSpec", f"the job of each trial is called {TRIAL}.", hint=hint)
        check_place(content, TUNING_PATHS)
        known, unknown = accepted_fields(HyperparameterTuningJob, content, allowed=allowed, api_has=api_has)
        job = read_message(HyperparameterTuningJob, known)
        if job.trial_job_spec is not None:
            check_enum_names(job.trial_job_spec, TRIAL)
        return to_document(job), unknown
