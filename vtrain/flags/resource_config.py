"""From a file and flags to a persistent resource.

Of the file only its pools count, and those of flags come after them, as gcloud has it; everything else is
said by flags.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from vtrain.errors import ConfigError, UsageError
from vtrain.flags.config_file import read_config
from vtrain.flags.persistent_resources import PersistentResourceFlags
from vtrain.flags.resource_fields import shared_fields
from vtrain.flags.resource_pools import (
    check_file_pools,
    check_flag_pools,
    parse_resource_pools,
    resource_pool_document,
    unused_keys,
)
from vtrain.messages.codec import fields, read_message, to_document, with_json_names
from vtrain.messages.persistent_resource import PersistentResource
from vtrain.messages.unknown import split_unknown

Document = dict[str, Any]
POOLS = "resourcePools"


class FilePools(msgspec.Struct, frozen=True, kw_only=True):
    """The pools of a file, the fields in them that are not known, and a sentence about what else it holds."""

    pools: Sequence[Document] = ()
    unknown_fields: Document = {}
    warnings: tuple[str, ...] = ()


class ResourceDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A persistent resource to be made. `warnings` tell what of file and flags has no effect.

    `unknown_fields` is a document of what the API is not known to have, to be sent all the same.
    """

    resource_id: str
    resource: PersistentResource
    unknown_fields: Document = {}
    warnings: tuple[str, ...] = ()


def check_given(flags: PersistentResourceFlags) -> None:
    """Raise UsageError where the id or the machines are not given."""
    if flags.persistent_resource_id is None:
        raise UsageError("--persistent-resource-id=ID must be given.")
    if flags.config is None and not flags.resource_pool_spec:
        raise UsageError("The machines are not given.", hint="Give --resource-pool-spec or --config.")


def compose_resource(flags: PersistentResourceFlags, project: str) -> ResourceDraft:
    """The resource of a command line; `project` owns the encryption key where nothing else is said.

    Raises UsageError where a flag does not parse, ConfigError where the file or a pool is wrong.
    """
    resource_fields = _resource_fields(flags, project)
    flag_pools = parse_resource_pools(flags.resource_pool_spec)
    check_flag_pools(flag_pools)
    file = _read_file(flags)
    pools = [*file.pools, *map(resource_pool_document, flag_pools)]
    if not pools:
        raise ConfigError("--config: the name of the file is empty.", hint="Give --config=FILE.")
    return ResourceDraft(
        resource_id=flags.persistent_resource_id or "",
        resource=read_message(PersistentResource, resource_fields | {POOLS: pools}),
        unknown_fields=file.unknown_fields,
        warnings=(*file.warnings, *unused_keys(flag_pools)),
    )


def _resource_fields(flags: PersistentResourceFlags, project: str) -> Document:
    own_account = {"serviceAccountSpec": {"enableCustomServiceAccount": True}}
    values = {
        "displayName": flags.display_name,
        "network": flags.network,
        **shared_fields(flags, project),
        "resourceRuntimeSpec": own_account if flags.enable_custom_service_account else None,
    }
    return {name: value for name, value in values.items() if value is not None}


def _read_file(flags: PersistentResourceFlags) -> FilePools:
    if not flags.config:
        return FilePools()
    config = read_config(flags.config, "the fields of a PersistentResource")
    with config.blamed():
        content = with_json_names(PersistentResource, config.content)
        pools, unknown = _split(content, allowed=flags.allow_unknown_fields)
    unused = [str(name) for name in content if name != POOLS]
    warning = f"{config.origin}: only {POOLS} counts, and {', '.join(unused)} is left out; flags say it."
    return FilePools(pools=pools, unknown_fields=unknown, warnings=(warning,) if unused else ())


def _split(content: Document, *, allowed: bool) -> tuple[list[Document], Document]:
    """The pools of a file, checked, and what is not known in them; other fields are checked, and go."""
    if not content.get(POOLS):
        _check_names(content)
    only_pools = {POOLS: content.get(POOLS)}
    pools, unknown = split_unknown(PersistentResource, only_pools) if allowed else (only_pools, {})
    others, _ = split_unknown(PersistentResource, {k: v for k, v in content.items() if k != POOLS})
    message = read_message(PersistentResource, others | pools)
    check_file_pools(message.resource_pools)
    return to_document(message)[POOLS], unknown


def _check_names(content: Document) -> None:
    """Raise ConfigError, with the nearest name, for a field that a PersistentResource does not have."""
    for name in content:
        if name not in fields(PersistentResource):
            read_message(PersistentResource, {name: None})
