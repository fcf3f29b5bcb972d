"""A job's secrets: seen by the job, not in a plan, a card or `describe`, and sent nowhere unasked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lib.vertex_service import VertexService

from vtrain.messages.names import parse_name

SECRET = "hunter2-very-secret"
LOCAL = "--backend=process"
FORMATS = (
    "yaml",
    "json",
    "flattened",
    "value(jobSpec)",
    "csv(displayName,jobSpec)",
    "config",
    "table(jobSpec)",
)
POOL = "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/p/img"
SEND = ("custom-jobs", "create", "--display-name=a", POOL)


def create(vtrain: Any, trainer: Path, *words: str) -> Any:
    package = (f"--local-package-path={trainer}", "--python-module=trainer.task")
    return vtrain("custom-jobs", "create", "--display-name=a", LOCAL, *package, *words)


def stored(vtrain_home: Path, name: str) -> str:
    full = parse_name(name)
    assert full is not None
    return (vtrain_home / "jobs" / full.id / "spec.json").read_text()


def test_the_caller_s_value_reaches_the_job_and_nobody_else(
    vtrain: Any, trainer: Path, vtrain_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", SECRET)
    monkeypatch.setenv("PLAIN", "seen")
    words = ("--env=DB_PASSWORD", "--env", "PLAIN", "--", f"--api-key={SECRET}1", "fail")
    planned = create(vtrain, trainer, "--dry-run", *words)
    assert planned.code == 0, planned.err
    assert "Would start workerpool0-0: python3 -m trainer.task --api-key=*** fail" in planned.err
    made = create(vtrain, trainer, "--wait", "--format=value(name)", *words)
    assert made.code == 10, made.err
    assert "ValueError: the password is ***" in made.err
    name = made.out.strip()
    shown = [vtrain("custom-jobs", "describe", name, f"--format={form}") for form in FORMATS]
    shown += [vtrain("custom-jobs", "list", LOCAL, f"--format={form}") for form in FORMATS]
    for text in (planned, made, *shown):
        assert SECRET not in text.out + text.err
    assert {"name": "PLAIN", "value": "seen"} in json.loads(shown[1].out)["jobSpec"]["workerPoolSpecs"][0][
        "pythonPackageSpec"
    ]["env"]
    log = vtrain("custom-jobs", "stream-logs", name, "--format=json", "--task-name=workerpool0-0")
    assert json.loads(log.out)[0]["json"]["env"]["DB_PASSWORD"] == SECRET
    service = vtrain("custom-jobs", "stream-logs", name, "--task-name=service")
    assert "ValueError: the password is ***" in service.out and SECRET not in service.out
    assert SECRET in stored(vtrain_home, name)
    assert SECRET not in (vtrain_home / "logs" / "vtrain.log").read_text()


def test_a_name_that_is_not_set_is_said_to_be(vtrain: Any, trainer: Path, vtrain_home: Path) -> None:
    ended = create(vtrain, trainer, "--env=NOT_SET_HERE")
    assert (ended.code, ended.out) == (1, "")
    assert "--env NOT_SET_HERE: NOT_SET_HERE is not set in this environment." in ended.err
    assert not (vtrain_home / "jobs").exists()


def test_of_a_name_that_is_given_twice_the_last_counts(
    vtrain: Any, trainer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A", "mine")
    for words, value in ((("--env=A=1", "--env=A"), "mine"), (("--env=A", "--env=A=1"), "1")):
        planned = create(vtrain, trainer, "--dry-run", "--format=json", *words)
        task = json.loads(planned.out)["jobSpec"]["workerPoolSpecs"][0]["pythonPackageSpec"]
        assert task["env"] == [{"name": "A", "value": value}]


def test_what_was_masked_is_not_taken_for_a_value(vtrain: Any, trainer: Path, tmp_path: Path) -> None:
    planned = create(vtrain, trainer, "--dry-run", f"--env=HF_TOKEN={SECRET}")
    (tmp_path / "job.yaml").write_text(planned.out)
    again = ("custom-jobs", "create", LOCAL, f"--config={tmp_path / 'job.yaml'}", "--dry-run")
    planned = create(vtrain, trainer, "--dry-run", f"--env=DATABASE=db://u:{SECRET}@h")
    (tmp_path / "url.yaml").write_text(planned.out)
    url = vtrain("custom-jobs", "create", LOCAL, f"--config={tmp_path / 'url.yaml'}", "--dry-run")
    assert (url.code, "DATABASE was masked when this job was printed." in url.err) == (1, True)
    ended = vtrain(*again)
    assert ended.code == 1
    assert "HF_TOKEN was masked when this job was printed." in ended.err
    assert vtrain(*again, f"--env=HF_TOKEN={SECRET}").code == 0


def test_the_view_of_a_replica_is_masked(vtrain: Any, trainer: Path) -> None:
    ended = vtrain(
        *("custom-jobs", "environment", LOCAL, "--replica=workerpool0-0", "--display-name=a"),
        *(f"--local-package-path={trainer}", "--python-module=trainer.task", f"--env=HF_TOKEN={SECRET}"),
        *("--", f"--api-key={SECRET}2"),
    )
    assert ended.code == 0, ended.err
    assert "HF_TOKEN" in ended.out and SECRET not in ended.out


# what leaves this machine


NAMED = (
    "WARNING: S3_KEY, OBJECT_KEY, FORWARD_PASS, TRAIN_TOKEN, DB look like secrets, and anyone who may see "
    "the job can read its variables. --allow-plaintext-secrets silences this warning."
)


def test_what_looks_like_a_secret_is_sent_with_one_warning(
    vtrain: Any, vertex: VertexService, trainer: Path
) -> None:
    env = dict.fromkeys(("S3_KEY", "OBJECT_KEY", "FORWARD_PASS", "TRAIN_TOKEN"), SECRET)
    env |= {"DB": f"postgres://u:{SECRET}@h", "PLAIN": "1"}
    words = [f"--env={name}={value}" for name, value in env.items()]
    sent = vtrain(*SEND, POOL, *words)  # in two pools, and named once
    assert sent.code == 0, sent.err
    assert [line for line in sent.err.splitlines() if "WARNING" in line] == [NAMED]
    pools = vertex.requests[-1].body["jobSpec"]["workerPoolSpecs"]
    expected = [{"name": name, "value": value} for name, value in env.items()]
    assert [pool["containerSpec"]["env"] for pool in pools] == [expected, expected]
    silent = vtrain(*SEND, *words, "--allow-plaintext-secrets")
    assert (silent.code, "WARNING" in silent.err) == (0, False)
    planned = vtrain(*SEND, *words, "--dry-run")
    assert planned.code == 0 and NAMED in planned.err and SECRET not in planned.err
    here = create(vtrain, trainer, *words, "--dry-run")
    assert here.code == 0 and "look like secrets" not in here.err
    assert SECRET not in here.out and "postgres://u:***@h" in here.out


def test_a_strict_create_sends_no_secret(vtrain: Any, vertex: VertexService) -> None:
    for words in ((), ("--dry-run",)):
        refused = vtrain(*SEND, f"--env=WANDB_API_KEY={SECRET}", "--strict", *words)
        assert (refused.code, refused.out) == (1, "")
        assert "ERROR: WANDB_API_KEY looks like a secret, and anyone who may see the job" in refused.err
        assert "Secret Manager" in refused.err and "--allow-plaintext-secrets" in refused.err
        assert SECRET not in refused.err
    assert vertex.requests == []
    assert vtrain(*SEND, f"--env=WANDB_API_KEY={SECRET}", "--strict", "--allow-plaintext-secrets").code == 0
    many = [f"--env=A{number}_TOKEN={SECRET}" for number in range(12)]
    named = ", ".join(f"A{number}_TOKEN" for number in range(10))
    assert f"ERROR: {named} and 2 more look like secrets, and" in vtrain(*SEND, *many, "--strict").err


def test_a_secret_in_a_file_is_named_too(vtrain: Any, vertex: VertexService, tmp_path: Path) -> None:
    container = {"imageUri": "gcr.io/p/i", "env": [{"name": "HF_TOKEN", "value": SECRET}]}
    spec = {
        "workerPoolSpecs": [{"containerSpec": container, "machineSpec": {"machineType": "n1-standard-4"}}]
    }
    (tmp_path / "job.json").write_text(json.dumps(spec))
    create = ("custom-jobs", "create", "--display-name=a", f"--config={tmp_path / 'job.json'}")
    ended = vtrain(*create)
    assert ended.code == 0 and "WARNING: HF_TOKEN looks like a secret" in ended.err
    assert vertex.requests[-1].body["jobSpec"]["workerPoolSpecs"][0]["containerSpec"] == container
    rate = {"parameterId": "rate", "doubleValueSpec": {"minValue": 0.1, "maxValue": 1.0}}
    study = {"metrics": [{"metricId": "m", "goal": "MAXIMIZE"}], "parameters": [rate]}
    (tmp_path / "tuning.json").write_text(json.dumps({"studySpec": study, "trialJobSpec": spec}))
    tuning = ("hp-tuning-jobs", "create", "--display-name=a", f"--config={tmp_path / 'tuning.json'}")
    requests = len(vertex.requests)
    refused = vtrain(*tuning, "--strict")
    assert refused.code == 1 and "ERROR: HF_TOKEN looks like a secret" in refused.err
    assert len(vertex.requests) == requests
    silent = vtrain(*tuning, "--allow-plaintext-secrets")
    assert silent.code == 0 and "WARNING" not in silent.err
    warned = vtrain(*tuning)
    assert warned.code == 0 and warned.err.count("WARNING: HF_TOKEN looks like a secret") == 1
    assert vertex.requests[-1].body["trialJobSpec"]["workerPoolSpecs"][0]["containerSpec"] == container


def test_the_place_of_a_secret_may_be_sent(vtrain: Any, vertex: VertexService) -> None:
    assert vtrain(*SEND, "--env=API_KEY=projects/p/secrets/wandb/versions/latest").code == 0


def test_the_caller_s_value_is_taken_on_this_machine_only(
    vtrain: Any, vertex: VertexService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIN", "1")
    ended = vtrain(*SEND, "--env=PLAIN", "--allow-plaintext-secrets")
    assert ended.code == 1
    assert "--env PLAIN: the value of this environment is taken on local backends only." in ended.err
    assert "Write --env PLAIN=VALUE. Keep a secret in Secret Manager" in ended.err
    assert vertex.requests == []
