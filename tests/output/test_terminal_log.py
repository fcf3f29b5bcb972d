"""The log of a job as a terminal shows it: whole lines, short prefixes, no words that every job has."""

from __future__ import annotations

import pytest

from vtrain.messages.log import MAX_ENTRY_BYTES, LogEntry, last_frame
from vtrain.output.console import Console
from vtrain.output.terminal_log import TerminalSink, short_task
from vtrain.runtime.log.service_log import ALL_JOBS

pytestmark = pytest.mark.usefixtures("utc")


SECOND = 1_000_000_000


def entry(payload: bytes, **fields: object) -> LogEntry:
    values = {"time": 7 * SECOND, "insert_id": "1", "severity": "INFO", "task_name": "workerpool0-0"}
    return LogEntry(payload=payload, **(values | fields))  # type: ignore[arg-type]


def service(text: str, stream: str = "service") -> LogEntry:
    severity = "ERROR" if stream == "stderr" else "INFO"
    return entry(text.encode(), task_name="service", stream=stream, severity=severity)


def shown(capfd: pytest.CaptureFixture[str], *entries: LogEntry, local: bool = True) -> list[str]:
    """What of each line stands behind its prefix."""
    sink = TerminalSink(Console(), stderr=False, local=local)
    for one in entries:
        sink.show([one])
    sink.close()
    return [line.partition(" │ ")[2] for line in capfd.readouterr().out.splitlines()]


def test_a_line_has_a_short_prefix(capfd: pytest.CaptureFixture[str]) -> None:
    sink = TerminalSink(Console(), stderr=False, local=True)
    sink.show([entry(b"one\ntwo", task_name="workerpool1-0"), entry(b"red", severity="ERROR")])
    assert capfd.readouterr().out == (
        "00:00:07 worker1-0 │ one\n00:00:07 worker1-0 │ two\n00:00:07 worker0-0 │ red\n"
    )
    assert (short_task("workerpool0-12"), short_task("service")) == ("worker0-12", "service")


def test_the_severity_is_the_colour_of_the_rule(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    sink = TerminalSink(Console(), stderr=False, local=True)
    for severity in ("INFO", "WARNING", "ERROR", "CRITICAL"):
        sink.show([entry(b"x", severity=severity)])
    sink.show([entry(b"\r99%|# |\r100%|##| 9/9", severity="ERROR")])  # a bar on stderr is no error
    rules = [line.partition("│")[0].rpartition("\x1b")[2] for line in capfd.readouterr().out.splitlines()]
    assert rules == ["[2m", "[33m", "[1;31m", "[1;31m", "[2m"]


def test_an_open_line_is_for_the_status_line(capfd: pytest.CaptureFixture[str]) -> None:
    sink = TerminalSink(Console(), stderr=False, local=True)
    for part in (b"\r 1%", b"\r 2%\x1b[32m#\x1b[0m\r", b"\x1b[2K 3%"):
        sink.show([entry(part, partial=True)])
    assert (capfd.readouterr().out, sink.frame) == ("", "worker0-0  3%")
    sink.show([entry(b"\r100%")])
    assert (capfd.readouterr().out, sink.frame) == ("00:00:07 worker0-0 │ 100%\n", "")


def test_lines_of_replicas_do_not_mix(capfd: pytest.CaptureFixture[str]) -> None:
    lines = shown(
        capfd,
        entry(b"wo", partial=True),
        entry(b"other", task_name="workerpool1-0"),
        entry(b"err", stream="stderr", partial=True),
        entry(b"rd"),
        entry(b"last", task_name="workerpool2-0", partial=True),
    )
    assert lines == ["other", "word", "err", "last"]


@pytest.mark.parametrize(
    ("written", "left"),
    [(b"a\r\nb", ["a", "b"]), (b"1%\r2%\r\nx", ["2%", "x"]), (b"a\n\rb\r", ["a", "b"]), (b"", [""])],
)
def test_of_a_line_that_was_redrawn_the_last_frame_is_left(
    capfd: pytest.CaptureFixture[str], written: bytes, left: list[str]
) -> None:
    assert shown(capfd, entry(written)) == left


def test_a_carriage_return_at_the_end_may_still_be_followed_by_a_frame() -> None:
    assert last_frame(b"one\rtwo\r") == b"two\r"
    assert last_frame(last_frame(b"two\r") + b"three") == b"three"


def test_a_line_without_an_end_is_not_kept_for_ever(capfd: pytest.CaptureFixture[str]) -> None:
    half = b"x" * (MAX_ENTRY_BYTES // 2)
    lines = shown(capfd, *[entry(half, partial=True)] * 4, entry(b"end"))
    assert [len(line) for line in lines] == [MAX_ENTRY_BYTES, MAX_ENTRY_BYTES, 3]


def test_what_the_log_of_every_job_says_is_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    words = [*ALL_JOBS, "Restarting all replicas (restart 1 of this job).", "pip says this"]
    assert shown(capfd, *[service(line) for line in words]) == words[-2:]
    assert len(shown(capfd, service("Job is running."), local=False)) == 1


def test_the_words_of_installers_are_about_what_is_being_prepared(capfd: pytest.CaptureFixture[str]) -> None:
    console = Console()
    TerminalSink(console, stderr=False, local=True).show(
        [service("Installing wheel …\n    detail", "stdout")]
    )
    assert capfd.readouterr() == ("", "Installing wheel …\n")
    assert console.activity == "detail"


def test_the_runtimes_copy_of_the_error_is_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    complaint, error = "At least 3 bytes of the log are lost.", "The replica exited with 1.\nTraceback"
    words = [
        service(complaint, "stderr"),
        service("Finished tearing down training program."),
        service(error, "stderr"),
        service("Job failed."),
    ]
    assert shown(capfd, *words) == [complaint]
    assert shown(capfd, service(error, "stderr")) == error.split("\n"), "the job was left before its end"


def test_the_frame_of_a_long_open_line_is_its_beginning() -> None:
    sink = TerminalSink(Console(), stderr=False, local=True)
    sink.show([entry("日".encode() * 80_000, partial=True)])
    assert sink.frame.startswith("worker0-0 日日") and len(sink.frame) < 5000
