"""What the environment lacks is told before anything is made, and in the same words on every run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

IMAGE = "us-docker.pkg.dev/vertex-ai/training/scikit-learn-cpu.0-23:latest"
CODE = "import os\ntry:\n    import nowhere\nexcept ImportError:\n    pass\nprint('ran')\n"
RUN = (
    "custom-jobs",
    "local-run",
    "--backend=process",
    f"--executor-image-uri={IMAGE}",
    "--python-module=trainer.task",
)


def warnings(err: str) -> list[str]:
    return [line for line in err.splitlines() if line.startswith("WARNING: ")]


def test_every_run_tells_the_same(vtrain: Any, tmp_path: Path) -> None:
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "task.py").write_text(CODE)
    (tmp_path / "requirements.txt").write_text("--prefer-binary\n")
    told = []
    for flags in (("--dry-run",), (), (), ("--dry-run",)):
        ended = vtrain(*RUN, f"--local-package-path={tmp_path}", *flags)
        assert ended.code == 0, ended.err
        told.append(warnings(ended.err))
    assert told[1:] == told[:1] * 3
    assert any("the image has Python 3.7" in line for line in told[0])
    assert any("--prefer-binary is ignored" in line for line in told[0])


def test_the_second_run_warns_as_the_first_without_an_image(vtrain: Any, tmp_path: Path) -> None:
    """Nothing of what was packed or installed meanwhile keeps a warning back."""
    (tmp_path / "trainer").mkdir()
    code = "import sys\nif __name__ == '__main__':\n    import nowhere_at_all, yaml\n"
    (tmp_path / "trainer" / "task.py").write_text(code)
    (tmp_path / "requirements.txt").touch()
    run = ("custom-jobs", "local-run", "--backend=process", "--python-module=trainer.task")
    told = [warnings(vtrain(*run, f"--local-package-path={tmp_path}").err) for _ in range(2)]
    assert told[0] == told[1]
    assert [line.partition("; ")[0] for line in told[0]] == [
        f"WARNING: {tmp_path}/trainer/task.py:3: nothing provides the import `nowhere_at_all`",
        f"WARNING: {tmp_path}/trainer/task.py:3: nothing provides the import `yaml`",
    ]
