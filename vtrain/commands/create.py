"""`vtrain custom-jobs create`."""

from __future__ import annotations

import msgspec

from vtrain.backends.base import RuntimeBackend
from vtrain.commands.after_create import read_staying, show_created
from vtrain.commands.drafting import (
    create_request,
    draft_job,
    prepare_in_session,
    show_plan,
    with_local_flags,
)
from vtrain.commands.idempotency import check_key, create_once, with_key
from vtrain.commands.kinds import CUSTOM_JOB
from vtrain.commands.session import find_target, sent_document
from vtrain.flags.compose import Draft
from vtrain.flags.job_options import ContainerFlags, SpecFlags, TrainerFlags
from vtrain.flags.local import LocalFlags
from vtrain.flags.options import (
    CommonFlags,
    DryRunFlag,
    InterruptFlag,
    KeyFlag,
    PlaceFlags,
    PlaintextFlag,
    WaitFlags,
)
from vtrain.flags.project_job import job_line
from vtrain.flags.request import with_key_of
from vtrain.flags.secrets import check_secrets
from vtrain.runtime.supervisor_process import stand_by
from vtrain.submission import launch


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
    line = job_line(spec, trainer, remainder)
    spec, trainer = line.spec, line.trainer
    request = create_request(line, remainder)
    staying = read_staying(waiting, interrupt)
    check_key(once)
    target = with_local_flags(find_target(common, place, region=line.region), local)
    if isinstance(target.backend, RuntimeBackend) and not run.dry_run:
        stand_by(target.settings.home, target.choice.value)
    request = with_key_of(request, spec, target.settings.project)
    draft, packages = draft_job(target, request, trainer)
    draft = keyed(draft, once.idempotency_key)
    session, prepared = prepare_in_session(target, draft, packages, trainer, container, origin=line.origin)
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
        lambda: launch(prepared, session.jobs, packages, session.console.progress),
    )
    show_created(session, CUSTOM_JOB, job, staying, new=new)


def keyed(draft: Draft, key: str | None) -> Draft:
    """The draft with the key among its labels."""
    labels = with_key(draft.document.get("labels", {}), key)
    return msgspec.structs.replace(draft, document=draft.document | ({"labels": labels} if labels else {}))
