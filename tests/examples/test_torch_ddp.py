"""The example of DistributedDataParallel, by a real PyTorch, on both local backends (`nox -s torch`)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "torch_ddp"
IMAGE = "vtrain-test/torch:3.11"
REPLICAS = ["workerpool0-0", "workerpool1-0", "workerpool1-1"]
VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
VERIFIED = re.compile(r"\t(workerpool\d-\d)\tverified: 3 replicas have the weights (\w+)")
RESUMED = re.compile(r"\t(workerpool\d-\d)\tresumed from epoch (\d+), step")

pytestmark = [
    pytest.mark.torch,
    pytest.mark.network,
    pytest.mark.timeout(900),
    pytest.mark.skipif(find_spec("torch") is None, reason="no PyTorch beside vtrain: run nox -s torch"),
]


DOCKER = pytest.mark.docker


@pytest.fixture(params=["process", pytest.param("docker", marks=DOCKER)])
def backend(request: pytest.FixtureRequest) -> str:
    """A backend that has PyTorch."""
    if request.param == "docker":
        from vtrain.containers.images import find_image

        if find_image(request.getfixturevalue("docker_engine"), IMAGE) is None:
            pytest.skip(f"the engine has no image {IMAGE}: run .ci/make-torch-image")
    return str(request.param)


def run_example(backend: str, folder: Path, *flags: str, arguments: tuple[str, ...]) -> str:
    """The example as a job here, which has to succeed; answers its log."""
    config = EXAMPLE / "job.yaml"
    if backend == "process":
        flags = ("--environment=current", *flags)  # which has PyTorch: nothing of gigabytes is installed
    else:
        text = re.sub(
            r"executorImageUri: .*", f"executorImageUri: {IMAGE}", config.read_text(encoding="utf-8")
        )
        config = folder / "job.yaml"
        config.write_text(text, encoding="utf-8")
    job = (
        f"--config={config}",
        f"--local-package-path={EXAMPLE}",
        f"--base-output-dir=file://{folder}/output",
    )
    argv = [sys.executable, "-m", "vtrain", "custom-jobs", "local-run", f"--backend={backend}", *job, *flags]
    run = subprocess.run([*argv, "--", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "SUCCEEDED" in run.stderr
    return run.stdout


def check_outcome(log: str, output: Path, epochs: int) -> None:
    """All replicas have the same weights, and these read digits well.

    What the last attempt says counts: one that was preempted at its very end had said so already.
    """
    verified: list[tuple[str, str]] = VERIFIED.findall(log)[-len(REPLICAS) :]
    assert sorted(replica for replica, _ in verified) == REPLICAS
    assert len({weights for _, weights in verified}) == 1
    metrics: dict[str, Any] = json.loads((output / "model" / "metrics.json").read_text())
    assert metrics["accuracy"] >= 0.9
    assert (metrics["epochs"], metrics["replicas"]) == (epochs, 3)
    assert (output / "model" / "model.pt").stat().st_size > 0


def test_example_runs_without_vtrain(tmp_path: Path) -> None:
    """A job of one replica gets no variables to meet others."""
    environ = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environ |= {"PYTHONPATH": str(EXAMPLE), "AIP_CHECKPOINT_DIR": str(tmp_path / "checkpoints")}
    logs = [
        subprocess.run(
            [sys.executable, "-m", "trainer.task", f"--epochs={epochs}"],
            cwd=tmp_path,
            env=environ,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for epochs in (6, 8)
    ]
    assert "resumed" not in logs[0]
    assert "resumed from epoch 6, step 0" in logs[1]
    assert json.loads((tmp_path / "model" / "metrics.json").read_text())["epochs"] == 8


WATCHED = """
import gc
from pathlib import Path
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from trainer import task

destroy = dist.destroy_process_group

def count_and_destroy():
    left = sum(isinstance(found, DistributedDataParallel) for found in gc.get_objects())
    print("models when the group ends:", left, flush=True)
    destroy()
    names = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]
    print("threads of the group after it:", sum("gloo" in name for name in names), flush=True)

dist.destroy_process_group = count_and_destroy
task.main()
"""
"""The example, which says how many models of all replicas and threads outlive the group."""


@pytest.mark.parametrize(("flags", "code"), [([], 0), (["--min-accuracy=2"], 1)], ids=["verified", "refused"])
def test_neither_model_nor_thread_outlives_the_group(flags: list[str], code: int, tmp_path: Path) -> None:
    """Both may meet at Python's lock: a hang. A thread that needs it when Python has ended: SIGABRT."""
    environ = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environ |= {"PYTHONPATH": str(EXAMPLE), "AIP_CHECKPOINT_DIR": str(tmp_path / "checkpoints")}
    run = subprocess.run(
        [sys.executable, "-c", WATCHED, "--epochs=6", *flags],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == code, run.stderr
    assert "models when the group ends: 0\n" in run.stdout
    if sys.platform == "linux":
        assert "threads of the group after it: 0\n" in run.stdout
    assert "Traceback" not in run.stderr


def test_replicas_end_with_the_same_weights(backend: str, tmp_path: Path) -> None:
    log = run_example(backend, tmp_path, arguments=("--epochs=10",))
    check_outcome(log, tmp_path / "output", epochs=10)
    assert not RESUMED.search(log), log


@pytest.mark.parametrize(
    ("backend", "replica"),
    [
        ("process", "workerpool0-0"),
        ("process", "workerpool1-0"),
        pytest.param("docker", "workerpool1-0", marks=DOCKER),
    ],
    indirect=["backend"],
)
def test_a_preempted_group_goes_on_from_its_checkpoint(backend: str, replica: str, tmp_path: Path) -> None:
    """Where the preemption comes before the first checkpoint, the machine is busy, and gets more time."""
    for seconds in (20, 60, 180):
        folder = tmp_path / str(seconds)
        folder.mkdir()
        slowly = ("--epochs=12", f"--epoch-seconds={seconds / 10}")
        log = run_example(backend, folder, f"--simulate-preemption={seconds}s,{replica}", arguments=slowly)
        check_outcome(log, folder / "output", epochs=12)
        resumed = [(name, int(epoch)) for name, epoch in RESUMED.findall(log)]
        if resumed and resumed[-1][1] > 0:
            assert sorted(resumed[-3:]) == [(name, resumed[-1][1]) for name in REPLICAS]
            return
    pytest.fail("the preemption always came before the first checkpoint")
