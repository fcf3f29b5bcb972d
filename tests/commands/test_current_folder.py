"""Commands that stand in a folder which somebody has removed."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _removed_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        ("custom-jobs list", 1),
        ("custom-jobs create --display-name=a --config=job.yaml", 1),
        ("custom-jobs create --backend=process --display-name=a --config=job.yaml", 1),
        ("custom-jobs local-run --script=t.py", 1),
        ("custom-jobs local-run --backend=process --script=t.py", 1),
        ("package image --local-package-path=. --script=t.py --executor-image-uri=a --dry-run", 1),
        ("package sdist --local-package-path=. --script=t.py", 1),
    ],
)
def test_it_is_said_that_the_folder_is_gone(vtrain, argv: str, code: int) -> None:
    ended = vtrain(*argv.split())
    assert (ended.code, ended.out) == (code, "")
    assert "ERROR: The current folder does not exist any more.\n" in ended.err


def test_a_command_that_needs_no_folder_works(vtrain) -> None:
    assert vtrain("custom-jobs", "list", "--backend=process", "--format=json").out == "[]\n"
