"""The end of `.ci/run`, on a small project: each failed test is repeated once, alone, and named."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.end_to_end

ROOT = Path(__file__).parents[1]
NOX = str(Path(sys.executable).with_name("nox"))
NOXFILE = """
import os, sys
import nox
nox.options.report = os.path.join(os.environ["VTRAIN_CI_REPORTS"], f"nox-{os.getpid()}.json")

@nox.session(name="tests-3.10", python=sys.executable)
def tests_on_another(session):
    os.environ["PYTHONPATH"] += os.pathsep + os.pathsep.join(sys.path)
    tests(session)

@nox.session(venv_backend="none")
def tests(session):
    session.run(
        sys.executable, "-m", "pytest", "-n", os.environ["WORKERS"], "--dist=worksteal",
        "-p", "xdist", "-p", "lib.ci_report", "-p", "no:cacheprovider", *session.posargs,
    )

@nox.session(venv_backend="none")
def lint(session):
    session.run(sys.executable, "-c", "raise SystemExit('too long a line')")
"""
PREAMBLE = """
import pytest
from pathlib import Path

def tries(name):
    with Path(__file__).with_name(f"tries-{name}").open("a") as file:
        file.write("x")
        return file.tell()

def test_steady():
    assert tries("steady") == 1, "this one was run again"
"""
ONCE = "\ndef test_once{0}():\n    assert tries('once{0}') > 1\n"
ALWAYS = "\ndef test_always():\n    assert tries('always') < 0\n"
SKIP = """
def test_skip():
    if tries("skip") > 1:
        pytest.skip("not now")
    assert False
"""
ODD = """
@pytest.mark.parametrize("word", ["a b::c[d] -k 'e'", "plain"])
def test_odd(word):
    assert word == "plain" or tries("odd") > 1
"""
TEARDOWN = """
@pytest.fixture
def thing():
    yield
    assert tries("thing") > 1

def test_teardown(thing):
    assert tries("teardown") > 1
"""


class Ended:
    """The exit code of the conclusion, the text that it printed, and before it the sessions."""

    def __init__(self, ended: subprocess.CompletedProcess[str], sessions: str) -> None:
        self.code = ended.returncode
        self.text = ended.stdout
        self.sessions = sessions


Conclude = Callable[..., Ended]


@pytest.fixture
def conclude(tmp_path: Path) -> Conclude:
    """Runs sessions of nox over these tests, and then the conclusion."""
    reports = tmp_path / "reports"
    reports.mkdir()
    own = {
        "VTRAIN_CI_REPORTS": str(reports),
        "PYTHONPATH": str(ROOT / "tests"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # pytest starts three times as fast
    }
    (tmp_path / "noxfile.py").write_text(NOXFILE)

    def run(*tests: str, sessions: tuple[str, ...] = ("tests",), workers: str = "0") -> Ended:
        environ = {**os.environ, **own, "WORKERS": workers}
        (tmp_path / "test_it.py").write_text(PREAMBLE + "".join(tests))
        ran = subprocess.run(
            [NOX, "-s", *sessions], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
        )
        argv = [sys.executable, ROOT / ".ci" / "conclude", reports, NOX, str(ran.returncode)]
        return Ended(
            subprocess.run(argv, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False),
            ran.stdout,
        )

    return run


def tries(tmp_path: Path, name: str) -> int:
    return (tmp_path / f"tries-{name}").stat().st_size


def last_lines(ended: Ended) -> str:
    """All from the list of failed tests on, which has to come last."""
    return ended.text[ended.text.rindex("\nFailed tests") + 1 :]


def test_a_run_without_failures_is_green(conclude: Conclude) -> None:
    ended = conclude("\ndef test_skipped():\n    pytest.skip('gcloud is not installed')\n")
    assert ended.code == 0, ended.text
    assert "  success\n" in ended.text
    assert "Skipped tests and sessions: 1\n     1  gcloud is not installed\n" in ended.text
    assert last_lines(ended) == "Failed tests: none\n"


@pytest.mark.parametrize(
    ("reason", "variable"),
    [("no crystal ball", "VTRAIN_REQUIRE_BALL"), ("gcloud is not installed", "VTRAIN_REQUIRE_GCLOUD")],
)
def test_a_reason_that_is_not_listed_or_no_more_allowed_fails_the_run(
    conclude: Conclude, monkeypatch: pytest.MonkeyPatch, reason: str, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    ended = conclude(f"\ndef test_skipped():\n    pytest.skip({reason!r})\n")
    assert ended.code == 1
    assert last_lines(ended).endswith(f"Nothing may be skipped for this reason: {reason}\n")


def test_a_test_that_passes_when_repeated_is_named(conclude: Conclude, tmp_path: Path) -> None:
    ended = conclude(ONCE.format(1), ODD, TEARDOWN, workers="2")
    assert ended.code == 0, ended.text
    lines = last_lines(ended).splitlines()
    assert lines[0] == "Failed tests: 3"
    assert sorted(lines[1:]) == [
        f"  tests: test_it.py::{name}: passed when repeated; find out why, and mend it"
        for name in ("test_odd[a b::c[d] -k 'e']", "test_once1", "test_teardown")
    ]
    assert "  failed\n" in ended.text  # the session's own result stays as it was
    assert tries(tmp_path, "steady") == 1
    assert tries(tmp_path, "once1") == tries(tmp_path, "odd") == tries(tmp_path, "teardown") == 2


def test_a_run_tells_each_reason_of_skips_once(conclude: Conclude) -> None:
    skips = (f"def test_skipped{number}():\n    pytest.skip('no crystal\\nball')\n" for number in range(3))
    told = conclude(*skips).sessions
    assert "\n     3  no crystal ball\n" in told
    assert told.count("crystal") == 1


def test_a_session_on_another_python_repeats_its_own_tests(conclude: Conclude, tmp_path: Path) -> None:
    ended = conclude(ONCE.format(1), sessions=("tests-3.10",))
    assert ended.code == 0, ended.text
    assert "\n  tests-3.10: test_it.py::test_once1: passed when repeated" in ended.text
    assert tries(tmp_path, "once1") == 2


def test_a_test_that_fails_again_or_is_skipped_then_fails_the_run(conclude: Conclude, tmp_path: Path) -> None:
    ended = conclude(ONCE.format(1), ALWAYS, SKIP)
    assert ended.code == 1
    assert "  tests: test_it.py::test_always: failed again\n" in last_lines(ended)
    assert "  tests: test_it.py::test_skip: failed again\n" in last_lines(ended)
    assert "  tests: test_it.py::test_once1: passed when repeated" in last_lines(ended)
    assert tries(tmp_path, "always") == tries(tmp_path, "skip") == 2


def test_of_more_than_three_failed_tests_none_is_repeated(conclude: Conclude, tmp_path: Path) -> None:
    ended = conclude(*(ONCE.format(number) for number in range(4)))
    assert ended.code == 1
    assert [tries(tmp_path, f"once{number}") for number in range(4)] == [1] * 4
    assert last_lines(ended).startswith("Failed tests: 4\n")
    assert last_lines(ended).count(": failed\n") == 4
    assert "No failed test was repeated: 4 have failed, or other things have." in last_lines(ended)


def test_a_session_that_fails_without_tests_fails_the_run(conclude: Conclude, tmp_path: Path) -> None:
    ended = conclude(ONCE.format(1), sessions=("tests", "lint"))
    assert ended.code == 1
    assert "The session lint has failed, and not by tests." in last_lines(ended)
    assert "  tests: test_it.py::test_once1: failed\n" in last_lines(ended)
    assert tries(tmp_path, "once1") == 1


def test_tests_that_cannot_be_collected_fail_the_run(conclude: Conclude, tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import nonexistent_module\n")
    ended = conclude()
    assert ended.code == 1
    assert "The session tests has failed, and not by tests." in last_lines(ended)


@pytest.mark.parametrize(
    ("codes", "sentence"), [(["0", "1"], "left no report"), (["1"], "none of its sessions")]
)
def test_a_failure_of_nox_itself_fails_the_run(tmp_path: Path, codes: list[str], sentence: str) -> None:
    (tmp_path / "nox-1.json").write_text(
        '{"sessions": [{"name": "tests", "result": "success", "duration": 61.2}]}'
    )
    argv = [sys.executable, ROOT / ".ci" / "conclude", tmp_path, NOX, *codes]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "tests            61  success\n" in ended.stdout
    assert sentence in ended.stdout.splitlines()[-1]
