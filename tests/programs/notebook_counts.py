"""What the training notebooks call, as `count_methods.py` found it, and what the emulator answers of that."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from lib.api_methods import ROWS

_DATA = json.loads(Path(__file__).with_name("notebooks.json").read_text(encoding="utf-8"))
NOTEBOOKS: dict[str, frozenset[str]] = {
    f"{source.partition('@')[0]}/{path}": frozenset(_DATA["methods"][int(one)] for one in found.split())
    for source, paths in _DATA["notebooks"].items()
    for path, found in paths.items()
}
"""The methods of each notebook, as `JobService.CreateCustomJob`, and its behaviours, which have no dot."""
CALLED = Counter(one for found in NOTEBOOKS.values() for one in found if "." in one)
"""How many notebooks call each method."""
BEHAVIOURS = Counter(one for found in NOTEBOOKS.values() for one in found if "." not in one)
ANSWERED = {f"{service}.{method.rpc}" for service, _, method in ROWS}
"""The methods of the emulator's own table."""
MISSING = {path: found & CALLED.keys() - ANSWERED for path, found in NOTEBOOKS.items()}
"""The methods of each notebook that the emulator does not answer."""


def by_notebooks_won() -> list[tuple[int, tuple[str, ...]]]:
    """Methods that are missing together, with the number of notebooks that lack these and no other."""
    sets = Counter(tuple(sorted(missing)) for missing in MISSING.values() if missing)
    return sorted(
        ((number, methods) for methods, number in sets.items()), key=lambda each: (-each[0], each[1])
    )
