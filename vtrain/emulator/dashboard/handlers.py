"""The handlers of the dashboard's routes: a request in, a page or a file out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from urllib.parse import quote, unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from vtrain.emulator.dashboard.figures import number_figures, plotly_script
from vtrain.emulator.dashboard.job_view import (
    KINDS,
    ShownJob,
    address_of,
    head_of,
    job_row,
    replica_rows,
    run_row,
)
from vtrain.emulator.dashboard.log_view import MOST_LINES, LogReader, LogRequest
from vtrain.emulator.dashboard.output_files import Folder, list_folder, open_file
from vtrain.emulator.dashboard.pages import HEADERS, STATIC, Pages, as_bytes
from vtrain.emulator.dashboard.reader import JobFilter, JobReader
from vtrain.emulator.dashboard.study_view import metric_figures, study_of
from vtrain.emulator.storage.routes import FileContent, read_range
from vtrain.errors import NotFoundError, UnavailableError, VtrainError
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.model import Model
from vtrain.messages.names import ResourceName
from vtrain.messages.persistent_resource import ResourcePage
from vtrain.messages.resources import Job
from vtrain.messages.training_pipeline import TrainingPipeline
from vtrain.rooted import Root
from vtrain.runtime.experiments import ExperimentRun
from vtrain.runtime.output_numbers import Numbers, read_numbers
from vtrain.runtime.replica.vertex_view import replica_ids
from vtrain.times import ago

PAGE_SIZE = 50
MOST_LISTED = 6
"""Models and persistent resources on the first page."""
LINES_BESIDE = 80
"""Lines of the log on a job's page."""
_STATES = sorted(states.short(state) for state in states.KNOWN)

Query = Mapping[str, str]


class Dashboard:
    """The handlers of the routes."""

    def __init__(self, reader: JobReader, pages: Pages) -> None:
        self.pages = pages
        self._reader = reader
        self._logs = LogReader(reader)

    def list_jobs(self, _request: Request, query: Query) -> Response:
        """All jobs, newest first; models and persistent resources."""
        wanted = JobFilter(
            collection=query.get("kind", "") if query.get("kind") in KINDS else "",
            state=query.get("state", "") if query.get("state") in _STATES else "",
            text=query.get("find", "").strip()[:200],
            page=max(int(page), 1) if (page := query.get("page", "")[:6]).isdecimal() else 1,
        )
        listing = self._reader.page(wanted, PAGE_SIZE)
        is_filtered = bool(wanted.collection or wanted.state or wanted.text)
        models: tuple[Model, ...] = ()
        resources = ResourcePage(resources=())
        trouble = ""
        if wanted.page == 1 and not is_filtered:
            try:
                with suppress(UnavailableError):  # a plug-in may have none
                    models, resources = self._reader.models(), self._reader.resources()
            except VtrainError as error:
                trouble = error.message
        return self.pages.answer(
            "jobs.html",
            rows=[self._row(job) for job in listing.jobs],
            damaged=(*listing.damaged, *resources.damaged),
            trouble=trouble,
            has_more=listing.has_more,
            wanted=wanted,
            is_filtered=is_filtered,
            kinds=KINDS,
            states=_STATES,
            models=models,
            resources=resources.resources,
            most=MOST_LISTED,
            ago=ago,
        )

    def show_job(self, request: Request, query: Query) -> Response:
        """One job."""
        job = self._job(request)
        has_ended = states.has_ended(job.state)
        usage = {} if has_ended or not isinstance(job, CustomJob) else self._reader.usage(job.name)
        output = self._reader.output(job)
        study = job if isinstance(job, HyperparameterTuningJob) else None
        numbers = read_numbers(output) if output is not None else Numbers([], 0)
        parent = self._reader.parent(job)
        asked = LogRequest(name=job.name, replica=query.get("replica", ""), lines=LINES_BESIDE)
        parts = self._reader.parts(job)
        return self.pages.answer(
            "job.html",
            **head_of(job, parts),
            has_ended=has_ended,
            replicas=replica_rows(job, usage) if isinstance(job, CustomJob) else [],
            parts=[job_row(part, [part]) for part in parts] if isinstance(job, TrainingPipeline) else [],
            study=study and study_of(study),
            figures=metric_figures(study) if study else [],
            parent=parent and (address_of(parent.name), parent.display_name or parent.name),
            numbers=numbers,
            charts=[number_figures(found) for found in numbers.files],
            folder=_listed(output),
            output=output,
            log=self._logs.read(asked),
            asked=asked,
            log_replicas=_replica_names(job, parts),
        )

    def show_log(self, request: Request, query: Query) -> Response:
        """A job's log: its end, or what follows a cursor."""
        job = self._job(request)
        asked = _log_request(job, query)
        return self.pages.answer(
            "log.html",
            job=job,
            row=job_row(job, []),
            has_ended=states.has_ended(job.state),
            log=self._logs.read(asked),
            asked=asked,
            log_replicas=_replica_names(job, self._reader.parts(job)),
        )

    def log_lines(self, request: Request, query: Query) -> Response:
        """Lines behind a cursor, as HTML in JSON: what the script adds to a page."""
        job = self._job(request)
        view = self._logs.read(_log_request(job, query))
        document = {
            "html": as_bytes(self.pages.render("lines.html", log=view)).decode(),
            "cursor": view.cursor,
            "count": len(view.lines),
            "more": view.more,
            "ended": states.has_ended(job.state),
        }
        return Response(msgspec.json.encode(document), 200, HEADERS, media_type="application/json")

    def log_text(self, request: Request, query: Query) -> Response:
        """The whole log as a text file."""
        job = self._job(request)
        pieces: Iterator[bytes] = iter(())
        if request.method != "HEAD":
            pieces = self._logs.text(job.name, query.get("replica", ""))
        headers = {**HEADERS, **_attachment(f"{job.name.rpartition('/')[2]}.log")}
        return StreamingResponse(pieces, 200, headers, media_type="text/plain; charset=utf-8")

    def show_files(self, request: Request, query: Query) -> Response:
        """A folder of a job's output."""
        job = self._job(request)
        folder = list_folder(self._output(job), query.get("path", "").strip("/"))
        return self.pages.answer("files.html", job=job, row=job_row(job, []), folder=folder)

    def send_file(self, request: Request, query: Query) -> Response:
        """A file of a job's output, to be saved and not to be shown."""
        job = self._job(request)
        path = query.get("path", "")
        with open_file(self._output(job), path) as file:
            size = os.fstat(file.fileno()).st_size
            span = read_range(request.headers.get("range", ""), size)
            descriptor = os.dup(file.fileno())
        kind = {"content-type": "application/octet-stream"}
        headers = {**HEADERS, **_attachment(path.rpartition("/")[2]), **kind}
        return FileContent(descriptor, span, size, headers)

    def send_static(self, request: Request, _query: Query) -> Response:
        """The style sheet, the scripts, the icon."""
        name = str(request.path_params["file"])
        if name not in STATIC:
            raise NotFoundError("There is no such file.")
        data = plotly_script() if name == "plotly.js" else self.pages.static[name]
        headers = {**HEADERS, "cache-control": "max-age=86400"}
        return Response(data, 200, headers, media_type=STATIC[name])

    def _job(self, request: Request) -> Job:
        """The job that an address names. Raises NotFoundError."""
        parts = {key: unquote(value) for key, value in request.path_params.items()}
        return self._reader.get(str(ResourceName(**parts)))

    def _row(self, job: Job | ExperimentRun) -> ShownJob:
        if isinstance(job, ExperimentRun):
            return run_row(job)
        return job_row(job, self._reader.parts(job), self._reader.measured(job))

    def _output(self, job: Job) -> Root:
        folder = self._reader.output(job)
        if folder is None:
            raise NotFoundError("The job has no output folder on this machine.")
        return folder


def _listed(output: Root | None) -> Folder | None:
    """The output folder; None where there is none, or this user may not read it."""
    with suppress(NotFoundError):
        return list_folder(output, "") if output is not None else None
    return None


def _log_request(job: Job, query: Query) -> LogRequest:
    return LogRequest(
        name=job.name,
        replica=query.get("replica", "")[:200],
        text=query.get("find", "")[:200],
        cursor=query.get("cursor", ""),
        from_start=query.get("at") == "start",
        lines=MOST_LINES,
    )


def _replica_names(job: Job, parts: list[CustomJob]) -> list[str]:
    """The names that filter a log: the replicas of a job; of a tuning job its trials."""
    if isinstance(job, HyperparameterTuningJob):
        return [f"trial-{trial.id}" for trial in job.trials]
    if len(parts) == 1:
        return [member.name for member in replica_ids(parts[0].job_spec)]
    return []


def _attachment(name: str) -> dict[str, str]:
    """The header by which a browser saves a file under its name."""
    plain = "".join(
        letter if (letter.isalnum() and letter.isascii()) or letter in "._- " else "_" for letter in name
    )
    encoded = quote(name.encode("utf-8", "surrogateescape"), safe="")
    return {"content-disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}"}
