"""`vtrain init` where nobody can be asked: what it writes, and what it leaves alone."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from vtrain.pyproject import read_pyproject


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "digits"
    folder.mkdir()
    (folder / "train.py").write_text("print('trained')\n")
    monkeypatch.chdir(folder)
    return folder


def test_a_folder_gets_a_job_that_runs(folder: Path, vtrain: Any) -> None:
    ended = vtrain("init")
    assert (ended.code, ended.out) == (0, "")
    assert "$ vtrain run" in ended.err
    job = read_pyproject(folder / "pyproject.toml").settings.job
    assert job is not None and (job.script, job.image, job.bucket) == ("train.py", "", "")
    ran = vtrain("run")
    assert (ran.code, ran.out) == (0, "trained\n"), ran.err


@pytest.mark.parametrize("target", ["pyproject.toml", "gone.toml"])
def test_a_link_that_leads_nowhere_stays(folder: Path, vtrain: Any, target: str) -> None:
    (folder / "pyproject.toml").symlink_to(target)
    ended = vtrain("init", "--yes")
    assert (ended.code, ended.out) == (1, "")
    assert "pyproject.toml is a link that leads nowhere.\n  Remove the link" in ended.err
    assert str((folder / "pyproject.toml").readlink()) == target
    assert not (folder / "gone.toml").exists()


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_rest_of_the_file_stays(folder: Path, vtrain: Any, newline: str) -> None:
    file = folder / "pyproject.toml"
    before = newline.join(["# mine", "[tool.vtrain]", 'backend = "process"  # always', "[tool.other]", "a=1"])
    file.write_bytes(before.encode())
    file.chmod(0o640)
    assert vtrain("init", "--yes").code == 0
    after = file.read_bytes().decode()
    assert after.startswith(before + 2 * newline + "[tool.vtrain.job]" + newline)
    assert after.count("\n") == after.count(newline)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    settings = read_pyproject(file).settings
    assert settings.backend == "process" and settings.job is not None
    assert sorted(path.name for path in folder.iterdir()) == ["pyproject.toml", "train.py"]


def test_a_dry_run_writes_nothing(folder: Path, vtrain: Any) -> None:
    ended = vtrain("init", "--dry-run")
    assert (ended.code, ended.out) == (0, "")
    assert 'script = "train.py"' in ended.err
    assert [path.name for path in folder.iterdir()] == ["train.py"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.vtrain.job]\nscript = 'a.py'\n", ":1: job of [tool.vtrain]: it is there already."),
        ("tool = {vtrain = {backend = 'process'}}\n", ":3: not TOML: "),
        ("[tool.black\n", ":1: not TOML: "),
        ("[tool.vtrain]\nbackand = 'process'\n", ":2: [tool.vtrain] has no key 'backand'."),
    ],
)
def test_a_file_without_a_place_for_it_stays(folder: Path, vtrain: Any, text: str, said: str) -> None:
    file = folder / "pyproject.toml"
    file.write_text(text)
    ended = vtrain("init")
    assert (ended.code, ended.out) == (1, "")
    assert f"{file}{said}" in ended.err
    assert file.read_text() == text


def test_a_folder_with_nothing_to_run_gets_nothing(folder: Path, vtrain: Any) -> None:
    (folder / "train.py").unlink()
    ended = vtrain("init")
    assert (ended.code, ended.out) == (1, "")
    assert "No file here looks like the start of a trainer." in ended.err
    assert list(folder.iterdir()) == []


def test_several_candidates_are_told(folder: Path, vtrain: Any) -> None:
    (folder / "other.py").write_text('if __name__ == "__main__":\n    pass\n')
    assert "It runs train.py. Other files that it could be: other.py.\n" in vtrain("init").err


@pytest.mark.parametrize(
    ("name", "key", "saved"),
    [
        ("other.py", "script", "other.py"),
        ("./other.py", "script", "other.py"),
        ("other", "module", "other"),
        ("{folder}/sub/t.py", "script", "sub/t.py"),
        ("./sub/../sub/t.py", "script", "sub/t.py"),
        ("../digits/sub/t.py", "script", "sub/t.py"),
        ("{link}/sub/t.py", "script", "sub/t.py"),
    ],
)
def test_a_named_one_is_taken(folder: Path, vtrain: Any, name: str, key: str, saved: str) -> None:
    (folder / "other.py").write_text("pass\n")
    (folder / "sub").mkdir()
    (folder / "sub/t.py").write_text("")
    (link := folder.with_name("link")).symlink_to(folder)
    ended = vtrain("init", name.format(folder=folder, link=link))
    assert ended.code == 0, ended.err
    job = read_pyproject(folder / "pyproject.toml").settings.job
    assert job is not None and getattr(job, key) == saved


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("trian.py", "There is no module and no file 'trian.py' in {folder}."),
        ("sub", "sub is a folder, and no package with a __main__.py."),
        ("notes.txt", "notes.txt is no program. What runs is Python (.py)"),
        ("../up.py", "up.py lies outside {folder}."),
        ("{folder}/../up.py", "up.py lies outside {folder}."),
    ],
)
def test_what_is_no_trainer_of_the_folder_is_called_what_it_is(
    folder: Path, vtrain: Any, name: str, said: str
) -> None:
    (folder / "sub").mkdir()
    (folder / "notes.txt").write_text("notes\n")
    folder.with_name("up.py").write_text("")
    ended = vtrain("init", name.format(folder=folder))
    assert (ended.code, ended.out) == (1, "")
    assert said.format(folder=folder) in ended.err.splitlines()[0]
    assert not (folder / "pyproject.toml").exists()


def test_settings_above_that_count_no_more_are_told(folder: Path, vtrain: Any) -> None:
    above = folder.parent / "pyproject.toml"
    above.write_text('[tool.vtrain]\nbackend = "process"\n')
    assert f"[tool.vtrain] of {above} does not count here any more." in vtrain("init").err


def test_any_name_of_a_file_is_quoted(folder: Path, vtrain: Any) -> None:
    (folder / "train.py").rename(folder / 'a "b"\\ü\x7f.py')
    (folder / 'a "b"\\ü\x7f.py').write_text('if __name__ == "__main__":\n    pass\n')
    assert vtrain("init").code == 0
    job = read_pyproject(folder / "pyproject.toml").settings.job
    assert job is not None and job.script == 'a "b"\\ü\x7f.py'
