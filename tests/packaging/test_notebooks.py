"""Notebooks as trainers: their cells as Python, what is left out, and the file that runs them."""

from __future__ import annotations

import json

import pytest

from vtrain.errors import ConfigError, PackagingError
from vtrain.packaging.archive import packed_files
from vtrain.packaging.image_plan import plan_image
from vtrain.packaging.payload.notebook import code_cells
from vtrain.packaging.sdist import build_sdist, plan_sdist
from vtrain.packaging.source import TrainerSource


def notebook(*cells: str, **metadata: object) -> str:
    listed = [{"cell_type": "markdown", "metadata": {}, "source": "text"}]
    listed += [{"cell_type": "code", "metadata": {}, "source": cell.splitlines(True)} for cell in cells]
    return json.dumps({"cells": listed, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def source(folder):
    return TrainerSource(folder=folder, script="nb.ipynb")


@pytest.mark.parametrize(
    ("cell", "text", "left_out"),
    [
        ("%matplotlib inline\nx = 1", "pass\nx = 1", ["%matplotlib inline"]),
        ("for x in y:\n    !ls {x}\n    z()", "for x in y:\n    pass\n    z()", ["!ls {x}"]),
        ("!pip install \\\n  six\nimport six", "\npass\nimport six", ["!pip install \\"]),
        ("files = !ls\nhelp?\n?help", "pass\npass\npass", ["files = !ls", "help?", "?help"]),
        ("!echo it's\n%cd x", "pass\npass", ["!echo it's", "%cd x"]),
        ("%%bash\nls", "", ["%%bash"]),
        ("\n%%time\nf()", "\n\nf()", ["%%time"]),
        ("%time x = f()", "x = f()", []),
        ("x = (7\n  % 4)\ny = '''\n!ls\n'''", "x = (7\n  % 4)\ny = '''\n!ls\n'''", []),
        ("x = = 1", "x = = 1", []),
        ("", "", []),
    ],
)
def test_a_cell_without_what_ipython_alone_runs(cell, text, left_out):
    (found,) = code_cells(json.loads(notebook(cell)))
    assert (found.number, found.text, sorted(found.left_out)) == (1, text, sorted(left_out))


def test_a_notebook_is_packed_with_the_file_that_runs_it(make_tree, tmp_path):
    cells = ("# /// script\n# dependencies = ['six']\n# ///\nimport six", "%load_ext x\nimport nowhere_to_be")
    folder = make_tree({"nb.ipynb": notebook(*cells), "data.csv": "1"})
    plan = plan_sdist(source(folder))
    assert plan.requirements == ("six",)
    assert plan.warnings[0] == "nb.ipynb, cell 2: `%load_ext x` is left out, as IPython alone runs it"
    assert plan.warnings[1].startswith(f"{folder}/nb.ipynb, cell 2:2: nothing provides the import `nowhere")
    with pytest.raises(PackagingError, match="as IPython alone runs it"):
        plan_sdist(source(folder), strict=True)
    packed = {str(entry.path) for entry in packed_files(build_sdist(plan, tmp_path / "packages").sdist)}
    assert packed == {"nb.ipynb", "nb.ipynb.py", "data.csv"}


def test_an_image_starts_that_file(make_tree):
    plan = plan_image(source(make_tree({"nb.ipynb": notebook("print(1)")})), "python:3.11")
    assert plan.entrypoint == ("python", "nb.ipynb.py")
    assert {"code/nb.ipynb", "code/nb.ipynb.py"} <= {file.name for file in plan.files}


def test_a_syntax_error_is_at_its_cell(make_tree):
    with pytest.raises(PackagingError, match=r"nb\.ipynb, cell 2:2: invalid syntax\.\n    x = = 1\n"):
        plan_sdist(source(make_tree({"nb.ipynb": notebook("y = 1", "\nx = = 1")})))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value"),
        ("[]", "it has no cells"),
        ('{"worksheets": []}', "it has no cells, as format 4 has them"),
        (notebook("x <- 1", kernelspec={"language": "R"}), "its language is R"),
        ('{"cells": [1]}', "it is not as format 4 has it"),
        ('{"cells": [{"cell_type": "code", "source": [1]}]}', "it is not as format 4 has it"),
        ('{"cells": [], "metadata": [1]}', "it is not as format 4 has it"),
        ("[" * 100_000, "it is nested too deeply"),
    ],
)
def test_what_is_no_notebook_is_refused(make_tree, text, why):
    with pytest.raises(ConfigError, match=r"nb\.ipynb is no notebook that vtrain can run: ") as refused:
        plan_sdist(source(make_tree({"nb.ipynb": text})))
    assert why in refused.value.message
