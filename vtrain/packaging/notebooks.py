"""Notebooks as Python: what their cells import and ask for, and the program that runs them."""

from __future__ import annotations

import json
from pathlib import Path

from vtrain.digests import content_digest
from vtrain.errors import ConfigError, PackagingError
from vtrain.packaging.direct import Member
from vtrain.packaging.payload import notebook

SUFFIX = ".ipynb"
PYTHON_SUFFIXES = (".py", SUFFIX)
"""Of files that Python runs."""


def notebook_cells(file: Path, shown: str) -> list[notebook.Cell]:
    """The code cells of a notebook. Raises PackagingError, ConfigError for one that is none."""
    try:
        return notebook.code_cells(json.loads(file.read_bytes()))
    except OSError as error:
        raise PackagingError(f"Cannot read {shown}: {error.strerror}.") from None
    except ValueError as error:
        why = str(error)
    except RecursionError:
        why = "it is nested too deeply"
    except (AttributeError, TypeError):
        why = "it is not as format 4 has it"
    raise ConfigError(f"{shown} is no notebook that vtrain can run: {why}.")


def source_of(file: Path, shown: str) -> bytes:
    """The bytes of a Python file; those of a notebook's cells, one below the other.

    Raises as `notebook_cells` does, and OSError.
    """
    if file.suffix != SUFFIX:
        return file.read_bytes()
    return "".join(f"{cell.text}\n" for cell in notebook_cells(file, shown)).encode("utf-8", "replace")


def place_in(file: Path, shown: str, line: int) -> str:
    """The place of a line of `source_of`: `train.py:3`, or `train.ipynb, cell 2:1`."""
    if file.suffix == SUFFIX:
        for cell in notebook_cells(file, shown):
            if line <= (lines := cell.text.count("\n") + 1):
                return f"{shown}, cell {cell.number}:{line}"
            line -= lines
    return f"{shown}:{line}"


def left_out_of(file: Path, shown: str) -> list[str]:
    """A sentence for each line of a notebook that only IPython runs."""
    cells = notebook_cells(file, shown) if file.suffix == SUFFIX else ()
    return [
        f"{shown}, cell {cell.number}: `{line}` is left out, as IPython alone runs it"
        for cell in cells
        for line in cell.left_out
    ]


def started(path: str) -> str:
    """The file that Python starts to run a program of the package: a notebook has one of its own."""
    return f"{path}.py" if path.endswith(SUFFIX) else path


def runners(path: str, top: str = "") -> list[Member]:
    """The file beside a notebook that runs it, below a `top` folder; none for any other program."""
    if not path.endswith(SUFFIX):
        return []
    content = Path(notebook.__file__).read_bytes()
    return [Member(name=top + started(path), content=content, digest=content_digest(content))]
