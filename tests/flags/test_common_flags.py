"""Common flags stand before a command or after it, and the later one counts, whatever its value."""

from __future__ import annotations

from typing import Any

import pytest

from vtrain.commands import other_commands
from vtrain.flags.command import CommandInfo
from vtrain.flags.options import CommonFlags

SEEN: list[CommonFlags] = []
OTHER = {
    "project": "other",
    "format": "json",
    "flatten": "a[]",
    "verbosity": "debug",
    "configuration": "other",
    "account": "other",
    "access_token_file": "other",
    "impersonate_service_account": "other",
    "billing_project": "other",
    "api_version": "v1beta1",
    "trace_token": "other",
}
SWITCHES = {
    "quiet": "quiet",
    "notify": "notify",
    "log_http": "log-http",
    "user_output": "user-output-enabled",
}


def record(common: CommonFlags) -> None:
    """A command that keeps what its flags say."""
    SEEN.append(common)


@pytest.fixture
def run(vtrain: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command line in which `gc` is `record`, and returns what it was given."""
    info = CommandInfo(name="gc", handler=f"{__name__}:record", flags=(CommonFlags,))
    monkeypatch.setattr(other_commands, "COMMANDS", (info,))

    def given(*words: str) -> CommonFlags:
        ended = vtrain(*words)
        assert ended.code == 0, ended.err
        return SEEN.pop()

    return given


def test_every_common_flag_is_here() -> None:
    assert {*OTHER, *SWITCHES, "flags_file"} == set(CommonFlags.__struct_fields__)


@pytest.mark.parametrize("name", OTHER)
def test_the_default_after_the_command_counts(run: Any, name: str) -> None:
    flag, usual = f"--{name.replace('_', '-')}", getattr(CommonFlags(), name)
    before, value = f"{flag}={OTHER[name]}", [OTHER[name]] if name == "flatten" else OTHER[name]
    assert getattr(run(before, "gc"), name) == value
    assert getattr(run("gc", before), name) == value
    after = "" if name == "flatten" else usual or ""
    expected = [""] if name == "flatten" else after
    assert getattr(run(before, "gc", f"{flag}={after}"), name) == expected
    assert getattr(run("gc"), name) == usual


@pytest.mark.parametrize("name", SWITCHES)
def test_the_later_switch_counts(run: Any, name: str) -> None:
    on, off = f"--{SWITCHES[name]}", f"--no-{SWITCHES[name]}"
    for words, value in (
        ((on, "gc", off), False),
        ((off, "gc", on), True),
        ((on, "gc"), True),
        ((off, "gc"), False),
        ((on, off, "gc"), False),
        (("gc", on, off), False),
        (("gc",), getattr(CommonFlags(), name)),
    ):
        assert getattr(run(*words), name) is value, words


def test_what_a_track_says_gives_way_to_a_flag(run: Any) -> None:
    assert run("beta", "ai", "gc").api_version == "v1beta1"
    assert run("beta", "ai", "gc", "--api-version=v1").api_version == "v1"


def test_a_flag_of_a_group_gives_way_to_one_of_its_command(vtrain: Any) -> None:
    listing = ("--backend=process", "--format=json")
    for before in (("--quiet", "custom-jobs"), ("custom-jobs", "--quiet"), ("-q", "custom-jobs", "-q")):
        assert vtrain(*before, "list", *listing).err == ""
        assert vtrain(*before, "list", *listing, "--no-quiet").err == "Backend: process (--backend)\n"
    assert vtrain("--quiet", "custom-jobs", "--no-quiet", "list", *listing).err != ""


@pytest.mark.parametrize("words", [("describe", "1"), ("list", "--limit=0"), ("describe", "a/b/c")])
def test_an_error_is_shown_at_its_level(vtrain: Any, words: tuple[str, ...]) -> None:
    command = ("custom-jobs", *words, "--backend=process", "--quiet")
    plain = vtrain(*command)
    assert plain.code in (1, 2) and plain.err.startswith("ERROR: ")
    for level in ("none", "critical"):
        for silent in (vtrain(*command, f"--verbosity={level}"), vtrain(f"--verbosity={level}", *command)):
            assert (silent.code, silent.out, silent.err) == (plain.code, "", "")
    for level in ("error", "warning", "info", "debug"):
        assert vtrain(*command, f"--verbosity={level}").err == plain.err
    assert vtrain("--verbosity=none", *command, "--verbosity=error").err == plain.err
    assert "there is no level 'loud'" in vtrain(*command, "--verbosity=loud").err
