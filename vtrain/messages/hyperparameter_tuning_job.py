"""HyperparameterTuningJob, its study and its trials.

Source: `google/cloud/aiplatform/v1/{hyperparameter_tuning_job,study}.proto`. Enums carry the names that the
API knows, by their numbers.
"""

from typing import Annotated, ClassVar

from vtrain.messages.custom_job import CustomJobSpec, JobState
from vtrain.messages.structs import Duration, EncryptionSpec, Int64, Message, Resource, Status, Value, enum

GoalType = Annotated[str, enum("GOAL_TYPE_UNSPECIFIED MAXIMIZE MINIMIZE")]
ScaleType = Annotated[
    str, enum("SCALE_TYPE_UNSPECIFIED UNIT_LINEAR_SCALE UNIT_LOG_SCALE UNIT_REVERSE_LOG_SCALE")
]
Algorithm = Annotated[str, enum("ALGORITHM_UNSPECIFIED - GRID_SEARCH RANDOM_SEARCH")]
ObservationNoise = Annotated[str, enum("OBSERVATION_NOISE_UNSPECIFIED LOW HIGH")]
MeasurementSelectionType = Annotated[
    str, enum("MEASUREMENT_SELECTION_TYPE_UNSPECIFIED LAST_MEASUREMENT BEST_MEASUREMENT")
]
TrialState = Annotated[str, enum("STATE_UNSPECIFIED REQUESTED ACTIVE STOPPING SUCCEEDED INFEASIBLE")]


class SafetyMetricConfig(Message, frozen=True):
    safety_threshold: float = 0.0
    desired_min_safe_trials_fraction: float | None = None


class MetricSpec(Message, frozen=True):
    metric_id: str = ""
    goal: GoalType = ""
    safety_config: SafetyMetricConfig | None = None


class DoubleValueSpec(Message, frozen=True):
    min_value: float = 0.0
    max_value: float = 0.0
    default_value: float | None = None


class IntegerValueSpec(Message, frozen=True):
    min_value: Int64 = 0
    max_value: Int64 = 0
    default_value: Int64 | None = None


class CategoricalValueSpec(Message, frozen=True):
    values: tuple[str, ...] = ()
    default_value: str | None = None


class DiscreteValueSpec(Message, frozen=True):
    values: tuple[float, ...] = ()
    default_value: float | None = None


class DiscreteValueCondition(Message, frozen=True):
    values: tuple[float, ...] = ()


class IntValueCondition(Message, frozen=True):
    values: tuple[Int64, ...] = ()


class CategoricalValueCondition(Message, frozen=True):
    values: tuple[str, ...] = ()


class ConditionalParameterSpec(Message, frozen=True):
    """A parameter that is active only where its parent has one of the values."""

    parent_discrete_values: DiscreteValueCondition | None = None
    parent_int_values: IntValueCondition | None = None
    parent_categorical_values: CategoricalValueCondition | None = None
    parameter_spec: "ParameterSpec | None" = None


class ParameterSpec(Message, frozen=True):
    double_value_spec: DoubleValueSpec | None = None
    integer_value_spec: IntegerValueSpec | None = None
    categorical_value_spec: CategoricalValueSpec | None = None
    discrete_value_spec: DiscreteValueSpec | None = None
    parameter_id: str = ""
    scale_type: ScaleType = ""
    conditional_parameter_specs: tuple[ConditionalParameterSpec, ...] = ()


class DecayCurveAutomatedStoppingSpec(Message, frozen=True):
    use_elapsed_duration: bool = False


class MedianAutomatedStoppingSpec(Message, frozen=True):
    use_elapsed_duration: bool = False


class ConvexAutomatedStoppingSpec(Message, frozen=True):
    max_step_count: Int64 = 0
    min_step_count: Int64 = 0
    min_measurement_count: Int64 = 0
    learning_rate_parameter_name: str = ""
    use_elapsed_duration: bool = False
    update_all_stopped_trials: bool | None = None


class StudyTimeConstraint(Message, frozen=True):
    max_duration: Duration | None = None
    end_time: str | None = None


class StudyStoppingConfig(Message, frozen=True):
    should_stop_asap: bool | None = None
    minimum_runtime_constraint: StudyTimeConstraint | None = None
    maximum_runtime_constraint: StudyTimeConstraint | None = None
    min_num_trials: int | None = None
    max_num_trials: int | None = None
    max_num_trials_no_progress: int | None = None
    max_duration_no_progress: Duration = ""


class StudySpec(Message, frozen=True):
    decay_curve_stopping_spec: DecayCurveAutomatedStoppingSpec | None = None
    median_automated_stopping_spec: MedianAutomatedStoppingSpec | None = None
    convex_automated_stopping_spec: ConvexAutomatedStoppingSpec | None = None
    metrics: tuple[MetricSpec, ...] = ()
    parameters: tuple[ParameterSpec, ...] = ()
    algorithm: Algorithm = ""
    observation_noise: ObservationNoise = ""
    measurement_selection_type: MeasurementSelectionType = ""
    study_stopping_config: StudyStoppingConfig | None = None


class Metric(Message, frozen=True):
    metric_id: str = ""
    value: float = 0.0


class Measurement(Message, frozen=True):
    elapsed_duration: Duration = ""
    step_count: Int64 = 0
    metrics: tuple[Metric, ...] = ()


class Parameter(Message, frozen=True):
    """A parameter's value in one trial: a number, or text where it is categorical."""

    parameter_id: str = ""
    value: Value = None


class Trial(Message, frozen=True):
    """One job with one set of parameters, written by the service alone."""

    name: str = ""
    id: str = ""
    state: TrialState = ""
    parameters: tuple[Parameter, ...] = ()
    final_measurement: Measurement | None = None
    measurements: tuple[Measurement, ...] = ()
    start_time: str = ""
    end_time: str = ""
    client_id: str = ""
    infeasible_reason: str = ""
    custom_job: str = ""
    web_access_uris: dict[str, str] = {}


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
    state: JobState = ""
    create_time: str = ""
    start_time: str = ""
    end_time: str = ""
    update_time: str = ""
    error: Status | None = None
    labels: dict[str, str] = {}
    encryption_spec: EncryptionSpec | None = None
    satisfies_pzs: bool = False
    satisfies_pzi: bool = False
