"""What the environment lacks is told before anything is made, and in the same words on every run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from vtrain.runtime.environments.frameworks import find_framework

IMAGE = "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.1-9:latest"
CODE = "import os\ntry:\n    import nowhere\nexcept ImportError:\n    pass\n{torch}print('ran')\n"
RUN = (
    "custom-jobs",
    "local-run",
    "--backend=process",
    f"--executor-image-uri={IMAGE}",
    "--python-module=trainer.task",
)


@pytest.fixture
def no_torch() -> None:
    if find_framework("torch", ("torch",)) is not None:
        pytest.skip("torch is installed beside vtrain")


def written(folder: Path, torch: str) -> str:
    (folder / "trainer").mkdir()
    (folder / "trainer" / "task.py").write_text(CODE.format(torch=torch))
    return f"--local-package-path={folder}"


def warnings(err: str) -> list[str]:
    return [line for line in err.splitlines() if line.startswith("WARNING: ")]


def test_every_run_tells_the_same(vtrain: Any, tmp_path: Path, no_torch: None) -> None:
    package = written(tmp_path, "def late():\n    import torch\n")
    (tmp_path / "requirements.txt").write_text("--prefer-binary\n")
    told = []
    for flags in (("--dry-run",), (), (), ("--dry-run",)):
        ended = vtrain(*RUN, package, *flags)
        assert ended.code == 0, ended.err
        told.append(warnings(ended.err))
    assert told[1:] == told[:1] * 3
    assert any("the image has Python 3.7" in line for line in told[0])
    assert any("torch is imported and not installed here" in line for line in told[0])
    assert any("--prefer-binary is ignored" in line for line in told[0])


def test_strict_refuses_a_missing_framework(
    vtrain: Any, tmp_path: Path, vtrain_home: Path, no_torch: None
) -> None:
    package = written(tmp_path, "import torch\n")
    ended = vtrain(*RUN, package, "--strict")
    assert (ended.code, ended.out) == (1, "")
    told = f"ERROR: {tmp_path}/trainer/task.py:6: torch is imported and not installed here; the image brings"
    assert f"{told} torch==1.9.*." in ended.err
    assert "Without --strict this is a warning." in ended.err
    assert not vtrain_home.exists()


def test_the_second_run_warns_as_the_first_without_an_image(vtrain: Any, tmp_path: Path) -> None:
    """Nothing of what was packed or installed meanwhile keeps a warning back."""
    (tmp_path / "trainer").mkdir()
    code = "import sys\nif __name__ == '__main__':\n    import nowhere_at_all, yaml\n"
    (tmp_path / "trainer" / "task.py").write_text(code)
    run = ("custom-jobs", "local-run", "--backend=process", "--python-module=trainer.task")
    told = [warnings(vtrain(*run, f"--local-package-path={tmp_path}").err) for _ in range(2)]
    assert told[0] == told[1]
    assert [line.partition("; ")[0] for line in told[0]] == [
        f"WARNING: {tmp_path}/trainer/task.py:3: nothing provides the import `nowhere_at_all`",
        f"WARNING: {tmp_path}/trainer/task.py:3: nothing provides the import `yaml`",
    ]
