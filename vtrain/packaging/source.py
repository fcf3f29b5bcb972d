"""What the user handed over, before packaging turns it into a PythonPackageSpec."""

from __future__ import annotations

from pathlib import Path

import msgspec


class TrainerSource(msgspec.Struct, frozen=True, kw_only=True):
    """A trainer on this machine, in the words of `--worker-pool-spec` and `local-run`.

    Exactly one of `python_module` and `script` is set. Paths in `script`, `extra_packages`
    and `extra_dirs` are relative to `folder`, as gcloud reads them. With `script_alone` the script is
    all that belongs, and not the folder around it (a `requirements.txt` beside it counts).
    """

    folder: Path
    python_module: str = ""
    script: str = ""
    requirements: tuple[str, ...] = ()
    extra_packages: tuple[str, ...] = ()
    extra_dirs: tuple[str, ...] = ()
    script_alone: bool = False
