from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from lib.job_strategies import valid_jobs

from vtrain.messages.codec import read_message, to_document
from vtrain.messages.custom_job import ContainerSpec, CustomJob, PythonPackageSpec
from vtrain.messages.yaml_reader import load_yaml
from vtrain.output.language.yaml_writer import dump_yaml

FED_BACK = ("custom-jobs", "create", "--config=-", "--dry-run", "--format=yaml", "--backend=process")
POOL = "machine-type=n1-standard-4,python-module=trainer.task"


def as_python(job: CustomJob) -> CustomJob:
    """The job with every container in it turned into a Python package: the process backend runs no images."""
    pools = []
    for pool in job.job_spec.worker_pool_specs:
        task = pool.container_spec
        if isinstance(task, ContainerSpec):
            python = PythonPackageSpec(python_module=task.image_uri, args=task.args, env=task.env)
            pool = msgspec.structs.replace(pool, container_spec=None, python_package_spec=python)
        pools.append(pool)
    spec = msgspec.structs.replace(job.job_spec, worker_pool_specs=tuple(pools))
    return msgspec.structs.replace(job, job_spec=spec)


def without_disks(job: CustomJob) -> CustomJob:
    """The job without the disks that the service adds where none is named."""
    pools = [msgspec.structs.replace(pool, disk_spec=None) for pool in job.job_spec.worker_pool_specs]
    spec = msgspec.structs.replace(job.job_spec, worker_pool_specs=tuple(pools))
    return msgspec.structs.replace(job, job_spec=spec)


def without_resource(job: CustomJob) -> CustomJob:
    """The job without a persistent resource, which there is not."""
    spec = msgspec.structs.replace(job.job_spec, persistent_resource_id="")
    return msgspec.structs.replace(job, job_spec=spec)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(wanted=valid_jobs().map(as_python).map(without_resource))
def test_a_dry_run_fed_back_gives_the_same_job(vtrain: Any, wanted: CustomJob) -> None:
    first = vtrain(*FED_BACK, stdin=dump_yaml(to_document(wanted)))
    assert first.code == 0, first.err
    shown = read_message(CustomJob, load_yaml(first.out, "stdout"))
    assert without_disks(shown) == wanted
    again = vtrain(*FED_BACK, stdin=first.out)
    assert (again.code, again.out) == (0, first.out)


def test_flags_fed_back_give_the_same_job(vtrain: Any) -> None:
    flags = [
        "--display-name=demo",
        f"--worker-pool-spec={POOL},replica-count=1,accelerator-type=NVIDIA_TESLA_T4",
        f"--worker-pool-spec={POOL},replica-count=2",
        "--args=^;^--a=1,2;--b",
        "--env=A=yes",
        "--env=B=012",
        "--labels=team=ml,n=no",
        "--timeout=90m",
        "--set=scheduling.strategy=SPOT",
        "--base-output-dir=gs://bucket/out",
        "--service-account=a@b.iam.gserviceaccount.com",
        "--kms-key=projects/p/locations/l/keyRings/r/cryptoKeys/k",
        "--enable-web-access",
    ]
    first = vtrain("custom-jobs", "create", *flags, "--dry-run", "--format=yaml")
    assert first.code == 0, first.err
    job = load_yaml(first.out, "stdout")
    assert job["jobSpec"]["scheduling"] == {"strategy": "SPOT", "timeout": "5400s"}
    assert job["jobSpec"]["workerPoolSpecs"][1]["pythonPackageSpec"]["args"] == ["--a=1,2", "--b"]
    assert job["labels"] == {"n": "no", "team": "ml"}
    again = vtrain(*FED_BACK, stdin=first.out)
    assert (again.code, again.out) == (0, first.out)


def test_flags_are_laid_over_what_is_fed_back(vtrain: Any) -> None:
    first = vtrain("custom-jobs", "create", "--display-name=demo", f"--worker-pool-spec={POOL}", "--dry-run")
    again = vtrain(*FED_BACK, "--env=A=1", "--display-name=other", "--", "--epochs", "3", stdin=first.out)
    job = load_yaml(again.out, "stdout")
    python = job["jobSpec"]["workerPoolSpecs"][0]["pythonPackageSpec"]
    assert job["displayName"] == "other"
    assert python["env"] == [{"name": "A", "value": "1"}]
    assert python["args"] == ["--epochs", "3"]


def test_a_dry_run_touches_nothing(vtrain: Any, cwd: Path, vtrain_home: Any) -> None:
    (cwd / "trainer").mkdir()
    (cwd / "trainer" / "task.py").write_text("print(1)\n")
    flags = ("--local-package-path=.", "--python-module=trainer.task", "--dry-run")
    ended = vtrain("custom-jobs", "local-run", *flags)
    assert ended.code == 0, ended.err
    assert "Would package" in ended.err and "Would start workerpool0-0" in ended.err
    assert sorted(path.name for path in cwd.rglob("*")) == ["t.py", "task.py", "trainer"]
    assert not vtrain_home.exists()


NO_IMAGE = "has no effect: no image is made of the trainer. --bake makes one."


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "t.py").write_text("print(1)\n")
    return tmp_path / "t.py"


def local_run(script: Path, *flags: str) -> tuple[str, ...]:
    return ("custom-jobs", "local-run", f"--local-package-path={script}", "--dry-run", *flags)


def test_a_name_for_an_image_that_is_not_made_is_warned_of(vtrain: Any, script: Path) -> None:
    """By a flag or as the key of a pool."""
    pool = f"machine-type=n1-standard-4,script=t.py,local-package-path={script.parent},output-image-uri=a/b:1"
    create = ("custom-jobs", "create", "--backend=process", "--display-name=demo", "--dry-run")
    for line, named in (
        (local_run(script, "--backend=process", "--output-image-uri=a/b:1"), "--output-image-uri"),
        ((*create, f"--worker-pool-spec={pool}"), "--worker-pool-spec: output-image-uri"),
    ):
        ended = vtrain(*line)
        assert ended.code == 0, ended.err
        warnings = [each for each in ended.err.splitlines() if "image is made" in each]
        assert warnings == [f"WARNING: {named} {NO_IMAGE}"]


@pytest.mark.docker
def test_docker_makes_the_image_that_a_name_is_given_for(vtrain: Any, script: Path, base_image: str) -> None:
    flags = ("--backend=docker", f"--executor-image-uri={base_image}", "--output-image-uri=a/b:1")
    named = vtrain(*local_run(script, *flags))
    plain = vtrain(*local_run(script, *flags, "--package-format=sdist"))
    assert (named.code, plain.code) == (0, 0), named.err + plain.err
    assert "Would build vtrain/t:" in named.err
    assert "WARNING" not in named.err
    assert f"WARNING: --output-image-uri {NO_IMAGE}\n" in plain.err


def test_a_bad_image_is_refused_with_its_pool_before_an_engine_is_asked(vtrain: Any, script: Path) -> None:
    ended = vtrain(*local_run(script, "--backend=docker", "--executor-image-uri=UPPER/x"))
    assert ended.code == 1
    assert "ERROR: workerPoolSpecs[0]: 'UPPER/x' is not the name of an image." in ended.err


@pytest.mark.parametrize("flag", ["", "--env=PIP_EXTRA_INDEX_URL=https://corp.example/simple"])
def test_a_job_for_vertex_names_the_index_of_its_dependencies(vtrain: Any, tmp_path: Path, flag: str) -> None:
    text = '[project]\nname = "p"\nversion = "1"\ndependencies = ["six"]\n'
    text += '[[tool.uv.index]]\nurl = "https://corp.example/simple"\n'
    (tmp_path / "pyproject.toml").write_text(text)
    (tmp_path / "train.py").write_text("import six\n")
    words = ["custom-jobs", "create", "--backend=vertex", "--dry-run", "--display-name=d", "--project=demo"]
    words += ["--region=us-central1", "--staging-bucket=gs://stage", "--executor-image-uri=example.com/i"]
    words += [f"--local-package-path={tmp_path}", "--script=train.py", *filter(None, [flag])]
    ended = vtrain(*words)
    assert ended.code == (0 if flag else 1), ended.err
    assert ("Set PIP_EXTRA_INDEX_URL=https://corp.example/simple" in ended.err) != bool(flag)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--args=--data-folder=x --reg=0.5",), "'--data-folder=x --reg=0.5'"),
        (("--", "--data-folder x --reg 0.5", "--c"), "'--data-folder x --reg 0.5'"),
        (("--", "--password=a --reg=1"), "'--password=***'"),
        (("--args=--a=x y", "--args=--flags=--b --c", "--args=a --b", "--args=--text=a -- b"), ""),
        (("--", "-c", "print(1) --x"), ""),
    ],
)
def test_an_argument_that_holds_several_is_told(
    vtrain: Any, tmp_path: Path, flags: tuple[str, ...], told: str
) -> None:
    (tmp_path / "train.py").touch()
    ended = vtrain("run", str(tmp_path / "train.py"), "--backend=process", "--dry-run", *flags)
    assert ended.code == 0, ended.err
    said = f"WARNING: one argument: {told}; separate words with commas in --args, or write them after --\n"
    assert (said in ended.err) == bool(told)
    assert ("one argument" in ended.err) == bool(told)


def test_what_a_build_leaves_out_is_a_warning(vtrain: Any, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").touch()
    (tmp_path / "app" / "task.py").write_text(
        "import pathlib\nprint((pathlib.Path(__file__).parent / 'a.csv').read_text())\n"
    )
    (tmp_path / "app" / "a.csv").write_text("1")
    setup = "from setuptools import setup\nsetup(name='app', version='1', packages=['app'])\n"
    (tmp_path / "setup.py").write_text(setup)
    ended = vtrain("run", str(tmp_path), "-m", "app.task", "--backend=process")
    assert ended.code == 1
    assert "WARNING: the folder's own build leaves out 1 of its files: app/a.csv\n" in ended.err
