"""vtrain's log and its crash reports: what is passed around holds no secret."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from vtrain import cli
from vtrain.command_log import MAX_LOG_BYTES, record_command
from vtrain.commands import other_commands

SECRET = "hunter2-very-secret"
WORDS = (
    *("--args=--api-key,hunter2-very-secret,--lr=1", "--args", "--token=hunter2-very-secret,x"),
    *("--args=^;^--password;hunter2-very-secret;a,b", "--command=sh,-c,PGPASSWORD=hunter2-very-secret psql"),
    *("--env=PLAIN=hunter2-very-secret", "--env", "OTHER=hunter2-very-secret", "--env=NAME"),
    *("--staging-bucket=a://u:hunter2-very-secret@h/b", "--trace-token", "hunter2-very-secret"),
    *("--display-name=a", "--", "--db-password", "hunter2-very-secret", "--url=b://u:hunter2-very-secret@h"),
)
SHOWN = (
    "'--args=--api-key,***,--lr=1' --args '--token=***' '--args=^;^--password;***;a,b' "
    "'--command=sh,-c,PGPASSWORD=***' '--env=PLAIN=…' --env 'OTHER=…' '--env=NAME=…' "
    "'--staging-bucket=a://u:***@h/b' --trace-token '***' --display-name=a -- --db-password '***' "
    "'--url=b://u:***@h'"
)


@pytest.fixture
def log(vtrain_home: Path) -> Path:
    vtrain_home.mkdir(mode=0o700)
    return vtrain_home / "logs" / "vtrain.log"


def fail(**groups: Any) -> None:
    """A command with a fault: it raises what no rule expects."""
    raise RuntimeError(
        f"{SECRET} and {os.environ['SHELLS_TOKEN']} at db://u:p4ss@host, in {os.environ['PLACE']}"
    )


def test_a_line_a_command(log: Path) -> None:
    with record_command(("custom-jobs", "create", *WORDS)) as record:
        record.exit_code = 12
    (line,) = log.read_text(encoding="utf-8").splitlines()
    head, _, words = line.partition(" custom-jobs create ")
    assert words == SHOWN
    assert f" pid={os.getpid()} exit=12 " in head
    assert stat.S_IMODE(log.stat().st_mode) == 0o600 and stat.S_IMODE(log.parent.stat().st_mode) == 0o700


def test_a_secret_is_masked_in_every_word(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where only another word, or a variable of the shell, tells that it is one."""
    monkeypatch.setenv("SHELLS_TOKEN", "shells-secret")
    variable, place = f"WANDB_API_KEY={SECRET}", f"--display-name=run-{SECRET}"
    with record_command(("custom-jobs", "create", "--env", variable, place, "--filter=name=shells-secret")):
        pass
    text = log.read_text(encoding="utf-8")
    assert SECRET not in text and "shells-secret" not in text
    assert "--display-name=run-***" in text


def test_a_large_word_is_written_at_once(log: Path) -> None:
    with record_command(("custom-jobs", "local-run", "--", "x" * 10_000_000, "TOKEN=abc")):
        pass
    assert log.read_text(encoding="utf-8").endswith("xxx 'TOKEN=***'\n")


def test_a_full_log_is_put_aside(log: Path) -> None:
    log.parent.mkdir()
    for size, kept in ((MAX_LOG_BYTES, False), (MAX_LOG_BYTES + 1, True)):
        log.write_bytes(b"x" * size)
        with record_command(("gc",)):
            pass
        assert log.with_suffix(".log.1").exists() is kept
    assert log.read_text(encoding="utf-8").count("\n") == 1


def test_no_home_is_made_for_the_log(vtrain_home: Path) -> None:
    with record_command(("gc",)):
        pass
    assert not vtrain_home.exists()


@pytest.mark.parametrize("home_is_a_file", [False, True])
def test_a_crash_report_holds_no_secret(
    home_is_a_file: bool,
    vtrain: Any,
    vtrain_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHELLS_TOKEN", "from-the-shell")
    monkeypatch.setenv("PLACE", "/some/place")
    broken = msgspec.structs.replace(
        cli.command_alone("gc"), handler=f"{__name__}:fail", takes_remainder=True
    )
    monkeypatch.setattr(other_commands, "COMMANDS", (broken,))
    if home_is_a_file:
        vtrain_home.touch()
    ended = vtrain("gc", "--", "--api-key", SECRET)
    assert ended.code == 1
    assert (
        "ERROR: vtrain failed unexpectedly: RuntimeError: *** and *** at db://u:***@host, in /some/place."
        in (ended.err)
    )
    report = ended.err if home_is_a_file else next((vtrain_home / "logs").glob("crash-*.txt")).read_text()
    assert "Traceback" in report and "in fail" in report and "/some/place" in report
    assert "command: vtrain gc -- --api-key '***'" in report
    for text in (report, ended.err):
        assert not any(secret in text for secret in (SECRET, "from-the-shell", "p4ss"))
