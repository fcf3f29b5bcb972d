"""The installed gcloud against the emulator: the same words, and the same ends, as against the service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.emulator_report import report_calls
from lib.framework_index import SKLEARN, SUM, framework_index
from lib.waiting import wait_until

import vtrain
from vtrain.emulator.running import environment_of, find_running, stop
from vtrain.testing.script import Script, script_job

pytestmark = [pytest.mark.gcloud, pytest.mark.timeout(600)]
ROOT = Path(vtrain.__file__).parent.parent
EXAMPLE = Path(__file__).parents[2] / "examples" / "digits"
REGION = "--region=us-central1"
IMAGE = "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest"


class Gcloud:
    """gcloud, with an emulator whose jobs are processes."""

    def __init__(self, home: Path, **variables: str) -> None:
        """`variables` are further ones of the emulator."""
        self.home = home
        self.environment = os.environ | {"VTRAIN_HOME": str(home), "PYTHONPATH": str(ROOT)} | variables
        argv = [
            sys.executable,
            "-m",
            "vtrain",
            "emulator",
            "start",
            "--detach",
            "--port=0",
            "--backend=process",
        ]
        subprocess.run(argv, env=self.environment, check=True, capture_output=True)
        self.running = find_running(home)[0]
        led = environment_of(self.running, home) | {"CLOUDSDK_CORE_DISABLE_PROMPTS": "1"}
        self.clients = {**os.environ, **{name: text for name, text in led.items() if text}}

    def __call__(self, *words: str, code: int = 0) -> str:
        """Stdout of `gcloud ai …`, which has to end with this code; of a refusal stderr."""
        ended = subprocess.run(
            ["gcloud", "ai", *words],
            env=self.clients,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stderr if code else ended.stdout

    def until_ended(self, group: str, name: str) -> dict[str, object]:
        """What `describe` says once the job has ended."""

        def found() -> dict[str, object]:
            job: dict[str, object] = json.loads(self(group, "describe", name, "--format=json"))
            return job if "endTime" in job else {}

        return wait_until(found)

    def close(self) -> None:
        """Stop the emulator, and keep its counts."""
        stop(self.home, self.running)
        report_calls((self.home / "emulator" / "emulator.log").read_text())


@pytest.fixture(scope="module")
def gcloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gcloud]:
    made = Gcloud(tmp_path_factory.mktemp("gcloud") / "home")
    yield made
    made.close()


def config_of(folder: Path, *scripts: Script) -> Path:
    """A file for `--config` with a job of these scripts."""
    pools = [
        {
            "machineSpec": {"machineType": "e2-standard-4"},
            "replicaCount": 1,
            "pythonPackageSpec": {
                "executorImageUri": IMAGE,
                "pythonModule": pool.python_package_spec.python_module,
                "args": list(pool.python_package_spec.args),
                "env": [{"name": "PYTHONPATH", "value": str(ROOT)}],
            },
        }
        for pool in script_job(*scripts).job_spec.worker_pool_specs
        if pool.python_package_spec is not None
    ]
    file = folder / "job.yaml"
    file.write_text(json.dumps({"workerPoolSpecs": pools}))  # JSON is YAML
    return file


def create(gcloud: Gcloud, folder: Path, *scripts: Script, name: str = "job") -> str:
    """The full name of a new job."""
    file = config_of(folder, *scripts)
    made = gcloud(
        "custom-jobs", "create", REGION, f"--display-name={name}", f"--config={file}", "--format=value(name)"
    )
    return made.strip()


@pytest.mark.network
def test_the_example_trains_from_a_bucket(gcloud: Gcloud, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "vtrain", "package", "sdist", "--output-dir=gs://bucket"]
    package = subprocess.run(
        [*argv, f"--local-package-path={EXAMPLE}", "--python-module=trainer.task"],
        env=gcloud.environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert package.startswith("gs://bucket/")
    pool = f"machine-type=e2-standard-4,executor-image-uri={IMAGE},python-module=trainer.task"
    name = gcloud(
        *("custom-jobs", "create", REGION, "--display-name=hello", f"--worker-pool-spec={pool}"),
        *(f"--python-package-uris={package}", "--format=value(name)"),
    ).strip()
    assert gcloud.until_ended("custom-jobs", name)["state"] == "JOB_STATE_SUCCEEDED"
    lines = gcloud("custom-jobs", "stream-logs", name, "--polling-interval=1")
    assert "workerpool0-0" in lines and "accuracy" in lines


def test_a_job_that_fails(gcloud: Gcloud, tmp_path: Path) -> None:
    name = create(gcloud, tmp_path, Script().write("bye\n").exit(3), name="fails")
    job = gcloud.until_ended("custom-jobs", name)
    assert job["state"] == "JOB_STATE_FAILED"
    assert "exited with a non-zero status of 3" in str(job["error"])
    rows = [
        line.split("\t")
        for line in gcloud("custom-jobs", "stream-logs", name, "--polling-interval=1").splitlines()
    ]
    assert ["INFO", "workerpool0-0", "bye"] in [[row[0], *row[2:]] for row in rows]
    found = gcloud("custom-jobs", "list", REGION, "--filter=displayName=fails", "--format=value(name)")
    assert found.split() == [name]


def test_cancel(gcloud: Gcloud, tmp_path: Path) -> None:
    name = create(gcloud, tmp_path, Script().hang())
    gcloud("custom-jobs", "cancel", name)
    assert gcloud.until_ended("custom-jobs", name)["state"] == "JOB_STATE_CANCELLED"


def test_what_is_not_there(gcloud: Gcloud) -> None:
    began = time.monotonic()
    assert "NOT_FOUND" in gcloud("custom-jobs", "describe", "123", REGION, code=1)
    asked_once = time.monotonic() - began
    assert "does not emulate" in gcloud("indexes", "list", REGION, code=1)
    assert time.monotonic() - began < 3 * asked_once + 15, "gcloud asked again"


def test_a_project_is_set(gcloud: Gcloud) -> None:
    words = ["gcloud", "config", "set", "project", "demo"]
    ended = subprocess.run(words, env=gcloud.clients, capture_output=True, text=True, timeout=120, check=True)
    assert "Updated property" in ended.stderr and "not found" not in ended.stderr


def test_a_tuning_job(gcloud: Gcloud, tmp_path: Path) -> None:
    spec = json.loads(config_of(tmp_path, Script()).read_text())
    file = tmp_path / "tuning.yaml"
    study = {
        "metrics": [{"metricId": "loss", "goal": "MINIMIZE"}],
        "parameters": [{"parameterId": "x", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
    }
    file.write_text(json.dumps({"studySpec": study, "trialJobSpec": spec}))
    flags = ("--max-trial-count=1", "--parallel-trial-count=1", "--algorithm=random-search")
    name = gcloud(
        *("hp-tuning-jobs", "create", REGION, "--display-name=tune", f"--config={file}", *flags),
        "--format=value(name)",
    ).strip()
    job = gcloud.until_ended("hp-tuning-jobs", name)
    assert job["state"] in ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED") and job["trials"]
    assert name in gcloud("hp-tuning-jobs", "list", REGION, "--format=value(name)")


def test_persistent_resources(gcloud: Gcloud) -> None:
    pool = "--resource-pool-spec=machine-type=n1-standard-4,replica-count=1"
    group = "persistent-resources"
    gcloud(group, "create", REGION, "--persistent-resource-id=pool", "--display-name=pool", pool)
    described = json.loads(gcloud(group, "describe", "pool", REGION, "--format=json"))
    assert described["state"] == "RUNNING"
    assert "persistentResources/pool" in gcloud(group, "list", REGION, "--format=value(name)")
    gcloud(group, "reboot", "pool", REGION)
    gcloud(group, "delete", "pool", REGION)
    assert gcloud(group, "list", REGION, "--format=value(name)") == ""


def test_models(gcloud: Gcloud) -> None:
    folder = gcloud.home / "buckets" / "models" / "first"
    folder.mkdir(parents=True)
    (folder / "model.joblib").write_bytes(b"x")
    image = "us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-5:latest"
    flags = ("--artifact-uri=gs://models/first", f"--container-image-uri={image}", "--display-name=first")
    gcloud("models", "upload", REGION, *flags)
    (name,) = gcloud("models", "list", REGION, "--format=value(name)").split()
    model = json.loads(gcloud("models", "describe", name, REGION, "--format=json"))
    assert (model["displayName"], model["artifactUri"]) == ("first", "gs://models/first")
    gcloud("models", "delete", name, REGION)


def test_files_in_a_bucket(gcloud: Gcloud, tmp_path: Path) -> None:
    """`gcloud storage` leaves the path of the address out where it uploads and downloads."""
    (gcloud.home / "buckets" / "files").mkdir(parents=True)
    (tmp_path / "big").write_bytes(os.urandom(9 << 20))
    (tmp_path / "small").write_text("small")
    up = ["cp", str(tmp_path / "big"), str(tmp_path / "small"), "gs://files/"]
    for words in (up, ["cp", "gs://files/big", str(tmp_path / "again")]):
        ended = subprocess.run(
            ["gcloud", "storage", *words], env=gcloud.clients, capture_output=True, text=True, timeout=120
        )
        assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "again").read_bytes() == (tmp_path / "big").read_bytes()


def test_gsutil(gcloud: Gcloud, tmp_path: Path) -> None:
    (tmp_path / "small").write_text("small")
    member = "serviceAccount:a@demo.iam.gserviceaccount.com:objectViewer"
    for words in (
        ["mb", "gs://own-bucket"],
        ["cp", str(tmp_path / "small"), "gs://own-bucket/a/small"],
        ["iam", "ch", member, "gs://own-bucket"],
        ["-q", "stat", "gs://own-bucket/a/small"],
    ):
        ended = subprocess.run(
            ["gsutil", *words], env=gcloud.clients, capture_output=True, text=True, timeout=120
        )
        assert ended.returncode == 0, ended.stderr
    assert (gcloud.home / "buckets" / "own-bucket" / "a" / "small").read_text() == "small"


def test_endpoints(tmp_path: Path) -> None:
    index = framework_index(tmp_path / "wheels")
    gcloud = Gcloud(tmp_path / "home", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(index))
    try:
        deploy_and_predict(gcloud, tmp_path)
    finally:
        gcloud.close()


def deploy_and_predict(gcloud: Gcloud, folder: Path) -> None:
    files = gcloud.home / "buckets" / "models" / "deployed"
    files.mkdir(parents=True)
    (files / "model.pkl").write_bytes(SUM)
    flags = ("--artifact-uri=gs://models/deployed", f"--container-image-uri={SKLEARN}")
    gcloud("models", "upload", REGION, *flags, "--display-name=sum", "--model-id=sum")
    gcloud("endpoints", "create", REGION, "--display-name=place", "--endpoint-id=place")
    deploy = ("--model=sum", "--display-name=first", "--traffic-split=0=100", "--deployed-model-id=7")
    gcloud("endpoints", "deploy-model", "place", REGION, *deploy, "--machine-type=n1-standard-2")
    request = folder / "request.json"
    request.write_text('{"instances": [[1, 2], [3, 4]]}')
    answer = gcloud("endpoints", "predict", "place", REGION, f"--json-request={request}", "--format=json")
    assert json.loads(answer)["predictions"] == [3, 7]
    gcloud("endpoints", "update", "place", REGION, "--display-name=other")
    described = json.loads(gcloud("endpoints", "describe", "place", REGION, "--format=json"))
    assert (described["displayName"], described["trafficSplit"]) == ("other", {"7": 100})
    assert gcloud("endpoints", "list", REGION, "--format=value(name)") == "place\n"
    gcloud("endpoints", "undeploy-model", "place", REGION, "--deployed-model-id=7")
    gcloud("endpoints", "delete", "place", REGION)
    assert gcloud("endpoints", "list", REGION, "--format=value(name)") == ""
