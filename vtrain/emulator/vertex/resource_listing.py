"""Lists of resources: pages, filters, orders and field masks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from vtrain.emulator.vertex.documents import masked
from vtrain.emulator.vertex.filters import Restriction, Test, read_filter
from vtrain.emulator.vertex.resource_files import ResourceFiles
from vtrain.emulator.vertex.vertex_call import Document, VertexCall
from vtrain.emulator.vertex.vertex_refusals import invalid
from vtrain.messages.codec import camel_case, to_document
from vtrain.messages.structs import Resource

R = TypeVar("R", bound=Resource)
PAGE = 100
LARGEST_PAGE = 1000
LARGEST_INT32 = 2**31 - 1
Pages = Callable[[int, str], tuple[list[Document], str]]
"""A page of at most so many documents behind a token, and the next token."""


def list_page(
    call: VertexCall,
    pages: Pages,
    *,
    listed: str = "",
    test_of: Callable[[Restriction], Test] | None = None,
) -> Document:
    """A page of the resources that pass the filter of a request.

    `listed` is the field of the answer, where it is not the collection; `test_of` reads restrictions that
    the filters of other resources do not have. Raises VertexRefusal for a filter, a size or a token that is
    invalid.
    """
    passes, size, token = _asked(call, test_of)
    found: list[Document] = []
    while len(found) < size:
        documents, token = pages(size - len(found), token)
        found += filter(passes, documents)
        if not token:
            break
    return _answer(call, found, token, listed)


def list_all(
    call: VertexCall,
    documents: Iterable[Document],
    *,
    listed: str = "",
    test_of: Callable[[Restriction], Test] | None = None,
) -> Document:
    """The same of resources that are all at hand, in the order that the client wants."""
    passes, size, token = _asked(call, test_of)
    start = int(token or 0)
    found = _in_order([one for one in documents if passes(one)], call.text("orderBy"))
    end = start + size
    return _answer(call, found[start:end], str(end) if end < len(found) else "", listed)


def list_files(
    call: VertexCall,
    files: ResourceFiles[R],
    shown: Callable[[R], Document] = to_document,
    *,
    listed: str = "",
    test_of: Callable[[Restriction], Test] | None = None,
) -> Document:
    """The same of resources in files, `shown` as the API has them; without an order the newest first."""
    if call.text("orderBy").strip():
        return list_all(call, map(shown, files.below(call.parent)), listed=listed, test_of=test_of)
    passes, size, token = _asked(call, test_of)
    found, token = files.page(call.parent, size, token, lambda one: passes(shown(one)))
    return _answer(call, map(shown, found), token, listed)


def _asked(call: VertexCall, test_of: Callable[[Restriction], Test] | None) -> tuple[Test, int, str]:
    """The filter of a request, the size of its page, and the token."""
    passes, token = read_filter(call.text("filter"), test_of), call.text("pageToken")
    if token and not (token.isascii() and token.isdecimal() and len(token) < 19):
        raise invalid(f"Invalid page token: {token[:100]!r}.")
    return passes, page_size(call.fields.get("pageSize"), PAGE), token


def _answer(call: VertexCall, found: Iterable[Document], token: str, listed: str = "") -> Document:
    documents = [masked(one, call.text("readMask")) for one in found]
    name = listed or call.place.collection.rpartition("/")[2]
    return {**({name: documents} if documents else {}), **({"nextPageToken": token} if token else {})}


def _in_order(documents: list[Document], order: str) -> list[Document]:
    """Sort by the keys of `order_by`: `display_name, create_time desc`. Raises VertexRefusal."""
    for key in reversed([part.strip() for part in order.split(",") if part.strip()]):
        name, _, direction = key.partition(" ")
        if direction.strip() not in ("", "asc", "desc") or not name.replace("_", "").isalnum():
            raise invalid(f"Invalid order_by: {order[:300]!r}.")
        field = camel_case(name)
        documents.sort(key=lambda one: _key(one.get(field, "")), reverse=direction.strip() == "desc")
    return documents


def _key(value: Any) -> tuple[bool, Any]:
    return (True, value) if type(value) in (int, float) else (False, str(value))


def page_size(value: Any, usual: int) -> int:
    """The size that a request asks for, or the usual one. Raises VertexRefusal for another value."""
    text = str(value or 0)
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= LARGEST_INT32):
        raise invalid(f"Invalid value at 'page_size': {text[:100]!r}.")
    return min(int(text), LARGEST_PAGE) or usual
