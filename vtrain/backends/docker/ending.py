"""How a container ended: by itself, for want of memory, or because somebody or something ended it."""

from __future__ import annotations

import re
import time
from typing import Any

from vtrain.backends.docker.frames import Piece
from vtrain.containers.engine import Engine, engine_errors
from vtrain.engine.folder import ReplicaExit
from vtrain.engine.instants import epoch

ENDED_WITH_ENGINE = (137, 143, 255)
"""Exit codes of containers that went down with their engine; 255 is what the engine writes where it
cannot know better."""
REFUSED_CODE = 125
"""The exit code of a container that the engine refused to create or to start, as `docker run` has it."""
NOT_STARTED = (126, 127)
"""Exit codes of a program that could not be executed, or was not found."""
CLOCK_MARGIN_SECONDS = 1.0
START_MARGIN_SECONDS = 2.0
"""How long before its end an engine may have begun to start a container that it then could not finish."""
ENDING_SIGNALS = ("2", "9", "15")
"""SIGINT, SIGKILL and SIGTERM, as the engine's events number them."""
NOT_LONG_SECONDS = 60.0
AFTERWARDS_SECONDS = 5.0
"""Signals are looked for so long after the end: the engine's clock, or this one, may be wrong by hours."""
REMOVED = "its container was removed by somebody else"
UNREAD = "what it wrote last may be lost with its container"
HALF_STARTED = "the Docker engine was stopped while it started the container"
_INIT_FAILED = re.compile(rb"\[FATAL tini \(\d+\)\] exec (.+) failed: (.+)")


def replica_exit(
    state: dict[str, Any], *, stopped: bool, interruption: str, gap: tuple[float, float] | None
) -> ReplicaExit:
    """The end that a container's State describes. `gap` is when the engine was away."""
    code = state["ExitCode"]
    return ReplicaExit(
        code=code,
        signal=code - 128 if 128 < code < 192 else 0,
        started=epoch(state["StartedAt"]),
        ended=epoch(state["FinishedAt"]),
        oom=bool(state["OOMKilled"]),
        stopped=stopped,
        interruption=interruption,
        gap=gap if ended_in(state, gap) else None,
    )


def unseen_exit(interruption: str, *, stopped: bool) -> ReplicaExit:
    """The end of a container that nobody can ask any more, or that was never started."""
    now = time.time()
    return ReplicaExit(
        code=143 if stopped else 255,
        started=now,
        ended=now,
        stopped=stopped,
        interruption="" if stopped else interruption,
    )


def refused_exit(message: str, code: int = 0) -> ReplicaExit:
    """The end of a container that did not begin; `code` is 0 where the engine gives none."""
    now = time.time()
    return ReplicaExit(code=code or REFUSED_CODE, started=now, ended=now, message=message.strip().rstrip("."))


def start_failure(last: list[Piece]) -> str:
    """Why the container's init could not start the program; empty where it did. `last` ends the log."""
    for _, _, text in reversed(last):
        if found := _INIT_FAILED.search(text):
            program, reason = (part.decode("utf-8", "replace") for part in found.groups())
            return f"{reason}: {program}"
    return ""


def interruption_of(
    engine: Engine, name: str, state: dict[str, Any], gap: tuple[float, float] | None, *, is_silent: bool
) -> str:
    """What ended a container that we did not stop, where it was not the trainer itself; else nothing.

    `is_silent`: it has written nothing.
    """
    if state["OOMKilled"]:
        return ""
    if was_killed(engine, name, state):
        return "somebody stopped its container, or the Docker engine itself was stopped"
    if state["ExitCode"] in ENDED_WITH_ENGINE and (ended_in(state, gap) or is_older(state, engine)):
        return "the Docker engine was stopped or restarted"
    if state["ExitCode"] and is_silent and began_in(state, gap) and ended_in(state, gap):
        return HALF_STARTED
    return ""


def is_older(state: dict[str, Any], engine: Engine) -> bool:
    """Whether the engine was started after the container had ended, and so knows nothing of its end.

    An engine makes its network `bridge` anew at each start.
    """
    with engine_errors("tell since when it runs"):
        networks = engine.calls.get("/networks", filters={"name": ["bridge"]})
    started = max((epoch(found["Created"]) for found in networks if found["Name"] == "bridge"), default=0.0)
    return epoch(state["FinishedAt"]) <= started + CLOCK_MARGIN_SECONDS


def ended_in(state: dict[str, Any], gap: tuple[float, float] | None) -> bool:
    """Whether the container ended while the engine was away."""
    if gap is None:
        return False
    away, back = gap
    return away - CLOCK_MARGIN_SECONDS <= epoch(state["FinishedAt"]) <= back + CLOCK_MARGIN_SECONDS


def began_in(state: dict[str, Any], gap: tuple[float, float] | None) -> bool:
    """Whether the container began while the engine was away, or was about to be."""
    if gap is None:
        return False
    away, back = gap
    return away - START_MARGIN_SECONDS <= epoch(state["StartedAt"]) <= back + CLOCK_MARGIN_SECONDS


def was_killed(engine: Engine, name: str, state: dict[str, Any]) -> bool:
    """Whether the engine sent the container a signal that ends programs, not long before it ended.

    It remembers that until it is restarted itself.
    """
    started, finished = epoch(state["StartedAt"]), epoch(state["FinishedAt"])
    since = finished - NOT_LONG_SECONDS
    with engine_errors("ask what ended the container"):
        events = engine.calls.get_lines(
            "/events",
            since=f"{max(started, since) if started <= finished else since:.6f}",
            until=f"{max(finished, min(time.time(), finished + AFTERWARDS_SECONDS)):.6f}",
            filters={"container": [name], "event": ["kill"]},
        )
    return any(_signal(event) in ENDING_SIGNALS for event in events)


def _signal(event: dict[str, Any]) -> str:
    return str(event.get("Actor", {}).get("Attributes", {}).get("signal", ""))
