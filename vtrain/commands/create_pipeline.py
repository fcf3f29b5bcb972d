"""`vtrain training-pipelines create`."""

from __future__ import annotations

from vtrain.commands.create import create_drafted, read_wait
from vtrain.commands.create_tuning_job import with_study
from vtrain.commands.drafting import create_request, draft_job, with_local_flags
from vtrain.commands.session import Target, find_target
from vtrain.core.compose import Draft
from vtrain.core.preparation import packages_place
from vtrain.core.submission import Place
from vtrain.flags.job_line import JobLine, job_line
from vtrain.flags.pipeline_config import (
    PipelineFile,
    as_pipeline,
    read_pipeline_file,
    tuning_flags,
    with_dataset,
    with_model,
)
from vtrain.flags.pipeline_options import PipelineLine
from vtrain.flags.request import with_key_of
from vtrain.flags.tuning_config import compose_tuning, names_task
from vtrain.messages.names import PIPELINE


def create(given: PipelineLine, remainder: tuple[str, ...] | None) -> None:
    """Create the training pipeline that the flags describe; with --dry-run only plan it."""
    wait = read_wait(given.how)
    file = read_pipeline_file(given.spec.config)
    is_named = file.task is not None and (names_task(file.task) or not file.is_tuning)
    line = job_line(given.spec, given.trainer, is_named=is_named)
    target = find_target(given.common, given.place, kind=PIPELINE, region=line.region)
    target = with_study(with_local_flags(target, given.local), given.study, given.place)
    settings = target.settings
    pipeline = with_model(file.pipeline, given.model, project=settings.project, location=settings.region)
    pipeline = with_dataset(pipeline, given.dataset, local=target.backend.is_local)
    draft, packages = _draft_task(target, file, line, remainder)
    create_drafted(target, PIPELINE, as_pipeline(draft, pipeline), packages, line, given.how, wait)


def _draft_task(
    target: Target, file: PipelineFile, line: JobLine, remainder: tuple[str, ...] | None
) -> tuple[Draft, Place]:
    """The draft of the task's job, and where its packages go."""
    if file.task is None or not file.is_tuning:
        request = with_key_of(create_request(line, remainder), line.spec, target.settings.project)
        return draft_job(target, request, line.trainer, file.task)
    trial = line.request(remainder)
    flags = tuning_flags(line.spec)
    draft = compose_tuning(flags, file.task, trial, target.settings.project, target.api_has)
    return draft, packages_place(target, line.trainer.staging_bucket)
