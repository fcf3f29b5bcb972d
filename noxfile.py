"""The workshop: `nox` runs what every change has to pass, `nox -s readme api engine` what takes longer."""

from __future__ import annotations

import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2024.4.15"
nox.options.sessions = ["tests", "lint", "types", "docs"]
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"

RUFF = "ruff>=0.15,<0.18"
CHECKED = ["vtrain", "tests", "benchmarks", "examples", "noxfile.py"]


@nox.session
def tests(session: nox.Session) -> None:
    """The tests, in parallel; arguments after -- go to pytest."""
    _install(session, ".[test,vertex,emulator]")
    session.run("pytest", "-n", "2", "-m", "not readme and not api and not engine", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Style: ruff's rules and its formatting."""
    session.install(RUFF)
    session.run("ruff", "check", *CHECKED)
    session.run("ruff", "format", "--check", *CHECKED)


@nox.session
def types(session: nox.Session) -> None:
    """Types, strictly."""
    _install(session, ".[test,emulator]", "mypy>=1.15", "types-PyYAML")
    session.run("mypy", "--strict", "vtrain")


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation, without a warning."""
    _install(session, ".", "mkdocs>=1.6,<2")
    site = Path(session.create_tmp()).resolve()
    session.run("mkdocs", "build", "--strict", "-f", "docs/mkdocs.yml", "-d", str(site))


@nox.session
def readme(session: nox.Session) -> None:
    """The commands of the README as a newcomer pastes them: slow, and they install packages."""
    _install(session, ".[test]")
    session.run("pytest", "-m", "readme", *session.posargs)


@nox.session
def api(session: nox.Session) -> None:
    """Our messages against the API of the newest google-cloud-aiplatform."""
    _install(session, ".[test,vertex]")
    session.run("pytest", "-m", "api", *session.posargs, env={"VTRAIN_REQUIRE_API": "1"})


@nox.session
def engine(session: nox.Session) -> None:
    """Docker engines that are stopped and killed while jobs run; as root, they are started for that."""
    _install(session, ".[test]")
    session.run("pytest", "-n", "2", "-m", "engine", *session.posargs)


def _install(session: nox.Session, *requirements: str) -> None:
    shutil.rmtree("build", ignore_errors=True)  # setuptools would pack what older builds left there
    session.install(*requirements)
