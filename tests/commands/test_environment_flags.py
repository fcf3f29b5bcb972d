"""`--environment` and `--python`: the Python that a trainer runs on, as its user or itself says."""

from __future__ import annotations

import socket
import venv
from pathlib import Path
from typing import Any

import pytest

from vtrain.backends.registry import find_backend
from vtrain.errors import ConfigError
from vtrain.runtime.environments.active_python import active_python
from vtrain.runtime.environments.interpreters import (
    Interpreter,
    base_interpreter,
    choose_python,
    site_packages,
)

pytestmark = pytest.mark.end_to_end

RUN = ("custom-jobs", "local-run", "--backend=process", "--python-module=trainer.task")
CODE = "import sys\nimport only_here\nfrom trainer import model\nprint(sys.executable, only_here.WHO)\n"
HERE = base_interpreter()


@pytest.fixture
def active(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An active virtual environment that has one module."""
    folder = tmp_path / "active environment"
    venv.create(folder, symlinks=True)
    (site_packages(folder) / "only_here.py").write_text("WHO = 'mine'\n")
    monkeypatch.setenv("VIRTUAL_ENV", str(folder))
    return folder


@pytest.fixture
def trainer(tmp_path: Path) -> str:
    folder = tmp_path / "code" / "trainer"
    folder.mkdir(parents=True)
    (folder / "task.py").write_text(CODE)
    (folder / "model.py").write_text("")
    (tmp_path / "code" / "requirements.txt").write_text("no-index-has-this-package==7\n")
    return f"--local-package-path={tmp_path / 'code'}"


def test_a_trainer_runs_in_the_active_environment(
    vtrain: Any, active: Path, trainer: str, vtrain_home: Path
) -> None:
    ended = vtrain(*RUN, trainer, "--environment=current", "--strict")
    assert (ended.code, ended.out) == (0, f"{active}/bin/python mine\n"), ended.err
    assert "WARNING" not in ended.err
    assert f"The trainer runs in {active}/bin/python as it is." in ended.err
    assert not (vtrain_home / "environments").exists()
    assert sorted(path.name for path in site_packages(active).iterdir()) == ["__pycache__", "only_here.py"]


def test_what_the_active_environment_lacks_is_told(vtrain: Any, active: Path, trainer: str) -> None:
    (site_packages(active) / "only_here.py").unlink()
    ended = vtrain(*RUN, trainer, "--environment=current", "--dry-run")
    code = active.parent / "code"
    line = f"{code}/trainer/task.py:2: `only_here` is imported and not installed in {active}/bin/python."
    assert ended.code == 0
    assert [each for each in ended.err.splitlines() if "WARNING" in each] == [
        f"WARNING: {line} Install it there, or give --requirements=NAME: then vtrain makes an environment of "
        "these alone."
    ]
    ran = vtrain(*RUN, trainer, "--environment=current")
    assert (ran.code, "in the Python that the trainer ran in" in ran.err) == (1, True), ran.err
    refused = vtrain(*RUN, trainer, "--environment=current", "--strict")
    assert (refused.code, f"ERROR: {line}" in refused.err) == (1, True)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A script that declares nothing, in a folder of its own."""
    script = tmp_path / "bare" / "train.py"
    script.parent.mkdir()
    script.write_text("import sys\nimport only_here\nprint(sys.executable, only_here.WHO)\n")
    return script


def test_a_trainer_that_declares_nothing_runs_in_the_active_python(
    vtrain: Any, active: Path, bare: Path, vtrain_home: Path
) -> None:
    ended = vtrain("run", str(bare), "--strict")
    assert (ended.code, ended.out) == (0, f"{active}/bin/python mine\n"), ended.err
    first, note = ended.err.splitlines()[:2]
    assert first == "Backend: process (run is always local; in your active Python)"
    assert note.startswith(f"Note: The trainer runs in {active}/bin/python as it is.")
    assert not (vtrain_home / "environments").exists()
    fresh = vtrain("run", str(bare), "--environment=new")
    assert fresh.code == 1
    assert (
        f"Your active Python, {active}/bin/python, has `only_here`: take --environment=current" in fresh.err
    )
    (site_packages(active) / "only_here.py").unlink()
    refused = vtrain("run", str(bare), "--strict")
    assert (refused.code, refused.out) == (1, "")
    assert f"`only_here` is imported and not installed in {active}/bin/python." in refused.err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("requirements.txt", ""),
        ("pyproject.toml", "[project]\nname = 'bare'\nversion = '1'\n"),
        ("setup.py", "from setuptools import setup\nsetup(name='bare', py_modules=['train'])\n"),
        ("train.py", "# /// script\n# dependencies = []\n# ///\nimport sys\nprint(sys.executable)\n"),
    ],
)
@pytest.mark.usefixtures("active")
def test_a_trainer_that_declares_something_gets_an_environment(
    vtrain: Any, bare: Path, vtrain_home: Path, name: str, content: str
) -> None:
    bare.write_text("import sys\nprint(sys.executable)\n")
    (bare.parent / name).write_text(content)
    ended = vtrain("run", str(bare))
    assert (ended.code, ended.out.startswith(str(vtrain_home))) == (0, True), ended.err


@pytest.mark.parametrize("version", ["3.6", "2.7"])
def test_a_python_that_is_too_old_is_none(
    vtrain: Any, bare: Path, tmp_path: Path, vtrain_home: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """The file's name tells the version, as a virtual environment's link does."""
    bare.write_text("import sys\nprint(sys.executable)\n")
    old = tmp_path / "old" / f"python{version}"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\nexit 3\n")
    old.chmod(0o755)
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "python").symlink_to(old)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "env"))
    ended = vtrain("run", str(bare))
    assert (ended.code, ended.out.startswith(str(vtrain_home))) == (0, True), ended.err


def test_a_debugger_that_the_active_python_lacks_makes_an_environment(
    vtrain: Any, active: Path, bare: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = f"--debugpy={unused.getsockname()[1]}"
    lacking = vtrain("debug", str(bare), "--dry-run", port)
    assert "Would install the trainer and its requirements." in lacking.err
    (site_packages(active) / "debugpy.py").touch()
    found = vtrain("debug", str(bare), "--dry-run", port)
    assert f"The trainer runs in {active}/bin/python as it is." in found.err


@pytest.fixture
def in_an_environment(vtrain: Any, bare: Path, vtrain_home: Path) -> Any:
    """What a run says that was in an environment of vtrain's."""
    bare.write_text("import sys\nprint(sys.executable)\n")

    def run(*flags: str) -> str:
        ended = vtrain("run", str(bare), *flags)
        assert (ended.code, ended.out.startswith(str(vtrain_home))) == (0, True), ended.err
        return str(ended.err)

    return run


@pytest.mark.usefixtures("active")
def test_a_flag_that_declares_something_makes_an_environment(in_an_environment: Any) -> None:
    for flag in (f"--python={HERE.path}", "--environment=new"):
        in_an_environment(flag)


@pytest.mark.parametrize("answer", ["", "exit 7", "head -c 3000 /dev/urandom", "echo garbage"])
def test_without_an_active_python_there_is_an_environment(
    vtrain: Any, in_an_environment: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """One that does not answer is none."""
    python, path, said = tmp_path / "bin" / "python3", "/nothing", "WARNING: No Python is active: "
    if answer:
        python.parent.mkdir()
        python.write_text(f"#!/bin/sh\n{answer}\n")
        python.chmod(0o755)
        path, said = f"{python.parent}:/usr/bin:/bin", str(python)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("PATH", path)
    assert said in next(line for line in in_an_environment().splitlines() if "WARNING" in line)
    assert not answer or vtrain("run", str(tmp_path / "bare" / "train.py"), "--environment=current").code == 1


def test_another_environment_is_named_by_its_folder(
    vtrain: Any, active: Path, trainer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VIRTUAL_ENV")
    ended = vtrain(*RUN, trainer, "--environment=current", f"--python={active}")
    assert ended.out == f"{active}/bin/python mine\n", ended.err


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (("--environment=mine",), 2, "--environment: expected current or new, found 'mine'."),
        (("--python=threeten",), 2, "--python: expected a version such as 3.12, or the path of an"),
        (("--python=3.12", "--environment=current"), 2, "--environment=current takes --python=PATH"),
        (("--python=./nowhere",), 1, "--python: there is no Python at "),
        (("--python=3.99",), 1, "--python=3.99: uv finds no such Python on this machine."),
        (("--python=/bin/ls", "--environment=current"), 1, "The Python /bin/ls does not run: "),
    ],
)
def test_what_cannot_be_meant_is_refused(
    vtrain: Any, trainer: str, vtrain_home: Path, flags: tuple[str, ...], code: int, said: str
) -> None:
    ended = vtrain(*RUN, trainer, *flags)
    assert (ended.code, ended.out) == (code, "")
    assert f"ERROR: {said}" in ended.err
    assert not vtrain_home.exists()


@pytest.mark.parametrize("flag", ["--python", "--environment"])
def test_a_container_has_the_python_of_its_image(flag: str) -> None:
    with pytest.raises(ConfigError, match=f"^{flag} is for the backend process: a container") as refusal:
        find_backend("docker").ignored_flags([flag])
    assert "--backend=process" in refusal.value.hint
    with pytest.raises(ConfigError, match=f"^{flag} is for jobs on this machine"):
        find_backend("vertex").ignored_flags([flag])


def test_a_trainer_runs_on_another_python(
    vtrain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = another_python(monkeypatch)
    (tmp_path / "run.py").write_text("import sys\nprint('%d.%d.%d' % sys.version_info[:3])\n")
    run = ("custom-jobs", "local-run", f"--script={tmp_path / 'run.py'}", f"--local-package-path={tmp_path}")
    for asked in (other.short_version, other.path):
        ended = vtrain(*run, f"--python={asked}")
        assert ended.out == f"{other.version}\n", ended.err
    again = vtrain(*run, f"--python={other.path}", "--dry-run")
    assert "cached" in again.err, again.err


def another_python(monkeypatch: pytest.MonkeyPatch) -> Interpreter:
    monkeypatch.setenv("UV_PYTHON_PREFERENCE", "system")
    choice = choose_python("", (f">=3.10,!={HERE.short_version}.*",))
    if choice.unmet:
        pytest.skip("uv finds no other Python here")
    return choice.interpreter


def test_the_active_python_is_that_of_the_shell(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(HERE.path)
    assert active_python({"PATH": f"{tmp_path}/bin:/usr/bin"}) == f"{tmp_path}/bin/python3"
    assert active_python({"PATH": "", "VIRTUAL_ENV": "/gone"} | {"PATH": f"{tmp_path}/bin"}).endswith(
        "python3"
    )
    with pytest.raises(ConfigError, match="No Python is active"):
        active_python({"PATH": str(tmp_path)})
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "python3").write_text(f'#!/bin/sh\nexec {HERE.path} "$@"\n')
    (shims / "python3").chmod(0o755)
    assert active_python({"PATH": str(shims)}) == HERE.path
