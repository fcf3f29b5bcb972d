"""Log entries as text and as documents."""

from __future__ import annotations

import pytest

from vtrain.messages.log import LogEntry
from vtrain.output.console import Console
from vtrain.output.log_sinks import TextSink, records

pytestmark = pytest.mark.usefixtures("utc")


SECOND = 1_000_000_000


def entry(payload: bytes, **fields: object) -> LogEntry:
    values = {"time": SECOND, "insert_id": "1", "severity": "INFO", "task_name": "workerpool0-0"}
    return LogEntry(payload=payload, **(values | fields))  # type: ignore[arg-type]


@pytest.fixture
def sink() -> TextSink:
    return TextSink(Console(), stderr=False)


def test_each_line_has_severity_time_and_replica(sink: TextSink, capfd: pytest.CaptureFixture[str]) -> None:
    sink.show([entry(b"one\ntwo")])
    prefix = "INFO\t1970-01-01 00:00:01 +0000\tworkerpool0-0\t"
    assert capfd.readouterr().out == f"{prefix}one\n{prefix}two\n"


def test_partial_entries_of_a_line_are_joined(sink: TextSink, capfd: pytest.CaptureFixture[str]) -> None:
    sink.show([entry(b"be", partial=True)])
    sink.show([entry(b"gun")])
    text = capfd.readouterr().out
    assert text.endswith("\tbegun\n") and text.count("\n") == 1


def test_another_replica_in_between_begins_a_line_of_its_own(
    sink: TextSink, capfd: pytest.CaptureFixture[str]
) -> None:
    sink.show([entry(b"open", partial=True), entry(b"other", task_name="workerpool1-0")])
    sink.close()
    assert [line.rpartition("\t")[2] for line in capfd.readouterr().out.splitlines()] == ["open", "other"]


def test_a_line_that_stays_open_is_closed_at_the_end(
    sink: TextSink, capfd: pytest.CaptureFixture[str]
) -> None:
    sink.show([entry(b"open", partial=True)])
    sink.close()
    sink.close()
    assert capfd.readouterr().out.endswith("\topen\n")


def test_of_a_bar_the_last_state_is_one_line(sink: TextSink, capfd: pytest.CaptureFixture[str]) -> None:
    sink.show([entry(b"\r 1%\r 2%", partial=True), entry(b"\r 3%\r100%\nnext\r")])
    assert [line.rpartition("\t")[2] for line in capfd.readouterr().out.split("\n")] == ["100%", "next", ""]


def test_of_a_long_line_what_was_not_overwritten_is_kept(
    sink: TextSink, capfd: pytest.CaptureFixture[str]
) -> None:
    sink.show([entry(b"head\rJJJ", partial=True), entry(b"KKK", partial=True), entry(b"END")])
    sink.show([entry(b"windows\r", partial=True), entry(b"")])
    assert [line.rpartition("\t")[2] for line in capfd.readouterr().out.split("\n")] == [
        "JJJKKKEND",
        "windows",
        "",
    ]


def test_bytes_that_are_not_utf8_are_replaced(sink: TextSink, capfd: pytest.CaptureFixture[str]) -> None:
    sink.show([entry(b"a\xffb")])
    assert capfd.readouterr().out.endswith("\ta\ufffdb\n")


def test_multiline_messages_stay_whole_when_asked(capfd: pytest.CaptureFixture[str]) -> None:
    TextSink(Console(), stderr=True, multiline=True).show([entry(b"one\ntwo")])
    assert capfd.readouterr().err.endswith("\tone\ntwo\n")
    assert [record["message"] for record in records(entry(b"one\ntwo"))] == ["one", "two"]
    assert [record["message"] for record in records(entry(b"one\ntwo"), multiline=True)] == ["one\ntwo"]


def test_a_record_tells_what_was_lifted_out_of_json() -> None:
    (record,) = records(entry(b"hi", severity="WARNING", json_payload={"message": "hi", "lr": 0.1}))
    assert record == {
        "timestamp": "1970-01-01T00:00:01.000000Z",
        "severity": "WARNING",
        "task_name": "workerpool0-0",
        "json": {"message": "hi", "lr": 0.1},
        "message": "hi",
    }
