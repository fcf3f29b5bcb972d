"""Help as a person sees it: as wide as the terminal, with bold headings."""

from __future__ import annotations

from terminal.conftest import Golden, Start


def test_help_of_a_command(start: Start, golden: Golden) -> None:
    terminal = start("persistent-resources", "create", "-h", lines=60)
    assert terminal.end() == 0
    golden("help", terminal)


def test_headings_of_help_are_bold(start: Start, golden: Golden) -> None:
    terminal = start("help", "custom-jobs", "wait", lines=60)
    assert terminal.end() == 0
    golden("help-dark", terminal, colours=True)
