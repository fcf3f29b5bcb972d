"""The card of a failed job, and what GitHub Actions is told."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from vtrain.core.verdict import DEBUG_INFO, ERROR_INFO
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.structs import Status
from vtrain.output.card import show_end
from vtrain.output.console import Console

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
    show_end(Console(), failed("/src/trainer/task.py"))
    text = capfd.readouterr().err
    assert "FAILED  demo: workerpool1-0 failed first, with exit code 1" in text
    assert "/src/trainer/task.py:12" in text and "/logs/w.log" in text and "Try again." in text
    assert "ValueError: 100% wrong" in text
    assert "runpy" not in text and "::error" not in text


def test_github_gets_an_annotation_and_a_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    show_end(Console(), failed(str(tmp_path / "a,b" / "task.py")))
    annotation = next(line for line in capfd.readouterr().err.splitlines() if line.startswith("::error"))
    assert annotation.startswith("::error file=a%2Cb/task.py,line=12::ValueError: 100%25 wrong (")
    summary = (tmp_path / "summary.md").read_text()
    assert summary.startswith("### demo failed\n")
    assert "ValueError: 100% wrong" in summary and "runpy" not in summary and "Try again." in summary


def test_a_traceback_that_was_just_shown_is_not_shown_again(capfd: pytest.CaptureFixture[str]) -> None:
    console = Console()
    console.write(b"step 1\n")
    console.write("".join(f"\x1b[31m{line}\x1b[0m\n" for line in TRACEBACK).encode(), stderr=True)
    capfd.readouterr()
    show_end(console, failed("/src/trainer/task.py"))
    _, *lines, _ = capfd.readouterr().err.splitlines()
    assert lines[1:] == [
        "  error   ValueError: 100% wrong",
        "  at      /src/trainer/task.py:12",
        "  log     /logs/w.log",
        "  hint    Try again.",
    ]


def test_a_traceback_that_went_elsewhere_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    console = Console()
    console.write("\n".join(TRACEBACK).encode())
    show_end(console, failed("/src/trainer/task.py"))
    assert "    raise ValueError(text)\n  ValueError: 100% wrong\n" in capfd.readouterr().err


ARGPARSE = (
    "usage: task.py [-h] --epochs N",
    "task.py: error: the following arguments are required: --epochs",
)


def ended_with_2() -> CustomJob:
    quoted = "\n".join(ARGPARSE)
    message = (
        f"The replica workerpool0-0 exited with a non-zero status of 2. \n{quoted}\n\nTo find out more: /l"
    )
    info = {"@type": ERROR_INFO, "metadata": {"replica": "workerpool0-0", "exitCode": "2"}}
    error = Status(code=3, message=message, details=(info,))
    answer = {"replicas": [{"name": "workerpool0-0", "attempts": [{"exitCode": 2, "cpuSeconds": 0.25}]}]}
    return CustomJob(
        name="n",
        display_name="demo",
        state=states.FAILED,
        start_time="2026-01-02T03:04:05Z",
        end_time="2026-01-02T03:05:10.5Z",
        error=error,
        answer=answer,
    )


def test_without_a_traceback_the_last_lines_of_stderr_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    show_end(Console(), ended_with_2())
    _, *lines, _ = capfd.readouterr().err.splitlines()
    assert lines[0].startswith("FAILED  demo: exit code 2: bad arguments")
    assert lines[1:5] == ["", *(f"  {line}" for line in ARGPARSE), ""]
    assert lines[-1] == "  took    1 min 6 s, processor time 0.2 s"


def test_last_lines_that_were_just_shown_are_not_shown_again(capfd: pytest.CaptureFixture[str]) -> None:
    console = Console()
    console.write("".join(f"ERROR\ttime\tworkerpool0-0\t{line}\n" for line in ARGPARSE).encode(), stderr=True)
    capfd.readouterr()
    show_end(console, ended_with_2())
    assert "--epochs N" not in capfd.readouterr().err


def test_a_job_that_did_not_fail_has_a_summary(capfd: pytest.CaptureFixture[str]) -> None:
    attempts = [{"exitCode": 139}, {"exitCode": 0, "peakMemoryBytes": 12_000_000, "cpuSeconds": 3.0}]
    job = CustomJob(
        name="n",
        display_name="demo",
        state=states.SUCCEEDED,
        create_time="2026-01-02T03:04:05Z",
        end_time="2026-01-02T05:05:10Z",
        answer={"replicas": [{"name": "workerpool0-0", "attempts": attempts}]},
    )
    show_end(Console(), job, [("model", "/m (2 files)")])
    assert capfd.readouterr().err.splitlines() == [
        "SUCCEEDED  demo",
        "  took    2 h 1 min, 2 attempts, exit codes 139 0, peak memory 12.0 MB, processor time 3.0 s",
        "  model   /m (2 files)",
    ]
    show_end(Console(quiet=True), job)
    assert capfd.readouterr().err == ""


def test_a_replica_that_was_stopped_with_the_job_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    replicas = [
        {"name": f"workerpool{pool}-0", "attempts": [{"exitCode": code}]} for pool, code in ((0, 0), (1, 143))
    ]
    job = CustomJob(display_name="two", state=states.SUCCEEDED, answer={"replicas": replicas})
    show_end(Console(), job)
    shown = capfd.readouterr().err
    assert "used    workerpool0-0: exit code 0\n" in shown
    assert "used    workerpool1-0: stopped when the primary replica had ended, exit code 143\n" in shown


@pytest.mark.parametrize("moment", ["yesterday", "2026-01-02", "9999-99-99T00:00:00Z", "1767323045"])
def test_a_time_of_a_plug_in_that_is_none_is_left_out(capfd: pytest.CaptureFixture[str], moment: str) -> None:
    created = "2026-01-02T03:04:05Z"
    for start, end in ((created, moment), (moment, created)):
        job = CustomJob(
            name="n", display_name="demo", state=states.SUCCEEDED, create_time=start, end_time=end
        )
        show_end(Console(), job)
        assert capfd.readouterr().err.splitlines() == ["SUCCEEDED  demo"]


def test_the_summary_of_a_timeout_gives_the_reason(capfd: pytest.CaptureFixture[str]) -> None:
    error = Status(code=1, message="CANCELED: the job ran longer than its timeout of 5s.")
    show_end(Console(quiet=True), CustomJob(name="n", display_name="d", state=states.CANCELLED, error=error))
    assert capfd.readouterr().err == "CANCELLED  d: the job ran longer than its timeout of 5s.\n"
    error = Status(code=1, message="CANCELED")
    show_end(Console(), CustomJob(name="n", display_name="d", state=states.CANCELLED, error=error))
    assert capfd.readouterr().err == "CANCELLED  d\n"


def unstarted(message: str) -> CustomJob:
    error = Status(code=9, message=message, details=({"@type": ERROR_INFO, "reason": "IMAGE_FAILED"},))
    return CustomJob(name="n", display_name="demo", state=states.FAILED, error=error)


def test_a_sentence_is_shown_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    show_end(Console(), unstarted("a:1 cannot be pulled."))
    lines = capfd.readouterr().err.splitlines()
    assert lines == [
        lines[0],
        "FAILED  demo: a:1 cannot be pulled.",
        lines[0],
        "::error::a:1 cannot be pulled.",
    ]
    assert (tmp_path / "summary.md").read_text() == "### demo failed\n\na:1 cannot be pulled.\n"


def test_further_lines_of_a_message_stand_below_its_first(capfd: pytest.CaptureFixture[str]) -> None:
    show_end(Console(), unstarted("It cannot be built.\n  pip: not found"))
    rule, *lines = capfd.readouterr().err.splitlines()
    assert lines == ["FAILED  demo: It cannot be built.", "", "    pip: not found", "", rule]


def test_pointers_stand_below_a_single_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    job = unstarted("a:1 cannot be pulled.")
    assert job.error is not None
    detail = job.error.details[0] | {"metadata": {"log": "/l", "hint": "Log in."}}
    status = Status(code=9, message=job.error.message, details=(detail,))
    show_end(Console(), CustomJob(name="n", display_name="demo", state=states.FAILED, error=status))
    rule, *lines = capfd.readouterr().err.splitlines()
    assert lines == ["FAILED  demo: a:1 cannot be pulled.", "  log     /l", "  hint    Log in.", rule]


def test_a_summary_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "gone" / "summary.md"))
    show_end(Console(), failed("task.py"))
    text = capfd.readouterr().err
    assert "FAILED  demo" in text and "::error" in text
    assert "WARNING: GITHUB_STEP_SUMMARY cannot be written: No such file or directory." in text


def test_a_summary_takes_any_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    show_end(Console(), msgspec.structs.replace(failed("task.py"), display_name="half \ud800"))
    assert "### half" in (tmp_path / "summary.md").read_text(encoding="utf-8")


def test_the_current_folder_may_be_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    show_end(Console(), failed("/src/trainer/task.py"))
    assert "/src/trainer/task.py:12" in capfd.readouterr().err


@pytest.mark.parametrize("code", ["", "one", "1.5"])
def test_an_error_of_somebody_else_may_lack_what_ours_have(
    code: str, capfd: pytest.CaptureFixture[str]
) -> None:
    detail = {"@type": ERROR_INFO, "metadata": {"replica": "r", "exitCode": code}}
    job = CustomJob(
        name="n", display_name="demo", state=states.FAILED, error=Status(code=3, details=(detail,))
    )
    show_end(Console(), job)
    assert "FAILED  demo: the job failed." in capfd.readouterr().err
