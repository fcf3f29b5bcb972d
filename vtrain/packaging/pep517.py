"""Build a project with its own PEP 517 back end, in a copy, and pack the sdist again reproducibly."""

from __future__ import annotations

import os
import subprocess
import tarfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from subprocess import CalledProcessError
from typing import TYPE_CHECKING, Literal

from vtrain.atomic import scratch_folder
from vtrain.errors import PackagingError
from vtrain.packaging.credential_files import HINT, credentials_kind
from vtrain.packaging.direct import Member, copy_unchanged, write_archive
from vtrain.packaging.module_imports import LARGEST_SOURCE
from vtrain.packaging.project import Project, tool_versions, version_variables
from vtrain.packaging.sdist_plan import SdistPlan
from vtrain.packaging.source import printable
from vtrain.packaging.unpacking import readable, unpack_tar
from vtrain.program_output import reason
from vtrain.settings import home_folder
from vtrain.uv_program import uv_call

if TYPE_CHECKING:
    from build import ProjectBuilder
    from pyproject_hooks import SubprocessRunner

Kind = Literal["sdist", "wheel"]

_NAMES_SHOWN = 5


class BuildRequirementsError(PackagingError):
    """The tools that a back end needs cannot be had here."""


def build_project(plan: SdistPlan, out: Path) -> None:
    """Build the sdist of a project into `out`."""
    with scratch_folder(home_folder()) as work:
        tree, dist, unpacked = (work / name for name in ("tree", "dist", "unpacked"))
        copy_files(plan, tree)
        built = run_back_end(
            plan.project or Project(),
            tree,
            lambda builder: builder.build("sdist", dist),
            variables=version_given(plan),
        )
        top = _unpack(built, unpacked)
        names = tuple(sorted(_names(unpacked / top)))
        _check_credentials(unpacked / top, names)
        write_archive(out, (_member(unpacked, f"{top}/{name}") for name in names))
    if plan.entry.path:
        _check_entry(plan, names)


def copy_files(plan: SdistPlan, tree: Path) -> None:
    """Copy the plan's files: back ends leave `build/` and `*.egg-info/` where they build."""
    tree.mkdir()
    for file in plan.files:
        target = tree / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        copy_unchanged(plan.source.folder / file.path, target, file.digest)
        target.chmod(0o755 if file.executable else 0o644)


def version_given(plan: SdistPlan) -> dict[str, str]:
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
