"""The trials of a tuning job that somebody stays with: a live table, or a line for each that ends."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Sequence

from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, Trial
from vtrain.messages.states import has_ended
from vtrain.output.console import Console
from vtrain.output.trials import end_text, live_lines, progress_text
from vtrain.runtime.tuning.study import ENDED

REDRAW_SECONDS = 0.5
"""Between two looks at the order of the trials: the job is asked far more often."""


class TrialWatch:
    """Shows the trials on a terminal, and elsewhere tells of each that has ended."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told: set[str] | None = None
        self._told_at = -math.inf
        self._drawn_at = 0.0
        self._lines: Sequence[str] = ()
        self._progress = ""

    def show(self, job: HyperparameterTuningJob, text: str, *, more: bool) -> None:
        """Show the trials above the text about the job's state; with `more`, how far they are behind it."""
        self._console.show_state(f"{text}  {self._progress}" if more else text, self._lines)
        if not self._console.has_status_line:
            if self._told is None:  # of a job that has ended before, the end alone is news
                self._told = {trial.id for trial in job.trials} if has_ended(job.state) else set()
            self._tell(job.trials, self._told)
        elif time.monotonic() - self._drawn_at >= REDRAW_SECONDS or has_ended(job.state):
            self._lines = live_lines(job, most=max(shutil.get_terminal_size().lines // 2, 3))
            self._progress = progress_text(job) if job.trials else ""
            self._drawn_at = time.monotonic()

    def has_told(self, seconds: float) -> bool:
        """Whether a line about a trial was written within the last seconds."""
        return time.monotonic() - self._told_at < seconds

    def _tell(self, trials: Sequence[Trial], told: set[str]) -> None:
        for trial in trials:
            if trial.state in ENDED and trial.id not in told:
                told.add(trial.id)
                self._told_at = time.monotonic()
                self._console.progress(end_text(trial))
