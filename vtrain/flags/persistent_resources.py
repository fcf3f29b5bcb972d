"""Flags of `persistent-resources create`.

The annotations here are evaluated when the command is built, so they are not left as text.
"""

from typing import Annotated

from typer import Argument, Option

from vtrain.flags.options import FlagGroup, ResourceFlags


class PersistentResourceFlags(ResourceFlags, frozen=True):
    """A persistent resource: its id, and the machines in it."""

    persistent_resource_id: Annotated[
        str | None, Option("--persistent-resource-id", metavar="ID", help="Id to give to the resource.")
    ] = None
    config: Annotated[
        str | None,
        Option(
            "--config",
            metavar="FILE",
            help="YAML or JSON of a PersistentResource, of which the resourcePools count; - is stdin.",
        ),
    ] = None
    allow_unknown_fields: Annotated[
        bool,
        Option(
            "--allow-unknown-fields",
            help="Send fields of --config that vtrain does not know as they are.",
        ),
    ] = False
    resource_pool_spec: Annotated[
        list[str],
        Option(
            "--resource-pool-spec",
            metavar="KEY=VALUE,…",
            help="A pool of machines, after those of --config; repeatable. Keys: machine-type, "
            "replica-count, min-replica-count, max-replica-count, accelerator-type, accelerator-count, "
            "disk-type, disk-size.",
        ),
    ] = []  # noqa: RUF012 - every invocation gets its own
    enable_custom_service_account: Annotated[
        bool,
        Option(
            "--enable-custom-service-account/--no-enable-custom-service-account",
            help="Have every job bring the service account that it runs as.",
        ),
    ] = False


class ResourceNameFlag(FlagGroup, frozen=True):
    """Which persistent resource."""

    persistent_resource: Annotated[
        str,
        Argument(
            metavar="PERSISTENT_RESOURCE",
            help="Id, or projects/PROJECT/locations/REGION/persistentResources/ID.",
        ),
    ]
