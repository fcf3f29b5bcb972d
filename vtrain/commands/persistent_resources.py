"""`vtrain persistent-resources`: machines that stay up between jobs; on this machine, slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from vtrain.backends.interface import PRELOAD_FLAG
from vtrain.backends.pager import pages
from vtrain.commands.drafting import warn_all
from vtrain.commands.job_lists import query_all, show_resources
from vtrain.commands.session import (
    Session,
    find_target,
    open_named,
    open_session,
    resource_document,
    sent_document,
)
from vtrain.core.config_file import read_config
from vtrain.core.job_layers import Document, Fold
from vtrain.errors import ConfigError, UsageError
from vtrain.flags.grammar import split_dict, whole_number
from vtrain.flags.job_options import ForceFlag, PersistentResourceFlags, ResourceNameFlag
from vtrain.flags.options import CommonFlags, DryRunFlag, ListFlags, PlaceFlags
from vtrain.flags.request import key_layers
from vtrain.flags.row import layers_of
from vtrain.messages.codec import fields, read_message, to_document, with_json_names
from vtrain.messages.names import PERSISTENT_RESOURCE, ResourceName
from vtrain.messages.persistent_resource import PersistentResource
from vtrain.messages.rules import check_resource_accelerator, check_resource_pools
from vtrain.messages.service_documents import ApiHas, accepted_fields, api_has_no_more, split_unknown
from vtrain.messages.structs import Operation


def create(spec: PersistentResourceFlags, run: DryRunFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Begin to make a persistent resource."""
    check_given(spec)
    modules = preload_modules(spec)
    target = find_target(common, place, kind=PERSISTENT_RESOURCE)
    target.backend.ignored_flags([PRELOAD_FLAG] if modules else [])
    own_settings = msgspec.structs.replace(target.settings, preload=modules)
    session = msgspec.structs.replace(target, settings=own_settings).open()
    backend, settings = session.resources, session.settings
    draft = compose_resource(spec, settings.project, target.api_has)
    warn_all(session.console, draft.warnings)
    if run.dry_run:
        session.console.result(sent_document(draft.resource, draft.unknown_fields), "yaml")
        return
    operation = backend.create_resource(draft.resource_id, draft.resource, draft.unknown_fields)
    name = ResourceName(
        project=settings.project,
        location=settings.region,
        collection=PERSISTENT_RESOURCE.collection,
        id=draft.resource_id,
    )
    _show_begun(session, str(name), "created", operation)


def describe(resource: ResourceNameFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Print one persistent resource."""
    session, name = _open(resource, place, common)
    session.console.result(resource_document(session.resources.get_resource(name)), "yaml")


def delete(resource: ResourceNameFlag, forced: ForceFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Begin to remove a persistent resource."""
    session, name = _open(resource, place, common)
    operation = session.resources.delete_resource(name, force=forced.force)
    _show_begun(session, name, "deleted", operation)


def reboot(resource: ResourceNameFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Begin to start its machines anew."""
    session, name = _open(resource, place, common)
    _show_begun(session, name, "rebooted", session.resources.reboot_resource(name))


def list_resources(listing: ListFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """List persistent resources, except clusters of Ray."""
    session = open_session(common, place, kind=PERSISTENT_RESOURCE)
    query = query_all(session, PERSISTENT_RESOURCE)
    # All pages are asked for before the first resource is shown, as gcloud does.
    found = [*pages(session.resources.list_resources, query)]
    documents = (resource_document(each) for page in found for each in page.resources)
    without_ray = (
        each for each in documents if (each.get("resourceRuntimeSpec") or {}).get("raySpec") is None
    )
    show_resources(session, PERSISTENT_RESOURCE, listing, without_ray)
    if damaged := [name for page in found for name in page.damaged]:
        session.console.warn(f"Entries in the store are damaged, and not listed: {', '.join(damaged)}.")


def _open(resource: ResourceNameFlag, place: PlaceFlags, common: CommonFlags) -> tuple[Session, str]:
    return open_named(common, place, resource.persistent_resource, PERSISTENT_RESOURCE)


def _show_begun(session: Session, name: str, what: str, operation: Operation) -> None:
    """Say what goes on now, or is done, and print the operation in `--format`."""
    if session.is_local:
        session.console.status(f"{PERSISTENT_RESOURCE.noun} [{name}] was {what}.")
    else:
        session.console.status(f"{PERSISTENT_RESOURCE.noun} [{name}] is being {what}: {operation.name}")
        session.console.progress(f"\n$ vtrain {PERSISTENT_RESOURCE.group} describe {name}\n")
    session.console.result(resource_document(operation))


# a resource of a file and flags, by the rules of `gcloud ai persistent-resources create`: the file gives
# pools, and `--resource-pool-spec` adds more after them; all other fields come from flags


POOLS = "resourcePools"


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


def preload_modules(flags: PersistentResourceFlags) -> tuple[str, ...]:
    """The modules of --preload. Raises UsageError for what is not the name of one."""
    modules = tuple(word.strip() for word in (flags.preload or "").split(",") if word.strip())
    for module in modules:
        if not all(part.isidentifier() for part in module.split(".")):
            raise UsageError(
                f"--preload: {module!r} is not the name of a module.", hint="Take --preload=torch."
            )
    return modules


def compose_resource(
    flags: PersistentResourceFlags, project: str, api_has: ApiHas = api_has_no_more
) -> ResourceDraft:
    """The resource of a command line; `project` owns the encryption key where nothing else is said.

    Raises UsageError where a flag does not parse, ConfigError where the file or a pool is wrong.
    """
    given = Fold([*layers_of(flags), *key_layers(flags, project)]).document
    flag_pools = parse_resource_pools(flags.resource_pool_spec)
    check_flag_pools(flag_pools)
    file_pools, unknown, warnings = _read_file(flags, api_has)
    pools = [*file_pools, *map(resource_pool_document, flag_pools)]
    if not pools:
        raise ConfigError("--config: the name of the file is empty.", hint="Give --config=FILE.")
    return ResourceDraft(
        resource_id=flags.persistent_resource_id or "",
        resource=read_message(PersistentResource, given | {POOLS: pools}),
        unknown_fields=unknown,
        warnings=(*warnings, *unused_keys(flag_pools)),
    )


def _read_file(
    flags: PersistentResourceFlags, api_has: ApiHas
) -> tuple[list[Document], Document, tuple[str, ...]]:
    """The pools of the file, what is not known in them, and a sentence about what else it holds."""
    if not flags.config:
        return [], {}, ()
    config = read_config(flags.config, "the fields of a PersistentResource")
    with config.blamed():
        content = with_json_names(PersistentResource, config.content)
        pools, unknown = _split(content, allowed=flags.allow_unknown_fields, api_has=api_has)
    unused = [str(name) for name in content if name != POOLS]
    warning = f"{config.origin}: only {POOLS} counts, and {', '.join(unused)} is left out; flags say it."
    return pools, unknown, (warning,) if unused else ()


def _split(content: Document, *, allowed: bool, api_has: ApiHas) -> tuple[list[Document], Document]:
    """The pools of a file, checked, and what is not known in them; other fields are checked, and go."""
    for name in content if not content.get(POOLS) else ():
        if name not in fields(PersistentResource):
            read_message(PersistentResource, {name: None})  # which names the nearest field
    only_pools = {POOLS: content.get(POOLS)}
    pools, unknown = accepted_fields(PersistentResource, only_pools, allowed=allowed, api_has=api_has)
    others, _ = split_unknown(PersistentResource, {k: v for k, v in content.items() if k != POOLS})
    message = read_message(PersistentResource, others | pools)
    check_resource_pools(message.resource_pools)
    return to_document(message)[POOLS], unknown


FLAG = "--resource-pool-spec"
_NUMBERS = (
    "replica-count",
    "min-replica-count",
    "max-replica-count",
    "accelerator-count",
    "disk-size",
    "local-ssd-count",
)
KEYS = frozenset((*_NUMBERS, "machine-type", "accelerator-type", "disk-type"))
_PAIRS = (("min-replica-count", "max-replica-count"), ("accelerator-type", "accelerator-count"))


def parse_resource_pools(values: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """The pools of repeated flags, numbers as such. Raises UsageError where one does not parse."""
    pools = [split_dict(value, FLAG, KEYS) for value in values]
    return tuple(
        pool | {key: whole_number(pool[key], f"{FLAG}: {key}") for key in _NUMBERS if key in pool}
        for pool in pools
    )


def check_flag_pools(pools: Sequence[Mapping[str, Any]]) -> None:
    """Raise ConfigError for the first rule that a pool of the command line breaks."""
    for index, pool in enumerate(pools):
        where = f"{FLAG}: pool {index}"
        if not pool:
            raise ConfigError(f"{where} is empty.", hint="Give machine-type=n1-standard-4,replica-count=1.")
        if "machine-type" not in pool:
            raise ConfigError(f"{where} needs machine-type.", hint="Add machine-type=n1-standard-4.")
        for pair in _PAIRS:
            given = [key for key in pair if key in pool]
            if len(given) == 1:
                raise ConfigError(f"{where} has {given[0]} without {pair[1 - pair.index(given[0])]}.")
        if "replica-count" not in pool and "min-replica-count" not in pool:
            raise ConfigError(
                f"{where} needs replica-count.", hint="Or min-replica-count and max-replica-count."
            )
        check_resource_accelerator(f"{where}: accelerator-type", pool.get("accelerator-type", ""))


def resource_pool_document(pool: Mapping[str, Any]) -> dict[str, Any]:
    """The ResourcePool of a pool of the command line as JSON holds it; a count of 0 is left out."""
    machine: dict[str, Any] = {"machineType": pool["machine-type"]}
    if pool.get("accelerator-type"):
        machine["acceleratorType"] = pool["accelerator-type"]
        machine["acceleratorCount"] = pool["accelerator-count"]
    document: dict[str, Any] = {"machineSpec": machine}
    if pool.get("replica-count"):
        document["replicaCount"] = pool["replica-count"]
    if pool.get("min-replica-count") or pool.get("max-replica-count"):
        document["autoscalingSpec"] = {
            "minReplicaCount": pool["min-replica-count"],
            "maxReplicaCount": pool["max-replica-count"],
        }
    if pool.get("disk-type"):
        size = {"bootDiskSizeGb": pool["disk-size"]} if "disk-size" in pool else {}
        document["diskSpec"] = {"bootDiskType": pool["disk-type"], **size}
    return document


def unused_keys(pools: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """A sentence for each key that has no effect."""
    found = []
    for index, pool in enumerate(pools):
        if "disk-size" in pool and not pool.get("disk-type"):
            found.append(f"{FLAG}: pool {index} has disk-size without disk-type, and it is left out.")
        if "local-ssd-count" in pool:
            found.append(f"{FLAG}: pool {index} has local-ssd-count, which the API does not have.")
    return tuple(found)
