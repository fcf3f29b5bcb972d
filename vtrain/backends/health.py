"""The checks of `vtrain doctor`: what a backend needs, and what mends it. Each check asks for one thing."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import msgspec

from vtrain.errors import VtrainError


class Health(Enum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    """Some jobs cannot run, or not as well."""
    FAILED = "failed"
    SKIPPED = "skipped"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check as a sentence, and the command that mends it (empty: nothing has to be done)."""

    text: str
    health: Health = Health.OK
    mend: str = ""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check. `probe` may raise VtrainError or OSError.

    What fails is `FAILED` if the check `is_vital`, and no more checks of the backend are made; else it is a
    warning. One that `asks_network` is made only for the backend that the user has chosen.
    """

    name: str
    probe: Callable[[], Finding]
    asks_network: bool = False
    is_vital: bool = True

    def run(self) -> Finding:
        """The finding; an error of the probe is one, too."""
        health = Health.FAILED if self.is_vital else Health.WARNING
        try:
            return self.probe()
        except VtrainError as error:
            return Finding(text=error.message, health=health, mend=error.hint)
        except OSError as error:
            place = f": {error.filename}" if error.filename else ""
            return Finding(text=f"{error.strerror or error}{place}.", health=health)
        except Exception as error:  # a fault of one check, such as a plug-in's, does not hide the others
            return Finding(text=f"{type(error).__name__}: {error}.", health=health)
