"""`local-run`: from the command's start to the trainer's first line, against the bare trainer.

The same environment runs the bare trainer. Once unchanged, once after one edited line each.
"""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import measure
from measure import VTRAIN, alternate, arguments, judge, scene

SECOND_RUN = 0.5
EDITED_RUN = 0.3
REQUIREMENT = "packaging"
TRAINER = f"import sys\nimport {REQUIREMENT}\n\nprint(sys.executable, flush=True)\n"


def main() -> int:
    options = arguments(__doc__, runs=10)
    with scene() as folder:
        trainer = folder / "code" / "trainer" / "task.py"
        trainer.parent.mkdir(parents=True)
        trainer.write_text(TRAINER)
        run = [*VTRAIN, "custom-jobs", "local-run", f"--local-package-path={folder / 'code'}"]
        run += ["--python-module=trainer.task", f"--requirements={REQUIREMENT}"]
        python, _ = first_line(run)
        dependencies = layers(folder / "home")
        edits = count()

        def edited() -> float:
            trainer.write_text(f"{TRAINER}print({next(edits)})\n")
            return first_line(run)[1]

        def unchanged() -> float:
            return first_line(run)[1]

        sides = {
            "the bare trainer": lambda: first_line([python, str(trainer)])[1],
            "local-run after one edited line": edited,
            "local-run, unchanged": unchanged,
        }
        bare, after_edit, again = alternate(sides, options.runs).values()
        judge("unchanged local-run over the bare trainer", again - bare, SECOND_RUN, " s")
        judge("an edited line over the unchanged run", after_edit - again, EDITED_RUN, " s")
        judge("environments of dependencies made meanwhile", len(layers(folder / "home") - dependencies), 0)
    return min(measure.failures, 1)


def first_line(argv: list[str]) -> tuple[str, float]:
    """The first line on stdout, and the seconds until it was there; the command then has to succeed."""
    started = time.perf_counter()
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    taken = time.perf_counter() - started
    process.stdout.read()
    if process.wait() != 0 or not line:
        raise SystemExit(f"{' '.join(argv)} ended with {process.returncode}")
    return line, taken


def layers(home: Path) -> set[Path]:
    """The environments of dependencies under home."""
    return {layer for layer in (home / "environments" / "dependencies").iterdir() if layer.is_dir()}


if __name__ == "__main__":
    sys.exit(main())
