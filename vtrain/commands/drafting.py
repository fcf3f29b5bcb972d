"""The common part of create and local-run: flags to a draft, and the plan as text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from vtrain.backends import BackendSettings, Plan
from vtrain.backends.image_order import ImageOrder, ImageWish
from vtrain.backends.interface import CREDENTIALS_FLAG, RuntimeBackend, TrainerForm
from vtrain.commands.session import Session, Target, check_current_folder
from vtrain.core.compose import Draft, JobRequest, compose
from vtrain.core.config_file import ConfigFile
from vtrain.core.secret_variables import with_callers_values
from vtrain.core.submission import Place, Prepared, launch, prepare, would_make
from vtrain.errors import ConfigError, UsageError
from vtrain.flags.containers import container_flags, replica_options
from vtrain.flags.job_options import ContainerFlags, GpuFlags, TrainerFlags
from vtrain.flags.local_options import (
    AIP_DIRS_FLAG,
    DEBUGPY_FLAG,
    ENVIRONMENT_FLAG,
    PREEMPTION_FLAG,
    PYTHON_DOWNLOADS_FLAG,
    PYTHON_FLAG,
    LocalFlags,
    RuntimeFlags,
    active_environment,
    aip_dirs_form,
    debugger_of,
    python_request,
    simulated_preemption,
)
from vtrain.flags.project_job import JobLine
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, StudySpec
from vtrain.messages.resources import spec_of
from vtrain.messages.secrets import masked_words
from vtrain.output.colours import dim
from vtrain.output.console import Console
from vtrain.packaging.sdist_plan import declares_nothing
from vtrain.packaging.source import interpreter_of
from vtrain.runtime.debugging import REQUIREMENT
from vtrain.runtime.notices import declaration, notes_on, without_consequence
from vtrain.settings import find_staging_bucket

if TYPE_CHECKING:
    from vtrain.messages.resources import Job

MAX_WARNINGS = 10
OLDEST_TRAINER_PYTHON = (3, 7)
"""The oldest Python that runs the start of a script's package."""
POOL_KEY = "--worker-pool-spec: output-image-uri"
_JOINED = re.compile(r"--?[A-Za-z][\w-]*[ =](?!-)[^\n]* --[A-Za-z]")
"""A flag with its value, and then another flag; a value may itself be flags."""
PROJECT_HINT = "Or save the project's job in pyproject.toml, as [tool.vtrain.job]: vtrain init"
NO_NAME = "--display-name=NAME must be given, or displayName in the file of --config."


def create_request(line: JobLine, remainder: tuple[str, ...] | None) -> JobRequest:
    """The request of a `create` line. Raises UsageError if the trainer or the job's name is missing."""
    request = line.request(remainder)
    if request.config is None and not request.pools and request.source is None:
        hint = (
            f"Name a script (vtrain submit train.py), or give --worker-pool-spec or --config. {PROJECT_HINT}"
        )
        raise UsageError("What to run is not given.", hint=hint)
    named = "displayName" in request.fields or request.fallback_name
    if request.config is None and not named and not request.assignments:
        raise UsageError(NO_NAME)
    return request


def draft_job(
    target: Target, request: JobRequest, trainer: TrainerFlags, config: ConfigFile | None = None
) -> tuple[Draft, Place]:
    """The job that the flags of `create` describe, and where its packages go.

    `config` is the file of `--config`, where it was read already.
    """
    place = packages_place(target, trainer)
    draft = draft_request(target, request, config)
    if "displayName" not in draft.document:
        raise UsageError(NO_NAME)
    return draft, place


def draft_request(target: Target, request: JobRequest, config: ConfigFile | None = None) -> Draft:
    """The draft of a request, with the caller's values for `--env NAME`, and with debugpy if it is wanted."""
    request = with_callers_values(request, local=target.backend.is_local)
    draft = compose(
        request, executor_required=not target.backend.is_local, api_has=target.api_has, config=config
    )
    if target.settings.debugger is None or draft.source is None:
        return draft
    script = draft.source.script
    if script and interpreter_of(draft.source.folder / script, script):
        raise ConfigError(f"{DEBUGPY_FLAG} is for Python, and {script} is not a Python script.")
    requirements = (*draft.source.requirements, REQUIREMENT)
    return msgspec.structs.replace(
        draft, source=msgspec.structs.replace(draft.source, requirements=requirements)
    )


def with_local_flags(target: Target, local: RuntimeFlags) -> Target:
    """The target with what only this machine can do. Raises UsageError, ConfigError for a service."""
    debugger = debugger_of(local) if isinstance(local, LocalFlags) else None
    preemption, aip_dirs = simulated_preemption(local), aip_dirs_form(local)
    given = [PREEMPTION_FLAG] * bool(preemption) + [AIP_DIRS_FLAG] * bool(aip_dirs)
    given += [PYTHON_DOWNLOADS_FLAG] * local.python_downloads + [DEBUGPY_FLAG] * bool(debugger)
    active, python = active_environment(local), python_request(local)
    settings = msgspec.structs.replace(
        target.settings,
        preemption=preemption,
        aip_dirs=aip_dirs,
        python_downloads=local.python_downloads,
        python="" if active else python,
        environment=local.environment or "",
        active_python=active,
        debugger=debugger,
    )
    for sentence in target.backend.ignored_flags([*given, *_python_flags(settings)]):
        target.console.warn(sentence)
    return msgspec.structs.replace(target, settings=settings)


def _python_flags(settings: BackendSettings) -> list[str]:
    """The flags that decided on the trainer's Python."""
    return [PYTHON_FLAG] * bool(settings.python) + [ENVIRONMENT_FLAG] * bool(settings.environment)


def in_active_python(target: Target, draft: Draft, packages: Place, python: str = "") -> tuple[Target, Place]:
    """A trainer that declares nothing runs in the active Python, as `python train.py` would.

    It names no image, requirement or project, and no flag says where it runs. Without an active Python that
    runs packages of vtrain's, and for --debugpy has debugpy, it gets an environment, as any other trainer.
    `python` is the active one, where that is known. Raises PackagingError for a project that cannot be read.
    """
    settings, source = target.settings, draft.source
    is_package = isinstance(target.backend, RuntimeBackend) and (
        target.backend.trainer_form is TrainerForm.PACKAGE
    )
    if not is_package or settings.python or settings.environment or draft.executor_image_uri:
        return target, packages
    if source is None or not declares_nothing(source, beside=(REQUIREMENT,) if settings.debugger else ()):
        return target, packages
    from vtrain.runtime.environments.active_python import active_python, version_of, view_of
    from vtrain.runtime.environments.interpreters import base_interpreter

    try:
        python = python or active_python(os.environ)
        is_usable = version_of(python) >= OLDEST_TRAINER_PYTHON
        if not is_usable or (settings.debugger and view_of(python, (REQUIREMENT,)).missing):
            return target, packages
    except ConfigError as error:
        target.console.warn(f"{error.message} The trainer gets an environment.")
        return target, packages
    origin = f"{target.choice.origin}; in your active Python"
    is_other = os.path.realpath(python) != os.path.realpath(base_interpreter().path)
    return (
        msgspec.structs.replace(
            target,
            choice=msgspec.structs.replace(target.choice, origin=origin),
            settings=msgspec.structs.replace(settings, active_python=python),
        ),
        msgspec.structs.replace(packages, checks_imports=False, other_python=is_other),
    )


def open_for(
    target: Target, draft: Draft, container: ContainerFlags, gpu: GpuFlags | None = None, *, baked: bool
) -> Session:
    """The session in which the draft's job is started. Warns of flags that have no effect in it.

    `baked` says that the trainer becomes an image, which only containers run.
    """
    options = replica_options(container, gpu)
    images = draft.images
    if baked:
        images = msgspec.structs.replace(images, containers=(*images.containers, *images.executors))
    python_flags = _python_flags(target.settings)
    if python_flags and not baked:  # an image that is only named does not call for a container then
        images = msgspec.structs.replace(images, executors=())
    session = target.open(images, options)
    credentials = [CREDENTIALS_FLAG] * bool(options.credentials_file)
    given = (*container_flags(container, gpu), *credentials, *python_flags)
    for sentence in session.backend.ignored_flags(given, builds_image=baked):
        session.console.warn(sentence)
    return session


def prepare_in_session(
    target: Target,
    draft: Draft,
    packages: Place,
    trainer: TrainerFlags,
    container: ContainerFlags,
    *,
    origin: str = "",
    python: str = "",
) -> tuple[Session, Prepared]:
    """The session in which a job is created, and its plan. `origin` says whose job it is.

    `python` is the active Python, where that is known.
    """
    baked = becomes_image(target, draft, packages, trainer, container)
    if not baked:
        target, packages = in_active_python(target, draft, packages, python)
    session = open_for(target, draft, container, baked=baked)
    session.tell_origin(origin)
    if not baked:
        warn_of_name(session, draft)
    image = image_order(session, draft) if baked else None
    with draft.blamed():
        return session, prepare(draft, session.jobs, packages, strict=trainer.strict, image=image)


def warn_of_name(session: Session, draft: Draft, flag: str = POOL_KEY) -> None:
    """Say that a name for an image has no effect where none is made."""
    if draft.output_image_uri:
        session.console.warn(f"{flag} has no effect: no image is made of the trainer. --bake makes one.")


def image_order(session: Session, draft: Draft) -> ImageOrder:
    """The order for the trainer's image: for the engine here, or published for a service.

    Raises UsageError where there is nothing to make one of, and as the backend refuses it.
    """
    if draft.source is None:
        raise UsageError("There is no trainer to make an image of.", hint="Give --local-package-path=DIR.")
    options = session.settings.options
    wish = ImageWish(
        name=draft.output_image_uri,
        platform=options.platform,
        pull=options.pull,
        project=session.settings.project,
        display_name=draft.document.get("displayName", ""),
    )
    return session.backend.image_order(wish)


def becomes_image(
    target: Target, draft: Draft, place: Place, trainer: TrainerFlags, container: ContainerFlags
) -> bool:
    """Whether the trainer becomes an image: where that is asked for, or the backend runs images.

    A staging bucket decides for a Python package. Raises UsageError for flags that contradict each other.
    """
    if container.bake and trainer.package_format == "sdist":
        raise UsageError("--bake makes an image, and --package-format=sdist does not.")
    if container.bake or trainer.package_format != "auto":
        return container.bake or trainer.package_format == "image"
    if draft.source is None or target.backend.trainer_form is TrainerForm.PACKAGE:
        return False
    return target.backend.trainer_form is TrainerForm.LOCAL_IMAGE or not place.staging_bucket


def launch_prepared(session: Session, prepared: Prepared, place: Place) -> Job:
    """Submit the job, and show on a terminal how far the making of its image is."""
    if prepared.image is None:
        return launch(prepared, session.jobs, place, session.console.progress)
    from vtrain.output.live_progress import live_progress

    with live_progress(session.console) as tell:
        return launch(prepared, session.jobs, place, tell)


def packages_place(target: Target, trainer: TrainerFlags) -> Place:
    """The place where packages are made and staged. Raises ConfigError in a folder that was removed."""
    check_current_folder()
    return Place(
        home=target.settings.home,
        buckets=target.backend.buckets(target.settings),
        staging_bucket=find_staging_bucket(trainer.staging_bucket),
        show=target.console.show_state,
        warn=target.console.warn,
        checks_imports=not target.settings.active_python,
        other_python=bool(target.settings.python or target.settings.active_python),
        is_service=not target.backend.is_local,
    )


def warn_all(console: Console, warnings: Sequence[str]) -> None:
    """The first warnings, and how many more there are."""
    for warning in warnings[:MAX_WARNINGS]:
        console.warn(warning)
    if len(warnings) > MAX_WARNINGS:
        console.warn(f"There are {len(warnings) - MAX_WARNINGS} more of these warnings.")


def show_plan(session: Session, prepared: Prepared, *, dry_run: bool) -> None:
    """Say what will be made, what is there already, and what this backend does not reproduce."""
    console, package = session.console, prepared.package
    warn_all(console, package.warnings if package is not None else ())
    for notice in (*_joined_arguments(prepared.plan.job), *prepared.plan.notices):
        console.warn(notice)
    harmless, others = without_consequence(prepared.plan.not_reproduced)
    if others:
        console.warn(declaration(others))
    limited = bool(session.settings.options.memory_bytes)
    spec, backend = spec_of(prepared.plan.job), prepared.plan.backend
    for note in notes_on(harmless, spec, backend, memory_is_given=limited):
        console.progress(dim(f"Note: {note}"))
    for note in prepared.plan.notes:
        console.progress(dim(f"Note: {note}"))
    if dry_run and package is not None:
        console.progress(would_make(package))
        if prepared.image is not None and prepared.image.push:
            console.progress(f"Would push {prepared.image_uri}.")
    for step in prepared.plan.steps if dry_run else ():
        console.progress(step)
    if dry_run and prepared.plan.cached:
        console.progress(" ".join(f"{what}: cached." for what in prepared.plan.cached))
    if dry_run:
        _show_replicas(console, prepared.plan)


def _joined_arguments(job: Job) -> Iterator[str]:
    """Warnings about arguments that hold several: the trainer gets each as one word."""
    spec = spec_of(job)
    tasks = [pool.task for pool in spec.worker_pool_specs if pool.task is not None] if spec else []
    for argument in dict.fromkeys(argument for task in tasks for argument in task.args):
        if _JOINED.match(argument):
            shown = masked_words([argument])[0]
            yield f"one argument: {shown!r}; separate words with commas in --args, or write them after --"


def _show_replicas(console: Console, plan: Plan) -> None:
    """Say what would be started; of a tuning job, in each trial."""
    job, where = plan.job, ""
    parameters: tuple[str, ...] = ()
    if plan.replicas and isinstance(job, HyperparameterTuningJob):
        study = job.study_spec or StudySpec()
        parameters = tuple(f"--{parameter.parameter_id}=…" for parameter in study.parameters)
        where = " in each trial"
        trials = "1 trial" if job.max_trial_count == 1 else f"{job.max_trial_count} trials"
        console.progress(f"Would run {trials}, {job.parallel_trial_count} at a time.")
    for replica in plan.replicas:
        words = " ".join((*masked_words(replica.argv), *parameters))
        console.progress(f"Would start {replica.name}{where}: {words}")
