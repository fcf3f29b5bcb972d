"""A project's own PEP 517 back end: it builds sdists, knows dependencies, and shows that a package installs.

It always works in a copy of the files: back ends leave `build/` and `*.egg-info/` where they build.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from subprocess import CalledProcessError
from typing import TYPE_CHECKING, Literal

import msgspec

from vtrain.atomic import publish_file, scratch_folder
from vtrain.digests import document_digest
from vtrain.errors import PackagingError
from vtrain.packaging.archive import is_direct, parse_metadata, read_metadata
from vtrain.packaging.credential_files import HINT, credentials_kind
from vtrain.packaging.direct import Member, copy_unchanged, write_archive
from vtrain.packaging.module_imports import LARGEST_SOURCE
from vtrain.packaging.project import (
    Project,
    read_project,
    read_project_file,
    tool_versions,
    version_variables,
)
from vtrain.packaging.requirements import read_given
from vtrain.packaging.sdist_plan import SdistPlan, with_dependencies
from vtrain.packaging.source import printable
from vtrain.packaging.unpacking import project_folder, readable, unpack_tar, unpack_zip
from vtrain.privacy import make_private
from vtrain.program_output import reason
from vtrain.settings import home_folder
from vtrain.toml_reader import table_of
from vtrain.uv_program import uv_call

if TYPE_CHECKING:
    from build import ProjectBuilder
    from pyproject_hooks import SubprocessRunner

Kind = Literal["sdist", "wheel"]

CHECKED = ".checked"
"""A file beside packages that were found to be installable."""
_NAMES_SHOWN = 5
_POETRY_TABLE = re.compile(r"^\s*\[\s*tool\s*\.\s*poetry\s*\].*$", re.MULTILINE)


class BuildRequirementsError(PackagingError):
    """The tools that a back end needs cannot be had here."""


def build_project(plan: SdistPlan, out: Path) -> None:
    """Build the sdist of a project, and pack it into `out` so that the same content gives the same bytes."""
    with scratch_folder(home_folder()) as work:
        tree, dist, unpacked = (work / name for name in ("tree", "dist", "unpacked"))
        _copy_files(plan, tree)
        built = run_back_end(
            plan.project or Project(),
            tree,
            lambda builder: builder.build("sdist", dist),
            variables=_version_given(plan),
        )
        top = _unpack(built, unpacked)
        names = sorted(
            path.relative_to(top).as_posix()
            for folder, _, files in os.walk(top)
            for path in (Path(folder, name) for name in files)
            if path.is_file()
        )
        members = []
        for name in names:
            status = (top / name).stat()
            if kind := credentials_kind(top / name, status.st_size):  # which the back end was not given
                raise PackagingError(f"The folder's own build packs {kind}: {printable(name)}.", hint=HINT)
            is_executable = bool(status.st_mode & 0o100)
            members.append(Member(name=f"{top.name}/{name}", content=top / name, executable=is_executable))
        write_archive(out, members)
    if plan.entry.path:
        _check_entry(plan, names)


def _copy_files(plan: SdistPlan, tree: Path) -> None:
    tree.mkdir()
    for file in plan.files:
        target = tree / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        copy_unchanged(plan.source.folder / file.path, target, file.digest, file.size)
        target.chmod(0o755 if file.executable else 0o644)


def _version_given(plan: SdistPlan) -> dict[str, str]:
    """Variables with a version for tools that ask version control: a copy of the files has no history."""
    wanted = version_variables(plan.project) if plan.project else ()
    return {name: f"0+h{plan.content_hash[:16]}" for name in wanted if name not in os.environ}


def run_back_end(
    project: Project,
    tree: Path,
    work: Callable[[ProjectBuilder], str],
    kind: Kind = "sdist",
    variables: Mapping[str, str] = {},
) -> Path:
    """The path that the back end answers with, which makes a distribution of the kind, or its metadata.

    It has `variables` beside those of this process. Raises BuildRequirementsError, and PackagingError where
    it fails.
    """
    from build import BuildBackendException, BuildException, ProjectBuilder
    from pyproject_hooks import quiet_subprocess_runner

    def run(
        cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None
    ) -> None:
        quiet_subprocess_runner(cmd, cwd, {**variables, **(extra_environ or {})})

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if tool_versions(project.build_requires) is not None:
                builder = ProjectBuilder(tree, runner=run)
                if not _asks_for_more(builder, project, tree, kind):
                    return Path(work(builder))
            return _run_isolated(tree, work, kind, run)
    except CalledProcessError as error:  # of uv: those of the back end come as build's own
        raise BuildRequirementsError(
            f"The build requirements cannot be installed: {_reason(error)}.",
            hint="Look at the network and the package index, or install them beside vtrain.",
        ) from error
    except (BuildBackendException, BuildException, ValueError) as error:  # ValueError: a bad backend-path
        reason = _reason(error)
        hint = f"`python -m build --{kind}` in that folder shows the same."
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


def _run_isolated(
    tree: Path, work: Callable[[ProjectBuilder], str], kind: Kind, run: SubprocessRunner
) -> Path:
    """Build in an environment of its own, whose `install` would tell uv nothing of pip's settings."""
    from build import ProjectBuilder
    from build.env import DefaultIsolatedEnv

    with DefaultIsolatedEnv(installer="uv") as env:
        builder = ProjectBuilder.from_isolated_env(env, tree, runner=run)
        _install(builder.build_system_requires, env.python_executable, tree)
        _install(builder.get_requires_for_build(kind), env.python_executable, tree)
        return Path(work(builder))


def _install(requirements: set[str], python: str, tree: Path) -> None:
    if requirements:
        call = uv_call("pip", "install", f"--python={python}", "--", *sorted(requirements))
        # In the copy of the project, so that its own settings of uv hold wherever the user's command runs.
        subprocess.run(call.argv, env=call.environ, cwd=tree, capture_output=True, check=True)


def _reason(error: Exception) -> str:
    """The reason in what a program wrote, else the error itself; without a full stop."""
    cause = getattr(error, "exception", error)
    output = getattr(cause, "stderr", None) or getattr(cause, "output", None)
    text = output.decode(errors="replace") if isinstance(output, bytes) else output
    return ("".join(f"\n{line}" for line in reason((text or "").splitlines())) or str(error)).rstrip(".")


def _unpack(built: Path, target: Path) -> Path:
    """Unpack an sdist and return its only folder."""
    if not built.is_file():
        raise PackagingError(f"The folder's own build wrote no file {built.name}.")
    unpack_tar(built, target)
    tops = list(target.iterdir())
    if len(tops) != 1:
        raise PackagingError(f"The back end wrote {built.name} with {len(tops)} folders instead of one.")
    return tops[0]


def _check_entry(plan: SdistPlan, names: Sequence[str]) -> None:
    tail = plan.entry.path.removeprefix(f"{plan.entry.root}/")
    if not any(name == tail or name.endswith(f"/{tail}") for name in names):
        hint = "Look at the package list in pyproject.toml, setup.cfg or setup.py."
        unusual = next((part for part in plan.python_module.split(".") if not part.isidentifier()), "")
        if unusual:
            hint = (
                f"Build tools look for names like those in an import statement, and {unusual!r} is not one. "
            )
            hint += f"Give --script={plan.entry.path}, or rename it."
        raise PackagingError(
            f"The folder's own build leaves out {plan.entry.path}, the entry module.", hint=hint
        )


def left_out_notes(plan: SdistPlan, built: Path) -> tuple[str, ...]:
    """A note about files that the back end left out, and may be missed; the same for a cached sdist.

    These are files of packages, and those at the root that a module, or setup.py, names.
    """
    with readable(built), tarfile.open(built) as sdist:
        there = {name.partition("/")[2] for name in sdist.getnames()}
    left_out = [file.path for file in plan.files if file.path not in there and _is_content(file.path)]
    at_root = [path.encode() for path in left_out if "/" not in path]
    named = _named_files(plan, at_root) if at_root else set()
    missing = [path for path in left_out if "/" in path or path.encode() in named]
    if not missing:
        return ()
    shown = ", ".join(printable(path) for path in missing[:_NAMES_SHOWN])
    more = f" and {len(missing) - _NAMES_SHOWN} more" if len(missing) > _NAMES_SHOWN else ""
    return (f"the folder's own build leaves out {len(missing)} of its files: {shown}{more}",)


def _is_content(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return not any(part.startswith(".") for part in parts) and parts[0] not in ("tests", "docs")


def _named_files(plan: SdistPlan, files: list[bytes]) -> set[bytes]:
    """Those of the files whose names stand in a module that may be packed."""
    found: set[bytes] = set()
    for file in plan.files:
        if file.path.endswith(".py") and _is_content(file.path) and file.size <= LARGEST_SOURCE:
            with suppress(OSError):  # it was packed a moment ago, or before
                text = (plan.source.folder / file.path).read_bytes()
                found.update(name for name in files if name in text)
    return found


def with_computed_dependencies(plan: SdistPlan) -> SdistPlan:
    """The plan of a trainer that no back end will build, with the dependencies that only its back end knows.

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
        project = plan.project or Project()
        info = run_back_end(
            project,
            tree,
            lambda builder: builder.metadata_path(work / "info"),
            "wheel",
            variables=_version_given(plan),
        )
        text = (info / "METADATA").read_bytes()
    from packaging.requirements import Requirement

    found = map(Requirement, parse_metadata(text, is_final=True).requires_dist or ())
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


def check_install(packages: Sequence[Path], warn: Callable[[str], None]) -> None:
    """Make a wheel of each package that has a back end, as an installation does; once for the same packages.

    The trainer's package comes last. It is checked before it goes where a fault would be found out late.
    Raises PackagingError where that fails, or where the metadata names a path of this machine. Where the
    build requirements cannot be had, a warning says that nothing was checked.
    """
    checked = packages[-1].with_name(CHECKED)
    if checked.is_file():
        return
    for package in packages:
        if package.suffix == ".whl" or is_direct(package):
            continue
        try:
            with scratch_folder(home_folder()) as work:
                (unpack_zip if package.suffix == ".zip" else unpack_tar)(package, work / "sdist")
                folder = project_folder(package, work / "sdist")
                wheel = run_back_end(
                    read_project(folder) or Project(),
                    folder,
                    lambda builder: builder.build("wheel", work / "wheel"),
                    "wheel",
                )
                read_given(read_metadata(wheel).requires_dist or (), f"the metadata of {package.name}")
        except BuildRequirementsError as error:
            reason = " ".join(error.message.split())
            warn(f"It was not checked that {package.name} can be installed. {reason}")
            return
        except PackagingError as error:
            raise PackagingError(
                f"{package.name} cannot be installed. {error.message}",
                hint="If its build reads a file that the sdist lacks, add it (setuptools: MANIFEST.in).",
            ) from error
    with suppress(OSError):  # then it is checked again
        publish_file(checked, b"")
