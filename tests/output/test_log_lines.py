"""Log entries as text and as documents."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from vtrain.messages.log import LogEntry
from vtrain.output.log_sinks import LineFormatter, records

SECOND = 1_000_000_000


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as context:
        context.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def entry(payload: bytes, **fields: object) -> LogEntry:
    values = {"time": SECOND, "insert_id": "1", "severity": "INFO", "task_name": "workerpool0-0"}
    return LogEntry(payload=payload, **(values | fields))  # type: ignore[arg-type]


def test_each_line_has_severity_time_and_replica() -> None:
    text = LineFormatter().format(entry(b"one\ntwo"))
    prefix = b"INFO\t1970-01-01 00:00:01 +0000\tworkerpool0-0\t"
    assert text == prefix + b"one\n" + prefix + b"two\n"


def test_partial_entries_of_a_line_are_joined() -> None:
    formatter = LineFormatter()
    text = formatter.format(entry(b"be", partial=True)) + formatter.format(entry(b"gun"))
    assert text.endswith(b"\tbegun\n") and text.count(b"\n") == 1


def test_another_replica_in_between_begins_a_line_of_its_own() -> None:
    formatter = LineFormatter()
    text = formatter.format(entry(b"open", partial=True))
    text += formatter.format(entry(b"other", task_name="workerpool1-0")) + formatter.close()
    assert [line.rpartition(b"\t")[2] for line in text.splitlines()] == [b"open", b"other"]


def test_a_line_that_stays_open_is_closed_at_the_end() -> None:
    formatter = LineFormatter()
    formatter.format(entry(b"open", partial=True))
    assert (formatter.close(), formatter.close()) == (b"\n", b"")


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    assert LineFormatter().format(entry(b"a\xffb")).endswith("\ta\ufffdb\n".encode())


def test_multiline_messages_stay_whole_when_asked() -> None:
    assert LineFormatter(multiline=True).format(entry(b"one\ntwo")).endswith(b"\tone\ntwo\n")
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
