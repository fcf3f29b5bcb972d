"""Reads YAML that a user wrote: no surprises of YAML 1.1, and errors that name file and line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import yaml

from vtrain.errors import ConfigError

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


DEEPEST = 100
"""How deep a document may be nested. libyaml would end this process, for want of stack, at some 20,000."""
LARGEST = 1_000_000
"""How many values a document may have when each alias is counted with all that it stands for."""


class _NulError(Exception):
    """A scalar that a YAML document may hold, and that no job can use."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(f"{text[:40]!a} holds a NUL character")
        self.line = line


class _Loader(_Base):  # type: ignore[misc]
    """YAML 1.2's core scalars, so that `n`, `yes`, `012` and `1:30` stay the text that they look like."""

    yaml_implicit_resolvers: dict[str, Any] = {}

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """The value of a node. Refuses a scalar that does not fit its tag, such as `!!bool abc`."""
        try:
            return super().construct_object(node, deep=deep)
        except (KeyError, AttributeError, ValueError) as error:
            if not isinstance(node, yaml.ScalarNode):
                raise
            raise _error(f"{node.value[:40]!a} is no {node.tag.rpartition(':')[2]}", node) from error

    def construct_scalar(self, node: Any) -> Any:
        """The text of a scalar. Refuses a NUL, with which no process starts and no file is found."""
        text = super().construct_scalar(node)
        if isinstance(text, str) and "\0" in text:
            raise _NulError(text, node.start_mark.line + 1)
        return text


_SCALARS = (
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("tag:yaml.org,2002:int", r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789")),
    (
        "tag:yaml.org,2002:float",
        r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+0123456789."),
    ),
    ("tag:yaml.org,2002:merge", r"<<", ["<"]),
)
for _tag, _pattern, _first in _SCALARS:
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), _first)


def _construct_float(loader: Any, node: Any) -> float:
    text = loader.construct_scalar(node).lower().replace(".inf", "inf").replace(".nan", "nan")
    return float(text)


def _error(problem: str, place: Any) -> yaml.MarkedYAMLError:
    """An error of the document, at an event or a node."""
    return yaml.MarkedYAMLError(problem=problem, problem_mark=place.start_mark)


def _construct_mapping(loader: Any, node: Any) -> dict[Any, Any]:
    seen: set[str] = set()
    for key, _ in node.value:
        if isinstance(key.value, str) and key.value in seen:
            raise _error(f"the key {key.value!r} stands here twice", key)
        if isinstance(key.value, str) and key.value != "<<":
            seen.add(key.value)
    loader.flatten_mapping(node)
    return dict(loader.construct_mapping(node, deep=True))


_Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)
_Loader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)


class _TextLoader(_Loader):
    """Numbers as the text that they are written as."""


for _tag in ("int", "float"):
    _TextLoader.add_constructor(
        f"tag:yaml.org,2002:{_tag}", lambda loader, node: loader.construct_scalar(node)
    )


class Entry(NamedTuple):
    """One key of a mapping, its value, and the line that it stands on, counted from 1."""

    line: int
    key: str
    value: Any


def load_yaml(text: str, origin: str) -> Any:
    """The one document in `text`; `origin` (a file name, a flag) is what an error names.

    Raises ConfigError with the line for malformed YAML, a key given twice, several documents.
    """
    with _errors_of(origin):
        _check_shape(text)
        return yaml.load(text, Loader=_Loader)


def load_entries(text: str, origin: str) -> tuple[Entry, ...]:
    """The entries of a mapping, or of a list of mappings, in order; numbers are text.

    Raises ConfigError as `load_yaml` does, and for a document of another shape.
    """
    with _errors_of(origin):
        _check_shape(text)
        loader: Any = _TextLoader(text)
        root = loader.get_single_node()
        nodes = root.value if isinstance(root, yaml.SequenceNode) else [root]
        return tuple(entry for node in nodes for entry in _entries(loader, node, origin))


def _check_shape(text: str) -> None:
    """Raise MarkedYAMLError for a document nested too deep, or too large once its aliases are followed."""
    if len(text) <= DEEPEST:
        return
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = [(None, 0)]  # anchor, and size so far
    for event in yaml.parse(text, Loader=_Base):
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, 1))
            if len(open_nodes) > DEEPEST + 1:
                raise _error(f"it is nested deeper than {DEEPEST} levels", event)
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, size = open_nodes.pop()
        elif isinstance(event, yaml.AliasEvent):
            anchor, size = None, sizes.get(str(event.anchor), 1)  # the loader refuses an unknown one
        elif isinstance(event, yaml.ScalarEvent):
            anchor, size = event.anchor, 1
        else:
            continue
        if anchor:
            sizes[anchor] = size
        open_nodes[-1] = (open_nodes[-1][0], open_nodes[-1][1] + size)
        if open_nodes[-1][1] > LARGEST:
            raise _error(f"it has more than {LARGEST:,} values", event)


def _entries(loader: Any, node: Any, origin: str) -> Iterator[Entry]:
    if not isinstance(node, yaml.MappingNode):
        place = f"{origin}:{node.start_mark.line + 1}" if node is not None else origin
        raise ConfigError(f"{place}: expected a mapping, or a list of mappings.")
    lines = {key.value: key.start_mark.line + 1 for key, _ in node.value if isinstance(key.value, str)}
    first = node.start_mark.line + 1
    for key, value in loader.construct_document(node).items():
        yield Entry(line=lines.get(str(key), first), key=str(key), value=value)


@contextmanager
def _errors_of(origin: str) -> Iterator[None]:
    """The reader's errors as ConfigErrors that name file and line."""
    try:
        yield
    except _NulError as error:
        raise ConfigError(f"{origin}:{error.line}: {error}.", hint="Leave it out.") from error
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(
            f"{origin}{line}: not a YAML document: {error.problem or error.context}."
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        raise ConfigError(f"{origin}: not a YAML document: {str(error).splitlines()[0]}.") from error
