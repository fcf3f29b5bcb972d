"""Environments of the process backend, made for real and without an index."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from lib.environment_packages import direct_sdist, sdist, wheel
from lib.waiting import wait_until

from vtrain.atomic import remove_folder
from vtrain.runtime.environments.environment import (
    Environment,
    EnvironmentFailed,
    EnvironmentPlan,
    EnvironmentSpec,
    make_environment,
    plan_environment,
)
from vtrain.runtime.environments.interpreters import adopt_commands, base_interpreter, begin_environment

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def wheelhouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place that installers look in."""
    folder = tmp_path / "wheelhouse"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("HOME", str(tmp_path))
    return folder


def plan(home: Path, *packages: str, image_uri: str = "") -> EnvironmentPlan:
    return plan_environment(EnvironmentSpec(packages=packages, image_uri=image_uri), home)


def make(home: Path, *packages: str) -> tuple[Environment, str]:
    lines: list[bytes] = []
    environment = make_environment(plan(home, *packages), lines.append)
    return environment, b"".join(lines).decode()


def run(environment: Environment, module: str = "trainer.task") -> str:
    argv = [environment.python, "-m", module]
    elsewhere = Path(environment.python).parent
    return subprocess.run(argv, cwd=elsewhere, check=True, capture_output=True, text=True).stdout.strip()


def test_a_trainer_without_requirements_needs_no_installer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    environment, log = make(tmp_path / "home", direct_sdist(tmp_path, "import sys; print(sys.prefix)"))
    assert log == ""
    assert run(environment) == str(Path(environment.python).parent.parent)


@pytest.mark.parametrize("locale", ["C", "POSIX", "C.UTF-8"])
def test_a_home_beyond_ascii_in_a_plain_locale(tmp_path: Path, wheelhouse: Path, locale: str) -> None:
    """Python 3.11 reads .pth files in the locale's encoding, in its UTF-8 mode too."""
    wheel(wheelhouse, "left", "1.0")
    package = direct_sdist(tmp_path, "import left; print(left.VERSION)", ("left",))
    environment, _ = make(tmp_path / "Jürgen's", package)
    argv, variables = [environment.python, "-m", "trainer.task"], {**os.environ, "LC_ALL": locale}
    ended = subprocess.run(argv, cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("1.0\n", "")


def test_planning_writes_nothing(tmp_path: Path) -> None:
    planned = plan(tmp_path / "home", direct_sdist(tmp_path, "print(1)", ("left>=1",)))
    assert not planned.cached
    assert not planned.dependencies_cached
    assert not (tmp_path / "home").exists()


def test_the_trainer_sees_nothing_of_vtrain(tmp_path: Path) -> None:
    code = "import importlib.util as u; print(u.find_spec('msgspec'), u.find_spec('vtrain'))"
    environment, _ = make(tmp_path / "home", direct_sdist(tmp_path, code))
    assert run(environment) == "None None"


def test_requirements_are_installed_once(tmp_path: Path, wheelhouse: Path) -> None:
    wheel(wheelhouse, "left", "1.0")
    wheel(wheelhouse, "left", "2.0")
    home = tmp_path / "home"
    first = direct_sdist(tmp_path, "import left; print(left.VERSION)", ("left<2",))
    environment, log = make(home, first)
    assert "left" in log
    assert run(environment) == "1.0"
    assert plan(home, first).cached

    edited = direct_sdist(tmp_path, "import left; print('edited', left.VERSION)", ("left<2",))
    planned = plan(home, edited)
    assert planned.dependencies_cached
    assert not planned.cached
    again, log = make(home, edited)
    assert log == ""
    assert run(again) == "edited 1.0"
    assert run(environment) == "1.0"


def test_packages_are_installed_in_order(tmp_path: Path, wheelhouse: Path) -> None:
    """The trainer's requirement on an earlier package is met by that package, as on Vertex."""
    wheel(wheelhouse, "below")
    earlier = wheel(tmp_path / "given", "own", "3.0", ("below",))
    trainer = direct_sdist(tmp_path, "import own, below; print(own.VERSION, below.VERSION)", ("own",))
    environment, _ = make(tmp_path / "home", earlier, trainer)
    assert run(environment) == "3.0 1.0"
    with pytest.raises(EnvironmentFailed, match=r"^own cannot be installed"):
        make(tmp_path / "home", trainer, earlier)


def test_a_package_to_be_built_tells_its_requirements_then(tmp_path: Path, wheelhouse: Path) -> None:
    wheel(wheelhouse, "left")
    home = tmp_path / "home"
    environment, _ = make(home, sdist(tmp_path, "import left; print(left.VERSION)", ("left",)))
    assert run(environment) == "1.0"
    edited = sdist(tmp_path, "import left; print('edited')", ("left",))
    environment, log = make(home, edited)
    assert run(environment) == "edited"
    assert "Resolved" not in log
    assert plan(home, edited).cached


def test_a_package_that_does_not_build_is_named(tmp_path: Path) -> None:
    package = sdist(tmp_path, "import left", ("left",))
    broken = Path(package.replace("built", "broken"))
    rewrite_backend(Path(package), broken)
    with pytest.raises(
        EnvironmentFailed, match=r"^The package trainer-broken-\w+\.tar\.gz cannot be built"
    ) as said:
        make(tmp_path / "home", str(broken))
    assert "no backend today" in said.value.message


def rewrite_backend(package: Path, broken: Path) -> None:
    import io
    import tarfile

    with tarfile.open(package) as source, tarfile.open(broken, "w:gz") as target:
        for member in source:
            content = source.extractfile(member)
            assert content is not None
            data = content.read()
            if member.name.endswith("backend.py"):
                data = b"raise RuntimeError('no backend today')\n"
            member.size = len(data)
            target.addfile(member, io.BytesIO(data))


def test_commands_of_requirements_start_the_trainers_interpreter(tmp_path: Path, wheelhouse: Path) -> None:
    wheel(wheelhouse, "left", command=True)
    environment, _ = make(tmp_path / "home", direct_sdist(tmp_path, "print(1)", ("left",)))
    path = os.pathsep.join(environment.path_entries)
    found = subprocess.run(["left"], env={"PATH": path}, check=True, capture_output=True, text=True)
    assert found.stdout.strip() == str(Path(environment.python).parent.parent)


def test_a_command_that_is_a_link_to_the_one_in_uvs_cache_is_written_beside_it(tmp_path: Path) -> None:
    begin_environment(tmp_path / "made", base_interpreter())
    binaries, cached, said = tmp_path / "made" / "bin", tmp_path / "cached", "#!{}/python\n"
    cached.write_text(said.format("/cache/bin"))
    os.link(cached, binaries / "left")
    adopt_commands(tmp_path / "made", binaries)
    assert (binaries / "left").read_text() == said.format(binaries)
    assert cached.read_text() == said.format("/cache/bin")


def test_a_missing_requirement_is_named_and_leaves_nothing_broken(tmp_path: Path, wheelhouse: Path) -> None:
    home = tmp_path / "home"
    trainer = direct_sdist(tmp_path, "import left; print(left.VERSION)", ("left>=1",))
    with pytest.raises(EnvironmentFailed) as said:
        make(home, trainer)
    assert said.value.message.startswith("left>=1 cannot be installed: uv failed.")
    assert not plan(home, trainer).cached
    wheel(wheelhouse, "left")
    assert run(make(home, trainer)[0]) == "1.0"


def test_an_unreachable_index_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.delenv("PIP_RETRIES", raising=False)
    trainer = direct_sdist(tmp_path, "import left", ("left",))
    with pytest.raises(EnvironmentFailed, match=r"^left cannot be .* index was not reachable") as failed:
        make(tmp_path / "home", trainer)
    assert failed.value.hint.startswith("Connect to the network")
    monkeypatch.setenv("HTTPS_PROXY", "http://vtrain:token@127.0.0.1:9")  # that of an emulator
    with pytest.raises(EnvironmentFailed) as failed:
        make(tmp_path / "home", trainer)
    assert "vtrain emulator env --unset" in failed.value.hint


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed, match=r"nothing\.tar\.gz cannot be read: No such file"):
        plan(tmp_path / "home", str(tmp_path / "nothing.tar.gz"))


def test_a_damaged_package_is_said(tmp_path: Path) -> None:
    package = Path(direct_sdist(tmp_path, "import os\n" * 5000))
    damaged = tmp_path / "damaged.tar.gz"
    damaged.write_bytes(package.read_bytes()[:-60])
    with pytest.raises(EnvironmentFailed, match="damaged"):
        make(tmp_path / "home", str(damaged))
    (tmp_path / "empty.tar.gz").write_bytes(b"")
    with pytest.raises(EnvironmentFailed, match=r"empty\.tar\.gz"):
        make(tmp_path / "home", str(tmp_path / "empty.tar.gz"))


def test_a_home_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "environments").write_text("a file")
    with pytest.raises(EnvironmentFailed, match="could not be written"):
        make(home, direct_sdist(tmp_path, "print(1)"))


MAKER = """
import sys
from pathlib import Path
sys.path[:0] = {path!r}
from vtrain.runtime.environments.environment import EnvironmentSpec, make_environment, plan_environment
plan = plan_environment(EnvironmentSpec(packages=({package!r},)), Path({home!r}))
make_environment(plan, lambda line: print(line, flush=True))
print("made", flush=True)
"""


def start_maker(home: Path, package: str) -> subprocess.Popen[str]:
    code = MAKER.format(path=sys.path, package=package, home=str(home))
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_killed_while_making_the_next_one_completes(tmp_path: Path, wheelhouse: Path) -> None:
    wheel(wheelhouse, "left")
    home = tmp_path / "home"
    trainer = direct_sdist(tmp_path, "import left; print(left.VERSION)", ("left",))
    with start_maker(home, trainer) as maker:
        wait_until(lambda: list(home.glob("environments/dependencies/*/pyvenv.cfg")), pause=0.005)
        maker.send_signal(signal.SIGKILL)
    assert not plan(home, trainer).dependencies_cached
    assert run(make(home, trainer)[0]) == "1.0"


def test_an_environment_whose_lower_layer_is_gone_is_planned_anew(tmp_path: Path) -> None:
    home = tmp_path / "home"
    trainer = direct_sdist(tmp_path, "print(1)")
    make(home, trainer)
    assert plan(home, trainer).cached
    remove_folder(plan(home, trainer).dependencies_path)
    assert not plan(home, trainer).cached
    assert run(make(home, trainer)[0]) == "1"


def test_an_environment_whose_interpreter_is_gone_is_made_again(tmp_path: Path) -> None:
    """A Python that was removed, or replaced by its next version."""
    home = tmp_path / "home"
    trainer = direct_sdist(tmp_path, "print(1)")
    make(home, trainer)
    for python in home.glob("environments/*/*/bin/python"):
        python.unlink()
        python.symlink_to(tmp_path / "gone")
    assert not plan(home, trainer).cached
    assert run(make(home, trainer)[0]) == "1"


def test_a_home_that_was_moved_makes_its_environments_again(tmp_path: Path, wheelhouse: Path) -> None:
    wheel(wheelhouse, "left")
    trainer = direct_sdist(tmp_path, "import left; print(left.VERSION)", ("left",))
    make(tmp_path / "home", trainer)
    (tmp_path / "home").rename(tmp_path / "moved")
    assert run(make(tmp_path / "moved", trainer)[0]) == "1.0"
    assert plan(tmp_path / "moved", trainer).cached


def test_two_at_once_make_it_once(tmp_path: Path, wheelhouse: Path) -> None:
    wheel(wheelhouse, "left")
    home = tmp_path / "home"
    trainer = direct_sdist(tmp_path, "import left; print(left.VERSION)", ("left",))
    with start_maker(home, trainer) as one, start_maker(home, trainer) as two:
        said = [maker.communicate(timeout=120)[0] for maker in (one, two)]
    assert all(text.endswith("made\n") for text in said)
    assert sum("nstalled" in text for text in said) == 1
    assert run(make(home, trainer)[0]) == "1.0"


def test_a_tiny_distribution_from_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "pip"))
    environment, _ = make(tmp_path / "home", direct_sdist(tmp_path, "import six; print(six.PY3)", ("six",)))
    assert run(environment) == "True"
