"""The README, CONTRIBUTING.md, `.ci/run`, the workflow, pre-commit and the noxfile say the same."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from lib.docker_engines import BASE_IMAGE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
TEST_COMMAND = re.compile(r"^ *(python3 -m venv .*&& .venv/bin/nox)$", re.MULTILINE)

USUAL_SESSIONS = ("tests", "lint", "types", "docs")
BY_HAND = (
    "quick",
    "quick-3.11",
    "quick-3.14",
    *(f"tests-3.{minor}" for minor in range(10, 15)),
    "coverage",
    "news",
    "mutants",
    "live",
    "gpu",
)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def test_ci_runs_the_test_command_of_the_readme() -> None:
    (promised,) = set(TEST_COMMAND.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    assert TEST_COMMAND.findall((ROOT / ".ci" / "run").read_text(encoding="utf-8")) == [promised]


@pytest.mark.parametrize("script", sorted((ROOT / ".ci").iterdir()), ids=lambda path: path.name)
def test_ci_can_be_run(script: Path) -> None:
    assert script.stat().st_mode & 0o111
    if script.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash"):
        subprocess.run(["bash", "-n", script], check=True)
    else:
        ast.parse(script.read_text(encoding="utf-8"))


def test_ci_makes_what_the_docker_tests_need_and_lets_none_be_skipped() -> None:
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    steps = [
        ".ci/start-engine",
        ".ci/make-base-image",
        ".ci/install-registry",
        ".ci/install-buildx",
        ".ci/install-programs",
        "VTRAIN_REQUIRE_DOCKER=1",
    ]
    positions = [run.index(step) for step in (*steps, ".venv/bin/nox")]
    assert positions == sorted(positions)
    assert f"image=${{1:-{BASE_IMAGE}}}" in (ROOT / ".ci" / "make-base-image").read_text(encoding="utf-8")


def configured() -> dict[str, Any]:
    """The document pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def noxfile() -> ast.Module:
    return ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))


def constant(noxfile: ast.Module, name: str) -> Any:
    """The value of a constant of the noxfile."""
    assignments = (node for node in noxfile.body if isinstance(node, ast.Assign))
    (value,) = (node.value for node in assignments if ast.unparse(node.targets[0]) == name)
    return ast.literal_eval(value)


def sessions(noxfile: ast.Module) -> dict[str, set[str]]:
    """Each session's name, and the texts that its function holds."""
    functions = (node for node in noxfile.body if isinstance(node, ast.FunctionDef) and node.decorator_list)
    found = {
        _session_name(node): {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
        for node in functions
    }
    on_each = [f"{name}-{version}" for name in ("tests", "quick") for version in constant(noxfile, "PYTHONS")]
    return found | {name: set() for name in on_each}


def _session_name(function: ast.FunctionDef) -> str:
    """What the decorator says, else the function's name."""
    decorator = function.decorator_list[0]
    named = [word.value for word in getattr(decorator, "keywords", ()) if word.arg == "name"]
    return str(ast.literal_eval(named[0])) if named else function.name


def test_ci_runs_every_session_that_needs_nothing_of_ones_own(noxfile: ast.Module) -> None:
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (turns,) = re.findall(r"^turns=\((.+)\)$", run, re.MULTILINE)
    (named,) = re.findall(r"^\.venv/bin/nox -s \$\{turns\[VTRAIN_CI_SEED % 3\]\} (.+)$", run, re.MULTILINE)
    assert {*turns.split(), *named.split(), *USUAL_SESSIONS, *BY_HAND, "environment"} == sessions(
        noxfile
    ).keys()
    assert f"nox.options.sessions = {list(USUAL_SESSIONS)}" in ast.unparse(noxfile)


def test_each_marker_is_run_by_the_usual_session_or_by_its_own(noxfile: ast.Module) -> None:
    markers = [line.partition(":") for line in configured()["tool"]["pytest"]["ini_options"]["markers"]]
    alone = {name: found[1] for name, _, text in markers if (found := re.search(r"\(nox -s (\w+)\)", text))}
    assert set(constant(noxfile, "OWN_SESSION")) == alone.keys()
    for name, session in alone.items():
        texts = sessions(noxfile)[session]
        assert "-m" in texts
        assert any(re.match(rf"\(?(?:\w+ or )?{name}\b", str(text)) for text in texts)


def test_the_quick_session_names_folders_that_are_there(noxfile: ast.Module) -> None:
    (folders,) = (node for node in noxfile.body if ast.unparse(node).startswith("QUICK = "))
    names = [part.value for part in ast.walk(folders) if isinstance(part, ast.Constant)][1:]
    assert len(names) > 5
    assert all((ROOT / "tests" / str(name)).is_dir() for name in names)


def test_contributing_lists_the_sessions_that_nox_lists() -> None:
    nox = Path(sys.executable).with_name("nox")
    listed = subprocess.check_output([nox, "-l"], cwd=ROOT, text=True)
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`[^|]+`) \|", text, re.MULTILINE)
    rows = [name for cell in cells for name in re.findall(r"`([\w.-]+)`", cell)]
    assert sorted(rows) == sorted(re.findall(r"^[*-] (\S+) ->", listed, re.MULTILINE))
    assert sorted(re.findall(r"^\* (\S+) ->", listed, re.MULTILINE)) == sorted(
        {*USUAL_SESSIONS, "environment"}
    )
    assert tuple(rows[:4]) == USUAL_SESSIONS
    assert sorted(rows[-len(BY_HAND) :]) == sorted(BY_HAND)


def test_every_session_that_a_text_names_is_there(noxfile: ast.Module) -> None:
    pages = [
        ROOT / "README.md",
        ROOT / "tests" / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "pyproject.toml",
        *(ROOT / "docs").rglob("*.md"),
    ]
    scripts = [
        *(ROOT / "tests").rglob("*.py"),
        *(path for path in (ROOT / ".ci").iterdir() if path.is_file()),
    ]
    named = {
        name
        for path in (*pages, *scripts)
        for name in re.findall(r"nox -s ([\w.-]*\w)", path.read_text(encoding="utf-8"))
    }
    assert {"tests", "build", "chaos"} <= named <= sessions(noxfile).keys() | {"NAME"}


def test_the_development_extra_has_what_the_sessions_install(noxfile: ast.Module) -> None:
    development = configured()["project"]["optional-dependencies"]["dev"]
    setup = "python3 -m venv --without-pip .venv && python3 -m pip --python .venv install -e '.[dev]'"
    assert setup in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    texts = {str(text) for name in ("types", "build") for text in sessions(noxfile)[name]}
    wanted = {text for text in texts if re.match(r"[\w-]+>=", text)} | {
        constant(noxfile, "RUFF"),
        "types-PyYAML",
    }
    assert len(wanted) == 5
    assert wanted <= set(development)


def test_the_hooks_check_what_the_sessions_check(noxfile: ast.Module) -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    ruff, local = hooks["repos"]
    assert re.fullmatch(r"v\d+\.\d+\.\d+", ruff["rev"])
    assert [hook["id"] for hook in ruff["hooks"]] == ["ruff-check", "ruff-format"]
    assert local["repo"] == "local"
    programs = set()
    for hook in local["hooks"]:
        assert hook["language"] == "system"
        program, *arguments = hook["entry"].removeprefix(".venv/bin/").split()
        programs.add(program)
        session = sessions(noxfile)["types" if program == "mypy" else "lint"]
        assert {program, *arguments} <= session
    assert programs == {"lint-imports", "mypy"}


def test_the_workflow_runs_what_ci_runs_where_it_can() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    (job,) = workflow["jobs"].values()
    (command,) = (step["run"] for step in job["steps"] if "run" in step)
    assert command.split()[:2] == ["docker", "run"]
    assert "python:3.11-bookworm" in command.split()  # .ci/make-base-image needs Debian 12
    assert command.splitlines()[-1].strip() == ".ci/run'"
    (found,) = re.findall(r"uv python install (.+)", command)
    turns = re.findall(r"tests-([\d.]+)", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert {*turns} <= {*found.split()}  # the image has one Python alone
    assert {"--privileged", "--workdir", "/vtrain"} <= set(command.split())


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", "tests/README.md", "examples/README.md", "benchmarks/README.md"]
)
def test_pages_outside_the_documentation_link_to_what_is_there(page: str) -> None:
    """mkdocs checks the links of the others."""
    path = ROOT / page
    missing = [
        target
        for target in LINK.findall(path.read_text(encoding="utf-8"))
        if not (path.parent / target).exists()
    ]
    assert not missing
