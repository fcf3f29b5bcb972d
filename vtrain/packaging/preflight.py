"""Checks of a trainer before it is built: its syntax, and its imports that nothing provides.

Only statements that run when a module is loaded count. The answer follows from the trainer and from what is
said to be provided, never from what is installed beside vtrain or was built before.
"""

from __future__ import annotations

import contextlib
import sys
import unicodedata
from importlib.util import decode_source
from pathlib import Path

import msgspec

from vtrain.errors import PackagingError
from vtrain.packaging.archive import import_names, metadata_name, requires_dist
from vtrain.packaging.distributions import (
    candidates,
    installed_distribution,
    known_distribution,
    may_bring,
    with_brought_along,
)
from vtrain.packaging.module_imports import (
    LARGEST_SOURCE,
    Import,
    Modules,
    TrainerImports,
    parse,
    reached_imports,
)
from vtrain.packaging.sdist_plan import SdistPlan, check_no_credentials
from vtrain.packaging.source import Entry, printable
from vtrain.project_names import canonical, distribution_name

_HERE = ".".join(map(str, sys.version_info[:2]))
_PYTHON = sys.stdlib_module_names | {"__main__", "test"}
"""The modules of Python itself; its own list leaves those two out."""
_ENTRIES = frozenset(("__main__", "setup", "test"))
"""Names that people give to their files, and nobody imports of Python or of a distribution."""
_WIDEST = 100
"""Characters of a line that are shown below a syntax error."""
MOST_UNKNOWN = 100
"""Imports of one trainer that are looked into because nothing in the tables provides them."""


class MissingImport(msgspec.Struct, frozen=True, kw_only=True):
    """An import that surely runs and that nothing is known to provide.

    `advice` says what to add; a `fault` is wrong with the import itself, whatever is installed.
    """

    item: Import
    place: str
    shown: str
    advice: str = ""
    fault: str = ""

    @property
    def sentence(self) -> str:
        """The warning where nothing at all provides it."""
        return f"{self.place}: {self.fault or f'nothing provides the import `{self.shown}`; {self.advice}'}"


def trainer_imports(plan: SdistPlan) -> TrainerImports:
    """The imports of the trainer in a folder."""
    roots = (plan.entry.root, *(("", "src") if plan.project else ()))
    modules = Modules(frozenset(file.path for file in plan.files), tuple(dict.fromkeys(roots)))
    brought, own_names = _extra_contents(plan)

    def read(path: str) -> bytes:
        return (plan.source.folder / path).read_bytes()

    return TrainerImports(
        imports=reached_imports(modules, read, plan.entry.path, plan.source.python_module),
        modules=modules,
        folder=str(plan.source.folder),
        own_names=own_names,
        brought=brought,
        script=plan.entry.path if plan.source.script else "",
        has_build=plan.pep517,
    )


def _extra_contents(plan: SdistPlan) -> tuple[frozenset[str], frozenset[str]]:
    """Distributions and import names that the extra packages bring."""
    distributions: set[str] = set()
    names: set[str] = set()
    for extra in plan.extra_packages:
        # pip also installs a source archive without metadata, whose contents are not known before.
        with contextlib.suppress(PackagingError):
            names.update(import_names(extra.path))
            distributions.add(canonical(metadata_name(extra.path)))
            distributions.update(map(distribution_name, requires_dist(extra.path) or ()))
    return frozenset(distributions), frozenset(names)


def place_of(item: Import, trainer: TrainerImports) -> str:
    """`examples/trainer/task.py:3`, from the current folder."""
    path = shown_path(Path(trainer.folder, item.path)) if trainer.folder else item.path
    return f"{path}:{item.line}"


def missing_imports(trainer: TrainerImports, available: frozenset[str]) -> tuple[MissingImport, ...]:
    """The imports that the distributions of these canonical names do not provide, once each."""
    found: dict[str, MissingImport] = {}
    unknown: set[str] = set()
    for item in trainer.imports:
        if not item.is_certain or item.module in unknown or _is_provided(item, trainer, available):
            continue
        unknown.add(item.module)
        missing = _missing(item, trainer, available)
        if missing is not None:
            found.setdefault(missing.fault or missing.shown, missing)
        if len(unknown) == MOST_UNKNOWN:
            break
    return tuple(found.values())


def _is_provided(item: Import, trainer: TrainerImports, available: frozenset[str]) -> bool:
    """Whether Python itself, the trainer or a distribution that is known to bring it provides an import."""
    if _is_in_script(item, trainer):
        return False
    top = item.module.split(".")[0]
    if top in _PYTHON or top in trainer.own_names:
        return True
    if trainer.modules.is_local(top):
        return trainer.has_build or trainer.modules.exists(item.module)
    return any(name in available for tried in item.names for name in candidates(tried))


def _is_in_script(item: Import, trainer: TrainerImports) -> bool:
    """Whether it is a relative import of a script, which Python runs without a package."""
    return item.is_relative and item.path == trainer.script


def _missing(item: Import, trainer: TrainerImports, available: frozenset[str]) -> MissingImport | None:
    """The finding about an import that is not provided; None where a requirement's name resembles it."""
    top, place = item.module.split(".")[0], place_of(item, trainer)
    if _is_in_script(item, trainer):
        fault = f"a script belongs to no package: import `{item.module}` without dots, or give python-module"
        return MissingImport(item=item, place=place, shown=top, fault=fault)
    if trainer.modules.is_local(top):
        return MissingImport(
            item=item, place=place, shown=top, fault=f"the package has no module `{item.module}`"
        )
    if package := trainer.modules.sibling(item.path, top):
        advice = f"it is a module of {package}: {_qualified(item, package)}"
        return MissingImport(
            item=item, place=place, shown=top, fault=f"nothing provides the import `{top}`; {advice}"
        )
    tries = item.dotted_members or (item.module,)
    brings = next(filter(None, map(known_distribution, tries)), "")
    if not brings and any(may_bring(name, item.module) for name in available):
        return None
    shown = item.module if top == "google" else top
    brings = brings or installed_distribution(top)
    return MissingImport(
        item=item,
        place=place,
        shown=shown,
        advice=f"add {brings or 'the distribution that brings it'} to requirements",
    )


def hidden_modules(plan: SdistPlan, available: frozenset[str]) -> tuple[str, ...]:
    """Warnings about files that Python imports in place of a module of its own, or of a distribution.

    They lie in the folder that is first on its path: that of the script, or where the module begins.
    """
    beside = f"{plan.entry.root}/" if plan.entry.root else ""
    found = []
    for file in plan.files:
        name = file.path.removeprefix(beside).removesuffix(".py")
        if not (file.path.startswith(beside) and file.path.endswith(".py") and name.isidentifier()):
            continue
        distribution = next((each for each in candidates(name) if each in available), "")
        owner = "Python's own module" if name in sys.stdlib_module_names else distribution
        if owner and name not in _ENTRIES:
            shown = shown_path(plan.source.folder / file.path)
            found.append(f"{shown} hides {owner}, as `import {name}` finds this file; rename it")
    return tuple(found)


def _qualified(item: Import, package: str) -> str:
    """The import statement as Python finds the module in its package."""
    if item.members:
        return f"write `from {package}.{item.module} import {', '.join(item.members)}`"
    if "." in item.module:
        return f"write `import {package}.{item.module}`"
    return f"write `from {package} import {item.module}`"


def check_syntax(folder: Path, entry: Entry) -> None:
    """Refuse an entry module that Python cannot compile: file, line, the line itself. Shell scripts pass."""
    if not entry.path.endswith(".py"):
        return
    source = (folder / entry.path).read_bytes()
    if len(source) > LARGEST_SOURCE:
        return
    shown = shown_path(folder / entry.path)
    try:
        parse(decode_source(source))  # in bytes, Python before 3.13 would count columns in bytes too
    except SyntaxError as error:
        excerpt = "".join(f"\n    {line}" for line in _excerpt(error))
        end = "" if error.msg.endswith("?") else "."
        raise PackagingError(f"{shown}:{error.lineno or 1}: {error.msg}{end}{excerpt}") from None
    except (ValueError, LookupError) as error:  # the second for `# coding: hex`, which is no text's
        raise PackagingError(f"{shown}:1: {error}.") from None
    except (RecursionError, MemoryError):
        raise PackagingError(f"{shown}:1: Python cannot compile this: it is nested too deeply.") from None


def shown_path(path: Path) -> str:
    """The path from the current folder, as editors open it; the absolute one of a file elsewhere."""
    absolute = path.absolute()
    here = Path.cwd()
    return printable(str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute))


def _excerpt(error: SyntaxError) -> tuple[str, ...]:
    """The line of a syntax error, and carets below what is wrong in it; () where Python does not tell."""
    text, column = (error.text or "").rstrip("\r\n"), (error.offset or 0) - 1
    if not text.strip() or not 0 <= column <= len(text):
        return ()
    first = len(text) - len(text.lstrip())
    if column - first > _WIDEST:
        first = column - _WIDEST // 2
    end = (error.end_offset or 0) - 1 if error.end_lineno == error.lineno else len(text)
    line = _one_line(text[first : first + _WIDEST])
    before, marked = text[first:column], text[column : min(max(end, column + 1), first + _WIDEST)]
    return line, " " * _width(_one_line(before)) + "^" * max(_width(_one_line(marked)), 1)


def _one_line(text: str) -> str:
    """The text with a blank for each tab and each character that a terminal might obey."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _width(text: str) -> int:
    """The columns of a text on a terminal."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "FW" else 1
        for letter in text
    )


def with_preflight(
    plan: SdistPlan, provided: frozenset[str] | None, strict: bool, *, other_python: bool = False
) -> SdistPlan:
    """The plan with its imports, and a warning for each that nothing provides.

    With `strict` that is refused, and so are credentials in the folder. Nothing is warned of where it is not
    known what is `provided`. On `other_python` than vtrain's a syntax error is a warning.
    """
    check_no_credentials(plan.credentials, strict)
    doubts: tuple[str, ...] = ()
    try:
        check_syntax(plan.source.folder, plan.entry)
    except PackagingError as error:
        if not other_python:
            raise
        doubts = (f"{error.message}\n  Python {_HERE} says so; the trainer's own may be newer.",)
    imports = trainer_imports(plan)
    missing: tuple[str, ...] = ()
    named = frozenset(map(distribution_name, plan.requirements))
    available = with_brought_along(named | imports.brought | (provided or frozenset()))
    doubts += hidden_modules(plan, available)
    if provided is not None and (plan.project is None or plan.project.dependencies is not None):
        missing = tuple(each.sentence for each in missing_imports(imports, available))
    if missing and strict:
        raise PackagingError("\n".join(missing), hint="Without --strict this is a warning.")
    return msgspec.structs.replace(plan, imports=imports, warnings=(*plan.warnings, *doubts, *missing))
