"""What the checks before a run show on a terminal, and a run in an environment of the user's own."""

from __future__ import annotations

import venv
from pathlib import Path

from terminal.conftest import Golden, Start, Trainer


def test_a_syntax_error_is_shown_with_its_line(start: Start, trainer: Trainer, golden: Golden) -> None:
    code = "names = {'東京': 1}\nfor name in names:\n    print(name 2)\n"
    terminal = start("run", trainer(code))
    assert terminal.end() == 1
    golden("run-syntax-error", terminal, colours=True)


def test_missing_imports_are_told_before_anything_is_made(
    start: Start, trainer: Trainer, golden: Golden, place: Path
) -> None:
    (place / "requirements.txt").write_text("pandas\n")
    code = "import pandas, requests\nif sys.argv[1:]:\n    import torch\nfrom yaml import safe_load\n"
    terminal = start("run", trainer(code), "--strict")
    assert terminal.end() == 1
    assert not (place.parent / ".vtrain").exists()
    golden("run-missing-imports", terminal)


def test_a_run_in_the_active_environment_names_it(
    start: Start, trainer: Trainer, golden: Golden, place: Path
) -> None:
    venv.create(place / "env", symlinks=True)
    code = "print(os.path.relpath(sys.executable, os.environ['HOME']))\n"
    terminal = start("run", trainer(code), "--environment=current", env={"VIRTUAL_ENV": str(place / "env")})
    assert terminal.end() == 0
    golden("run-in-own-environment", terminal)
