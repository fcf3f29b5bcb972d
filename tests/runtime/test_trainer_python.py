"""The Python that a trainer runs on: its image's, or one that its packages accept, as uv finds it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest
from lib.environment_packages import direct_sdist, sdist, wheel

from vtrain.packaging.prebuilt import contents
from vtrain.runtime.environments.environment import (
    Environment,
    EnvironmentFailed,
    EnvironmentSpec,
    make_environment,
    plan_environment,
)
from vtrain.runtime.environments.interpreters import (
    Interpreter,
    base_interpreter,
    begin_environment,
    choose_python,
    downloads_allowed,
    search_path,
    site_packages,
)

pytestmark = pytest.mark.end_to_end

IMAGE_310 = "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest"
HERE = base_interpreter().short_version


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Interpreter:
    """An interpreter of this machine of another version than the one that runs the tests."""
    monkeypatch.setenv("UV_PYTHON_PREFERENCE", "system")
    choice = choose_python("", (f">=3.10,!={HERE}.*",))
    if choice.unmet:
        pytest.skip("uv finds no other Python here")
    return choice.interpreter


def make(home: Path, *packages: str, image: str = "", downloads: bool = False) -> Environment:
    spec = EnvironmentSpec(packages=packages, image_uri=image, python_downloads=downloads)
    return make_environment(plan_environment(spec, home), lambda _: None)


def version(made: Environment, module: str) -> str:
    program = f"import sys, {module}; print('.'.join(map(str, sys.version_info[:3])))"
    return subprocess.run(
        [made.python, "-c", program], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.mark.parametrize("kind", ["wheel", "with a command"])
def test_a_package_that_refuses_this_python_gets_another(
    tmp_path: Path, other: Interpreter, kind: str
) -> None:
    package = wheel(tmp_path, "own", command=kind != "wheel", requires_python=f"=={other.short_version}.*")
    made = make(tmp_path / "home", package)
    assert version(made, "own") == other.version
    assert plan_environment(EnvironmentSpec(packages=(package,)), tmp_path / "home").cached


def test_requirements_are_those_of_the_other_python(
    tmp_path: Path, other: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    older, newer = sorted((other.short_version, HERE), key=lambda text: int(text.partition(".")[2]))
    # The newer version of the package is for the newer Python: uv ignores upper limits.
    wheel(tmp_path / "wheels", "left", "1.0", requires_python=f"=={older}.*")
    wheel(tmp_path / "wheels", "left", "2.0", requires_python=f"=={newer}.*")
    wanted = "1.0\n" if other.short_version == older else "2.0\n"
    accepts = f"=={other.short_version}.*"
    made = make(tmp_path / "home", wheel(tmp_path, "own", requirements=("left",), requires_python=accepts))
    show = [made.python, "-c", "import left; print(left.VERSION)"]
    assert subprocess.run(show, check=True, capture_output=True, text=True).stdout == wanted


def test_a_package_is_built_for_the_other_python(tmp_path: Path, other: Interpreter) -> None:
    accepts = wheel(tmp_path, "own", requires_python=f"=={other.short_version}.*")
    made = make(tmp_path / "home", sdist(tmp_path, "print(1)"), accepts)
    assert version(made, "trainer.task").endswith(other.version)


@pytest.mark.skipif(HERE == "3.10", reason="the tests run on the image's Python")
def test_the_images_python_is_taken_where_it_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = contents(IMAGE_310)
    assert image is not None and image.python_version == "3.10"
    package = direct_sdist(tmp_path, "print(1)")
    assert version(make(tmp_path / "home", package, image=IMAGE_310), "trainer").startswith(HERE)
    monkeypatch.setenv("UV_PYTHON_PREFERENCE", "system")
    if choose_python("3.10", ()).unmet:
        pytest.skip("uv finds no Python 3.10 here")
    assert version(make(tmp_path / "home", package, image=IMAGE_310), "trainer").startswith("3.10.")


def test_without_such_a_python_the_demand_is_told(tmp_path: Path) -> None:
    package = wheel(tmp_path, "own", requires_python=">=3.50")
    said = r"^The trainer requires Python >=3\.50, and uv finds none on this machine\."
    with pytest.raises(EnvironmentFailed, match=said) as failed:
        make(tmp_path / "home", package)
    assert "--python-downloads" in failed.value.hint


def test_a_download_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    package = wheel(tmp_path, "own", requires_python=">=3.50")
    with pytest.raises(EnvironmentFailed, match=r"^uv could not download Python >=3\.50\."):
        make(tmp_path / "home", package, downloads=True)


def test_uvs_own_settings_allow_downloads(tmp_path: Path) -> None:
    alone = {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path)}
    assert not downloads_allowed(alone)
    assert downloads_allowed(alone | {"UV_PYTHON_DOWNLOADS": "automatic"})
    (tmp_path / "uv.toml").write_text('python-downloads = "automatic"\n')
    assert downloads_allowed(alone | {"UV_CONFIG_FILE": str(tmp_path / "uv.toml")})
    assert not downloads_allowed(
        alone | {"UV_CONFIG_FILE": str(tmp_path / "uv.toml"), "UV_PYTHON_DOWNLOADS": "manual"}
    )


def test_pyenvs_versions_are_looked_at_in_place_of_its_shims(tmp_path: Path) -> None:
    versions = [tmp_path / "versions" / name / "bin" for name in ("3.10.1", "3.12.2")]
    for folder in (*versions, tmp_path / "shims"):
        folder.mkdir(parents=True)
    path = search_path({"PATH": os.pathsep.join(["/usr/bin", str(tmp_path / "shims")])})
    assert path.split(os.pathsep) == ["/usr/bin", *map(str, versions)]


def test_uv_is_not_asked_for_an_environment_that_is_there(
    tmp_path: Path, other: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else every command would wait for uv. Another Python that comes, or goes, makes another one."""
    spec = EnvironmentSpec(packages=(wheel(tmp_path, "own"),), python=other.short_version)
    make_environment(plan_environment(spec, tmp_path / "home"), lambda _: None)
    monkeypatch.setattr(
        "vtrain.runtime.environments.interpreters._find",
        lambda request: pytest.fail(f"uv was asked for {request}"),
    )
    assert plan_environment(spec, tmp_path / "home").cached
    monkeypatch.undo()
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert not plan_environment(spec, tmp_path / "home").cached


def test_an_environment_of_a_python_behind_a_link_finds_its_library(tmp_path: Path) -> None:
    link = tmp_path / "elsewhere" / "bin" / "python3"
    link.parent.mkdir(parents=True)
    link.symlink_to(base_interpreter().path)
    own = tmp_path / "own"
    begin_environment(own, msgspec.structs.replace(base_interpreter(), path=str(link)))
    asked = "import sys, os; print(sys.prefix, os.__file__, sep='\\n')"
    printed = subprocess.run(
        [own / "bin" / "python", "-c", asked], capture_output=True, text=True, check=True
    )
    assert printed.stdout.splitlines() == [str(own), os.__file__]
    assert site_packages(own).is_dir()


def test_an_environment_has_the_folder_that_a_free_threaded_python_imports_from(tmp_path: Path) -> None:
    free = Interpreter(path=base_interpreter().path, version="3.13.1", abi="cpython-313-t")
    begin_environment(tmp_path, free)
    assert site_packages(tmp_path) == tmp_path / "lib" / "python3.13t" / "site-packages"
