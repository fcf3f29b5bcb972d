"""The page about fidelity and the code agree on places in the code, and on fields that are not reproduced."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise

from snippets import ROOT

from vtrain.runtime.notices import PROCESS_POOL_FIELDS, SPEC_FIELDS

PAGE = (ROOT / "docs" / "reference" / "fidelity.md").read_text(encoding="utf-8")
PLACE = re.compile(r"`(vtrain\.[a-z_.]+)\.(\w+)`")
UNSURE = re.compile(r"not\s+documented|inferred", re.IGNORECASE)
ELSEWHERE = {"scheduling.strategy", "scheduling.maxWaitDuration", "encryptionSpec"}
"""Fields that neither of the lists of names holds."""


def rows(heading: str) -> list[list[str]]:
    """The cells of a section's table."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def unsure_constants() -> Iterator[str]:
    """Every constant of the engine, and of the plug, whose text says that nobody has documented it."""
    folders = ("runtime", "runtime/replica", "backends")
    files = [path for folder in folders for path in (ROOT / "vtrain" / folder).glob("*.py")]
    for path in sorted(files):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for assignment, text in pairwise(body):
            targets = getattr(assignment, "targets", None) or [getattr(assignment, "target", None)]
            is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            if isinstance(targets[0], ast.Name) and is_text and UNSURE.search(str(text.value.value)):
                yield f"{module}.{targets[0].id}"


def test_the_places_that_the_page_names_are_there() -> None:
    named = PLACE.findall(PAGE)
    assert len(named) > 20
    assert [f"{module}.{name}" for module, name in named if not hasattr(import_module(module), name)] == []


def test_every_constant_that_is_unsure_is_on_the_page() -> None:
    found = list(unsure_constants())
    assert "vtrain.runtime.replica.vertex_view.MASTER_PORT" in found
    assert [name for name in found if f"`{name}`" not in PAGE] == []


def test_every_rule_that_is_unsure_names_its_place() -> None:
    for heading in ("What a replica sees", "How a job ends", "Hardware"):
        assert len(rows(heading)) >= 5
        for rule, sure, _, place in rows(heading):
            assert bool(PLACE.search(place)) or not UNSURE.search(sure), rule


def test_what_is_not_reproduced_is_explained_field_by_field() -> None:
    told = {field for row in rows("What is not reproduced") for field in re.findall(r"`([\w.]+)`", row[0])}
    assert told == {*SPEC_FIELDS, *PROCESS_POOL_FIELDS, *ELSEWHERE}
