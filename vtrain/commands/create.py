"""`vtrain custom-jobs create`."""

from __future__ import annotations

import msgspec

from vtrain.backends.base import RuntimeBackend
from vtrain.backends.programs import SUPERVISE
from vtrain.commands.after_create import Staying, read_staying, show_created
from vtrain.commands.drafting import (
    create_request,
    draft_job,
    launch_prepared,
    prepare_in_session,
    show_plan,
    with_local_flags,
)
from vtrain.commands.idempotency import check_key, create_once, with_key
from vtrain.commands.kinds import CUSTOM_JOB, ResourceKind
from vtrain.commands.session import Target, find_target, sent_document
from vtrain.core.compose import Draft
from vtrain.core.secrets import check_secrets
from vtrain.core.submission import Place
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
from vtrain.flags.project_job import JobLine, job_line
from vtrain.flags.request import with_key_of
from vtrain.runtime.supervisor_process import stand_by


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
    """Create the custom job that the flags describe; with --dry-run only plan it."""
    line = job_line(spec, trainer)
    spec, trainer = line.spec, line.trainer
    request = create_request(line, remainder)
    staying = read_staying(waiting, interrupt)
    check_key(once)
    target = with_local_flags(find_target(common, place, region=line.region), local)
    if isinstance(target.backend, RuntimeBackend) and not run.dry_run:
        # Its interpreter starts while this command reads and packages the trainer.
        stand_by(SUPERVISE, target.settings.home, target.choice.value)
    request = with_key_of(request, spec, target.settings.project)
    draft, packages = draft_job(target, request, trainer)
    manner = Manner(run=run, once=once, plaintext=plaintext, staying=staying, container=container)
    create_drafted(target, CUSTOM_JOB, draft, packages, line, manner)


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """The flags that say how a draft becomes a job: planned only, once for a key, followed to its end."""

    run: DryRunFlag
    once: KeyFlag
    plaintext: PlaintextFlag
    staying: Staying
    container: ContainerFlags


def create_drafted(
    target: Target, kind: ResourceKind, draft: Draft, packages: Place, line: JobLine, manner: Manner
) -> None:
    """Create the job of a draft; with --dry-run only plan it."""
    draft, key = with_key(draft, manner.once.idempotency_key)
    session, prepared = prepare_in_session(
        target, draft, packages, line.trainer, manner.container, origin=line.origin
    )
    told = check_secrets(
        prepared.plan.job,
        local=session.is_local,
        allowed=manner.plaintext.allow_plaintext_secrets,
        strict=line.trainer.strict,
    )
    if told:
        session.console.warn(told)
    show_plan(session, prepared, dry_run=manner.run.dry_run)
    if manner.run.dry_run:
        unknown = {} if session.is_local else prepared.plan.unknown_fields
        session.console.result(sent_document(prepared.plan.job, unknown), "yaml")
        return
    job, new = create_once(
        session,
        kind,
        key,
        lambda: launch_prepared(session, prepared, packages),
        reuse_failed=manner.once.reuse_failed,
    )
    show_created(session, kind, job, manner.staying, new=new)
