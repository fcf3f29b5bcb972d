"""Checks of what containers need: an engine that answers and, for GPUs, its NVIDIA runtime."""

from __future__ import annotations

from contextlib import closing
from functools import cache
from typing import Any

from vtrain.backends.docker.device_requests import TOOLKIT_HINT, offers_gpus
from vtrain.backends.health import Check, Finding, Health
from vtrain.containers.discovery import find_local_engine
from vtrain.containers.engine import connect
from vtrain.messages.secrets import masked_text
from vtrain.runtime.capacity.offer import find_devices
from vtrain.sizes import memory_in_words


def docker_checks() -> tuple[Check, ...]:
    """The checks; both need the engine's description of itself, which is asked for once."""
    described = cache(_describe)
    return (
        Check(name="engine", probe=lambda: _engine(*described())),
        Check(name="GPU runtime", probe=lambda: _gpus(described()[1]), is_vital=False),
    )


def _describe() -> tuple[str, dict[str, Any]]:
    """The engine's address, and its answer to `GET /info`. Raises EngineError."""
    with closing(connect(find_local_engine())) as found:
        return masked_text(found.address.host, (), {}), found.info()


def _engine(place: str, info: dict[str, Any]) -> Finding:
    size = f"{info.get('NCPU', 0)} CPUs, {memory_in_words(int(info.get('MemTotal', 0)))} of memory"
    return Finding(text=f"{info.get('ServerVersion', 'unknown version')} at {place}, {size}")


def _gpus(info: dict[str, Any]) -> Finding:
    if not find_devices():
        return Finding(text="not needed: this machine has no GPU", health=Health.SKIPPED)
    if offers_gpus(info):
        return Finding(text="the engine gives GPUs to containers")
    return Finding(
        text="the engine has no NVIDIA runtime: containers see no GPU.",
        health=Health.WARNING,
        mend=TOOLKIT_HINT,
    )
