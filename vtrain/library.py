"""vtrain as a library: submit a job, follow it, get one that is there. Its names are also `vtrain.NAME`.

Nothing is printed, no signal handler is installed, and the interpreter is never ended: what the command line
shows goes to the logger `vtrain`, and each error is a VtrainError. Ctrl-C ends a wait, and not the job.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from vtrain.backends.pager import log_pages
from vtrain.backends.registry import open_found
from vtrain.core.compose import JobRequest, make_source
from vtrain.core.following import Follow, looks
from vtrain.core.job_layers import POOLS, Layer, named
from vtrain.core.preparation import calls_for_image, draft_request, open_draft, packages_place, prepare_draft
from vtrain.core.project_job import find_project_job, job_layers, project_request
from vtrain.core.python_arguments import count, path, seconds, switch, text, text_dict, text_list, texts
from vtrain.core.submission import launch
from vtrain.core.target import Reporter, Wish, choose_target
from vtrain.core.verdict import failure_of, raise_verdict
from vtrain.errors import ConfigError, JobFailedError, NotFoundError, UsageError, VtrainError
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.hardware import accelerator_named
from vtrain.messages.log import LogEntry, LogPage, LogQuery
from vtrain.messages.rules import ACCELERATORS, enum_hint
from vtrain.messages.states import FAILED, has_ended, job_state, short
from vtrain.output.layout import in_columns
from vtrain.output.terminal import on_one_line
from vtrain.properties import use_configuration
from vtrain.pyproject import ProjectJob
from vtrain.runtime.folder import CLOUD_LOGGING, SERVICE
from vtrain.runtime.replica.vertex_view import replica_ids
from vtrain.runtime.supervisor_process import reap
from vtrain.settings import user_path
from vtrain.staging import LocalBuckets

if TYPE_CHECKING:
    from vtrain.backends import JobBackend
    from vtrain.core.compose import JobRequest
    from vtrain.core.target import Session
    from vtrain.messages.resources import Job as AnyJob
    from vtrain.packaging.source import TrainerSource

logger = logging.getLogger("vtrain")
logger.addHandler(logging.NullHandler())

StrPath = str | os.PathLike[str]
Machine = dict[str, Any]
_NO_MACHINE: Machine = {
    "machine_type": "",
    "replica_count": 1,
    "accelerator_type": "",
    "accelerator_count": 0,
    "gpus": "",
    "boot_disk_size": 0,
}


class Job:
    """A job on this machine or on Vertex AI. Its properties tell what was seen last; `refresh` asks again."""

    def __init__(self, session: Session[_Silent], message: AnyJob) -> None:
        """Use `submit` or `get`."""
        self._session = session
        self._of_thread = threading.local()
        self._of_thread.jobs = session.jobs
        self.message = message
        """The job as the API describes it."""

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.display_name!r} {self.state}>"

    @property
    def name(self) -> str:
        """The full resource name."""
        return self.message.name

    @property
    def id(self) -> str:
        """The last part of the name."""
        return self.name.rpartition("/")[2]

    @property
    def display_name(self) -> str:
        """The name that people gave the job."""
        return self.message.display_name

    @property
    def state(self) -> str:
        """The state without its prefix, such as `RUNNING`."""
        return short(self.message.state)

    @property
    def has_ended(self) -> bool:
        """Whether the job has succeeded, failed, or was cancelled."""
        return has_ended(self.message.state)

    @property
    def error(self) -> str:
        """Why the job failed; empty where it did not."""
        return self.message.error.message if self.message.error else ""

    @property
    def output(self) -> str:
        """The base output directory: a path of this machine, or a `gs://` URI; empty without one."""
        uri = self.message.job_spec.output_uri if isinstance(self.message, CustomJob) else ""
        if not uri or not self._session.is_local:
            return uri
        return str(LocalBuckets(self._session.settings.home).local_path(uri))

    def refresh(self) -> Job:
        """Ask for the job's present state. Raises NotFoundError for a job that was deleted."""
        self.message = self._jobs.get(self.name)
        return self

    def logs(self, *, replica: str = "", follow: bool = True) -> Iterator[LogEntry]:
        """The log from its first line on, an entry for each line; `str(entry)` is the text.

        Entries come as they are written, until the job has ended; without `follow`, those that there are now.
        `replica` selects one, such as `workerpool0-0`, or `service`: the lines about the job itself. Raises
        NotFoundError for one that the job does not have. How the job ends does not matter here: see `wait`.
        """
        (task_name,) = texts(replica=replica)
        _check_replica(self.message, task_name)
        return self._entries(LogQuery(name=self.name, task_name=task_name), follow=follow)

    def _entries(self, query: LogQuery, *, follow: bool) -> Iterator[LogEntry]:
        if not follow:
            for page in log_pages(self._jobs.logs, query):
                yield from chain.from_iterable(map(_lines, page.entries))
            return
        watcher = _Collector()
        for message in looks(Follow(backend=self._jobs, name=self.name, query=query), watcher):
            self.message = message
            yield from chain.from_iterable(map(_lines, watcher.take()))

    def wait(self, timeout: float | None = None) -> Job:
        """Wait until the job has succeeded, at most `timeout` seconds.

        Raises JobFailedError, JobCancelledError, WaitTimeoutError (the job goes on), and ContactLostError
        where the backend does not answer any more.
        """
        order = Follow(backend=self._jobs, name=self.name, timeout=seconds("timeout", timeout))
        for message in looks(order, _Collector()):
            self.message = message
        _raise_unless_succeeded(self.message)
        return self

    def cancel(self) -> None:
        """Ask the job to end; `wait` sees it end."""
        self._jobs.cancel(self.name)

    def delete(self) -> None:
        """Remove the ended job with its log; its output stays. Raises ConflictError while it runs."""
        self._jobs.delete(self.name)

    @property
    def _jobs(self) -> JobBackend:
        """The backend, opened once for each thread: a connection to the store belongs to one."""
        if not hasattr(self._of_thread, "jobs"):
            self._of_thread.jobs = open_found(self._session.backend, self._session.settings)
        jobs: JobBackend = self._of_thread.jobs
        return jobs


def submit(
    trainer: StrPath | None = None,
    *,
    module: str = "",
    script: str = "",
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    requirements: Sequence[str] = (),
    image: str = "",
    config: StrPath | None = None,
    name: str = "",
    labels: Mapping[str, str] | None = None,
    machine_type: str = "",
    replica_count: int = 1,
    accelerator_type: str = "",
    accelerator_count: int = 0,
    gpus: str = "",
    boot_disk_size: int = 0,
    spot: bool = False,
    flex_start: bool = False,
    output: str = "",
    backend: str = "",
    project: str | None = None,
    region: str = "",
    staging_bucket: str = "",
    strict: bool = False,
) -> Job:
    """Create a job and return once it cannot be lost.

    `trainer` is a script, or a folder with `module` or `script` to run in it. `image` is the one that it runs
    in or, without a trainer, the container itself. `config` is a file as for `--config`; what is given here
    is laid over it. Without any of these the project's own job runs, `[tool.vtrain.job]`. `output` is the
    base output directory. `gpus` are T4 or L4:2, with the machine that has them; `boot_disk_size` is in GB.
    With `strict`, what a backend would only warn of is an error.

    The backend is chosen as on the command line: `local`, `process`, `docker` or `vertex`; by default Vertex
    AI where a project is configured. Raises VtrainError, and then there is no job.
    """
    module, script, image, name, output = texts(
        module=module, script=script, image=image, name=name, output=output
    )
    given: dict[str, Any] = {
        "name": name,
        "args": text_list("args", args),
        "env": text_dict("env", env),
        "labels": text_dict("labels", labels),
        "output_dir": output,
        "image": image,
        "spot": switch("spot", spot),
        "flex_start": switch("flex_start", flex_start),
    }
    machine = _machine(machine_type, replica_count, accelerator_type, accelerator_count, gpus, boot_disk_size)
    source = _source(path("trainer", trainer), module, script, text_list("requirements", requirements))
    request = _request(path("config", config), source, image, machine)
    request = request.over(*_layers({**given, **machine}))
    (bucket,) = texts(staging_bucket=staging_bucket)
    return _create(request, _wish(backend, project, region), bucket, strict=strict)


def get(name: str, *, backend: str = "", project: str | None = None, region: str = "") -> Job:
    """The job of that name: a full name, an id; of a job on this machine also the first digits of its id,
    its display name, or `@last`.

    Raises NotFoundError where there is none, ConfigError for a name that means several.
    """
    target = choose_target(_Silent(), _wish(backend, project, region), name=text("name", name))
    session = target.open()
    return Job(session, session.jobs.get(session.full_name(target.name)))


def follow(job: Job | str) -> Iterator[LogEntry]:
    """The log of a job, or of the one with that name, until it ends; then as `Job.wait` raises."""
    followed = job if isinstance(job, Job) else get(text("job", job))
    yield from followed.logs()
    _raise_unless_succeeded(followed.message)


def _create(request: JobRequest, wish: Wish, bucket: str, *, strict: bool) -> Job:
    """The job on its way. An empty `bucket` is left to the environment and to pyproject.toml."""
    reap()  # those of earlier jobs, whose end nobody has looked at

    target = choose_target(_Silent(), wish)
    place = msgspec.structs.replace(packages_place(target, bucket), warn=logger.warning)
    draft = draft_request(target, request)
    baked = calls_for_image(target, draft, place)
    session, place = open_draft(target, draft, place, baked=baked, python=sys.executable)
    prepared = prepare_draft(session, draft, place, baked=baked, strict=strict)
    warnings = prepared.package.warnings if prepared.package is not None else ()
    for warning in filter(None, (prepared.secrets, *warnings, *prepared.plan.notices)):
        logger.warning(warning)
    for note in prepared.plan.notes:
        logger.info(note)
    return Job(session, launch(prepared, session.jobs, place, logger.info))


class _Silent(Reporter):
    """Says nothing: a program sees in the job where that runs."""

    def columns(self, rows: Sequence[Sequence[str]]) -> list[str]:
        return in_columns([[on_one_line(cell) for cell in row] for row in rows])


class _Collector:
    """Keeps the entries of the last look, and logs trouble."""

    def __init__(self) -> None:
        self._entries: tuple[LogEntry, ...] = ()

    def take(self) -> tuple[LogEntry, ...]:
        """The entries that nobody has taken yet."""
        taken, self._entries = self._entries, ()
        return taken

    def saw_page(self, page: LogPage) -> None:
        self._entries = page.entries

    def saw_job(self, job: AnyJob, elapsed: float) -> None:
        logger.debug("%s is %s after %.0f s", job.name, short(job.state), elapsed)

    def cannot_ask(self, error: VtrainError) -> None:
        logger.warning("%s Asking again.", error.message)

    def cannot_read(self, trouble: str) -> None:
        logger.warning(trouble)

    def heard_nothing(self, job: AnyJob, elapsed: float) -> None:
        logger.info("After %.0f s %s, no line for a while: %s", elapsed, short(job.state), job.name)


def _lines(entry: LogEntry) -> Iterator[LogEntry]:
    """The entry for each of its lines; a JSON object is one, whatever its message."""
    if entry.json_payload is not None or b"\n" not in entry.payload:
        yield entry
        return
    for line in entry.payload.split(b"\n"):
        yield msgspec.structs.replace(entry, payload=line)


def _raise_unless_succeeded(job: AnyJob) -> None:
    """Raise the error of a job that ended otherwise, with its cause in the message."""
    if job_state(job.state) == FAILED:
        failure = failure_of(job)
        cause = failure.message if failure else ""
        raise JobFailedError(f"{job.name} failed: {cause}", hint=failure.hint if failure else "")
    reason = job.error.message.removeprefix("CANCELED").removeprefix(": ") if job.error else ""
    ending = f": {reason}" if reason else "."
    raise_verdict(job, f"{job.name} ended in the state {short(job.state)}{ending}")


def _check_replica(job: AnyJob, replica: str) -> None:
    """Raise NotFoundError for a replica that a custom job does not have; other jobs have those of trials."""
    if replica in ("", SERVICE, CLOUD_LOGGING) or not isinstance(job, CustomJob):
        return
    replicas = replica_ids(job.job_spec)
    if replica in [one.name for one in replicas]:
        return
    pools = [[one.name for one in pool] for _, pool in groupby(replicas, lambda one: one.pool)]
    names = ", ".join(pool[0] if len(pool) == 1 else f"{pool[0]} to {pool[-1]}" for pool in pools)
    raise NotFoundError(
        f"{job.name} has no replica {replica!r}: "
        f"give {names}, or {SERVICE} for the lines about the job itself."
    )


def _wish(backend: str, project: str | None, region: str) -> Wish:
    """The place that arguments name; gcloud's active configuration holds from here on."""
    backend, region = texts(backend=backend, region=region)
    if project is not None:
        project = text("project", project)
    use_configuration("")  # the active one of gcloud, whatever a command line in this process named
    return Wish(project=project, backend=backend, region=region)


def _machine(
    machine_type: str,
    replica_count: int,
    accelerator_type: str,
    accelerator_count: int,
    gpus: str,
    boot_disk_size: int,
) -> Machine:
    machine_type, accelerator_type, gpus = texts(
        machine_type=machine_type, accelerator_type=accelerator_type, gpus=gpus
    )
    try:
        accelerator_named(gpus, "gpus")
    except UsageError as error:
        raise ConfigError(error.message, hint=error.hint) from error
    machine = {
        "machine_type": machine_type,
        "replica_count": count("replica_count", replica_count, least=1),
        "accelerator_type": accelerator_type,
        "accelerator_count": count("accelerator_count", accelerator_count, least=0),
        "gpus": gpus,
        "boot_disk_size": count("boot_disk_size", boot_disk_size, least=0),
    }
    if gpus and accelerator_type:
        raise ConfigError("gpus and accelerator_type exclude each other.")
    if accelerator_type and accelerator_type not in ACCELERATORS:
        hint = enum_hint(accelerator_type, ACCELERATORS)
        raise ConfigError(f"accelerator_type is {accelerator_type!r}, which is not known.", hint=hint)
    if machine["accelerator_count"] and gpus:
        raise ConfigError("accelerator_count: gpus says the number, such as T4:2.")
    if machine["accelerator_count"] and not accelerator_type:
        raise ConfigError("accelerator_count needs accelerator_type beside it.")
    return machine


def _source(
    trainer: str | None, module: str, script: str, requirements: tuple[str, ...]
) -> TrainerSource | None:
    """The trainer to package, or None. Raises ConfigError where there is no such file or folder."""
    if module and script:
        raise ConfigError("module and script exclude each other.")
    if trainer is not None and not user_path(trainer).exists():
        raise ConfigError(f"There is no script or folder {trainer}.")
    if trainer is not None and (module or script) and user_path(trainer).is_file():
        given = "module" if module else "script"
        raise ConfigError(f"trainer is a file, and {given} names what to run in a folder: leave it out.")
    if trainer is not None:
        return make_source(folder=trainer, python_module=module, script=script, requirements=requirements)
    if module or script or requirements:
        raise ConfigError("module, script and requirements need a trainer: the folder with the code.")
    return None


def _layers(given: dict[str, Any]) -> tuple[Layer, ...]:
    """A layer for each argument that sets a field; an error about the field names the argument."""
    if given["spot"] and given["flex_start"]:
        raise ConfigError("spot and flex_start exclude each other.")
    names = {"output-dir": "output"}
    return job_layers(ProjectJob(**given), lambda key: named(names.get(key, key.replace("-", "_"))))


def _request(config: str | None, source: TrainerSource | None, image: str, machine: Machine) -> JobRequest:
    """The request of a trainer, an image or a file; of the project's own job, where none is given."""
    if source is not None or image:
        if config is not None and machine != _NO_MACHINE:
            raise ConfigError(f"{config} describes the machines: leave out {', '.join(machine)}.")
        name = source and (Path(source.script).stem or source.folder.name)
        container = Layer(named("image"), {"jobSpec": {POOLS: [{"replicaCount": 1}]}})
        return JobRequest(
            config=config,
            layers=() if source is not None else (container,),
            source=source,
            fallback_name=name or "job",
        )
    own = find_project_job()
    if config is None and own is None:
        raise ConfigError("What to run is not given.", hint="Give a trainer, an image or a config.")
    request = project_request(*own) if config is None and own is not None else JobRequest(config=config)
    if machine != _NO_MACHINE:
        raise ConfigError(f"{', '.join(machine)} go with a trainer or an image, and none is given.")
    return msgspec.structs.replace(request, fallback_name=request.fallback_name or "job")
