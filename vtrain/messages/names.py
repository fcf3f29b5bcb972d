"""Resource names, `projects/P/locations/L/customJobs/ID`, and the hint for one that is not found."""

from __future__ import annotations

import re

import msgspec

from vtrain.errors import ConfigError

CUSTOM_JOBS = "customJobs"
HYPERPARAMETER_TUNING_JOBS = "hyperparameterTuningJobs"
TRAINING_PIPELINES = "trainingPipelines"
PERSISTENT_RESOURCES = "persistentResources"
MODELS = "models"
ENDPOINTS = "endpoints"
BATCH_PREDICTION_JOBS = "batchPredictionJobs"
TENSORBOARDS = "tensorboards"
DATASETS = "datasets"
TENSORBOARD_EXPERIMENTS = "tensorboards/*/experiments"
TENSORBOARD_RUNS = "tensorboards/*/experiments/*/runs"
TIME_SERIES = "tensorboards/*/experiments/*/runs/*/timeSeries"
METADATA_STORES = "metadataStores"
CONTEXTS = "metadataStores/*/contexts"
EXECUTIONS = "metadataStores/*/executions"
ARTIFACTS = "metadataStores/*/artifacts"
METADATA_SCHEMAS = "metadataStores/*/metadataSchemas"
LOCAL_PROJECT = "local"
LOCAL_PROJECT_NUMBER = "100000000001"
"""The local value of `CLOUD_ML_PROJECT_ID`; on Vertex AI it is the project's number, never its id."""
KEY_LABEL = "vtrain-idempotency-key"
"""The label that holds the key of `--idempotency-key`."""
TRIAL_LABEL = "vtrain-hp-tuning-job"
"""The label of a trial's custom job on this machine: the id of its tuning job."""
AI_PLATFORM_LABEL = "vtrain-ai-platform-job"
"""The label that holds the name of a job which a command line of AI Platform has created."""
PIPELINE_LABEL = "vtrain-training-pipeline"
"""The label of the job that a training pipeline of this machine runs: the id of the pipeline."""
CHILD_LABELS = {HYPERPARAMETER_TUNING_JOBS: TRIAL_LABEL, TRAINING_PIPELINES: PIPELINE_LABEL}
"""The labels of jobs that another job runs, by the collection of that one: they have its id."""
DEFAULT_REGION = "us-central1"
GROUPS = {
    CUSTOM_JOBS: "custom-jobs",
    HYPERPARAMETER_TUNING_JOBS: "hp-tuning-jobs",
    TRAINING_PIPELINES: "training-pipelines",
    PERSISTENT_RESOURCES: "persistent-resources",
    MODELS: "models",
}
"""The command group of each collection."""

_PART = r"([^/\s\x00-\x1f\x7f]+)"
_FULL_NAME = f"(?:https?://[^/]+/v1(?:beta1)?/)?projects/{_PART}/locations/{_PART}/{_PART}/{_PART}"
"""Compiled at its first use: every command imports it, and not every command needs it."""


class ResourceName(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a full resource name."""

    project: str
    location: str
    collection: str
    id: str

    def __str__(self) -> str:
        return f"projects/{self.project}/locations/{self.location}/{self.collection}/{self.id}"


def parse_name(text: str) -> ResourceName | None:
    """The parts of a full resource name, or of its URI as `--uri` prints it; None when `text` is neither."""
    match = re.fullmatch(_FULL_NAME, text)
    if match is None:
        return None
    project, location, collection, resource_id = match.groups()
    return ResourceName(project=project, location=location, collection=collection, id=resource_id)


def require_name(text: str) -> ResourceName:
    """The parts of a name that was stored, and so is a full one. Raises ValueError for any other text."""
    name = parse_name(text)
    if name is None:
        raise ValueError(f"{text!r} is no full resource name")
    return name


def resolve_name(text: str, *, project: str, location: str, collection: str) -> ResourceName:
    """The resource that `text` names on a command line: a full name, or an id in project and location.

    Raises ConfigError for a name of another collection and for anything that is neither.
    """
    full = parse_name(text)
    if full is None:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", text):
            raise ConfigError(
                f"{text!r} is neither an id nor a full resource name.",
                hint=f"Write ID or projects/PROJECT/locations/REGION/{collection}/ID.",
            )
        return ResourceName(project=project, location=location, collection=collection, id=text)
    if full.collection != collection:
        raise ConfigError(
            f"'{text}' names one of {full.collection}, and this command takes one of {collection}.",
            hint=f"Write projects/{full.project}/locations/{full.location}/{collection}/ID.",
        )
    return full


def missing_hint(name: ResourceName) -> str:
    """The command that lists the existing resources; empty for a collection without commands.

    For a display name in place of an id, the command finds the job by its display name.
    """
    if name.collection not in GROUPS:
        return ""
    listing = f"vtrain {GROUPS[name.collection]} list"
    if name.project != LOCAL_PROJECT:
        project = "" if name.project.isdecimal() else f" --project={name.project}"
        listing += f"{project} --region={name.location}"
    if is_display_name(name):
        return f"A job's id is a number. To look for its name:\n$ {listing} --filter=displayName={name.id}"
    return f"See what there is:\n$ {listing}"


def is_display_name(name: ResourceName) -> bool:
    """Whether the id is impossible for a job, and so probably its display name."""
    return name.collection not in (PERSISTENT_RESOURCES, MODELS) and not name.id.isdecimal()


class ResourceKind(msgspec.Struct, frozen=True, kw_only=True):
    """The kind of resource of a group of commands.

    `also` are further collections: commands that look at one job accept names in them, too.
    """

    collection: str
    also: tuple[str, ...] = ()

    @property
    def collections(self) -> tuple[str, ...]:
        """All collections whose resources the commands take."""
        return (self.collection, *self.also)

    @property
    def noun(self) -> str:
        """The name of its message, such as `CustomJob`."""
        return self.collection[0].upper() + self.collection[1:-1]

    @property
    def group(self) -> str:
        """Its group of commands."""
        return GROUPS[self.collection]


CUSTOM_JOB = ResourceKind(collection=CUSTOM_JOBS)
TUNING_JOB = ResourceKind(collection=HYPERPARAMETER_TUNING_JOBS)
PIPELINE = ResourceKind(collection=TRAINING_PIPELINES)
PERSISTENT_RESOURCE = ResourceKind(collection=PERSISTENT_RESOURCES)
MODEL = ResourceKind(collection=MODELS)
ANY_JOB = ResourceKind(collection=CUSTOM_JOBS, also=(HYPERPARAMETER_TUNING_JOBS, TRAINING_PIPELINES))
"""Every kind of job, for the short commands and `custom-jobs stream-logs`. An id alone is that of a
custom job, where this machine does not know better."""
JOB_KINDS = (CUSTOM_JOB, TUNING_JOB, PIPELINE)


def kind_of(name: str) -> ResourceKind:
    """The kind of the resource with that full name; that of custom jobs for any other name."""
    full = parse_name(name)
    return ResourceKind(collection=full.collection) if full and full.collection in GROUPS else CUSTOM_JOB
