"""Trees: the part of a document that a projection keeps, in its nesting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vtrain.output.keys import Key, Path, evaluate, field, other_spelling

_ABSENT = object()


def project(document: object, keys: Iterable[Key]) -> object:
    """The document with only what `keys` name, absent values left out; None if nothing is left."""
    kept: object = _ABSENT
    for key in keys:
        kept = _merge(kept, _carve(document, key.path, key, document))
    return None if kept is _ABSENT else _prune(kept)


def _carve(source: object, path: Path, key: Key, document: object) -> object:
    if not path:
        return _leaf(source, key, document)
    step, rest = path[0], path[1:]
    if isinstance(step, str) and isinstance(source, dict):
        name = step if source.get(step) is not None else other_spelling(step)
        return _nested(name, _carve(field(source, step), rest, key, document))
    if not isinstance(source, list):
        return _ABSENT
    if isinstance(step, int):
        place = step + len(source) if step < 0 else step
        chosen, rest_of_path = range(place, place + 1), rest
    else:
        chosen = range(len(source))[step] if isinstance(step, slice) else range(len(source))
        rest_of_path = rest if isinstance(step, slice) else path
    carved: list[object] = [_ABSENT] * len(source)
    for place in set(chosen) & set(range(len(source))):
        carved[place] = _carve(source[place], rest_of_path, key, document)
    return _ABSENT if all(item is _ABSENT for item in carved) else carved


def _leaf(source: object, key: Key, document: object) -> object:
    value = source
    if key.calls:
        value = evaluate(Key(path=(), calls=key.calls), source if key.path else document)
        if not key.path and value is not None:
            return {str(key.attributes.get("label") or key.calls[0].name): value}
    return _ABSENT if value is None else value


def _nested(name: str, value: object) -> object:
    return value if value is _ABSENT else {name: value}


def _merge(first: object, second: object) -> object:
    if first is _ABSENT or second is _ABSENT:
        return second if first is _ABSENT else first
    if isinstance(first, dict) and isinstance(second, dict):
        names = {**first, **second}
        return {name: _merge(first.get(name, _ABSENT), second.get(name, _ABSENT)) for name in names}
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return [_merge(one, other) for one, other in zip(first, second, strict=True)]
    return second


def _prune(value: object) -> object:
    if isinstance(value, dict):
        return {name: _prune(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_prune(item) for item in value if item is not _ABSENT]
    return value


def flatten_documents(documents: Iterable[object], keys: Iterable[Key]) -> Iterator[object]:
    """Each element of the list at a key as a document of its own, the rest repeated (``--flatten``)."""
    flat = iter(documents)
    for key in keys:
        path = tuple(step for step in key.path if step != slice(None, None))
        flat = _flatten(flat, path)
    return flat


def _flatten(documents: Iterable[object], path: Path) -> Iterator[object]:
    for document in documents:
        yield from _spread(document, path)


def _spread(value: object, path: Path) -> Iterator[object]:
    if not path:
        yield from value if isinstance(value, list) else [value]
    elif isinstance(value, dict) and isinstance(path[0], str) and field(value, path[0]) is not None:
        name = path[0] if value.get(path[0]) is not None else other_spelling(path[0])
        for part in _spread(value[name], path[1:]):
            yield {**value, name: part}
    else:
        yield value
