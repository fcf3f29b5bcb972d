"""The kinds of resources that a group of commands is about."""

from __future__ import annotations

import msgspec

from vtrain.messages.missing import GROUPS
from vtrain.messages.names import CUSTOM_JOBS, HYPERPARAMETER_TUNING_JOBS, PERSISTENT_RESOURCES

LIST_TABLE = (
    "table(name.basename():label=ID, displayName:label=NAME, state:label=STATE, createTime:label=CREATED)"
)


class ResourceKind(msgspec.Struct, frozen=True, kw_only=True):
    """What one group of commands is about: its collection, and what people and command lines call it.

    `also` are collections whose names the group's commands that look at a job take as well.
    """

    collection: str
    noun: str
    group: str
    also: tuple[str, ...] = ()
    list_table: str = LIST_TABLE


CUSTOM_JOB = ResourceKind(collection=CUSTOM_JOBS, noun="CustomJob", group=GROUPS[CUSTOM_JOBS])
WATCHED_JOB = ResourceKind(
    collection=CUSTOM_JOBS, noun="CustomJob", group=GROUPS[CUSTOM_JOBS], also=(HYPERPARAMETER_TUNING_JOBS,)
)
"""What `custom-jobs stream-logs` takes: the name of a tuning job too, as its log reads the same."""
TUNING_JOB = ResourceKind(
    collection=HYPERPARAMETER_TUNING_JOBS,
    noun="HyperparameterTuningJob",
    group=GROUPS[HYPERPARAMETER_TUNING_JOBS],
)
PERSISTENT_RESOURCE = ResourceKind(
    collection=PERSISTENT_RESOURCES, noun="PersistentResource", group=GROUPS[PERSISTENT_RESOURCES]
)
KINDS = {kind.collection: kind for kind in (CUSTOM_JOB, TUNING_JOB, PERSISTENT_RESOURCE)}
