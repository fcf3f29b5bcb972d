"""`vtrain persistent-resources`: machines that stay up between jobs; on this machine, slots."""

from __future__ import annotations

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
from vtrain.flags.job_options import ForceFlag, PersistentResourceFlags, ResourceNameFlag
from vtrain.flags.options import CommonFlags, DryRunFlag, ListFlags, PlaceFlags
from vtrain.flags.resource_config import check_given, compose_resource, preload_modules
from vtrain.messages.names import PERSISTENT_RESOURCE, ResourceName
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
    found = [each for page in pages(session.resources.list_resources, query) for each in page.resources]
    documents = map(resource_document, found)
    without_ray = (
        each for each in documents if (each.get("resourceRuntimeSpec") or {}).get("raySpec") is None
    )
    show_resources(session, PERSISTENT_RESOURCE, listing, without_ray)


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
