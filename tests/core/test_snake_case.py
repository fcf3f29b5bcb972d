"""Spellings of fields in `--config`, and jobs of AI Platform Training."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from lib.job_strategies import valid_jobs

from vtrain.core.compose import JobRequest, compose
from vtrain.errors import ConfigError
from vtrain.messages.codec import read_message, to_document, with_json_names
from vtrain.messages.custom_job import CustomJob

SNAKE = """
display_name: snake
job_spec:
  worker_pool_specs:
    - machine_spec: {machine_type: n1-standard-4, accelerator_count: 1, accelerator_type: NVIDIA_TESLA_T4}
      replica_count: 1
      disk_spec: {boot_disk_type: pd-ssd, boot_disk_size_gb: 100}
      python_package_spec:
        executor_image_uri: gcr.io/p/i
        package_uris: [gs://bucket/trainer.tar.gz]
        python_module: trainer.task
        env: [{name: snake_case, value: stays_so}]
  base_output_directory: {output_uri_prefix: gs://bucket/out}
"""


def drafted(tmp_path: Path, text: str, **more: Any) -> Any:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    return compose(JobRequest(config=str(file), **more), executor_required=True)


def camel(value: Any) -> Any:
    if isinstance(value, list):
        return [camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {re.sub(r"_([a-z])", lambda m: m[1].upper(), key): camel(item) for key, item in value.items()}


def snake(value: Any) -> Any:
    if isinstance(value, list):
        return [snake(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        re.sub(r"[A-Z]", lambda m: "_" + m[0].lower(), key): item if key == "labels" else snake(item)
        for key, item in value.items()
    }


def test_snake_case_is_taken_for_a_job_and_for_its_spec(tmp_path: Path) -> None:
    whole = yaml.safe_load(SNAKE)
    in_camel = compose_of(tmp_path, yaml.safe_dump(camel(whole)))
    assert compose_of(tmp_path, SNAKE) == in_camel
    python = in_camel["jobSpec"]["workerPoolSpecs"][0]["pythonPackageSpec"]
    assert python["env"] == [{"name": "snake_case", "value": "stays_so"}]
    spec = compose_of(tmp_path, yaml.safe_dump(whole["job_spec"]))
    assert spec["jobSpec"] == in_camel["jobSpec"]


def compose_of(tmp_path: Path, text: str) -> dict[str, Any]:
    document: dict[str, Any] = drafted(tmp_path, text).document
    return document


@given(valid_jobs())
def test_any_job_may_be_written_in_snake_case(job: CustomJob) -> None:
    document = to_document(job)
    assert with_json_names(CustomJob, document) == document
    assert read_message(CustomJob, with_json_names(CustomJob, snake(document))) == job


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("workerPoolSpecs: []\nworker_pool_specs: []", "workerPoolSpecs"),
        (
            "worker_pool_specs: [{machine_spec: {machineType: a, machine_type: b}}]",
            r"workerPoolSpecs\[0\].machineSpec.machineType",
        ),
    ],
)
def test_both_spellings_at_once_are_refused(tmp_path: Path, text: str, path: str) -> None:
    with pytest.raises(ConfigError, match=f"{path}: it is given twice"):
        drafted(tmp_path, text)


def test_a_field_of_nobody_s_stays_unknown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no field 'no_such_field'"):
        drafted(tmp_path, "no_such_field: 1")
    text = "worker_pool_specs: [{container_spec: {image_uri: a, new_one: 1}}]\nnewer_still: 2"
    draft = drafted(tmp_path, text, allow_unknown_fields=True)
    assert draft.unknown_fields == {
        "jobSpec": {"workerPoolSpecs": [{"containerSpec": {"new_one": 1}}], "newer_still": 2}
    }


@pytest.mark.child
@pytest.mark.parametrize("text", ["trainingInput: {scaleTier: BASIC}", "training_input: {}\njobId: a"])
@pytest.mark.parametrize("group", ["custom-jobs", "hp-tuning-jobs"])
def test_a_job_of_ai_platform_is_refused_with_what_replaces_it(
    vtrain: Any, tmp_path: Path, text: str, group: str
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    ended = vtrain(group, "create", "--display-name=a", "--backend=process", f"--config={file}")
    assert ended.code == 1
    for words in ("AI Platform Training", "workerPoolSpecs", "machineType", "pythonPackageSpec"):
        assert words in ended.err


def test_a_dry_run_shows_the_fields_that_it_does_not_know(vtrain: Any, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("brandNew: {a: [1]}\nworkerPoolSpecs: [{containerSpec: {imageUri: i, new: 2}}]")
    words = ("--dry-run", "--allow-unknown-fields", f"--config={file}", "--display-name=a")
    where = ("--backend=vertex", "--project=p", "--region=us-central1", "--format=json")
    ended = vtrain("custom-jobs", "create", *words, *where)
    assert ended.code == 0, ended.err
    spec = yaml.safe_load(ended.out)["jobSpec"]
    assert spec["brandNew"] == {"a": [1]}
    assert spec["workerPoolSpecs"][0]["containerSpec"] == {"imageUri": "i", "new": 2}
