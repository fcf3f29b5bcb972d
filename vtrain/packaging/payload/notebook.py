"""Run the code cells of the notebook beside this file, and keep a copy with what they showed.

vtrain reads notebooks by the same functions before it packages them.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import linecache
import os
import re
import sys
import traceback
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

MOST_TEXT = 1 << 20
"""Characters of what a cell prints that the copy keeps; the log has all."""
_LINE_MAGIC = re.compile(r"\s*(?:[%!?]|[\w.]+\?\??\s*$|[\w., ]+=\s*[%!])")
_TIMED = re.compile(r"(\s*)%time\s+(\S.*)")
_PYTHON_MAGICS = ("%%time", "%%capture")
"""Magics of cells that are Python all the same."""


class Cell(NamedTuple):
    """A code cell as Python: the lines that are magics say nothing in it."""

    number: int
    """Of the code cells, from 1."""
    text: str
    left_out: list[str]


def code_cells(document: dict[str, Any]) -> list[Cell]:
    """The code cells of a notebook of format 4. Raises ValueError for another document, or language."""
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list):
        raise ValueError("it has no cells, as format 4 has them")
    metadata = document.get("metadata") or {}
    kernel, language = metadata.get("kernelspec") or {}, metadata.get("language_info") or {}
    named = str(language.get("name") or kernel.get("language") or "python")
    if named.lower() != "python":
        raise ValueError(f"its language is {named}")
    sources = ("".join(cell.get("source", "")) for cell in cells if cell.get("cell_type") == "code")
    return [Cell(number, *_without_magics(source)) for number, source in enumerate(sources, 1)]


def _without_magics(source: str) -> tuple[str, list[str]]:
    """A cell with `pass` in place of the lines that only IPython runs, and those lines."""
    lines = source.split("\n")
    left_out = []
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if lines[first].startswith("%%"):
        left_out.append(lines[first].strip())
        if lines[first].split()[0] not in _PYTHON_MAGICS:
            return "", left_out
        lines[first] = ""
    for _ in range(len(lines)):
        number = _wrong_line("\n".join(lines))
        if number is None or number >= len(lines) or not _LINE_MAGIC.match(lines[number]):
            break
        timed = _TIMED.fullmatch(lines[number])
        if timed:
            lines[number] = timed.group(1) + timed.group(2)
            continue
        indent = lines[number][: len(lines[number]) - len(lines[number].lstrip())]
        left_out.append(lines[number].strip())
        while lines[number].endswith("\\") and number + 1 < len(lines):
            lines[number], number = "", number + 1
        lines[number] = indent + "pass"
    return "\n".join(lines), left_out


def _wrong_line(text: str) -> int | None:
    """The index of the first line that is no Python; None where all are."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return max((error.lineno or 1) - 1, 0)
    except (ValueError, RecursionError, MemoryError):
        pass
    return None


class _Tee:
    """A stream whose text also goes to the outputs of the cell that runs."""

    def __init__(self, stream: TextIO, name: str, run: _NotebookRun) -> None:
        self._stream, self._name, self._run = stream, name, run

    def write(self, text: str) -> int:
        self._run.printed(self._name, text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _NotebookRun:
    """The run of one notebook, and the outputs of its cells."""

    def __init__(self, path: Path) -> None:
        self.document = json.loads(path.read_text("utf-8"))
        self.path = path
        self.outputs: list[dict[str, Any]] = []
        self.room = 0
        self.stderr = sys.stderr

    def printed(self, name: str, text: str) -> None:
        kept = text[: self.room]
        self.room -= len(kept)
        if not kept:
            return
        last = self.outputs[-1] if self.outputs else {}
        if last.get("name") != name:
            last = {"output_type": "stream", "name": name, "text": []}
            self.outputs.append(last)
        last["text"].append(kept)

    def display(self, *values: object) -> None:
        """Print values, as the last line of a cell is, and keep them in the copy."""
        for value in values:
            self.show(value, {"output_type": "display_data"})

    def show(self, value: object, output: dict[str, Any]) -> None:
        text = repr(value)
        data = {"text/plain": text}
        as_html = getattr(value, "_repr_html_", None)
        if callable(as_html) and not isinstance(value, type):
            data["text/html"] = as_html() or ""
        sys.stdout._stream.write(text + "\n")  # type: ignore[union-attr]
        self.outputs.append({**output, "data": data, "metadata": {}})

    def all_cells(self) -> bool:
        """Run the cells in the module `__main__`; whether all went well."""
        module = types.ModuleType("__main__")
        vars(module)["display"] = self.display
        sys.modules["__main__"] = module
        documents = [cell for cell in self.document["cells"] if cell.get("cell_type") == "code"]
        for document in documents:
            document["outputs"], document["execution_count"] = [], None
        for cell, document in zip(code_cells(self.document), documents):  # noqa: B905 - not on Python 3.9
            self.outputs, self.room = document["outputs"], MOST_TEXT
            document["execution_count"] = cell.number
            try:
                self.cell(cell, vars(module))
            except Exception as error:
                lines = self.lines_of(error)
                sys.stdout.flush()
                self.stderr.write("".join(lines))
                failed = {"ename": type(error).__name__, "evalue": str(error)}
                self.outputs.append({"output_type": "error", **failed, "traceback": lines})
                return False
            finally:
                self.outputs.extend(_figures())
        return True

    def cell(self, cell: Cell, namespace: dict[str, Any]) -> None:
        name = f"{self.path}, cell {cell.number}"
        linecache.cache[name] = (len(cell.text), None, cell.text.splitlines(True), name)
        tree = ast.parse(cell.text, name)
        is_shown = tree.body and isinstance(tree.body[-1], ast.Expr) and not cell.text.rstrip().endswith(";")
        last = tree.body.pop() if is_shown else None
        exec(compile(tree, name, "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
            if value is not None:
                self.show(value, {"output_type": "execute_result", "execution_count": cell.number})

    @staticmethod
    def lines_of(error: Exception) -> list[str]:
        """The traceback without the frames of this file."""
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
            frames = frames.tb_next
        return traceback.format_exception(type(error), error, frames)

    def keep(self, folder: Path) -> None:
        """Write the copy."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / self.path.name).write_text(json.dumps(self.document, indent=1), "utf-8")
        except (OSError, ValueError, TypeError) as error:
            self.stderr.write(f"The executed notebook is not kept: {error}\n")


def _figures() -> Iterator[dict[str, Any]]:
    """The figures that a cell has drawn with matplotlib, which are closed then."""
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    for number in pyplot.get_fignums() if pyplot is not None else ():
        image = io.BytesIO()
        pyplot.figure(number).savefig(image, format="png", bbox_inches="tight")
        pyplot.close(number)
        data = {"image/png": base64.b64encode(image.getvalue()).decode()}
        yield {"output_type": "display_data", "data": data, "metadata": {}}


def _output_folder() -> Path | None:
    """The folder of the job's output, above that of its model; None in replicas other than the primary."""
    task = json.loads(os.environ.get("CLUSTER_SPEC") or "{}").get("task") or {}
    if task.get("type", "chief") not in ("chief", "workerpool0") or task.get("index", 0) != 0:
        return None
    model = os.environ.get("AIP_MODEL_DIR", "")
    if model.startswith("gs://"):
        model = "/gcs/" + model[len("gs://") :]
    return Path(model).parent if model else None


def main() -> None:
    path = Path(__file__).absolute().with_suffix("")
    run = _NotebookRun(path)
    os.chdir(str(path.parent))  # as Jupyter does
    sys.argv[0] = str(path)
    os.environ.setdefault("MPLBACKEND", "Agg")
    warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
    sys.stdout, sys.stderr = _Tee(sys.stdout, "stdout", run), _Tee(sys.stderr, "stderr", run)
    is_good = False
    try:
        is_good = run.all_cells()
    finally:
        folder = _output_folder()
        if folder is not None:
            run.keep(folder)
    if not is_good:
        sys.exit(1)


if __name__ == "__main__":
    main()
