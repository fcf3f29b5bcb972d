"""The programs of a job on this machine. The runtime knows nothing of backends, and is given their paths."""

from __future__ import annotations

from pathlib import Path

SUPERVISE = Path(__file__).with_name("supervise.py")
PREPARE = Path(__file__).with_name("prepare.py")
SERVE_STORAGE = Path(__file__).parents[1] / "emulator" / "storage" / "serve_job.py"
"""Of the extra `emulator`, above this layer, of which nothing is imported here. It is started by its path, as
`-m` would take modules of the folder that a command runs in for those of the same name."""
