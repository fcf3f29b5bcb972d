"""The figures of the code, of a package that is small enough to count by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "code_figures.py"
MODULES = {
    "__init__": "",
    "alone": "X = 1\n",
    "left": "import vtrain.right\nfrom vtrain import alone  # noqa: F401\n",
    "right": """from vtrain.left import alone  # a reason
# another

def _used():
    return 1

_used()
_used()
""",
    "user": """from vtrain import left


class C:
    def _once(self):
        pass

    def f(self):
        self._once()
""",
}


def test_each_figure_is_counted(tmp_path: Path) -> None:
    (tmp_path / "vtrain").mkdir()
    for name, text in MODULES.items():
        (tmp_path / "vtrain" / f"{name}.py").write_text(text)
    table = subprocess.check_output([sys.executable, SCRIPT, tmp_path], text=True)
    counted = {line[:28].strip(): line[28:].strip() for line in table.splitlines()[1:]}
    assert counted == {
        "files": "5",
        "lines": "20",
        "lines of a file, median": "2",
        "files over 400 lines": "0",
        "lines with a comment": "1 in 10",
        "functions": "3",
        "lines of a function, median": "2",
        "90th percentile": "2",
        "longest": "2",
        "private functions": "2",
        "with one caller": "1 (50%)",
        "modules with one importer": "2",
        "cycles of modules": "1 (2 modules)",
    }


def test_a_folder_without_the_package_is_refused(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == f"There is no vtrain package in {tmp_path}.\n"
