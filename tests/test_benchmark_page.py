"""The page of figures that `benchmarks/run` writes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

RUN = Path(__file__).parents[1] / "benchmarks" / "run"


def test_the_first_line_of_a_benchmark_stays_in_its_column(tmp_path: Path) -> None:
    run = shutil.copy(RUN, tmp_path)
    (tmp_path / "startup.py").write_text("""print("  a   1.0 ms\\n  b   2.0 ms")\n""")
    subprocess.check_call([sys.executable, run, "startup", f"--page={tmp_path / 'page.md'}"])
    assert "```text\n  a   1.0 ms\n  b   2.0 ms\n```\n" in (tmp_path / "page.md").read_text(encoding="utf-8")
