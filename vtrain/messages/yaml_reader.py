"""The reader of users' YAML: the scalars of YAML 1.2, and errors with file and line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import yaml

from vtrain.errors import ConfigError
from vtrain.messages.codec import camel_case

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


DEEPEST = 100
"""Levels of nesting. At about 20,000, libyaml would overflow the stack and end this process."""
LARGEST = 100_000
"""Values of a document, with each alias counted as all the values that it refers to."""
_MOST_DIGITS = 1000
"""More than any field takes. Python reads 4300 at most, and prints no more of what `!!int 0x…` can say."""
_BEYOND_INTEGERS = 10**_MOST_DIGITS
_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)


class _NulError(Exception):
    """A scalar with a NUL character, which YAML allows and no job can use."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(f"{text[:40]!a} holds a NUL character")
        self.line = line


class _Loader(_Base):  # type: ignore[misc]
    """YAML 1.2's core scalars, so that `n`, `yes`, `012` and `1:30` are text."""

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
        """The text of a scalar. Refuses a NUL, which the system allows in no argument and no path."""
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


def _construct_int(loader: Any, node: Any) -> int:
    number: int = _Base.construct_yaml_int(loader, node)
    if abs(number) >= _BEYOND_INTEGERS:
        raise _error(f"an integer has more than {_MOST_DIGITS} digits", node)
    return number


def _error(problem: str, place: Any) -> yaml.MarkedYAMLError:
    """An error at the position of an event or a node."""
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


_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)
_Loader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)


class _TextLoader(_Loader):
    """Numbers as text, as written."""


for _tag in ("int", "float"):
    _TextLoader.add_constructor(
        f"tag:yaml.org,2002:{_tag}", lambda loader, node: loader.construct_scalar(node)
    )


class YamlEntry(NamedTuple):
    """One key of a mapping, its value, and its line, counted from 1."""

    line: int
    key: str
    value: Any


def _as_yaml(text: str) -> str:
    """The text of a JSON document with each pair of surrogates as the one escape that YAML has for it.

    `json.dumps` writes a character beyond U+FFFF as such a pair. Other documents are returned unchanged.
    """
    if not text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        return text

    def one_escape(match: re.Match[str]) -> str:
        high, low = int(match[2], 16), int(match[3], 16)
        return f"{match[1]}\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"

    return _SURROGATES.sub(one_escape, text)


def load_yaml(text: str, origin: str) -> Any:
    """The one document in `text`; errors name `origin`, a file name or a flag.

    Raises ConfigError with the line for malformed YAML, a key given twice, several documents.
    """
    text = _as_yaml(text)
    with _errors_of(origin):
        _check_shape(text)
        return yaml.load(text, Loader=_Loader)


def load_entries(text: str, origin: str) -> tuple[YamlEntry, ...]:
    """The entries of a mapping, or of a list of mappings, in order; numbers are text.

    Raises ConfigError as `load_yaml` does, and for a document of another shape.
    """
    text = _as_yaml(text)
    with _errors_of(origin):
        _check_shape(text)
        loader: Any = _TextLoader(text)
        root = loader.get_single_node()
        nodes = root.value if isinstance(root, yaml.SequenceNode) else [root]
        return tuple(entry for node in nodes for entry in _entries(loader, node, origin))


def line_of(text: str, *paths: str) -> int:
    """The line, from 1, of the field at a path of a document: `workerPoolSpecs[0].replicaCount`.

    Where the document does not have the field, the line of the nearest one above it that it has. Of several
    paths the one counts of which the document has most; 0 where it has nothing of any.
    """
    root = yaml.compose(_as_yaml(text), Loader=_Loader)
    found = [_line_below(root, path) for path in paths]
    return min((each for each in found if each[1]), key=lambda each: len(each[0]), default=("", 0))[1]


def _line_below(node: Any, path: str) -> tuple[str, int]:
    """The rest of a path that a document does not have, and the line of what it has; 0 for nothing."""
    rest, line = path, 0
    while rest:
        index = re.match(r"\[(\d+)\]", rest)
        if index is not None:
            if isinstance(node, yaml.SequenceNode):  # else one value stands for a list of one
                items = node.value[int(index[1]) :]
                if not items:
                    break
                node = items[0]
                line = node.start_mark.line + 1
            rest = rest[index.end() :].removeprefix(".")
            continue
        found = _entry_at(node, rest)
        if found is None:
            break
        key, node, rest = found
        line = key.start_mark.line + 1
    return rest, line


def _entry_at(node: Any, path: str) -> tuple[Any, Any, str] | None:
    """The key of a mapping that a path begins with, its value, and the rest of the path."""
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        typed = str(key.value)
        for name in (typed, camel_case(typed)):
            if path == name or path.startswith((f"{name}.", f"{name}[")):
                return key, value, path[len(name) :].removeprefix(".")
    return None


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


def _entries(loader: Any, node: Any, origin: str) -> Iterator[YamlEntry]:
    if not isinstance(node, yaml.MappingNode):
        place = f"{origin}:{node.start_mark.line + 1}" if node is not None else origin
        raise ConfigError(f"{place}: expected a mapping, or a list of mappings.")
    lines = {key.value: key.start_mark.line + 1 for key, _ in node.value if isinstance(key.value, str)}
    first = node.start_mark.line + 1
    for key, value in loader.construct_document(node).items():
        yield YamlEntry(line=lines.get(str(key), first), key=str(key), value=value)


@contextmanager
def _errors_of(origin: str) -> Iterator[None]:
    """Turn the reader's errors into ConfigErrors with file and line."""
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
