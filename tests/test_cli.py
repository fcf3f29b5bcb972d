from __future__ import annotations

import inspect
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import vtrain as package
from vtrain import cli, command_log
from vtrain.flags.command import CommandInfo, taken_flags
from vtrain.flags.options import imported

LIST = ("custom-jobs", "list")
DEMO = ("--display-name=demo", "--worker-pool-spec=machine-type=n1,python-module=m")
DRY_RUN = ("custom-jobs", "create", *DEMO, "--dry-run")


def all_commands() -> list[CommandInfo]:
    grouped = (info for listed in cli.GROUPS.values() for info in listed.commands())
    alone = map(cli.command_alone, cli.COMMANDS)
    return [*grouped, *alone]


def test_version(vtrain: Any) -> None:
    for argv in (("--version",), ("custom-jobs", "list", "--version")):
        ended = vtrain(*argv)
        assert (ended.code, ended.out, ended.err) == (0, f"vtrain {package.__version__}\n", "")


def test_version_after_dashes_is_the_trainers(vtrain: Any) -> None:
    ended = vtrain(*DRY_RUN, "--format=json", "--", "--version")
    assert '"--version"' in ended.out


@pytest.mark.parametrize("prefix", [(), ("ai",), ("beta", "ai"), ("alpha", "ai"), ("-q", "beta", "ai")])
def test_gclouds_words_before_the_group_mean_nothing(vtrain: Any, prefix: tuple[str, ...]) -> None:
    ended = vtrain(*prefix, *LIST, "--format=json")
    assert (ended.code, ended.out) == (0, "[]\n")


@pytest.mark.parametrize(
    "argv",
    [
        ("--format=json", *LIST),
        ("custom-jobs", "--format=json", "list"),
        (*LIST, "--format", "json"),
        ("ai", "--format", "json", *LIST),
    ],
)
def test_common_flags_stand_anywhere(vtrain: Any, argv: tuple[str, ...]) -> None:
    ended = vtrain(*argv)
    assert (ended.code, ended.out) == (0, "[]\n")


def test_of_a_flag_given_twice_the_later_counts(vtrain: Any) -> None:
    assert vtrain("--format=yaml", *LIST, "--format=json").out == "[]\n"


def test_quiet_and_silent(vtrain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    loud = vtrain(*DRY_RUN)
    assert loud.err.startswith("Backend: process (no project is set)\n") and "Would start" in loud.err
    quiet = vtrain("-q", "--verbosity=error", *DRY_RUN)
    assert (quiet.code, quiet.out, quiet.err) == (0, loud.out, "")
    silent = vtrain(*DRY_RUN, "--verbosity=error", "--no-user-output-enabled")
    assert (silent.code, silent.out, silent.err) == (0, "", "")
    monkeypatch.setenv("CLOUDSDK_CORE_USER_OUTPUT_ENABLED", "false")
    assert vtrain(*DRY_RUN, "--verbosity=error").out == ""
    assert vtrain(*DRY_RUN, "--verbosity=error", "--user-output-enabled").out == loud.out


def test_verbosity(vtrain: Any) -> None:
    warned = (*DRY_RUN, "--set=jobSpec.network=n")
    assert "WARNING: " in vtrain(*warned).err
    assert "WARNING: " not in vtrain(*warned, "--verbosity=error").err
    refused = vtrain(*LIST, "--verbosity=loud")
    assert refused.code == 2 and "'loud'" in refused.err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("custom-jobs", "create", "--displayname=a"), "--display-name"),
        (("custom-jobs", "create", "--worker-pool-specs=a"), "--worker-pool-spec"),
        (("custom-jobs", "list", "--limi=3"), "--limit"),
        (("custom-job", "list"), "custom-jobs"),
        (("custom-jobs", "creat"), "create"),
        (("hp-tuning-job", "list"), "hp-tuning-jobs"),
        (("custom-jobs", "list", "extra"), "extra"),
        (("custom-jobs", "describe"), "CUSTOM_JOB"),
        (("custom-jobs", "describe", "1", "2"), "2"),
        (("custom-jobs", "create", "--env"), "--env"),
        (("custom-jobs", "list", "--sort-by", "--uri"), "--sort-by"),
        (("custom-jobs", "create", "--worker-pool-spec=machine-type=n1,python-module=m"), "--display-name"),
        (("custom-jobs", "create", "--display-name=a"), "--worker-pool-spec"),
        (("custom-jobs", "create", *DEMO, "--enable-web-access=true"), "--enable-web-access"),
        (("custom-jobs", "list", "--", "x"), "--"),
        (("custom-jobs", "create", *DEMO, "--args=a", "--", "b"), "--args"),
        (("custom-jobs", "create", *DEMO, "--env=1A"), "--env: expected NAME=VALUE"),
        (("custom-jobs", "create", *DEMO, "--labels=A=b"), "--labels"),
        (("custom-jobs", "create", *DEMO, "--labels=a=b", "--labels=a=c"), "--labels"),
        (("custom-jobs", "create", *DEMO, "--service-account=me"), "--service-account"),
        (("custom-jobs", "create", *DEMO, "--timeout=1y"), "--timeout"),
        (("custom-jobs", "create", *DEMO, "--set=a"), "--set"),
        (("custom-jobs", "create", *DEMO, "--kms-keyring=a"), "--kms-key"),
        (("custom-jobs", "create", *DEMO, "--package-format=egg"), "--package-format"),
        (("custom-jobs", "create", *DEMO, "--python-module=m"), "--local-package-path"),
        (("custom-jobs", "local-run"), "--python-module"),
        (("package", "sdist"), "vtrain package sdist . -m MODULE"),
    ],
)
def test_what_does_not_parse_is_exit_2_and_changes_nothing(
    vtrain: Any, vtrain_home: Path, argv: tuple[str, ...], words: str
) -> None:
    ended = vtrain(*argv)
    assert ended.code == 2, ended.err
    assert ended.out == ""
    assert "ERROR: " in ended.err and words in ended.err
    assert not vtrain_home.exists()


def test_a_command_without_a_job_reads_the_named_configuration_too(
    vtrain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "configurations").mkdir()
    (tmp_path / "configurations" / "config_work").write_text("[core]\ndefault_format = json\n")
    (tmp_path / "task.py").write_text("print(1)\n")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    line = ("package", "sdist", "--local-package-path=.", "--script=task.py")
    shown = vtrain(*line, "--configuration=work", "--format=default")
    assert json.loads(shown.out)[0]["uri"].startswith("file://")
    refused = vtrain(*line, "--configuration=nope")
    assert (refused.code, refused.out) == (1, "") and "'nope'" in refused.err


REMAINDER = "workerPoolSpecs[0].pythonPackageSpec.args"


@pytest.mark.parametrize(
    ("rest", "args"),
    [
        (("--", "--epochs", "3"), "--epochs;3"),
        (("--", "--epochs=3", "--", "x"), "--epochs=3;--;x"),
        (("--", "--help"), "--help"),
        (("--",), ""),
        (("--args=--a,1", "--args=--b,1"), "--a;1;--b;1"),
    ],
)
def test_what_follows_the_dashes_is_the_trainers(vtrain: Any, rest: tuple[str, ...], args: str) -> None:
    ended = vtrain(*DRY_RUN, f"--format=value(jobSpec.{REMAINDER})", *rest)
    assert (ended.code, ended.out) == (0, args + "\n"), ended.err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ((*LIST, "--format=tabel(name)"), "tabel"),
        ((*LIST, "--format=value(name"), "value(name"),
        ((*LIST, "--region=us-central9"), "us-central9"),
        ((*LIST, "--filter=a=("), "filter"),
        ((*LIST, "--backend=nothing"), "'nothing'"),
        (("custom-jobs", "describe", "1"), "Job 1 not found."),
        (("custom-jobs", "wait", "1"), "Job 1 not found."),
        (("custom-jobs", "stream-logs", "1"), "Job 1 not found."),
        (("custom-jobs", "cancel", "1"), "Job 1 not found."),
        (("custom-jobs", "delete", "1"), "Job 1 not found."),
        (("custom-jobs", "describe", "a/b"), "'a/b'"),
        (("custom-jobs", "describe", "projects/local/locations/us-central1/models/1"), "models"),
        (("custom-jobs", "create", "--config=none.yaml"), "none.yaml"),
        (("custom-jobs", "create", *DEMO, "--format=json(", "--dry-run"), "json("),
        (("custom-jobs", "create", *DEMO, "--set=schedulin.strategy=SPOT"), "scheduling"),
        (("custom-jobs", "create", *DEMO, "--project=123"), "123"),
    ],
)
def test_what_is_wrong_is_exit_1_and_changes_nothing(
    vtrain: Any, vtrain_home: Path, argv: tuple[str, ...], words: str
) -> None:
    ended = vtrain(*argv)
    assert ended.code == 1, ended.err
    assert ended.out == ""
    assert "ERROR: " in ended.err and words in ended.err and "Traceback" not in ended.err
    assert not list(vtrain_home.glob("jobs/*"))


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ((*LIST, "--backend=vertex"), "No project"),
        ((*LIST, "--project=demo"), "No region"),
        ((*LIST, "--project=demo", "--region=us-central1"), "credentials"),
        (("custom-jobs", "describe", "projects/demo/locations/us-central1/customJobs/1"), "credentials"),
        (
            (
                "custom-jobs",
                "create",
                "--display-name=a",
                "--worker-pool-spec=machine-type=n1,container-image-uri=i",
            ),
            "Docker",
        ),
    ],
)
def test_what_is_missing_is_said_with_what_to_do(vtrain: Any, argv: tuple[str, ...], words: str) -> None:
    ended = vtrain(*argv)
    assert ended.code == 1, ended.err
    error = ended.err[ended.err.index("ERROR: ") :].splitlines()
    assert words in error[0]
    assert len(error) > 1 and error[1].startswith("  ")


def test_the_backend_and_the_reason_come_first(vtrain: Any) -> None:
    assert vtrain(*LIST, "--project=demo").err.startswith("Backend: vertex (project demo, from --project)\n")
    assert vtrain(*LIST, "--backend=process").err.startswith("Backend: process (--backend)\n")


def test_local_run_ends_as_every_command_where_its_own_line_is_wrong(vtrain: Any, tmp_path: Path) -> None:
    ended = vtrain(
        "custom-jobs", "local-run", f"--local-package-path={tmp_path / 'none'}", "--python-module=a.b"
    )
    assert ended.code == 1
    assert "does not exist" in ended.err


def test_local_run_ends_with_125_where_the_trainer_cannot_run(vtrain: Any, tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text("print(1)\n")
    flags = (f"--local-package-path={tmp_path}", "--script=task.py", "--executor-image-uri=python:3.11")
    ended = vtrain("custom-jobs", "local-run", "--backend=docker", *flags)
    assert ended.code == 125
    assert "does not answer" in ended.err


def test_a_group_alone_shows_its_help_and_fails(vtrain: Any) -> None:
    for argv in ((), ("custom-jobs",), ("beta", "ai")):
        ended = vtrain(*argv)
        assert ended.code == 2
        assert "Usage: vtrain" in ended.out


def test_the_log_tells_each_command_without_secrets(vtrain: Any, vtrain_home: Path) -> None:
    vtrain_home.mkdir()
    vtrain(*DRY_RUN, "--env=TOKEN=secret", "--env", "KEY=secret")
    vtrain(*LIST, "--limit=0")
    first, second = (vtrain_home / "logs" / "vtrain.log").read_text().splitlines()
    assert "secret" not in first and "--env=TOKEN=" in first and " exit=0 " in first
    assert " exit=2 " in second


def test_the_log_lies_where_the_variable_says(
    vtrain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VTRAIN_LOG", str(tmp_path / "own.log"))
    vtrain(*LIST)
    assert "custom-jobs list" in (tmp_path / "own.log").read_text()


def test_commands_that_end_at_once_rotate_the_log_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one would put a log of a few lines in the place of the long one."""
    monkeypatch.setattr(command_log, "MAX_LOG_BYTES", 2000)
    log = tmp_path / "own.log"
    monkeypatch.setenv("VTRAIN_LOG", str(log))

    def run(number: int) -> None:
        with command_log.record_command([f"command-{number}", "x" * 100]):
            pass

    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            list(pool.map(run, range(40)))
            assert log.with_suffix(".log.1").stat().st_size > 2000


@pytest.fixture
def shell() -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Runs a shell line in which `vtrain` is this vtrain."""

    def run(line: str) -> subprocess.CompletedProcess[str]:
        script = f'set -o pipefail; vtrain() {{ "{sys.executable}" -m vtrain "$@"; }}; {line}'
        root = str(Path(package.__file__).parents[1])
        environment = os.environ | {"PYTHONPATH": root}
        return subprocess.run(
            ["bash", "-c", script], capture_output=True, text=True, timeout=120, env=environment, check=False
        )

    return run


def test_a_closed_pipe_ends_it_without_a_word(shell: Any) -> None:
    ended = shell("vtrain custom-jobs create --help | true; vtrain -q custom-jobs create --help | head -1")
    assert ended.stderr == ""


def test_a_full_disk_behind_stdout_is_an_error(shell: Any) -> None:
    ended = shell("vtrain custom-jobs list --format=json > /dev/full")
    assert ended.returncode == 1
    assert "No space left on device" in ended.stderr and "Traceback" not in ended.stderr


HELPS = ("", "-h", "help", "ps --help", "version", "--version", "--show-completion=bash", "schema pyproject")


@pytest.mark.parametrize("line", HELPS)
def test_help_that_cannot_be_written_is_an_error(shell: Any, line: str) -> None:
    full = shell(f"vtrain {line} > /dev/full")
    assert (full.returncode, full.stderr) == (
        1,
        "ERROR: Cannot write the output: No space left on device.\n",
    )
    unread = shell(f"{{ sleep 0.2; vtrain {line}; echo code $? >&2; }} | true")
    assert unread.stderr == "code 141\n"


@pytest.mark.parametrize("line", HELPS)
def test_help_is_utf8_in_every_locale(shell: Any, line: str) -> None:
    ended = shell(f"PYTHONIOENCODING=ascii vtrain {line}")
    assert ended.returncode == (0 if line else 2)
    assert ended.stderr == "" and ended.stdout == shell(f"vtrain {line}").stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_command_whose_error_nobody_reads(number: signal.Signals) -> None:
    """The error is longer than a pipe takes, so that it is still being told when the signal comes."""
    words = (sys.executable, "-m", "vtrain", "x" * 100_000)
    with subprocess.Popen(words, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert select.select([process.stderr], [], [], 60)[0]
        process.send_signal(number)
        assert process.wait(60) == 128 + number
        assert b"Traceback" not in process.stderr.read()


def test_a_program_of_a_command_with_closed_streams_has_streams(shell: Any) -> None:
    """Else the first file that it opens would get their numbers."""
    ended = shell("vtrain emulator exec -- sh -c 'cat && echo out && echo err >&2' <&- >&- 2>&-")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_a_home_that_cannot_be_made_is_named(
    vtrain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("VTRAIN_HOME", str(tmp_path / "file" / "home"))
    ended = vtrain("custom-jobs", "create", *DEMO)
    assert ended.code == 1
    assert str(tmp_path / "file") in ended.err and "Traceback" not in ended.err
    assert "unexpectedly" not in ended.err
    assert len([line for line in ended.err.splitlines() if line.startswith("ERROR: ")]) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_home_that_may_not_be_written_is_named(vtrain: Any, vtrain_home: Path) -> None:
    vtrain_home.mkdir(mode=0o500)
    ended = vtrain("custom-jobs", "create", *DEMO)
    assert ended.code == 1
    assert str(vtrain_home) in ended.err and "Traceback" not in ended.err
    assert list(vtrain_home.iterdir()) == []


@pytest.mark.parametrize("number", [2, 15])
def test_a_signal_while_reading_ends_in_order(number: int) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(package.__file__).parents[1])}
    argv = [sys.executable, "-m", "vtrain", "custom-jobs", "create", "--backend=process", "--config=-"]
    process = subprocess.Popen(argv, stdin=-1, stdout=-1, stderr=-1, text=True, env=environment)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("Backend:")
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert out == "" and "Traceback" not in err


@pytest.mark.parametrize("info", all_commands(), ids=lambda info: info.handler)
def test_a_command_gives_its_function_the_flags_that_it_takes(info: CommandInfo) -> None:
    function = info.load()
    taken = taken_flags(info, function)
    assert set(taken.values()) == ({imported(info.line)} if info.line else set(info.flags))
    if "given" in taken:
        assert inspect.signature(function).parameters["given"].annotation == taken["given"].__name__
    assert ("remainder" in inspect.signature(function).parameters) == info.takes_remainder


@pytest.mark.parametrize(("argv", "meant"), [(("--format=jsn",), "json"), (("--backend=vertx",), "vertex")])
def test_the_nearest_value_of_a_flag_is_named(vtrain: Any, argv: tuple[str, ...], meant: str) -> None:
    ended = vtrain(*LIST, *argv)
    assert (ended.code, ended.out) == (1, "")
    assert f"Did you mean {meant}?" in ended.err


INTERRUPTED_EARLY = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, *rest):
        if name == "vtrain.cli":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
from vtrain.__main__ import run
run()
"""


def test_an_interrupt_while_modules_are_imported_ends_quietly() -> None:
    root = str(Path(package.__file__).parents[1])
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_EARLY], cwd=root, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "Interrupted.\n")
