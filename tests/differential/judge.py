"""Whether vtrain did what gcloud did: requests as messages, the same stdout, exit codes as in a shell."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from differential.capture import Recorded, normal_path
from differential.intended import Difference
from differential.runner import Case, Outcome, shell_code

_LOGS = "/v2/entries:list"
_UPPER_BOUND = re.compile(r'\s*(AND\s*)?timestamp<"[^"]*"')
_COLLECTIONS = {
    "customJobs": "CustomJob",
    "hyperparameterTuningJobs": "HyperparameterTuningJob",
    "persistentResources": "PersistentResource",
}
Change = Callable[[Any], Any]


def differences(case: Case, outcome: Outcome, *, mask: Change = lambda body: body) -> tuple[str, ...]:
    """What differs from the recorded run; empty when nothing does.

    `mask` takes out of a body what need not be alike.
    """
    found = []
    if shell_code(case.exit_code) != outcome.exit_code:
        found.append(f"exit code {outcome.exit_code}, gcloud's is {shell_code(case.exit_code)}")
    if not case.requests and outcome.requests:
        found.append(f"sent {_told(outcome.requests)}, gcloud sends nothing")
    if case.exit_code == 0:
        found += _request_differences(case, outcome, mask)
        if case.tty is None and not case.packages and case.stdout != outcome.stdout:
            found.append(f"stdout {outcome.stdout!r}, gcloud's is {case.stdout!r}")
    return tuple(found)


def deviations(
    difference: Difference, outcome: Outcome, *, mask: Change = lambda body: body
) -> dict[str, Any]:
    """Everything in which a run is not the intended one, by name; empty when it is exactly that."""
    sent = _compared(outcome.requests)
    body = as_message(sent[-1].path, mask(sent[-1].body)) if sent else None
    seen = {
        "exit_code": outcome.exit_code,
        "sends": tuple(f"{request.method} {request.path}" for request in sent),
        "body": body,
        "stdout": outcome.stdout,
    }
    found = {name: value for name, value in seen.items() if value != getattr(difference, name)}
    if difference.says and difference.says not in outcome.stderr.splitlines():
        found["says"] = outcome.stderr
    return found


def _request_differences(case: Case, outcome: Outcome, mask: Change) -> list[str]:
    expected = _compared(_recorded(case))
    actual = _compared(outcome.requests)
    if [(r.method, r.path) for r in expected] != [(r.method, r.path) for r in actual]:
        return [f"requests {_told(actual)}, gcloud's are {_told(expected)}"]
    bodies = [
        (as_message(a.path, mask(a.body)), as_message(e.path, mask(e.body)))
        for a, e in zip(actual, expected, strict=True)
    ]
    return [f"body {a}, gcloud's is {e}" for a, e in bodies if a != e]


def _recorded(case: Case) -> tuple[Recorded, ...]:
    return tuple(
        Recorded(method=r["method"], path=normal_path(r["path"]), body=r["body"]) for r in case.requests
    )


def _compared(requests: Sequence[Recorded]) -> tuple[Recorded, ...]:
    """All of them; of a log that is followed, what comes up to its first page, each question once."""
    for index, request in enumerate(requests):
        if request.path.startswith(_LOGS):
            before = {(r.method, r.path): r for r in requests[:index]}
            return (*before.values(), request)
    return tuple(requests)


def _told(requests: Sequence[Recorded]) -> str:
    return ", ".join(f"{r.method} {r.path}" for r in requests) or "none"


def as_message(path: str, body: Any) -> Any:
    """The body in a form in which equal messages are equal: enums by name, defaults absent.

    A body that is no message of the API is taken as it is, with numbers as text and without nulls.
    """
    if path.startswith(_LOGS):
        return _as_query(body)
    name = next((name for part, name in _COLLECTIONS.items() if path.split("?")[0].endswith(f"/{part}")), "")
    if not name or not isinstance(body, dict):
        return body or None
    from google.protobuf import json_format

    try:
        message = json_format.Parse(
            json.dumps(body), _message_class("v1beta1" if "v1beta1" in path else "v1", name)()
        )
    except json_format.ParseError:
        return _loose(body)
    return json_format.MessageToDict(message)


@cache
def _message_class(version: str, name: str) -> Any:
    from importlib import import_module

    cls = getattr(import_module(f"google.cloud.aiplatform_{version}.types"), name)
    return type(cls.pb(cls()))


def _loose(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _loose(item) for key, item in value.items() if item not in (None, {}, [])}
    if isinstance(value, list):
        return [_loose(item) for item in value]
    return value if isinstance(value, str) else json.dumps(value)


def _as_query(body: Any) -> Any:
    """What is asked of a log, without the bound that is the time of asking."""
    return body | {"filter": " ".join(_UPPER_BOUND.sub("", body.get("filter", "")).split())}
