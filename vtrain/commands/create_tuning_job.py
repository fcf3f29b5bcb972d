"""`vtrain hp-tuning-jobs create`."""

from __future__ import annotations

import msgspec

from vtrain.commands.create import create_drafted, read_wait
from vtrain.commands.drafting import with_local_flags
from vtrain.commands.session import Target, find_target
from vtrain.core.preparation import packages_place
from vtrain.core.references import find_reference
from vtrain.core.target import full_name
from vtrain.flags.job_line import job_line
from vtrain.flags.job_options import SpecFlags
from vtrain.flags.options import PlaceFlags
from vtrain.flags.row import given_flags
from vtrain.flags.tuning_config import check_given, compose_tuning, names_task, read_tuning_file
from vtrain.flags.tuning_options import StudyFlags, TuningJobLine, study_options
from vtrain.messages.names import TUNING_JOB


def create(given: TuningJobLine, remainder: tuple[str, ...] | None) -> None:
    """Create the tuning job that the flags describe; with --dry-run only plan it."""
    check_given(given.spec)
    wait = read_wait(given.how)
    file = read_tuning_file(given.spec)
    line = job_line(SpecFlags(), given.trainer, is_named=names_task(file))
    target = find_target(given.common, given.place, kind=TUNING_JOB, region=line.region)
    target = with_study(with_local_flags(target, given.local), given.study, given.place)
    packages = packages_place(target, line.trainer.staging_bucket)
    project, request = target.settings.project, line.request(remainder)
    draft = compose_tuning(given.spec, file, request, project, target.api_has)
    create_drafted(target, TUNING_JOB, draft, packages, line, given.how, wait)


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
