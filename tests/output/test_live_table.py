"""The table that is drawn anew in its place, on small terminals and in any encoding."""

from __future__ import annotations

import subprocess
import sys

import pytest

from vtrain.output.live_table import LiveTable

ROWS = [["1", "日本"], ["2", "mnist"]]


@pytest.mark.parametrize("height", [1, 2, 3, 24])
@pytest.mark.parametrize("width", [1, 5, 80])
def test_a_terminal_of_any_size(
    width: int, height: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"COLUMNS": width, "LINES": height, "FORCE_COLOR": 1}.items():
        monkeypatch.setenv(name, str(value))
    table = LiveTable()
    for _ in range(2):
        table.show(["JOB", "NAME"], ROWS, "Nothing runs.")
    drawn = capfd.readouterr().out
    assert 0 < drawn.count("\n") <= 2 * max(height - 1, 1)
    assert ("\x1b[1mNAME\x1b[0m" in drawn) == (width == 80), "a line that is cut is plain"


@pytest.mark.child
def test_it_is_utf8_whatever_the_locale() -> None:
    program = f"from vtrain.output.live_table import LiveTable; LiveTable().show(['JOB', 'NAME'], {ROWS}, '')"
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONIOENCODING": "ascii"}, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert "日本".encode() in done.stdout
