"""Dependencies that only a project's back end knows, asked of it where it will not build the trainer."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from vtrain.atomic import publish_file, scratch_folder
from vtrain.digests import document_digest
from vtrain.errors import PackagingError
from vtrain.packaging.pep517 import copy_files, run_back_end, version_given
from vtrain.packaging.project import Project, read_project_file, table_of
from vtrain.packaging.sdist_plan import SdistPlan, with_dependencies
from vtrain.privacy import make_private
from vtrain.settings import home_folder

_POETRY_TABLE = re.compile(r"^\s*\[\s*tool\s*\.\s*poetry\s*\].*$", re.MULTILINE)


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
        copy_files(plan, tree)
        _let_poetry_build(tree / "pyproject.toml")
        project = plan.project or Project()
        info = run_back_end(
            project,
            tree,
            lambda builder: builder.metadata_path(work / "info"),
            "wheel",
            variables=version_given(plan),
        )
        text = (info / "METADATA").read_bytes()
    from packaging.metadata import parse_email
    from packaging.requirements import Requirement

    found = map(Requirement, parse_email(text)[0].get("requires_dist", ()))
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
