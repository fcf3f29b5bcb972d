"""Names that an editor's tabs and a search can tell apart, and words that the vocabulary does not have."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
TWO_APIS = {"ParameterSpec", "Scheduling"}
"""Messages of Vertex AI and of AI Platform: each API has one of that name, and errors name it."""
WORDS = re.compile(
    r"\b(told|heed(s|ed)?|unheeded|whoever|borne|forsaken?|outlook|manners?|staying|what is no)\b",
    re.IGNORECASE,
)
"""Words for which there is a usual one: message, used, ignored, anyone, "anything that is not X"."""


def test_no_class_name_stands_twice() -> None:
    places = defaultdict(list)
    for path in sorted((ROOT / "vtrain").rglob("*.py")):
        for name in CLASS.findall(path.read_text(encoding="utf-8")):
            places[name].append(path.relative_to(ROOT).as_posix())
    twice = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert {name: twice[name] for name in twice.keys() - TWO_APIS} == {}


def test_no_file_name_stands_twice() -> None:
    places = defaultdict(list)
    for path in sorted((ROOT / "vtrain").rglob("*.py")):
        if path.name != "__init__.py":
            places[path.name].append(path.relative_to(ROOT).as_posix())
    twice = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert twice == {}


def test_sources_and_docs_use_the_usual_words() -> None:
    pages = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in (
            *sorted((ROOT / "vtrain").rglob("*.py")),
            *pages,
            *sorted((ROOT / "examples").rglob("*.py")),
        )
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for match in WORDS.finditer(line)
    ]
    assert not found, "\n".join(found)
