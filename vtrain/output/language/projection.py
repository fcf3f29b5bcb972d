"""Documents flattened, sorted, and reduced to the keys of a format, nested or as a row of cells."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from vtrain.errors import ConfigError
from vtrain.output.language.expressions import SortKey, evaluate, transformed
from vtrain.output.language.format import EVERY, INNER, KEPT, UNKNOWN, Column, Format, Node
from vtrain.output.language.keys import Key, Path, field_name, get, path_text
from vtrain.output.language.value_transforms import float_

Row = TypeVar("Row")
Cut = Callable[[Any], list[Any]]
_ALL = Node(Key(), KEPT)


class Projector:
    """Reduces documents to the keys of a format.

    A field without a value stays where a projection names it and, with `keeps_null`, in a whole document.
    """

    def __init__(self, fmt: Format, *, keeps_null: bool) -> None:
        attributes = fmt.attributes
        self.is_whole = not fmt.columns
        self.keeps_null = keeps_null and self.is_whole and "no-undefined" not in attributes
        self.transforms: bool | None = None
        """Whether all transforms are on; None where each node tells."""
        if "transforms" in attributes or "no-transforms" in attributes:
            self.transforms = "transforms" in attributes
        self.decodes = "json-decode" in attributes
        self.tree = (fmt.tree if fmt.columns or self.transforms else None) or _ALL

    def project(self, document: Any) -> Any:
        """The reduced document; None if it is empty."""
        return self._keep(document, self.tree, KEPT if self.is_whole else UNKNOWN)

    def _keep(self, value: Any, node: Node, state: int) -> Any:
        value = self._decoded(value)
        if isinstance(value, (dict, list)):
            return self._inside(value, node, state)
        if state < KEPT:
            return None
        return transformed(node.key.calls, value) if self._is_on(node) else value

    def _inside(self, value: Any, node: Node, state: int) -> Any:
        if self._is_on(node):
            return transformed(node.key.calls, value)
        if state < KEPT and not node.branches:
            return value  # the key "." is a column and no node of the tree
        if isinstance(value, dict):
            return self._fields(value, node, state) if value else value
        return self._elements(value, node, state)

    def _is_on(self, node: Node) -> bool:
        return bool(node.key.calls) and (node.is_active if self.transforms is None else self.transforms)

    def _fields(self, value: dict[str, Any], node: Node, state: int) -> dict[str, Any] | None:
        kept: dict[str, Any] = {}
        for name, item in value.items():
            branch = node.branches.get(name)
            here = state if branch is None else max(state, branch.state)
            if here < (INNER if branch else KEPT):
                continue
            found = self._keep(item, branch or _ALL, here)
            if found is not None or self.keeps_null or (here >= KEPT and not self.is_whole):
                kept[name] = found
        return kept or None

    def _elements(self, value: list[Any], node: Node, state: int) -> list[Any] | None:
        if not value:
            return []
        every = self._every(node, state)
        chosen = {step % len(value): branch for step, branch in node.branches.items()
                  if isinstance(step, int) and -len(value) <= step < len(value)}  # fmt: skip
        kept: list[Any] = [None] * (len(value) if every else max(chosen, default=-1) + 1)
        last = -1
        for place in range(len(value)) if every else sorted(chosen):
            branch = chosen.get(place) or every or _ALL
            here = max(state, branch.state, every.state if every else UNKNOWN)
            found = self._keep(value[place], branch, here) if here >= INNER else None
            if found is not None:
                kept[place], last = found, place
        return None if last < 0 else kept[: last + 1] if every else kept

    def _every(self, node: Node, state: int) -> Node | None:
        """The node of every element of a list; None if only numbered elements are kept."""
        every = node.branches.get(EVERY)
        if every is not None and (state >= KEPT or every.state):
            return every
        return _ALL if state >= KEPT else None

    def _decoded(self, value: Any) -> Any:
        """The list or object in a text of JSON, with ``json-decode``."""
        if not self.decodes or not isinstance(value, str) or (value[:2] != '{"' and value[:1] != "["):
            return value
        try:
            return msgspec.json.decode(value)
        except msgspec.DecodeError:
            return value


def row_projector(fmt: Format) -> Cut:
    """The function that gives a document's value for each column."""
    attributes = fmt.attributes
    on = "transforms" in attributes or (fmt.name != "get" and "no-transforms" not in attributes)
    decode = None
    if "json-decode" in attributes:
        decode = Projector(Format(name=fmt.name, attributes={"json-decode": ""}), keeps_null=True).project
    columns = fmt.columns

    def cut(document: Any) -> list[Any]:
        if decode is not None:
            document = decode(document)
        return [_cell(column, document, on=on) for column in columns]

    return cut


def _cell(column: Column, document: Any, *, on: bool) -> Any:
    value = get(document, column.key.path)
    if isinstance(value, (dict, list)):
        value = in_order(value)
    if not on or not column.key.calls:
        return value
    wants_all = any(call.name == "uri" for call in column.key.calls)
    return transformed(column.key.calls, document if wants_all else value)


def in_order(value: Any) -> Any:
    """The value with the fields of every object in alphabetical order."""
    if isinstance(value, dict):
        return {name: in_order(value[name]) for name in sorted(value, key=str)}
    return [in_order(item) for item in value] if isinstance(value, list) else value


def cell_text(value: Any) -> str:
    """A value as the text of one cell: '' for none, lists and objects as Python writes them."""
    if value is None:
        return ""
    if isinstance(value, float):
        return float_(value)
    return str(value)


def flatten_documents(documents: Iterable[Any], paths: Iterable[Path]) -> Iterator[Any]:
    """Each element of the list at a path as a separate document, the rest repeated (``--flatten``)."""
    flat: Iterable[Any] = documents
    for path in paths:
        for size in (*(place for place, step in enumerate(path) if step is EVERY), len(path)):
            if size == len(path) and path[-1:] == (EVERY,):
                continue
            flat = _flattened(flat, tuple(step for step in path[:size] if step is not EVERY))
    return iter(flat)


def _flattened(documents: Iterable[Any], path: Path) -> Iterator[Any]:
    for document in documents:
        items = get(document, path)
        if not isinstance(items, list):
            yield items
            continue
        for item in items:
            yield _replaced(document, path, item)


def _replaced(document: Any, path: Path, item: Any) -> Any:
    """The document with another value at `path`. Raises ConfigError where a list has no `[]` in the path."""
    if not path:
        return item
    step = field_name(document, path[0]) if isinstance(document, dict) else path[0]
    if step is None or isinstance(step, str) is not isinstance(document, dict):
        raise ConfigError(
            f"--flatten cannot reach {path_text(path)}: what holds it is a list.",
            hint="Flatten that list too, with [] behind its name: jobSpec.workerPoolSpecs[].containerSpec",
        )
    changed = copy.copy(document)
    changed[step] = _replaced(changed[step], path[1:], item)
    return changed


def sort_documents(documents: Iterable[Row], keys: Iterable[SortKey]) -> list[Row]:
    """The documents in order; equal ones keep their order.

    As in gcloud everything is compared as text, case-sensitive, a missing value as the text ``None``.
    """
    ordered = list(documents)
    for sort_key in reversed(tuple(keys)):
        ordered.sort(key=lambda document: str(evaluate(sort_key.key, document)), reverse=sort_key.reverse)
    return ordered
