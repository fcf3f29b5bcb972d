"""The house as designed: floors, no cycles, guests only where they belong, short functions, one door out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import vtrain

ROOT = Path(vtrain.__file__).parent
FILES = {".".join(p.relative_to(ROOT.parent).with_suffix("").parts): p for p in sorted(ROOT.rglob("*.py"))}
MODULES = {name.removesuffix(".__init__"): path for name, path in FILES.items() if ".payload" not in name}
FLOORS = (
    "atomic errors messages privacy",
    "engine packaging containers staging failure settings properties output http_limits http_adapter",
    "backends",
    "verdict submit follow images leftovers testing emulator",
    "cli __main__ commands flags command_log output.console output.card output.sinks output.terminal",
)
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms.split()}
GUESTS = {
    "typer": ("cli", "flags", "commands"),
    "rich": ("output.console", "output.terminal"),
    "yaml": ("messages.yaml_reader",),
    "pathspec": ("packaging",),
    "build": ("packaging", "engine.environments.wheels"),
    "click": (),
    "starlette": ("emulator",),
    "uvicorn": ("emulator",),
    "anyio": ("emulator",),
    "google_crc32c": ("emulator", "staging"),
    "google": ("backends.vertex", "staging"),
    "docker": ("containers", "backends.docker"),
    "requests": ("http_adapter", "containers", "backends.docker", "backends.vertex", "staging"),
}
OWN_PROGRAMS = (
    "__main__",
    "emulator.storage.serve_job",
    "engine.shim",
    "engine.supervisor",
    "engine.launcher",
)
LONGEST_FUNCTION = 60


def imports(name: str) -> Iterator[tuple[str, int]]:
    """Every module that a module imports, wherever in it, and the line."""
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}:{node.lineno} imports relatively"
            source = str(node.module)
            for alias in node.names:
                below = f"{source}.{alias.name}"
                yield (below if below in MODULES or source == "vtrain" else source), node.lineno


def place(module: str, table: dict[str, int] = FLOOR_OF) -> str:
    """The longest entry of the table that a module of vtrain lies in."""
    own = module.removeprefix("vtrain.")
    found = [entry for entry in table if own == entry or own.startswith(entry + ".")]
    assert found, f"{module} stands on no floor: add it to FLOORS"
    return max(found, key=len)


def inner_imports(name: str) -> list[tuple[str, int]]:
    return [(target, line) for target, line in imports(name) if target.startswith("vtrain.")]


@pytest.mark.parametrize("name", [name for name in MODULES if name != "vtrain"])
def test_a_module_imports_only_from_its_own_floor_or_below(name: str) -> None:
    for target, line in imports(name):
        if target == "vtrain" or target == "vtrain.__version__":
            continue
        if target.startswith("vtrain."):
            assert target in MODULES, f"{name}:{line} takes {target} from the package root"
            assert FLOOR_OF[place(target)] <= FLOOR_OF[place(name)], f"{name}:{line} reaches up to {target}"
        else:
            allowed = GUESTS.get(target.partition(".")[0])
            own = name.removeprefix("vtrain.")
            welcome = allowed is None or any(own == room or own.startswith(room + ".") for room in allowed)
            assert welcome, f"{name}:{line} imports {target}"


def test_rooms_do_not_import_each_other_in_a_circle() -> None:
    edges: dict[str, set[str]] = {}
    for name in MODULES.keys() - {"vtrain"}:
        targets = {place(t) for t, _ in inner_imports(name) if t in MODULES}
        edges.setdefault(place(name), set()).update(targets - {place(name)})
    while leaves := [room for room, targets in edges.items() if not targets & edges.keys()]:
        for room in leaves:
            del edges[room]
    assert not edges, f"a cycle among {edges}"


@pytest.mark.parametrize("name", MODULES)
def test_functions_are_short_and_only_the_door_exits(name: str) -> None:
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{name}:{node.lineno} {node.name} has {length} lines"
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("sys.exit", "exit", "SystemExit"):
            assert name.removeprefix("vtrain.") in OWN_PROGRAMS, f"{name}:{node.lineno} exits"
