"""The common part of create and local-run: flags to a draft, and the plan as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vtrain.backends import BackendSettings, Plan
from vtrain.backends.interface import CREDENTIALS_FLAG, ENVIRONMENT_FLAGS, RUNTIME_FLAGS
from vtrain.commands.session import CommandConsole, Session, Target, answer_to
from vtrain.core.compose import Draft
from vtrain.core.preparation import calls_for_image, open_draft, prepare_draft
from vtrain.core.submission import Place, Prepared, launch, would_make
from vtrain.errors import ConfigError, UsageError
from vtrain.flags.containers import container_flags, replica_options
from vtrain.flags.job_options import ContainerFlags, GpuFlags, TrainerFlags
from vtrain.flags.local_options import (
    ENVIRONMENT_FLAG,
    PYTHON_FLAG,
    LocalFlags,
    RuntimeFlags,
    active_environment,
    aip_dirs_form,
    debugger_of,
    python_request,
    simulated_preemption,
)
from vtrain.flags.request import JobLine
from vtrain.flags.row import given_flags
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, StudySpec
from vtrain.messages.resources import spec_of
from vtrain.messages.secrets import masked_words
from vtrain.output.colours import dim
from vtrain.output.console import Console
from vtrain.output.terminal import in_width
from vtrain.packaging.module_imports import LARGEST_SOURCE
from vtrain.packaging.sdist_plan import SdistPlan
from vtrain.runtime.notices import declaration, notes_on, without_consequence

if TYPE_CHECKING:
    from vtrain.messages.resources import Job
    from vtrain.packaging.image_plan import ImagePlan

MAX_WARNINGS = 10
_REPORTS = re.compile(rb"hypertune|CLOUD_ML_HP_METRIC_FILE")
_REPORTS_HERE = re.compile(_REPORTS.pattern + rb'|json|\{\\?"')
"""What a trainer mentions that reports metrics: it also writes JSON into a file or on stdout."""
_FOLDERS = re.compile(rb"environ\[[\"'](AIP_(?:MODEL|CHECKPOINT|TENSORBOARD_LOG)_DIR)[\"']\]")
"""The folders that a trainer cannot do without."""
_PROGRAMS = (".py", ".sh", ".ipynb")
_JOINED = re.compile(r"--?[A-Za-z][\w-]*[ =](?!-)[^\n]* --[A-Za-z]")
"""A flag with its value, and then another flag; a value may itself be flags."""
_WITHOUT_CUDA = re.compile(r"-docker\.pkg\.dev/vertex-ai/training/(?:tf|pytorch)(-cpu|-xla)\.")
PROJECT_HINT = "Or save the project's job in pyproject.toml, as [tool.vtrain.job]: vtrain init"


def with_local_flags(target: Target, local: RuntimeFlags) -> Target:
    """The target with what only this machine can do. Raises UsageError, ConfigError for a service."""
    active = active_environment(local)
    settings = msgspec.structs.replace(
        target.settings,
        debugger=debugger_of(local) if isinstance(local, LocalFlags) else None,
        preemption=simulated_preemption(local),
        aip_dirs=aip_dirs_form(local),
        python_downloads=local.python_downloads,
        python="" if active else python_request(local),
        environment=local.environment or "",
        active_python=active,
    )
    given = [flag for flag in given_flags(local) if flag in RUNTIME_FLAGS - ENVIRONMENT_FLAGS]
    for sentence in target.backend.ignored_flags([*given, *_python_flags(settings)]):
        target.console.warn(sentence)
    return msgspec.structs.replace(target, settings=settings)


def _python_flags(settings: BackendSettings) -> list[str]:
    """The flags that decided on the trainer's Python."""
    return [PYTHON_FLAG] * bool(settings.python) + [ENVIRONMENT_FLAG] * bool(settings.environment)


def is_baked(
    target: Target, draft: Draft, packages: Place, trainer: TrainerFlags, container: ContainerFlags
) -> bool:
    """Whether the trainer becomes an image: a flag says so or, without one, the backend runs nothing else.

    Raises UsageError for flags that contradict each other.
    """
    form = trainer.package_format
    if container.bake and form == "sdist":
        raise UsageError("--bake makes an image, and --package-format=sdist does not.")
    return container.bake or form == "image" or (form == "auto" and calls_for_image(target, draft, packages))


def open_for(
    target: Target,
    draft: Draft,
    packages: Place,
    line: JobLine,
    container: ContainerFlags,
    gpu: GpuFlags | None = None,
    *,
    baked: bool,
) -> tuple[Session, Place]:
    """The session in which the draft's job is started, and the place of its packages.

    Says whose job it is, and warns of flags that have no effect.
    """
    options = partial(replica_options, container, gpu)
    session, packages = open_draft(target, draft, packages, baked=baked, options=options)
    credentials = [CREDENTIALS_FLAG] * bool(session.settings.options.credentials_file)
    given = (*container_flags(container, gpu), *credentials, *_python_flags(target.settings))
    for sentence in session.backend.ignored_flags(given, builds_image=baked):
        session.console.warn(sentence)
    if line.origin:
        session.console.progress(line.origin)
    return session, packages


def prepare_for(
    target: Target,
    draft: Draft,
    packages: Place,
    line: JobLine,
    container: ContainerFlags,
    gpu: GpuFlags | None = None,
    *,
    secrets_allowed: bool = False,
) -> tuple[Session, Place, Prepared]:
    """The plan of the draft's job, with its session and the place of its packages.

    Warns of a name for an image where none is made. Raises ConfigError where an image is needed.
    """
    if draft.lacks_image and target.backend.image_form is not None:
        draft = _with_proposed_image(draft, target.console, taken=line.spec.yes)
    trainer, name = line.trainer, gpu.output_image_uri if gpu is not None else None
    baked = is_baked(target, draft, packages, trainer, container)
    session, packages = open_for(target, draft, packages, line, container, gpu, baked=baked)
    if name and draft.source is not None and trainer.package_format == "auto":
        baked = baked or session.backend.image_form is not None  # a name calls for one, as in gcloud
    if draft.output_image_uri and not baked:
        flag = "--output-image-uri" if name else "--worker-pool-spec: output-image-uri"
        session.console.warn(f"{flag} has no effect: no image is made of the trainer. --bake makes one.")
    prepared = prepare_draft(
        session, draft, packages, baked=baked, strict=trainer.strict, secrets_allowed=secrets_allowed
    )
    return session, packages, prepared


def _with_proposed_image(draft: Draft, console: CommandConsole, *, taken: bool) -> Draft:
    """The draft in the image that fits the trainer's imports, if it is `taken` or the user agrees.

    Only at a terminal is the user asked. Raises ConfigError if nobody takes it.
    """
    from vtrain.packaging.image_plan import no_base, proposed_image  # only few trainers come without an image

    assert draft.source is not None
    framework, image = proposed_image(draft.source, has_gpus=draft.has_gpus)
    refusal = no_base(draft.source, has_gpus=draft.has_gpus, can_take=True)
    if not taken:
        if not console.can_ask:
            raise refusal
        console.status(f"{refusal.message}\nFor {framework}: {image}")
        answer = answer_to(console, "Take it? [Y/n]: ", otherwise=refusal.message, hint=refusal.hint)
        if answer.lower() not in ("", "y", "yes"):
            raise ConfigError("No image is taken.", hint=refusal.hint)
    console.progress(in_width(f"Image: {image}, for {framework} ({'--yes' if taken else 'your answer'})."))
    return draft.with_image(image)


def launch_prepared(session: Session, prepared: Prepared, place: Place) -> Job:
    """Submit the job, and show on a terminal how far the making of its image is."""
    if prepared.image is None:
        return launch(prepared, session.jobs, place, session.console.progress)
    from vtrain.output.live_progress import live_progress

    with live_progress(session.console) as tell:
        return launch(prepared, session.jobs, place, tell)


def warn_all(console: Console, warnings: Sequence[str]) -> None:
    """The first warnings, and how many more there are."""
    for warning in warnings[:MAX_WARNINGS]:
        console.warn(warning)
    if len(warnings) > MAX_WARNINGS:
        console.warn(f"There are {len(warnings) - MAX_WARNINGS} more of these warnings.")


def show_plan(session: Session, prepared: Prepared, *, dry_run: bool) -> None:
    """Say what will be made, what is there already, and what this backend does not reproduce."""
    console, package = session.console, prepared.package
    if prepared.secrets:
        console.warn(prepared.secrets)
    warn_all(console, package.warnings if package is not None else ())
    for notice in (
        *_unreported_metric(prepared, local=session.is_local),
        *_unset_folders(prepared, local=session.is_local),
        *_joined_arguments(prepared.plan.job),
        *_idle_gpus(prepared.plan.job),
        *prepared.plan.notices,
    ):
        console.warn(notice)
    harmless, others = without_consequence(prepared.plan.not_reproduced)
    if others:
        console.warn(declaration(others))
    limited = bool(session.settings.options.memory_bytes)
    spec, backend = spec_of(prepared.plan.job), prepared.plan.backend
    effects = notes_on(harmless, spec, backend, memory_is_given=limited)
    for note in (*effects, *prepared.plan.notes):
        console.progress(dim(in_width(f"Note: {note}")))
    if dry_run and package is not None:
        console.progress(would_make(package))
        if prepared.image is not None and prepared.image.push:
            console.progress(f"Would push {prepared.image_uri}.")
        if prepared.upload_uri:
            console.progress(f"Would upload it to {prepared.upload_uri} unless it is there.")
    for step in prepared.plan.steps if dry_run else ():
        console.progress(step)
    if dry_run and prepared.plan.cached:
        console.progress(" ".join(f"{what}: cached." for what in prepared.plan.cached))
    if dry_run:
        _show_replicas(console, prepared.plan)


def _unreported_metric(prepared: Prepared, *, local: bool) -> Iterator[str]:
    """A warning about a study whose trainer does not seem to report a metric in a way that counts there."""
    job, package = prepared.plan.job, prepared.package
    if not isinstance(job, HyperparameterTuningJob) or package is None:
        return
    metrics = (job.study_spec or StudySpec()).metrics
    ways = _REPORTS_HERE if local else _REPORTS
    if not metrics or any(ways.search(text) for text in _programs(package)):
        return
    from vtrain.runtime.tuning.metric_file import how_to_report

    name = metrics[0].metric_id
    where = "N" if local else "On Vertex AI only what hypertune reports counts, and n"
    yield f"{where}o file of the trainer seems to report {name}.\n{how_to_report(name)}"


def _unset_folders(prepared: Prepared, *, local: bool) -> Iterator[str]:
    """A warning about folders that the service names only to a job with a base output directory.

    Source: `base_output_directory` of CustomJobSpec.
    """
    spec = spec_of(prepared.plan.job)
    if local or spec is None or spec.output_uri or prepared.package is None:
        return
    read = {name.decode() for text in _programs(prepared.package) for name in _FOLDERS.findall(text)}
    if read:
        names = " and ".join(sorted(read))
        yield f"the trainer reads {names}, which a job has only with --base-output-dir=gs://BUCKET/FOLDER"


def _programs(package: SdistPlan | ImagePlan) -> Iterator[bytes]:
    """The texts of a trainer's programs, as far as they can be read."""
    if isinstance(package, SdistPlan):
        paths = [package.source.folder / file.path for file in package.files]
    else:
        paths = [member.content for member in package.files if isinstance(member.content, Path)]
    for path in paths:
        if path.suffix in _PROGRAMS:
            with suppress(OSError), path.open("rb") as file:
                yield file.read(LARGEST_SOURCE)


def _joined_arguments(job: Job) -> Iterator[str]:
    """Warnings about arguments that hold several: the trainer gets each as one word."""
    spec = spec_of(job)
    tasks = [pool.task for pool in spec.worker_pool_specs if pool.task is not None] if spec else []
    for argument in dict.fromkeys(argument for task in tasks for argument in task.args):
        if _JOINED.match(argument):
            shown = masked_words([argument])[0]
            yield f"one argument: {shown!r}; separate words with commas in --args, or write them after --"


def _idle_gpus(job: Job) -> Iterator[str]:
    """A warning about GPUs that a pre-built image without CUDA leaves idle, and that cost all the same."""
    spec = spec_of(job)
    for pool in spec.worker_pool_specs if spec else ():
        image = pool.python_package_spec.executor_image_uri if pool.python_package_spec else ""
        found = _WITHOUT_CUDA.search(image)
        if found and pool.machine_spec and pool.machine_spec.accelerator_type.startswith("NVIDIA"):
            other = image.replace(found[1], "-gpu")
            yield f"the trainer sees no GPU in {image}: it has no CUDA; {other} may have it"
            return


def _show_replicas(console: Console, plan: Plan) -> None:
    """Say what would be started; of a tuning job, in each trial."""
    job, where = plan.job, ""
    parameters: tuple[str, ...] = ()
    if plan.replicas and isinstance(job, HyperparameterTuningJob):
        study = job.study_spec or StudySpec()
        parameters = tuple(f"--{parameter.parameter_id}=…" for parameter in study.parameters)
        where = " in each trial"
        trials = "1 trial" if job.max_trial_count == 1 else f"{job.max_trial_count} trials"
        at_a_time = min(job.parallel_trial_count, job.max_trial_count)
        console.progress(f"Would run {trials}, {at_a_time} at a time.")
    for replica in plan.replicas:
        words = " ".join((*masked_words(replica.argv), *parameters))
        console.progress(f"Would start {replica.name}{where}: {words}")
