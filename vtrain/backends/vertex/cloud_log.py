"""The log of a job, from Cloud Logging (`entries.list`). A failure here never decides the job's verdict.

A look is one question and its pages. Entries become visible later than their timestamps say, and not in
order. So every look begins a while before the newest entry that was seen, and leaves out what was seen.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from vtrain import times
from vtrain.backends import ServiceAccess
from vtrain.backends.vertex.api import quoted
from vtrain.backends.vertex.service_refusals import read_envelope, seconds_asked
from vtrain.errors import UnusableAnswerError
from vtrain.messages.log import ATTEMPT_LABEL, STREAM_LABEL, LogEntry, LogPage, LogQuery
from vtrain.messages.names import parse_name
from vtrain.messages.resources import Job
from vtrain.messages.states import has_ended
from vtrain.messages.training_pipeline import TrainingPipeline
from vtrain.properties import endpoint_override
from vtrain.times import NANOSECONDS, from_nanoseconds

if TYPE_CHECKING:
    from requests import Response


NO_SEVERITY = "DEFAULT"
NO_TASK = "unknown_task"
TRIAL_LABEL = "ml.googleapis.com/trial_id"
_LATEST = 2**63 - 1
"""The largest number that a cursor holds, in MessagePack."""

FIRST = 3600 * 1_000_000_000
"""The time at which the first look begins, in nanoseconds since the epoch; gcloud has the same."""
REMEMBERED = 500
"""The number of entries that are remembered, so that a look that finds nothing new is one page."""
LOOKS_AT_END = 2
"""The number of looks in a row that have to find nothing after a job's end."""


class _Resource(msgspec.Struct):
    labels: dict[str, str] | None = None


class ServiceEntry(msgspec.Struct, rename="camel"):
    """The fields of an API log entry that vtrain reads."""

    timestamp: str | None = None
    receive_timestamp: str | None = None
    insert_id: str | None = None
    severity: str | None = None
    resource: _Resource | None = None
    labels: dict[str, str] | None = None
    text_payload: str | None = None
    json_payload: dict[str, Any] | None = None


class Answer(msgspec.Struct, rename="camel"):
    """A page of entries."""

    entries: tuple[ServiceEntry, ...] | None = None
    next_page_token: str | None = None


def read_entry(entry: ServiceEntry) -> LogEntry:
    """One entry. Of a JSON payload the message is taken, as gcloud does; one that is no text, as JSON."""
    labels = (entry.resource.labels if entry.resource else None) or {}
    timestamp = entry.timestamp or entry.receive_timestamp or ""
    own = entry.labels or {}
    attempt = own.get(ATTEMPT_LABEL, "")
    return LogEntry(
        time=nanoseconds(timestamp),
        timestamp=timestamp,
        insert_id=entry.insert_id or "",
        severity=entry.severity or NO_SEVERITY,
        task_name=labels.get("task_name") or NO_TASK,
        trial_id=own.get(TRIAL_LABEL) or "",
        attempt=int(attempt) if attempt.isdecimal() and len(attempt) < 10 else 0,
        stream=own.get(STREAM_LABEL) or "stdout",
        payload="\n".join(_message(entry).splitlines()).encode("utf-8", "replace"),
    )


def nanoseconds(timestamp: str) -> int:
    """An instant of the API in nanoseconds since 1970, in 64 bits, from any number of digits; 0 for none."""
    try:
        return min(max(times.nanoseconds(timestamp), 0), _LATEST)
    except ValueError:
        return 0


def _message(entry: ServiceEntry) -> str:
    if entry.json_payload is None:
        return entry.text_payload or ""
    message = entry.json_payload.get("message")
    if message is None or isinstance(message, str):
        return message or ""
    return json.dumps(message, ensure_ascii=False)


class ServicePlace(msgspec.Struct, array_like=True):
    """The place in a log up to which it was read."""

    newest: int = 0
    """The latest time seen, in nanoseconds."""
    forgotten: int = 0
    """The time from which on `seen` is complete, in nanoseconds."""
    seen: list[tuple[int, str]] = []
    """The entries that are known again, in order."""
    lower: int = 0
    """The time at which the look under way began, in nanoseconds."""
    filter: str = ""
    bounded: bool = False
    """Whether the look under way leaves out what is young."""
    page_token: str = ""
    looks: int = 0
    news: bool = False
    """Whether the look under way has found something."""
    quiet: int = 0
    """The number of looks after the end that found nothing."""
    answered: float = 0.0
    """When Cloud Logging last answered, or the end was seen; in seconds."""
    resume: float = 0.0
    """Cloud Logging is not asked before this time, in seconds."""
    failures: int = 0
    ended: float = 0.0
    """When the job ended, in seconds; 0: it has not."""
    closed: bool = False
    """Whether nothing more can be read."""
    pages: int = 0
    """The pages of the look under way."""

    def begin_look(self, filter_text: str, lower: int, *, bounded: bool) -> None:
        """A new look: its filter, the time from which on it asks, and whether it leaves out what is young."""
        self.filter, self.lower, self.bounded, self.news = filter_text, lower, bounded, False
        self.pages = 0

    def begin_at(self, since: int, overlap: int) -> int:
        """The time at which the next look begins, not before `since`."""
        if not self.newest:
            return since or FIRST
        return max(self.newest - overlap, self.forgotten, since)

    def take(self, entries: Sequence[LogEntry], overlap: int) -> tuple[LogEntry, ...]:
        """The new entries of a page, in order; they are remembered from now on."""
        known = set(self.seen)
        fresh = []
        for entry in sorted(entries, key=_key):
            if _key(entry) not in known and entry.time >= self.lower:
                known.add(_key(entry))
                fresh.append(entry)
        self.newest = max([self.newest, *(entry.time for entry in fresh)])
        self._remember(sorted(known), overlap)
        self.news = self.news or bool(fresh)
        return tuple(fresh)

    def end_page(self, next_page_token: str) -> None:
        """A page was read; without a token it was the last of its look."""
        self.page_token = next_page_token
        if not next_page_token:
            everything = self.ended and not self.bounded
            self.quiet = self.quiet + 1 if everything and not self.news else 0
            self.end_look()

    def end_look(self) -> None:
        """Nothing more is asked with this filter."""
        self.looks += 1
        self.filter = self.page_token = ""

    def _remember(self, known: list[tuple[int, str]], overlap: int) -> None:
        kept = [key for key in known if key[0] >= self.newest - overlap]
        if len(kept) > REMEMBERED:
            self.forgotten = max(self.forgotten, kept[-REMEMBERED - 1][0] + 1)
            kept = kept[-REMEMBERED:]
        self.seen = kept

    @property
    def settled(self) -> bool:
        """Whether the whole log of an ended job was read, or nothing more can be."""
        return self.closed or self.quiet >= LOOKS_AT_END

    def encode(self) -> str:
        """The place as a cursor."""
        return base64.b64encode(msgspec.msgpack.encode(self)).decode()


def read_place(cursor: str) -> ServicePlace:
    """The place of a cursor; the beginning for an empty one."""
    return msgspec.msgpack.decode(base64.b64decode(cursor), type=ServicePlace) if cursor else ServicePlace()


def _key(entry: LogEntry) -> tuple[int, str]:
    """The identity of an entry: its time and id. Without an id of the service, its text has to do."""
    return entry.time, entry.insert_id or f"{entry.task_name} {entry.message}"


SERVICE = "https://logging.googleapis.com/"
PAGE_SIZE = 1000
"""The most that a page may hold."""
MOST_PAGES = 1000
"""Pages of one look; the next begins where the newest entry was seen."""
CALL_SECONDS = (10.0, 60.0)
"""For a connection, and for an answer."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds."""

    hold_back: float = 5.0
    """Younger entries are left for the next look, so that they come in order; also after a job's end."""
    overlap: float = 60.0
    """A look begins so long before the newest entry, for those that are late."""
    first_retry: float = 2.0
    """After a failure the service is left alone, each further time twice as long."""
    longest_retry: float = 30.0
    quota_retry: float = 20.0
    """The same after the read quota (60 a minute and project) was used up."""
    end_patience: float = 90.0
    """After a job's end, the log is given up when the service has not answered for this time."""


TIMING = Timing()


class CloudLog:
    """The logs of a project's jobs."""

    def __init__(self, access: ServiceAccess, project: str) -> None:
        """`project` is the one that gcloud is set to; empty without one."""
        self._access = access
        self._project = project
        self._timing = TIMING
        self._session: Any = None

    def read(self, query: LogQuery, job: Job) -> LogPage:
        """One request, and the entries in its answer. `job` is as it was seen last, before this request.

        Raises CredentialsError. Trouble with Cloud Logging is reported in the page, and asked again later.
        """
        place = read_place(query.cursor)
        if has_ended(job.state) and not place.ended:
            place.answered = time.time()
            place.ended = min(nanoseconds(job.end_time) / NANOSECONDS or place.answered, place.answered)
        if place.closed or time.time() < place.resume:
            return self._nothing(place)
        if not place.filter:
            self._begin_look(place, query, job)
        answer, trouble = self._ask(place, query.name)
        if answer is None:
            return self._nothing(place, trouble)
        place.answered, place.resume, place.failures = time.time(), 0.0, 0
        found = [read_entry(entry) for entry in answer.entries or ()]
        entries = place.take(found, round(self._timing.overlap * NANOSECONDS))
        return _page(place, entries, self._end_page(place, answer.next_page_token or ""))

    def _end_page(self, place: ServicePlace, token: str) -> str:
        """Go on after a page; a sentence where the service repeats a page, or its pages do not end."""
        place.pages += 1
        if not token or (token != place.page_token and place.pages < MOST_PAGES):
            place.end_page(token)
            return ""
        has_news = place.news
        place.end_page("")
        place.closed = bool(place.ended) and not has_news
        return "Cloud Logging repeats its pages: a part of the log may be missing."

    def _begin_look(self, place: ServicePlace, query: LogQuery, job: Job) -> None:
        lower = place.begin_at(query.since, round(self._timing.overlap * NANOSECONDS))
        clauses = [
            'resource.type="ml_job"',
            f"resource.labels.job_id={quoted(_log_id(query.name, job))}",
            *([f"resource.labels.task_name={quoted(query.task_name)}"] if query.task_name else []),
            *([f'labels."{TRIAL_LABEL}"={quoted(query.trial_id)}'] if query.trial_id else []),
            f'timestamp>="{from_nanoseconds(lower, 9)}"',
        ]
        before = time.time() - self._timing.hold_back
        # Until the job has been over for a while, a later look has the young entries, in their order.
        bounded = place.looks == 0 or not 0 < place.ended < before
        if bounded:
            clauses.append(f'timestamp<"{from_nanoseconds(round(before * NANOSECONDS), 9)}"')
        place.begin_look(" AND ".join(clauses), lower, bounded=bounded)

    def _ask(self, place: ServicePlace, name: str) -> tuple[Answer | None, str]:
        """The answer; or None, and a sentence on what is wrong."""
        import requests
        from google.auth.exceptions import GoogleAuthError

        body = {
            "resourceNames": [f"projects/{self._project_at(place, name)}"],
            "filter": place.filter,
            "orderBy": "timestamp asc",
            "pageSize": PAGE_SIZE,
            **({"pageToken": place.page_token} if place.page_token else {}),
        }
        try:
            response = self._post(body)
            if response.ok:
                return msgspec.json.decode(response.content, type=Answer), ""
        except (requests.RequestException, GoogleAuthError):  # credentials that fail: the job says it too
            return None, self._fail(place, "Cloud Logging does not answer")
        except (msgspec.DecodeError, RecursionError, UnusableAnswerError):
            return None, self._fail(place, "Cloud Logging answers with something else than a log")
        return None, self._refused(place, response, name)

    def _post(self, body: dict[str, Any]) -> Response:
        if self._session is None:
            from vtrain.backends.vertex.service_session import make_session

            self._session = make_session(self._access)
        url = (endpoint_override("logging") or SERVICE) + "v2/entries:list"
        response: Response = self._session.post(url, params={"alt": "json"}, json=body, timeout=CALL_SECONDS)
        return response

    def _project_at(self, place: ServicePlace, name: str) -> str:
        """The project whose log is read: first the one that gcloud is set to, then the job's own.

        The service names jobs by the number of their project, which is the same project.
        """
        full = parse_name(name)
        own = full.project if full else ""
        if not self._project or (place.looks > 0 and not own.isdecimal()):
            return own
        return self._project

    def _refused(self, place: ServicePlace, response: Response, name: str) -> str:
        """Act on a refusal: ask again later, begin the look anew, or give up; a sentence on it."""
        code = response.status_code
        if code == 429:
            place.resume = time.time() + max(self._timing.quota_retry, seconds_asked(response))
            return "The read quota of Cloud Logging is used up; the log goes on in a moment."
        if code == 408 or code >= 500:
            return self._fail(place, f"Cloud Logging cannot answer (HTTP {code})", seconds_asked(response))
        project, page_token = self._project_at(place, name), place.page_token
        place.end_page("")
        if page_token or self._project_at(place, name) != project:
            return ""  # the look begins anew: its token is too old, or that project is not the job's
        place.closed = True
        if code == 403:
            return (
                f"The log is not shown: the role roles/logging.viewer is missing in project {project}. "
                "The job is followed nevertheless."
            )
        refusal = read_envelope(response.content)
        words = (refusal and refusal.message) or f"HTTP {code}"
        return f"The log is not shown, Cloud Logging refuses: {words}"

    def _fail(self, place: ServicePlace, trouble: str, asked: float = 0.0) -> str:
        """Leave the service alone for a while, at least for the seconds that it asks for."""
        pause = min(self._timing.first_retry * 2**place.failures, self._timing.longest_retry)
        place.failures += 1
        place.resume = time.time() + max(pause, asked)
        return f"{trouble}; the log goes on when it does."

    def _nothing(self, place: ServicePlace, trouble: str = "") -> LogPage:
        """A page without entries; the last one if the service stays silent after the job's end."""
        silent = place.ended and time.time() - place.answered > self._timing.end_patience
        if silent and not place.settled:
            place.closed = True
            trouble = "Cloud Logging stays silent: the last lines of the log may be missing."
        return _page(place, (), trouble)


def _page(place: ServicePlace, entries: tuple[LogEntry, ...], trouble: str = "") -> LogPage:
    return LogPage(
        entries=entries,
        cursor=place.encode(),
        more=bool(place.page_token),
        settled=place.settled,
        trouble=trouble,
    )


def _log_id(name: str, job: Job) -> str:
    """The id that a job's entries carry; those of a training pipeline carry that of the job it made."""
    if isinstance(job, TrainingPipeline) and isinstance(job.training_task_metadata, dict):
        name = job.training_task_metadata.get("backingCustomJob") or name
    return name.rpartition("/")[2]
