"""Drafts whose trainer becomes an image."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from vtrain.backends import Plan
from vtrain.backends.image_order import ImageOrder
from vtrain.core.compose import Draft, JobRequest, compose, make_source
from vtrain.core.job_layers import EVERY_POOL, Layer, at, named
from vtrain.core.submission import Place, prepare
from vtrain.flags.job_options import SpecFlags, TrainerFlags
from vtrain.flags.request import JobLine
from vtrain.messages.codec import to_document
from vtrain.messages.custom_job import CustomJob
from vtrain.staging import LocalBuckets
from vtrain.testing.memory import MemoryBackend

POOLS = (
    "machine-type=n1-standard-4,executor-image-uri=base:1,local-package-path={0},python-module=trainer.task,"
    "output-image-uri=gcr.io/p/out",
    "machine-type=n1-standard-4,replica-count=2",
)


BASE = Layer(named("image"), at(f"jobSpec.{EVERY_POOL}.image", "base:1"))


def draft(folder: Path, **flags: Any) -> Draft:
    pools = [pool.format(folder) for pool in POOLS]
    spec = SpecFlags(display_name="d", worker_pool_spec=pools, **flags)
    return compose(JobLine(spec=spec, trainer=TrainerFlags()).request(None), executor_required=True)


def finished(made: Draft) -> list[dict[str, Any]]:
    commands = {"b": ("python", "-m", "b")}
    job = made.finish_with_image("vtrain/t:0", lambda module: commands.get(module, ()))
    pools: list[dict[str, Any]] = to_document(job)["jobSpec"]["workerPoolSpecs"]
    return pools


def test_every_pool_of_the_trainer_runs_the_image(tmp_path: Path) -> None:
    made = draft(tmp_path, args=["--a"], env=["X=1"])
    assert made.output_image_uri == "gcr.io/p/out"
    for pool in finished(made):
        assert "pythonPackageSpec" not in pool
        assert pool["machineSpec"] == {"machineType": "n1-standard-4"}
        assert pool["containerSpec"] == {
            "imageUri": "vtrain/t:0",
            "args": ["--a"],
            "env": [{"name": "X", "value": "1"}],
        }


def test_a_command_line_takes_the_place_of_the_entry_point(tmp_path: Path) -> None:
    made = draft(tmp_path, command=["sh,-c"])
    assert [pool["containerSpec"]["command"] for pool in finished(made)] == [["sh", "-c"]] * 2


def test_a_pool_with_a_module_of_its_own_gets_a_command(tmp_path: Path) -> None:
    config = tmp_path / "job.yaml"
    config.write_text(
        "workerPoolSpecs:\n"
        "- {replicaCount: 1, pythonPackageSpec: {pythonModule: a}}\n"
        "- {replicaCount: 1, pythonPackageSpec: {pythonModule: b}}\n"
        "- {replicaCount: 1, pythonPackageSpec: {pythonModule: c, packageUris: ['gs://b/c.tar.gz']}}\n"
        "- {replicaCount: 1, containerSpec: {imageUri: other}}\n"
    )
    source = make_source(folder=str(tmp_path), python_module="", script="")
    request = JobRequest(config=str(config), source=source, output_image_uri="out", layers=(BASE,))
    made = compose(request, executor_required=True)
    assert made.output_image_uri == "out"
    pools = finished(made)
    assert pools[0]["containerSpec"] == {"imageUri": "vtrain/t:0"}
    assert pools[1]["containerSpec"] == {"imageUri": "vtrain/t:0", "command": ["python", "-m", "b"]}
    assert pools[2]["pythonPackageSpec"]["packageUris"] == ["gs://b/c.tar.gz"]
    assert pools[3]["containerSpec"] == {"imageUri": "other"}


class PlanningBackend(MemoryBackend):
    """Plans whatever it is given, containers too."""

    def plan(self, job: CustomJob) -> Plan:
        return Plan(job=job, backend="memory")


@pytest.mark.parametrize(("output", "push"), [("", False), ("gcr.io/p/x:1", False), ("gcr.io/p/x:1", True)])
def test_prepare_names_the_image_in_the_job(tmp_path: Path, output: str, push: bool) -> None:
    (tmp_path / "task.py").write_text("print(1)\n")
    source = make_source(folder=str(tmp_path), python_module="task", script="")
    request = JobRequest(
        fallback_name="d",
        source=source,
        layers=(BASE,),
        output_image_uri=output,
        assignments=("workerPoolSpecs[0].machineSpec.machineType=n1-standard-4",),
    )
    made = compose(request, executor_required=True)
    prepared = prepare(
        made,
        PlanningBackend(),
        Place(home=tmp_path / "home", buckets=LocalBuckets(tmp_path / "home")),
        strict=False,
        image=ImageOrder(push=push),
    )
    assert prepared.package is not None
    own = f"vtrain/task:{prepared.package.content_hash[:16]}"
    assert prepared.image_uri == (output or own)
    spec = prepared.plan.job.job_spec.worker_pool_specs[0].container_spec
    assert spec is not None
    assert spec.image_uri == (output if push else own)
    assert spec.command == ()


def test_a_draft_can_be_finished_again_and_differently(tmp_path: Path) -> None:
    made = draft(tmp_path)
    before = copy.deepcopy(made.document)
    for uri in ("gs://b/one.tar.gz", "gs://b/two.tar.gz"):
        task = made.finish("trainer.task", [uri]).job_spec.worker_pool_specs[0].python_package_spec
        assert task is not None and task.package_uris == (uri,)
    assert "imageUri" in finished(made)[0]["containerSpec"]
    assert made.document == before
