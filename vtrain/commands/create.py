"""`vtrain custom-jobs create`."""

from __future__ import annotations

from vtrain.commands.drafting import draft_job, image_order, is_baked, open_for, show_plan
from vtrain.commands.session import Session, find_target, job_document
from vtrain.commands.watching import DETACH, come_back, interrupt_action, stay_to_the_end, wait_seconds
from vtrain.errors import UsageError
from vtrain.flags.options import (
    CommonFlags,
    ContainerFlags,
    DryRunFlag,
    InterruptFlag,
    PlaceFlags,
    SpecFlags,
    TrainerFlags,
    WaitFlags,
)
from vtrain.messages.custom_job import CustomJob
from vtrain.submit import launch, prepare


def create(
    spec: SpecFlags,
    trainer: TrainerFlags,
    run: DryRunFlag,
    interrupt: InterruptFlag,
    waiting: WaitFlags,
    container: ContainerFlags,
    place: PlaceFlags,
    common: CommonFlags,
    remainder: tuple[str, ...] | None,
) -> None:
    """Create a custom job, and with --stream-logs or --wait stay until it ends.

    What follows -- are the trainer's own arguments.
    """
    target = find_target(common, place)
    on_interrupt = interrupt_action(interrupt.on_interrupt, default=DETACH)
    timeout = wait_seconds(waiting.wait_timeout)
    if timeout is not None and not (waiting.stream_logs or waiting.wait):
        raise UsageError("--wait-timeout goes with --wait or --stream-logs.")
    draft, packages = draft_job(target, spec, trainer, remainder)
    baked = is_baked(trainer, container)
    session = open_for(target, draft, container, baked=baked)
    prepared = prepare(
        draft,
        session.backend,
        packages,
        strict=trainer.strict,
        executor_required=not session.is_local,
        image=image_order(session, draft) if baked else None,
    )
    show_plan(session, prepared, dry_run=run.dry_run)
    if run.dry_run:
        session.console.result(job_document(prepared.plan.job), "yaml")
        return
    job = launch(prepared, session.backend, packages, session.console.progress)
    _announce(session, job)
    if waiting.stream_logs or waiting.wait:
        stay_to_the_end(
            session, job.name, stream=waiting.stream_logs, timeout=timeout, on_interrupt=on_interrupt
        )
    else:
        session.console.result(job_document(job))


def _announce(session: Session, job: CustomJob) -> None:
    session.console.status(f"CustomJob [{job.name}] is submitted successfully.")
    log_command, _ = come_back(job.name).splitlines()
    session.console.progress(f"\n$ vtrain custom-jobs describe {job.name}\n{log_command}\n")
