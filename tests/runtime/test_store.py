"""The store: what it keeps, and what it says when the disk does not want to."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from lib.supervisors import START

from vtrain.errors import NotFoundError, StorageError
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.names import KEY_LABEL
from vtrain.runtime.capacity.leases import Claim
from vtrain.runtime.capacity.queue import admit, attend, release
from vtrain.runtime.database import DATABASE
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.store import Record, Store

PREFIX = "projects/local/locations/"


def record(number: int, state: str = "JOB_STATE_PENDING") -> Record:
    return Record(
        name=f"{PREFIX}us-central1/customJobs/{number}",
        collection="customJobs",
        state=state,
        create_time="2026-01-01T00:00:00Z",
        backend="process",
        document="{}",
    )


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "home")
    store.insert(record(1))
    store.update(record(1).name, state="JOB_STATE_RUNNING", end_time="", document='{"a":1}')
    store.close()
    found = Store.open(tmp_path / "home").get(record(1).name)
    assert (found.state, found.document) == ("JOB_STATE_RUNNING", '{"a":1}')


def test_names_that_are_not_there(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    with pytest.raises(NotFoundError, match="Job 1 not found"):
        store.get(record(1).name)
    with pytest.raises(NotFoundError):
        store.update(record(1).name, state="x", end_time="", document="")


def test_pages_newest_first(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    for number in range(5):
        store.insert(record(number))
    first, token = store.page("customJobs", project="local", size=3, token="")
    second, end = store.page("customJobs", project="local", size=3, token=token)
    assert [int(r.name[-1]) for r in first + second] == [4, 3, 2, 1, 0]
    assert end == ""
    assert store.page("customJobs", project="local", location="europe-west4", size=3, token="") == ([], "")
    assert store.page("customJobs", project="other", size=3, token="") == ([], "")


def test_pages_of_what_has_all_the_labels(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    for number, labels in enumerate(({"a-b": "1"}, {"a-b": "1", "c": "x'y"}, {"a-b": "2"}, {})):
        document = json.dumps({"labels": labels})
        store.insert(msgspec.structs.replace(record(number), document=document))

    def found(**labels: str) -> list[int]:
        given = {name.replace("_", "-"): value for name, value in labels.items()}
        page, _ = store.page("customJobs", project="local", size=9, token="", labels=given)
        return [int(r.name[-1]) for r in page]

    assert found(a_b="1") == [1, 0]
    assert found(a_b="1", c="x'y") == [1]
    assert found(c="none") == []


def test_requests_go_with_the_resource(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.insert(record(1))
    store.request(record(1).name, "cancel")
    store.request(record(1).name, "cancel")
    assert store.requests(record(1).name) == {"cancel"}
    store.delete(record(1).name)
    assert store.requests(record(1).name) == frozenset()


def test_many_open_a_new_store_at_once(tmp_path: Path) -> None:
    failures: list[Exception] = []

    def use(number: int) -> None:
        try:
            store = Store.open(tmp_path / "home")
            store.insert(record(number))
            store.close()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=use, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(Store.open(tmp_path / "home").page("customJobs", project="local", size=9, token="")[0]) == 8


def test_it_is_private(tmp_path: Path) -> None:
    Store.open(tmp_path / "home").close()
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "home" / DATABASE).stat().st_mode & 0o777 == 0o600


def test_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_text("this is no database" * 100)
    with pytest.raises(StorageError, match="damaged"):
        Store.open(tmp_path)


def test_a_full_disk(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store._connection.execute("PRAGMA max_page_count=1")
    large = Record(**{f: getattr(record(1), f) for f in Record.__struct_fields__} | {"document": "x" * 10**6})
    with pytest.raises(StorageError, match="is full"):
        store.insert(large)


def test_a_home_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(StorageError, match="home") as caught:
        Store.open(tmp_path / "home")
    assert "VTRAIN_HOME" in caught.value.hint


@pytest.mark.parametrize("word", ["full", "locked", "readonly", "malformed", "No space"])
def test_a_word_in_a_path_does_not_say_what_is_wrong(tmp_path: Path, word: str) -> None:
    home = tmp_path / word
    home.write_text("no folder")
    with pytest.raises(StorageError) as refused:
        Store.open(home)
    assert refused.value.message == f"vtrain cannot use {home}: Not a directory."


def test_no_question_reads_all_resources(tmp_path: Path) -> None:
    """The statements of every command and every pause must not take longer with every ended job."""
    store = Store.open(tmp_path)
    for number in range(3):
        store.insert(record(number))
    asked: list[str] = []
    store._connection.set_trace_callback(asked.append)
    store.page("customJobs", project="local", size=2, token="")
    store.page("customJobs", project="local", location="us-central1", size=2, token="2")
    store.page("customJobs", project="local", location="a", size=2, token="", labels={KEY_LABEL: "k"})
    store.get(record(1).name)
    store.holder_of(record(1))
    order = JobOrder(
        home=str(tmp_path),
        name=record(1).name,
        job=CustomJob(name=record(1).name),
        backend="process",
        grace_seconds=1,
        claim=Claim(memory_bytes=1, memory_limit=1),
    )
    admit(store, START, order)
    release(store, order.name)
    attend(store, START)
    store._connection.set_trace_callback(None)
    assert len(asked) > 12
    for statement in asked:
        if statement.split()[0] in ("SELECT", "UPDATE", "DELETE"):
            plan = " ".join(row[3] for row in store._connection.execute(f"EXPLAIN QUERY PLAN {statement}"))
            assert "SCAN resources" not in plan, statement
            assert "rowid <" not in statement or "TEMP B-TREE" not in plan, statement


def test_a_store_that_another_thread_collects_goes_quietly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    troubles: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", troubles.append)
    held = [Store.open(tmp_path / "home")]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert troubles == []


def test_the_living_and_the_ended(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    for number, state, ended in ((1, "FAILED", "2026-01-05T00:00:00Z"), (2, "QUEUED", ""), (3, "FAILED", "")):
        store.insert(
            Record(
                name=record(number).name,
                collection="customJobs",
                state=f"JOB_STATE_{state}",
                create_time="2026-01-02T00:00:00Z",
                end_time=ended,
                backend="process",
                document="{}",
            )
        )
    assert [record.name[-1] for record in store.living()] == ["2"]
    assert [record.name[-1] for record in store.ended_before("2026-01-04T00:00:00Z")] == ["3"]
    assert [record.name[-1] for record in store.ended_before("2026-02-01T00:00:00Z")] == ["1", "3"]
    assert store.ids("customJobs") == {"1", "2", "3"}


def test_nothing_is_requested_of_what_is_gone(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.request(record(1).name, "cancel")
    assert store.execute("SELECT * FROM requests") == []
