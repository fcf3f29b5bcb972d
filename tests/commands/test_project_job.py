"""`[tool.vtrain.job]`: what a command line runs that names nothing to run, and what it does to no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lib.tables import rows

from vtrain.pyproject import ProjectJob

JOB = """
[project]
name = "digits"

[tool.vtrain.job]
module = "trainer.task"
args = ["--epochs=3", "a,b", ""]
env = {LEVEL = "debug", KEPT = "yes"}
labels = {team = "red"}
requirements = ["humanize<5,>=4"]
machine-type = "n1-standard-8"
accelerator-type = "NVIDIA_TESLA_T4"
replica-count = 3
region = "europe-west4"
output-dir = "gs://bucket/out"
service-account = "trainer@demo-1.iam.gserviceaccount.com"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a job and a module; the current folder is below it."""
    for folder in ("trainer", "below", "elsewhere"):
        (tmp_path / folder).mkdir()
    (tmp_path / "trainer" / "__init__.py").touch()
    (tmp_path / "trainer" / "task.py").write_text("print('hello')\n")
    (tmp_path / "elsewhere" / "other.py").write_text("print('other')\n")
    (tmp_path / "pyproject.toml").write_text(JOB)
    monkeypatch.chdir(tmp_path / "below")
    return tmp_path


@pytest.fixture
def planned(vtrain: Any) -> Any:
    """The job that a command line would make, by its dry run."""

    def plan(*argv: str, command: str = "create") -> dict[str, Any]:
        backend = [] if any(word.startswith("--backend") for word in argv) else ["--backend=process"]
        ended = vtrain("custom-jobs", command, "--dry-run", "--format=json", *backend, *argv)
        assert ended.code == 0, ended.err
        document: dict[str, Any] = json.loads(ended.out)
        return document | {"err": ended.err}

    return plan


POOL = "--worker-pool-spec="
# Key → a flag that counts more than it, and the text of the planned job that says so.
LAID_OVER = {
    "name": ("--display-name=mine", '"displayName": "mine"'),
    "path": ("--local-package-path=../elsewhere/none", "../elsewhere/none does not exist"),
    "image": ("--executor-image-uri=python:3.12", '"executorImageUri": "python:3.12"'),
    "args": ("--args=x", '"args": [ "x" ]'),
    "env": ("--env=LEVEL=info", '{ "name": "LEVEL", "value": "info" }, { "name": "KEPT", "value": "yes" }'),
    "requirements": ("--requirements=no name", "`no name`"),
    "extra-packages": ("--extra-packages=no.whl", "There is no extra package no.whl"),
    "extra-dirs": ("--extra-dirs=no", "There is no extra folder no"),
    "machine-type": (
        f"{POOL}machine-type=n1-standard-4",
        '"acceleratorCount": 1, "acceleratorType": "NVIDIA_TESLA_T4", "machineType": "n1-standard-4"',
    ),
    "replica-count": (f"{POOL}replica-count=5", '"replicaCount": "4"'),
    "accelerator-type": (
        f"{POOL}accelerator-type=NVIDIA_TESLA_V100",
        '"acceleratorCount": 1, "acceleratorType": "NVIDIA_TESLA_V100", "machineType": "n1-standard-8"',
    ),
    "accelerator-count": (
        f"{POOL}accelerator-count=2",
        '"acceleratorCount": 2, "acceleratorType": "NVIDIA_TESLA_T4"',
    ),
    "boot-disk-size": ("--boot-disk-size=200", '"bootDiskSizeGb": 200'),
    "labels": ("--labels=team=blue", '"labels": { "team": "blue" }'),
    "output-dir": ("--base-output-dir=gs://mine/out", '"outputUriPrefix": "gs://mine/out"'),
    "service-account": ("--service-account=1", '"serviceAccount": "1"'),
}
OTHER_MACHINES = {"gpus", "spot", "flex-start"}  # they exclude keys of the job above
NAMED_BY = {"module", "script", "config"}  # their flags name what to run, in the place of the whole job
ELSEWHERE = {"command", "region", "bucket"}  # for containers, and for services


def test_each_key_has_a_flag_that_counts_more() -> None:
    assert {*LAID_OVER, *OTHER_MACHINES, *NAMED_BY, *ELSEWHERE} == set(ProjectJob.__struct_encode_fields__)


@pytest.mark.parametrize("key", LAID_OVER)
@pytest.mark.parametrize(
    "command", ["run", "submit", "debug", "custom-jobs create", "custom-jobs local-run"], ids=str
)
@pytest.mark.usefixtures("debug_port")
def test_a_flag_is_laid_over_the_job(project: Path, vtrain: Any, command: str, key: str) -> None:
    flag, said = LAID_OVER[key]
    plain = vtrain(*command.split(), "--dry-run", "--format=json", "--backend=process")
    ended = vtrain(*command.split(), "--dry-run", "--format=json", "--backend=process", flag)
    assert "Not used" not in ended.err
    assert said in " ".join((ended.out + ended.err).split())
    assert said not in " ".join((plain.out + plain.err).split())


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--machine-type=n1-standard-4", '"machineType": "n1-standard-4"'),
        ("--gpus=T4:2", '"acceleratorCount": 2, "acceleratorType": "NVIDIA_TESLA_T4"'),
        ("--replicas=5", '"replicaCount": "4"'),
        ("--boot-disk-size=200GB", '"bootDiskSizeGb": 200'),
        ("--spot", '"strategy": "SPOT"'),
    ],
)
def test_machines_are_laid_over_the_job(project: Path, vtrain: Any, flag: str, said: str) -> None:
    ended = vtrain("submit", "--dry-run", "--format=json", "--backend=process", flag)
    out = " ".join(ended.out.split())
    assert ended.code == 0, ended.err
    assert "Job: " in ended.err
    pools = json.loads(ended.out)["jobSpec"]["workerPoolSpecs"]
    assert said in out
    assert pools[1] == pools[0] | {"replicaCount": pools[1]["replicaCount"]}


V100 = f"{POOL}accelerator-type=NVIDIA_TESLA_V100,machine-type=n1-standard-8,accelerator-count=1"


@pytest.mark.parametrize(
    ("flags", "kind", "gpus", "disk", "strategy"),
    [
        ("", "g2-standard-24", "2 NVIDIA_L4", 300, "FLEX_START"),
        ("--gpus=T4 --spot", "n1-standard-4", "1 NVIDIA_TESLA_T4", 300, "SPOT"),
        (
            "--machine-type=g2-standard-24 --boot-disk-size=900",
            "g2-standard-24",
            "2 NVIDIA_L4",
            900,
            "FLEX_START",
        ),
        (f"{V100} --spot", "n1-standard-8", "1 NVIDIA_TESLA_V100", 300, "SPOT"),
    ],
)
def test_gpus_disks_and_spot_are_keys_below_their_flags(
    project: Path, planned: Any, flags: str, kind: str, gpus: str, disk: int, strategy: str
) -> None:
    own = 'gpus = "l4:2"\nboot-disk-size = 300\nflex-start = true\nreplica-count = 2\n'
    (project / "pyproject.toml").write_text(f'[tool.vtrain.job]\n{own}module = "trainer.task"\n')
    spec = planned(*flags.split())["jobSpec"]
    first, second = spec["workerPoolSpecs"]
    machine = first["machineSpec"]
    assert second == first
    assert f"{machine['acceleratorCount']} {machine['acceleratorType']}" == gpus
    found = (machine["machineType"], first["diskSpec"]["bootDiskSizeGb"], spec["scheduling"]["strategy"])
    assert found == (kind, disk, strategy)


def test_gpus_and_disks_of_the_job_are_those_of_each_pool(project: Path, planned: Any) -> None:
    own = 'gpus = "T4:2"\nboot-disk-size = 200\nmodule = "trainer.task"\n'
    (project / "pyproject.toml").write_text(f"[tool.vtrain.job]\n{own}")
    spec = planned(f"{POOL}machine-type=n1-standard-8", f"{POOL}machine-type=n1-standard-16")["jobSpec"]
    for pool in spec["workerPoolSpecs"]:
        machine = pool["machineSpec"]
        assert (machine["acceleratorType"], machine["acceleratorCount"]) == ("NVIDIA_TESLA_T4", 2)
        assert pool["diskSpec"]["bootDiskSizeGb"] == 200


def test_pools_are_laid_over_the_job(project: Path, planned: Any) -> None:
    job = planned(
        f"{POOL}machine-type=n1-standard-4,executor-image-uri=python:3.12",
        f"{POOL}replica-count=7,accelerator-type=NVIDIA_TESLA_V100,accelerator-count=2",
    )
    first, second = job["jobSpec"]["workerPoolSpecs"]
    assert first["pythonPackageSpec"] == second["pythonPackageSpec"]
    assert first["pythonPackageSpec"]["executorImageUri"] == "python:3.12"
    gpu = {"machineType": "n1-standard-4", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1}
    assert (first["machineSpec"], first["replicaCount"]) == (gpu, "1")
    assert second["machineSpec"] == {
        "machineType": "n1-standard-8",
        "acceleratorType": "NVIDIA_TESLA_V100",
        "acceleratorCount": 2,
    }
    assert second["replicaCount"] == "7"


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        (f"{POOL}accelerator-type=T4", "pool 0 has an unknown accelerator-type, 'T4'"),
        ("--python-package-uris=gs://b/p.tar.gz", "--python-package-uris needs --worker-pool-spec"),
    ],
)
def test_a_flag_that_cannot_be_laid_over_the_job_is_refused(
    project: Path, vtrain: Any, flag: str, said: str
) -> None:
    ended = vtrain("submit", "--backend=process", "--dry-run", flag)
    assert ended.code in (1, 2)
    assert said in ended.err


def test_flags_are_laid_over_a_container_and_over_a_file(project: Path, planned: Any, vtrain: Any) -> None:
    (project / "pyproject.toml").write_text('[tool.vtrain.job]\nname = "c"\nimage = "python:3.12"\n')
    place = ("--backend=vertex", "--project=demo-1", "--region=us-east1")
    flags = ("--executor-image-uri=busybox", "--command=echo,a", f"{POOL}machine-type=n1-standard-4")
    job = planned(*place, *flags)
    (pool,) = job["jobSpec"]["workerPoolSpecs"]
    assert pool["containerSpec"] == {"imageUri": "busybox", "command": ["echo", "a"]}
    assert pool["machineSpec"] == {"machineType": "n1-standard-4"}
    package = {"pythonModule": "other", "packageUris": ["file:///a.tar.gz"]}
    pools = [{"pythonPackageSpec": package}]
    document = {"displayName": "file", "jobSpec": {"workerPoolSpecs": pools}}
    (project / "job.json").write_text(json.dumps(document))
    (project / "pyproject.toml").write_text('[tool.vtrain.job]\nconfig = "job.json"\n')
    (pool,) = planned("--executor-image-uri=python:3.12")["jobSpec"]["workerPoolSpecs"]
    assert pool["pythonPackageSpec"] == package | {"executorImageUri": "python:3.12"}
    pools[0] = {"containerSpec": {"imageUri": "busybox"}}
    document = {"displayName": "file", "jobSpec": {"workerPoolSpecs": pools}}
    (project / "job.json").write_text(json.dumps(document))
    refused = vtrain("submit", "--backend=process", "--dry-run", "--executor-image-uri=python:3.12")
    assert "--executor-image-uri is for Python packages, and the file describes none." in refused.err


@pytest.mark.parametrize("command", ["create", "local-run"])
def test_a_line_that_names_nothing_runs_it(project: Path, planned: Any, command: str) -> None:
    job = planned(command=command)
    spec = job["jobSpec"]
    assert (job["displayName"], job["labels"]) == ("digits", {"team": "red"})
    assert spec["baseOutputDirectory"] == {"outputUriPrefix": "gs://bucket/out"}
    assert spec["serviceAccount"] == "trainer@demo-1.iam.gserviceaccount.com"
    pool, followers = spec["workerPoolSpecs"]
    assert (pool["replicaCount"], followers["replicaCount"]) == ("1", "2")
    assert followers == pool | {"replicaCount": "2"}
    assert pool["machineSpec"] == {
        "machineType": "n1-standard-8",
        "acceleratorType": "NVIDIA_TESLA_T4",
        "acceleratorCount": 1,
    }
    package = pool["pythonPackageSpec"]
    assert package["pythonModule"] == "trainer.task"
    assert package["args"] == ["--epochs=3", "a,b", ""]
    assert package["env"] == [{"name": "LEVEL", "value": "debug"}, {"name": "KEPT", "value": "yes"}]
    assert f"Job: {project / 'pyproject.toml'} [tool.vtrain.job]\n" in job["err"]


def test_labels_assignments_and_arguments_count_more_than_its_keys(project: Path, planned: Any) -> None:
    """Every other flag is in LAID_OVER."""
    assigned = "--set=workerPoolSpecs[0].machineSpec.machineType=n1-standard-4"
    job = planned("--labels=team=blue,a=b", assigned, "--", "--epochs=1")
    pool = job["jobSpec"]["workerPoolSpecs"][0]
    assert job["labels"] == {"a": "b", "team": "blue"}
    assert pool["machineSpec"]["machineType"] == "n1-standard-4"
    assert pool["pythonPackageSpec"]["args"] == ["--epochs=1"]
    assert "args" not in planned("--")["jobSpec"]["workerPoolSpecs"][0]["pythonPackageSpec"]


@pytest.mark.parametrize(
    "argv",
    [
        f"create --display-name=line {POOL}machine-type=n1-standard-4,python-module=other,"
        "local-package-path=../elsewhere",
        "create --display-name=line --local-package-path=../elsewhere/other.py",
        "create --config=../job.json",
        "create --display-name=line --config=../job.json --env=A=1",
        "local-run --script=other.py --local-package-path=../elsewhere",
        "local-run --python-module=other --local-package-path=../elsewhere",
        "local-run --local-package-path=../elsewhere/other.py",
    ],
)
def test_a_line_that_names_what_to_run_is_as_without_it(project: Path, planned: Any, argv: str) -> None:
    package = {"pythonModule": "other", "packageUris": ["file:///a.tar.gz"]}
    job = {"displayName": "file", "jobSpec": {"workerPoolSpecs": [{"pythonPackageSpec": package}]}}
    (project / "job.json").write_text(json.dumps(job))
    command, *flags = argv.split()
    with_job = planned(*flags, command=command)
    (project / "pyproject.toml").write_text('[project]\nname = "digits"\n')
    told = f"Not used: {project / 'pyproject.toml'} [tool.vtrain.job], as the command names what to run.\n"
    assert told in with_job["err"]
    without = planned(*flags, command=command)
    assert without | {"err": ""} == with_job | {"err": ""}
    assert without["err"] == with_job["err"].replace(told, "")


def test_paths_begin_at_the_file(project: Path, planned: Any) -> None:
    (project / "pyproject.toml").write_text('[tool.vtrain.job]\npath = "elsewhere/other.py"\n')
    assert planned()["displayName"] == project.name
    (project / "job.yaml").write_text(
        "displayName: file\njobSpec: {workerPoolSpecs: [{pythonPackageSpec: {pythonModule: trainer.task}}]}\n"
    )
    (project / "pyproject.toml").write_text('[tool.vtrain.job]\npath = "."\nconfig = "job.yaml"\n')
    job = planned("--env=A=1")
    assert job["displayName"] == "file"
    (pool,) = job["jobSpec"]["workerPoolSpecs"]
    assert pool["pythonPackageSpec"]["env"] == [{"name": "A", "value": "1"}]
    assert pool["pythonPackageSpec"]["packageUris"][0].startswith("file:///")


def test_an_image_without_a_trainer_is_a_container(project: Path, planned: Any) -> None:
    text = '[tool.vtrain.job]\nname = "c"\nimage = "python:3.12"\ncommand = ["python"]\nargs = ["-V"]\n'
    (project / "pyproject.toml").write_text(text)
    job = planned("--backend=vertex", "--project=demo-1", "--region=us-east1")
    (pool,) = job["jobSpec"]["workerPoolSpecs"]
    assert pool["containerSpec"] == {"imageUri": "python:3.12", "command": ["python"], "args": ["-V"]}


def test_the_region_is_for_services(project: Path, vtrain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    argv = ("custom-jobs", "create", "--dry-run", "--backend=vertex", "--project=demo-1", "--format=json")
    job = (
        JOB
        + 'image = "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest"\nbucket = "gs://bucket"\n'
    )
    (project / "pyproject.toml").write_text(job)
    ended = vtrain(*argv)
    assert ended.code == 0, ended.err
    assert '"gs://bucket/' in ended.out
    monkeypatch.setenv("CLOUDSDK_AI_REGION", "nowhere")
    assert "'nowhere' is not a region" in vtrain(*argv).err
    assert vtrain(*argv, "--region=me-west1").code == 0
    monkeypatch.delenv("CLOUDSDK_AI_REGION")
    (project / "pyproject.toml").write_text(job.replace("europe-west4", "europe-west1O"))
    refused = vtrain(*argv)
    assert refused.code == 1
    assert "pyproject.toml:14: region of [tool.vtrain.job]: 'europe-west1O' is not a region" in refused.err
    assert "Did you mean europe-west1 or" in refused.err


WRONG = rows(
    r"""
    name = 'x' | 1: job of [tool.vtrain]: it names nothing to run.
    module = 'a'\nscript = 'b.py' | 3: script of [tool.vtrain.job]: it excludes module.
    module = 'trainer.task'\ngpus = 'T4:3' | 3: gpus of [tool.vtrain.job]: $T4_COUNT
    script = 'b.py'\ngpus = 'T5' | 3: gpus of [tool.vtrain.job]: there is no accelerator 'T5'
    script = 'b.py'\naccelerator-type = 'NVIDIA_L4'\ngpus = 'L4' |
        4: gpus of [tool.vtrain.job]: it excludes accelerator-type
    script = 'b.py'\nflex-start = true\nspot = true | 4: spot of [tool.vtrain.job]: it excludes
    config = 'j.yaml'\ngpus = 'L4' | 3: gpus of [tool.vtrain.job]: the file of config says it
    config = 'j.yaml'\nmachine-type = 'x' | 3: machine-type of [tool.vtrain.job]: the file of config
    config = 'j.yaml'\nimage = 'x' | 3: image of [tool.vtrain.job]: the file of config says it
    image = 'x'\nrequirements = ['a'] | 3: requirements of [tool.vtrain.job]: it goes with a trainer
    path = 'trainer'\nscript = '../a.py' |
        3: script of [tool.vtrain.job]: the script ../a.py lies outside
    script = 'b.py'\nextra-dirs = ['..'] | 3: extra-dirs of [tool.vtrain.job]: the extra folder .. lies
    path = '.'\nmodule = '..task' |
        3: module of [tool.vtrain.job]: python-module '..task' is not a name
    """,
    2,
    T4_COUNT="workerPoolSpecs[0].machineSpec.acceleratorCount: no machine type has 3 NVIDIA_TESLA_T4",
)


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_a_job_that_cannot_be_meant_is_refused(project: Path, vtrain: Any, text: str, said: str) -> None:
    file = project / "pyproject.toml"
    file.write_text(f"[tool.vtrain.job]\n{text}\n")
    for command in ("create", "local-run", "environment"):
        ended = vtrain("custom-jobs", command, "--backend=process")
        assert (ended.code, ended.out) == (1, "")
        assert f"{file}:{said}" in ended.err
    assert vtrain("custom-jobs", "list", "--backend=process").code == 0


@pytest.mark.parametrize("command", ["create", "local-run", "environment"])
def test_without_one_the_error_says_how_to_write_it(vtrain: Any, command: str, cwd: Path) -> None:
    (cwd / "pyproject.toml").touch()
    ended = vtrain("custom-jobs", command, "--backend=process")
    assert ended.code == 2
    assert "pyproject.toml, as [tool.vtrain.job]" in ended.err


def test_it_runs(project: Path, vtrain: Any) -> None:
    (project / "pyproject.toml").write_text('[tool.vtrain.job]\nmodule = "trainer.task"\n')
    ended = vtrain("custom-jobs", "local-run")
    assert (ended.code, ended.out) == (0, "hello\n"), ended.err
