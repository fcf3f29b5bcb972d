"""Which installer is used, and what pip's configuration means to uv."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from environment_packages import direct_sdist, wheel

from vtrain.engine.environments.construction import construct
from vtrain.engine.environments.environment import EnvironmentSpec, plan_environment
from vtrain.engine.environments.installers import InstallerFault, explain_build
from vtrain.engine.environments.pip_configuration import UvOptions, read_pip_settings, uv_options


@pytest.fixture
def offline(tmp_path: Path) -> dict[str, str]:
    """An environment in which pip has no configuration but what the test adds."""
    return {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}


def write_uv(folder: Path, script: str) -> None:
    folder.mkdir()
    (folder / "uv").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "uv").chmod(0o755)


def test_pip_made_by_virtualenv_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    wheel(tmp_path / "wheels", "left")
    package = direct_sdist(tmp_path, "import left; print(left.VERSION)", ("left",))
    home = tmp_path / "home"
    plan = construct(plan_environment(EnvironmentSpec(packages=(package,)), home), [].append, "virtualenv")
    assert list(home.glob("environments/pip/*/complete"))
    argv = [str(plan.path / "bin" / "python"), "-m", "trainer.task"]
    assert subprocess.run(argv, check=True, capture_output=True, text=True).stdout == "1.0\n"


def test_uv_that_fails_is_followed_by_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_uv(tmp_path / "bin", "echo no solution; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    wheel(tmp_path / "wheels", "left")
    package = direct_sdist(tmp_path, "import left", ("left",))
    lines: list[bytes] = []
    construct(plan_environment(EnvironmentSpec(packages=(package,)), tmp_path / "home"), lines.append)
    log = b"".join(lines)
    assert b"no solution\nuv could not install this; trying once more with pip.\n" in log
    assert b"Successfully installed left" in log


@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not installed")
def test_real_uv_reads_pips_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    wheel(tmp_path / "wheels", "left", command=True)
    package = direct_sdist(tmp_path, "import left; print(left.VERSION)", ("left",))
    plan = plan_environment(EnvironmentSpec(packages=(package,)), tmp_path / "home")
    made = construct(plan, [].append, "uv")
    argv = [str(made.path / "bin" / "python"), "-m", "trainer.task"]
    assert subprocess.run(argv, check=True, capture_output=True, text=True).stdout == "1.0\n"


def test_uv_without_pips_configuration_is_left_alone(offline: dict[str, str]) -> None:
    assert uv_options(offline) == UvOptions()


def test_indexes_and_certificates_are_handed_to_uv(offline: dict[str, str]) -> None:
    offline |= {"PIP_EXTRA_INDEX_URL": "https://a.test/simple https://b.test/simple", "PIP_CERT": "/ca.pem"}
    options = uv_options(offline)
    assert options is not None
    assert options.flags == (
        "--index=https://a.test/simple",
        "--index=https://b.test/simple",
        "--index-strategy=unsafe-best-match",
    )
    assert options.variables == (("SSL_CERT_FILE", "/ca.pem"),)


def test_what_uv_has_no_word_for_is_left_to_pip(offline: dict[str, str]) -> None:
    assert uv_options(offline | {"PIP_CLIENT_CERT": "/me.pem"}) is None


def test_uvs_own_indexes_hold(offline: dict[str, str]) -> None:
    mine = {"UV_DEFAULT_INDEX": "https://uv.test/simple", "PIP_INDEX_URL": "https://pip.test/simple"}
    assert uv_options(offline | mine) == UvOptions()


def test_pips_files_are_read_in_pips_order(tmp_path: Path) -> None:
    user = tmp_path / ".config" / "pip"
    user.mkdir(parents=True)
    (user / "pip.conf").write_text(
        "[global]\nindex-url = https://user.test\ntimeout = 7\n[install]\nfind_links = /wheels\n"
    )
    named = tmp_path / "named.conf"
    named.write_text("[global]\nindex-url = https://named.test\n")
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path), "PIP_CONFIG_FILE": str(named)}
    settings = read_pip_settings(environ | {"PIP_TIMEOUT": "9", "PIP_FIND_LINKS": ""})
    assert settings["index-url"] == "https://named.test"
    assert settings["timeout"] == "9"
    assert settings["find-links"] == "/wheels"


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        (
            "ModuleNotFoundError: No module named 'numpy'",
            "Its build imports numpy: name what brings it in build-system",
        ),
        ("error: invalid command 'bdist_wheel'", "Correct its setup.py or pyproject.toml"),
        ("ERROR: connection refused", "need no index"),
    ],
)
def test_a_build_that_failed_gets_advice_for_its_cause(line: str, advice: str) -> None:
    failed = explain_build(InstallerFault("the build", ("Traceback", line)), "trainer.tar.gz")
    assert advice in failed.hint
    assert line in failed.message
