"""Lists and logs of a backend, page by page: the next page is asked for when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from vtrain.backends import Page
from vtrain.errors import ServiceError
from vtrain.messages.log import LogPage, LogQuery
from vtrain.messages.structs import Query

if TYPE_CHECKING:
    from vtrain.messages.resources import Job


class AnyPage(Protocol):
    """One answer of many; an empty token ends them."""

    @property
    def next_page_token(self) -> str: ...


P = TypeVar("P", bound=AnyPage)
MOST_PAGES = 10_000
"""Pages of a list; a page has up to 100 jobs."""


def pages(ask: Callable[[Query], P], query: Query) -> Iterator[P]:
    """All pages of a list. Raises ServiceError where they do not end."""
    token, seen = "", {""}
    while len(seen) <= MOST_PAGES:
        page = ask(msgspec.structs.replace(query, page_token=token))
        yield page
        token = page.next_page_token
        if not token:
            return
        if token in seen:
            raise ServiceError("The service repeats a page of its list, which does not end.")
        seen.add(token)
    raise ServiceError(f"The list has more than {MOST_PAGES} pages.", hint="Ask for fewer with --limit.")


def all_jobs(ask: Callable[[Query], Page], query: Query, damaged: list[str] | None = None) -> Iterator[Job]:
    """The jobs of all pages; the names of those that cannot be read are appended to `damaged`."""
    for page in pages(ask, query):
        if damaged is not None:
            damaged += page.damaged
        yield from page.jobs


def log_pages(ask: Callable[[LogQuery], LogPage], query: LogQuery) -> Iterator[LogPage]:
    """The pages of a log up to its present end. The last one has no `more`, whatever a backend says."""
    while True:
        page = ask(query)
        if page.cursor == query.cursor:
            page = msgspec.structs.replace(page, more=False)
        yield page
        if not page.more:
            return
        query = msgspec.structs.replace(query, cursor=page.cursor)
