"""Folders in folders, as deep as a path can be long: Python itself ends at a thousand calls."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from vtrain.atomic import clear, remove_folder, scratch_folder
from vtrain.errors import PackagingError
from vtrain.packaging.tree import belonging_files

DEEP = 950


def nested(top: Path, levels: int) -> None:
    """Make folders in folders below `top` with a file in the last, by short paths."""
    here = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


@pytest.mark.parametrize("levels", [DEEP, 5000])
def test_a_deep_folder_is_removed_with_few_descriptors(tmp_path: Path, levels: int) -> None:
    (tmp_path / "old").mkdir()
    nested(tmp_path / "old", levels)
    (tmp_path / "old" / "d" / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "old" / "d" / "closed").mkdir(mode=0)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        remove_folder(tmp_path / "old")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "kept"]


def test_a_scratch_folder_ends_however_deep_it_is(tmp_path: Path) -> None:
    with scratch_folder(tmp_path) as folder:
        nested(folder, 3000)
    assert not folder.exists()
    clear(folder)


def test_a_program_that_uses_the_library_is_told_of_too_deep_a_folder(tmp_path: Path) -> None:
    nested(tmp_path, DEEP)
    try:
        with pytest.raises(PackagingError, match="are nested too deeply"):
            belonging_files(tmp_path)
    finally:
        clear(tmp_path / "d")


@pytest.mark.pages
def test_a_trainer_in_a_deep_folder_runs_and_its_output_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    nested(project, DEEP)
    (project / "train.py").write_text(
        "import os, pathlib\n"
        "model = pathlib.Path(os.environ['AIP_MODEL_DIR'], *'m' * 900)\n"
        "model.mkdir(parents=True)\n"
        "(model / 'weights').write_text('w')\n"
    )
    monkeypatch.chdir(project)
    try:
        for words in (
            ("run", "train.py", "--backend=process"),
            ("cp", "@last:", "../copied"),
            ("gc", "--older-than=0s", "--kind=output", "--dry-run"),
            ("rm", "@last"),
            ("gc", "--older-than=0s", "--kind=output"),
        ):
            ended = subprocess.run([sys.executable, "-m", "vtrain", *words], capture_output=True, text=True)
            assert ended.returncode == 0, (words, ended.stderr[-1000:])
    finally:
        clear(project / "d")
        clear(tmp_path / "copied")
