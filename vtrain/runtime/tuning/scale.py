"""The scales of parameters: where a value lies between the ends of its range, and the value at a place."""

from __future__ import annotations

import math

from vtrain.messages.hyperparameter_tuning_job import ParameterSpec

LOG, REVERSE_LOG = "UNIT_LOG_SCALE", "UNIT_REVERSE_LOG_SCALE"


def is_logarithmic(parameter: ParameterSpec) -> bool:
    return parameter.scale_type in (LOG, REVERSE_LOG)


def value_at(parameter: ParameterSpec, share: float) -> float | str:
    """The value of any parameter that far along its scale, or along its list; `share` is less than 1."""
    if parameter.double_value_spec is not None:
        return double_at(parameter, share)
    if parameter.integer_value_spec is not None:
        return float(integer_at(parameter, share))
    if parameter.categorical_value_spec is not None:
        texts = parameter.categorical_value_spec.values
        return texts[int(share * len(texts))]
    assert parameter.discrete_value_spec is not None
    values = parameter.discrete_value_spec.values
    return float(values[int(share * len(values))])


def double_at(parameter: ParameterSpec, share: float) -> float:
    """The value of a DOUBLE parameter that far along its scale: 0 is its lowest value, 1 its highest."""
    low, high = _ends(parameter)
    if parameter.scale_type == REVERSE_LOG:
        value = _mirrored(_log_at(low, high, 1 - share), low, high)
    elif parameter.scale_type == LOG:
        value = _log_at(low, high, share)
    else:
        value = low * (1 - share) + high * share  # high - low may be more than a float can be
    return min(max(value, low), high)


def share_of(parameter: ParameterSpec, value: float) -> float:
    """How far along its scale a value of a DOUBLE parameter is: the inverse of `double_at`."""
    low, high = _ends(parameter)
    reverse = parameter.scale_type == REVERSE_LOG
    if is_logarithmic(parameter):
        inner = max(_mirrored(value, low, high), low) if reverse else value
        offset, width = math.log(inner) - math.log(low), math.log(high) - math.log(low)
    else:
        offset, width = value / 2 - low / 2, high / 2 - low / 2
    if not width:  # also where the ends differ by less than a float can hold
        return 0.0
    return min(max(1 - offset / width if reverse else offset / width, 0.0), 1.0)


def integer_at(parameter: ParameterSpec, share: float) -> int:
    """The value of an INTEGER parameter that far along its scale.

    Each value has the part of the scale that is half a step around it, also the lowest and the highest.
    """
    low, high = (int(end) for end in _ends(parameter))
    if not is_logarithmic(parameter):
        return min(low + int(share * (high - low + 1)), high)
    drawn = round(_log_at(low - 0.5, high + 0.5, share))
    return mirrored_integer(parameter, min(max(drawn, low), high))


def mirrored_integer(parameter: ParameterSpec, value: int) -> int:
    """On a reversed scale the value counted from the other end, and back; on others the value itself."""
    low, high = (int(end) for end in _ends(parameter))
    return high - (value - low) if parameter.scale_type == REVERSE_LOG else value


def _ends(parameter: ParameterSpec) -> tuple[float, float]:
    span = parameter.double_value_spec or parameter.integer_value_spec
    assert span is not None
    return span.min_value, span.max_value


def _log_at(low: float, high: float, share: float) -> float:
    return math.exp(min(math.log(low) * (1 - share) + math.log(high) * share, math.log(high)))


def _mirrored(value: float, low: float, high: float) -> float:
    return high - (value - low)
