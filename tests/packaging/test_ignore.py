"""Which files belong: gitignore semantics against git itself, the ignore files, what never goes in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lib.privileges import run_bound

from vtrain.packaging.tree import belonging_files

KEY = json.dumps({"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----", "project_id": "p"})
GIT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "PATH": os.environ["PATH"]}

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git_files(folder: Path) -> set[str]:
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True, env=GIT)
    line = ["git", "ls-files", "-z", "-o", "--exclude-standard"]
    output = subprocess.run(line, cwd=folder, check=True, capture_output=True, env=GIT).stdout
    return set(filter(None, output.decode().split("\0")))


LINES = (
    "* !*/ !*.py /a a/ !a/ /* !/src/ !/src/*.py src/** **/b a/**/c.py !c.py *.txt !src/a/*.txt b/* !b/c.py"
    " [ab] #note ! c.?? src/ \\!x dir/**/ !a/b/ /b/** !/b/c.py src/a !src/a"
).split(" ")

patterns = st.lists(st.sampled_from(LINES), max_size=6)
PATHS = (
    "c.py",
    "c.txt",
    "!x",
    "a/c.py",
    "a/c.txt",
    "a/b/c.py",
    "b/c.py",
    "b/d.txt",
    "src/c.py",
    "src/a/c.txt",
)


@pytest.mark.child
@needs_git
@given(top=patterns, nested=patterns)
@settings(max_examples=20, deadline=None)
def test_gitignore_decides_as_git_does(tmp_path_factory, top, nested):
    folder = tmp_path_factory.mktemp("repo")
    for path in PATHS:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("")
    (folder / ".gitignore").write_text("\n".join(top))
    (folder / "src/.gitignore").write_text("\n".join(nested))
    assert set(belonging_files(folder).files) == git_files(folder)
    shutil.rmtree(folder)


def test_a_folder_that_is_left_out_is_named_once(make_tree):
    folder = make_tree(
        {"t.py": "", "data/a/x": "", "data/b": "", "log.txt": "", ".gitignore": "data\n*.txt\n"}
    )
    found = belonging_files(folder)
    assert found.left_out == ("data/", "log.txt")
    assert found.files == (".gitignore", "t.py")
    assert found.ignore_file == ".gitignore"


def test_parents_rules_hold_up_to_the_top_of_the_work_tree(make_tree):
    top = make_tree({"jobs/one/t.py": "", "jobs/one/x.bin": "", ".gitignore": "*.bin\n", ".git/HEAD": ""})
    (top.parent / ".gitignore").write_text("*.py\n")
    assert belonging_files(top / "jobs/one").files == ("t.py",)
    (top / ".gitignore").write_text("jobs/\n*.bin\n")
    assert belonging_files(top / "jobs/one").files == ("t.py", "x.bin")


@pytest.mark.parametrize(
    "present",
    [(".vtrainignore", ".gcloudignore"), (".gcloudignore", ".dockerignore"), (".dockerignore", ".gitignore")],
)
def test_the_first_ignore_file_decides_alone(make_tree, present):
    folder = make_tree({"a": "", "b": "", present[0]: "a\n", present[1]: "b\n"})
    found = belonging_files(folder)
    assert found.ignore_file == present[0]
    assert found.left_out == ("a",)


def test_gcloudignore_includes_other_files(make_tree):
    ignore = "#!include:.gitignore\n!keep.txt\n"
    folder = make_tree({"a.txt": "", "keep.txt": "", ".gitignore": "*.txt\n", ".gcloudignore": ignore})
    assert belonging_files(folder).left_out == ("a.txt",)


def test_dockerignore_is_rooted_and_keeps_files_in_folders_left_out(make_tree):
    ignore = "*.txt\ndata\n!data/keep\n**/x.bin\n"
    names = ("a.txt", "s/a.txt", "s/x.bin", "data/keep", "data/no", "data/sub/no")
    folder = make_tree({**dict.fromkeys(names, ""), ".dockerignore": ignore})
    found = belonging_files(folder)
    assert set(found.files) == {".dockerignore", "s/a.txt", "data/keep"}
    assert found.left_out == ("a.txt", "data/no", "data/sub/", "s/x.bin")


def test_built_in_excludes(make_tree):
    never = (".git/config", "env/pyvenv.cfg", "a/__pycache__/a.pyc", "x.pyc", ".nox/y", "t.egg-info/PKG-INFO",
             "node_modules/m.js", ".DS_Store", "t-0123456789abcdef.tar.gz")  # fmt: skip
    folder = make_tree({**dict.fromkeys(never, ""), "t.py": ""})
    found = belonging_files(folder)
    assert found.files == ("t.py",)
    assert found.ignore_file == ""
    assert {".git/", "env/", "a/__pycache__/", "t.egg-info/"} <= set(found.left_out)


def test_a_service_account_key_is_left_out_whatever_names_it(make_tree):
    folder = make_tree(
        {
            "conf/sa.json": KEY,
            "conf/other.json": '{"type": "x"}',
            "broken.json": "service_account private_key",
        }
    )
    found = belonging_files(folder)
    assert found.left_out == ("conf/sa.json",)
    assert "conf/sa.json is left out: it is a service-account key" in found.warnings[0]
    (folder / ".vtrainignore").write_text("!*.json\n")
    assert "conf/sa.json" in belonging_files(folder).left_out
    (folder / ".vtrainignore").write_text("!sa.json\n!conf/sa.json\n")
    assert "conf/sa.json" in belonging_files(folder).left_out
    (folder / ".vtrainignore").unlink()
    assert "conf/sa.json" not in belonging_files(folder, extra_dirs=("conf",)).files


def test_links_and_special_files(make_tree, tmp_path):
    folder = make_tree({"real/a.py": "", "t.py": "x = 1\n"})
    (tmp_path / "outside.txt").write_text("o")
    (tmp_path / "elsewhere").mkdir()
    for name, target in (("file", "t.py"), ("out", "../outside.txt"), ("dir", "real"), ("loop", "."),
                         ("dangling", "nowhere"), ("far", "../elsewhere"), ("self", "self")):  # fmt: skip
        (folder / name).symlink_to(target)
    (folder / "real/up").symlink_to("../real2")
    (folder / "real2").mkdir()
    (folder / "real2/back").symlink_to("../real")
    os.mkfifo(folder / "pipe")
    found = belonging_files(folder)
    assert found.files == ("dir/a.py", "file", "real/a.py", "real/up/back/a.py", "real2/back/a.py", "t.py")
    told = dict(warning.split(" is left out: ") for warning in found.warnings)
    assert set(told) == set(found.left_out)
    circle, nowhere = "links lead in a circle here", "it is a link that leads nowhere"
    assert {name: why.partition(";")[0] for name, why in told.items()} == {
        "dangling": nowhere,
        "dir/up/back": circle,
        "far": "it is a link to a folder outside",
        "loop": "it is a link to a folder above it",
        "out": "it is a link to a file outside",
        "pipe": "it is neither a file nor a folder",
        "real/up/back/up": circle,
        "real2/back/up/back": circle,
        "self": nowhere,
    }


def test_names_that_are_hard_to_print(make_tree):
    folder = make_tree({"a b\n.py": "", "ü/日本.txt": ""})
    Path(os.fsdecode(os.fsencode(folder) + b"/bad\xff.py")).write_text("")
    found = belonging_files(folder)
    assert set(found.files) == {"a b\n.py", "ü/日本.txt"}
    assert found.left_out == ("bad\\udcff.py",)
    assert found.warnings == ("bad\\udcff.py is left out: its name is not UTF-8",)


def test_vtrains_own_folder_never_goes_in(make_tree):
    folder = make_tree({"t.py": "", "out/packages/x": ""})
    assert belonging_files(folder, excluded=(folder / "out",)).files == ("t.py",)


def test_the_home_inside_the_folder_never_goes_in(make_tree, monkeypatch):
    folder = make_tree({"t.py": "", "runs/home/jobs/1/spec.json": "", "runs/kept.txt": ""})
    monkeypatch.setenv("VTRAIN_HOME", str(folder / "runs" / "home"))
    assert belonging_files(folder).files == ("runs/kept.txt", "t.py")


@pytest.mark.child
@pytest.mark.parametrize("place", ["", "trainer/"])
def test_an_ignore_file_that_cannot_be_read_is_named(make_tree, place):
    folder = make_tree({"trainer/task.py": "", f"{place}.gitignore": "x\n"})
    (folder / place / ".gitignore").chmod(0)
    vtrain = [sys.executable, "-m", "vtrain", "package", "sdist"]
    result = run_bound([*vtrain, f"--local-package-path={folder}", "--python-module=trainer.task"])
    assert f"Cannot read {folder / place / '.gitignore'}: Permission denied" in result.stderr
    assert result.returncode == 1


@pytest.mark.child
@needs_git
def test_a_line_ends_where_it_ends_for_git(make_tree):
    """`Icon\\r` is what macOS calls a folder's picture, and what templates for ignore files name."""
    files = {"Icon\r": "", "Icon": "", "a.log": "", "b.log": "", ".gitignore": "Icon\r\r\n*.log\r\n!b.log\r"}
    folder = make_tree(files)
    assert set(belonging_files(folder).files) == git_files(folder) == {".gitignore", "Icon", "b.log"}


@pytest.mark.parametrize(
    ("line", "left_out"),
    [
        ("**.log", {"a.log", "s/a.log", "s/t/b.log"}),
        ("s/**.log", set()),
        ("s**", {"s/a.log", "s/t/b.log", "s/t/c", "stop"}),
        ("**b.log", {"s/t/b.log"}),
        ("./s//t/../a.log", {"s/a.log"}),
        ("#stop", set()),
        ("**/", {"a.log", "s/a.log", "s/t/b.log", "s/t/c", "stop"}),
    ],
)
def test_dockerignore_means_what_it_means_to_docker(make_tree, line, left_out):
    """What the client of Docker 28 sends of the same folder."""
    names = ("a.log", "s/a.log", "s/t/b.log", "s/t/c", "stop")
    folder = make_tree({**dict.fromkeys(names, ""), ".dockerignore": f"{line}\n!.dockerignore\n"})
    assert set(belonging_files(folder).files) == {".dockerignore", *names} - left_out


def test_an_extra_folder_is_packed_and_not_said_to_be_left_out(make_tree):
    elsewhere = make_tree({"a.csv": "", "deep/b.csv": ""}, "elsewhere")
    folder = make_tree({"t.py": "", "own/c.csv": "", "own/d/e.csv": "", ".gitignore": "own/d/\n"})
    (folder / "data").symlink_to(elsewhere)
    found = belonging_files(folder, extra_dirs=("data", "own"))
    assert {"data/a.csv", "data/deep/b.csv", "own/c.csv", "own/d/e.csv"} <= set(found.files)
    assert (found.left_out, found.warnings) == ((), ())
    assert any("name it in extra-dirs" in warning for warning in belonging_files(folder).warnings)
