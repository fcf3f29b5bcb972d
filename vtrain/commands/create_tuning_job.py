"""`vtrain hp-tuning-jobs create`."""

from __future__ import annotations

import msgspec

from vtrain.commands.after_create import read_staying, show_created
from vtrain.commands.drafting import warn_all
from vtrain.commands.idempotency import check_key, create_once, with_key
from vtrain.commands.kinds import TUNING_JOB
from vtrain.commands.session import find_target, sent_document
from vtrain.flags.job_options import TuningFlags
from vtrain.flags.options import (
    CommonFlags,
    DryRunFlag,
    InterruptFlag,
    KeyFlag,
    PlaceFlags,
    PlaintextFlag,
    WaitFlags,
)
from vtrain.flags.secrets import check_secrets
from vtrain.flags.tuning_config import check_given, compose_tuning


def create(
    spec: TuningFlags,
    run: DryRunFlag,
    once: KeyFlag,
    plaintext: PlaintextFlag,
    interrupt: InterruptFlag,
    waiting: WaitFlags,
    place: PlaceFlags,
    common: CommonFlags,
) -> None:
    """From the flags to a tuning job that is there, or to the plan of one."""
    check_given(spec)
    target = find_target(common, place, kind=TUNING_JOB)
    staying = read_staying(waiting, interrupt)
    check_key(once)
    job, unknown = compose_tuning(spec, target.settings.project, target.api_has)
    job = msgspec.structs.replace(job, labels=with_key(job.labels, once.idempotency_key))
    session = target.open()
    plan = msgspec.structs.replace(session.jobs.plan(job), unknown_fields=unknown)
    told = check_secrets(
        plan.job, local=session.is_local, allowed=plaintext.allow_plaintext_secrets, strict=spec.strict
    )
    warn_all(session.console, (*([told] if told else ()), *plan.notices))
    if run.dry_run:
        session.console.result(sent_document(plan.job, plan.unknown_fields), "yaml")
        return
    created, new = create_once(session, TUNING_JOB, once, lambda: session.jobs.submit(plan))
    show_created(session, TUNING_JOB, created, staying, new=new)
