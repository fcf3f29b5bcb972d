"""The card of a failed job, and what GitHub Actions is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from vtrain.messages import states
from vtrain.messages.base import Status
from vtrain.messages.custom_job import CustomJob
from vtrain.output.card import show_failure
from vtrain.output.console import Console
from vtrain.verdict import DEBUG_INFO, ERROR_INFO

TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "<frozen runpy>", line 198, in _run_module_as_main',
    '  File "trainer/task.py", line 12, in main',
    "    raise ValueError(text)",
    "ValueError: 100% wrong",
)


def failed(file: str) -> CustomJob:
    metadata = {"replica": "workerpool1-0", "exitCode": "1", "log": "/logs/w.log", "file": file, "line": "12"}
    details = (
        {"@type": ERROR_INFO, "reason": "REPLICA_FAILED", "metadata": metadata | {"hint": "Try again."}},
        {"@type": DEBUG_INFO, "stackEntries": list(TRACEBACK)},
    )
    error = Status(code=3, message="The replica workerpool1-0 exited.", details=details)
    return CustomJob(name="n", display_name="demo", state=states.FAILED, error=error)


def test_the_card_names_replica_code_place_log_and_hint(capfd: pytest.CaptureFixture[str]) -> None:
    show_failure(Console(), failed("/src/trainer/task.py"))
    text = capfd.readouterr().err
    assert "FAILED  demo: workerpool1-0 failed first, with exit code 1" in text
    assert "/src/trainer/task.py:12" in text and "/logs/w.log" in text and "Try again." in text
    assert "ValueError: 100% wrong" in text
    assert "runpy" not in text and "::error" not in text


def test_no_card_for_a_job_that_did_not_fail(capfd: pytest.CaptureFixture[str]) -> None:
    show_failure(Console(), CustomJob(name="n", state=states.SUCCEEDED))
    assert capfd.readouterr().err == ""


def test_github_gets_an_annotation_and_a_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    show_failure(Console(), failed(str(tmp_path / "a,b" / "task.py")))
    annotation = next(line for line in capfd.readouterr().err.splitlines() if line.startswith("::error"))
    assert annotation.startswith("::error file=a%2Cb/task.py,line=12::ValueError: 100%25 wrong (")
    summary = (tmp_path / "summary.md").read_text()
    assert summary.startswith("### demo failed\n")
    assert "ValueError: 100% wrong" in summary and "runpy" not in summary and "Try again." in summary


def unstarted(message: str) -> CustomJob:
    error = Status(code=9, message=message, details=({"@type": ERROR_INFO, "reason": "IMAGE_FAILED"},))
    return CustomJob(name="n", display_name="demo", state=states.FAILED, error=error)


def test_a_sentence_is_shown_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    show_failure(Console(), unstarted("a:1 cannot be pulled."))
    lines = capfd.readouterr().err.splitlines()
    assert lines == [
        lines[0],
        "FAILED  demo: a:1 cannot be pulled.",
        lines[0],
        "::error::a:1 cannot be pulled.",
    ]
    assert (tmp_path / "summary.md").read_text() == "### demo failed\n\na:1 cannot be pulled.\n"


def test_further_lines_of_a_message_stand_below_its_first(capfd: pytest.CaptureFixture[str]) -> None:
    show_failure(Console(), unstarted("It cannot be built.\n  pip: not found"))
    rule, *lines = capfd.readouterr().err.splitlines()
    assert lines == ["FAILED  demo: It cannot be built.", "", "    pip: not found", "", rule]


def test_pointers_stand_below_a_single_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    job = unstarted("a:1 cannot be pulled.")
    assert job.error is not None
    detail = job.error.details[0] | {"metadata": {"log": "/l", "hint": "Log in."}}
    status = Status(code=9, message=job.error.message, details=(detail,))
    show_failure(Console(), CustomJob(name="n", display_name="demo", state=states.FAILED, error=status))
    rule, *lines = capfd.readouterr().err.splitlines()
    assert lines == ["FAILED  demo: a:1 cannot be pulled.", "", "  log   /l", "  hint  Log in.", rule]
