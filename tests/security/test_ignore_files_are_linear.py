"""Lines of ignore files that cost a regular expression hours: decided at once, and as git decides them."""

from __future__ import annotations

import fnmatch
import subprocess
import time
from pathlib import Path

import pytest
from lib.pace import at_most

from vtrain.packaging.ignore_files import read_rules

NAME = "a" * 255
DEEP = "a/" * 2000 + "c"
LINES = {
    "stars": ("*a*a*a*a*a*ab", NAME),
    "a thousand characters of stars": ("*a" * 499 + "b", NAME),
    "question marks": ("*?" * 100 + "b", NAME),
    "classes": ("*[ab]" * 190 + "c", NAME),
    "double stars": ("/" + "**/a/" * 199 + "b", DEEP),
    "double stars and classes": ("/" + "**/[a]*/" * 124 + "b", DEEP),
    "stars after double stars": ("/" + "**/*a*/" * 140 + "b", DEEP),
    "classes that do not end": ("[" + "[:a" * 330 + "]", NAME),
    "stars in every segment": ("/" + "*a*a*a*b/" * 100 + "b", (NAME + "/") * 15 + "c"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", LINES)
def test_a_line_is_decided_at_once(name: str) -> None:
    line, path = LINES[name]
    assert len(line) <= 1000
    assert read_rules([line]).verdict(path, False) is None


def test_costly_lines_mean_what_they_mean_to_git(tmp_path: Path) -> None:
    lines = ("*_[Tt]est*_*.py*", "/**/x/**/[b-d]*/**/*.p?", "**/*a*b*c*", "!keep*a*b*c*", r"a\*b*c*d*")
    paths = (
        "my_test_1.py", "a/my_Test_x_y.pyc", "my_tst_1.py", "x/b/z.py", "q/x/y/cc/z/w.pt", "x/a/z.py",
        "x/b/z.pyc", "1a2b3c4", "d/abc", "keepabc", "acb", "a*bcd", "axbcd",
    )  # fmt: skip
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("\n".join(lines) + "\n")
    command = ["git", "-C", str(tmp_path), "check-ignore", "--no-index", "--stdin"]
    ended = subprocess.run(command, input="\n".join(paths), capture_output=True, text=True, check=False)
    rules = read_rules(lines)
    assert [path for path in paths if rules.verdict(path, False)] == ended.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    "pattern", ["name{}", "/folder/name{}", "folder{}/", "*.x{}", "x{}*", "**/x{}", "!a{}*b"]
)
def test_a_file_of_many_lines_is_read_at_once(pattern: str) -> None:
    """200,000 lines took 11 s, as each was made a regular expression."""
    lines = [pattern.format(number) for number in range(200_000)]
    began = time.process_time()
    assert all(fnmatch.translate(line) for line in lines)
    translated = time.process_time()
    rules = read_rules(["*.py", *lines, "!t*.py"])
    verdicts = [rules.verdict(path, False) for path in ("a.py", "t.py", "a/b.txt")]
    assert time.process_time() - translated < 8 * (translated - began), "of only translating them, uncompiled"
    assert verdicts == [True, False, None]


def test_a_long_line_is_indexed_in_one_pass() -> None:
    with at_most(5):
        rules = read_rules([f"{'a' * 4000}*{number}*" for number in range(200)])
        assert rules.verdict("b", False) is None
