"""Rules of the API for a tuning job: its counts, its study, and the job of its trials.

A local backend refuses a job that breaks one, and Vertex AI answers for itself. Sources:
`hyperparameter_tuning_job.proto`, `study.proto`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from vtrain.errors import FieldError
from vtrain.messages.custom_job import CustomJob, CustomJobSpec
from vtrain.messages.hardware import is_tpu
from vtrain.messages.hyperparameter_tuning_job import (
    ConditionalParameterSpec,
    HyperparameterTuningJob,
    MetricSpec,
    ParameterSpec,
    StudySpec,
)
from vtrain.messages.rules import check_formats, check_job, non_empty_pools

SAME_VALUE = 1e-10
"""Discrete values that are no further apart are the same."""
MOST_VALUES = 1000
LARGEST_INTEGER = 2**53
"""The API gives an integer parameter back as a number, which is exact up to here."""
_SPACE = re.compile(r"\s")
_LOGARITHMIC = ("UNIT_LOG_SCALE", "UNIT_REVERSE_LOG_SCALE")
_KINDS = {
    "doubleValueSpec": "double_value_spec",
    "integerValueSpec": "integer_value_spec",
    "categoricalValueSpec": "categorical_value_spec",
    "discreteValueSpec": "discrete_value_spec",
}
_CONDITIONS = {
    "parentDiscreteValues": ("parent_discrete_values", "discreteValueSpec"),
    "parentIntValues": ("parent_int_values", "integerValueSpec"),
    "parentCategoricalValues": ("parent_categorical_values", "categoricalValueSpec"),
}


def check_tuning_job(job: HyperparameterTuningJob, *, executor_required: bool = False) -> None:
    """Raise FieldError, with the field's path, for the first rule that the tuning job breaks.

    `executor_required` is false on local backends, which run a Python package without an image.
    """
    if job.study_spec is None:
        raise FieldError("studySpec", "is required.", hint="Describe metrics and parameters under it.")
    if job.trial_job_spec is None:
        raise FieldError("trialJobSpec", "is required.", hint="Describe the job of each trial under it.")
    check_formats(job)
    check_study(job.study_spec)
    _check_counts(job)
    _check_trial_job(job, job.trial_job_spec, executor_required)


def _check_counts(job: HyperparameterTuningJob) -> None:
    for name, count in (
        ("maxTrialCount", job.max_trial_count),
        ("parallelTrialCount", job.parallel_trial_count),
    ):
        if count < 1:
            raise FieldError(name, f"expected 1 or more, found {count}.")
    most, failed = job.max_trial_count, job.max_failed_trial_count
    if not 0 <= failed <= most:
        raise FieldError(
            "maxFailedTrialCount", f"expected 0 to {most}, which is maxTrialCount, found {failed}."
        )


def _check_trial_job(job: HyperparameterTuningJob, spec: CustomJobSpec, executor_required: bool) -> None:
    """The rules of custom jobs, with paths below trialJobSpec for what a custom job has in its jobSpec."""
    if not spec.worker_pool_specs:
        hint = "Describe one in the file of --config, or name a trainer with --local-package-path."
        raise FieldError("trialJobSpec.workerPoolSpecs", "a job needs at least one pool.", hint=hint)
    trial = CustomJob(display_name=job.display_name, labels=job.labels, job_spec=spec)
    try:
        check_job(trial, executor_required=executor_required)
    except FieldError as error:
        if error.path.split("[")[0] in ("displayName", "labels"):
            raise
        problem = error.message.removeprefix(f"{error.path}: ")
        raise FieldError(f"trialJobSpec.{error.path}", problem, hint=error.hint) from error
    for index, pool in non_empty_pools(trial):
        if pool.machine_spec is not None and is_tpu(pool.machine_spec):
            path = f"trialJobSpec.workerPoolSpecs[{index}].machineSpec"
            raise FieldError(
                path, "a tuning job has no TPUs.", hint="Take a machine with GPUs, or a custom job."
            )


def check_study(spec: StudySpec, path: str = "studySpec") -> None:
    """Raise FieldError for the first rule that the study breaks."""
    _check_metrics(spec.metrics, f"{path}.metrics")
    if not spec.parameters:
        raise FieldError(f"{path}.parameters", "a study needs at least one parameter.")
    for index, parameter in enumerate(spec.parameters):
        _check_parameter(parameter, f"{path}.parameters[{index}]")
    _check_unique_ids(spec.parameters, f"{path}.parameters")
    if spec.algorithm == "GRID_SEARCH":
        for below, parameter in all_parameters(spec, path):
            if parameter.double_value_spec is not None:
                raise FieldError(
                    f"{below}.doubleValueSpec",
                    "GRID_SEARCH takes integer, categorical and discrete parameters only.",
                    hint="List the values under discreteValueSpec, or leave out the algorithm.",
                )
    _check_one_stopping_rule(spec, path)


def _check_metrics(metrics: Sequence[MetricSpec], path: str) -> None:
    if not metrics:
        raise FieldError(path, "a study needs at least one metric.", hint="Give metricId and goal.")
    seen: set[str] = set()
    for index, name in enumerate(metric.metric_id for metric in metrics):
        _check_id(name, f"{path}[{index}].metricId")
        if name in seen:
            raise FieldError(f"{path}[{index}].metricId", f"{name} is there twice; metrics are unique.")
        seen.add(name)


def _check_id(name: str, path: str) -> None:
    if not name:
        raise FieldError(path, "is required.")
    if _SPACE.search(name):
        raise FieldError(path, f"{name!r} holds white space, which is not allowed.")


def _check_one_stopping_rule(spec: StudySpec, path: str) -> None:
    rules = {
        "decayCurveStoppingSpec": spec.decay_curve_stopping_spec,
        "medianAutomatedStoppingSpec": spec.median_automated_stopping_spec,
        "convexAutomatedStoppingSpec": spec.convex_automated_stopping_spec,
    }
    given = [name for name, rule in rules.items() if rule is not None]
    if len(given) > 1:
        raise FieldError(f"{path}.{given[1]}", f"beside {given[0]}; a study has one stopping rule at most.")


def all_parameters(spec: StudySpec, path: str = "studySpec") -> Iterator[tuple[str, ParameterSpec]]:
    """Every parameter of a study, also the conditional ones, with its path."""
    for index, parameter in enumerate(spec.parameters):
        yield from _with_children(parameter, f"{path}.parameters[{index}]")


def _with_children(parameter: ParameterSpec, path: str) -> Iterator[tuple[str, ParameterSpec]]:
    yield path, parameter
    for index, conditional in enumerate(parameter.conditional_parameter_specs):
        if conditional.parameter_spec is not None:
            below = f"{path}.conditionalParameterSpecs[{index}].parameterSpec"
            yield from _with_children(conditional.parameter_spec, below)


def _check_parameter(parameter: ParameterSpec, path: str) -> None:
    _check_id(parameter.parameter_id, f"{path}.parameterId")
    kinds = [name for name, field in _KINDS.items() if getattr(parameter, field) is not None]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "none"
        raise FieldError(path, f"expected one of {', '.join(_KINDS)}, found {found}.")
    below = f"{path}.{kinds[0]}"
    if kinds[0] in ("doubleValueSpec", "integerValueSpec"):
        _check_bounds(parameter, below)
    elif kinds[0] == "categoricalValueSpec":
        _check_categories(parameter, path)
    else:
        _check_discrete(parameter, below)
    for index, conditional in enumerate(parameter.conditional_parameter_specs):
        _check_conditional(parameter, kinds[0], conditional, f"{path}.conditionalParameterSpecs[{index}]")
    _check_conditions_apart(parameter, path)


def _check_bounds(parameter: ParameterSpec, path: str) -> None:
    integers = parameter.integer_value_spec
    spec = integers or parameter.double_value_spec
    if spec is None:
        return
    for name, bound in (("minValue", spec.min_value), ("maxValue", spec.max_value)):
        if not math.isfinite(bound):
            raise FieldError(f"{path}.{name}", f"expected a finite number, found {bound}.")
        if integers is not None and abs(bound) > LARGEST_INTEGER:
            raise FieldError(f"{path}.{name}", f"expected at most 2^53 on either side of 0, found {bound}.")
    if spec.min_value > spec.max_value:
        raise FieldError(path, f"minValue {spec.min_value} is above maxValue {spec.max_value}.")
    _check_log_scale(parameter, spec.min_value, f"{path}.minValue")


def _check_log_scale(parameter: ParameterSpec, lowest: float, path: str) -> None:
    if parameter.scale_type in _LOGARITHMIC and lowest <= 0:
        raise FieldError(
            path,
            f"{parameter.scale_type} needs values above 0, found {lowest}.",
            hint="Raise the lowest value, or take UNIT_LINEAR_SCALE.",
        )


def _check_categories(parameter: ParameterSpec, path: str) -> None:
    values = parameter.categorical_value_spec.values if parameter.categorical_value_spec else ()
    below = f"{path}.categoricalValueSpec.values"
    _check_length(len(values), below)
    for index, value in enumerate(values):
        if value in values[:index]:
            raise FieldError(f"{below}[{index}]", f"{value!r} is there twice; values are unique.")
    if parameter.scale_type not in ("", "SCALE_TYPE_UNSPECIFIED"):
        raise FieldError(f"{path}.scaleType", "a categorical parameter has no scale.", hint="Leave it out.")


def _check_length(count: int, path: str) -> None:
    if not 1 <= count <= MOST_VALUES:
        raise FieldError(path, f"expected 1 to {MOST_VALUES} values, found {count}.")


def _check_discrete(parameter: ParameterSpec, path: str) -> None:
    values = parameter.discrete_value_spec.values if parameter.discrete_value_spec else ()
    _check_length(len(values), f"{path}.values")
    for index, value in enumerate(values):
        below = f"{path}.values[{index}]"
        if not math.isfinite(value):
            raise FieldError(below, f"expected a finite number, found {value}.")
        if index and value - values[index - 1] < SAME_VALUE:
            raise FieldError(
                below,
                f"{value} after {values[index - 1]}: values increase, by 1e-10 or more.",
                hint="Sort them, and leave out repeated ones.",
            )
    _check_log_scale(parameter, values[0], f"{path}.values[0]")


def _check_conditional(
    parent: ParameterSpec, kind: str, conditional: ConditionalParameterSpec, path: str
) -> None:
    given = [name for name, (field, _) in _CONDITIONS.items() if getattr(conditional, field) is not None]
    wanted = next((name for name, (_, of_kind) in _CONDITIONS.items() if of_kind == kind), None)
    if wanted is None:
        raise FieldError(path, "a double parameter has no conditional parameters.")
    if given != [wanted]:
        found = " and ".join(given) or "none"
        raise FieldError(path, f"below a parameter with {kind} expected {wanted}, found {found}.")
    values = condition_values(conditional)
    if not values:
        raise FieldError(f"{path}.{wanted}.values", "names no value of the parent.")
    for index, value in enumerate(values):
        if not is_value_of(parent, value):
            raise FieldError(
                f"{path}.{wanted}.values[{index}]", f"{parent.parameter_id} has no value {value!r}."
            )
    if conditional.parameter_spec is None:
        raise FieldError(f"{path}.parameterSpec", "is required.")
    _check_parameter(conditional.parameter_spec, f"{path}.parameterSpec")


def condition_values(conditional: ConditionalParameterSpec) -> tuple[float | str, ...]:
    """The values of the parent for which the conditional parameter is active."""
    given = (getattr(conditional, field) for field, _ in _CONDITIONS.values())
    return next((tuple(condition.values) for condition in given if condition is not None), ())


def in_condition(conditional: ConditionalParameterSpec, value: float | str) -> bool:
    """Whether the conditional parameter is active where its parent has the value."""
    return any(_same(value, each) for each in condition_values(conditional))


def _same(one: float | str, other: float | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return abs(one - other) <= SAME_VALUE


def is_value_of(parameter: ParameterSpec, value: float | str) -> bool:
    """Whether the parameter can have the value."""
    if parameter.categorical_value_spec is not None:
        return value in parameter.categorical_value_spec.values
    if isinstance(value, str):
        return False
    if parameter.discrete_value_spec is not None:
        return any(_same(value, each) for each in parameter.discrete_value_spec.values)
    spec = parameter.integer_value_spec or parameter.double_value_spec
    whole = parameter.integer_value_spec is None or float(value).is_integer()
    return spec is not None and whole and spec.min_value <= value <= spec.max_value


def _check_unique_ids(parameters: Sequence[ParameterSpec], path: str) -> None:
    """Parameters of the same level are active together, with all that may be below them."""
    seen: set[str] = set()
    for index, parameter in enumerate(parameters):
        below = _ids(parameter)
        if twice := sorted(seen & below):
            raise FieldError(f"{path}[{index}]", f"the parameter {twice[0]} is there twice; ids are unique.")
        seen |= below


def _ids(parameter: ParameterSpec) -> set[str]:
    return {each.parameter_id for _, each in _with_children(parameter, "")}


def _check_conditions_apart(parameter: ParameterSpec, path: str) -> None:
    """Below a parameter an id may be there twice only where the parent's values exclude one another."""
    earlier: list[tuple[set[str], ConditionalParameterSpec]] = []
    for index, conditional in enumerate(parameter.conditional_parameter_specs):
        if conditional.parameter_spec is None:
            continue
        below = f"{path}.conditionalParameterSpecs[{index}].parameterSpec"
        ids = _ids(conditional.parameter_spec)
        if parameter.parameter_id in ids:
            raise FieldError(below, f"{parameter.parameter_id} is also the id of a parameter above it.")
        for other_ids, other in earlier:
            overlap = any(in_condition(other, value) for value in condition_values(conditional))
            if overlap and (twice := sorted(ids & other_ids)):
                raise FieldError(
                    below,
                    f"{twice[0]} is there twice for the same value of {parameter.parameter_id}.",
                    hint="Give it another id, or values of the parent that no other one has.",
                )
        earlier.append((ids, conditional))


def not_reproduced_of_study(spec: StudySpec) -> tuple[str, ...]:
    """Sentences about the parts of a study that only Vertex AI has, and a local study leaves out."""
    found = []
    if spec.convex_automated_stopping_spec is not None:
        found.append("convexAutomatedStoppingSpec has no effect here: no trial is stopped early.")
    if spec.study_stopping_config is not None:
        found.append("studyStoppingConfig is for studies of Vertex AI Vizier, and has no effect.")
    if spec.observation_noise not in ("", "OBSERVATION_NOISE_UNSPECIFIED"):
        found.append("observationNoise is for studies of Vertex AI Vizier, and has no effect.")
    if any(metric.safety_config is not None for metric in spec.metrics):
        found.append("safetyConfig is for studies of Vertex AI Vizier, and has no effect.")
    kinds = (getattr(parameter, kind) for _, parameter in all_parameters(spec) for kind in _KINDS.values())
    if any(kind is not None and kind.default_value is not None for kind in kinds):
        found.append("defaultValue is for studies of Vertex AI Vizier, and has no effect.")
    return tuple(found)
