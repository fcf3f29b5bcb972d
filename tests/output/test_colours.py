"""Colours follow the conventions of their variables, and mark what vtrain says, not what it quotes."""

from __future__ import annotations

import io

import pytest

from vtrain.errors import VtrainError
from vtrain.output.colours import Role, has_colours, name, paint, painted, state, state_role
from vtrain.output.console import Console

VARIABLES = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize(
    ("variables", "on_a_terminal", "through_a_pipe"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"NO_COLOR": "0"}, False, False),
        ({"TERM": "dumb"}, False, False),
        ({"TERM": "xterm-256color"}, True, False),
        ({"CLICOLOR": "0"}, False, False),
        ({"CLICOLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": ""}, True, False),
        ({"CLICOLOR_FORCE": "1"}, True, True),
        ({"CLICOLOR_FORCE": "0"}, True, False),
        ({"CLICOLOR_FORCE": ""}, True, False),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
        ({"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": ""}, True, True),
    ],
)
def test_the_variables_as_their_conventions_say(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], on_a_terminal: bool, through_a_pipe: bool
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert (has_colours(Terminal()), has_colours(io.StringIO())) == (on_a_terminal, through_a_pipe)


def test_a_quoted_text_brings_no_colour_of_its_own() -> None:
    pieces = ("a\x1b[8mb ", name("c\x1b[31m"), " ", state("JOB_STATE_FAILED"))
    assert painted(pieces, coloured=False) == "a\\x1b[8mb c\\x1b[31m FAILED"
    assert painted(pieces, coloured=True) == ("a\\x1b[8mb \x1b[1mc\\x1b[31m\x1b[0m \x1b[1;31mFAILED\x1b[0m")


def test_each_state_has_its_colour_with_and_without_prefix() -> None:
    for prefix in ("JOB_STATE_", "PIPELINE_STATE_", ""):
        assert state_role(f"{prefix}SUCCEEDED") is Role.GOOD
        assert state_role(f"{prefix}FAILED") is Role.ERROR
        assert state_role(f"{prefix}CANCELLED") is Role.WARNING
    assert state_role("JOB_STATE_NEW_ONE") is Role.DIM
    assert paint("", Role.DIM) == ""


def test_errors_and_warnings_are_red_and_yellow(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    console = Console()
    console.warn("careful")
    console.error(VtrainError("It broke.", hint="Mend it."))
    assert capfd.readouterr().err == (
        "\x1b[33mWARNING:\x1b[0m careful\n\x1b[1;31mERROR: \x1b[0mIt broke.\n  Mend it.\n"
    )
