"""The end of a container: its own, for lack of memory, or brought about by a user or the engine."""

from __future__ import annotations

import re
import time
from typing import Any

from vtrain.backends.docker.container_log import Piece
from vtrain.containers.engine import Engine, engine_errors
from vtrain.runtime.folder import ReplicaExit
from vtrain.times import epoch

KILLED_CODE = 137
ENDED_WITH_ENGINE = (137, 143, 255)
"""Exit codes of containers that went down with their engine; 255 is what the engine writes where it
cannot know better."""
REFUSED_CODE = 125
"""The exit code of a container that the engine refused to create or to start, as `docker run` has it."""
INIT_NOT_EXECUTED, NOT_EXECUTABLE = 1, 126
NOT_STARTED = (INIT_NOT_EXECUTED, NOT_EXECUTABLE, 127)
"""Exit codes of an init that could not be executed, and of a program that could not be, or was not found."""
CLOCK_MARGIN_SECONDS = 1.0
START_MARGIN_SECONDS = 2.0
"""The longest time between an engine's attempt to start a container and its own end, which broke that off."""
ENDING_SIGNALS = ("2", "9", "15")
"""SIGINT, SIGKILL and SIGTERM, as the engine's events number them."""
NOT_LONG_SECONDS = 60.0
LATE_EVENT_SECONDS = 0.5
"""The time after a container's end in which the engine may still report a lack of memory."""
AFTERWARDS_SECONDS = 5.0
"""Signals are looked for so long after the end: the engine's clock, or this one, may be wrong by hours."""
REMOVED = "its container was removed by somebody else"
UNREAD = "what it wrote last may be lost with its container"
HALF_STARTED = "the Docker engine was stopped while it started the container"
_INIT_FAILED = re.compile(rb"\[FATAL tini \(\d+\)\] exec (.+) failed: (.+)")
_INIT_NOT_RUN = re.compile(rb"\Aexec (/\S+/docker-init): (.+)\s*\Z")
"""The words of runc, which ends with 1, where the arguments are too long for the system."""


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
        gap_of="The Docker engine" if gap is not None else "",
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


def start_failure(code: int, last: list[Piece]) -> str:
    """The reason why the container's init, or its program, could not be started; empty where it was.

    `last` are the last lines of a container that ended with one of NOT_STARTED.
    """
    if code == INIT_NOT_EXECUTED and len(last) != 1:  # a program can say the same, but hardly that alone
        return ""
    words = _INIT_NOT_RUN if code == INIT_NOT_EXECUTED else _INIT_FAILED
    for _, _, text in reversed(last):
        if found := words.search(text):
            program, reason = (part.decode("utf-8", "replace").strip() for part in found.groups())
            return f"{reason}: {program}"
    return ""


def interruption_of(
    engine: Engine, name: str, state: dict[str, Any], gap: tuple[float, float] | None, *, is_silent: bool
) -> str:
    """The cause of an end that neither vtrain nor the trainer brought about; else empty.

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


def with_late_oom(engine: Engine, name: str, state: dict[str, Any]) -> dict[str, Any]:
    """The State of a container that ended by SIGKILL, with `OOMKilled` as the engine's events have it.

    The kernel tells the engine of the end and of the lack of memory in two messages, in either order: an
    engine that hears of the end first keeps `OOMKilled` false for ever, and has only the event.
    """
    if state["OOMKilled"] or state["ExitCode"] != KILLED_CODE or was_killed(engine, name, state):
        return state
    return state | {"OOMKilled": bool(_events(engine, name, state, "oom", time.time() + LATE_EVENT_SECONDS))}


def was_killed(engine: Engine, name: str, state: dict[str, Any]) -> bool:
    """Whether the engine sent the container a signal that ends programs, not long before it ended.

    It remembers that until it is restarted itself.
    """
    finished = epoch(state["FinishedAt"])
    until = max(finished, min(time.time(), finished + AFTERWARDS_SECONDS))
    kills = _events(engine, name, state, "kill", until)
    signals = (event.get("Actor", {}).get("Attributes", {}).get("signal", "") for event in kills)
    return any(str(signal) in ENDING_SIGNALS for signal in signals)


def _events(
    engine: Engine, name: str, state: dict[str, Any], kind: str, until: float
) -> tuple[dict[str, Any], ...]:
    """The events of a kind about the container, from not long before its end; waits until `until`."""
    started, finished = epoch(state["StartedAt"]), epoch(state["FinishedAt"])
    since = finished - NOT_LONG_SECONDS
    with engine_errors("ask what ended the container"):
        return engine.calls.get_lines(
            "/events",
            since=f"{max(started, since) if started <= finished else since:.6f}",
            until=f"{until:.6f}",
            filters={"container": [name], "event": [kind]},
        )
