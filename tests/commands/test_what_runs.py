"""What runs is Python, shell scripts, and files that name their interpreter; nothing else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import vtrain as library
from vtrain.errors import ConfigError
from vtrain.packaging.candidates import named_candidate

FILES = {
    "nb.ipynb": b"cells",
    "requirements.txt": b"# six\n",
    "job.yaml": b"a: 1\n",
    "pyproject.toml": b"",
    "data.csv": b"echo,1\n",
    "binary": b"\x7fELF\0",
    "empty": b"",
    "noted": b"# !/bin/sh\n",
    "odd": b"#!\n",
}
RUNNABLE = "Python (.py), a notebook (.ipynb), a shell script (.sh) or a file that begins with #!"
POOL = "--worker-pool-spec=machine-type=n1-standard-4,executor-image-uri=x,local-package-path=.,script="


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with files that are no programs."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_is_no_program_is_refused(folder: Path, vtrain: Any) -> None:
    for name in FILES:
        ended = vtrain("run", name, "--backend=process")
        assert (ended.code, ended.out) == (1, "")
        said = f"{name} is no program. What runs is {RUNNABLE}.\n"
        assert (
            f"ERROR: {'nb.ipynb is no notebook that vtrain can run: ' if 'nb' in name else said}" in ended.err
        )


@pytest.mark.parametrize(
    "line",
    [
        ("run", "{}", "--backend=process"),
        ("run", "{}", "--backend=process", "--dry-run"),
        ("submit", "{}", "--backend=process"),
        ("submit", "{}", "--backend=vertex", "--project=p-1", "--region=us-east1", "--executor-image-uri=x"),
        ("debug", "{}", "--backend=process"),
        ("custom-jobs", "local-run", "--script={}", "--backend=process"),
        ("custom-jobs", "local-run", "--local-package-path={}", "--backend=process"),
        ("custom-jobs", "create", "--display-name=x", "--backend=process", POOL + "{}"),
        ("custom-jobs", "environment", "--backend=process", POOL + "{}"),
        ("package", "sdist", "{}"),
        ("package", "image", "{}", "--executor-image-uri=x"),
    ],
    ids=lambda line: " ".join(line[:2]),
)
@pytest.mark.parametrize("name", ["nb.ipynb", "requirements.txt"])
@pytest.mark.usefixtures("debug_port")
def test_every_way_to_name_it_is_alike(folder: Path, vtrain: Any, line: tuple[str, ...], name: str) -> None:
    ended = vtrain(*(word.format(name) for word in line))
    assert (ended.code, ended.out) == (1, "")
    assert f"ERROR: {name} is " in ended.err


def test_a_saved_job_and_the_library_are_alike(folder: Path, vtrain: Any) -> None:
    (folder / "pyproject.toml").write_text('[tool.vtrain.job]\nscript = "data.csv"\n')
    ended = vtrain("run", "--backend=process")
    assert (ended.code, "ERROR: data.csv is no program." in ended.err) == (1, True)
    with pytest.raises(ConfigError, match=r"data\.csv is no program"):
        library.submit("data.csv", backend="process")


def test_init_does_not_save_what_does_not_run(folder: Path) -> None:
    assert named_candidate(folder, "data.csv") is None


def test_a_file_that_names_its_interpreter_runs_in_it(folder: Path, vtrain: Any) -> None:
    (folder / "go").write_text(
        "#!/usr/bin/env -S python3 -O\nimport sys\nprint(sys.argv[1:], sys.flags.optimize)\n"
    )
    ended = vtrain("run", "go", "--backend=process", "--", "a b")
    assert (ended.code, ended.out) == (0, "['a b'] 1\n"), ended.err
    (folder / "none").write_text("#!/no/such -x\n")
    ended = vtrain("run", "none", "--backend=process")
    assert ended.code == 127
    assert "none: it runs in /no/such, which does not start: No such file or directory" in ended.err
