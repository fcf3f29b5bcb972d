"""Which files of a folder look like the start of a trainer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vtrain.packaging.candidates import find_candidates, named_candidate

GUARD = 'if __name__ == "__main__":\n    print(1)\n'


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def names(folder: Path) -> list[tuple[str, str]]:
    return [(found.name, found.path) for found in find_candidates(folder)]


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, []),
        ({"a.py": "x = 1\n", "README.md": GUARD}, []),
        ({"a.py": GUARD}, [("a.py", "")]),
        ({"train.py": "print(1)\n", "a.py": GUARD}, [("train.py", ""), ("a.py", "")]),
        ({"trainer/__init__.py": "", "trainer/task.py": ""}, [("trainer.task", "")]),
        ({"trainer/__init__.py": "", "trainer/__main__.py": ""}, [("trainer", "")]),
        ({"trainer/task.py": "from trainer import model\n"}, [("trainer.task", "")]),
        ({"jobs/task.py": "import os\n"}, [("jobs/task.py", "")]),
        ({"a b/__init__.py": "", "a b/task.py": ""}, [("a b/task.py", "")]),
        ({"my-job/__init__.py": "", "my-job/__main__.py": ""}, [("my-job/__main__.py", "")]),
        ({"src/digits/__init__.py": "", "src/digits/main.py": ""}, [("digits.main", "src")]),
        (
            {
                "src/digits/__init__.py": "",
                "src/digits/main.py": "",
                "pyproject.toml": "[project]\nname='d'\n",
            },
            [("digits.main", "")],
        ),
        ({"run.sh": "python train.py\n", "train.py": ""}, [("train.py", ""), ("run.sh", "")]),
        ({"setup.py": GUARD, "conftest.py": GUARD, "test_a.py": GUARD, "tests/train.py": GUARD}, []),
        ({".venv/train.py": "", "env/pyvenv.cfg": "", "env/train.py": "", "a/b/c/d/train.py": ""}, []),
    ],
    ids=str,
)
def test_candidates(tmp_path: Path, files: dict[str, str], found: list[tuple[str, str]]) -> None:
    write(tmp_path, files)
    assert names(tmp_path) == found


def test_a_large_folder_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtrain.packaging.candidates._MOST_ENTRIES", 20)
    write(tmp_path, {"train.py": "", **{f"zz/{number}.txt": "" for number in range(30)}, "zz/main.py": ""})
    assert names(tmp_path) == [("train.py", "")]


def test_only_files_with_names_in_text_are_proposed(tmp_path: Path) -> None:
    write(tmp_path, {"good.py": GUARD})
    os.mkfifo(tmp_path / "train.py")
    (tmp_path / "task.py").symlink_to("/dev/zero")
    (tmp_path / "main.py").symlink_to("main.py")
    (tmp_path / os.fsdecode(b"\xff.py")).write_text(GUARD)
    folder = tmp_path / os.fsdecode(b"\xfe")
    folder.mkdir()
    (folder / "run.py").write_text(GUARD)
    assert names(tmp_path) == [("good.py", "")]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("trainer.other", ("trainer.other", "")),
        ("trainer/other.py", ("trainer.other", "")),
        ("trainer/other", ("trainer.other", "")),
        ("x" * 5000, None),
        ("plain.py", ("plain.py", "")),
        ("plain", ("plain", "")),
        ("nowhere", None),
        ("", None),
        ("../plain.py", None),
        ("trainer", None),
        ("a b.other", ("a b.other", "")),
        ("a b/other.py", ("a b/other.py", "")),
    ],
)
def test_what_a_user_names(tmp_path: Path, name: str, found: tuple[str, str] | None) -> None:
    write(tmp_path / "p", {"trainer/__init__.py": "", "trainer/other.py": "", "plain.py": ""})
    write(tmp_path / "p", {"a b/__init__.py": "", "a b/other.py": ""})
    write(tmp_path, {"plain.py": ""})
    candidate = named_candidate(tmp_path / "p", name)
    assert (candidate and (candidate.name, candidate.path)) == found
