"""The programs of a job on this machine. The runtime knows nothing of backends, and is given their paths."""

from __future__ import annotations

from pathlib import Path

SUPERVISE = Path(__file__).with_name("supervise.py")
PREPARE = Path(__file__).with_name("prepare.py")
