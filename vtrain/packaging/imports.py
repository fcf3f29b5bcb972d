"""Will the trainer's imports be there? A look at the statements that run when its modules load."""

from __future__ import annotations

import ast
import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from vtrain.errors import PackagingError
from vtrain.packaging.archive import import_names, metadata_name, requires_dist
from vtrain.packaging.distributions import candidates, known_distribution, may_bring, with_brought_along
from vtrain.packaging.preflight import parse
from vtrain.packaging.requirements import canonical, distribution_name

if TYPE_CHECKING:
    from vtrain.packaging.plan import SdistPlan

_IMPORT_GUARDS = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


class Import(msgspec.Struct, frozen=True, kw_only=True):
    """One import statement: `module` must exist; each of `members` may be a module in it."""

    line: int
    module: str
    members: tuple[str, ...] = ()
    is_relative: bool = False

    @property
    def dotted_members(self) -> tuple[str, ...]:
        return tuple(f"{self.module}.{member}" for member in self.members)


def missing_imports(plan: SdistPlan, provided: frozenset[str]) -> tuple[str, ...]:
    """A sentence for each import, reachable from the entry module, that nothing is known to provide."""
    if plan.project is not None and plan.project.dependencies is None:
        return ()
    modules = _Modules(plan)
    brought, own_names = _extra_contents(plan)
    named = frozenset(map(distribution_name, plan.requirements)) | provided | brought
    available = with_brought_along(named)
    seen: dict[str, str] = {}
    for path, item in _reachable(plan, modules):
        problem = _problem(path, item, modules, available, own_names, plan.pep517)
        if problem and item.module not in seen:
            seen[item.module] = f"{path}:{item.line}: {problem}"
    return tuple(seen.values())


def certain_imports(plan: SdistPlan) -> frozenset[str]:
    """The modules that surely are imported when the entry module loads, and the names taken from them."""
    return frozenset(
        name for _, item in _reachable(plan, _Modules(plan)) for name in (item.module, *item.dotted_members)
    )


def running_imports(tree: ast.Module) -> Iterator[Import]:
    """The absolute imports of one file that surely run when it is loaded."""
    return (item for item in _running(tree.body, (), is_entry=True) if not item.is_relative)


def _extra_contents(plan: SdistPlan) -> tuple[frozenset[str], frozenset[str]]:
    """Distributions and import names that the extra packages bring."""
    distributions: set[str] = set()
    names: set[str] = set()
    for extra in plan.extra_packages:
        # pip also installs a source archive without metadata; nothing is known of it before.
        with contextlib.suppress(PackagingError):
            names.update(import_names(extra.path))
            distributions.add(canonical(metadata_name(extra.path)))
            distributions.update(map(distribution_name, requires_dist(extra.path) or ()))
    return frozenset(distributions), frozenset(names)


class _Modules:
    """The package's own modules, as an import from the entry module finds them."""

    def __init__(self, plan: SdistPlan) -> None:
        self.files = frozenset(file.path for file in plan.files)
        self.roots = tuple(dict.fromkeys((plan.entry.root, *(("", "src") if plan.project else ()))))
        self.compiled = {_without_suffixes(path) for path in self.files if path.endswith((".so", ".pyd"))}
        self.folders = {path[:end] for path in self.files for end, letter in enumerate(path) if letter == "/"}

    def is_local(self, top: str) -> bool:
        return any(self._kind(root, top) for root in self.roots)

    def exists(self, module: str) -> bool:
        return any(self._kind(root, module) for root in self.roots)

    def files_of(self, module: str) -> Iterator[str]:
        """The files that importing the module runs, its parents' first."""
        parts = module.split(".")
        for root in self.roots:
            for depth in range(1, len(parts) + 1):
                base = "/".join(filter(None, (root, *parts[:depth])))
                for path in (f"{base}/__init__.py", f"{base}.py"):
                    if path in self.files:
                        yield path

    def _kind(self, root: str, module: str) -> bool:
        base = "/".join(filter(None, (root, *module.split("."))))
        return f"{base}.py" in self.files or base in self.folders or base in self.compiled

    def sibling(self, path: str, top: str) -> str:
        """The package of a module that a file imports by its bare name: the nearest, or the only one."""
        package = self.package_of(path)
        around = [package[:length] for length in range(len(package), 0, -1)]
        everywhere = {self.package_of(file) for file in self._files_named(top)}
        places = [*around, *(everywhere if len(everywhere) == 1 else ())]
        found = (".".join(place) for place in places if all(part.isidentifier() for part in place))
        return next((place for place in found if place and self.exists(f"{place}.{top}")), "")

    def _files_named(self, top: str) -> Iterator[str]:
        for path in self.files:
            if path.endswith((f"/{top}.py", f"/{top}/__init__.py")):
                yield path.removesuffix("/__init__.py")

    def package_of(self, path: str) -> tuple[str, ...]:
        """The package in which a file's relative imports start."""
        fitting = [root for root in self.roots if not root or path.startswith(f"{root}/")]
        root = max(fitting, key=len, default="")
        below = path[len(root) :].lstrip("/")
        return tuple(below.split("/")[:-1])


def _without_suffixes(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{name.partition('.')[0]}"


def _reachable(plan: SdistPlan, modules: _Modules) -> Iterator[tuple[str, Import]]:
    module = plan.source.python_module
    if not plan.entry.path.endswith(".py"):
        return
    first = [*modules.files_of(module), plan.entry.path] if module else [plan.entry.path]
    waiting = list(dict.fromkeys(first))
    done: set[str] = set()
    while waiting:
        path = waiting.pop(0)
        if path in done:
            continue
        done.add(path)
        for item in _imports_of(plan, path, modules.package_of(path)):
            yield path, item
            waiting.extend(modules.files_of(item.module))
            for member in item.dotted_members:
                waiting.extend(modules.files_of(member))


def _imports_of(plan: SdistPlan, path: str, package: tuple[str, ...]) -> list[Import]:
    try:
        tree = parse(plan.source.folder, path)
    except (SyntaxError, ValueError):
        return []
    return list(_running(tree.body, package, is_entry=path == plan.entry.path))


def _running(body: Iterable[ast.stmt], package: tuple[str, ...], *, is_entry: bool) -> Iterator[Import]:
    """Imports among the statements that surely run; not in functions, other branches, or guards."""
    for node in body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(line=node.lineno, module=alias.name)
        elif isinstance(node, ast.ImportFrom):
            yield from _from_import(node, package)
        else:
            yield from _running(_certain_blocks(node, is_entry), package, is_entry=is_entry)


def _from_import(node: ast.ImportFrom, package: tuple[str, ...]) -> Iterator[Import]:
    base = package[: len(package) - node.level + 1] if node.level else ()
    module = ".".join((*base, *(node.module or "").split("."))).strip(".")
    if module:
        members = tuple(alias.name for alias in node.names if alias.name != "*")
        yield Import(line=node.lineno, module=module, members=members, is_relative=node.level > 0)


def _certain_blocks(node: ast.stmt, is_entry: bool) -> list[ast.stmt]:
    if isinstance(node, ast.ClassDef):
        return node.body
    if isinstance(node, ast.With):
        return [] if any("suppress" in ast.dump(item.context_expr) for item in node.items) else node.body
    if isinstance(node, ast.Try):
        guarded = any(_guards_import(handler) for handler in node.handlers)
        return [*([] if guarded else [*node.body, *node.orelse]), *node.finalbody]
    if isinstance(node, ast.If) and is_entry and _is_main_test(node.test):
        return node.body
    return []


def _guards_import(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    names = {getattr(part, "id", getattr(part, "attr", "")) for part in ast.walk(handler.type)}
    return bool(names & _IMPORT_GUARDS)


def _is_main_test(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and getattr(test.left, "id", "") == "__name__"


def _problem(
    path: str,
    item: Import,
    modules: _Modules,
    available: frozenset[str],
    own_names: frozenset[str],
    compiled: bool,
) -> str:
    top = item.module.split(".")[0]
    if top in sys.stdlib_module_names or top in own_names:
        return ""
    if modules.is_local(top):
        found = compiled or modules.exists(item.module)
        return "" if found else f"the package has no module `{item.module}`"
    tries = item.dotted_members or (item.module,)
    names = [name for tried in tries for name in candidates(tried)]
    if available.intersection(names) or available.intersection(candidates(item.module)):
        return ""
    if package := modules.sibling(path, top):
        return (
            f"nothing provides the import `{top}`; it is a module of {package}: {_qualified(item, package)}"
        )
    brings = next(filter(None, map(known_distribution, tries)), "")
    if not brings and any(may_bring(name, item.module) for name in available):
        return ""
    shown = item.module if top == "google" else top
    advice = f"add {brings}" if brings else "add the distribution that brings it"
    return f"nothing provides the import `{shown}`; {advice} to requirements"


def _qualified(item: Import, package: str) -> str:
    """The import statement as Python finds the module in its package."""
    if item.members:
        return f"write `from {package}.{item.module} import {', '.join(item.members)}`"
    if "." in item.module:
        return f"write `import {package}.{item.module}`"
    return f"write `from {package} import {item.module}`"
