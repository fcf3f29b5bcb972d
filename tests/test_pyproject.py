"""`[tool.vtrain]` is checked to the letter, and what is wrong is told with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vtrain.errors import ConfigError
from vtrain.pyproject import nearest_pyproject
from vtrain.toml_reader import line_of


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "pyproject.toml"


@pytest.mark.parametrize(
    ("text", "line", "said", "hint"),
    [
        ("[tool]\nvtrain = 1\n", 2, "tool.vtrain is not a table.", "Write it as [tool.vtrain]."),
        ("\n[[tool.vtrain]]\na = 1\n", 2, "tool.vtrain is not a table.", "Write it as [tool.vtrain]."),
        (
            "[tool.vtrain]\nbackend = 'process'\nstaging_bucket = 'gs://x'\n",
            3,
            "[tool.vtrain] has no key 'staging_bucket'.",
            "Did you mean staging-bucket?",
        ),
        (
            "[tool.vtrain]\nbackend = 'process' # colour = 1\ncolour = 3\n",
            3,
            "[tool.vtrain] has no key 'colour'.",
            "Its keys are accelerators, backend, job, memory, staging-bucket.",
        ),
        (
            "[tool.vtrain]\nbackend = true\n",
            2,
            "backend of [tool.vtrain]: expected text, found true or false.",
            'Write backend = "VALUE".',
        ),
        (
            "[tool.vtrain]\nstaging-bucket = {a = 1}\n",
            2,
            "staging-bucket of [tool.vtrain]: expected text, found a table.",
            'Write staging-bucket = "VALUE".',
        ),
        (
            "[tool.vtrain]\naccelerators = [\n  0,\n  ['b'],\n]\n",
            2,
            "accelerators of [tool.vtrain]: expected a whole number or text, found a list.",
            'Write accelerators = "VALUE".',
        ),
        (
            f"[tool.vtrain]\nmemory = 0x{'f' * 5000}\n",
            2,
            "memory of [tool.vtrain]: expected a whole number <= 9223372036854775807.",
            "",
        ),
        (
            '[tool.vtrain]\nbackend = "a\\u0000b"\n',
            2,
            "backend of [tool.vtrain] holds a NUL character.",
            "Leave it out.",
        ),
        (
            "[tool.vtrain\nbackend = 'process'\n",
            1,
            "not TOML: Expected ']' at the end of a table declaration.",
            "Fix that line.",
        ),
        (
            "[tool.vtrain]\nmodule = 'x'\n",
            2,
            "[tool.vtrain] has no key 'module'.",
            "It belongs to [tool.vtrain.job].",
        ),
        (
            "[tool.vtrain.job]\npython-module = 'x'\n",
            2,
            "[tool.vtrain.job] has no key 'python-module'.",
            "Write module.",
        ),
        (
            "[tool.vtrain.job]\nmodul = 'x'\n",
            2,
            "[tool.vtrain.job] has no key 'modul'.",
            "Did you mean module?",
        ),
        (
            "[tool.vtrain]\njob = 'train.py'\n",
            2,
            "job of [tool.vtrain]: expected a table, found text.",
            "Write [tool.vtrain.job].",
        ),
        (
            "[tool.vtrain.job]\nscript = 't.py'\nargs = [\n  '--epochs', 3]\n",
            3,
            "args of [tool.vtrain.job]: expected text, found a whole number.",
            "Write it in quotes.",
        ),
        (
            "[tool.vtrain.job]\nargs = '--epochs=3'\n",
            2,
            "args of [tool.vtrain.job]: expected a list, found text.",
            'Write args = ["VALUE"].',
        ),
        (
            "[tool.vtrain.job]\nenv = {LEVEL = 3}\n",
            2,
            "env of [tool.vtrain.job]: expected text, found a whole number.",
            "Write it in quotes.",
        ),
        (
            "[tool.vtrain.job]\nreplica-count = 0\n",
            2,
            "replica-count of [tool.vtrain.job]: expected a whole number >= 1.",
            "",
        ),
        ("[tool.vtrain]\nbackend = \n", 2, "not TOML: Invalid value.", "Fix that line."),
        ("[tool.vtrain]\nbackend = '''\n", 2, "not TOML: ", "Fix that line."),
    ],
)
def test_a_wrong_table_is_refused_with_its_line(
    file: Path, text: str, line: int, said: str, hint: str
) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        nearest_pyproject(file.parent)
    assert caught.value.message.startswith(f"{file}:{line}: {said}")
    assert caught.value.hint == hint


@pytest.mark.parametrize("value", ["[" * 5000, "1\nbackend" + ".a" * 5000 + " = 1"], ids=["lists", "keys"])
def test_a_table_that_is_nested_too_deeply_is_refused(file: Path, value: str) -> None:
    file.write_text(f"[tool.vtrain]\nmemory = {value}\n")
    with pytest.raises(ConfigError, match=r"nested too deeply\.$"):
        nearest_pyproject(file.parent)


@pytest.mark.parametrize("text", ["[tool.black\n", "[project]\ndependencies = ['vtrain'\n[tool.other\n"])
def test_a_file_without_a_table_of_vtrains_may_be_anything(file: Path, text: str) -> None:
    file.write_text(text)
    project = nearest_pyproject(file.parent)
    assert project is not None and project.setting("backend") == ""


@pytest.mark.parametrize(
    "text",
    [
        "[tool.vtrain]\nbackend = 'docker'\n",
        "[ tool\t. vtrain ]\nbackend = 'docker'\n",
        "['tool'.\"vtrain\"]\nbackend = 'docker'\n",
        "[tool]\nvtrain = {backend = 'docker'}\n",
        "[ 'tool' ]\nvtrain.backend = 'docker'\n",
        'tool.vtrain.backend = "docker"\n',
        "\"tool\" . 'vtrain' = {backend = 'docker'}\n",
        "tool = {vtrain = {backend = 'docker'}}\n",
        "'tool'={other = 1, vtrain.backend = 'docker'}\n",
    ],
)
def test_the_table_is_found_however_it_is_written(file: Path, text: str) -> None:
    file.write_text(text)
    project = nearest_pyproject(file.parent)
    assert project is not None and project.setting("backend") == "docker"


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("a = 1\nb = 2\n", ("b",), 2),
        ('a = """\nb = 3\n"""\nb = 2\n', ("b",), 4),
        ("[x]\nb = 1\n[y]\nb = 2\n", ("y", "b"), 4),
        ("[x]\nz.b = 1\n", ("x", "z", "b"), 2),
        ("x = {y = {b = 1}}\n", ("x", "y", "b"), 1),
        ("a = 1\n\n[x . 'b']\n", ("x", "b"), 3),
        ("a = 1\nb = [\n 1,\n 2]\nc = 3\n", ("b",), 2),
        ("a = 1\r\nb = 2\r\n", ("b",), 2),
        ("a = 1\n", ("b",), 0),
        ('"\\u0062" = 1\n', ("b",), 0),
        (f"a = '{'x' * 100_000}'\nb = 2\n", ("b",), 0),
    ],
)
def test_the_line_of_a_key(text: str, path: tuple[str, ...], line: int) -> None:
    assert line_of(text, path) == line


@pytest.mark.parametrize(
    "argv", [("list",), ("list", "--backend=process"), ("local-run", "--script=t.py", "--dry-run")]
)
def test_every_command_about_jobs_checks_it(vtrain: Any, file: Path, argv: tuple[str, ...]) -> None:
    file.with_name("t.py").write_text("print(1)\n")
    file.write_text("[tool.vtrain]\nstaging_bucket = 'gs://x'\n")
    ended = vtrain("custom-jobs", *argv)
    assert (ended.code, ended.out) == (1, "")
    assert f"{file}:2: [tool.vtrain] has no key 'staging_bucket'." in ended.err
    assert "Did you mean staging-bucket?" in ended.err


def test_a_huge_file_is_refused_unread(file: Path) -> None:
    with file.open("wb") as stream:
        stream.truncate(1 << 40)  # sparse: it takes no space, and no memory would hold it
    with pytest.raises(ConfigError, match=r"pyproject\.toml is larger than 16 MB\.") as caught:
        nearest_pyproject(file.parent)
    assert caught.value.hint == "Rename it, or work elsewhere."
