"""Machines by flag, and hints that lead to a plan: `run`, `submit`, `debug`, `create`, `local-run`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from lib.tables import rows

pytest.importorskip("google.auth", reason="needs the extra vertex")

IMAGE = "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest"
POOL = "--worker-pool-spec="
VERTEX = ("--backend=vertex", "--project=demo-1", "--region=us-central1", "--staging-bucket=gs://bucket")
HERE = ("--backend=process",)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a script that imports scikit-learn."""
    (tmp_path / "train.py").write_text("import sklearn\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def spec(vtrain: Any) -> Any:
    """The jobSpec that a line would make on Vertex AI."""

    def plan(*argv: str) -> dict[str, Any]:
        ended = vtrain(*argv, *VERTEX, "--dry-run", "--format=json")
        assert ended.code == 0, ended.err
        found: dict[str, Any] = json.loads(ended.out)["jobSpec"]
        return found

    return plan


def machine(kind: str, accelerator: str = "", count: int = 0) -> dict[str, Any]:
    gpus = {"acceleratorType": accelerator, "acceleratorCount": count} if accelerator else {}
    return {"machineType": kind} | gpus


MACHINES = rows(
    """
    --machine-type=n1-standard-4 | n1-standard-4
    --machine-type=n1-standard-4 --gpus=T4 | n1-standard-4 | NVIDIA_TESLA_T4 | 1
    --gpus=T4 | n1-standard-4 | NVIDIA_TESLA_T4 | 1
    --gpus=V100:4 | n1-standard-4 | NVIDIA_TESLA_V100 | 4
    --gpus=L4 | g2-standard-4 | NVIDIA_L4 | 1
    --gpus=l4:2 | g2-standard-24 | NVIDIA_L4 | 2
    --gpus=A100-80:4 | a2-ultragpu-4g | NVIDIA_A100_80GB | 4
    --gpus=H100 | a3-highgpu-1g | NVIDIA_H100_80GB | 1
    --accelerator=nvidia-b200:8 | a4-highgpu-8g | NVIDIA_B200 | 8
    --accelerator=TPU_V3:8 | cloud-tpu | TPU_V3 | 8
    --worker-pool-spec=machine-type=n1-standard-8 --gpus=V100:2 | n1-standard-8 | NVIDIA_TESLA_V100 | 2
    """,
    4,
)


@pytest.mark.parametrize(("flags", "kind", "gpu", "count"), MACHINES, ids=[row[0] for row in MACHINES])
def test_flags_name_the_machine(spec: Any, flags: str, kind: str, gpu: str, count: str) -> None:
    (pool,) = spec("submit", "train.py", f"--executor-image-uri={IMAGE}", *flags.split())["workerPoolSpecs"]
    expected = machine(kind, gpu, int(count or 0))
    assert (pool["machineSpec"], pool["replicaCount"]) == (expected, "1")
    assert pool["pythonPackageSpec"]["executorImageUri"] == IMAGE


def test_the_replicas_beside_the_primary_are_the_second_pool(spec: Any) -> None:
    flags = ("--machine-type=n1-standard-4", "--boot-disk-size=200", "--replicas=3", "--flex-start")
    for line in (
        ("submit", "train.py", f"--executor-image-uri={IMAGE}", "--args=x"),
        ("submit", "train.py", f"{POOL}executor-image-uri={IMAGE},requirements=pandas", "--args=x"),
        ("custom-jobs", "create", "--display-name=x", f"{POOL}container-image-uri=busybox", "--args=x"),
    ):
        found = spec(*line, *flags)
        first, second = found["workerPoolSpecs"]
        assert found["scheduling"] == {"strategy": "FLEX_START"}
        assert (first["replicaCount"], first["diskSpec"]["bootDiskSizeGb"]) == ("1", 200)
        assert second == first | {"replicaCount": "2"}


def test_flags_are_laid_over_a_file(spec: Any, folder: Path) -> None:
    container = {"imageUri": "busybox"}
    pools: list[dict[str, Any]] = [
        {"machineSpec": machine("n1-standard-4"), "replicaCount": count, "containerSpec": container}
        for count in (1, 4, 1)
    ]
    pools[2]["machineSpec"] = machine("n1-standard-8")
    (folder / "job.json").write_text(json.dumps({"displayName": "x", "jobSpec": {"workerPoolSpecs": pools}}))
    line = ("custom-jobs", "create", "--config=job.json", "--machine-type=n1-standard-16")
    found = spec(*line, "--replicas=3")["workerPoolSpecs"]
    kinds = [(pool["machineSpec"]["machineType"], pool["replicaCount"]) for pool in found]
    assert kinds == [("n1-standard-16", "1"), ("n1-standard-16", "2"), ("n1-standard-8", "1")]
    first, second, third = spec(*line, "--replicas=1")["workerPoolSpecs"]
    assert (first["replicaCount"], second, third) == ("1", {}, found[2])


REFUSED = rows(
    r"""
    2 | --machine-type=a $POOL=machine-type=b | --machine-type says a, and --worker-pool-spec says
    2 | --gpus=T4:2 $POOL=accelerator-count=1,accelerator-type=NVIDIA_TESLA_T4 | --gpus says 2,
    2 | --replicas=2 $POOL=replica-count=3 | --replicas says 2, and --worker-pool-spec says
    2 | --executor-image-uri=a $POOL=executor-image-uri=b | --executor-image-uri says a, and
    2 | --replicas=2 $POOL=machine-type=a $POOL=machine-type=a | --replicas is for one
    2 | --spot --flex-start | --spot and --flex-start exclude each other
    2 | --replicas=0 | --replicas: expected 1 or more, found 0
    2 | --boot-disk-size=big | --boot-disk-size: expected a whole number
    2 | --gpus=T5 | --gpus: there is no accelerator 'T5'
    2 | --gpus=2 | --gpus: there is no accelerator '2'.\n  Write its type before the number: T4:2.
    2 | --gpus=T4:9999999999 | --gpus: expected a number from 1 after the colon, found '9999999999'
    2 | --gpus=T4:0 | --gpus: expected a number from 1 after the colon, found '0'
    1 | --flex-start | --flex-start: FLEX_START is for L4, A100 and newer GPUs, found none.\n
    1 | --gpus=H200 |
        --gpus: workerPoolSpecs[0].machineSpec.acceleratorCount: no machine type has 1 NVIDIA_H200_141GB.\n |
        Write --gpus=NVIDIA_H200_141GB:8.
    """,
    4,
    POOL="--worker-pool-spec",
)


@pytest.mark.parametrize(("code", "flags", "said", "hint"), REFUSED, ids=[row[1] for row in REFUSED])
def test_what_cannot_be_meant_is_one_sentence(
    vtrain: Any, code: str, flags: str, said: str, hint: str
) -> None:
    ended = vtrain("submit", "train.py", *HERE, "--dry-run", *flags.split())
    assert ended.code == int(code)
    assert f"ERROR: {said}" in ended.err and hint in ended.err


def test_a_disk_of_the_project_that_is_too_small_is_told(vtrain: Any) -> None:
    Path("pyproject.toml").write_text("[tool.vtrain.job]\nscript = 'train.py'\nboot-disk-size = 0\n")
    assert "boot-disk-size" in vtrain("run", *HERE, "--dry-run").err


@pytest.mark.parametrize(
    ("line", "flags", "is_warned"),
    [
        ("folder = os.environ['AIP_MODEL_DIR']", (), True),
        ("folder = os.environ.get('AIP_MODEL_DIR', '.')", (), False),
        ("folder = os.environ['AIP_MODEL_DIR']", ("--base-output-dir=gs://their-bucket/runs",), False),
    ],
)
def test_a_folder_that_the_service_will_not_name_is_warned_of(
    vtrain: Any, line: str, flags: tuple[str, ...], is_warned: bool
) -> None:
    Path("train.py").write_text(f"import os\n{line}\n")
    ended = vtrain("submit", "train.py", "-y", *VERTEX, "--dry-run", *flags)
    assert ended.code == 0, ended.err
    said = "WARNING: the trainer reads AIP_MODEL_DIR, which a job has only with --base-output-dir="
    assert (said in ended.err) is is_warned
    assert said not in vtrain("submit", "train.py", *HERE, "--dry-run").err


def test_an_image_is_taken_where_that_is_said(spec: Any, vtrain: Any) -> None:
    for place in (VERTEX, ("--backend=docker",)):
        refused = vtrain("submit", "train.py", *place, "--dry-run")
        assert refused.code == 1
        assert f"For scikit-learn: --executor-image-uri={IMAGE}\n  To take it, add --yes" in refused.err
        said = vtrain("submit", "train.py", "-y", *place, "--dry-run").err
        assert f"Image: {IMAGE}, for scikit-learn (--yes).\n" in said
    (pool,) = spec("submit", "train.py", "--yes", "--machine-type=n1-standard-4")["workerPoolSpecs"]
    assert pool["pythonPackageSpec"]["executorImageUri"] == IMAGE


@pytest.mark.parametrize(
    ("statement", "image"),
    [
        ("import tensorflow", "tf-gpu.2-17.py310"),
        ("import torch", "pytorch-gpu.2-4.py310"),
        ("import json", "pytorch-gpu.2-4.py310"),
        ("import xgboost", "xgboost-cpu.2-1"),
    ],
)
def test_an_image_for_gpus_is_proposed_where_there_are_some(vtrain: Any, statement: str, image: str) -> None:
    Path("train.py").write_text(f"{statement}\n")
    uri = f"us-docker.pkg.dev/vertex-ai/training/{image}:latest"
    refused = vtrain("submit", "train.py", *VERTEX, "--dry-run", "--gpus=T4")
    assert f"--executor-image-uri={uri}\n" in refused.err
    assert f"Image: {uri}, for " in vtrain("submit", "train.py", "-y", *VERTEX, "--dry-run", "--gpus=T4").err


@pytest.mark.parametrize(("device", "warns"), [("cpu", True), ("gpu", False)])
def test_an_image_without_cuda_is_warned_of_where_there_are_gpus(
    vtrain: Any, device: str, warns: bool
) -> None:
    image = f"--executor-image-uri=us-docker.pkg.dev/vertex-ai/training/tf-{device}.2-17.py310:latest"
    line = ("submit", "train.py", *VERTEX, "--dry-run", image)
    words = "the trainer sees no GPU in us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-17.py310:latest"
    assert (words in vtrain(*line, "--gpus=T4").err) is warns
    assert words not in vtrain(*line, "--machine-type=n1-standard-4").err


def test_a_machine_is_noted_once_on_this_machine(vtrain: Any) -> None:
    line = ("run", "train.py", *HERE, "--dry-run", "--machine-type=n1-standard-4", "--replicas=2", "--spot")
    ended = vtrain(*line)
    assert ended.code == 0
    assert ended.err.count("only its memory counts here, for the queue") == 1


def test_the_dry_run_names_the_machines_the_upload_and_the_request(vtrain: Any) -> None:
    line = ("submit", "train.py", "-y", "--machine-type=n1-standard-4", "--gpus=T4:2", "--replicas=3")
    said = vtrain(*line, *VERTEX, "--dry-run").err
    wanted = (
        r"Note: workerpool0 runs on n1-standard-4: 4 vCPUs, 15 GB, 2 x NVIDIA_TESLA_T4\.\n"
        r"Note: workerpool1 runs on 2 x n1-standard-4: 4 vCPUs, 15 GB, 2 x NVIDIA_TESLA_T4\.\n"
        r"Would package train-[0-9a-f]+\.tar\.gz: .*\n"
        r"Would upload it to gs://bucket/[0-9a-f]+/ unless it is there\.\n"
        r"Would send POST https://us-central1-aiplatform\.googleapis\.com/v1/projects/demo-1"
        r"/locations/us-central1/customJobs\n"
    )
    assert re.search(wanted, said)
    assert "Would upload" not in vtrain("run", "train.py", *HERE, "--dry-run").err


PLACEHOLDERS = {"IMAGE": IMAGE, "NAME": "digits", "FILE": "train.py", "DIR": "./", "COUNT": "1", "VALUE": "1"}
PLACEHOLDERS |= {"MODULE": "train", "PACKAGE.MODULE": "train"}
MISTAKES = rows(
    """
    no-image | submit train.py $VERTEX
    no-image-in-the-pool | submit train.py $VERTEX $POOL=machine-type=n1-standard-4
    no-machine | submit train.py $VERTEX --executor-image-uri=$IMAGE
    gpu-of-another-machine | run train.py $HERE --machine-type=n1-standard-4 --gpus=L4
    count-of-another-machine | run train.py $HERE --machine-type=n1-standard-16 --gpus=V100
    no-such-count | submit train.py $VERTEX --yes --gpus=H200
    misspelt-gpu | run train.py $HERE --gpus=A10
    flex-start-without-a-gpu | run train.py $HERE --flex-start
    two-values | submit train.py $VERTEX --yes --machine-type=n1-standard-4 $POOL=machine-type=n1-standard-8
    key-for-a-flag | run train.py $HERE --replica-count=2
    type-for-a-flag | debug train.py $HERE --accelerator-type=NVIDIA_TESLA_T4
    count-for-a-flag | run train.py $HERE --accelerator-count=2
    pool-without-a-machine | $CREATE $HERE $POOL=local-package-path=.,script=train.py --display-name=x
    pool-without-an-image | $CREATE $VERTEX $POOL=machine-type=n1-standard-4 --display-name=x
    package-without-an-image |
        $CREATE $VERTEX $POOL=machine-type=n1-standard-4,local-package-path=.,script=train.py
    package-without-a-program |
        $CREATE $VERTEX $POOL=machine-type=n1,executor-image-uri=$IMAGE,local-package-path=.
    folder-without-a-program | $CREATE $HERE --local-package-path=. --display-name=x
    script-without-a-folder | $CREATE $VERTEX --script=train.py --display-name=x --yes
    nothing-to-run-here | custom-jobs local-run $HERE
    script-without-its-flag | custom-jobs local-run train.py $HERE
    script-without-its-flag-on-create | $CREATE $VERTEX train.py --display-name=x --yes
    no-name | $CREATE $VERTEX $POOL=machine-type=n1-standard-4,container-image-uri=busybox
    arguments-without-dashes | run train.py $HERE --epochs=3
    """,
    2,
    CREATE="custom-jobs create",
    VERTEX=" ".join(VERTEX),
    HERE=" ".join(HERE),
    POOL="--worker-pool-spec",
    IMAGE=IMAGE,
)


RULES = (
    (r"comes with ([\w-]+)", "--machine-type={}"),
    (r"takes (\d+)", "--accelerator=V100:{}"),
    (r"Did you mean ([\w-]+)", "--accelerator={}"),
)
"""Hints without a flag in them, and the flag that they mean."""


def heeded(line: tuple[str, ...], said: str) -> tuple[str, ...]:
    """The line as a hint wants it: with its flags, with its keys of a pool, or as the command in it."""
    error, _, hint = said.partition("\n")
    hint = re.sub(
        r"(?<=[=:])(?:PACKAGE\.)?[A-Z]{3,}\b",
        lambda found: PLACEHOLDERS[found[0]],
        re.split(r",? or\b:?", hint or error.partition(" Add ")[2] or error)[0],
    )
    if "put it after --" in hint:
        ours = hint.rpartition(" -- ")[2].strip()
        return (*(word for word in line if word not in ours), "--", ours)
    if "Keep one of them" in hint:
        return tuple(word for word in line if not word.startswith("--machine-type="))
    given = re.findall(r"(?<![\w-])--[a-z-]+=(?:\.(?=[,\s]|\Z)|[^\s,)]*[^\s,).])", hint)
    for pattern, flag in RULES:
        if found := re.search(pattern, hint):
            given = [flag.format(found[1])]
            break
    keys = re.findall(r"(?<![\w-])([a-z-]+=[^\s]*[^\s.;])", hint)
    if keys and not given:
        return tuple(f"{word},{keys[0]}" if word.startswith(POOL) else word for word in line)
    command = re.search(r"vtrain ((?:submit|run|debug) \S+\.py)", hint)
    if command and not given:
        return (*command[1].split(), *line[1:])
    wrong = re.search(r"No such option: (--[a-z-]+)|does not take '(.+)'", error)
    dropped = {word.partition("=")[0] for word in given} | set(wrong.groups() if wrong else ())
    dropped |= {"--accelerator"} if "--gpus" in dropped else set()
    return (*(word for word in line if word.partition("=")[0] not in dropped), *given)


@pytest.mark.parametrize(("mistake", "typed"), MISTAKES, ids=[row[0] for row in MISTAKES])
@pytest.mark.usefixtures("debug_port")
def test_a_hint_leads_to_a_plan(vtrain: Any, mistake: str, typed: str) -> None:
    line: tuple[str, ...] = tuple(typed.split())
    seen: list[str] = []
    for _ in range(3):
        cut = line.index("--") if "--" in line else len(line)
        ended = vtrain(*line[:cut], "--dry-run", *line[cut:])
        found = re.search(
            r"(?:ERROR: |WARNING: The service may refuse this job\. )(.+(?:\n  .+)*)", ended.err
        )
        if found is None:
            break
        assert found[0] not in seen, f"{' '.join(line)}: a circle"
        seen.append(found[0])
        changed = heeded(line, found[1].replace("\n  ", "\n"))
        assert changed != line, f"no hint: {found[0]}"
        line = changed
    assert (ended.code, found) == (0, None), (line, seen, ended.err)
    assert seen, "not a mistake"
