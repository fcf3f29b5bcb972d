"""What belongs to a trainer, and what it requires: as git and pip would read the same files."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from packaging.requirements import InvalidRequirement, Requirement

from vtrain.errors import PackagingError
from vtrain.packaging.requirements import read_given, read_requirements
from vtrain.packaging.tree import belonging_files
from vtrain.project_names import canonical, distribution_name

GIT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "PATH": os.environ["PATH"]}
FILES = ("a", "ab", "a b", "b.py", "!x", "#x", "[a]", "d/a", "d/ab", "d/e/a", "d/e/b.py", "e/d/a", "\\a")
PATTERNS = st.text("ab*?[]!/\\ .#-^de", min_size=1, max_size=7)

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture(scope="module")
def work_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    for path in FILES:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("")
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True, env=GIT)
    return folder


@pytest.mark.child
@needs_git
@given(patterns=st.lists(PATTERNS, min_size=1, max_size=4))
@example(patterns=["a**", "!d/**"])
@example(patterns=["[!a]", "\\!x", "\\#x"])
@example(patterns=["d/*", "!d/e", "a\\ b"])
@example(patterns=["[/a]"])
@example(patterns=["[[]"])
@example(patterns=["[?--]", "[]-a]", "[^!a]"])
@example(patterns=["d**/a"])
@example(patterns=["[[:alpha:]]", "d/[[:punct:]]"])
@example(patterns=["d//", "!"])
def test_any_pattern_means_what_it_means_to_git(work_tree: Path, patterns: list[str]) -> None:
    (work_tree / ".gitignore").write_text("\n".join(patterns) + "\n")
    line = ["git", "ls-files", "-z", "-o", "--exclude-standard"]
    found = subprocess.run(line, cwd=work_tree, check=True, capture_output=True, env=GIT).stdout
    assert set(belonging_files(work_tree).files) == set(filter(None, found.decode().split("\0")))


NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,8}[A-Za-z0-9])?", fullmatch=True)
REQUIREMENTS = st.builds(
    lambda name, extras, versions, marker: name + extras + versions + marker,
    NAMES,
    st.sampled_from(["", "[a]", "[a,b]", " [a]"]),
    st.sampled_from(["", "==1.0", ">=1,<2", " ~= 1.4.2", "!=1.*", " @ https://h.invalid/x-1.0.tar.gz"]),
    st.sampled_from(["", ' ; python_version < "3"', " ;extra=='x'"]),
)


def is_requirement(text: str) -> bool:
    try:
        Requirement(text)
    except InvalidRequirement:
        return False
    return True


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(lines=st.lists(REQUIREMENTS.filter(is_requirement), max_size=5))
def test_requirements_come_back(tmp_path: Path, lines: list[str]) -> None:
    wanted = list(dict.fromkeys(lines))
    assert list(read_given(tuple(lines)).lines) == wanted
    (tmp_path / "requirements.txt").write_text("".join(f"{line}  # why\n\n" for line in lines))
    found = read_requirements((), tmp_path)
    assert [Requirement(line) for line in found.lines] == [Requirement(line) for line in wanted]
    assert found.warnings == ()
    for line in found.lines:
        assert distribution_name(line) == canonical(Requirement(line).name)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(content=st.binary(max_size=30) | st.text("ab1=<>@[]#\\ -rec.\n;:/~'\"", max_size=40).map(str.encode))
def test_any_file_requires_what_metadata_can_say_or_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "requirements.txt").write_bytes(content)
    try:
        found = read_requirements((), tmp_path)
    except PackagingError:
        with suppress(UnicodeDecodeError):
            lines = [line for line in content.decode().split("\n") if line.strip()]
            assert not all(is_requirement(line) and line.isprintable() and "@" not in line for line in lines)
        return
    assert all(is_requirement(line) for line in found.lines)
    assert all("\n" not in line for line in found.pip_lines)
