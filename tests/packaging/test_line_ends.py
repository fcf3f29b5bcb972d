"""Scripts that a shell or the kernel reads with the line ends of Windows in them."""

from __future__ import annotations

import pytest

from vtrain.packaging.image_plan import plan_image
from vtrain.packaging.sdist import plan_sdist
from vtrain.packaging.source import TrainerSource

SHELL = b"set -e\r\npython train.py --steps=3\r\n"


def warnings(folder, script="train.sh"):
    return plan_sdist(TrainerSource(folder=folder, script=script)).warnings


@pytest.mark.parametrize("name", ["train.sh", "deep/run.sh"])
def test_a_shell_script_with_windows_line_ends(make_tree, name):
    (warning,) = warnings(make_tree({name: SHELL}), name)
    assert warning == (
        f"{name} has Windows line ends, which the shell reads as a part of each line; "
        f"`sed -i 's/\\r$//' {name}` removes them"
    )


def test_all_such_scripts_of_the_package_are_named(make_tree):
    files = {
        "train.sh": b"./tool.py\n",
        "tool.py": b"#!/usr/bin/env python3\r\nprint(1)\r\n",
        "a b.sh": SHELL,
    }
    folder = make_tree({**files, "lib.py": b"import os\r\n", "data.csv": b"a\r\n", "README": b"#!x\r\n"})
    (folder / "tool.py").chmod(0o755)
    first, second = warnings(folder)
    assert first.startswith("a b.sh has Windows line ends") and "'a b.sh'" in first
    assert second.startswith(
        "tool.py has Windows line ends, which the system reads as a part of its first line"
    )
    (folder / "tool.py").chmod(0o644)  # `python tool.py` takes them
    assert len(warnings(folder)) == 1
    assert warnings(folder, "tool.py") == (first,)


def test_the_scripts_of_an_image_of_ones_own(make_tree):
    folder = make_tree({"Dockerfile": "FROM x\n", "entrypoint.sh": SHELL})
    (warning,) = plan_image(TrainerSource(folder=folder), "", dockerfile=folder / "Dockerfile").warnings
    assert warning.startswith("entrypoint.sh has Windows line ends")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_shell_script_with_a_mark(make_tree, encoding):
    (warning,) = warnings(make_tree({"train.sh": "#!/bin/sh\necho\n".encode(encoding)}))
    assert (
        warning
        == "train.sh begins with a byte-order mark, which no shell reads; save it as UTF-8 without one"
    )
