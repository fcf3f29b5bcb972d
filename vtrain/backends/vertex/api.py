"""The REST API of Vertex AI: verbs on resource names, repeated where that is safe, errors as ours.

Google's client library knows the API as it was when the library was made: it writes enums as numbers, drops
names that it does not know, and cannot read an answer that is newer than itself. So the documents that are
sent are the ones that the plan shows, and answers are kept as the service wrote them. The tests hold every
request against the one that the library's own client makes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vtrain.backends import ServiceAccess, Tell
from vtrain.backends.vertex.retries import SAFE, Document, ServiceSearch, create_once, repeat
from vtrain.backends.vertex.service_refusals import (
    NOTHING_DONE,
    CallFailed,
    Trouble,
    header_time,
    refused,
    shortened,
    unanswered,
)
from vtrain.errors import (
    ConfigError,
    InterruptedByUser,
    NotFoundError,
    ServiceAwayError,
    ServiceError,
    TerminatedBySignal,
    UnusableAnswerError,
)
from vtrain.messages.names import (
    CUSTOM_JOBS,
    HYPERPARAMETER_TUNING_JOBS,
    MODELS,
    PERSISTENT_RESOURCES,
    TRAINING_PIPELINES,
    ResourceName,
    is_display_name,
    missing_hint,
)
from vtrain.messages.secrets import masked_text
from vtrain.properties import endpoint_override
from vtrain.retry import wait_until

if TYPE_CHECKING:
    from google.auth.transport.requests import AuthorizedSession
    from requests import Response

NOUNS = {
    CUSTOM_JOBS: "CustomJob",
    HYPERPARAMETER_TUNING_JOBS: "HyperparameterTuningJob",
    TRAINING_PIPELINES: "TrainingPipeline",
    PERSISTENT_RESOURCES: "PersistentResource",
    MODELS: "Model",
}
CALL_SECONDS = 60.0
"""The deadline of a call that reads or that asks for something."""
CREATE_SECONDS = 120.0
"""The deadline of a create: the service checks the whole job, its accounts and its quota."""
DELETE_SECONDS = 120.0
"""The time in which the service has to delete a job."""
OPERATION_PAUSE = 0.5
"""Seconds between two looks at an operation."""

_REGION = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
FOREIGN_HINT = "Is there a proxy in between, or an endpoint override that leads elsewhere?"


def service_endpoint(location: str) -> str:
    """The address of the API in a region, without a trailing slash: gcloud's override, else Google's own.

    Raises ConfigError for a location that is not a region.
    """
    if override := endpoint_override("aiplatform").rstrip("/"):
        return override
    if not _REGION.fullmatch(location):  # the token would go to another host than Google's
        raise ConfigError(
            f"{location!r} is not a region.", hint="Write the name with its region, such as us-central1."
        )
    return f"https://{location}-aiplatform.googleapis.com"


def quoted(text: str) -> str:
    """A text as a string of a filter, as Vertex AI and Cloud Logging read them."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class VertexApi:
    """The service. Every verb raises errors of vtrain."""

    def __init__(self, access: ServiceAccess, tell: Tell) -> None:
        self._access = access
        self._tell = tell
        self._has_warned = False
        self._service_time = 0.0  # its clock at its last answer, in seconds since 1970; 0: it does not tell

    @cached_property
    def _session(self) -> AuthorizedSession:
        from vtrain.backends.vertex.service_session import make_session

        return make_session(self._access)

    def sign_in(self, location: str) -> None:
        """Get the token that the requests to a region will carry."""
        endpoint = service_endpoint(location)

        def refresh() -> None:
            from vtrain.http_session import token_request

            credentials = self._session.credentials
            if not credentials.valid:
                with _failures(endpoint):
                    credentials.refresh(token_request())

        with _errors():
            repeat(refresh, tell=self._again)

    def get(self, name: ResourceName) -> Document:
        """The resource as it stands."""
        return self._ask("GET", name)

    def list_page(
        self, within: ResourceName, *, page_size: int, page_token: str, filter_text: str
    ) -> Document:
        """A page of the collection that `within` names; its id does not count."""
        options = {"pageSize": str(page_size), "pageToken": page_token, "filter": filter_text}
        given = {name: value for name, value in options.items() if value}
        return self._send("GET", within.location, _collection(within), params=given)

    def cancel(self, name: ResourceName) -> None:
        """Ask a job to end. A second request does no harm: the job is ending, or has ended."""
        self._ask("POST", name, ":cancel")

    def reboot(self, name: ResourceName) -> Document:
        """The operation of a reboot. It is repeated only after a refusal: a second one would reboot again."""
        return self._ask("POST", name, ":reboot", outcome="it is rebooted", troubles=(Trouble.NOT_DONE,))

    def delete(self, name: ResourceName, verb: str = "") -> Document:
        """The operation of a delete (`:deleteVersion`). What is gone after a lost answer has been deleted."""
        troubles: list[Trouble] = []

        def again(failed: CallFailed) -> None:
            troubles.append(failed.trouble)
            self._again(failed)

        try:
            return self._ask("DELETE", name, verb, tell=again)
        except NotFoundError:
            if Trouble.LOST not in troubles:
                raise
            return {"done": True}

    def create(self, within: ResourceName, document: Document) -> Document:
        """Create a resource, exactly once; the resource.

        Raises ServiceAwayError, saying so, when it cannot be known whether it was created.
        """
        named = f"display_name={quoted(str(document.get('displayName', '')))}"

        def same_name() -> list[Document]:
            page = self.list_page(within, page_size=100, page_token="", filter_text=named)
            return read_list(page, within.collection)

        return self._create(within, document, {}, same_name, lambda resource: resource)

    def create_named(self, name: ResourceName, document: Document) -> Document:
        """Create a resource whose id the user chose, exactly once; the operation. Raises as `create` does."""

        def same_id() -> list[Document]:
            try:
                return [self.get(name)]
            except NotFoundError:
                return []

        def operation(resource: Document) -> Document:
            page = self.operation(f"{name}/operations", name.location)
            return (read_list(page, "operations") or [{"done": True, "response": resource}])[0]

        noun = NOUNS[name.collection]
        own = {f"{noun[0].lower()}{noun[1:]}Id": name.id}
        return self._create(name, document, own, same_id, operation)

    def _create(
        self,
        within: ResourceName,
        document: Document,
        params: Mapping[str, str],
        candidates: Callable[[], list[Document]],
        as_answer: Callable[[Document], Document],
    ) -> Document:
        noun = NOUNS[within.collection]

        def post() -> Document:
            made = self._exchange("POST", within.location, _collection(within), params=params, body=document)
            return _named(made, "operation" if params else noun)

        search = ServiceSearch(
            candidates=candidates, service_time=lambda: self._service_time, as_answer=as_answer
        )
        with _errors(outcome=f"the {noun} was created"):
            return create_once(post, document, search, self._again)

    def begin(self, within: ResourceName, verb: str, document: Document, outcome: str) -> Document:
        """The operation of a request on a collection (`:upload`). It is repeated only after a refusal."""
        path = f"{_collection(within)}{verb}"
        return self._send(
            "POST", within.location, path, body=document, outcome=outcome, troubles=(Trouble.NOT_DONE,)
        )

    def list_below(self, name: ResourceName, verb: str, options: Mapping[str, str]) -> Document:
        """A page of what a resource has (`:listVersions`)."""
        return self._ask("GET", name, verb, params={key: value for key, value in options.items() if value})

    def operation(self, name: str, location: str) -> Document:
        """An operation as it stands now; for `NAME/operations` those of a resource, newest first."""
        return self._send("GET", location, name)

    def wait(self, operation: Document, location: str) -> None:
        """Wait until an operation is done. Raises ServiceError when it failed, or takes too long."""

        def is_done() -> bool:
            nonlocal operation
            if operation.get("name") and not operation.get("done"):
                operation = self.operation(str(operation["name"]), location)
            # An answer that is not an operation says that the request was taken: there is nothing to ask for.
            return not operation.get("name") or bool(operation.get("done"))

        if not wait_until(is_done, DELETE_SECONDS, OPERATION_PAUSE):
            raise ServiceError(f"{operation.get('name')} is not done after {DELETE_SECONDS:g} s; it goes on.")
        if error := operation.get("error"):
            words = error.get("message", "The operation failed.") if isinstance(error, dict) else error
            raise ServiceError(str(words))

    def _ask(self, method: str, name: ResourceName, verb: str = "", **options: Any) -> Document:
        """The answer to a request about one resource. A missing one is an error with a hint."""
        body: Document | None = {} if verb and method == "POST" else None
        try:
            return self._send(method, name.location, f"{name}{verb}", body=body, **options)
        except (NotFoundError, ServiceError) as error:
            is_refused_id = type(error) is ServiceError and is_display_name(name) and not error.hint
            if isinstance(error, NotFoundError) or is_refused_id:
                error.hint = missing_hint(name) or error.hint
            raise

    def _send(
        self,
        method: str,
        location: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Document | None = None,
        outcome: str = "",
        troubles: Container[Trouble] = SAFE,
        tell: Callable[[CallFailed], None] | None = None,
    ) -> Document:
        """The answer to a request, which is made again after these troubles."""
        with _errors(outcome):
            return repeat(
                lambda: self._exchange(method, location, path, params=params, body=body),
                tell=tell or self._again,
                troubles=troubles,
            )

    def _again(self, failed: CallFailed) -> None:
        """Tell of the first failure of this command that is not its end."""
        if not self._has_warned:
            self._has_warned = True
            self._tell(f"{failed.error.message.splitlines()[0]} Trying again.")

    def _exchange(
        self,
        method: str,
        location: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Document | None = None,
    ) -> Document:
        """One request, made once; the answer as the service wrote it.

        Raises CallFailed, and UnusableAnswerError for an answer that is not a JSON object.
        """
        endpoint = service_endpoint(location)
        is_create = method == "POST" and bool(body)
        with _failures(endpoint):
            response = self._session.request(
                method,
                f"{endpoint}/{self._access.api_version}/{path}",
                params={**(params or {}), "alt": "json"},
                data=None if body is None else json.dumps(body).encode(),
                headers=None if body is None else {"Content-Type": "application/json"},
                timeout=CREATE_SECONDS if is_create else CALL_SECONDS,
                allow_redirects=method == "GET",  # requests would follow with a GET, and lose the body
            )
        self._service_time = header_time(response, "Date")
        return _document(response)


@contextmanager
def _failures(endpoint: str) -> Iterator[None]:
    """The one border where exceptions of `requests` and google-auth become ours."""
    try:
        yield
    except Exception as error:
        failed = unanswered(error, endpoint)
        if failed is None:
            raise
        raise failed from error


@contextmanager
def _errors(outcome: str = "") -> Iterator[None]:
    """Raise the error in a CallFailed.

    `outcome` is what a lost answer, or a signal, leaves open ("the CustomJob was created"), for the hint.
    """
    unknown = f"Whether {outcome} is not known: see what is there before you ask again."
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if not outcome:
            raise
        raise InterruptedByUser("Interrupted.", hint=unknown) from interrupt
    except CallFailed as failed:
        is_open = isinstance(failed.error, ServiceAwayError) and failed.trouble not in NOTHING_DONE
        if outcome and is_open:
            failed.error.hint = unknown
        raise failed.error from failed.__cause__
    except (ServiceAwayError, TerminatedBySignal, UnusableAnswerError) as error:
        if outcome:
            error.hint = unknown
        raise


def _document(response: Response) -> Document:
    """The document in an answer."""
    url, content = str(response.url).partition("?")[0], response.content
    if response.status_code >= 400:
        raise refused(response)
    if response.status_code >= 300:
        raise ServiceError(_foreign(url, f"{response.status_code} {response.reason}"), hint=FOREIGN_HINT)
    if not content.strip():
        return {}
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise UnusableAnswerError(_foreign(url, shortened(content)), hint=FOREIGN_HINT)
    return document


def _foreign(url: str, answer: str) -> str:
    return f"{masked_text(url, (), {})} answered with something that is not of this API: {answer}"


def _named(answer: Document, expected: str) -> Document:
    """An answer to a create. Raises UnusableAnswerError for one without the name of what was created."""
    if not isinstance(answer.get("name"), str) or not answer["name"].startswith("projects/"):
        raise UnusableAnswerError(f"The service answered the create with no {expected}.")
    return answer


def _collection(within: ResourceName) -> str:
    return f"projects/{within.project}/locations/{within.location}/{within.collection}"


def read_list(page: Document, collection: str) -> list[Document]:
    """The resources on a page. Raises ServiceError for a page that holds something else."""
    found = page.get(collection) or []
    if not isinstance(found, list):
        raise ServiceError(f"The service answered with a page whose {collection} is no list.")
    return found
