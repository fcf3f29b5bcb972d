"""The handlers of the dashboard's routes: a request in, a page or a file out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from vtrain.command_log import masked_line
from vtrain.emulator.dashboard.figures import Figure, number_figures, overlaid_figures, plotly_script
from vtrain.emulator.dashboard.job_view import (
    KINDS,
    Moment,
    ShownJob,
    address_of,
    columns_of,
    head_of,
    job_row,
    metric_facts,
    replica_rows,
    run_row,
)
from vtrain.emulator.dashboard.log_view import MOST_LINES, LogReader, LogRequest
from vtrain.emulator.dashboard.output_files import Folder, list_folder, open_file
from vtrain.emulator.dashboard.pages import HEADERS, STATIC, Pages, as_bytes
from vtrain.emulator.dashboard.reader import ArgvOf, JobFilter, JobReader, ListedJob
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
from vtrain.output.compared import ARGS, METRICS, SETUP, compared, compared_job, flat, labels_of
from vtrain.output.trials import best_first, shown_value
from vtrain.packaging.difference import changed_files
from vtrain.rooted import Root
from vtrain.runtime.experiments import ExperimentRun
from vtrain.runtime.output_numbers import Numbers
from vtrain.runtime.replica.vertex_view import replica_ids
from vtrain.times import ago

PAGE_SIZE = 50
MOST_COMPARED = 12
"""Jobs on the page that compares them."""
MOST_CURVES = 100
"""Trials whose curves are drawn."""
FIELDS = {
    "displayName": "Name",
    "state": "State",
    "createTime": "Created",
    "took": "Took",
    "memory": "Peak memory",
}
"""Columns of the list of jobs that are no arguments and no metrics, by the keys that sort them."""
MOST_LISTED = 6
"""Models and persistent resources on the first page."""
LINES_BESIDE = 80
"""Lines of the log on a job's page."""
_STATES = sorted(states.short(state) for state in states.KNOWN)

Query = Mapping[str, str]


class Dashboard:
    """The handlers of the routes."""

    def __init__(self, reader: JobReader, pages: Pages, argv_of: ArgvOf | None) -> None:
        """`argv_of` makes the words of a command line a program that runs; without it none is run again."""
        self.pages = pages
        self._argv_of = argv_of
        self._reader = reader
        self._logs = LogReader(reader)

    def list_jobs(self, _request: Request, query: Query) -> Response:
        """All jobs, newest first; models and persistent resources."""
        wanted = JobFilter(
            collection=query.get("kind", "") if query.get("kind") in KINDS else "",
            state=query.get("state", "") if query.get("state") in _STATES else "",
            text=query.get("find", "").strip()[:200],
            page=max(int(page), 1) if (page := query.get("page", "")[:6]).isdecimal() else 1,
            sort=query.get("sort", "")[:300],
        )
        listing = self._reader.page(wanted, PAGE_SIZE)
        columns = columns_of([each.document for each in listing.jobs], wanted.sort.removeprefix("~"))
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
            rows=[_row(each, columns) for each in listing.jobs],
            columns=columns,
            fields=FIELDS,
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
        numbers = self._reader.numbers(job) if study is None else Numbers([], 0)
        parts = self._reader.parts(job)
        curves = self._curves(study, parts) if study is not None else []
        command, own = self._reader.command(job), compared_job(job, None)
        parent = self._reader.parent(job)
        asked = LogRequest(name=job.name, replica=query.get("replica", ""), lines=LINES_BESIDE)
        return self.pages.answer(
            "job.html",
            **head_of(job, parts),
            has_ended=has_ended,
            replicas=replica_rows(job, usage) if isinstance(job, CustomJob) else [],
            parts=[job_row(part, [part]) for part in parts] if isinstance(job, TrainingPipeline) else [],
            study=study and study_of(study),
            figures=metric_figures(study) if study else [],
            curves=curves,
            most_curves=MOST_CURVES,
            command=f"vtrain {masked_line(command.words)}" if command is not None else "",
            can_rerun=command is not None and self._argv_of is not None,
            args=_pairs(own[ARGS]),
            metrics=_pairs(own[METRICS]) if study is not None else metric_facts(numbers),
            parent=parent and (address_of(parent.name), parent.display_name or parent.name),
            numbers=numbers,
            charts=[number_figures(found) for found in numbers.files],
            folder=_listed(output),
            output=output,
            log=self._logs.read(asked),
            asked=asked,
            log_replicas=_replica_names(job, parts),
        )

    def _curves(self, study: HyperparameterTuningJob, parts: list[CustomJob]) -> list[Figure]:
        """The series of the best trials, and of those without a result, each of all of these in one chart."""
        of_name = {part.name: part for part in parts}
        found = [(trial, of_name.get(trial.custom_job)) for trial in best_first(study)[:MOST_CURVES]]
        return overlaid_figures(
            [(f"trial {trial.id}", self._reader.numbers(part)) for trial, part in found if part is not None]
        )

    def show_comparison(self, request: Request, _query: Query) -> Response:
        """Jobs and runs of experiments beside each other."""
        names = list(dict.fromkeys(request.query_params.getlist("job")))
        found = sorted(  # what was there first is what the others are compared with
            (self._reader.side(name) for name in names[:MOST_COMPARED]),
            key=lambda each: str(each[0]["createTime"]),
        )
        sides = [side for side, _, _ in found]
        labels = labels_of([(side["name"], side["displayName"]) for side in sides])
        heads = [
            (label, address_of(side["name"]) if SETUP in side else "")
            for label, side in zip(labels, sides, strict=True)
        ]
        rows = [
            (row.name, row.differs, ["" if each is None else shown_value(each) for each in row.values])
            for row in compared(sides)
        ]
        numbers = [numbers for _, numbers, _ in found]
        return self.pages.answer(
            "compare.html",
            heads=heads,
            sides=sides,
            rows=rows,
            states=[states.short(side["state"]).capitalize() for side in sides],
            created=[Moment(side["createTime"], ago(side["createTime"])) for side in sides],
            left_out=max(len(names) - MOST_COMPARED, 0),
            most=MOST_COMPARED,
            figures=overlaid_figures(list(zip(labels, numbers, strict=True))),
            changed=list(changed_files([package for _, _, package in found], labels)) if found else [],
        )

    def stop_job(self, request: Request, _query: Query) -> Response:
        """Cancel a job, and show it."""
        job = self._job(request)
        self._reader.jobs.cancel(job.name)
        return RedirectResponse(address_of(job.name), 303, HEADERS)

    def rerun_job(self, request: Request, _query: Query) -> Response:
        """Run the command line of a job again, and show the new job. Raises as `started` does."""
        command = self._reader.command(self._job(request))
        if command is None or self._argv_of is None:
            raise NotFoundError("The command line that made this job is not known here.")
        return RedirectResponse(address_of(self._reader.started(command, self._argv_of)), 303, HEADERS)

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
            "count": len(view.lines + view.unfinished),
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

    def _output(self, job: Job) -> Root:
        folder = self._reader.output(job)
        if folder is None:
            raise NotFoundError("The job has no output folder on this machine.")
        return folder


def _row(listed: ListedJob, columns: list[str]) -> ShownJob:
    job, found = listed.job, flat(listed.document)
    values = tuple(shown_value(found[name]) if name in found else "" for name in columns)
    return run_row(job, values) if isinstance(job, ExperimentRun) else job_row(job, listed.parts, values)


def _pairs(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, shown_value(value)) for name, value in values.items()]


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
