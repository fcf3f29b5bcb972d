"""`local-run`: from the command's start to the trainer's first line, against the bare trainer.

The same environment runs the bare trainer. Once unchanged, once after one edited line each, and once with a
small requirement more each, which uv has in its cache.
"""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import measure
from measure import VTRAIN, alternate, arguments, judge, scene

FIRST_LINE = 0.3
"""Seconds by which the trainer's first line may come later than that of the bare trainer."""
REQUIREMENT_MORE = 1.5
"""Seconds by which it may come later still, where the trainer requires one small package more."""
REQUIREMENT, ADDED = "packaging", "six"
TRAINER = f"import sys\nimport {REQUIREMENT}\n\nprint(sys.executable, flush=True)\n"


def main() -> int:
    options = arguments(__doc__, runs=10)
    with scene() as folder:
        trainer = folder / "code" / "trainer" / "task.py"
        trainer.parent.mkdir(parents=True)
        trainer.write_text(TRAINER)
        run = [*VTRAIN, "custom-jobs", "local-run", f"--local-package-path={folder / 'code'}"]
        run += ["--python-module=trainer.task", f"--requirements={REQUIREMENT}"]
        first_line([*run, f"--requirements={REQUIREMENT},{ADDED}"])
        copied, _ = first_line(run)  # the job's own copy, which has gone with the job
        name = Path(copied).parents[1].name.rpartition("-")[0]
        python = str(folder / "home" / "environments" / "packages" / name / "bin" / "python")
        dependencies = layers(folder / "home")
        edits, versions = count(), count()

        def edited() -> float:
            trainer.write_text(f"{TRAINER}print({next(edits)})\n")
            return first_line(run)[1]

        def unchanged() -> float:
            return first_line(run)[1]

        def required() -> float:
            """Each time an environment that is not there: the requirement is another, and means the same."""
            return first_line([*run[:-1], f"{run[-1]},{ADDED}!=0.0.{next(versions)}"])[1]

        sides = {
            "the bare trainer": lambda: first_line([python, str(trainer)])[1],
            "local-run after one edited line": edited,
            "local-run, unchanged": unchanged,
            "local-run with a requirement more": required,
        }
        bare, after_edit, again, with_more = alternate(sides, options.runs).values()
        made = len(layers(folder / "home") - dependencies) - next(versions)
        judge("unchanged local-run over the bare trainer", again - bare, FIRST_LINE, " s")
        judge("local-run of an edited trainer over the bare trainer", after_edit - bare, FIRST_LINE, " s")
        judge("a requirement more over the unchanged run", with_more - again, REQUIREMENT_MORE, " s")
        judge("environments made for edits", made, 0)
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
