"""Every recorded run of gcloud that called docker, played again with vtrain and a stand-in for an engine.

Alike are the exit code, the request but for the tags of images, and what the trainer finds in its image:
what gcloud's Dockerfile copies and installs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from differential.intended import DIFFERENCES
from differential.judge import deviations, differences
from differential.packages import base_images, missing_content, without_tags
from differential.runner import Case, Outcome, cases_of, play, shell_code, write_files
from lib.stand_in_engine import StandInEngine, stand_in_engine
from lib.waiting import wait_until

import vtrain

pytest.importorskip("google.cloud.aiplatform_v1.services", reason="needs the extra vertex")

pytestmark = pytest.mark.child

WATCH_SECONDS = 120.0
TERMINATED = "localrun.terminate-run"
PLAYED = [case for case in cases_of(packaging=True) if not case.is_interactive]


@pytest.fixture
def engine() -> Iterator[StandInEngine]:
    with stand_in_engine() as engine:
        yield engine


@pytest.mark.parametrize("case", PLAYED, ids=lambda case: case.id)
def test_a_line_packages_and_runs_what_it_does_with_gcloud(
    case: Case, engine: StandInEngine, own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    conf = case.docker_conf or {}
    engine.codes = conf.get("rc") or {}
    variables = {} if conf.get("missing") else {"DOCKER_HOST": engine.host}
    outcome = play(case, folder, monkeypatch, variables=variables)
    found = (
        *differences(case, outcome, mask=without_tags),
        *_engine_differences(case, engine, own_home / ".vtrain", outcome),
    )
    if intended := DIFFERENCES.get(case.id):
        assert found, f"{case.id} does what gcloud does: take it off the list."
        assert not deviations(intended, outcome, mask=without_tags)
    else:
        assert not found, "\n".join([*found, outcome.stderr])


def _engine_differences(case: Case, engine: StandInEngine, home: Path, outcome: Outcome) -> Iterator[str]:
    if case.exit_code or outcome.exit_code:
        return
    if missing := missing_content(case, engine, home):
        yield f"the trainer does not find {', '.join(missing)}"
    verbs = [call["argv"][0] for call in case.docker]
    if ("push" in verbs) != bool(engine.pushed) or ("run" in verbs) != bool(engine.runs):
        yield f"pushed {engine.pushed}, ran {len(engine.runs)}; gcloud: {', '.join(verbs)}"
    if not base_images(case) <= {name.removesuffix(":latest") for name in engine.pulled} | set(engine.pulled):
        yield f"built on {engine.pulled}, gcloud's images are built on {base_images(case)}"


def test_a_run_that_is_terminated_ends_as_a_shell_tells_it(
    engine: StandInEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (case,) = (case for case in cases_of(packaging=True) if case.id == TERMINATED)
    write_files(case, tmp_path)
    engine.run_seconds = WATCH_SECONDS
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    monkeypatch.setenv("PYTHONPATH", str(Path(vtrain.__file__).parents[1]))
    argv = [sys.executable, "-m", "vtrain", *case.argv]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        wait_until(lambda: bool(engine.runs))
        process.terminate()
        _, words = process.communicate(timeout=WATCH_SECONDS)
    assert process.returncode == shell_code(case.exit_code), words.decode()
