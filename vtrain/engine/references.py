"""`$(NAME)` in the values of a user's variables, by the API's rule, which is that of Kubernetes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from vtrain.messages.custom_job import EnvVar

_REFERENCE = re.compile(r"\$\$\(|\$\(([A-Za-z_][A-Za-z0-9_]*)\)")


def expand_env(env: Iterable[EnvVar], service: Mapping[str, str]) -> dict[str, str]:
    """A user's variables with `$(NAME)` replaced from the service's and those before it.

    `$$(NAME)` yields `$(NAME)`, and a reference to what is not set stays as typed.
    """
    known = dict(service)
    own: dict[str, str] = {}
    for variable in env:
        value = _REFERENCE.sub(lambda match: _resolve(match, known), variable.value)
        known[variable.name] = own[variable.name] = value
    return own


def _resolve(match: re.Match[str], known: Mapping[str, str]) -> str:
    if match[1] is None:
        return "$("
    return known.get(match[1], match[0])
