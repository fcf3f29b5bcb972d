"""A service that the tests of this folder run jobs on."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from lib.waiting import wait_until

from vtrain.backends import BackendSettings, JobBackend
from vtrain.backends.registry import open_backend


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A service to run jobs on, and how long things take there, in seconds.

    `patience` is for a job, `pause` between two looks; a primary goes on for `linger`, until all are up.
    """

    settings: BackendSettings
    bucket: str
    patience: float
    pause: float
    linger: float

    def open(self) -> JobBackend:
        """The backend, as a command would open it."""
        return open_backend("vertex", self.settings)

    def until(self, reached: Callable[[], bool]) -> None:
        """Wait until it is so."""
        wait_until(reached, pause=self.pause, patience=self.patience)
