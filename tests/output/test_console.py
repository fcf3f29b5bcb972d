"""Words begin on a line of their own, whatever a trainer wrote before them."""

from __future__ import annotations

import os
import sys

import pytest

from vtrain.output.console import Console


@pytest.mark.parametrize(
    ("written", "shown"),
    [(b"no newline", "no newline\nwords\n"), (b"a line\n", "a line\nwords\n"), (b"", "words\n")],
)
def test_words_begin_on_a_fresh_line(capfd: pytest.CaptureFixture[str], written: bytes, shown: str) -> None:
    console = Console()
    console.write(written, stderr=True)
    console.write(b"", stderr=True)
    console.status("words")
    assert capfd.readouterr().err == shown


def test_an_interrupt_just_after_a_write_finds_the_line_open(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_and_be_interrupted(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data)
        raise KeyboardInterrupt

    console = Console()
    with monkeypatch.context() as context, pytest.raises(KeyboardInterrupt):
        context.setattr("vtrain.output.console.write_all", write_and_be_interrupted)
        console.write(b"7/20", stderr=True)
    console.status("words")
    assert capfd.readouterr().err == "7/20\nwords\n"


def test_a_trainer_that_writes_on_is_not_given_another_newline(capfd: pytest.CaptureFixture[str]) -> None:
    console = Console()
    for text in (b"a", b"b\n"):
        console.write(text, stderr=True)
    console.status("words")
    console.status("more")
    assert capfd.readouterr().err == "ab\nwords\nmore\n"


def test_stdout_and_stderr_of_their_own_stay_untouched(capfd: pytest.CaptureFixture[str]) -> None:
    console = Console()
    console.write(b"out")
    console.status("words")
    assert capfd.readouterr() == ("out", "words\n")


def test_stdout_that_leads_to_the_same_place_counts_too(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", sys.stderr)
    console = Console()
    console.write(b"out")
    console.status("words")
    console.write(b"out")
    console.write(b"err\n", stderr=True)
    console.status("words")
    assert capfd.readouterr().err == "out\nwords\nouterr\nwords\n"


def test_details_of_a_preparation_are_folded_unless_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    lines = ("Installing scikit-learn …", "    Resolved 6 packages in 9ms", "     + numpy==2.4.6")
    for verbosity, shown in (("warning", lines[:1]), ("info", lines)):
        console = Console(verbosity=verbosity)
        for line in lines:
            console.tell(line)
        assert capfd.readouterr().err.splitlines() == list(shown)
        assert console.activity == "Resolved 6 packages in 9ms"


@pytest.mark.parametrize(
    ("kind", "expected"), [("xterm", True), ("", True), ("dumb", False), ("unknown", False)]
)
def test_a_terminal_that_cannot_move_its_cursor_has_no_status_line(
    monkeypatch: pytest.MonkeyPatch, kind: str, expected: bool
) -> None:
    terminal, ours = os.openpty()
    with os.fdopen(terminal, "rb"), os.fdopen(ours, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("TERM", kind)
        console = Console()
        console.show_state("RUNNING")
        assert console.has_status_line is console.can_draw is expected
        console.close()
