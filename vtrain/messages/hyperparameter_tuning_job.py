"""HyperparameterTuningJob (`google/cloud/aiplatform/v1/hyperparameter_tuning_job.proto`)."""

from typing import ClassVar

from vtrain.messages.base import EncryptionSpec, EnumName, Resource, Status
from vtrain.messages.custom_job import CustomJobSpec
from vtrain.messages.study import StudySpec, Trial


class HyperparameterTuningJob(Resource, frozen=True):
    """A study whose trials are custom jobs."""

    output_fields: ClassVar[frozenset[str]] = Resource.output_fields | {"trials"}
    name: str = ""
    display_name: str = ""
    study_spec: StudySpec | None = None
    max_trial_count: int = 0
    parallel_trial_count: int = 0
    max_failed_trial_count: int = 0
    trial_job_spec: CustomJobSpec | None = None
    trials: tuple[Trial, ...] = ()
    state: EnumName = ""
    create_time: str = ""
    start_time: str = ""
    end_time: str = ""
    update_time: str = ""
    error: Status | None = None
    labels: dict[str, str] = {}
    encryption_spec: EncryptionSpec | None = None
    satisfies_pzs: bool = False
    satisfies_pzi: bool = False
