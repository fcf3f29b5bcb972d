"""The commands over the backend in memory, from the command line to the exit code."""

from __future__ import annotations

import json
import os
import signal
import threading
from types import ModuleType
from typing import Any

import pytest

from vtrain.messages import states
from vtrain.messages.codec import to_document
from vtrain.testing.memory import MemoryBackend
from vtrain.testing.script import Script, script_job

CREATE = ("custom-jobs", "create", "--config=-")


def config(*scripts: Script) -> str:
    """A job that a service would take too: with an image in every pool."""
    document = to_document(script_job(*scripts, display_name="demo job"))
    for pool in document["jobSpec"]["workerPoolSpecs"]:
        pool["pythonPackageSpec"]["executorImageUri"] = "gcr.io/p/i"
    return json.dumps(document)


def submitted(vtrain: Any, *scripts: Script) -> str:
    ended = vtrain(*CREATE, "--format=value(name)", stdin=config(*scripts))
    assert ended.code == 0, ended.err
    return str(ended.out.strip())


def test_create_says_words_on_stderr_and_nothing_on_stdout(vtrain: Any, memory: MemoryBackend) -> None:
    ended = vtrain(*CREATE, stdin=config(Script()))
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.startswith("Backend: memory (VTRAIN_BACKEND)\n")
    assert "customJobs/" in ended.err and "stream-logs projects/local" in ended.err
    name = submitted(vtrain, Script())  # prints the name alone
    assert memory.get(name).display_name == "demo job"
    describe = ("custom-jobs", "describe")
    assert vtrain(*describe, name.rpartition("/")[2], "--format=value(name)").out == name + "\n"
    assert f"name: {name}\n" in vtrain(*describe, name).out


@pytest.mark.parametrize(
    ("script", "code", "state"),
    [
        (Script().write("a\n"), 0, states.SUCCEEDED),
        (Script().write("a\n").exit(1), 10, states.FAILED),
        (Script().exit(7), 10, states.FAILED),
        (Script().die(9), 10, states.FAILED),
    ],
)
@pytest.mark.parametrize("flag", ["--wait", "--stream-logs"])
def test_staying_with_a_job_ends_with_its_verdict(
    vtrain: Any, memory: MemoryBackend, script: Script, code: int, state: str, flag: str
) -> None:
    ended = vtrain(*CREATE, flag, "--format=json", stdin=config(script))
    assert ended.code == code, ended.err
    assert json.loads(ended.out)["state"] == state


def test_logs_go_to_stderr_while_creating_and_to_stdout_when_asked_for(
    vtrain: Any, memory: MemoryBackend
) -> None:
    ended = vtrain(*CREATE, "--stream-logs", "--format=value(name)", stdin=config(Script().count(3)))
    written = ["line 0", "line 1", "line 2"]
    assert [line.split("\t")[-1] for line in ended.err.splitlines() if "\t" in line] == written
    again = vtrain("custom-jobs", "stream-logs", ended.out.strip())
    assert again.code == 0
    lines = [line.split("\t") for line in again.out.splitlines()]
    assert [(line[2], line[-1]) for line in lines] == [("workerpool0-0", each) for each in written]


def test_stream_logs_of_one_replica(vtrain: Any, memory: MemoryBackend) -> None:
    name = submitted(vtrain, Script().write("chief\n").sleep(0), Script().write("worker\n"))
    ended = vtrain("custom-jobs", "stream-logs", name, "--task-name=workerpool1-0")
    assert [line.split("\t")[-1] for line in ended.out.splitlines()] == ["worker"]
    assert "WARNING" not in ended.err
    for part in ("service", "cloud-logging"):
        assert "WARNING" not in vtrain("custom-jobs", "stream-logs", name, f"--task-name={part}").err
    for command in ("stream-logs", "logs"):
        group = ["custom-jobs"] if command == "stream-logs" else []
        other = vtrain(*group, command, name, "--task-name=workerpool9-9")
        assert other.out == ""
        assert "no task workerpool9-9. It has workerpool0-0 to workerpool1-0, and service." in other.err


def test_stream_logs_as_json(vtrain: Any, memory: MemoryBackend) -> None:
    name = submitted(vtrain, Script().write("a\n").write_error("b\n"))
    ended = vtrain("custom-jobs", "stream-logs", name, "--format=json")
    assert [line["message"] for line in json.loads(ended.out)] == ["a", "b"]


def test_wait_ends_by_its_timeout_and_the_job_goes_on(vtrain: Any, memory: MemoryBackend) -> None:
    name = submitted(vtrain, Script().hang())
    ended = vtrain("custom-jobs", "wait", name, "--wait-timeout=0.1s")
    assert ended.code == 124
    assert "goes on" in ended.err
    assert memory.get(name).state == states.RUNNING


def test_ctrl_c_cancels_all_jobs_that_are_waited_for(vtrain: Any, memory: MemoryBackend) -> None:
    names = [submitted(vtrain, Script().hang()) for _ in range(2)]
    ctrl_c = threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT))
    ctrl_c.start()
    ended = vtrain("wait", *names, "--on-interrupt=cancel")
    ctrl_c.join()
    assert ended.code == 130, ended.err
    assert [vtrain("wait", name).code for name in names] == [11, 11]


def test_cancel_wait_delete(vtrain: Any, memory: MemoryBackend) -> None:
    name = submitted(vtrain, Script().hang())
    assert vtrain("custom-jobs", "delete", name).code == 1
    for _ in range(2):
        ended = vtrain("custom-jobs", "cancel", name)
        assert (ended.code, ended.out) == (0, "")
    assert vtrain("custom-jobs", "wait", name).code == 11
    assert vtrain("custom-jobs", "delete", name).code == 0
    gone = vtrain("custom-jobs", "describe", name)
    assert gone.code == 1
    assert name in gone.err


def test_list(vtrain: Any, memory: MemoryBackend) -> None:
    empty = vtrain("custom-jobs", "list")
    assert (empty.code, empty.out) == (0, "") and empty.err.endswith("Listed 0 items.\n")
    assert vtrain("custom-jobs", "list", "--format=json").out == "[]\n"
    names = [submitted(vtrain, Script()) for _ in range(3)]
    assert vtrain("custom-jobs", "list", "--uri").out.split() == names[::-1]
    assert vtrain("custom-jobs", "list", "--uri", "--limit=2").out.split() == names[:0:-1]
    assert vtrain("custom-jobs", "list", "--uri", "--page-size=1").out.split() == names[::-1]
    assert vtrain("custom-jobs", "list", "--format=value(name)", "--sort-by=name").out.split() == names
    chosen = vtrain("custom-jobs", "list", "--format=value(name)", f"--filter=name={names[1]}")
    assert chosen.out.split() == [names[1]]
    table = vtrain("custom-jobs", "list", "--format=table(displayName:label=NAME)")
    assert table.out.splitlines() == ["NAME"] + ["demo job"] * 3


@pytest.mark.parametrize(
    "argv",
    [
        "list --limit=0",
        "list --page-size=x",
        "wait 1 --wait-timeout=soon",
        "wait 1 --on-interrupt=maybe",
        "stream-logs 1 --polling-interval=often",
        "create --wait --wait-timeout=1x --display-name=a --worker-pool-spec=machine-type=n1-standard-4,"
        "container-image-uri=trainer",
    ],
)
def test_what_does_not_parse_is_exit_2(vtrain: Any, memory: MemoryBackend, argv: str) -> None:
    ended = vtrain("custom-jobs", *argv.split())
    assert (ended.code, ended.out) == (2, ""), ended.err
    lines = ended.err.splitlines()
    assert lines[-1 if len(lines) == 1 else 1].startswith("ERROR: ")


def test_a_bad_format_is_refused_before_anything_happens(vtrain: Any, memory: MemoryBackend) -> None:
    for argv in (CREATE, ("custom-jobs", "list")):
        ended = vtrain(*argv, "--format=tabel(name)", stdin=config(Script()))
        assert ended.code == 1
        assert "tabel" in ended.err
    assert vtrain("custom-jobs", "list", "--format=json").out == "[]\n"


def test_a_filter_that_does_not_parse_asks_for_nothing(vtrain: Any, plugin: ModuleType) -> None:
    ended = vtrain("custom-jobs", "list", "--backend=crashing", "--region=us-central1", "--filter=a==b")
    assert ended.code == 1
    assert "a bug of the plug-in" not in ended.err


def test_a_crash_leaves_a_report(vtrain: Any, plugin: ModuleType, vtrain_home: Any) -> None:
    argv = ("custom-jobs", "list", "--backend=crashing", "--region=us-central1", "--project=demo")
    ended = vtrain(*argv)
    assert ended.code == 1
    assert "ZeroDivisionError: a bug of the plug-in" in ended.err
    assert "Traceback" not in ended.err
    (report,) = (vtrain_home / "logs").glob("crash-*.txt")
    assert str(report) in ended.err
    text = report.read_text()
    assert "command: vtrain custom-jobs list" in text and "Traceback" in text and "memory_plugin.py" in text


def test_a_crash_without_room_for_its_report_prints_it(
    vtrain: Any, plugin: ModuleType, vtrain_home: Any
) -> None:
    vtrain_home.mkdir(mode=0o700)
    (vtrain_home / "logs").touch()
    ended = vtrain("custom-jobs", "list", "--backend=crashing", "--region=us-central1", "--project=demo")
    assert ended.code == 1
    assert "Traceback" in ended.err and "report it" in ended.err


def test_a_backend_that_cannot_be_used_is_named(vtrain: Any, plugin: ModuleType) -> None:
    for backend, words in (
        ("broken", "The backend plug-in 'broken' cannot be loaded"),
        ("future", "speaks protocol 99"),
        ("none", "There is no backend called 'none'"),
    ):
        ended = vtrain(
            "custom-jobs", "list", f"--backend={backend}", "--region=us-central1", "--project=demo"
        )
        assert (ended.code, words in ended.err) == (1, True), ended.err


def test_an_interrupt_is_one_line(vtrain: Any, memory: MemoryBackend, monkeypatch: Any) -> None:
    def interrupted(_query: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(memory, "list", interrupted)
    ended = vtrain("--quiet", "custom-jobs", "list")
    assert (ended.code, ended.out, ended.err) == (130, "", "Interrupted.\n")
