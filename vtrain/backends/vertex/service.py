"""The API as the backend asks it: verbs on resource names, repeated where that is safe, errors as ours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vtrain.backends import ServiceAccess, Tell
from vtrain.backends.vertex.clients import Client, Clients, service_endpoint
from vtrain.backends.vertex.collections import KINDS
from vtrain.backends.vertex.filters import quoted
from vtrain.backends.vertex.lost_create import Document, Search, create_once
from vtrain.backends.vertex.refusals import translate
from vtrain.backends.vertex.retries import Again, Trouble, repeat, trouble_of
from vtrain.errors import (
    InterruptedByUser,
    NotFoundError,
    ServiceAwayError,
    ServiceError,
    TerminatedBySignal,
    UnusableAnswerError,
    VtrainError,
)
from vtrain.messages.missing import is_display_name, missing_hint
from vtrain.messages.names import ResourceName

DELETE_SECONDS = 120.0
"""How long the service may take to delete a job."""
OPERATION_PAUSE = 0.5
"""Seconds between two looks at an operation."""


def _safe(trouble: Trouble) -> bool:
    return trouble is not Trouble.REFUSED


def _not_done(trouble: Trouble) -> bool:
    return trouble is Trouble.NOT_DONE


class Service:
    """The services of the API behind one face. Every verb raises what `refusals` makes of a failure."""

    def __init__(self, access: ServiceAccess, tell: Tell) -> None:
        self._clients = Clients(access)
        self._tell = tell
        self._has_told = False

    def sign_in(self, location: str) -> None:
        """Get the token that the requests to a region will carry."""
        with _translated(location):
            repeat(self._clients.sign_in, may_repeat=_safe, again=self._again(location))

    def get(self, name: ResourceName) -> Document:
        """The resource as it stands."""
        return self._ask("Get", name, may_repeat=_safe)

    def list_page(
        self, within: ResourceName, *, page_size: int, page_token: str, filter_text: str
    ) -> Document:
        """A page of the collection that `within` names; its id does not count."""
        fields = {"parent": _parent(within), "pageSize": page_size}
        fields |= {"pageToken": page_token} if page_token else {}
        fields |= {"filter": filter_text} if filter_text else {}
        return self._call("List", within, fields, may_repeat=_safe)

    def cancel(self, name: ResourceName) -> None:
        """Ask a job to end; a second request finds it ending, or ended."""
        self._ask("Cancel", name, may_repeat=_safe)

    def reboot(self, name: ResourceName) -> Document:
        """The operation of a reboot; made again only when it was refused, as a second one reboots again."""
        return self._ask("Reboot", name, may_repeat=_not_done, outcome="it is rebooted")

    def delete(self, name: ResourceName) -> Document:
        """The operation of a delete. A resource that is gone after a lost answer has been deleted."""
        lost: list[Trouble] = []

        def may_repeat(trouble: Trouble) -> bool:
            lost.append(trouble)
            return _safe(trouble)

        try:
            return self._ask("Delete", name, may_repeat=may_repeat)
        except NotFoundError:
            if Trouble.LOST not in lost:
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
            operations = self._list_operations(name)
            return operations[0] if operations else {"done": True, "response": resource}

        own = {f"{KINDS[name.collection].field}Id": name.id}
        return self._create(name, document, own, same_id, operation)

    def _create(
        self,
        within: ResourceName,
        document: Document,
        more: Document,
        candidates: Callable[[], list[Document]],
        as_answer: Callable[[Document], Document],
    ) -> Document:
        kind = KINDS[within.collection]
        fields = {"parent": _parent(within), kind.field: document, **more}
        expected = "operation" if more else kind.noun
        with _translated(within.location, outcome=f"the {kind.noun} was created"):
            client = self._client(within)
            search = Search(
                candidates=candidates, service_time=lambda: client.service_time, as_answer=as_answer
            )
            return create_once(
                lambda: _named(client.call("Create", kind, fields, body=document), expected),
                document,
                search,
                self._again(within.location),
            )

    def _list_operations(self, name: ResourceName) -> list[Document]:
        with _translated(name.location):
            client = self._client(name)
            page = repeat(
                lambda: client.list_operations(str(name)), may_repeat=_safe, again=self._again(name.location)
            )
            return read_list(page, "operations")

    def wait(self, operation: Document, location: str) -> None:
        """Wait until an operation is done. Raises ServiceError when it failed, or takes too long."""
        deadline = time.monotonic() + DELETE_SECONDS
        while operation and not operation.get("done"):
            if time.monotonic() > deadline:
                raise ServiceError(
                    f"{operation.get('name')} is not done after {DELETE_SECONDS:g} s; it goes on."
                )
            time.sleep(OPERATION_PAUSE)
            operation = self.get_operation(str(operation.get("name")), location)
        if operation.get("error"):
            raise ServiceError(str(operation["error"].get("message", "The operation failed.")))

    def get_operation(self, name: str, location: str) -> Document:
        """An operation as it stands."""
        with _translated(location):
            client = self._clients.get("job_service", location)
            return repeat(lambda: client.get_operation(name), may_repeat=_safe, again=self._again(location))

    def _ask(
        self, verb: str, name: ResourceName, *, may_repeat: Callable[[Trouble], bool], outcome: str = ""
    ) -> Document:
        try:
            return self._call(verb, name, {"name": str(name)}, may_repeat=may_repeat, outcome=outcome)
        except (NotFoundError, ServiceError) as error:
            is_refused_id = type(error) is ServiceError and is_display_name(name) and not error.hint
            if isinstance(error, NotFoundError) or is_refused_id:
                error.hint = missing_hint(name) or error.hint
            raise

    def _call(
        self,
        verb: str,
        name: ResourceName,
        fields: Document,
        *,
        may_repeat: Callable[[Trouble], bool],
        outcome: str = "",
    ) -> Document:
        kind = KINDS[name.collection]
        body: Document | None = {} if verb in ("Cancel", "Reboot") else None
        with _translated(name.location, outcome):
            client = self._client(name)
            return repeat(
                lambda: client.call(verb, kind, fields, body=body),
                may_repeat=may_repeat,
                again=self._again(name.location),
            )

    def _again(self, location: str) -> Again:
        """Tells of the first failure of this command that is not its end."""

        def again(error: Exception) -> None:
            reason = translate(error, service_endpoint(location))
            if reason is not None and not self._has_told:
                self._has_told = True
                self._tell(f"{reason.message.splitlines()[0]} Trying again.")

        return again

    def _client(self, name: ResourceName) -> Client:
        return self._clients.get(KINDS[name.collection].service, name.location)


@contextmanager
def _translated(location: str, outcome: str = "") -> Iterator[None]:
    """The one border where exceptions of Google's libraries become ours.

    `outcome` is what a lost answer, or a signal, leaves open ("the CustomJob was created"), for the hint.
    """
    unknown = f"Whether {outcome} is not known: see what is there before you ask again."
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if not outcome:
            raise
        raise InterruptedByUser("Interrupted.", hint=unknown) from interrupt
    except Exception as error:
        ours = error if isinstance(error, VtrainError) else translate(error, service_endpoint(location))
        if ours is None:
            raise
        away = isinstance(ours, ServiceAwayError) and trouble_of(error) is not Trouble.NOT_DONE
        if outcome and (away or isinstance(ours, TerminatedBySignal | UnusableAnswerError)):
            ours.hint = unknown
        if ours is error:
            raise
        raise ours from error


def _named(answer: Document, expected: str) -> Document:
    """An answer to a create. Raises UnusableAnswerError for one without the name of what was created."""
    if not isinstance(answer.get("name"), str) or not answer["name"].startswith("projects/"):
        raise UnusableAnswerError(f"The service answered the create with what is no {expected}.")
    return answer


def _parent(name: ResourceName) -> str:
    return f"projects/{name.project}/locations/{name.location}"


def read_list(page: Document, collection: str) -> list[Document]:
    """The resources on a page. Raises ServiceError for a page that holds something else."""
    found = page.get(collection) or []
    if not isinstance(found, list):
        raise ServiceError(f"The service answered with a page whose {collection} is no list.")
    return found
