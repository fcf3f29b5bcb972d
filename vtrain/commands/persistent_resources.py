"""`vtrain persistent-resources`: its commands. What a command works with is imported when it runs."""

from __future__ import annotations

from vtrain.flags.command import CommandInfo
from vtrain.flags.job_options import ForceFlag, PersistentResourceFlags, ResourceNameFlag
from vtrain.flags.options import CommonFlags, DryRunFlag, ListFlags, PlaceFlags

COMMANDS = (
    CommandInfo(
        name="create",
        handler="vtrain.commands.slots:create",
        summary="Create a persistent resource.",
        details="The command does not wait until the machines are running; 'describe' prints their state.",
        examples=(
            (
                "Keep two machines",
                "vtrain persistent-resources create --persistent-resource-id=team --region=us-central1 "
                "--resource-pool-spec=machine-type=n1-standard-4,replica-count=2",
            ),
            (
                "Run a job on them",
                "vtrain custom-jobs create --display-name=demo --config=job.yaml "
                "--persistent-resource-id=team",
            ),
        ),
        required=("--persistent-resource-id",),
        flags=(
            PersistentResourceFlags,
            DryRunFlag,
            PlaceFlags,
            CommonFlags,
        ),
    ),
    CommandInfo(
        name="list",
        handler="vtrain.commands.slots:list_resources",
        summary="List persistent resources: as a table on a terminal, as YAML elsewhere.",
        details="Clusters of Ray are left out.",
        examples=(
            ("List the resources of a region", "vtrain persistent-resources list --region=us-central1"),
            ("Print their names", "vtrain persistent-resources list --format='value(name.basename())'"),
        ),
        flags=(
            ListFlags,
            PlaceFlags,
            CommonFlags,
        ),
    ),
    CommandInfo(
        name="describe",
        handler="vtrain.commands.slots:describe",
        summary="Print one persistent resource.",
        examples=(
            ("Print a resource as YAML", "vtrain persistent-resources describe team"),
            ("Print its state", "vtrain persistent-resources describe team --format='value(state)'"),
        ),
        flags=(
            ResourceNameFlag,
            PlaceFlags,
            CommonFlags,
        ),
    ),
    CommandInfo(
        name="delete",
        handler="vtrain.commands.slots:delete",
        summary="Delete a persistent resource.",
        details="On Vertex AI its jobs are cancelled. On this machine that needs --force.",
        examples=(("Delete a resource", "vtrain persistent-resources delete team --region=us-central1"),),
        flags=(
            ResourceNameFlag,
            ForceFlag,
            PlaceFlags,
            CommonFlags,
        ),
    ),
    CommandInfo(
        name="reboot",
        handler="vtrain.commands.slots:reboot",
        summary="Restart the machines of a persistent resource. No job may be running on it.",
        examples=(("Restart the machines", "vtrain persistent-resources reboot team --region=us-central1"),),
        flags=(
            ResourceNameFlag,
            PlaceFlags,
            CommonFlags,
        ),
    ),
)
