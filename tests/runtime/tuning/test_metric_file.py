"""The metric file: as hypertune writes it, as others write it, and as no reader would have it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import hypertune
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lib.pace import at_most

from vtrain.messages.hyperparameter_tuning_job import Measurement
from vtrain.runtime.tuning import metric_file, trial_record
from vtrain.runtime.tuning.metric_file import MetricFile
from vtrain.runtime.tuning.trial_record import MOST_KEPT, kept


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "output.metrics"


def reader(path: Path, *metrics: str, started: float | None = None) -> MetricFile:
    return MetricFile(path, metrics or ("acc",), started=time.time() if started is None else started)


def values(found: list[Measurement]) -> list[tuple[int, dict[str, float]]]:
    return [(each.step_count, {metric.metric_id: metric.value for metric in each.metrics}) for each in found]


def line(step: int | str | None = None, **metrics: object) -> str:
    return json.dumps(metrics | ({} if step is None else {"global_step": step})) + "\n"


@pytest.fixture
def tuner(path: Path, monkeypatch: pytest.MonkeyPatch) -> hypertune.HyperTune:
    monkeypatch.setenv("CLOUD_ML_HP_METRIC_FILE", str(path))
    monkeypatch.setenv("CLOUD_ML_TRIAL_ID", "7")
    return hypertune.HyperTune()


@pytest.mark.parametrize("reports_between_reads", [1, 7, 99])
def test_every_report_of_hypertune_is_read_once(
    path: Path, tuner: hypertune.HyperTune, reports_between_reads: int
) -> None:
    reading, found = reader(path), []
    for step in range(1, 301):
        tuner.report_hyperparameter_tuning_metric("acc", step / 1000, step)
        if step % reports_between_reads == 0:
            found += reading.read()
    found += reading.read(ended=True)
    assert values(found) == [(step, {"acc": step / 1000}) for step in range(1, 301)]
    assert reading.names == {"acc"}


def test_of_more_reports_than_hypertune_keeps_the_last_are_read(
    path: Path, tuner: hypertune.HyperTune
) -> None:
    reading = reader(path)
    tuner.report_hyperparameter_tuning_metric("acc", 0.5, 1)
    reading.read()
    for step in range(2, 202):
        tuner.report_hyperparameter_tuning_metric("acc", 0.5, step)
    assert [each.step_count for each in reading.read()] == list(range(102, 202))


def test_a_file_that_is_being_rewritten_is_not_read_twice(path: Path, tuner: hypertune.HyperTune) -> None:
    """hypertune truncates and writes: a reader may come at any byte of it."""
    reading, found = reader(path), []
    for step in range(1, 121):
        tuner.report_hyperparameter_tuning_metric("acc", step, step)
        if step % 10 == 0:
            whole = path.read_bytes()
            for part in (0, 1, len(whole) // 3, len(whole) - 1, len(whole)):
                path.write_bytes(whole[:part])
                found += reading.read()
    assert [each.step_count for each in found] == list(range(1, 121))


def test_more_lines_than_are_remembered_are_not_read_twice_while_they_are_rewritten(path: Path) -> None:
    whole = "".join(line(step, acc=step) for step in range(metric_file.REMEMBERED + 100))
    path.write_text(whole)
    reading = reader(path)
    found = reading.read()
    for _ in range(3):
        for part in (len(whole) // 3, len(whole)):
            path.write_text(whole[:part])
            found += reading.read()
    found += reading.read(ended=True)
    assert [each.step_count for each in found] == list(range(metric_file.REMEMBERED + 100))


def test_metrics_of_one_step_are_one_measurement(path: Path) -> None:
    reading = reader(path, "acc", "loss")
    path.write_text(line("1", acc="0.5"))
    assert reading.read() == []
    with path.open("a") as file:
        file.write(
            line("1", loss="2.5") + line("2", acc=0.6, loss=2) + line("3", acc=0.7) + line("4", acc=0.8)
        )
    assert values(reading.read()) == [
        (1, {"acc": 0.5, "loss": 2.5}),
        (2, {"acc": 0.6, "loss": 2.0}),
        (3, {"acc": 0.7}),
    ]
    assert values(reading.read(ended=True)) == [(4, {"acc": 0.8})]


def test_reports_without_a_step_are_measurements_of_their_own(path: Path) -> None:
    path.write_text(line(acc=0.5) + line(acc=0.6) + line("0", acc=0.7))
    assert values(reader(path).read()) == [(0, {"acc": 0.5}), (0, {"acc": 0.6}), (0, {"acc": 0.7})]


@pytest.mark.parametrize(
    "bad", ["NaN", '"nan"', "Infinity", '"-inf"', '"soon"', "null", "[1]", "true", "1" * 400]
)
def test_a_value_that_is_no_finite_number_is_no_measurement(path: Path, bad: str) -> None:
    path.write_text(f'{{"acc": {bad}, "global_step": "1"}}\n' + line("2", acc=0.5))
    assert values(reader(path).read()) == [(2, {"acc": 0.5})]


def test_the_complaint_names_what_the_file_holds_instead(path: Path) -> None:
    reading = reader(path, "val_acc")
    assert reading.complaint() == "The trainer did not report val_acc."
    path.write_text(line("1", acc=0.5) + line("1", loss=2))
    assert reading.read() == []
    assert reading.complaint() == "The trainer did not report val_acc; its metric file holds acc, loss."
    path.write_text(line("1", val_acc="nan"))
    reading.read()
    assert reading.complaint() == "The trainer reported val_acc only as nan, which is not a finite number."
    with path.open("a") as file:
        file.write(line("2", val_acc=1))
    reading.read()
    assert reading.complaint() == ""


def test_damaged_lines_are_passed_over(path: Path) -> None:
    deep = "[" * 30_000
    damaged = ["", "{", "7", "[1, 2]", '"acc"', '{"acc"}', deep, "\x00\xff", '{"acc": 0.1']
    path.write_bytes(
        b"\n".join(text.encode("latin-1") for text in damaged) + b"\n" + line("3", acc=1).encode()
    )
    assert values(reader(path).read()) == [(3, {"acc": 1.0})]


@pytest.mark.parametrize("step", ["x", None, -1, 1e300, "nan", True, 2**63])
def test_a_step_that_is_none_is_0(path: Path, step: object) -> None:
    path.write_text(json.dumps({"acc": 1, "global_step": step}) + "\n")
    assert values(reader(path).read()) == [(0, {"acc": 1.0})]


def test_half_a_line_waits_for_its_other_half(path: Path) -> None:
    reading, whole = reader(path), line("12", acc=0.25)
    path.write_text(whole[:17])
    assert reading.read() == []
    path.write_text(whole)
    assert values(reading.read()) == [(12, {"acc": 0.25})]
    assert reading.read() == []


def test_the_last_line_may_lack_its_end(path: Path) -> None:
    reading = reader(path)
    path.write_text(line("1", acc=1) + line("2", acc=2).rstrip())
    assert [each.step_count for each in reading.read()] == [1]
    assert [each.step_count for each in reading.read(ended=True)] == [2]
    assert reading.read(ended=True) == []


def test_elapsed_time_is_that_of_the_report_where_it_can_be_true(path: Path) -> None:
    started = time.time() - 100
    path.write_text(
        line(1, acc=1, timestamp=started + 42.5)
        + line(2, acc=2, timestamp=0)
        + line(3, acc=3, timestamp="soon")
        + line(4, acc=4, timestamp=started + 10**6)
    )
    elapsed = [each.elapsed_duration for each in reader(path, started=started).read()]
    assert elapsed[0] == "42.500s"
    assert all(float(text.rstrip("s")) >= 100 for text in elapsed[1:])


@pytest.mark.parametrize("kind", ["nothing", "pipe", "folder", "link", "dangling", "socketless"])
def test_what_is_no_file_is_neither_waited_for_nor_followed(path: Path, tmp_path: Path, kind: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text(line(1, acc=1))
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind in ("link", "dangling"):
        path.symlink_to(secret if kind == "link" else tmp_path / "gone")
    elif kind == "socketless":
        path = secret / "below-a-file"
    reading = reader(path)
    assert reading.read() == [] and reading.read(ended=True) == []
    assert reading.names == set()


def test_a_file_that_comes_back_is_read_on(path: Path) -> None:
    reading = reader(path)
    path.write_text(line(1, acc=1))
    assert len(reading.read()) == 1
    path.unlink()
    assert reading.read() == []
    path.write_text(line(1, acc=1) + line(2, acc=2))
    assert [each.step_count for each in reading.read()] == [2]


def test_a_trainer_that_begins_again_is_read_from_its_start(path: Path) -> None:
    reading = reader(path)
    path.write_text("".join(line(step, acc=step, timestamp=1) for step in range(1, 51)))
    assert len(reading.read()) == 50
    path.write_text("".join(line(step, acc=step, timestamp=2) for step in range(1, 11)))
    assert [each.step_count for each in reading.read()] == list(range(1, 11))


def test_another_reader_goes_on_where_the_first_stopped(path: Path, tuner: hypertune.HyperTune) -> None:
    started, known = time.time(), []
    for step in range(1, 251):
        tuner.report_hyperparameter_tuning_metric("acc", step, step)
        if step % 50 == 0:  # each time another reader
            known += MetricFile(path, ["acc"], started=started, known=known).read()
    assert [each.step_count for each in known] == list(range(1, 251))


def test_a_long_line_is_passed_over_in_bounded_memory(path: Path) -> None:
    reading = reader(path)
    with path.open("w") as file:
        file.write(line(1, acc=1) + '{"acc": "')
        for _ in range(9):
            file.write("9" * (1 << 20))
    assert [each.step_count for each in reading.read()] == [1]
    for _ in range(3):
        assert reading.read() == []
    with path.open("a") as file:
        file.write('"}\n' + line(2, acc=2))
    assert [each.step_count for each in reading.read()] == [2]


def test_endless_names_are_not_all_kept(path: Path) -> None:
    path.write_text("".join(line(acc=1, **{f"name{count}" + "x" * 500: 1}) for count in range(1000)))
    reading = reader(path)
    assert len(reading.read()) == 1000
    assert len(reading.names) <= metric_file.MOST_NAMES
    assert max(map(len, reading.names)) <= metric_file.LONGEST_NAME


def test_text_that_is_no_unicode_can_be_told(path: Path) -> None:
    path.write_text('{"\\ud800": 1, "acc": "\\udfff"}\n')
    reading = reader(path, "acc")
    reading.read(ended=True)
    assert reading.complaint() == "The trainer reported acc only as ?, which is not a finite number."
    other = reader(path, "loss")
    other.read(ended=True)
    assert other.complaint() == "The trainer did not report loss; its metric file holds ?, acc."


def test_a_value_of_many_levels_is_told_in_short(path: Path) -> None:
    path.write_text('{"acc": ' + "[" * 900 + "]" * 900 + "}\n")
    reading = reader(path)
    reading.read(ended=True)
    assert "only as [[[" in reading.complaint()


@pytest.mark.parametrize("repeated", [True, False])
def test_a_long_file_that_is_written_anew_is_compared_in_linear_time(path: Path, repeated: bool) -> None:
    number = 80_000
    path.write_text("".join(line(1 if repeated else step, acc=step % 3) for step in range(1000)))
    reading = reader(path)
    reading.read()
    path.write_text(line(0, acc=9) + "".join(line(1 if repeated else -step, acc=1) for step in range(number)))
    with at_most(10):
        reading.read()


def test_of_a_huge_rest_only_the_end_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_file, "LAST_BYTES", 10_000)
    path.write_text("".join(line(step, acc=step) for step in range(10_000)))
    steps = [each.step_count for each in reader(path).read(ended=True)]
    assert steps == list(range(steps[0], 10_000)) and 100 < len(steps) < 1000


def test_appended_lines_are_each_read_from_the_disk_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linear in the file: counted in bytes, as a clock would tell of the machine."""
    read, pread = 0, os.pread

    def counting(descriptor: int, count: int, offset: int) -> bytes:
        nonlocal read
        found = pread(descriptor, count, offset)
        read += len(found)
        return found

    monkeypatch.setattr(os, "pread", counting)
    reading, found = reader(path), 0
    with path.open("w") as file:
        for part in range(20):
            file.write("".join(line(part * 1000 + step, acc=step) for step in range(1000)))
            file.flush()
            found += len(reading.read())
    assert found == 20_000
    assert read < 1.5 * path.stat().st_size


def test_endless_measurements_are_not_all_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_record, "MOST_MEASURED", 100)
    monkeypatch.setattr(metric_file, "REMEMBERED", 50)
    reading, found = reader(path), []
    for part in range(5):
        with path.open("a") as file:
            file.write("".join(line(part * 60 + step, acc=step) for step in range(60)))
        found = trial_record.remembered([*found, *reading.read()])
        assert found[-1].step_count == part * 60 + 59, "the last one always counts"
    assert [each.step_count for each in found] == [*range(99), 299]
    assert len(reading._known._items) <= 50


def test_another_reader_of_a_long_file_goes_on_too(path: Path) -> None:
    path.write_text("".join(line(step, acc=1) for step in range(3000)))
    known = reader(path).read()
    again = MetricFile(path, ["acc"], started=time.time(), known=known)
    assert again.read() == []
    with path.open("a") as file:
        file.write(line(3000, acc=1))
    assert [each.step_count for each in again.read()] == [3000]


@pytest.mark.parametrize("lines_kept", [100, 5000])
def test_another_reader_goes_on_from_what_a_record_holds(path: Path, lines_kept: int) -> None:
    lines = [line(step, acc=step / 5000) for step in range(3000)]
    path.write_text("".join(lines))
    known = kept(reader(path).read())
    assert len(known) <= MOST_KEPT and known[-1].step_count == 2999
    again = MetricFile(path, ["acc"], started=time.time(), known=known)
    lines.append(line(3000, acc=1))
    path.write_text("".join(lines[-lines_kept:]))
    assert [each.step_count for each in again.read()] == [3000]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    counts=st.lists(st.integers(0, 12), max_size=12),
    kept=st.integers(1, 20),
    data=st.data(),
)
def test_whoever_rewrites_nothing_is_read_twice_or_lost(
    tmp_path: Path, counts: list[int], kept: int, data: st.DataObject
) -> None:
    """A reporter that keeps its last lines, read after each few reports, and while it writes."""
    path = tmp_path / "metrics"
    path.unlink(missing_ok=True)
    reading, reported, found = reader(path), 0, []
    for count in counts:
        for _ in range(min(count, kept)):
            reported += 1
            start = max(reported - kept, 0)
            text = "".join(line(step + 1, acc=step) for step in range(start, reported))
            path.write_text(text[: data.draw(st.integers(0, len(text)))])
            if data.draw(st.booleans()):
                found += reading.read()
            path.write_text(text)
        found += reading.read()
    assert [each.step_count for each in found] == list(range(1, reported + 1))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.lists(st.binary(max_size=300), max_size=10))
def test_no_content_hurts(tmp_path: Path, content: list[bytes]) -> None:
    path = tmp_path / "metrics"
    path.write_bytes(b"")
    reading = reader(path)
    for part in content:
        with path.open("ab") as file:
            file.write(part)
        reading.read()
    reading.read(ended=True)
