"""Runs what is made of jobs of its own: a study of its trials, a training pipeline of its task.

Its jobs have supervisors of their own, which wake it, or start another, when they end.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from typing import TypeVar

import msgspec

from vtrain.messages import states
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.training_pipeline import TrainingPipeline
from vtrain.runtime import job_error
from vtrain.runtime.child_jobs import request_end
from vtrain.runtime.folder import DamagedFileError
from vtrain.runtime.inheritance import drop_credentials
from vtrain.runtime.supervision.base import Decision, Supervisor
from vtrain.runtime.supervisor_process import dismiss_standby

P = TypeVar("P", HyperparameterTuningJob, TrainingPipeline)


class ParentSupervisor(Supervisor[P]):
    """The life of one parent; a subclass says how it advances, and which jobs it has."""

    @abstractmethod
    def _begin(self) -> None:
        """Read what earlier supervisors have written. Raises DamagedFileError."""

    @abstractmethod
    def _advance(self) -> Decision | None:
        """Look at the jobs and start those that may start; the end, where they decide it."""

    @abstractmethod
    def _end_jobs(self, state: str) -> bool:
        """Ask the jobs that still run to end, as the parent has in `state`; whether none does any more."""

    @abstractmethod
    def _job_names(self) -> Iterable[str]:
        """The jobs as far as the store tells, the folder being gone."""

    def _known_decision(self) -> Decision | None:
        found = super()._known_decision()
        if found is not None:
            with suppress(DamagedFileError):  # then the jobs are not reported, and ended all the same
                self._begin()
        return found

    def _live(self) -> Decision:
        self._begin()
        if self._has_rebooted():
            return Decision(state=states.FAILED, error=job_error.machine_restarted(self._folder))
        while (decision := self._advance()) is None:
            self._wait()
            self._check_requests()
        return decision

    def _end_all(self, decision: Decision) -> None:
        dismiss_standby()
        while not self._end_jobs(decision.state):
            self._wait()
            self._check_lock()

    def _abandon(self) -> None:
        for name in self._job_names():
            request_end(self._store, self._start, name, "cancel")

    def _verb(self) -> str:
        """How jobs are asked to end: as the parent itself was."""
        return "kill" if self._is_to_be_killed() else "cancel"

    def _finish(self, decision: Decision) -> None:
        drop_credentials(self._folder)
        self._job = msgspec.structs.replace(
            self._job, start_time=self._job.start_time or self._job.create_time
        )
        super()._finish(decision)
