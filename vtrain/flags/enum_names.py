"""The names that enums of a CustomJobSpec have, for files whose names are all to be known.

Messages keep any name, as the service may know more than we do; the file of a tuning job is held to these,
as gcloud holds it. Source: `accelerator_type`, `custom_job` and `reservation_affinity.proto`.
"""

from __future__ import annotations

import msgspec

from vtrain.errors import ConfigError
from vtrain.flags.pools import ACCELERATORS
from vtrain.messages.codec import fields
from vtrain.messages.nearest import did_you_mean

NAMES = {
    "acceleratorType": frozenset({"ACCELERATOR_TYPE_UNSPECIFIED", *ACCELERATORS}),
    "reservationAffinityType": frozenset(
        ["TYPE_UNSPECIFIED", "NO_RESERVATION", "ANY_RESERVATION", "SPECIFIC_RESERVATION"]
    ),
    "strategy": frozenset(
        ["STRATEGY_UNSPECIFIED", "ON_DEMAND", "LOW_COST", "STANDARD", "SPOT", "FLEX_START"]
    ),
}


def check_enum_names(message: msgspec.Struct, path: str) -> None:
    """Raise ConfigError, with the nearest name, for a name below `path` that the API does not have."""
    for field in fields(type(message)).values():
        value = getattr(message, field.attribute)
        below = f"{path}.{field.name}"
        if field.kind == "enum" and value:
            _check_name(below, value, NAMES.get(field.name, frozenset({value})))
        elif field.message is not None and field.repeated:
            for index, item in enumerate(value):
                check_enum_names(item, f"{below}[{index}]")
        elif field.message is not None and value is not None:
            check_enum_names(value, below)


def _check_name(path: str, value: str, names: frozenset[str]) -> None:
    if value in names:
        return
    every = f"There are {', '.join(sorted(names))}."
    hint = did_you_mean(value.upper().replace("-", "_"), names, otherwise=every)
    raise ConfigError(f"{path}: the API has no {value!r}.", hint=hint)
