"""Checks of a trainer before it is built: its syntax, and its imports that nothing provides.

Only statements that run when a module is loaded count. The answer follows from the trainer and from what is
said to be provided, never from what is installed beside vtrain or was built before.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Iterable, Iterator
from importlib.util import decode_source
from itertools import product
from pathlib import Path

import msgspec

from vtrain.errors import PackagingError
from vtrain.packaging.archive import import_names, read_metadata
from vtrain.packaging.distributions import (
    are_known,
    candidates,
    known_distribution,
    may_bring,
    namesake,
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
from vtrain.packaging.notebooks import SUFFIX, notebook_cells, place_in, source_of
from vtrain.packaging.own_modules import own_module
from vtrain.packaging.sdist_plan import SdistPlan, check_no_credentials
from vtrain.packaging.source import Entry, module_names, printable
from vtrain.project_names import canonical, distribution_name
from vtrain.text_files import encoding_of, why_not_utf8

_HERE = ".".join(map(str, sys.version_info[:2]))
_PYTHON = sys.stdlib_module_names | {"__main__", "test"}
"""The modules of Python itself; its own list leaves those two out."""
_WIDEST = 100
"""Characters of a line that are shown below a syntax error."""
MOST_UNKNOWN = 100
"""Imports of one trainer that are looked into because nothing in the tables provides them."""


class MissingImport(msgspec.Struct, frozen=True, kw_only=True):
    """An import that surely runs and that nothing is known to provide.

    `advice` says what to add, which is what `brings` it, if that is known; a `fault` is wrong with the import
    itself, whatever is installed. It `is_sure` unless a requirement may bring the import, of which that is
    not known.
    """

    item: Import
    place: str
    shown: str
    advice: str = ""
    brings: str = ""
    fault: str = ""
    is_sure: bool = True

    @property
    def sentence(self) -> str:
        """The warning where nothing at all provides it."""
        if self.fault:
            return f"{self.place}: {self.fault}"
        if self.is_sure:
            return f"{self.place}: nothing provides the import `{self.shown}`; {self.advice}"
        unsure = f"no requirement is known to bring the import `{self.shown}`; if none does, {self.advice}"
        return f"{self.place}: {unsure}"


def trainer_imports(plan: SdistPlan) -> TrainerImports:
    """The imports of the trainer in a folder."""
    roots = (plan.entry.root, *(("", "src") if plan.pep517 or (plan.project and plan.source.script) else ()))
    modules = Modules(frozenset(file.path for file in plan.files), tuple(dict.fromkeys(roots)))
    brought, own_names, all_known = _extra_contents(plan)

    changes_path = False

    def read(path: str) -> bytes:
        nonlocal changes_path
        source = source_of(plan.source.folder / path, path)
        changes_path = changes_path or b"sys.path" in source
        return source

    imports = reached_imports(modules, read, plan.entry.path, plan.source.python_module)
    return TrainerImports(
        imports=imports,
        modules=modules,
        folder=str(plan.source.folder),
        own_names=own_names,
        brought=brought,
        all_known=all_known,
        entry=plan.entry.path,
        script=plan.entry.path if plan.source.script else "",
        has_build=plan.pep517,
        changes_path=changes_path,
        in_pool_spec=plan.source.in_pool_spec,
    )


def _extra_contents(plan: SdistPlan) -> tuple[frozenset[str], frozenset[str], bool]:
    """Distributions and import names that the packages beside the trainer bring, and whether all is known.

    That is where the tables have what they and all requirements bring.
    """
    own: set[str] = set()
    names: set[str] = set()
    required: list[str] = []
    all_known = True
    for extra in plan.extra_packages:
        is_wheel = False
        # pip also installs a source archive without metadata, whose contents are not known before.
        with contextlib.suppress(PackagingError):
            names.update(import_names(extra.path))
            metadata = read_metadata(extra.path)
            own.add(canonical(metadata.name))
            required += metadata.requires_dist or ()
            is_wheel = extra.path.suffix == ".whl"
        all_known = all_known and is_wheel
    for project in plan.local:
        own.add(project.name)
        required += project.requirements
        modules = module_names(tuple(file.path for file in project.files), is_project=True)
        names.update(module.partition(".")[0] for module in modules)
    others = (line for line in (*plan.requirements, *required) if distribution_name(line) not in own)
    all_known = all_known and are_known(others)
    return frozenset(own.union(map(distribution_name, required))), frozenset(names), all_known


def place_of(item: Import, trainer: TrainerImports) -> str:
    """`examples/trainer/task.py:3`, from the current folder."""
    file = Path(trainer.folder, item.path)
    return place_in(file, shown_path(file) if trainer.folder else item.path, item.line)


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


def sentences_of(missing: Iterable[MissingImport]) -> list[str]:
    """The warnings of imports that nothing provides: one for all of a file whose distributions are known."""
    together: dict[str, list[MissingImport]] = {}
    for number, each in enumerate(missing):
        is_plain = each.is_sure and each.brings and not each.fault
        together.setdefault(each.item.path if is_plain else f"{number}", []).append(each)
    return [_sentence(group) for group in together.values()]


def _sentence(group: list[MissingImport]) -> str:
    if len(group) == 1:
        return group[0].sentence
    names = ", ".join(f"`{each.shown}`" for each in group)
    brings = ",".join(dict.fromkeys(each.brings for each in group))
    return f"{group[0].place}: nothing provides the imports {names}; add {brings} to requirements"


def _is_provided(item: Import, trainer: TrainerImports, available: frozenset[str]) -> bool:
    """Whether Python itself, the trainer or a distribution that is known to bring it provides an import."""
    if item.is_relative and item.path == trainer.script:
        return False
    top = item.module.split(".")[0]
    if top in _PYTHON or top in trainer.own_names:
        return True
    if trainer.modules.exists(top):
        return trainer.has_build or trainer.modules.exists(item.module)
    return any(name in available for tried in item.names for name in candidates(tried))


def _missing(item: Import, trainer: TrainerImports, available: frozenset[str]) -> MissingImport | None:
    """The finding about an import that is not provided; None where a requirement's name resembles it."""
    top, place = item.module.split(".")[0], place_of(item, trainer)
    if item.is_relative and item.path == trainer.script:  # Python runs a script without a package
        fault = f"a script belongs to no package: import `{item.module}` without dots, or give python-module"
        return MissingImport(item=item, place=place, shown=top, fault=fault)
    if trainer.modules.exists(top):
        return MissingImport(
            item=item, place=place, shown=top, fault=f"the package has no module `{item.module}`"
        )
    if trainer.changes_path and trainer.modules.homes(top):
        return None
    if fault := own_module(item, trainer, Path.cwd()):
        return MissingImport(item=item, place=place, shown=top, fault=fault)
    tries = item.dotted_members or (item.module,)
    brings = next(filter(None, map(known_distribution, tries)), "")
    if not brings and any(may_bring(name, item.module) for name in available):
        return None
    shown = item.module if top == "google" else top
    return MissingImport(
        item=item,
        place=place,
        shown=shown,
        advice=f"add {brings or 'the distribution that brings it'} to requirements",
        brings=brings,
        is_sure=trainer.all_known,
    )


def _hiding(trainer: TrainerImports, named: frozenset[str], available: frozenset[str]) -> Iterator[str]:
    """A sentence for each of the trainer's own modules that is called like one of Python's or a requirement.

    The distributions in `named` are required; those in `available` matter where the trainer imports them.
    """
    imported = {item.module.partition(".")[0] for item in trainer.imports}
    for root, path in product(trainer.modules.roots, sorted(trainer.modules.files)):
        below = path.removeprefix(f"{root}/" if root else "")
        top = below.removesuffix("/__init__.py").removesuffix(".py")
        if top == below or "/" in top or (root and below == path):
            continue
        known = named | (available if top in imported else frozenset())
        whose = next((f"the requirement {name}" for name in candidates(top) if name in known), "")
        if top in sys.stdlib_module_names:
            whose = "a module of Python"
        if whose:
            yield f"{printable(path)} has the name of {whose}, and one hides the other; rename it"


def _namesakes(names: frozenset[str], said: set[str]) -> Iterator[str]:
    """A sentence for each distribution called like an import of another, if nothing was said of that one."""
    for name in sorted(names):
        module, brings = namesake(name)
        if module and module not in said:
            yield f"the requirement {name} is another distribution than {brings}, which brings `{module}`"


def check_syntax(folder: Path, entry: Entry) -> None:
    """Refuse an entry module that Python cannot compile: file, line, the line itself. Shell scripts pass."""
    shown = shown_path(folder / entry.path)
    if entry.path.endswith(SUFFIX):
        for cell in notebook_cells(folder / entry.path, shown):
            _check_text(f"{shown}, cell {cell.number}", cell.text)
    if not entry.path.endswith(".py"):
        return
    source = (folder / entry.path).read_bytes()
    if len(source) > LARGEST_SOURCE:
        return
    if encoding_of(source) not in ("", "UTF-8"):
        raise PackagingError(f"Python cannot read {shown}: {why_not_utf8(source)}.")
    _check_text(shown, source)


def _check_text(shown: str, source: bytes | str) -> None:
    """Raise PackagingError for a source that Python cannot compile."""
    try:
        # in bytes, Python before 3.13 would count columns in bytes too
        parse(decode_source(source) if isinstance(source, bytes) else source)
    except SyntaxError as error:
        excerpt = "".join(f"\n{line}" for line in _excerpt(error))
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


def _excerpt(error: SyntaxError) -> list[str]:
    """The line of a syntax error, and carets below what is wrong in it; [] where that is too wide to show."""
    lines = [line.rstrip("\n") for line in traceback.format_exception_only(error)[1:-1]]
    # A terminal might obey a character that is not printable.
    shown = ["".join(letter if letter.isprintable() else " " for letter in line) for line in lines]
    return shown if all(len(line) <= _WIDEST for line in shown) else []


def with_preflight(
    plan: SdistPlan, provided: frozenset[str] | None, strict: bool, *, other_python: bool = False
) -> SdistPlan:
    """The plan with its imports, and warnings of each that nothing provides and of each ignored setting.

    With `strict` those are refused, and so are credentials in the folder. Nothing is said of imports where it
    is not known what is `provided`. On `other_python` than vtrain's a syntax error is a warning.
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
    missing: tuple[MissingImport, ...] = ()
    others: tuple[str, ...] = ()
    named = frozenset(map(distribution_name, plan.requirements))
    available = with_brought_along(named | imports.brought) | (provided or frozenset())
    doubts += tuple(_hiding(imports, named, available))
    projects = [each.project for each in (plan, *plan.local) if each.project is not None]
    if provided is not None and all(project.dependencies is not None for project in projects):
        missing = missing_imports(imports, available)
        tops = {each.item.module.partition(".")[0] for each in missing}
        others = tuple(_namesakes(named - plan.beside, tops))
    sure = (*plan.ignored, *sentences_of(each for each in missing if each.is_sure), *others)
    if sure and strict:
        raise PackagingError("\n".join(sure), hint="Without --strict this is a warning.")
    said = (*plan.ignored, *sentences_of(missing), *others)
    return msgspec.structs.replace(plan, imports=imports, warnings=(*plan.warnings, *doubts, *said))
