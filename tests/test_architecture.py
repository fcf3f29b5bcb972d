"""The rules of the code: the contracts in pyproject.toml, no cycle of modules, short functions, one exit."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import grimp
import pytest
from importlinter.api import read_configuration

ROOT = Path(__file__).parents[1]
LONGEST_FUNCTION = 60


def test_imports_keep_the_contracts() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    argv = [linter, "--config", ROOT / "pyproject.toml", "--no-cache", "--no-logo"]
    linted = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_modules_do_not_import_each_other_in_a_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The contract compares siblings; a package's own `__init__` is not a sibling of its modules."""
    monkeypatch.syspath_prepend(ROOT)
    graph = grimp.build_graph("vtrain", cache_dir=None)
    (contract,) = (
        contract
        for contract in read_configuration(str(ROOT / "pyproject.toml"))["contracts_options"]
        if contract["type"] == "acyclic_siblings"
    )
    for known in contract.get("ignore_imports", ()):
        for edge in graph.find_matching_direct_imports(known):
            graph.remove_import(importer=edge["importer"], imported=edge["imported"])
    edges = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    while leaves := [module for module, targets in edges.items() if not targets & edges.keys()]:
        for module in leaves:
            del edges[module]
    assert not edges, f"a cycle among these, or below them: {sorted(edges)}"


def test_the_runtime_names_no_program_of_an_upper_layer() -> None:
    """A program that is started by its path is no import that the contracts could see."""
    runtime = ROOT / "vtrain" / "runtime"
    own = {path.name for path in runtime.rglob("*.py")}
    found = []
    for path in sorted(runtime.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
                continue
            text = node.value
            is_other = re.search(r"\w\.py$", text) and Path(text).name not in own
            if is_other or re.fullmatch(r"vtrain\.(?!runtime\b)[\w.]+", text):
                found.append(f"{path}:{node.lineno}: {text}")
    assert not found, "\n".join(found)


def test_functions_are_short_and_raise_no_exit() -> None:
    """ruff refuses sys.exit; it has no rule for SystemExit."""
    found = []
    for path in sorted((ROOT / "vtrain").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > LONGEST_FUNCTION:
                    found.append(f"{path}:{node.lineno}: {node.name} has {length} lines")
            if isinstance(node, ast.Raise) and node.exc and "SystemExit" in ast.unparse(node.exc):
                found.append(f"{path}:{node.lineno}: raise an error of vtrain.errors")
    assert not found, "\n".join(found)


def test_every_module_says_what_it_alone_is_for() -> None:
    """These sentences are the index of modules that docs/explanation/design.md names."""
    found: dict[str, list[Path]] = {}
    for path in sorted((ROOT / "vtrain").rglob("[!_]*.py")):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        found.setdefault(text.partition("\n")[0], []).append(path)
    assert [(text, paths) for text, paths in found.items() if len(text.split()) < 2 or len(paths) > 1] == []
