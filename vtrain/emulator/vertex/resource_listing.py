"""Lists of resources: pages, filters, orders and field masks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from vtrain.emulator.vertex.documents import camel_case, masked
from vtrain.emulator.vertex.filters import read_filter
from vtrain.emulator.vertex.vertex_call import Document, VertexCall
from vtrain.emulator.vertex.vertex_refusals import VertexRefusal, invalid
from vtrain.messages.resources import JOBS

PAGE = 100
LARGEST_PAGE = 1000
MOST_SORTED = 20_000
"""Resources that a list in an order of the client's choice may have."""
Pages = Callable[[int, str], tuple[list[Document], str]]
"""A page of at most so many documents behind a token, and the next token."""


def list_page(call: VertexCall, collection: str, pages: Pages) -> Document:
    """A page of the documents that pass the filter of a request, in the order that the client wants.

    Raises VertexRefusal for a filter, an order, a size or a token that is invalid.
    """
    passes, order = read_filter(call.text("filter")), call.text("orderBy")
    size, token = page_size(call.fields.get("pageSize"), PAGE), call.text("pageToken")
    if token and not (token.isascii() and token.isdecimal() and len(token) < 19):
        raise invalid(f"Invalid page token: {token[:100]!r}.")
    start = int(token or 0)
    if collection not in JOBS:
        found = _in_order([one for one in _all(pages) if passes(one)], order)
        token = str(start + size) if start + size < len(found) else ""
        found = found[start : start + size]
    else:
        found, token = pages(size, token)
        found = [one for one in found if passes(one)]
        while not found and token:  # a page without any would look like an end to some clients
            found, token = pages(size, token)
            found = [one for one in found if passes(one)]
    mask = call.text("readMask")
    documents = [masked(one, mask) for one in found]
    return {**({collection: documents} if documents else {}), **({"nextPageToken": token} if token else {})}


def _all(pages: Pages) -> Iterator[Document]:
    count, token = 0, ""
    while True:
        found, token = pages(LARGEST_PAGE, token)
        yield from found
        count += len(found)
        if not token:
            return
        if count > MOST_SORTED:
            raise VertexRefusal(
                "RESOURCE_EXHAUSTED", f"More than {MOST_SORTED} resources cannot be put in order."
            )


def _in_order(documents: list[Document], order: str) -> list[Document]:
    """Sort by the keys of `order_by`: `display_name, create_time desc`. Raises VertexRefusal."""
    for key in reversed([part.strip() for part in order.split(",") if part.strip()]):
        name, _, direction = key.partition(" ")
        if direction.strip() not in ("", "asc", "desc") or not name.replace("_", "").isalnum():
            raise invalid(f"Invalid order_by: {order[:300]!r}.")
        field = camel_case(name)
        documents.sort(key=lambda one: str(one.get(field, "")), reverse=direction.strip() == "desc")
    return documents


def page_size(value: Any, usual: int) -> int:
    """The size that a request asks for, or the usual one. Raises VertexRefusal for what is no number."""
    text = str(value or 0)
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise invalid(f"Invalid value at 'page_size': {text[:100]!r}.")
    return min(int(text), LARGEST_PAGE) or usual
