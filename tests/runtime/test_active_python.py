"""Packages on a Python that is used as it is: unpacked, or refused where unpacking is not enough."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from lib.environment_packages import direct_sdist, sdist, wheel

from vtrain.packaging.module_imports import Import, Modules, TrainerImports
from vtrain.runtime.environments.active_python import lacking, unpack_packages, view_of
from vtrain.runtime.environments.layers import EnvironmentFailed


def unpacked(tmp_path: Path, *packages: str) -> Path:
    return unpack_packages(tuple(map(Path, packages)), tmp_path / "home", tmp_path / "job", lambda _: None)


@pytest.mark.child
def test_packages_are_imported_from_where_they_are_unpacked(tmp_path: Path) -> None:
    """The sdist's requirement is not installed, nor is the wheel's command."""
    packages = (
        direct_sdist(tmp_path, "WHO = 'direct'", ("nobody-has-this==1",)),
        sdist(tmp_path, "WHO = 'built'", name="builder"),
        wheel(tmp_path, "tool", command=True),
    )
    site = unpacked(tmp_path, *packages)
    show = "import trainer.task, builder.task, tool; print(trainer.task.WHO, builder.task.WHO, tool.VERSION)"
    done = subprocess.run(
        [sys.executable, "-c", show],
        env={"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "direct built 1.0\n"
    assert unpacked(tmp_path, packages[0]) != site


@pytest.mark.parametrize("kind", ["compiled", "with data"])
def test_what_only_an_installer_puts_in_place_is_refused(tmp_path: Path, kind: str) -> None:
    given = Path(wheel(tmp_path, "fast"))
    if kind == "compiled":
        given = given.rename(tmp_path / "fast-1.0-cp311-cp311-linux_x86_64.whl")
    else:
        with zipfile.ZipFile(given, "a") as archive:
            archive.writestr("fast-1.0.data/scripts/fast", "#!python\n")
    with pytest.raises(EnvironmentFailed, match="has parts that only an installer puts in place") as failed:
        unpacked(tmp_path, str(given))
    assert "take --environment=new" in failed.value.hint


def test_a_damaged_package_is_told(tmp_path: Path) -> None:
    (tmp_path / "bad-1.0-py3-none-any.whl").write_text("no archive")
    with pytest.raises(EnvironmentFailed, match="is not a readable package"):
        unpacked(tmp_path, str(tmp_path / "bad-1.0-py3-none-any.whl"))


@pytest.mark.child
def test_the_python_itself_says_what_it_has() -> None:
    names = [("os.path", ()), ("msgspec.json", ()), ("nowhere.at.all", ()), ("own", ()), ("late", ())]
    shared = [("google", ("nothing_such",)), ("google.nothing_such", ("sub",))]
    found = tuple(
        Import(line=line, module=module, members=members, is_certain=module != "late")
        for line, (module, members) in enumerate([*names, *shared], 1)
    )
    modules = Modules(frozenset({"own.py"}), ("",))
    missing = lacking(sys.executable, TrainerImports(imports=found, modules=modules))
    view = view_of(sys.executable, ("os", "nowhere"))
    assert view.missing == ("nowhere",)
    assert view.version == ".".join(map(str, sys.version_info[:3]))
    assert [item.line for item in missing] == [3, 6, 7]
