"""Reads YAML that a user wrote: no surprises of YAML 1.1, and errors that name file and line."""

from __future__ import annotations

import re
from typing import Any

import yaml

from vtrain.errors import ConfigError

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """YAML 1.2's core scalars, so that `n`, `yes`, `012` and `1:30` stay the text that they look like."""

    yaml_implicit_resolvers: dict[str, Any] = {}


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


def _construct_mapping(loader: Any, node: Any) -> dict[Any, Any]:
    seen: set[str] = set()
    for key, _ in node.value:
        if isinstance(key.value, str) and key.value in seen:
            problem = f"the key {key.value!r} stands here twice"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
        if isinstance(key.value, str) and key.value != "<<":
            seen.add(key.value)
    loader.flatten_mapping(node)
    return dict(loader.construct_mapping(node, deep=True))


_Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)
_Loader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)


def load_yaml(text: str, origin: str) -> Any:
    """The one document in `text`; `origin` (a file name, a flag) is what an error names.

    Raises ConfigError with the line for malformed YAML, a key given twice, several documents.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(
            f"{origin}{line}: not a YAML document: {error.problem or error.context}."
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        raise ConfigError(f"{origin}: not a YAML document: {str(error).splitlines()[0]}.") from error
