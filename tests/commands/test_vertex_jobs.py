"""Whole commands against the emulator behind a wire: what is shown first is sent; who is trusted."""

from __future__ import annotations

import datetime
import ipaddress
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from lib.logging_service import serve_logs
from lib.serving import serving
from lib.vertex_service import VertexService, serve_vertex

from vtrain.backends import Pace

POOL = "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/p/img"
CREATE = ("custom-jobs", "create", "--display-name=a", POOL, "--args=x", "--labels=a=b", "--env=K=v=w")


def test_a_dry_run_prints_the_message_that_is_then_sent(vtrain: Any, vertex: VertexService) -> None:
    planned = vtrain(*CREATE, "--dry-run", "--format=json")
    assert (planned.code, vertex.requests) == (0, [])
    assert vtrain(*CREATE).code == 0
    assert [request.body for request in vertex.requests] == [json.loads(planned.out)]


NEW_POOL = {"machineSpec": {"machineType": "n1-standard-4", "minGpuDriverVersion": "535"}, "replicaCount": 1}
NEW_STUDY = {
    "metrics": [{"metricId": "m", "goal": "MINIMIZE"}],
    "parameters": [{"parameterId": "p", "doubleValueSpec": {"minValue": 0.5, "maxValue": 1.5}}],
    "convexStopConfig": {"maxNumSteps": "7"},
}
TASK = {"containerSpec": {"imageUri": "gcr.io/p/i"}}
NEW_TO_VTRAIN: dict[str, dict[str, Any]] = {
    "custom-jobs": {"jobSpec": {"workerPoolSpecs": [NEW_POOL | TASK]}},
    "hp-tuning-jobs": {"studySpec": NEW_STUDY, "trialJobSpec": {"workerPoolSpecs": [NEW_POOL | TASK]}},
    "persistent-resources": {"resourcePools": [NEW_POOL]},
}


@pytest.mark.api
@pytest.mark.parametrize("group", NEW_TO_VTRAIN)
def test_a_field_that_google_s_library_knows_is_sent(
    vtrain: Any, vertex: VertexService, tmp_path: Path, group: str
) -> None:
    """Fields of v1beta1 alone, of which vtrain has no message: sent there, and refused for v1."""
    file, config = tmp_path / "config.json", NEW_TO_VTRAIN[group]
    file.write_text(json.dumps(config))
    named = ["--persistent-resource-id=r"] if group == "persistent-resources" else ["--display-name=d"]
    line = [group, "create", *named, f"--config={file}"]
    refused = vtrain(*line)
    assert (refused.code, vertex.requests) == (1, [])
    assert "has no field" in refused.err
    planned = vtrain("beta", "ai", *line, "--dry-run", "--format=json")
    assert planned.code == 0, planned.err
    collection = "persistentResources/r/operations" if group == "persistent-resources" else "customJobs"
    made = {"name": f"projects/demo/locations/us-central1/{collection}/1", "state": "JOB_STATE_PENDING"}
    vertex.answer(json.dumps(made).encode(), method="POST")
    assert vtrain("beta", "ai", *line).code == 0
    created = next(request for request in vertex.requests if request.method == "POST")
    assert created.body == json.loads(planned.out)
    for new in ('"minGpuDriverVersion": "535"', '"convexStopConfig": {"maxNumSteps": "7"}'):
        assert (new in json.dumps(created.body)) == (new in json.dumps(config))


def test_two_creates_with_one_key_are_one_job(vtrain: Any, vertex: VertexService) -> None:
    names = {vtrain(*CREATE, "--idempotency-key=k", "--format=value(name)").out for _ in range(2)}
    assert len(names) == 1
    assert [call.split()[0] for call in vertex.calls()] == ["GET", "POST", "GET", "GET", "GET"]


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of 127.0.0.1 that nobody has vouched for, and its key, in one file."""
    pytest.importorskip("cryptography")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.timezone.utc)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = tmp_path / "certificate.pem"
    file.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
    return file


def test_the_authorities_that_gcloud_trusts_are_trusted(
    vtrain: Any, vertex: VertexService, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "")  # so that what the command sets is undone
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    with serve_vertex(certificate) as service:
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", service.url)
        refused = vtrain("custom-jobs", "list", "--format=json")
        assert refused.code == 1
        assert "TLS" in refused.err
        monkeypatch.setenv("CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", str(certificate))
        trusted = vtrain("custom-jobs", "list", "--format=json")
        assert (trusted.code, trusted.out) == (0, "[]\n"), trusted.err


def test_a_region_may_bring_its_project_along(
    vtrain: Any, vertex: VertexService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLOUDSDK_CORE_PROJECT")
    ended = vtrain("custom-jobs", "list", "--region=projects/other/locations/europe-west4", "--format=json")
    assert (ended.code, ended.out) == (0, "[]\n"), ended.err
    assert vertex.calls() == ["GET /v1/projects/other/locations/europe-west4/customJobs"]


@pytest.mark.parametrize(
    "argv",
    [
        ("custom-jobs", "create"),
        ("custom-jobs", "create", POOL),
        ("custom-jobs", "create", "--display-name=a"),
        ("custom-jobs", "create", "--display-name=a", POOL, "--labels=A"),
        ("hp-tuning-jobs", "create"),
        ("persistent-resources", "create"),
    ],
    ids=" ".join,
)
def test_what_does_not_parse_is_told_before_what_is_missing(
    vtrain: Any, vertex: VertexService, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
) -> None:
    monkeypatch.delenv("CLOUDSDK_AI_REGION")
    assert vtrain(*argv).code == 2


@pytest.mark.parametrize("group", ["custom-jobs", "hp-tuning-jobs"])
@pytest.mark.parametrize(("state", "code"), [("JOB_STATE_SUCCEEDED", 0), ("JOB_STATE_FAILED", 10)])
def test_both_groups_stream_the_log_of_a_tuning_job(
    vtrain: Any, vertex: VertexService, monkeypatch: pytest.MonkeyPatch, group: str, state: str, code: int
) -> None:
    name = "projects/demo/locations/us-central1/hyperparameterTuningJobs/7"
    ended = "2026-01-01T00:01:00Z"
    vertex.put(name, displayName="tune", state=state, endTime=ended, error={"code": 3, "message": "No."})
    with serve_logs() as logs:
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING", logs.url)
        from vtrain.backends.vertex.vertex_backend import VertexBackend

        monkeypatch.setattr(VertexBackend, "pace", Pace(fastest=0.01, slowest=0.02))
        logs.write("loss 0.5", job="7", timestamp="2026-01-01T00:00:30Z", severity="INFO")
        streamed = vtrain(group, "stream-logs", name, "--format=value(severity, task_name, message)")
    assert (streamed.code, streamed.out) == (code, "INFO\tworkerpool0-0\tloss 0.5\n"), streamed.err


def test_logs_prints_what_the_service_has_of_a_job_that_runs(
    vtrain: Any, vertex: VertexService, monkeypatch: pytest.MonkeyPatch
) -> None:
    vertex.put("projects/demo/locations/us-central1/customJobs/7", displayName="a", state="JOB_STATE_RUNNING")
    with serve_logs() as logs:
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING", logs.url)
        logs.write("loss 0.5", job="7", timestamp="2026-01-01T00:00:30Z", severity="INFO")
        printed = vtrain("logs", "7", "--format=value(message)")
        missing = vtrain("logs", "8")
    assert (printed.code, printed.out) == (0, "loss 0.5\n"), printed.err
    assert (missing.code, missing.out) == (1, "") and "customJobs/8" in missing.err


def service_account_key(token_uri: str) -> dict[str, str]:
    """The key file of an account whose tokens come from there."""
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    private = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {"type": "service_account", "client_email": "a@p.iam.gserviceaccount.com", "project_id": "p"}
    return account | {"private_key": private.decode(), "private_key_id": "1", "token_uri": token_uri}


class _Expired(BaseHTTPRequestHandler):
    """A token service that knows the user no more."""

    def do_POST(self) -> None:
        body = b'{"error": "invalid_grant", "error_description": "Token has been expired or revoked."}'
        self.send_response(400)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def test_expired_credentials_are_told_before_anything_is_packed(
    vtrain: Any, vertex: VertexService, vtrain_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "task.py").write_text("print(1)\n")
    tokens = HTTPServer(("127.0.0.1", 0), _Expired)
    key = service_account_key(f"http://127.0.0.1:{tokens.server_port}/token")
    (tmp_path / "key.json").write_text(json.dumps(key))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    monkeypatch.delenv("CLOUDSDK_AUTH_DISABLE_CREDENTIALS")
    flags = ("--executor-image-uri=gcr.io/p/i", "--python-module=task", "--staging-bucket=gs://stage")
    with serving(tokens):
        ended = vtrain(
            "custom-jobs", "create", "--display-name=a", f"--local-package-path={tmp_path}", *flags
        )
    assert ended.code == 1
    assert "expired" in ended.err and "gcloud auth application-default login" in ended.err
    assert not (vtrain_home / "packages").exists()
    assert vertex.requests == []


def test_a_training_pipeline_is_sent_as_it_is_shown(vtrain: Any, vertex: VertexService) -> None:
    line = (
        *("training-pipelines", "create", "--display-name=line", POOL, "--labels=a=b", "--dataset=1234"),
        *("--training-fraction-split=0.7", "--validation-fraction-split=0.3", "--model-display-name=m"),
        *("--serving-container-image-uri=gcr.io/p/serve", "--parent-model=77"),
    )
    planned = vtrain(*line, "--dry-run", "--format=json", "--", "--epochs=3")
    assert (planned.code, vertex.requests) == (0, []), planned.err
    assert vtrain(*line, "--", "--epochs=3").code == 0
    (request,) = vertex.requests
    assert request.path.endswith("/trainingPipelines")
    assert request.body == json.loads(planned.out)
    (pool,) = request.body["trainingTaskInputs"]["workerPoolSpecs"]
    assert pool["containerSpec"]["args"] == ["--epochs=3"]
    assert request.body["labels"] == {"a": "b"}
    assert request.body["parentModel"].endswith("/locations/us-central1/models/77")
    assert request.body["inputDataConfig"] == {
        "datasetId": "1234",
        "fractionSplit": {"trainingFraction": 0.7, "validationFraction": 0.3},
    }
    name = next(iter(vertex.resources))
    assert vtrain("training-pipelines", "describe", name).code == 0
    assert vtrain("training-pipelines", "cancel", name).code == 0
    assert vtrain("training-pipelines", "wait", name).code == 11


def test_a_file_is_no_dataset_of_the_service(vtrain: Any, vertex: VertexService) -> None:
    refused = vtrain("training-pipelines", "create", "--display-name=line", POOL, "--dataset=data.csv")
    assert (refused.code, vertex.requests) == (1, [])
    assert "'data.csv' is not the id of a managed dataset" in refused.err
