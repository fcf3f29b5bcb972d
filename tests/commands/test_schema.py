"""`vtrain schema`: what the reader takes fits the schema, and what it refuses does not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft4Validator, Draft7Validator

from vtrain.commands.init import SCHEMAS
from vtrain.core.compose import JobRequest, compose
from vtrain.errors import ConfigError
from vtrain.messages.yaml_reader import load_yaml
from vtrain.toml_reader import load_toml

ROOT = Path(__file__).parents[2]
POOL = {"replicaCount": 1, "containerSpec": {"imageUri": "i", "env": [{"name": "A", "value": "1"}]}}
PACKAGE = {"pythonModule": "m", "packageUris": ["gs://bucket/a.tar.gz"]}


@pytest.fixture(params=SCHEMAS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def fits(kind: str, document: Any) -> bool:
    return bool(Draft7Validator(SCHEMAS[kind]()).is_valid(document))


def test_each_is_a_schema_of_both_drafts(kind: str, vtrain: Any) -> None:
    ended = vtrain("schema", kind)
    assert ended.code == 0 and ended.err == ""
    printed = json.loads(ended.out)
    assert printed == SCHEMAS[kind]()
    for validator in (Draft4Validator, Draft7Validator):
        validator.check_schema(printed)
    referred = set(re.findall(r'"#/definitions/(\w+)"', ended.out))
    assert referred == set(printed["definitions"])


def test_every_config_file_of_the_pages_and_examples_fits() -> None:
    page = (ROOT / "docs" / "how-to" / "describe-a-job.md").read_text(encoding="utf-8")
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").glob("*/job.yaml"))]
    texts += re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[:1]
    assert len(texts) >= 3
    for text in texts:
        assert list(Draft7Validator(SCHEMAS["custom-job"]()).iter_errors(load_yaml(text, "job.yaml"))) == []


def test_what_a_dry_run_prints_fits(vtrain: Any, tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps({"workerPoolSpecs": [{"pythonPackageSpec": PACKAGE}]}))
    words = ("--dry-run", "--format=json", "--backend=process", "--display-name=a", "--labels=a=b")
    ended = vtrain("custom-jobs", "create", *words, f"--config={tmp_path / 'job.json'}", "--timeout=2h")
    assert ended.code == 0, ended.err
    assert fits("custom-job", json.loads(ended.out))


def test_what_the_reader_refuses_does_not_fit(tmp_path: Path) -> None:
    specs: list[dict[str, Any]] = [
        {"workerPoolSpec": [POOL]},
        {"workerPoolSpecs": [POOL | {"machineSpec": {"machineTyp": "n1"}}]},
        {"workerPoolSpecs": [POOL | {"replicaCount": "x"}]},
        {"workerPoolSpecs": [POOL | {"replicaCount": 1.5}]},
        {"workerPoolSpecs": [POOL], "scheduling": {"timeout": 60}},
        {"workerPoolSpecs": [POOL], "enableWebAccess": "perhaps"},
        {"displayName": "a", "labels": {"a": 1}, "jobSpec": {}},
    ]
    for spec in specs:
        (tmp_path / "job.json").write_text(json.dumps(spec))
        with pytest.raises(ConfigError):
            compose(JobRequest(config=str(tmp_path / "job.json")), executor_required=False)
        assert not fits("custom-job", spec)
    assert fits("custom-job", {"workerPoolSpecs": [POOL]})


def test_a_tuning_job() -> None:
    metric = {"metricId": "loss", "goal": "MINIMIZE"}
    parameter = {"parameterId": "rate", "doubleValueSpec": {"minValue": 0.1, "maxValue": 1}}
    job = {
        "studySpec": {"metrics": [metric], "parameters": [parameter]},
        "trialJobSpec": {"workerPoolSpecs": [POOL]},
    }
    assert fits("hp-tuning-job", job)
    assert not fits("hp-tuning-job", job | {"workerPoolSpecs": [POOL]})


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("[project]\nname = 'x'\n[tool.black]\nanything = 1\n", True),
        ("[tool.vtrain]\nbackend = 'process'\nmemory = 8\naccelerators = [0, 'GPU-1']\n", True),
        ("[tool.vtrain.job]\nmodule = 'a'\nargs = ['1']\nenv = {A = 'b'}\nreplica-count = 2\n", True),
        ("[tool.vtrain]\nstaging_bucket = 'gs://x'\n", False),
        ("[tool.vtrain]\njob = 'train.py'\n", False),
        ("[tool.vtrain.job]\nmodul = 'a'\n", False),
        ("[tool.vtrain.job]\nargs = 'a'\n", False),
        ("[tool.vtrain.job]\nreplica-count = 0\n", False),
    ],
)
def test_pyproject(text: str, good: bool) -> None:
    assert fits("pyproject", load_toml(text)) is good


def test_a_kind_that_there_is_not_is_refused(vtrain: Any) -> None:
    ended = vtrain("schema", "customjob")
    assert (ended.code, ended.out) == (2, "")
    assert "There is no schema 'customjob'." in ended.err and "Did you mean custom-job?" in ended.err
