"""Build a project with its own PEP 517 back end, in a copy, and pack the sdist again reproducibly."""

from __future__ import annotations

import email
import os
import re
import shutil
import sys
import tarfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from subprocess import CalledProcessError
from typing import TYPE_CHECKING, Literal

import msgspec

from vtrain.atomic import publish_file, scratch_folder
from vtrain.digests import document_digest
from vtrain.errors import PackagingError
from vtrain.packaging.direct import Member, copy_unchanged, write_archive
from vtrain.packaging.keys import HINT, credentials_kind
from vtrain.packaging.project import Project, read_project_file, table_of, tool_versions, version_variables
from vtrain.packaging.sdist_plan import SdistPlan, with_dependencies
from vtrain.packaging.source import printable
from vtrain.packaging.unpacking import readable, unpack_tar
from vtrain.privacy import make_private
from vtrain.settings import home_folder

if TYPE_CHECKING:
    from build import ProjectBuilder

Kind = Literal["sdist", "wheel"]

_NAMES_SHOWN = 5
_POETRY_TABLE = re.compile(r"^\s*\[\s*tool\s*\.\s*poetry\s*\].*$", re.MULTILINE)
_OUTPUT_LINES, _LONGEST_LINE = 15, 300
"""The end of a build's output that is shown: so many lines, of so many letters each."""


class BuildRequirementsError(PackagingError):
    """The tools that a back end needs cannot be had here."""


def with_computed_dependencies(plan: SdistPlan) -> SdistPlan:
    """The plan of a trainer that no back end will build, with the dependencies that only one knows.

    It is asked in a copy of the files, once for the same files if vtrain has a home.
    """
    project = plan.project
    if project is None or plan.pep517 or project.dependencies is not None:
        return plan
    try:
        return with_dependencies(plan, _remembered(plan))
    except PackagingError as error:
        reason = error.message.rstrip(".").splitlines()[-1].strip()
        ignored = (
            f"only the back end {project.backend} knows the project's dependencies, "
            f"and it failed: {reason}; name them in requirements"
        )
        return msgspec.structs.replace(plan, ignored=(*plan.ignored, ignored))


def _remembered(plan: SdistPlan) -> tuple[str, ...]:
    home = home_folder()
    files = [[file.path, file.digest] for file in plan.files]
    key = document_digest(["vtrain-dependencies", files, plan.project, sys.version_info[:2]])
    answer = home / "packages" / key / "dependencies.json"
    with suppress(OSError, msgspec.DecodeError):
        os.utime(answer.parent)  # garbage collection keeps what was used lately
        return msgspec.json.decode(answer.read_bytes(), type=tuple[str, ...])
    found = _computed_dependencies(plan)
    if home.is_dir():  # a dry run makes none
        with suppress(OSError):
            make_private(answer.parent.parent)
            answer.parent.mkdir(exist_ok=True)
            publish_file(answer, msgspec.json.encode(found))
    return found


def _computed_dependencies(plan: SdistPlan) -> tuple[str, ...]:
    """The requirements in the metadata that the back end prepares, without those of extras."""
    with scratch_folder(home_folder()) as work:
        tree = work / "tree"
        _copy_files(plan, tree)
        _let_poetry_build(tree / "pyproject.toml")
        info = _run_backend(plan, tree, lambda builder: builder.metadata_path(work / "info"), "wheel")
        text = (info / "METADATA").read_bytes()
    from packaging.requirements import Requirement

    found = (Requirement(str(line)) for line in email.message_from_bytes(text).get_all("Requires-Dist", []))
    return tuple(str(line) for line in found if "extra ==" not in str(line.marker))


def _let_poetry_build(pyproject: Path) -> None:
    """Have Poetry take an application for a package, which it makes metadata of."""
    poetry = table_of(read_project_file(pyproject.parent).tool, "poetry")
    if poetry.get("package-mode") is not False:
        return
    text = re.sub(r"(package-mode\s*=\s*)false", r"\1true", pyproject.read_text("utf-8"), count=1)
    needed = {"name": '"trainer"', "version": '"0"', "description": '""', "authors": "[]"}
    added = "".join(f"{key} = {value}\n" for key, value in needed.items() if key not in poetry)
    pyproject.write_text(_POETRY_TABLE.sub(lambda head: f"{head[0]}\n{added}", text, count=1), "utf-8")


def build_project(plan: SdistPlan, out: Path) -> None:
    """Build the sdist of a project into `out`."""
    with scratch_folder(home_folder()) as work:
        tree, dist, unpacked = (work / name for name in ("tree", "dist", "unpacked"))
        _copy_files(plan, tree)
        built = _run_backend(plan, tree, lambda builder: builder.build("sdist", dist))
        top = _unpack(built, unpacked)
        names = tuple(sorted(_names(unpacked / top)))
        _check_credentials(unpacked / top, names)
        write_archive(out, (_member(unpacked, f"{top}/{name}") for name in names))
    if plan.entry.path:
        _check_entry(plan, names)


def _copy_files(plan: SdistPlan, tree: Path) -> None:
    """Copy the plan's files: back ends leave `build/` and `*.egg-info/` where they build."""
    tree.mkdir()
    for file in plan.files:
        target = tree / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        copy_unchanged(plan.source.folder / file.path, target, file.digest)
        target.chmod(0o755 if file.executable else 0o644)


@contextmanager
def _pretend_version(plan: SdistPlan) -> Iterator[None]:
    wanted = version_variables(plan.project) if plan.project else ()
    names = [name for name in wanted if name not in os.environ]
    os.environ.update(dict.fromkeys(names, f"0+h{plan.content_hash[:16]}"))
    try:
        yield
    finally:
        for name in names:
            del os.environ[name]


def _run_backend(
    plan: SdistPlan, tree: Path, work: Callable[[ProjectBuilder], str], kind: Kind = "sdist"
) -> Path:
    """The path that the back end answers with, which makes a distribution of the kind, or its metadata."""
    from build import BuildBackendException, BuildException, ProjectBuilder
    from pyproject_hooks import quiet_subprocess_runner

    project = plan.project or Project()
    try:
        with _pretend_version(plan), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if tool_versions(project.build_requires) is not None:
                builder = ProjectBuilder(tree, runner=quiet_subprocess_runner)
                if not _asks_for_more(builder, project, tree, kind):
                    return Path(work(builder))
            return _run_isolated(tree, work, kind)
    except CalledProcessError as error:  # of pip or uv: those of the back end come as build's own
        raise BuildRequirementsError(
            f"The build requirements cannot be installed: {_reason(error)}.",
            hint="Look at the network and the package index, or install them beside vtrain.",
        ) from error
    except (BuildBackendException, BuildException, ValueError) as error:  # ValueError: a bad backend-path
        reason = _reason(error)
        hint = f"`python -m build {plan.source.folder}` shows the same by hand."
        if "Multiple top-level" in reason:
            hint = "Name its packages in [tool.setuptools], or remove [build-system]: then nothing is built."
        raise PackagingError(f"The folder's own build failed: {reason}.", hint=hint) from error


def _asks_for_more(builder: ProjectBuilder, project: Project, tree: Path, kind: Kind) -> bool:
    """Whether the back end wants packages that are not here. Only setup_requires makes setuptools ask."""
    if project.backend.startswith("setuptools.build_meta"):
        texts = [(tree / name).read_bytes() for name in ("setup.py", "setup.cfg") if (tree / name).is_file()]
        if not any(b"setup_requires" in text for text in texts):
            return False
    return bool(builder.check_dependencies(kind))


def _run_isolated(tree: Path, work: Callable[[ProjectBuilder], str], kind: Kind) -> Path:
    from build import ProjectBuilder
    from build.env import DefaultIsolatedEnv
    from pyproject_hooks import quiet_subprocess_runner

    # uv is several times faster; pip is there where uv is not on PATH.
    with DefaultIsolatedEnv(installer="uv" if shutil.which("uv") else "pip") as env:
        builder = ProjectBuilder.from_isolated_env(env, tree, runner=quiet_subprocess_runner)
        env.install(builder.build_system_requires)
        env.install(builder.get_requires_for_build(kind))
        return Path(work(builder))


def _reason(error: Exception) -> str:
    """The last lines that a program wrote, else the error itself; without a full stop."""
    cause = getattr(error, "exception", error)
    output = getattr(cause, "stderr", None) or getattr(cause, "output", None)
    text = output.decode(errors="replace") if isinstance(output, bytes) else output
    lines = (text or "").rstrip().removesuffix(".").splitlines()[-_OUTPUT_LINES:]
    return "".join(f"\n{line[:_LONGEST_LINE]}" for line in lines) or str(error).rstrip(".")


def _unpack(built: Path, target: Path) -> str:
    """Unpack an sdist and return the name of its only folder."""
    if not built.is_file():
        raise PackagingError(f"The folder's own build wrote no file {built.name}.")
    unpack_tar(built, target)
    tops = [path.name for path in target.iterdir()]
    if len(tops) != 1:
        raise PackagingError(f"The back end wrote {built.name} with {len(tops)} folders instead of one.")
    return tops[0]


def _names(top: Path) -> Iterator[str]:
    for folder, _, names in os.walk(top):
        for name in names:
            path = Path(folder, name)
            if path.is_file():
                yield path.relative_to(top).as_posix()


def _member(folder: Path, name: str) -> Member:
    path = folder / name
    return Member(name=name, content=path, executable=bool(path.stat().st_mode & 0o100))


def _check_credentials(top: Path, names: tuple[str, ...]) -> None:
    """Raise PackagingError for credentials that the back end added: it was given none."""
    for name in names:
        if kind := credentials_kind(top / name, (top / name).stat().st_size):
            raise PackagingError(f"The folder's own build packs {kind}: {printable(name)}.", hint=HINT)


def _check_entry(plan: SdistPlan, names: tuple[str, ...]) -> None:
    tail = plan.entry.path.removeprefix(f"{plan.entry.root}/")
    if not any(name == tail or name.endswith(f"/{tail}") for name in names):
        raise PackagingError(
            f"The folder's own build leaves out {plan.entry.path}, the entry module.",
            hint="Look at the package list in pyproject.toml, setup.cfg or setup.py.",
        )


def left_out_notes(plan: SdistPlan, built: Path) -> tuple[str, ...]:
    """A note about files of packages that the back end left out; the same for a cached sdist."""
    with readable(built), tarfile.open(built) as sdist:
        there = {name.partition("/")[2] for name in sdist.getnames()}
    missing = [file.path for file in plan.files if file.path not in there and _is_content(file.path)]
    if not missing:
        return ()
    shown = ", ".join(printable(path) for path in missing[:_NAMES_SHOWN])
    more = f" and {len(missing) - _NAMES_SHOWN} more" if len(missing) > _NAMES_SHOWN else ""
    return (f"the folder's own build leaves out {len(missing)} of its files: {shown}{more}",)


def _is_content(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return (
        len(parts) > 1
        and not any(part.startswith(".") for part in parts)
        and parts[0] not in ("tests", "docs")
    )
