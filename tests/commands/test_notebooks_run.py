"""`vtrain run NOTEBOOK`: its cells, the copy with their output, and a cell of a notebook as a job."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import vtrain as library

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a module."""
    place = tmp_path / "project"
    (place / "deep").mkdir(parents=True)
    (place / "deep" / "steps.py").write_text(
        "class Table:\n    def _repr_html_(self):\n        return '<b>'\n"
    )
    monkeypatch.chdir(place)
    return place


def write_notebook(file: Path, *cells: str) -> None:
    listed = [{"cell_type": "code", "metadata": {}, "outputs": [1], "source": cell} for cell in cells]
    file.write_text(json.dumps({"cells": listed, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))


def kept_copy(home: Path) -> list[dict[str, Any]]:
    """The cells of the one copy in the output of jobs."""
    (copy,) = (home / "buckets").rglob("nb.ipynb")
    found: list[dict[str, Any]] = json.loads(copy.read_text())["cells"]
    return found


def test_the_cells_run_and_the_copy_has_what_they_showed(
    vtrain: Any, vtrain_home: Path, folder: Path
) -> None:
    write_notebook(
        folder / "deep" / "nb.ipynb",
        "import sys, pickle, steps\nclass Kept: pass\nprint(sys.argv[1:])\nprint('no', file=sys.stderr)",
        "pickle.loads(pickle.dumps(Kept()))\nsteps.Table()",
        "%cd ..\n1 + 1;",
        "display(3)\nimport os\nos.path.basename(os.getcwd())",
    )
    ended = vtrain("run", "deep/nb.ipynb", "--", "--epochs=3")
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[0] == "['--epochs=3']" and lines[1].startswith("<steps.Table object at ")
    assert lines[2:] == ["3", "'deep'"]
    assert "deep/nb.ipynb, cell 3: `%cd ..` is left out" in ended.err
    first, second, third, last = (cell["outputs"] for cell in kept_copy(vtrain_home))
    assert [(output["name"], "".join(output["text"])) for output in first] == [
        ("stdout", "['--epochs=3']\n"),
        ("stderr", "no\n"),
    ]
    assert second[0]["output_type"] == "execute_result" and second[0]["data"]["text/html"] == "<b>"
    assert third == []
    assert [output["data"]["text/plain"] for output in last] == ["3", "'deep'"]


def test_a_failing_cell_is_named_by_its_number_and_line(vtrain: Any, vtrain_home: Path, folder: Path) -> None:
    write_notebook(folder / "nb.ipynb", "x = 0", "# what follows fails\n1 / x", "print('never')")
    ended = vtrain("run", "nb.ipynb")
    assert (ended.code, ended.out.count("never")) == (1, 0)
    assert "  at      nb.ipynb, cell 2:2\n" in ended.err
    assert "ZeroDivisionError: division by zero" in ended.err
    outputs = [cell["outputs"] for cell in kept_copy(vtrain_home)]
    assert (outputs[0], outputs[1][0]["ename"], outputs[2]) == ([], "ZeroDivisionError", [])


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_of_a_cell_is_that_of_the_job(vtrain: Any, folder: Path, code: int) -> None:
    write_notebook(folder / "nb.ipynb", f"import sys\nsys.exit({code})", "1 / 0")
    assert vtrain("run", "nb.ipynb").code == code


class Shell:
    """What IPython hands to an extension, as far as this one asks for it."""

    def register_magic_function(self, function: Any, kind: str, name: str) -> None:
        assert (kind, name) == ("cell", "vtrain")
        self.function = function


@pytest.mark.usefixtures("vtrain_home")
def test_a_cell_is_a_job(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell()
    library.load_ipython_extension(shell)
    shell.function("-- --epochs=3", "import sys\nprint('seen', sys.argv[1:])\n")
    assert "seen ['--epochs=3']\n" in capsys.readouterr().out
    with pytest.raises(subprocess.CalledProcessError) as failed:
        shell.function("", "raise SystemExit(4)\n")
    assert failed.value.returncode == 4
