"""Check what Python code gives to the library, as a parser checks what a command line gives.

Each function returns the value as vtrain works with it, or raises ConfigError with the name of the parameter,
what is wrong, and what to give. A message does not quote a value: it may be a secret.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

from vtrain.errors import ConfigError


def text(name: str, value: Any) -> str:
    """The text. It can be written as UTF-8, and the system takes it as an argument or a path."""
    if not isinstance(value, str):
        raise _wrong_type(name, value, "text")
    if "\0" in value:
        raise ConfigError(f"{name} holds a NUL character: give text without it.")
    plain = str.__str__(value)  # of a subclass, such as numpy's, too
    try:
        plain.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{name} is not UTF-8: give text that UTF-8 can encode.") from None
    return plain


def texts(**given: Any) -> tuple[str, ...]:
    """The text of each parameter, in their order; empty for None."""
    return tuple("" if value is None else text(name, value) for name, value in given.items())


def text_list(name: str, value: Any) -> tuple[str, ...]:
    """The texts of a list; none for None."""
    if value is None:
        return ()
    wanted = f'a list of texts, such as {name}=["TEXT"]'
    if isinstance(value, str):  # its characters would be the texts
        raise ConfigError(f"{name} is one text: give {wanted}.")
    if not isinstance(value, Iterable) or isinstance(value, bytes | Mapping):
        raise _wrong_type(name, value, wanted)
    return tuple(text(f"{name}[{index}]", item) for index, item in enumerate(value))


def text_dict(name: str, value: Any) -> dict[str, str]:
    """The texts of a dictionary, by name; none for None."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong_type(name, value, f'a dictionary of texts, such as {name}={{"NAME": "TEXT"}}')
    return {
        text(f"The name {key!a} in {name}", key): text(f"{name}[{key!a}]", item)
        for key, item in value.items()
    }


def path(name: str, value: Any) -> str | None:
    """The path as text; None for None."""
    if value is None:
        return None
    plain = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(plain, str):
        raise _wrong_type(name, value, "a path, as text or as a Path")
    return text(name, plain)


def count(name: str, value: Any, least: int) -> int:
    """The whole number, `least` or more."""
    wanted = f"a whole number from {least} on"
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise _wrong_type(name, value, wanted)
    number = operator.index(value)
    if number < least:
        raise ConfigError(f"{name} is {number}: give {wanted}.")
    return number


def switch(name: str, value: Any) -> bool:
    """True or False, and nothing that would count as one of them."""
    if not isinstance(value, bool):
        raise _wrong_type(name, value, "True or False")
    return value


def seconds(name: str, value: Any) -> float | None:
    """The number of seconds; None for None."""
    if value is not None and not isinstance(value, Real):
        raise _wrong_type(name, value, "a number of seconds")
    return None if value is None else float(value)


def _wrong_type(name: str, value: Any, wanted: str) -> ConfigError:
    return ConfigError(f"{name} is of type {type(value).__name__}: give {wanted}.")
