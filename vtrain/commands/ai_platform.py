"""`vtrain ai-platform`: the command lines of AI Platform Training, in their old words."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from vtrain.ai_platform.translation import Translation, translate
from vtrain.backends.registry import choose_for
from vtrain.commands import jobs, watching
from vtrain.commands.create import create_drafted, read_wait
from vtrain.commands.drafting import with_local_flags
from vtrain.commands.job_lists import query_all
from vtrain.commands.local_run import local_run
from vtrain.commands.session import Target, find_target, open_session
from vtrain.core.compose import Draft, JobRequest, compose
from vtrain.core.job_layers import Layer, named, nobody
from vtrain.core.preparation import packages_place
from vtrain.digests import file_digest
from vtrain.errors import ConfigError, FieldError, NotFoundError, UsageError
from vtrain.flags.ai_platform_job import LegacyRequest, package_source, read_request
from vtrain.flags.ai_platform_options import (
    ClusterFlags,
    LegacyJobFlag,
    LegacyLine,
    PackageFlags,
    SubmitFlags,
)
from vtrain.flags.grammar import join_items, whole_number
from vtrain.flags.job_options import ContainerFlags, GpuFlags, LocalRunLine, SpecFlags, TrainerFlags
from vtrain.flags.local_options import InteractiveFlag, LocalFlags, RuntimeFlags
from vtrain.flags.options import (
    CommonFlags,
    DryRunFlag,
    InterruptFlag,
    JobNameFlag,
    PlaceFlags,
    StreamFlags,
)
from vtrain.flags.request import JobLine
from vtrain.flags.tuning_config import TRIAL, TUNING_PATHS
from vtrain.messages.codec import read_message, to_document
from vtrain.messages.custom_job import CustomJob, CustomJobSpec
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.names import AI_PLATFORM_LABEL, ANY_JOB, parse_name
from vtrain.messages.paths import CUSTOM_JOB_PATHS, PathRoot
from vtrain.messages.rules import check_enum_names
from vtrain.properties import property_value
from vtrain.staging import LocalBuckets

if TYPE_CHECKING:
    from vtrain.core.submission import Place
    from vtrain.messages.resources import Job


def submit(given: LegacyLine, remainder: tuple[str, ...] | None) -> None:
    """Create the job that the flags of AI Platform describe; or only plan it, or explain it."""
    spec, dry_run = given.spec, given.how.run.dry_run
    wait = read_wait(given.how)
    region = property_value("compute", "region")  # which counted for AI Platform, too
    target = find_target(given.common, given.place, region=region.value if region is not None else "")
    target = with_local_flags(target, given.local)
    settings = target.settings
    request = read_request(
        given.job.text, spec, given.package, remainder, region=settings.region, project=settings.project
    )
    if spec.explain:
        _explain(target, request, spec)
        return
    translation = translate(request.job, job_dir=_seen_job_dir(target, request, dry_run=dry_run))
    for note in translation.notes:
        target.console.warn(note)
    line = JobLine(spec=SpecFlags(), trainer=TrainerFlags(staging_bucket=_staging(spec, request)))
    packages = packages_place(target, line.trainer.staging_bucket)
    staged = _stage(target, request, packages, dry_run=dry_run)
    draft = _draft(target, request, translation.job, staged)
    create_drafted(target, draft, packages, line, given.how, wait)


def _seen_job_dir(target: Target, request: LegacyRequest, *, dry_run: bool) -> str:
    """The job directory as the trainer gets it. Raises ConfigError where it cannot be written."""
    uri = request.job.training_input.job_dir
    if not uri:
        return ""
    job = translate(request.job).job
    images = Draft(document=to_document(job), source=None, paths=_paths_of(job)).images
    backend = choose_for(target.choice.value, images.containers, images.executors).backend
    if backend.is_local and not dry_run:
        folder = LocalBuckets(target.settings.home).local_path(uri)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"--job-dir: {folder} cannot be written: {error.strerror}.") from error
    return backend.seen_folder(uri, target.settings)


def _staging(spec: SubmitFlags, request: LegacyRequest) -> str:
    """The bucket for packages; without one the job directory, as on AI Platform."""
    job_dir = request.job.training_input.job_dir
    return spec.staging_bucket or (f"{job_dir.rstrip('/')}/packages" if job_dir else "")


def _stage(target: Target, request: LegacyRequest, packages: Place, *, dry_run: bool) -> tuple[str, ...]:
    """The URIs of the packages that lie on this machine, staged now unless this is a dry run."""
    if request.files and not packages.staging_bucket and not target.backend.is_local:
        raise ConfigError("Local packages need a place in a bucket.", hint="Give --staging-bucket=gs://NAME.")
    uris = {file: packages.uri(file_digest(file), file.name) for file in request.files}
    if not dry_run and uris:
        packages.buckets.stage_all(uris, packages.show)
    return tuple(uris.values())


def _draft(target: Target, request: LegacyRequest, job: Job, staged: tuple[str, ...]) -> Draft:
    """The draft of the translated job, whose package is still to be made."""
    given = (*request.job.training_input.package_uris, *staged)
    document = to_document(job)
    name = document["displayName"]
    document["labels"] = document.get("labels", {}) | {AI_PLATFORM_LABEL: name.lower()[:63]}
    _set_packages(document, () if request.source is not None else given)
    if isinstance(job, HyperparameterTuningJob):
        try:
            check_enum_names(job.trial_job_spec or CustomJobSpec(), TRIAL)
        except FieldError as error:
            raise named(f"the job {name}")(error) from None
    wanted = JobRequest(source=request.source, layers=(Layer(nobody, document),))
    draft = compose(wanted, api_has=target.api_has, paths=_paths_of(job))
    if request.source is None or not given:
        return draft
    return msgspec.structs.replace(draft, wrap=partial(_with_packages, given))


def _paths_of(job: Job) -> PathRoot:
    return CUSTOM_JOB_PATHS if isinstance(job, CustomJob) else TUNING_PATHS


def _set_packages(document: dict[str, Any], uris: tuple[str, ...]) -> None:
    """Name these packages, and none else, in each pool that runs a Python package."""
    for task in _python_tasks(document):
        task.pop("packageUris", None)
        task |= {"packageUris": list(uris)} if uris else {}


def _with_packages(uris: tuple[str, ...], job: Job) -> Job:
    """The job with these packages before the one that was made, as AI Platform ordered them."""
    document = to_document(job)
    for task in _python_tasks(document):
        task["packageUris"] = [*uris, *task.get("packageUris", [])]
    return read_message(type(job), document)


def _python_tasks(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The Python packages that the pools of a job run."""
    spec = document.get("jobSpec") or document[TRIAL]
    return filter(None, (pool.get("pythonPackageSpec") for pool in spec["workerPoolSpecs"]))


# --explain


def _explain(target: Target, request: LegacyRequest, spec: SubmitFlags) -> None:
    """Print the command and the file that say the same, as one YAML file with the command in a comment."""
    translation = translate(request.job)
    for note in translation.notes:
        target.console.warn(note)
    target.console.write(f"# {_command(translation, request, spec)}\n".encode())
    document = to_document(translation.job)
    named: tuple[str, ...] = ()
    if request.source is None:
        named = (*request.job.training_input.package_uris, *(file.as_uri() for file in request.files))
    _set_packages(document, named)
    target.console.result(document, "yaml")


def _command(translation: Translation, request: LegacyRequest, spec: SubmitFlags) -> str:
    """The command line of vtrain, for a file with what is printed below it."""
    name = request.job.job_id
    is_custom = isinstance(translation.job, CustomJob)
    words = ["vtrain", "custom-jobs" if is_custom else "hp-tuning-jobs", "create", f"--display-name={name}"]
    words.append(f"--config={name}.yaml")
    if region := request.job.training_input.region:
        words.append(f"--region={region}")
    if request.source is not None:
        folder = request.source.folder
        words.append(f"--local-package-path={'.' if folder == Path.cwd() else folder}")
        words.append(f"--python-module={request.source.python_module}")
    if staging := _staging(spec, request):
        words.append(f"--staging-bucket={staging}")
    return shlex.join(words)


# jobs that are there


_OLD_NAME = re.compile(r"projects/[^/]+/jobs/([^/]+)")


def describe(job: LegacyJobFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Print one job."""
    jobs.describe(_found(job, place, common), place, common, kind=ANY_JOB)


def cancel(job: LegacyJobFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Ask a job to end."""
    jobs.cancel(_found(job, place, common), place, common, kind=ANY_JOB)


def stream_logs(job: LegacyJobFlag, stream: StreamFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """Print a job's log, to its end."""
    watching.stream_logs(_found(job, place, common), stream, place, common, kind=ANY_JOB)


def _found(job: LegacyJobFlag, place: PlaceFlags, common: CommonFlags) -> JobNameFlag:
    """The newest job of that name, by its name on Vertex AI. Raises NotFoundError."""
    text = job.text
    if old := _OLD_NAME.fullmatch(text):
        text = old[1]
    if text.isdecimal() or parse_name(text) is not None:
        return JobNameFlag(custom_job=text)
    session = open_session(msgspec.structs.replace(common, quiet=True), place, kind=ANY_JOB)
    query = query_all(session, ANY_JOB)
    query = msgspec.structs.replace(query, labels={AI_PLATFORM_LABEL: text.lower()[:63]})
    found = [
        each
        for collection in ANY_JOB.collections
        for each in session.jobs.list(msgspec.structs.replace(query, collection=collection)).jobs
        if each.display_name == text
    ]
    if not found:
        raise NotFoundError(
            f"There is no job {text}.", hint="See what there is:\n$ vtrain ai-platform jobs list"
        )
    return JobNameFlag(custom_job=max(found, key=attrgetter("create_time")).name)


# local train


MACHINE = "machine-type=n1-standard-4"
"""A pool has to name one; processes have no use for it."""
_JOB_DIR = "--job-dir"
DEFAULT_COUNT = 2
"""Workers, and parameter servers, where no number is given."""


def train(
    package: PackageFlags,
    cluster: ClusterFlags,
    interrupt: InterruptFlag,
    local: RuntimeFlags,
    place: PlaceFlags,
    common: CommonFlags,
    remainder: tuple[str, ...] | None,
) -> None:
    """`local-run` of the package. Its arguments are followed by the job directory, as gcloud does it."""
    if not package.module_name:
        raise UsageError("--module-name=MODULE must be given.")
    folder = "." if package.package_path is None else str(package_source(package).folder)
    args = (*(remainder or ()), *((_JOB_DIR, package.job_dir) if package.job_dir else ()))
    args = tuple(_with_users_folder(args, Path(folder).absolute()))
    counts = _counts(cluster)
    pools: list[str] = []
    if cluster.distributed:
        first = [MACHINE, "replica-count=1", f"local-package-path={folder}"]
        first.append(f"python-module={package.module_name}")
        pools = [join_items(first)]
        pools += [join_items([MACHINE, f"replica-count={count}"]) if count else "" for count in counts]
    config = {"job": {"job_name": package.module_name, "args": args}, "task": {}, "cluster": {}}
    env = [] if pools else [f"TF_CONFIG={json.dumps(config | {'environment': 'cloud'})}"]
    trainer = TrainerFlags()
    if not pools:
        trainer = TrainerFlags(local_package_path=folder, python_module=package.module_name)
    given = LocalRunLine(
        spec=SpecFlags(worker_pool_spec=pools, env=env),
        trainer=trainer,
        run=DryRunFlag(),
        interrupt=interrupt,
        typing=InteractiveFlag(),
        gpu=GpuFlags(),
        container=ContainerFlags(),
        local=LocalFlags(**{field: getattr(local, field) for field in local.__struct_fields__}),
        place=place,
        common=common,
    )
    local_run(given, args, command="local train")


def _with_users_folder(args: tuple[str, ...], folder: Path) -> Iterator[str]:
    """The arguments with the job directory below `folder`, where gcloud runs a trainer.

    Here it runs in a copy, which goes with the job.
    """
    before = ""
    for arg in args:
        flag, equals, value = ("", "", arg) if before == _JOB_DIR else arg.partition("=")
        is_job_dir = _JOB_DIR in (flag, before) and value and "://" not in value
        yield f"{flag}{equals}{folder / value}" if is_job_dir else arg
        before = arg


def _counts(cluster: ClusterFlags) -> tuple[int, ...]:
    """The workers, parameter servers and evaluators of a cluster, up to the last role that has some."""
    texts = {
        "--worker-count": (cluster.worker_count, DEFAULT_COUNT),
        "--parameter-server-count": (cluster.parameter_server_count, DEFAULT_COUNT),
        "--evaluator-count": (cluster.evaluator_count, 0),
    }
    counts = [whole_number(text, flag) if text else count for flag, (text, count) in texts.items()]
    while counts and not counts[-1]:
        counts.pop()
    return tuple(counts)
