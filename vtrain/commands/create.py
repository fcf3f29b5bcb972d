"""Every `create`: one job for a key, planned or made, and followed if that is wanted."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from vtrain.backends import LOCAL_PACE, SUPERVISE, Query
from vtrain.backends.interface import RuntimeBackend
from vtrain.backends.pager import all_jobs
from vtrain.command_log import is_repeated
from vtrain.commands.drafting import (
    PROJECT_HINT,
    launch_prepared,
    prepare_for,
    show_plan,
    with_local_flags,
)
from vtrain.commands.session import Session, Target, find_target, resource_document, sent_document
from vtrain.commands.watching import DETACH, Wait, come_back, interrupt_action, stay_to_the_end, wait_seconds
from vtrain.core.compose import Draft, JobRequest
from vtrain.core.config_file import ConfigFile
from vtrain.core.preparation import draft_request, packages_place, with_callers_values
from vtrain.core.references import command_about, find_reference, shown_name
from vtrain.core.submission import Place
from vtrain.core.target import full_name
from vtrain.errors import ConfigError, KeyTakenError, NotFoundError, UsageError
from vtrain.flags.grammar import whole_number
from vtrain.flags.job_options import CreationFlags, CustomJobLine, SpecFlags, TrainerFlags
from vtrain.flags.options import KeyFlag, PlaceFlags
from vtrain.flags.request import JobLine, job_line, key_layers
from vtrain.flags.row import given_flags, layers_of
from vtrain.messages.names import KEY_LABEL, PIPELINE, TUNING_JOB, ResourceKind
from vtrain.messages.resources import collection_of
from vtrain.messages.rules import check_labels
from vtrain.messages.states import UNSUCCESSFUL, job_state
from vtrain.output.colours import name
from vtrain.runtime.supervisor_process import stand_by

if TYPE_CHECKING:
    from vtrain.flags.pipeline_options import PipelineLine
    from vtrain.flags.tuning_options import StudyFlags, TuningJobLine
    from vtrain.messages.resources import Job


NO_NAME = "--display-name=NAME must be given, or displayName in the file of --config."


def create(given: CustomJobLine, remainder: tuple[str, ...] | None) -> None:
    """Create the custom job that the flags describe; with --dry-run only plan it."""
    line = job_line(given.spec, given.trainer)
    request = _named_request(line, remainder)
    wait = read_wait(given.how)
    target = find_target(given.common, given.place, region=line.region)
    target = with_local_flags(target, given.local)
    if isinstance(target.backend, RuntimeBackend) and not given.how.run.dry_run:
        # Its interpreter starts while this command reads and packages the trainer.
        stand_by(SUPERVISE, target.settings.home, target.choice.value)
    request = request.over(*key_layers(line.spec, target.settings.project))
    draft, packages = _named_draft(target, request, line.trainer)
    create_drafted(target, draft, packages, line, given.how, wait)


def create_tuning_job(given: TuningJobLine, remainder: tuple[str, ...] | None) -> None:
    """Create the tuning job that the flags describe; with --dry-run only plan it."""
    from vtrain.flags.tuning_config import check_given, read_tuning_file

    check_given(given.spec)
    wait = read_wait(given.how)
    create_study(given, remainder, read_tuning_file(given.spec), wait)


def create_study(
    given: TuningJobLine,
    remainder: tuple[str, ...] | None,
    file: ConfigFile,
    wait: Wait | None,
    *,
    as_file: bool = False,
) -> None:
    """Create the tuning job of a file and the flags over it; with --dry-run only plan it.

    The plan is printed as it would be sent or, `as_file`, for --config.
    """
    from vtrain.flags.tuning_config import compose_tuning, names_task

    spec = SpecFlags(yes=given.spec.yes, assignments=given.spec.assignments)
    line = job_line(spec, given.trainer, is_named=names_task(file))
    target = find_target(given.common, given.place, kind=TUNING_JOB, region=line.region)
    target = _with_study(with_local_flags(target, given.local), given.study, given.place)
    packages = packages_place(target, line.trainer.staging_bucket)
    keys = key_layers(given.spec, target.settings.project)
    request = line.request(remainder).over(*layers_of(given.spec), *keys)
    draft = compose_tuning(file, request, target.api_has)
    for flag, count in (
        ("--max-trial-count", given.spec.max_trial_count),
        ("--parallel-trial-count", given.spec.parallel_trial_count),
    ):
        if count is not None and not whole_number(count, flag):
            target.console.warn(f"{flag}={count} counts as not given, as in gcloud.")
    is_noted = as_file and not target.backend.is_local
    for parameter in draft.document["studySpec"]["parameters"] if is_noted else ():
        numbers = (parameter.get("discreteValueSpec") or {}).get("values") or [0.5]
        if all(float(number).is_integer() for number in numbers):  # which `type=int` of argparse refuses
            name, first = parameter["parameterId"], numbers[0]
            words = "|".join(str(int(number)) for number in numbers)
            target.console.progress(
                f"Note: Vertex AI may hand on --{name}={float(first)}: read it as a float, or write "
                f"'{name}={words}' to have it as it stands."
            )
    create_drafted(target, draft, packages, line, given.how, wait, as_file=as_file)


def create_pipeline(given: PipelineLine, remainder: tuple[str, ...] | None) -> None:
    """Create the training pipeline that the flags describe; with --dry-run only plan it."""
    from vtrain.flags.pipeline_config import as_pipeline, compose_pipeline, read_pipeline_file
    from vtrain.flags.tuning_config import compose_tuning, names_task

    wait = read_wait(given.how)
    file = read_pipeline_file(given.spec.config)
    is_named = file.task is not None and (names_task(file.task) or not file.is_tuning)
    line = job_line(given.spec, given.trainer, is_named=is_named)
    target = find_target(given.common, given.place, kind=PIPELINE, region=line.region)
    target = _with_study(with_local_flags(target, given.local), given.study, given.place)
    settings, local = target.settings, target.backend.is_local
    pipeline = compose_pipeline(
        file.pipeline,
        given.model,
        given.dataset,
        project=settings.project,
        location=settings.region,
        local=local,
    )
    keys = key_layers(line.spec, settings.project)
    if file.task is None or not file.is_tuning:
        request = _named_request(line, remainder).over(*keys)
        draft, packages = _named_draft(target, request, line.trainer, file.task)
    else:
        trial = with_callers_values(line.request(remainder), local=local).over(*keys)
        draft = compose_tuning(file.task, trial, target.api_has)
        packages = packages_place(target, line.trainer.staging_bucket)
    create_drafted(target, as_pipeline(draft, pipeline), packages, line, given.how, wait)


def _named_request(line: JobLine, remainder: tuple[str, ...] | None) -> JobRequest:
    """The request of a `create` line. Raises UsageError if the trainer or the job's name is missing."""
    request = line.request(remainder)
    if not request.says_what_runs:
        hint = (
            f"Name a script (vtrain submit train.py), or give --worker-pool-spec or --config. {PROJECT_HINT}"
        )
        raise UsageError("What to run is not given.", hint=hint)
    named = request.says("displayName") or request.fallback_name
    if request.config is None and not named and not request.assignments:
        raise UsageError(NO_NAME)
    return request


def _named_draft(
    target: Target, request: JobRequest, trainer: TrainerFlags, config: ConfigFile | None = None
) -> tuple[Draft, Place]:
    """The job that the flags of `create` describe, and where its packages go.

    `config` is the file of `--config`, where it was read already.
    """
    place = packages_place(target, trainer.staging_bucket)
    draft = draft_request(target, request, config)
    if "displayName" not in draft.document:
        raise UsageError(NO_NAME)
    return draft, place


def _with_study(target: Target, study: StudyFlags, place: PlaceFlags) -> Target:
    """The target with what the flags say of the study. Raises UsageError, ConfigError for a service.

    The job to continue from may be named as in any other command.
    """
    from vtrain.flags.tuning_options import study_options

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


def create_drafted(
    target: Target,
    draft: Draft,
    packages: Place,
    line: JobLine,
    how: CreationFlags,
    wait: Wait | None,
    *,
    as_file: bool = False,
) -> None:
    """Create the job of a draft; with --dry-run only plan it.

    The plan is printed as it would be sent or, `as_file`, without the trainer that was packaged for it.
    """
    draft, key = with_key(draft, how.once.idempotency_key)
    allowed = how.plaintext.allow_plaintext_secrets
    session, packages, prepared = prepare_for(
        target, draft, packages, line, how.container, secrets_allowed=allowed
    )
    show_plan(session, prepared, dry_run=how.run.dry_run)
    if how.run.dry_run:
        unknown = {} if session.is_local else prepared.plan.unknown_fields
        document = sent_document(prepared.plan.job, unknown)
        if as_file and draft.source is not None:
            for pool in document[draft.paths.spec]["workerPoolSpecs"]:
                pool.pop("pythonPackageSpec", None)
        session.console.result(document, "yaml")
        return
    kind = ResourceKind(collection=collection_of(prepared.plan.job))
    job, new = create_once(
        session,
        kind,
        key,
        lambda: launch_prepared(session, prepared, packages),
        reuse_failed=how.once.reuse_failed,
    )
    show_created(session, kind, job, wait, new=new)


def read_wait(how: CreationFlags) -> Wait | None:
    """How to wait for the new job, if at all; the key is checked, too.

    Raises UsageError for a time to wait without --wait or --stream-logs, and as `check_key` does.
    """
    waiting = how.waiting
    on_interrupt = interrupt_action(how.interrupt.on_interrupt, default=DETACH)
    timeout = wait_seconds(waiting.wait_timeout)
    stays = waiting.stream_logs or waiting.wait
    if timeout is not None and not stays:
        raise UsageError("--wait-timeout goes with --wait or --stream-logs.")
    check_key(how.once)
    return Wait(stream=waiting.stream_logs, timeout=timeout, on_interrupt=on_interrupt) if stays else None


def show_created(
    session: Session, kind: ResourceKind, job: Job, wait: Wait | None, *, new: bool = True
) -> None:
    """Say that the job is there, and print it: at once, or at its end, which then decides the exit code.

    A job that is not `new` was made by an earlier run with the same idempotency key.
    """
    log_command, _ = come_back(job.name).splitlines()
    done = "is submitted successfully" if new else "was submitted with this key before, and is taken as it is"
    session.console.status(f"{kind.noun} [", name(shown_name(job.name)), f"] {done}.")
    session.console.progress(f"\n$ {command_about(job.name, 'describe')}\n{log_command}\n")
    if wait is None:
        session.console.result(resource_document(job))
    else:
        stay_to_the_end(session, job.name, wait)


# --idempotency-key: a step that is run again, or twice at once, finds the job that its first run made.
# The key is a label of the job. So a label of that name is a key too, wherever it stands: in --labels, in a
# file, in the project's table.


LOOKS = 2
"""Looks, after a create at a service, for a job that another command made at the same time."""


def check_key(once: KeyFlag) -> None:
    """Raise UsageError for a key that no label can hold, and for a flag that means nothing without a key."""
    key = once.idempotency_key
    try:
        check_labels({KEY_LABEL: key or "none"})
    except ConfigError:
        key = ""
    if key == "":
        raise UsageError(
            "--idempotency-key: expected 1 to 63 of a-z, 0-9, '_' and '-'.", hint="A commit's hash will do."
        )
    if once.reuse_failed and key is None:
        raise UsageError("--reuse-failed goes with --idempotency-key.")


def with_key(draft: Draft, given: str | None, *, always_new: bool = False) -> tuple[Draft, str | None]:
    """The draft with its key among the labels, and the key: the one that is `given`, else that of a label.

    Neither where a new job is wanted whatever there is: with `always_new`, and for a line that `rerun` runs.
    """
    labels: dict[str, str] = draft.document.get("labels", {})
    others = {name: value for name, value in labels.items() if name != KEY_LABEL}
    key = None if always_new or is_repeated() else given or labels.get(KEY_LABEL)
    if key:
        others = dict(sorted((others | {KEY_LABEL: key}).items()))
    if others == labels:
        return draft, key
    return msgspec.structs.replace(draft, document=draft.document | {"labels": others}), key


def create_once(
    session: Session, kind: ResourceKind, key: str | None, create: Callable[[], Job], *, reuse_failed: bool
) -> tuple[Job, bool]:
    """The one job with this key, and whether it is new. Without a key `create` always makes one.

    A local backend compares keys in the step that stores the job. A service cannot: there the oldest job
    stays, and the one who made a later job cancels it.
    """
    if key is None:
        return create(), True
    if (earlier := _earlier_job(session, kind, key, failed_too=reuse_failed)) is not None:
        return earlier, False
    try:
        job = create()
    except KeyTakenError as taken:
        return session.jobs.get(taken.name), False
    oldest = job if session.is_local else _oldest(session, kind, key, job)
    if oldest.name == job.name:
        return job, True
    with suppress(NotFoundError):  # somebody has deleted it
        session.jobs.cancel(job.name)
    return oldest, False


def _oldest(session: Session, kind: ResourceKind, key: str, job: Job) -> Job:
    """The oldest job with this key after `job` was created, by all that `LOOKS` looks have shown."""
    pause = getattr(session.jobs, "pace", LOCAL_PACE).fastest
    for look in range(LOOKS):
        time.sleep(pause if look else 0)
        found = _earlier_job(session, kind, key, failed_too=False)
        job = min(job, found or job, key=_age)
    return job


def _earlier_job(session: Session, kind: ResourceKind, key: str, *, failed_too: bool) -> Job | None:
    """The oldest job with this key that counts; with `failed_too`, else the newest that does not."""
    settings = session.settings
    query = Query(
        collection=kind.collection,
        project=settings.project,
        location=settings.region,
        labels={KEY_LABEL: key},
    )
    found = list(all_jobs(session.jobs.list, query))
    counting = [job for job in found if job_state(job.state) not in UNSUCCESSFUL]
    if counting or not failed_too:
        return min(counting, key=_age, default=None)
    return max(found, key=_age, default=None)


def _age(job: Job) -> tuple[str, str]:
    """The order of creation; jobs of one moment by their names."""
    return job.create_time, job.name
