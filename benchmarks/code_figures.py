"""Figures of the code: sizes, comments, private functions with one caller, and who imports what.

    python benchmarks/code_figures.py [FOLDER...]

Each FOLDER holds a `vtrain` package, by default the one of this project; each gets a column. To compare with
an older commit: git worktree add ../older COMMIT, and name both folders.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

TOLD_TO_TOOLS = re.compile(r"#\s*(noqa|type:|pragma|!)")


class Module:
    """A module's text and tree."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self.functions = [
            node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]

    def comment_lines(self) -> int:
        """Lines with a comment for a reader, alone or behind code."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return len(
            {
                token.start[0]
                for token in tokens
                if token.type == tokenize.COMMENT and not TOLD_TO_TOOLS.match(token.string)
            }
        )

    def callers(self) -> dict[str, int]:
        """How often the module mentions each of its private functions, other than where it is defined."""
        private = {function.name for function in self.functions if re.match(r"_[^_]", function.name)}
        mentions = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Name | ast.Attribute)
        )
        return {name: mentions[name] for name in private}

    def imports(self, known: set[str]) -> Iterator[str]:
        """The modules of the package that this one imports, anywhere in it."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names if alias.name in known)
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    below = f"{node.module}.{alias.name}"
                    yield from (name for name in (below if below in known else node.module,) if name in known)


def read(folder: Path) -> list[Module]:
    paths = sorted((folder / "vtrain").rglob("*.py"))
    if not paths:
        sys.exit(f"There is no vtrain package in {folder}.")
    dotted = (".".join(path.relative_to(folder).with_suffix("").parts) for path in paths)
    return [Module(name.removesuffix(".__init__"), path) for name, path in zip(dotted, paths, strict=True)]


def reachable(start: str, edges: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    pending = [start]
    while pending:
        new = edges[pending.pop()] - found
        found |= new
        pending.extend(new)
    return found


def cycles(edges: dict[str, set[str]]) -> list[frozenset[str]]:
    """The groups of modules that import each other, directly or by way of others."""
    below = {name: reachable(name, edges) for name in edges}
    groups = {
        frozenset(other for other in below[name] if name in below[other])
        for name in edges
        if name in below[name]
    }
    return sorted(groups, key=sorted)


def figures(modules: list[Module]) -> dict[str, str]:
    """What the table shows for one tree."""
    known = {module.name for module in modules}
    edges = {module.name: set(module.imports(known)) - {module.name, "vtrain"} for module in modules}
    importers = Counter(target for targets in edges.values() for target in targets)
    heights = [module.text.count("\n") for module in modules]
    lines = sum(heights)
    lengths = [(node.end_lineno or 0) - node.lineno + 1 for module in modules for node in module.functions]
    callers = [times for module in modules for times in module.callers().values()]
    once = sum(times == 1 for times in callers)
    comments = [module.comment_lines() for module in modules]
    found = cycles(edges)
    return {
        "files": f"{len(modules):,}",
        "lines": f"{lines:,}",
        "lines of a file, median": f"{statistics.median(heights):.0f}",
        "files over 400 lines": f"{sum(height > 400 for height in heights)}",
        "lines with a comment": f"1 in {lines / max(sum(comments), 1):.0f}",
        "functions": f"{len(lengths):,}",
        "lines of a function, median": f"{statistics.median(lengths):.0f}",
        "90th percentile": f"{statistics.quantiles(lengths, n=10)[-1]:.0f}",
        "longest": f"{max(lengths)}",
        "private functions": f"{len(callers):,}",
        "with one caller": f"{once:,} ({once / max(len(callers), 1):.0%})",
        "modules with one importer": f"{sum(times == 1 for times in importers.values())}",
        "cycles of modules": f"{len(found)} ({sum(map(len, found))} modules)",
    }


def main(folders: list[Path]) -> None:
    columns = [figures(read(folder)) for folder in folders]
    width = max(16, *(len(folder.name) + 2 for folder in folders))
    print(f"{'':28}" + "".join(f"{folder.name:>{width}}" for folder in folders))
    for title in columns[0]:
        print(f"{title:28}" + "".join(f"{column[title]:>{width}}" for column in columns))


if __name__ == "__main__":
    main([Path(name).resolve() for name in sys.argv[1:]] or [Path(__file__).resolve().parents[1]])
