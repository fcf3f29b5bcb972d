"""Checks of what processes need: uv, and an index to install requirements from."""

from __future__ import annotations

import os
import subprocess
import sys

from vtrain.backends.health import Check, Finding, Health
from vtrain.messages.secrets import masked_text
from vtrain.runtime.environments.installer import InstallerFault, is_unreachable
from vtrain.uv_program import find_uv, index_urls, uv_call

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
    program = find_uv()
    try:
        done = _run([program, "--version"], UV_SECONDS, dict(os.environ))
    except subprocess.TimeoutExpired:
        return Finding(text=f"{program} does not answer.", health=Health.FAILED, mend=_reinstall())
    if done.returncode != 0:
        return Finding(text=f"{program} does not start.", health=Health.FAILED, mend=_reinstall())
    return Finding(text=f"{done.stdout.removeprefix('uv ').strip()} ({program})")


def _reinstall() -> str:
    return f"$ {sys.executable} -m pip install --force-reinstall uv"


def _package_index() -> Finding:
    """Whether uv finds a distribution as it would for a trainer, with the user's own configuration."""
    call = uv_call("pip", "compile", "--no-deps", "--refresh", f"--python={sys.executable}", "-")
    if "--no-index" in call.argv or any(map(os.environ.get, _OFFLINE)):
        return Finding(text="none is used: packages come from folders and the cache")
    first, *others = (masked_text(url, (), {}) for url in index_urls(call.environ))
    trusted = call.environ.get("SSL_CERT_FILE")
    asked = first + f" and {len(others)} more" * bool(others)
    certificates = f" (certificates: {trusted})" * bool(trusted)
    try:
        done = _run(call.argv, INDEX_SECONDS, call.environ)
    except subprocess.TimeoutExpired:
        return _unreached(asked + certificates, f"no answer within {INDEX_SECONDS:g} s")
    if done.returncode == 0:
        return Finding(text=f"{asked} {'answer' if others else 'answers'}{certificates}")
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["uv does not say why"]
    unreachable = is_unreachable(InstallerFault("uv", tuple(lines)))
    return _unreached(asked + certificates, masked_text(lines[-1 if unreachable else 0], (), {}))


def _unreached(asked: str, reason: str) -> Finding:
    return Finding(
        text=f"uv cannot ask {asked}: {reason.removeprefix('error: ').removeprefix('cause: ').rstrip('.')}.",
        health=Health.WARNING,
        mend="Connect to the network, or correct index-url, find-links, proxy or cert in pip's configuration "
        "(PIP_INDEX_URL, …).",
    )


def _run(argv: list[str], seconds: float, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """uv's answer. It runs where no project of the user's decides on indexes, as for an environment."""
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
