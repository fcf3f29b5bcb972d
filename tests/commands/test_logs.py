"""`vtrain logs` of several jobs, of the last lines, of the last minutes, and of lines with a word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vtrain.messages.log import LogEntry
from vtrain.output.console import Console
from vtrain.output.log_sinks import ChosenLines, TextSink
from vtrain.testing.memory import MemoryBackend
from vtrain.testing.script import Script, script_job

pytestmark = pytest.mark.end_to_end

TRAINER = """
import sys, time
name, wait, code = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
for step in range(6):
    print(name, "step", step, "größe" if step % 2 else "accuracy", flush=True)
    time.sleep(wait)
sys.exit(code)
"""


def submitted(vtrain: Any, name: str, *, wait: float = 0, code: int = 0) -> None:
    Path("train.py").write_text(TRAINER)
    words = ("submit", "train.py", "--backend=process", "--environment=current", f"--display-name={name}")
    ended = vtrain(*words, "--", name, str(wait), str(code))
    assert ended.code == 0, ended.err


@pytest.fixture
def folder(cwd: Path) -> Path:
    return cwd


def lines(text: str, task: str = "workerpool0-0") -> list[str]:
    """The messages of a replica, with what stands before the task."""
    rows = [line.split("\t") for line in text.splitlines()]
    return [f"{row[2][: -len(task)]}{row[3]}" for row in rows if row[2].endswith(task)]


def test_the_last_lines_and_those_with_a_word(vtrain: Any, folder: Path) -> None:
    submitted(vtrain, "one")
    assert vtrain("wait").code == 0
    whole = vtrain("logs").out
    assert lines(whole) == [f"one step {n} {'größe' if n % 2 else 'accuracy'}" for n in range(6)]
    for count in (0, 1, 4, 10**6):
        assert vtrain("logs", f"--tail={count}").out.splitlines() == (
            whole.splitlines()[-count:] if count else []
        )
    assert vtrain("logs", "--tail=all").out == whole
    assert lines(vtrain("logs", "--grep=größe").out) == [f"one step {n} größe" for n in (1, 3, 5)]
    assert lines(vtrain("logs", "--grep=größe", "--tail=2").out) == ["one step 3 größe", "one step 5 größe"]
    assert vtrain("logs", "--grep=nothing has this").out == ""
    assert lines(vtrain("logs", "--since=1h").out) == lines(whole)
    assert vtrain("logs", "--since=0.001s").out == ""
    found = json.loads(vtrain("logs", "--grep=step 5", "--format=json").out)
    assert [each["message"] for each in found] == ["one step 5 größe"]
    followed = vtrain("logs", "-f", "--tail=1")
    assert (followed.code, followed.out.splitlines()) == (0, whole.splitlines()[-1:])


@pytest.mark.parametrize("value", ["-1", "x", "1.5", "²", "99999999999"])
def test_only_a_number_of_lines_is_taken(vtrain: Any, folder: Path, value: str) -> None:
    ended = vtrain("logs", f"--tail={value}")
    assert ended.code == 2 and "--tail: expected a number" in ended.err
    assert vtrain("logs", "--since=soon").code == 2


def test_several_jobs_are_marked_and_in_the_order_of_time(vtrain: Any, folder: Path) -> None:
    submitted(vtrain, "one", wait=0.05)
    submitted(vtrain, "two", wait=0.05)
    followed = vtrain("logs", "one", "two", "-f")
    assert followed.code == 0, followed.err
    expected = {f"{name}/{name} step {n}" for name in ("one", "two") for n in range(6)}
    assert {line.rpartition(" ")[0] for line in lines(followed.out)} == expected
    ends = [line for line in followed.err.splitlines() if line.startswith("SUCCEEDED")]
    assert sorted(ends) == ["SUCCEEDED  one", "SUCCEEDED  two"] and followed.err.count("Backend: ") == 1
    seen = vtrain("logs", "two", "one", "--format=json")
    stamps = [each["timestamp"] for each in json.loads(seen.out)]
    assert stamps == sorted(stamps) and len(stamps) > 12
    assert {each["task_name"].partition("/")[0] for each in json.loads(seen.out)} == {"one", "two"}
    last = vtrain("logs", "two", "one", "--tail=3", "--grep=step")
    assert len(last.out.splitlines()) == 3


def test_the_first_of_several_jobs_that_did_not_succeed_decides(vtrain: Any, folder: Path) -> None:
    for name, code in (("good", 0), ("bad", 3), ("last", 0)):
        submitted(vtrain, name, code=code)
    ended = vtrain("wait", "good", "bad", "last", "good")
    assert ended.code == 10 and ended.err.count("SUCCEEDED  good") == 1
    assert ended.err.count("FAILED  bad") == 1 and "SUCCEEDED  last" in ended.err
    assert vtrain("wait", "good", "last").code == 0
    refused = vtrain("wait", "good", "nobody")
    assert refused.code == 1 and "the name 'nobody'" in refused.err and "SUCCEEDED" not in refused.err
    ended = vtrain("logs", "good", "bad", "-f", "--tail=0")
    assert ended.code == 10 and ended.err.count("FAILED  bad") == 1 and "SUCCEEDED  good" in ended.err
    assert vtrain("logs", "good", "bad").code == 0
    ended = vtrain("logs", "good", "nobody")
    assert (ended.code, ended.out) == (1, "") and "No job on this machine has the name 'nobody'" in ended.err


def test_jobs_of_one_name_are_marked_by_their_ids_too(vtrain: Any, folder: Path) -> None:
    submitted(vtrain, "same")
    submitted(vtrain, "same")
    ids = vtrain("ps", "--format=value(name.basename())").out.split()
    assert vtrain("wait", ids[0]).code == vtrain("wait", ids[1]).code == 0
    out = vtrain("logs", *ids, ids[0]).out
    assert {line.partition("/")[0] for line in lines(out)} == {f"same-{one[:6]}" for one in ids}
    assert len(lines(out)) == 12, "a job that is named twice is shown once"


class TestChosenLines:
    def entry(self, payload: bytes, **fields: Any) -> LogEntry:
        values = {"time": 1, "insert_id": "1", "severity": "INFO", "task_name": "workerpool0-0"}
        return LogEntry(payload=payload, **(values | fields))

    def shown(self, capfd: pytest.CaptureFixture[str]) -> list[str]:
        return [line.rpartition("\t")[2] for line in capfd.readouterr().out.splitlines()]

    def test_an_entry_of_many_lines_is_cut(self, capfd: pytest.CaptureFixture[str]) -> None:
        chosen = ChosenLines(TextSink(Console(), stderr=False), word=b"", last=3)
        chosen.show([self.entry(b"a\nb\nc"), self.entry(b"d"), self.entry(b"e\nf")])
        chosen.show_last()
        assert self.shown(capfd) == ["d", "e", "f"]
        chosen.show([self.entry(b"g")])
        assert self.shown(capfd) == ["g"], "afterwards all lines are shown"

    def test_a_piece_of_a_long_line_counts_as_a_line(self, capfd: pytest.CaptureFixture[str]) -> None:
        chosen = ChosenLines(TextSink(Console(), stderr=False), word=b"", last=1)
        chosen.show([self.entry(b"a\nb", partial=True), self.entry(b"c")])
        chosen.show_last()
        assert self.shown(capfd) == ["c"]

    def test_a_piece_with_the_word_is_a_line_of_its_own(self, capfd: pytest.CaptureFixture[str]) -> None:
        chosen = ChosenLines(TextSink(Console(), stderr=False), word=b"word", last=None)
        chosen.show([self.entry(b"a word", partial=True), self.entry(b"rest"), self.entry(b"b\nthe word\nc")])
        assert self.shown(capfd) == ["a word", "the word"]

    def test_a_long_log_takes_no_more_memory_than_its_last_lines(self) -> None:
        chosen = ChosenLines(TextSink(Console(), stderr=False), word=b"", last=10)
        for _ in range(1000):
            chosen.show([self.entry(b"x" * 100 + b"\n" * 99) for _ in range(10)])
        assert len(chosen._held) == 1


def test_the_logs_of_any_backend_are_selected_from(vtrain: Any, memory: MemoryBackend) -> None:
    names = [memory.submit(memory.plan(script_job(Script().count(5)))).name for _ in range(2)]
    whole = vtrain("logs", names[0], "-f").out.splitlines()
    assert vtrain("logs", names[0], "--tail=2").out.splitlines() == whole[-2:]
    word = whole[1].rpartition("\t")[2]
    assert [
        line.rpartition("\t")[2] for line in vtrain("logs", names[0], f"--grep={word}").out.splitlines()
    ] == [word]
    assert len(vtrain("logs", *names, "-f").out.splitlines()) == 2 * len(whole)
