"""The imports of a trainer, from its entry module on: which run for certain, and which may.

The files are other people's: the amount that is read is bounded, and the time grows with their size alone.
"""

from __future__ import annotations

import ast
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import msgspec

LARGEST_SOURCE = 4 * 1000 * 1000
"""Bytes of a Python file that is read for its imports."""
MOST_SOURCE = 8 * 1000 * 1000
"""Bytes of all the files that are followed from one entry module."""
LONGEST_NAME = 400
"""Letters of a dotted name; no file and no distribution is called by more."""
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""The errors that `ast` raises for text that is no Python, or that is nested too deeply for it."""

_IMPORT_GUARDS = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_BLOCKS = ("body", "orelse", "finalbody")


class Import(msgspec.Struct, frozen=True, kw_only=True):
    """One import statement: `module` must exist; each of `members` may be a module in it.

    It `is_certain` where loading the entry module runs it: not in a function, a branch or a guarded block.
    """

    path: str = ""
    line: int
    module: str
    members: tuple[str, ...] = ()
    is_relative: bool = False
    is_certain: bool = True

    @property
    def dotted_members(self) -> tuple[str, ...]:
        return tuple(f"{self.module}.{member}" for member in self.members)

    @property
    def names(self) -> tuple[str, ...]:
        """The module, and what may be modules in it."""
        return (self.module, *self.dotted_members)


class Modules(msgspec.Struct, frozen=True, dict=True):
    """The modules among some files, as an import from an entry module finds them below `roots`."""

    files: frozenset[str]
    roots: tuple[str, ...]

    @cached_property
    def _compiled(self) -> frozenset[str]:
        return frozenset(_without_suffixes(path) for path in self.files if path.endswith((".so", ".pyd")))

    @cached_property
    def _folders(self) -> set[str]:
        """All folders that hold a file, at whatever depth."""
        found: set[str] = set()
        for path in self.files:
            folder = path.rpartition("/")[0]
            while folder and folder not in found:
                found.add(folder)
                folder = folder.rpartition("/")[0]
        return found

    @cached_property
    def _packages(self) -> dict[str, set[tuple[str, ...]]]:
        """The packages that hold a module of each name."""
        found: dict[str, set[tuple[str, ...]]] = {}
        for path in self.files:
            module = path.removesuffix("/__init__.py").removesuffix(".py")
            if module != path and "/" in module:
                found.setdefault(module.rpartition("/")[2], set()).add(self.package_of(module))
        return found

    def exists(self, module: str) -> bool:
        """Whether a dotted name is one of the files' own modules."""
        bases = ("/".join(filter(None, (root, *module.split(".")))) for root in self.roots)
        return any(
            f"{base}.py" in self.files or base in self._folders or base in self._compiled for base in bases
        )

    def files_of(self, module: str) -> Iterator[str]:
        """The files that importing the module runs, its parents' first."""
        parts = module.split(".")
        for root in self.roots:
            base = root
            for part in parts:
                base = f"{base}/{part}" if base else part
                yield from (path for path in (f"{base}/__init__.py", f"{base}.py") if path in self.files)

    def homes(self, top: str) -> tuple[str, ...]:
        """The folders in which a name is a Python file, or a folder with some; the uppermost first."""
        found: set[str] = set()
        for path in self.files:
            if path.endswith(".py") and top in path:
                *folders, name = path.split("/")
                ends = [n for n, folder in enumerate(folders) if folder == top]
                ends += [len(folders)] if name == f"{top}.py" else []
                found.update("/".join(folders[:end]) for end in ends)
        return tuple(sorted(found, key=lambda home: (bool(home), home.count("/"), home)))

    def sibling(self, path: str, top: str) -> str:
        """The package of a module that a file imports by its bare name: the nearest, or the only one."""
        package = self.package_of(path)
        around = [package[:length] for length in range(len(package), 0, -1)]
        everywhere = self._packages.get(top, set())
        places = [*around, *(everywhere if len(everywhere) == 1 else ())]
        found = (".".join(place) for place in places if all(part.isidentifier() for part in place))
        return next((place for place in found if place and self.exists(f"{place}.{top}")), "")

    def package_of(self, path: str) -> tuple[str, ...]:
        """The package in which a file's relative imports start."""
        fitting = [root for root in self.roots if not root or path.startswith(f"{root}/")]
        root = max(fitting, key=len, default="")
        below = path[len(root) :].lstrip("/")
        return tuple(below.split("/")[:-1])


def _without_suffixes(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{name.partition('.')[0]}"


class TrainerImports(msgspec.Struct, frozen=True, kw_only=True):
    """A trainer's imports, from its entry module on, and its own modules.

    Its files are in `folder` (empty: in an archive). `entry` is the one that starts it, and `script` the same
    where it starts as a script. Packages beside it bring the import names `own_names` and the distributions
    `brought`; with `all_known` it is known what all requirements bring. With `has_build` a build may add
    modules; with `changes_path` a file names `sys.path`. With `in_pool_spec` the command line names the
    trainer in --worker-pool-spec.
    """

    imports: tuple[Import, ...]
    modules: Modules
    folder: str = ""
    own_names: frozenset[str] = frozenset()
    brought: frozenset[str] = frozenset()
    all_known: bool = True
    entry: str = ""
    script: str = ""
    has_build: bool = False
    changes_path: bool = False
    in_pool_spec: bool = False

    @property
    def names(self) -> frozenset[str]:
        """Every dotted name that is imported, or may be."""
        return frozenset(name for item in self.imports for name in item.names)


class _ImportWalk:
    """The files that imports lead to, each read once: first along imports that run for certain."""

    # In this order the limit of MOST_SOURCE leaves out what matters least.

    def __init__(self, modules: Modules, read: Callable[[str], bytes], entry: str) -> None:
        self._modules = modules
        self._read = read
        self._entry = entry
        self._left = MOST_SOURCE
        self._done: set[str] = set()
        self._later: deque[str] = deque()

    def imports(self, first: Iterable[str]) -> Iterator[Import]:
        yield from self._follow(deque(first), is_certain=True)
        yield from self._follow(self._later, is_certain=False)

    def _follow(self, waiting: deque[str], *, is_certain: bool) -> Iterator[Import]:
        while waiting and self._left > 0:
            path = waiting.popleft()
            if path in self._done:
                continue
            self._done.add(path)
            for item in self._imports_of(path):
                surely = is_certain and item.is_certain
                yield item if surely == item.is_certain else msgspec.structs.replace(item, is_certain=False)
                ahead = waiting if surely or not is_certain else self._later
                for name in item.names:
                    ahead.extend(file for file in self._modules.files_of(name) if file not in self._done)

    def _imports_of(self, path: str) -> list[Import]:
        source = self._read(path)
        self._left -= len(source)
        if b"import" not in source or len(source) > LARGEST_SOURCE:
            return []
        try:
            tree = parse(source)
        except UNREADABLE:
            return []
        package = self._modules.package_of(path)
        return sorted(
            imports_of(tree, path, package, is_entry=path == self._entry), key=lambda item: item.line
        )


def reached_imports(
    modules: Modules, read: Callable[[str], bytes], entry: str, python_module: str = ""
) -> tuple[Import, ...]:
    """The imports of the entry file and of each file that they lead to, those that surely run first.

    `read` gives the bytes of one of the files. Files that are no Python import nothing here.
    """
    if not entry.endswith((".py", ".ipynb")):
        return ()
    first = [*(modules.files_of(python_module) if python_module else ()), entry]
    return tuple(_ImportWalk(modules, read, entry).imports(first))


def parse(source: bytes | str) -> ast.Module:
    """The syntax tree of a file, without the warnings Python would print. Raises one of `UNREADABLE`."""
    # No file is named: Python would take an error's line from one of that name in the current folder.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def imports_of(
    tree: ast.Module, path: str = "", package: tuple[str, ...] = (), *, is_entry: bool = True
) -> Iterator[Import]:
    """The imports of one file, in no order; relative ones only where its package is known."""
    waiting: list[tuple[list[ast.stmt], bool]] = [(tree.body, True)]
    while waiting:
        body, is_certain = waiting.pop()
        for node in body:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if len(alias.name) <= LONGEST_NAME:
                        yield Import(path=path, line=node.lineno, module=alias.name, is_certain=is_certain)
            elif isinstance(node, ast.ImportFrom):
                yield from _from_import(node, path, package, is_certain)
            else:
                surely = _certain_blocks(node, is_entry) if is_certain else ()
                waiting += [(block, block in surely) for block in _blocks(node)]


def _from_import(
    node: ast.ImportFrom, path: str, package: tuple[str, ...], is_certain: bool
) -> Iterator[Import]:
    base = package[: max(len(package) - node.level + 1, 0)] if node.level else ()
    module = ".".join((*base, *(node.module or "").split("."))).strip(".")
    if not module:  # `from . import model` beside no package: the neighbours themselves
        for alias in node.names:
            if alias.name != "*" and len(alias.name) <= LONGEST_NAME:
                yield Import(
                    path=path, line=node.lineno, module=alias.name, is_relative=True, is_certain=is_certain
                )
    elif len(module) <= LONGEST_NAME:
        members = (alias.name for alias in node.names if alias.name != "*")
        yield Import(
            path=path,
            line=node.lineno,
            module=module,
            members=tuple(member for member in members if len(member) <= LONGEST_NAME),
            is_relative=node.level > 0,
            is_certain=is_certain,
        )


def _blocks(node: ast.stmt) -> list[list[ast.stmt]]:
    """The blocks of statements in a compound statement."""
    parts = [node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())]
    return [
        block for part in parts for name in _BLOCKS if isinstance(block := getattr(part, name, None), list)
    ]


def _certain_blocks(node: ast.stmt, is_entry: bool) -> list[list[ast.stmt]]:
    """The blocks of a statement that certainly run when the statement runs."""
    if isinstance(node, ast.ClassDef):
        return [node.body]
    if isinstance(node, ast.With):
        contexts = (name for item in node.items for name in _names(item.context_expr))
        return [] if any("suppress" in name for name in contexts) else [node.body]
    if isinstance(node, ast.Try):
        guarded = any(each.type is None or _names(each.type) & _IMPORT_GUARDS for each in node.handlers)
        return [*([] if guarded else [node.body, node.orelse]), node.finalbody]
    if isinstance(node, ast.If) and is_entry and isinstance(node.test, ast.Compare):
        return [node.body] if getattr(node.test.left, "id", "") == "__name__" else []
    return []


def _names(expression: ast.expr) -> set[str]:
    """The names and attributes in an expression."""
    return {getattr(part, "id", getattr(part, "attr", "")) for part in ast.walk(expression)}
