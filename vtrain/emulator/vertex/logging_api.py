"""`entries:list` of Cloud Logging, for the logs of jobs.

Sources: `google/logging/v2/logging.proto`, and the filters that gcloud, the console and vtrain send.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from vtrain import times
from vtrain.emulator.vertex.documents import in_camel_case
from vtrain.emulator.vertex.filters import (
    COMPARISONS,
    Filter,
    Restriction,
    Test,
    compiled,
    has,
    label_test,
    parse_filter,
    time_test,
    wrong_filter,
)
from vtrain.emulator.vertex.resource_listing import page_size
from vtrain.emulator.vertex.training_service import TrainingService
from vtrain.emulator.vertex.vertex_call import Document
from vtrain.emulator.vertex.vertex_refusals import invalid
from vtrain.messages.log import ATTEMPT_LABEL, SEVERITIES, STREAM_LABEL, LogEntry, LogPage, LogQuery

PAGE = 50
PAGE_BYTES = 512 * 1024
"""Most bytes of the log that are read for one answer, so that an answer is small."""
_TRIAL = "ml.googleapis.com/trial_id"
_FIELDS = ("resourceNames", "projectIds", "filter", "orderBy", "pageSize", "pageToken")


class _Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The entries that a filter selects: of one job, from `lower` on (nanoseconds), that pass `test`."""

    labels: dict[str, str]
    lower: int
    test: Test

    @property
    def job_id(self) -> str:
        """The job that the entries are of; empty for a filter that names none."""
        is_of_jobs = self.labels.get("resource.type", "ml_job") == "ml_job"
        return self.labels.get("resource.labels.job_id", "") if is_of_jobs else ""

    @property
    def trial_id(self) -> str:
        """The trial that the entries are of; empty for all."""
        return self.labels.get(f"labels.{_TRIAL}", "")


class _Place(msgspec.Struct, array_like=True):
    """The end of a page: how many entries behind a cursor of the log were handed out."""

    cursor: str
    skipped: int


def list_entries(service: TrainingService, body: Document) -> Document:
    """A page of entries. Raises VertexRefusal for a filter, an order or a token that is invalid."""
    body = in_camel_case(body, _FIELDS)
    wanted = _read_filter(str(body.get("filter") or ""))
    if str(body.get("orderBy") or "timestamp asc") not in ("timestamp asc", "timestamp"):
        raise invalid('The emulator knows one order of entries: "timestamp asc".')
    size = page_size(body.get("pageSize"), PAGE)
    name = service.job_of_log(wanted.job_id) if wanted.job_id else ""
    if not name:
        return {}
    place = _read_token(str(body.get("pageToken") or ""))
    query = LogQuery(
        name=name,
        task_name=wanted.labels.get("resource.labels.task_name", ""),
        trial_id=wanted.trial_id,
        since=wanted.lower,
        cursor=place.cursor,
        limit=PAGE_BYTES,
    )
    page = service.read_log(query)
    lines = list(_lines(page, wanted, _project(body)))
    chosen = lines[place.skipped : place.skipped + size]
    token = _next_token(place, page, len(lines), size)
    return {**({"entries": chosen} if chosen else {}), **({"nextPageToken": token} if token else {})}


def _read_filter(text: str) -> _Wanted:
    """The selection of a filter. Raises VertexRefusal for a field that is not known."""
    parsed = parse_filter(text)
    return _Wanted(
        labels={term.field: term.value for term in _conjuncts(parsed) if term.comparison == "="},
        lower=_lower_bound(parsed),
        test=compiled(parsed, _test),
    )


def _conjuncts(parsed: Filter) -> Iterator[Restriction]:
    """The restrictions that every selected entry passes."""
    if isinstance(parsed, Restriction):
        yield parsed
    elif parsed.word == "AND":
        for term in parsed.terms:
            yield from _conjuncts(term)


def _lower_bound(parsed: Filter) -> int:
    """A time before which no entry is selected: so a log is not read from its start at each poll."""
    if isinstance(parsed, Restriction):
        with suppress(ValueError, OverflowError):  # which the test of the filter tells
            if parsed.field == "timestamp" and parsed.comparison in ("=", ">", ">="):
                return times.nanoseconds(parsed.value)
        return 0
    bounds = [_lower_bound(term) for term in parsed.terms]
    if parsed.word == "NOT" or not bounds:
        return 0
    return max(0, max(bounds) if parsed.word == "AND" else min(bounds))


def _test(restriction: Restriction) -> Test:
    """The test of an entry by one restriction.

    Raises VertexRefusal for a field that entries here do not have.
    """
    field, comparison, wanted = restriction.field, restriction.comparison, restriction.value
    if field == "timestamp":
        return time_test("timestamp", restriction)
    if field.startswith("resource.labels."):
        return label_test(restriction, ("resource", "labels"))
    if field.startswith("labels."):
        return label_test(restriction, ("labels",))
    if field == "severity" and comparison in COMPARISONS and wanted in SEVERITIES:
        holds, rank = COMPARISONS[comparison], SEVERITIES.index(wanted)
        return lambda entry: holds(SEVERITIES.index(entry["severity"]), rank)
    if field == "resource.type" and comparison == "=":
        return lambda entry: entry["resource"]["type"] == wanted
    if field not in ("insertId", "logName", "textPayload"):
        raise wrong_filter(f"{field}{comparison}{wanted}")
    if comparison == ":":
        return lambda entry: has(str(entry.get(field, "")), wanted)
    holds = COMPARISONS[comparison]
    return lambda entry: holds(str(entry.get(field, "")), wanted)


def _project(body: Document) -> str:
    names = body.get("resourceNames")
    first = names[0] if isinstance(names, list) and names else ""
    return first.split("/")[1] if isinstance(first, str) and first.startswith("projects/") else ""


def _lines(page: LogPage, wanted: _Wanted, project: str) -> Iterator[Document]:
    """The entries of a page as Cloud Logging has them: each line is one."""
    for entry in page.entries:
        texts = [""] if entry.json_payload is not None else entry.message.split("\n")
        for number, text in enumerate(texts):
            made = _line(entry, number, text, wanted.job_id, project)
            if wanted.test(made):
                yield made


def _line(entry: LogEntry, number: int, text: str, job_id: str, project: str) -> Document:
    moment = times.from_nanoseconds(entry.time, 9)
    payload = {"textPayload": text} if entry.json_payload is None else {"jsonPayload": entry.json_payload}
    trial = {_TRIAL: entry.trial_id} if entry.trial_id else {}
    return {
        "insertId": f"{entry.insert_id}-{number:06}" if number else entry.insert_id,
        **payload,
        "resource": {
            "type": "ml_job",
            "labels": {"job_id": job_id, "task_name": entry.task_name, "project_id": project},
        },
        "timestamp": moment,
        "severity": entry.severity if entry.severity in SEVERITIES else "DEFAULT",
        "labels": {STREAM_LABEL: entry.stream, ATTEMPT_LABEL: str(entry.attempt), **trial},
        "logName": f"projects/{project}/logs/{entry.task_name}",
        "receiveTimestamp": moment,
    }


def _next_token(place: _Place, page: LogPage, found: int, size: int) -> str:
    """The token of the next page; empty where this was the last for now."""
    if found > place.skipped + size:
        end = _Place(place.cursor, place.skipped + size)
    elif page.more:
        end = _Place(page.cursor, 0)
    else:
        return ""
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(end)).decode()


def _read_token(token: str) -> _Place:
    if not token:
        return _Place("", 0)
    try:
        place = msgspec.msgpack.decode(base64.urlsafe_b64decode(token.encode()), type=_Place)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise invalid("The page token is none of this log.") from None
    if place.skipped < 0:
        raise invalid("The page token is none of this log.")
    return place
