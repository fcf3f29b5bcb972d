"""`--notify`: the terminal's bell and a notice when a command ends; and what VTRAIN_NOTIFY names."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import urllib.request
from contextlib import suppress
from http.client import HTTPException

from vtrain.errors import InterruptedByUser, JobCancelledError, JobFailedError, OutputError, UsageError
from vtrain.output.console import Console
from vtrain.output.terminal import on_one_line
from vtrain.output.writing import write_all
from vtrain.times import duration_in_words

PATIENCE = 10.0
"""Seconds for the command or the address of VTRAIN_NOTIFY."""
MOST_LETTERS = 120
"""Letters of the command line that a notice has."""
_SEEN = (UsageError.exit_code, InterruptedByUser.exit_code)
"""Exit codes of commands before which their user sits."""
_WORDS = {0: "succeeded", JobFailedError.exit_code: "failed", JobCancelledError.exit_code: "was cancelled"}


def notify(line: str, exit_code: int, seconds: float) -> None:
    """Say that a command has ended. `line` is without secrets; what cannot be reached gets a warning."""
    if exit_code in _SEEN:
        return
    ended = _WORDS.get(exit_code, f"ended with exit code {exit_code}")
    short = f"{line[:MOST_LETTERS]}…" if len(line) > MOST_LETTERS else line
    text = on_one_line(f"vtrain {short} {ended} after {duration_in_words(seconds)}.")
    if sys.stderr.isatty():
        with suppress(OutputError):  # of OSC 9 iTerm2, Windows Terminal and kitty make a notice
            write_all(sys.stderr.fileno(), f"\x1b]9;{text}\x07\x07".encode("utf-8", "replace"))
    target = os.environ.get("VTRAIN_NOTIFY", "")
    try:
        if target.startswith(("http://", "https://")):
            _post(target, text)
        elif target:
            subprocess.run(
                [*shlex.split(target), text],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=PATIENCE,
                check=True,
            )
    except (OSError, ValueError, HTTPException, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        Console().warn(f"VTRAIN_NOTIFY: the notice could not be sent: {reason}.")


def _post(url: str, text: str) -> None:
    """Send `{"text": …}`, which Slack, Google Chat, Mattermost and Teams take. Raises OSError, ValueError."""
    body = json.dumps({"text": text}).encode()
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE):
        pass
