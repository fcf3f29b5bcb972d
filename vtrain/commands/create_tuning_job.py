"""`vtrain hp-tuning-jobs create`."""

from __future__ import annotations

import msgspec

from vtrain.commands.create import CreateFlags, check_key, create_drafted, read_wait
from vtrain.commands.drafting import with_local_flags
from vtrain.commands.session import Target, find_target
from vtrain.core.preparation import packages_place
from vtrain.core.references import find_reference
from vtrain.core.target import full_name
from vtrain.flags.job_line import job_line
from vtrain.flags.job_options import ContainerFlags, SpecFlags, TrainerFlags
from vtrain.flags.local_options import RuntimeFlags
from vtrain.flags.options import (
    CommonFlags,
    DryRunFlag,
    InterruptFlag,
    KeyFlag,
    PlaceFlags,
    PlaintextFlag,
    WaitFlags,
)
from vtrain.flags.row import given_flags
from vtrain.flags.tuning_config import check_given, compose_tuning, names_task, read_tuning_file
from vtrain.flags.tuning_options import StudyFlags, TuningFlags, study_options
from vtrain.messages.names import TUNING_JOB


def create(
    spec: TuningFlags,
    trainer: TrainerFlags,
    study: StudyFlags,
    run: DryRunFlag,
    once: KeyFlag,
    plaintext: PlaintextFlag,
    interrupt: InterruptFlag,
    waiting: WaitFlags,
    container: ContainerFlags,
    local: RuntimeFlags,
    place: PlaceFlags,
    common: CommonFlags,
    remainder: tuple[str, ...] | None,
) -> None:
    """Create the tuning job that the flags describe; with --dry-run only plan it."""
    check_given(spec)
    wait = read_wait(waiting, interrupt)
    check_key(once)
    file = read_tuning_file(spec)
    line = job_line(SpecFlags(), trainer, is_named=names_task(file))
    target = with_local_flags(find_target(common, place, kind=TUNING_JOB, region=line.region), local)
    target = with_study(target, study, place)
    packages = packages_place(target, line.trainer.staging_bucket)
    draft = compose_tuning(spec, file, line.request(remainder), target.settings.project, target.api_has)
    flags = CreateFlags(run=run, once=once, plaintext=plaintext, wait=wait, container=container)
    create_drafted(target, TUNING_JOB, draft, packages, line, flags)


def with_study(target: Target, study: StudyFlags, place: PlaceFlags) -> Target:
    """The target with what the flags say of the study. Raises UsageError, ConfigError for a service.

    The job to continue from may be named as in any other command.
    """
    options = study_options(study)
    for sentence in target.backend.ignored_flags(given_flags(study)):
        target.console.warn(sentence)
    if options.continue_from:
        reference = find_reference(options.continue_from, TUNING_JOB, place.region)
        name = reference.meant_on(target.backend, TUNING_JOB, target.console.columns)
        settings = target.settings
        name = full_name(name, TUNING_JOB, project=settings.project, location=settings.region)
        options = msgspec.structs.replace(options, continue_from=name)
    return msgspec.structs.replace(target, settings=msgspec.structs.replace(target.settings, study=options))
