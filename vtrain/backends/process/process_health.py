"""Checks of what processes need: uv, and an index to install requirements from."""

from __future__ import annotations

import os
import subprocess
import sys

from vtrain.backends.health import Check, Finding, Health
from vtrain.messages.secrets import masked_text
from vtrain.runtime.environments.installer import InstallerFault, find_uv, is_unreachable
from vtrain.runtime.environments.layers import EnvironmentFailed
from vtrain.runtime.environments.pip_configuration import uv_options

UV_SECONDS = 10.0
INDEX_SECONDS = 15.0
SAMPLE = "pip"
"""A distribution that every index has."""
_OFFLINE = ("UV_OFFLINE", "UV_NO_INDEX")


def process_checks() -> tuple[Check, ...]:
    """The checks. An index is not vital: a trainer without requirements needs none."""
    return (
        Check(name="uv", probe=_uv),
        Check(name="package index", probe=_package_index, asks_network=True, is_vital=False),
    )


def _uv() -> Finding:
    try:
        program = find_uv()
        done = _run([program, "--version"], UV_SECONDS, {})
    except EnvironmentFailed as failed:
        return Finding(text=failed.message, health=Health.FAILED, mend=failed.hint)
    except subprocess.TimeoutExpired:
        return Finding(text=f"{program} does not answer.", health=Health.FAILED, mend=_reinstall())
    if done.returncode != 0:
        return Finding(text=f"{program} does not start.", health=Health.FAILED, mend=_reinstall())
    return Finding(text=f"{done.stdout.removeprefix('uv ').strip()} ({program})")


def _reinstall() -> str:
    return f"$ {sys.executable} -m pip install --force-reinstall uv"


def _package_index() -> Finding:
    """Whether uv finds a distribution as it would for a trainer, with the user's own configuration."""
    try:
        options = uv_options(os.environ)
    except EnvironmentFailed as failed:
        return Finding(text=failed.message, health=Health.FAILED, mend=failed.hint)
    if "--no-index" in options.flags or any(map(os.environ.get, _OFFLINE)):
        return Finding(text="none is used: packages come from folders and the cache")
    argv = [find_uv(), "pip", "compile", "--no-deps", "--refresh", f"--python={sys.executable}"]
    try:
        done = _run([*argv, *options.build_flags, "-"], INDEX_SECONDS, dict(options.variables))
    except subprocess.TimeoutExpired:
        return _unreached(f"no answer within {INDEX_SECONDS:g} s")
    if done.returncode == 0:
        return Finding(text="answers")
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["uv does not say why"]
    if is_unreachable(InstallerFault("uv", tuple(lines))):
        return _unreached(masked_text(lines[-1], (), {}))
    return _unreached(masked_text(lines[0], (), {}))


def _unreached(reason: str) -> Finding:
    return Finding(
        text=f"uv cannot ask it: {reason.removeprefix('error: ').removeprefix('cause: ').rstrip('.')}.",
        health=Health.WARNING,
        mend="Connect to the network, or set PIP_INDEX_URL, PIP_FIND_LINKS or PIP_PROXY.",
    )


def _run(argv: list[str], seconds: float, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """uv's answer. It runs where no project of the user's decides on indexes, as for an environment."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environ |= {"UV_NO_WRAP": "1", "NO_COLOR": "1", "UV_NO_PROGRESS": "1"} | variables
    environ.pop("VIRTUAL_ENV", None)
    return subprocess.run(
        argv,
        input=f"{SAMPLE}\n",
        env=environ,
        cwd="/",
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=seconds,
        check=False,
    )
