"""The checks of `vtrain doctor`: what a backend needs, and what mends it. Each check asks for one thing.

Every backend needs those of this machine: vtrain itself, its home, the disk, the GPUs.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path

import msgspec

from vtrain import __version__
from vtrain.errors import StorageError, VtrainError
from vtrain.settings import home_folder
from vtrain.sizes import memory_in_words, size_in_words


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


LITTLE_SPACE = 5 * 10**9
"""Bytes. An environment with a framework takes as much."""
NO_SPACE = 100 * 10**6


def machine_checks() -> tuple[Check, ...]:
    """The checks, the most basic first."""
    return (
        Check(name="vtrain", probe=_versions),
        Check(name="home", probe=_home),
        Check(name="free space", probe=_free_space),
        Check(name="GPU", probe=_gpus, is_vital=False),
    )


def _versions() -> Finding:
    system = f"{platform.system()} {platform.machine()}"
    return Finding(text=f"{__version__}, Python {platform.python_version()} ({sys.executable}), {system}")


def _home() -> Finding:
    """Whether the store can be opened and written. Raises StorageError."""
    from vtrain.runtime.database import has_store
    from vtrain.runtime.store import Store

    home = home_folder()
    if has_store(home):
        Store.open(home).check_writable()
        return Finding(text=str(home))
    folder = _nearest_folder(home)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StorageError(f"vtrain cannot write to {folder}.", hint="Set VTRAIN_HOME.")
    return Finding(text=f"{home} (not used yet)")


def _nearest_folder(path: Path) -> Path:
    """The folder itself, or the first above it that exists."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _free_space() -> Finding:
    home = home_folder()
    free = shutil.disk_usage(_nearest_folder(home)).free
    text = f"{size_in_words(free)} in {home}"
    if free >= LITTLE_SPACE:
        return Finding(text=text)
    health = Health.WARNING if free >= NO_SPACE else Health.FAILED
    return Finding(text=text, health=health, mend="$ vtrain gc --dry-run")


def _gpus() -> Finding:
    """The GPUs that nvidia-smi lists, and the memory that jobs share. Raises ConfigError for a bad limit."""
    from vtrain.runtime.capacity.offer import find_devices, machine_offer

    memory = machine_offer(accelerators=False).memory_bytes
    lent = f"jobs share {memory_in_words(memory)} of memory" if memory else "memory is not limited"
    if devices := find_devices():
        names = ", ".join(f"{device.name} ({device.memory})" for device in devices)
        return Finding(text=f"{len(devices)}: {names}; {lent}")
    if shutil.which("nvidia-smi"):
        text = f"nvidia-smi lists no GPU; {lent}"
        return Finding(text=text, health=Health.WARNING, mend="$ nvidia-smi")
    return Finding(text=f"none; jobs run on the CPU; {lent}")
