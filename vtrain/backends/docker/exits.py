"""The end of a container: its own, for lack of memory, or brought about from outside."""

from __future__ import annotations

import re
import time
from typing import Any

from vtrain.containers.streams import Piece
from vtrain.runtime.folder import ReplicaExit
from vtrain.times import epoch

ENDED_FROM_OUTSIDE = (137, 143)
"""SIGKILL and SIGTERM. A trainer that sends one to itself is not told apart."""
UNKNOWN_CODE = 255
"""The code that the engine writes where it was away; also the code of many programs that fail."""
REFUSED_CODE = 125
"""The exit code of a container that the engine refused to create or to start, as `docker run` has it."""
INIT_NOT_EXECUTED, NOT_EXECUTABLE = 1, 126
NOT_STARTED = (INIT_NOT_EXECUTED, NOT_EXECUTABLE, 127)
"""Exit codes of an init that could not be executed, and of a program that could not be, or was not found."""
STOPPED = "a person, the Docker engine or the kernel stopped its container"
ENGINE_AWAY = "its container ended while the Docker engine was away"
REMOVED = "its container was removed by somebody else"
UNREAD = "what it wrote last may be lost with its container"
HALF_STARTED = "the Docker engine was stopped while it started the container"
_INIT_FAILED = re.compile(rb"\[FATAL tini \(\d+\)\] exec (.+) failed: (.+)")
_INIT_NOT_RUN = re.compile(rb"\Aexec (/\S+/docker-init): (.+)\s*\Z")
"""The words of runc, which ends with 1, where the arguments are too long for the system."""


def replica_exit(
    state: dict[str, Any], *, stopped: bool, gap: tuple[float, float] | None = None
) -> ReplicaExit:
    """The end that a container's State describes. `gap` is when the engine was away, in epoch seconds.

    `stopped`: vtrain asked the container to end. It is an interruption if something else did.
    """
    code, ended = state["ExitCode"], epoch(state["FinishedAt"])
    is_missed = gap is not None and gap[0] <= ended <= gap[1]
    interruption = ""
    if not stopped and not state["OOMKilled"]:
        if code in ENDED_FROM_OUTSIDE:
            interruption = STOPPED
        elif code == UNKNOWN_CODE and is_missed:
            interruption = ENGINE_AWAY
    return ReplicaExit(
        code=code,
        signal=code - 128 if 128 < code < 192 else 0,
        started=epoch(state["StartedAt"]),
        ended=ended,
        oom=bool(state["OOMKilled"]),
        stopped=stopped,
        interruption=interruption,
        gap=gap if is_missed else None,
        gap_of="The Docker engine" if is_missed else "",
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
