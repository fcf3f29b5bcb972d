"""Transforms: the functions a key may apply to its value, such as ``name.basename()``.

A transform gets the value first, then its arguments as text. A value that a transform cannot use gives
`undefined`, never an error: documents differ. Their functions are in the rooms named after what they are for.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from vtrain.output import list_transforms, record_transforms, text_transforms, time_transforms
from vtrain.output.keys import Call

Transform = Callable[..., Any]

_TRANSFORMS: dict[str, Transform] = {
    "always": record_transforms.same,
    "basename": text_transforms.basename,
    "collection": text_transforms.collection,
    "color": text_transforms.color,
    "count": list_transforms.count,
    "date": time_transforms.date,
    "decode": text_transforms.decode,
    "duration": time_transforms.duration,
    "encode": text_transforms.encode,
    "extract": record_transforms.extract,
    "filter": record_transforms.filter_,
    "firstof": record_transforms.firstof,
    "flatten": list_transforms.flatten,
    "float": text_transforms.float_,
    "format": record_transforms.format_,
    "group": record_transforms.group,
    "iso": time_transforms.iso,
    "join": list_transforms.join,
    "len": list_transforms.length,
    "list": list_transforms.list_,
    "lower": text_transforms.lower,
    "map": record_transforms.map_,
    "notnull": list_transforms.notnull,
    "regex": text_transforms.regex,
    "resolution": record_transforms.resolution,
    "scope": text_transforms.scope,
    "segment": text_transforms.segment,
    "size": text_transforms.size,
    "slice": list_transforms.slice_,
    "sort": list_transforms.sort,
    "split": list_transforms.split,
    "sub": text_transforms.sub,
    "synthesize": record_transforms.synthesize,
    "trailoff": text_transforms.trailoff,
    "upper": text_transforms.upper,
    "uri": text_transforms.uri,
    "yesno": record_transforms.yesno,
}
_WHOLE_NUMBERS = {"map": "depth", "float": "precision"}
_WITH_KEYS = ("duration", "extract", "filter", "firstof", "format", "group", "sort", "synthesize")
_PATTERNS = {"sub": "pattern", "regex": "expression"}


@lru_cache(maxsize=64)
def _parameters(name: str) -> tuple[inspect.Parameter, ...]:
    function = _TRANSFORMS.get(name)
    return tuple(inspect.signature(function).parameters.values())[1:] if function else ()


def option_names(name: str) -> tuple[str, ...]:
    """The arguments that may be given by name; none for a transform whose arguments are all needed."""
    parameters = _parameters(name)
    if all(parameter.default is parameter.empty for parameter in parameters):
        return ()
    return tuple(parameter.name for parameter in parameters)


def problem_with(call: Call) -> str:
    """What is wrong with a call's name or arguments; '' if nothing is."""
    if call.name not in _TRANSFORMS:
        return f"There is no transform {call.name}()"
    parameters = _parameters(call.name)
    names = [parameter.name for parameter in parameters if parameter.kind != parameter.VAR_POSITIONAL]
    for option in call.options:
        if option not in names:
            return f"Transform {call.name}() has no option {option}"
        if option in names[: len(call.arguments)]:
            return f"Transform {call.name}() has {option} twice"
    if len(call.arguments) > len(names) == len(parameters):
        return f"Transform {call.name}() takes at most {len(names)} arguments"
    given = dict(zip(names, call.arguments, strict=False)) | call.options
    needed = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    missing = [name for name in needed if name in names and name not in given]
    return (
        f"Transform {call.name}() needs {missing[0]}"
        if missing
        else _bad_argument(call.name, given, call.arguments[len(names) :])
    )


def _bad_argument(name: str, given: dict[str, str], arguments: tuple[str, ...]) -> str:
    number = _WHOLE_NUMBERS.get(name, "")
    if number in given and not given[number].isdecimal():
        return f"Option {number} of {name}() must be a whole number, not {given[number]}"
    try:
        re.compile(given.get(_PATTERNS.get(name, ""), ""))
    except re.error as error:
        return f"The pattern of {name}() is no regular expression: {error}"
    if name in _WITH_KEYS:
        return record_transforms.bad_expression(name, given, arguments)
    return ""


def apply(call: Call, value: Any) -> Any:
    """The value after one transform."""
    function = _TRANSFORMS[call.name]
    if call.depth and isinstance(value, list):
        items = list_transforms.items_below(value, call.depth - 1)
        return [function(item, *call.arguments, **call.options) for item in items]
    if value or not call.depth:
        return function(value, *call.arguments, **call.options)
    return value
