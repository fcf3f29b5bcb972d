"""What a script's comments ask for (PEP 723): requirements and versions of Python, in packages and images."""

from __future__ import annotations

import pytest

from vtrain.errors import PackagingError
from vtrain.packaging.archive import read_metadata
from vtrain.packaging.image_plan import plan_image
from vtrain.packaging.sdist import build_sdist, plan_sdist
from vtrain.packaging.sdist_plan import declares_nothing
from vtrain.packaging.source import TrainerSource

INLINE = """#!/usr/bin/env -S uv run
# /// script
# requires-python = ">=3.10"
# dependencies = [
#   "Six==1.16.0",  # one
#   "tabulate[widechars]>=0.9",
# ]
# ///
# a remark
import six, tabulate
"""
ASKED = ("Six==1.16.0", "tabulate[widechars]>=0.9")


def source(folder, **given):
    return TrainerSource(
        folder=folder, **({} if "python_module" in given else {"script": "demo.py"}), **given
    )


@pytest.mark.parametrize("given", [{}, {"script_alone": True}, {"python_module": "demo"}])
def test_a_package_asks_for_what_its_script_does(make_tree, tmp_path, given):
    trainer = source(make_tree({"demo.py": INLINE, "requirements.txt": "numpy\n"}), **given)
    plan = plan_sdist(trainer)
    assert (plan.requirements, plan.warnings) == ((*ASKED, "numpy"), ())
    metadata = read_metadata(build_sdist(plan, tmp_path / "packages").sdist)
    assert (metadata.requires_dist, metadata.requires_python) == ((*ASKED, "numpy"), ">=3.10")
    assert not declares_nothing(trainer)


def test_the_script_and_its_project_are_both_heard(make_tree):
    text = '[project]\nname = "own"\nversion = "1"\nrequires-python = "<3.14"\n'
    text += 'dependencies = ["numpy", "Six==1.16.0"]\n'
    plan = plan_sdist(source(make_tree({"demo.py": INLINE, "pyproject.toml": text})))
    assert plan.requirements == ("numpy", *ASKED)
    assert plan.requires_python == "<3.14,>=3.10"


def test_another_python_is_another_package(make_tree):
    names = {
        plan_sdist(source(make_tree({"demo.py": "", "other.py": INLINE}), **given)).content_hash
        for given in ({}, {"python_module": "other"})
    }
    assert len(names) == 2


def test_an_image_installs_what_its_script_asks_for(make_tree):
    plan = plan_image(source(make_tree({"demo.py": INLINE})), "python:3.11")
    files = {file.name: file.content for file in plan.files}
    assert files["dependencies/requirements.txt"] == "".join(f"{line}\n" for line in ASKED).encode()
    assert "dependencies/requirements.txt" in plan.dockerfile and plan.warnings == ()


@pytest.mark.parametrize(
    "text",
    [
        "# /// script\n# dependencies = ['six']\nprint(1)\n",
        "# /// other\n# dependencies = ['six']\n# ///\n",
        "# /// script\n#dependencies = ['six']\n# ///\n",
        "# /// script\n" * 40_000,
        "# coding: latin-1\n# \xe9\n",
    ],
)
def test_what_is_no_inline_metadata(make_tree, text):
    trainer = source(make_tree({"demo.py": text.encode("latin-1")}))
    assert plan_sdist(trainer).requirements == ()
    assert declares_nothing(trainer)


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("# dependencies = [", "Inline metadata of demo.py is not TOML: "),
        ("# dependencies = 'six'", "Inline metadata of demo.py is wrong at dependencies: expected `array`"),
        ("# dependencies = [6]", "Inline metadata of demo.py is wrong at dependencies[0]: expected `str`"),
        ("# dependencies = ['?']", "inline metadata of demo.py: `?` is not a requirement: "),
        ("# requires-python = 'six'", "Requires-python in the inline metadata of demo.py is wrong: Invalid"),
        ("# ///\n\n# /// script", "demo.py has two blocks of inline metadata."),
    ],
)
def test_a_block_that_is_wrong_is_refused(make_tree, block, problem):
    with pytest.raises(PackagingError) as refused:
        plan_sdist(source(make_tree({"demo.py": f"# /// script\n{block}\n# ///\n"})))
    assert refused.value.message.startswith(problem)


def test_settings_of_tools_are_named_as_ignored(make_tree):
    text = INLINE.replace("# ///\n# a", "# [tool.uv.sources]\n# six = { path = '../six' }\n# ///\n# a")
    (warning,) = plan_sdist(source(make_tree({"demo.py": text}))).warnings
    assert warning == "inline metadata of demo.py: [tool] is ignored"
