"""The examples run, by themselves and as jobs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vtrain.messages.codec import read_message
from vtrain.messages.custom_job import CustomJobSpec
from vtrain.messages.yaml_reader import load_yaml

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
DIGITS = "--local-package-path=examples/digits"
DISTRIBUTED = ("--config=examples/distributed/job.yaml", "--local-package-path=examples/distributed")
SCRIPT = ("--local-package-path=examples/script", "--script=train.py")


def vtrain(*arguments: str, group: str = "custom-jobs") -> subprocess.CompletedProcess[str]:
    """A `vtrain custom-jobs` line, or that of another group, typed in the project's folder."""
    return subprocess.run(
        [sys.executable, "-m", "vtrain", group, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def written(home: Path, name: str) -> dict[str, Any]:
    """The one JSON file of that name that a run of this test has left as its model."""
    (found,) = home.glob(f"buckets/local-runs/*/model/{name}")
    content: dict[str, Any] = json.loads(found.read_text(encoding="utf-8"))
    return content


@pytest.mark.pages
@pytest.mark.network
def test_digits_reaches_its_accuracy(vtrain_home: Path) -> None:
    run = vtrain("local-run", DIGITS, "--python-module=trainer.task")
    assert run.returncode == 0, run.stderr
    assert written(vtrain_home, "metrics.json")["accuracy"] >= 0.95
    assert [line[:5] for line in run.stdout.splitlines()].count("epoch") == 20
    _check_second_run(vtrain("local-run", DIGITS, "--python-module=trainer.task", "--", "--epochs=1"))
    _check_created(vtrain_home)


@pytest.mark.pages
@pytest.mark.network
def test_tuning_beats_the_untuned_digits(vtrain_home: Path) -> None:
    trainer = (DIGITS, "--python-module=trainer.task")
    untuned = vtrain("local-run", *trainer, "--", "--epochs=5")
    assert untuned.returncode == 0, untuned.stderr
    study = ("--config=examples/digits/study.yaml", "--display-name=digits", "--seed=2")
    argv = (*study, "--backend=process", *trainer, "--wait", "--format=json", "--", "--epochs=5")
    tuned = vtrain("create", *argv, group="hp-tuning-jobs")
    assert tuned.returncode == 0, tuned.stderr
    trials = json.loads(tuned.stdout)["trials"]
    assert len(trials) == 20
    found = [trial["finalMeasurement"]["metrics"][0]["value"] for trial in trials]
    assert max(found) > written(vtrain_home, "metrics.json")["accuracy"]


def _check_second_run(run: subprocess.CompletedProcess[str]) -> None:
    """The same tree again: nothing is packed, nothing installed."""
    assert run.returncode == 0
    assert "Package: cached. Environment: cached.\n" in run.stderr
    assert "Installing" not in run.stderr
    assert "epoch  1/1 " in run.stdout


def _check_created(home: Path) -> None:
    """As a job of the config file, whose image is named; numpy comes of that."""
    job = ("--display-name=digits", "--config=examples/digits/job.yaml", DIGITS)
    run = vtrain("create", *job, f"--base-output-dir=file://{home}/output", "--stream-logs")
    assert run.returncode == 0, run.stderr
    assert run.stdout == ""
    assert json.loads((home / "output/model/metrics.json").read_text())["accuracy"] >= 0.95


def test_script_runs_as_a_job(vtrain_home: Path) -> None:
    run = vtrain("local-run", *SCRIPT)
    assert run.returncode == 0, run.stderr
    _check_line(written(vtrain_home, "model.json"))
    assert run.stdout.startswith("step  10 ")


def test_script_runs_from_its_config_file(vtrain_home: Path) -> None:
    run = vtrain("local-run", "--config=examples/script/job.yaml", *SCRIPT, "--", "--steps=60")
    assert run.returncode == 0, run.stderr
    _check_line(written(vtrain_home, "model.json"))


def test_script_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """A second job with the same folder, as after a restart of the first."""
    folder = f"--base-output-dir=file://{tmp_path}/output"
    first = vtrain("local-run", *SCRIPT, folder, "--", "--steps=40")
    second = vtrain("local-run", *SCRIPT, folder, "--", "--steps=60")
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert [line.partition("  loss")[0] for line in second.stdout.splitlines()][:3] == [
        "resumed after step 40",
        "step  50",
        "step  60",
    ]
    _check_line(json.loads((tmp_path / "output" / "model" / "model.json").read_text()))


def test_distributed_agrees_on_a_line(vtrain_home: Path) -> None:
    run = vtrain("local-run", *DISTRIBUTED)
    assert run.returncode == 0, run.stderr
    model = written(vtrain_home, "model.json")
    _check_line(model)
    assert model["replicas"] == 3
    verified = [line.split("\t")[2] for line in run.stdout.splitlines() if "\tverified: " in line]
    assert sorted(verified) == ["workerpool0-0", "workerpool1-0", "workerpool1-1"]


def test_distributed_fails_when_a_replica_does(tmp_path: Path) -> None:
    """The chief waits for a worker that never comes, and is stopped."""
    broken = tmp_path / "broken"
    (broken / "trainer").mkdir(parents=True)
    for file in (EXAMPLES / "distributed" / "trainer").glob("*.py"):
        (broken / "trainer" / file.name).write_text(file.read_text())
    source = (broken / "trainer" / "cluster.py").read_text()
    refusal = 'if os.environ["RANK"] == "2":\n    raise SystemExit(7)\n'
    (broken / "trainer" / "cluster.py").write_text(source + refusal)
    run = vtrain("local-run", DISTRIBUTED[0], f"--local-package-path={broken}")
    assert run.returncode == 7, run.stderr
    assert "workerpool1-1 failed first, with exit code 7" in run.stderr


def _check_line(model: dict[str, Any]) -> None:
    assert abs(model["slope"] - 3) < 0.05 and abs(model["intercept"] + 1) < 0.05


@pytest.mark.parametrize("folder", ["script/train.py", "distributed/trainer/task.py"])
def test_examples_run_without_vtrain(folder: str, tmp_path: Path) -> None:
    """A trainer is a program: by hand it writes to ./model."""
    script = EXAMPLES / folder
    argv = [str(script)] if script.name == "train.py" else ["-m", "trainer.task"]
    environ = os.environ | {"PYTHONPATH": str(script.parent.parent)}
    subprocess.run([sys.executable, *argv], cwd=tmp_path, env=environ, check=True, capture_output=True)
    _check_line(json.loads((tmp_path / "model" / "model.json").read_text()))


@pytest.mark.parametrize(
    ("name", "replicas"), [("digits", [1]), ("script", [1]), ("distributed", [1, 2]), ("torch_ddp", [1, 2])]
)
def test_config_files_are_specs_of_the_api(name: str, replicas: list[int]) -> None:
    file = EXAMPLES / name / "job.yaml"
    spec = read_message(CustomJobSpec, load_yaml(file.read_text(encoding="utf-8"), str(file)))
    assert [pool.replica_count for pool in spec.worker_pool_specs] == replicas
    for pool in spec.worker_pool_specs:
        assert pool.machine_spec is not None and pool.machine_spec.machine_type == "n1-standard-4"
        assert pool.python_package_spec is not None and pool.python_package_spec.executor_image_uri
