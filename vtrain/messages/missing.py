"""Where to look for a resource that is not there."""

from __future__ import annotations

from vtrain.messages.names import (
    CUSTOM_JOBS,
    HYPERPARAMETER_TUNING_JOBS,
    LOCAL_PROJECT,
    PERSISTENT_RESOURCES,
    ResourceName,
)

GROUPS = {
    CUSTOM_JOBS: "custom-jobs",
    HYPERPARAMETER_TUNING_JOBS: "hp-tuning-jobs",
    PERSISTENT_RESOURCES: "persistent-resources",
}
"""The group of commands about each collection."""


def missing_hint(name: ResourceName) -> str:
    """The command that lists what there is; empty for a collection without commands.

    Who takes a job's display name for its id is shown how to find it.
    """
    if name.collection not in GROUPS:
        return ""
    listing = f"vtrain {GROUPS[name.collection]} list{_place(name)}"
    if is_display_name(name):
        return f"A job's id is a number. To look for its name:\n$ {listing} --filter=displayName={name.id}"
    return f"See what there is:\n$ {listing}"


def is_display_name(name: ResourceName) -> bool:
    """Whether the id is none that a job can have."""
    return name.collection != PERSISTENT_RESOURCES and not name.id.isdecimal()


def _place(name: ResourceName) -> str:
    if name.project == LOCAL_PROJECT:
        return ""
    project = "" if name.project.isdecimal() else f" --project={name.project}"
    return f"{project} --region={name.location}"
