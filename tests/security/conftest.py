"""A trainer that tells what it sees, and a service that records what it is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

TRAINER = """
import json, os, sys
seen = {"env": dict(os.environ), "argv": sys.argv[1:]}
if file := os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
    seen |= {"credentials": open(file).read(), "mode": oct(os.stat(file).st_mode & 0o777)}
print(json.dumps({"message": "seen", **seen}))
if "fail" in sys.argv:
    raise ValueError("the password is " + os.environ["DB_PASSWORD"])
"""


@pytest.fixture
def trainer(tmp_path: Path) -> Path:
    """A folder with the module `trainer.task`, which prints its environment."""
    file = tmp_path / "source" / "trainer" / "task.py"
    file.parent.mkdir(parents=True)
    file.write_text(TRAINER)
    return file.parents[1]
