"""`vtrain custom-jobs create`."""

from __future__ import annotations

import msgspec

from vtrain.commands.after_create import read_staying, show_created
from vtrain.commands.drafting import (
    becomes_image,
    create_request,
    draft_job,
    image_order,
    open_for,
    show_plan,
    warn_of_name,
    with_local_flags,
)
from vtrain.commands.idempotency import check_key, create_once, with_key
from vtrain.commands.kinds import CUSTOM_JOB
from vtrain.commands.session import find_target, sent_document
from vtrain.flags.compose import Draft
from vtrain.flags.local import LocalFlags
from vtrain.flags.options import (
    CommonFlags,
    ContainerFlags,
    DryRunFlag,
    InterruptFlag,
    KeyFlag,
    PlaceFlags,
    PlaintextFlag,
    SpecFlags,
    TrainerFlags,
    WaitFlags,
)
from vtrain.flags.request import with_key_of
from vtrain.flags.secrets import check_secrets
from vtrain.submit import launch, prepare


def create(
    spec: SpecFlags,
    trainer: TrainerFlags,
    run: DryRunFlag,
    once: KeyFlag,
    plaintext: PlaintextFlag,
    interrupt: InterruptFlag,
    waiting: WaitFlags,
    container: ContainerFlags,
    local: LocalFlags,
    place: PlaceFlags,
    common: CommonFlags,
    remainder: tuple[str, ...] | None,
) -> None:
    """From the flags to a custom job that is there, or to the plan of one."""
    request = create_request(spec, trainer, remainder)
    staying = read_staying(waiting, interrupt)
    check_key(once)
    target = with_local_flags(find_target(common, place), local)
    request = with_key_of(request, spec, target.settings.project)
    draft, packages = draft_job(target, request, trainer)
    draft = keyed(draft, once.idempotency_key)
    baked = becomes_image(target, draft, packages, trainer, container)
    session = open_for(target, draft, container, baked=baked)
    if not baked:
        warn_of_name(session, draft)
    prepared = prepare(
        draft,
        session.backend,
        packages,
        strict=trainer.strict,
        image=image_order(session, draft) if baked else None,
    )
    told = check_secrets(
        prepared.plan.job,
        local=session.is_local,
        allowed=plaintext.allow_plaintext_secrets,
        strict=trainer.strict,
    )
    if told:
        session.console.warn(told)
    show_plan(session, prepared, dry_run=run.dry_run)
    if run.dry_run:
        unknown = {} if session.is_local else prepared.plan.unknown_fields
        session.console.result(sent_document(prepared.plan.job, unknown), "yaml")
        return
    job, new = create_once(
        session,
        CUSTOM_JOB,
        once,
        lambda: launch(prepared, session.backend, packages, session.console.progress),
    )
    show_created(session, CUSTOM_JOB, job, staying, new=new)


def keyed(draft: Draft, key: str | None) -> Draft:
    """The draft with the key among its labels."""
    labels = with_key(draft.document.get("labels", {}), key)
    return msgspec.structs.replace(draft, document=draft.document | ({"labels": labels} if labels else {}))
