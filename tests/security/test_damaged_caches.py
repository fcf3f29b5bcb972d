"""Files of the caches, each damaged at random: what reads them makes them again, or says so clearly."""

from __future__ import annotations

import copy
import random
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from environment_packages import direct_sdist, sdist, wheel
from privileges import run_bound

from vtrain.backends import BackendSettings
from vtrain.backends.registry import open_backend
from vtrain.errors import VtrainError
from vtrain.flags.compose import Draft
from vtrain.packaging.sdist import build_sdist, plan_sdist
from vtrain.packaging.sdist_plan import SdistPlan
from vtrain.packaging.source import TrainerSource
from vtrain.runtime.environments.environment import EnvironmentSpec, make_environment, plan_environment
from vtrain.staging import LocalBuckets
from vtrain.submission import Place, Prepared, package_and_stage, prepare

SEED = 20
Damage = Callable[[Path, random.Random], None]


def truncate(path: Path, chance: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(max(len(content), 1))])


def flip(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes() or b"\0")
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def empty(path: Path, chance: random.Random) -> None:
    path.write_bytes(b"")


def remove(path: Path, chance: random.Random) -> None:
    path.unlink()


def replace_by_folder(path: Path, chance: random.Random) -> None:
    path.unlink()
    path.mkdir()
    if chance.random() < 0.5:
        (path / "file").write_bytes(b"x")


DAMAGES: tuple[Damage, ...] = (truncate, flip, empty, remove, replace_by_folder)


def damage_one(folder: Path, chance: random.Random, damage: Damage) -> Path:
    """Damage a file below the folder, any but those that nobody reads."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    path = chance.choice(files)
    if path.is_symlink() and damage in (truncate, flip, empty):
        damage = remove
    damage(path, chance)
    return path


@pytest.fixture
def trainer(tmp_path: Path) -> Path:
    folder = tmp_path / "trainer-folder"
    (folder / "trainer").mkdir(parents=True)
    (folder / "trainer" / "__init__.py").touch()
    (folder / "trainer" / "task.py").write_text("print('whole')\n")
    wheel(folder, "own", "1.0")
    return folder


def contents(paths: tuple[Path, ...]) -> list[bytes]:
    return [path.read_bytes() for path in paths]


def test_damaged_packages_are_made_again(tmp_path: Path, trainer: Path) -> None:
    chance = random.Random(SEED)
    source = TrainerSource(
        folder=trainer, python_module="trainer.task", extra_packages=("own-1.0-py3-none-any.whl",)
    )
    cache = tmp_path / "packages"
    plan = plan_sdist(source, packages_dir=cache)
    whole = contents(build_sdist(plan, cache).install_order)
    for _ in range(6):
        for damage in DAMAGES:
            damaged = damage_one(cache, chance, damage)
            made = build_sdist(plan_sdist(source, packages_dir=cache), cache)
            assert contents(made.install_order) == whole, f"{damage.__name__} {damaged}"
            assert not build_sdist(plan, cache).built
    assert [path.name for path in cache.iterdir()] == [plan.content_hash]


HEADS: dict[str, Callable[[bytes], bytes]] = {
    "first 50 bytes": lambda content: content[:50],
    "nothing": lambda _: b"",
    "flipped from 20 on": lambda content: (
        content[:20] + bytes(b ^ 0xFF for b in content[20:23]) + content[23:]
    ),
}


@pytest.mark.parametrize("bucket", ["", "gs://bucket"])
@pytest.mark.parametrize("entry", [{"python_module": "trainer.task"}, {"script": "trainer/task.py"}])
def test_a_trainer_whose_package_is_damaged_at_its_head(
    tmp_path: Path, trainer: Path, entry: dict[str, str], bucket: str
) -> None:
    """The plan of the job does not read what packaging makes, or stages, again."""
    home, told = tmp_path / "home", list[str]()
    settings = BackendSettings(home=home, project="local", region="us-central1")
    backend, place = open_backend("process", settings), Place.on_this_machine(home, staging_bucket=bucket)
    document = {
        "displayName": "d",
        "jobSpec": {"workerPoolSpecs": [{"replicaCount": 1, "pythonPackageSpec": {}}]},
    }

    def planned() -> Prepared:
        draft = Draft(document=copy.deepcopy(document), source=TrainerSource(folder=trainer, **entry))
        return prepare(draft, backend, place, strict=False)

    package = planned().package
    assert isinstance(package, SdistPlan)
    (uri,) = package_and_stage(package, place, told.append)
    path, steps = place.buckets.local_path(uri), planned().plan.steps
    whole = path.read_bytes()
    assert steps[0].startswith("Would install the trainer and its requirements in /")
    for damage in HEADS.values():
        path.write_bytes(damage(whole))
        assert planned().plan.steps == ("Would install the trainer and its requirements.",)
        package_and_stage(package, place, told.append)
        assert (path.read_bytes(), planned().plan.steps) == (whole, steps)
        assert "Staged" in told[-1] if bucket else "is damaged or old; making it again …" in told[-2]


def test_a_folder_of_packages_that_is_a_file(tmp_path: Path, trainer: Path) -> None:
    source = TrainerSource(folder=trainer, python_module="trainer.task")
    plan = plan_sdist(source)
    build_sdist(plan, tmp_path)
    shutil.rmtree(tmp_path / plan.content_hash)
    (tmp_path / plan.content_hash).write_bytes(b"x")
    assert tarfile.is_tarfile(build_sdist(plan, tmp_path).sdist)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_staged_packages_are_staged_again(tmp_path: Path, damage: Damage) -> None:
    package = Path(direct_sdist(tmp_path / "given", "print(1)"))
    buckets = LocalBuckets(tmp_path / "home")
    uri = f"gs://bucket/folder/{package.name}"
    buckets.stage(package, uri)
    staged = buckets.local_path(uri)
    damage(staged, random.Random(SEED))
    if staged.is_dir():
        with pytest.raises(VtrainError, match=r"^Cannot stage .*: Is a directory\.") as refused:
            buckets.stage_all({package: uri}, lambda *_: None)
        assert "Remove" in refused.value.hint
        return
    assert buckets.stage(package, uri).written
    assert staged.read_bytes() == package.read_bytes()
    assert not buckets.stage(package, uri).written


@pytest.fixture
def wheelhouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place that installers look in."""
    folder = tmp_path / "wheelhouse"
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    wheel(folder, "left")
    return folder


def trained(home: Path, *packages: str) -> str:
    """What a trainer prints in its environment."""
    spec = EnvironmentSpec(packages=packages)
    made = make_environment(plan_environment(spec, home), lambda _: None)
    argv = [made.python, "-m", "trainer.task"]
    ended = subprocess.run(argv, cwd=home, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_damaged_environments_are_made_again(tmp_path: Path) -> None:
    """With a package that vtrain unpacks and one that a back end builds, so that every kind is there."""
    chance = random.Random(SEED)
    home = tmp_path / "home"
    built = sdist(tmp_path, "", name="below")
    packages = (built, direct_sdist(tmp_path, "import below; print('whole')"))
    assert trained(home, *packages) == "whole"
    for _ in range(6):
        for damage in DAMAGES:
            damaged = damage_one(home / "environments", chance, damage)
            said = f"{damage.__name__} {damaged.relative_to(home)}"
            assert trained(home, *packages) == "whole", said
            assert plan_environment(EnvironmentSpec(packages=packages), home).cached, said


@pytest.mark.parametrize("damage", [flip, remove], ids=lambda damage: damage.__name__)
def test_damaged_requirements_are_installed_again(tmp_path: Path, wheelhouse: Path, damage: Damage) -> None:
    home = tmp_path / "home"
    package = direct_sdist(tmp_path, "import left; print(left.VERSION)", ("left",))
    assert trained(home, package) == "1.0"
    (module,) = home.glob("environments/dependencies/*/lib/python*/site-packages/left.py")
    damage(module, random.Random(SEED))
    edited = direct_sdist(tmp_path, "import left; print('edited', left.VERSION)", ("left",))
    assert trained(home, edited) == "edited 1.0"
    assert trained(home, package) == "1.0"


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("kind", ["direct", "built", "wheel"])
def test_a_damaged_package_of_a_job_is_named(tmp_path: Path, kind: str, damage: Damage) -> None:
    make = {"direct": direct_sdist, "built": sdist}.get(kind)
    folder = tmp_path / "given"
    path = Path(make(folder, "print('whole')") if make else wheel(folder, "left"))
    for turn in range(4):
        copy = tmp_path / str(turn) / path.name
        copy.parent.mkdir()
        shutil.copyfile(path, copy)
        damage(copy, random.Random(SEED + turn))
        spec = EnvironmentSpec(packages=(str(copy),))
        try:
            make_environment(plan_environment(spec, tmp_path / "home"), lambda _: None)
        except VtrainError as error:
            assert path.name in error.message, error.message
            assert error.hint


WRITES_BESIDE_ITSELF = """\
import pathlib, sys
import left
own, other = pathlib.Path(__file__).with_name("own.txt"), pathlib.Path(left.__file__)
print("found", own.exists(), left.VERSION, flush=True)
own.write_text("of the first job")
other.write_text("VERSION = 'spoilt'")
"""


def test_no_job_sees_what_another_wrote_beside_its_modules(vtrain, wheelhouse: Path, tmp_path: Path) -> None:
    """The trainer's own folder is a copy; in what it requires the change is noticed."""
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "__init__.py").touch()
    (tmp_path / "trainer" / "task.py").write_text(WRITES_BESIDE_ITSELF)
    (tmp_path / "requirements.txt").write_text("left\n")
    line = "custom-jobs local-run --backend=process --executor-image-uri=python:3.11".split()
    line += [f"--local-package-path={tmp_path}", "--python-module=trainer.task"]
    for _ in range(2):
        ended = vtrain(*line)
        assert (ended.code, ended.out) == (0, "found False 1.0\n"), ended.err


def test_commands_of_a_copy_start_its_own_interpreter(tmp_path: Path) -> None:
    package = wheel(tmp_path, "own", command=True)
    trainer = direct_sdist(tmp_path, "print('whole')")
    home = tmp_path / "home"
    spec = EnvironmentSpec(packages=(package, trainer))
    made = make_environment(plan_environment(spec, home), lambda _: None)
    copy = made.copied_to(tmp_path / "job")
    shutil.rmtree(Path(made.python).parents[1])
    command = Path(copy.path_entries[0]) / "own"
    told = subprocess.run([command], capture_output=True, text=True, check=True).stdout.strip()
    assert told == str(Path(copy.python).parents[1])
    assert Path(told).parent == tmp_path / "job"


WRITES_BESIDE_REQUIREMENTS = """\
import pathlib, left
def attempt(act):
    try:
        act()
    except PermissionError:
        print("refused", flush=True)
    else:
        print("written", flush=True)
module = pathlib.Path(left.__file__)
print(left.VERSION, module.with_name("beside.py").exists(), flush=True)
attempt(lambda: module.write_text("VERSION = 'spoilt'"))
attempt(lambda: module.with_name("beside.py").write_text("x"))
attempt(lambda: module.unlink())
"""


def test_an_ordinary_user_cannot_write_to_what_others_import(tmp_path: Path, wheelhouse: Path) -> None:
    home = tmp_path / "home"
    package = direct_sdist(tmp_path, WRITES_BESIDE_REQUIREMENTS, ("left",))
    made = make_environment(plan_environment(EnvironmentSpec(packages=(package,)), home), lambda _: None)
    for _ in range(2):
        ended = run_bound([made.python, "-m", "trainer.task"])
        assert ended.stdout.split("\n") == ["1.0 False", "refused", "refused", "refused", ""], ended.stderr


@pytest.mark.parametrize("shared_too", [False, True])
def test_what_root_writes_in_place_reaches_no_other_environment(
    tmp_path: Path, wheelhouse: Path, monkeypatch: pytest.MonkeyPatch, shared_too: bool
) -> None:
    """Not uv's cache, not one made later, not one that shared the file and is used again."""
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    home = tmp_path / "home"
    wheel(wheelhouse, "right")
    first = direct_sdist(tmp_path, "import left; print(left.VERSION)", ("left",))
    second = direct_sdist(tmp_path, "import left, right; print(left.VERSION)", ("left", "right"))
    assert trained(home, first) == "1.0"
    if shared_too:
        assert trained(home, second) == "1.0"
    modules = list(home.glob("environments/dependencies/*/lib/python*/site-packages/left.py"))
    assert len({module.stat().st_ino for module in modules}) == 1
    mode = modules[0].stat().st_mode
    modules[0].chmod(0o644)
    modules[0].write_text("VERSION = 'spoilt'")
    modules[0].chmod(mode)
    assert trained(home, second) == "1.0"
    assert trained(home, first) == "1.0"
    cached = list((tmp_path / "cache").rglob("left.py"))
    assert cached and all("spoilt" not in path.read_text() for path in cached)
