"""gcloud's spellings of `local-run`: which image runs, what is built, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lib.stand_in_engine import StandInEngine

BASE = "--executor-image-uri=python:3.11"
RUN = ("custom-jobs", "local-run")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a trainer."""
    (tmp_path / "main.py").write_text("print(1)\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_script_and_module_the_image_runs_as_it_is(
    vtrain: Any, stand_in: StandInEngine, folder: Path
) -> None:
    ended = vtrain(*RUN, BASE, "--script=", "--local-package-path=.", "--", "--x", "1")
    assert ended.code == 0, ended.err
    (run,) = stand_in.runs
    assert run["Cmd"] == ["--x", "1"]
    assert "Entrypoint" not in run
    assert (stand_in.builds, stand_in.pulled) == ([], ["python:3.11"])


def test_an_image_alone_has_no_use_for_what_goes_with_a_trainer(
    vtrain: Any, stand_in: StandInEngine, folder: Path
) -> None:
    for flag in ("--requirements=a", "--extra-packages=a.whl", "--extra-dirs=a", "--output-image-uri=a/b:1"):
        ended = vtrain(*RUN, BASE, flag)
        assert ended.code == 1
        assert flag.partition("=")[0] in ended.err
    assert vtrain(*RUN, BASE, "--local-package-path=none").code == 1, "the folder that is named is needed"
    assert (stand_in.pulled, stand_in.runs) == ([], [])


def test_a_name_for_the_image_is_given_to_it(vtrain: Any, stand_in: StandInEngine, folder: Path) -> None:
    ended = vtrain(*RUN, BASE, "--script=main.py", "--output-image-uri=demo/mine:1")
    assert ended.code == 0, ended.err
    (build,) = stand_in.builds
    assert "code/main.py" in build.files
    assert stand_in.image("demo/mine:1")["RepoTags"] == [build.name, "demo/mine:1"]
    assert stand_in.runs[0]["Image"] == stand_in.image(build.name)["Id"]
    assert stand_in.pushed == []


def test_the_last_list_counts_and_empty_values_do_not(
    vtrain: Any, stand_in: StandInEngine, folder: Path
) -> None:
    empty = ("--output-image-uri=", "--service-account-key-file=", "--requirements=")
    lists = ("--requirements=a", "--requirements=b,c", "--docker-run-options=--rm")
    for flags, is_warned in ((empty, False), (lists, True)):
        ended = vtrain(*RUN, BASE, "--script=main.py", *flags)
        assert ended.code == 0, ended.err
        assert ("WARNING: --docker-run-options has no effect" in ended.err) == is_warned
        assert is_warned or "WARNING" not in ended.err
    assert stand_in.builds[1].files["packages/requirements-0.txt"] == b"b\nc\n"


@pytest.mark.parametrize(("codes", "code"), [({"build": 7}, 125), ({"run": 42}, 42), ({"run": 1}, 1)])
def test_the_trainers_code_is_told_from_a_run_that_could_not_be(
    vtrain: Any, stand_in: StandInEngine, folder: Path, codes: dict[str, int], code: int
) -> None:
    stand_in.codes = codes
    assert vtrain(*RUN, BASE, "--script=main.py", "--requirements=a").code == code
