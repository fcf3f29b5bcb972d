"""The emulator by hand: every client's spelling, the service's words, pages, filters, operations."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lib.emulator_service import PARENT, Document, emulator_service, ended, job_document, refusal
from lib.storage_service import Http

from vtrain.emulator.vertex.open_backends import OpenBackends
from vtrain.messages.names import LOCAL_PROJECT_NUMBER
from vtrain.messages.training_task import CUSTOM_TASK
from vtrain.testing.script import Script

SERVE = partial(emulator_service, aip_dirs="local")
"""How this module's emulator is started."""


def test_the_life_of_a_job(http: Http) -> None:
    made = http("POST", f"{PARENT}/customJobs", job_document(Script().write("hello\n")))
    assert made.status == 200
    job = made.document
    assert job["name"].startswith("projects/demo/locations/us-central1/customJobs/")
    assert len(job["name"].rpartition("/")[2]) == 19
    assert job["state"] in ("JOB_STATE_PENDING", "JOB_STATE_QUEUED")
    assert job["createTime"] == job["updateTime"] and "startTime" not in job
    pool = job["jobSpec"]["workerPoolSpecs"][0]
    assert pool["replicaCount"] == "1"
    assert pool["diskSpec"] == {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 100}
    done = ended(http, job["name"])
    assert done["state"] == "JOB_STATE_SUCCEEDED"
    assert set(done) <= {*job, "startTime", "endTime"}
    assert http("POST", f"/v1/{job['name']}:cancel", {}).document == {}
    removed = http("DELETE", f"/v1/{job['name']}").document
    assert removed["done"] is True and removed["response"]["@type"].endswith(".Empty")
    for version in ("v1", "v1beta1", "ui"):
        assert http("GET", f"/{version}/{removed['name']}").document == removed
    assert "does not exist" in refusal(http("GET", f"/v1/{removed['name']}0"), 404, "NOT_FOUND")
    message = refusal(http("GET", f"/v1/{job['name']}"), 404, "NOT_FOUND")
    assert "projects/local" not in message


def test_a_project_of_a_domain(http: Http) -> None:
    parent = "projects/example.com:demo/locations/us-central1"
    made = http("POST", f"/v1/{parent}/customJobs", job_document(Script(), name="of a domain"))
    assert made.status == 200, made.document
    name = made.document["name"]
    assert name.startswith(f"{parent}/customJobs/")
    assert ended(http, name)["name"] == name
    assert http("POST", f"/v1/{name}:cancel", {}).document == {}
    assert http("DELETE", f"/v1/{name}").document["name"].startswith(f"{name}/operations/")


def test_numbers_and_snake_case_mean_the_same(http: Http) -> None:
    document = {
        "display_name": "spellings",
        "job_spec": {
            "worker_pool_specs": [
                {
                    "machine_spec": {
                        "machine_type": "n1-standard-4",
                        "accelerator_type": 5,
                        "accelerator_count": 1.0,
                    },
                    "replica_count": 1.0,
                    "python_package_spec": {
                        "executor_image_uri": "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-17:latest",
                        "python_module": "json.tool",
                    },
                }
            ],
            "scheduling": {"strategy": 3, "timeout": "60s"},
        },
    }
    made = http("POST", f"{PARENT}/customJobs?$alt=json;enum-encoding=int", document).document
    machine = {"machineType": "n1-standard-4", "acceleratorType": 5, "acceleratorCount": 1}
    assert made["jobSpec"]["workerPoolSpecs"][0]["machineSpec"] == machine
    assert made["jobSpec"]["scheduling"]["strategy"] == 3
    assert made["state"] in (1, 2)
    named = http("GET", f"/v1/{made['name']}").document
    assert named["jobSpec"]["workerPoolSpecs"][0]["machineSpec"]["acceleratorType"] == "NVIDIA_TESLA_T4"
    listed = http("GET", f"{PARENT}/customJobs?%24alt=json%3Benum-encoding%3Dint").document["customJobs"]
    assert all(isinstance(job["state"], int) for job in listed)
    http("POST", f"/v1/{made['name']}:cancel", {})
    ended(http, made["name"])


@pytest.mark.parametrize("unspecified", ["NAME", 0, 0.0, None])
def test_an_enum_that_is_not_specified_is_left_out(http: Http, unspecified: Any) -> None:
    """Notebooks write it, as `algorithm: ALGORITHM_UNSPECIFIED`, for the default."""

    def none_of(name: str) -> Any:
        return f"{name}_UNSPECIFIED" if unspecified == "NAME" else unspecified

    parameter = {
        "parameterId": "lr",
        "doubleValueSpec": {"minValue": 0.1, "maxValue": 1},
        "scaleType": none_of("SCALE_TYPE"),
    }
    study = {
        "metrics": [{"metricId": "a", "goal": "MAXIMIZE"}],
        "parameters": [parameter],
        "algorithm": none_of("ALGORITHM"),
        "observationNoise": none_of("OBSERVATION_NOISE"),
        "measurementSelectionType": none_of("MEASUREMENT_SELECTION_TYPE"),
    }
    spec = job_document(Script(), Script())["jobSpec"]
    machine = {"machineType": "n1-standard-4", "acceleratorType": none_of("ACCELERATOR_TYPE")}
    spec["workerPoolSpecs"][0]["machineSpec"] = machine
    document = {
        "displayName": "t",
        "studySpec": study,
        "trialJobSpec": {**spec, "scheduling": {"strategy": none_of("STRATEGY")}},
        "maxTrialCount": 1,
        "parallelTrialCount": 1,
    }
    made = http("POST", f"{PARENT}/hyperparameterTuningJobs", document).document
    http("POST", f"/v1/{made['name']}:cancel")
    ended(http, made["name"])
    assert http("DELETE", f"/v1/{made['name']}").status == 200
    assert (
        set(made["studySpec"]) == {"metrics", "parameters"}
        and "scaleType" not in made["studySpec"]["parameters"][0]
    )
    assert "acceleratorType" not in made["trialJobSpec"]["workerPoolSpecs"][0]["machineSpec"]


def test_the_inputs_of_a_task_may_have_enums_by_number(http: Http) -> None:
    """A dictionary with `AcceleratorType.NVIDIA_TESLA_T4` has numbers there once it is JSON."""
    spec = job_document(Script())["jobSpec"]
    spec["workerPoolSpecs"][0]["machineSpec"] |= {"acceleratorType": 5, "acceleratorCount": 1}
    pipeline = {
        "displayName": "p",
        "trainingTaskDefinition": CUSTOM_TASK,
        "trainingTaskInputs": spec | {"scheduling": {"strategy": 3.0}},
    }
    reply = http("POST", f"{PARENT}/trainingPipelines", pipeline)
    assert reply.status == 200, reply.document
    http("POST", f"/v1/{reply.document['name']}:cancel")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"jobSpec": {"workerPoolSpecz": []}}, "Unknown name \"workerPoolSpecz\" at 'custom_job.job_spec'"),
        (
            {"jobSpec": {"workerPoolSpecs": [{"machineSpec": {"acceleratorType": "GPU"}}]}},
            "Invalid value at 'custom_job.job_spec.worker_pool_specs[0].machine_spec.accelerator_type'",
        ),
        ({"jobSpec": {"scheduling": {"strategy": [1]}}}, "custom_job.job_spec.scheduling.strategy"),
        ({"jobSpec": {"scheduling": {"strategy": {}}}}, "custom_job.job_spec.scheduling.strategy"),
        ({"jobSpec": {"workerPoolSpecs": [{"replicaCount": "two"}]}}, "worker_pool_specs[0].replica_count"),
        ({"displayName": 5}, "custom_job.display_name"),
        ({"displayName": "a", "display_name": "b"}, "display_name"),
        ({"labels": ["a"]}, "custom_job.labels"),
        ({"jobSpec": "text"}, "custom_job.job_spec"),
        ({"jobSpec": {}, "displayName": "no pools"}, "worker_pool_specs"),
        ({"displayName": "x" * 129, "jobSpec": {}}, "display_name"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_job_is_refused(http: Http, document: Document, words: str) -> None:
    message = refusal(http("POST", f"{PARENT}/customJobs", document), 400, "INVALID_ARGUMENT")
    assert words in message


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"command": "python -c 1"}, "container_spec.command; Message: expected a list"),
        ({"args": "--epochs=3"}, "container_spec.args; Message: expected a list"),
    ],
)
def test_a_task_whose_inputs_are_of_the_wrong_type_is_refused(http: Http, spec: Document, words: str) -> None:
    pool = {"replicaCount": 1, "containerSpec": {"imageUri": "i"} | spec}
    definition = "gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml"
    inputs = {"workerPoolSpecs": [pool]}
    line = {"displayName": "d", "trainingTaskDefinition": definition, "trainingTaskInputs": inputs}
    message = refusal(http("POST", f"{PARENT}/trainingPipelines", line), 400, "INVALID_ARGUMENT")
    assert words in message
    board = {"tensorboard": "projects/1/locations/us-central1/tensorboards/1"}
    pools = {"workerPoolSpecs": [{"replicaCount": 1, "containerSpec": {"imageUri": "i"}}]}
    job = {"displayName": "d", "jobSpec": pools | board}
    message = refusal(http("POST", f"{PARENT}/customJobs", job), 400, "INVALID_ARGUMENT")
    assert "service_account; Message: must be specified when uploading to TensorBoard." in message


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'"x"',
        b"\xff",
        b"[" * 5000,
        b'{"a":' * 200 + b"1" + b"}" * 200,
        b'{"labels":' + b"[" * 500 + b"]" * 500 + b"}",
    ],
)
def test_a_body_that_is_no_job(http: Http, body: bytes) -> None:
    refusal(http("POST", f"{PARENT}/customJobs", body), 400, "INVALID_ARGUMENT")


@pytest.mark.parametrize("body", [b"[]", b"0", b"5", b'""', b"false", b"null"])
@pytest.mark.parametrize(
    "path", ["customJobs", "customJobs/1:cancel", "persistentResources", "models:upload"]
)
def test_a_body_that_is_no_object(http: Http, path: str, body: bytes) -> None:
    message = refusal(http("POST", f"{PARENT}/{path}", body), 400, "INVALID_ARGUMENT")
    assert message == 'Invalid JSON payload received. Unknown name "": Root element must be a message.'


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("customJobs", {"bogus": 1}),
        ("hyperparameterTuningJobs", {"bogus": 1}),
        ("trainingPipelines", {"bogus": 1}),
        ("trainingPipelines", {"inputDataConfig": {"bogus": 1}}),
        ("trainingPipelines", {"modelToUpload": {"bogus": 1}}),
        ("persistentResources?persistentResourceId=a", {"bogus": 1}),
        ("persistentResources?persistentResourceId=a", {"resourcePools": [{"bogus": 1}]}),
        ("persistentResources/a:reboot", {"bogus": 1}),
        ("customJobs/1:cancel", {"bogus": 1}),
        ("models:upload", {"bogus": 1}),
        ("models:upload", {"model": {"bogus": 1}}),
        ("models:copy", {"bogus": 1}),
        ("operations/1:wait", {"bogus": 1}),
        ("operations/1:wait?bogus=1", {}),
        ("customJobs?bogus=1", {}),
        ("customJobs?customJobId=1", {}),
        ("models:copy?bogus=1&alt=json", {}),
    ],
)
def test_a_field_that_there_is_not_is_refused_everywhere(http: Http, path: str, body: Document) -> None:
    message = refusal(http("POST", f"{PARENT}/{path}", body), 400, "INVALID_ARGUMENT")
    assert message.startswith('Invalid JSON payload received. Unknown name "'), message


def test_a_parameter_that_there_is_not_is_refused(http: Http) -> None:
    message = refusal(http("GET", f"{PARENT}/customJobs?order_by=name"), 400, "INVALID_ARGUMENT")
    assert message == (
        'Invalid JSON payload received. Unknown name "order_by": Cannot bind query parameter. '
        "Field 'order_by' could not be found in request message."
    )
    refusal(http("GET", f"{PARENT}/customJobs/1?pageSize=1"), 400, "INVALID_ARGUMENT")
    refusal(http("GET", f"{PARENT}/persistentResources?filter=a=b"), 400, "INVALID_ARGUMENT")
    refusal(http("DELETE", f"{PARENT}/customJobs/1?force=true"), 400, "INVALID_ARGUMENT")
    refusal(http("POST", "/v2/entries:list", {"bogus": 1}), 400, "INVALID_ARGUMENT")
    common = "alt=json&$alt=json&access_token=a&key=a&prettyPrint=true&quotaUser=a&$.xgafv=1&uploadType=a"
    assert http("GET", f"{PARENT}/customJobs?{common}&page_size=1").status == 200


@pytest.mark.parametrize("value", [5, 0, False, {"a": 1}, ["a"]])
@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("models:upload", "model_id"),
        ("models:upload", "parentModel"),
        ("models:copy", "sourceModel"),
    ],
)
def test_a_text_is_a_text(http: Http, path: str, field: str, value: Any) -> None:
    message = refusal(http("POST", f"{PARENT}/{path}", {field: value}), 400, "INVALID_ARGUMENT")
    snake = {"parentModel": "parent_model", "sourceModel": "source_model"}.get(field, field)
    assert message.startswith(f"Invalid value at '{snake}' (TYPE_STRING), ")


def test_a_body_that_is_too_large(http: Http) -> None:
    reply = http("POST", f"{PARENT}/customJobs", b"x" * (11 << 20))
    assert reply.status == 413 and reply.document["error"]["code"] == 413


def test_fields_of_the_service_alone_are_ignored(http: Http) -> None:
    document = job_document(Script(), name="own") | {"name": "projects/x", "state": "JOB_STATE_FAILED"}
    made = http("POST", f"{PARENT}/customJobs", document).document
    assert made["name"].startswith("projects/demo/")
    assert ended(http, made["name"])["state"] == "JOB_STATE_SUCCEEDED"


def test_a_job_that_the_backend_cannot_run_may_run_after_a_change(http: Http) -> None:
    pool = {"machineSpec": {"machineType": "n1-standard-4"}, "containerSpec": {"imageUri": "own"}}
    document = {"displayName": "own", "jobSpec": {"workerPoolSpecs": [{**pool, "replicaCount": 1}]}}
    message = refusal(http("POST", f"{PARENT}/customJobs", document), 400, "FAILED_PRECONDITION")
    assert "run by Docker" in message


def test_a_refusal_names_no_flags(http: Http) -> None:
    image = {"imageUri": "us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-5:latest"}
    model = {"displayName": "m", "artifactUri": "gs://models/none", "containerSpec": image}
    message = refusal(http("POST", f"{PARENT}/models:upload", {"model": model}), 400, "INVALID_ARGUMENT")
    assert message == "There are no files in gs://models/none, which artifact_uri names."


def test_a_project_has_the_number_that_jobs_have(http: Http) -> None:
    project = http("GET", "/v1/projects/example.com:demo").document
    assert (project["projectId"], project["projectNumber"]) == ("example.com:demo", LOCAL_PROJECT_NUMBER)


@pytest.mark.parametrize(
    ("method", "path", "status", "word"),
    [
        ("GET", "/v1/projects", 405, "UNIMPLEMENTED"),
        ("POST", "/v1/projects/demo:getIamPolicy", 405, "UNIMPLEMENTED"),
        ("GET", f"{PARENT}/customJobs/%C3%A9", 404, "NOT_FOUND"),
        ("GET", "/nothing", 404, "NOT_FOUND"),
        ("GET", f"{PARENT}/customJobs/12345", 404, "NOT_FOUND"),
        ("GET", f"{PARENT}/customJobs/..%2F..%2Fetc", 405, "UNIMPLEMENTED"),
        ("PUT", f"{PARENT}/customJobs/1", 405, "UNIMPLEMENTED"),
        ("POST", f"{PARENT}/featurestores", 405, "UNIMPLEMENTED"),
        ("POST", f"{PARENT}/customJobs/1:explode", 405, "UNIMPLEMENTED"),
        ("GET", f"{PARENT}/customJobs?pageSize=-1", 400, "INVALID_ARGUMENT"),
        ("GET", f"{PARENT}/customJobs?pageToken=x", 400, "INVALID_ARGUMENT"),
        ("GET", f"{PARENT}/customJobs?pageToken={'9' * 40}", 400, "INVALID_ARGUMENT"),
        ("GET", f"{PARENT}/customJobs?filter=(", 400, "INVALID_ARGUMENT"),
        ("GET", f"{PARENT}/customJobs?filter=%FF", 400, "INVALID_ARGUMENT"),
        ("GET", f"{PARENT}/models?orderBy=a%20b", 400, "INVALID_ARGUMENT"),
        ("POST", "/v1/projects/demo/locations/-/customJobs", 400, "INVALID_ARGUMENT"),
        ("GET", "/v1/projects/demo/locations/../customJobs", 400, "INVALID_ARGUMENT"),
        ("GET", "/v1/projects/demo/locations/%C3%A9/models", 400, "INVALID_ARGUMENT"),
        ("GET", "/v1/projects/demo/locations/A/persistentResources", 400, "INVALID_ARGUMENT"),
        ("POST", "/v1/projects/demo/locations/US%20West/models:upload", 400, "INVALID_ARGUMENT"),
        ("POST", f"{PARENT}/persistentResources", 400, "INVALID_ARGUMENT"),
        ("POST", f"{PARENT}/models:upload", 400, "INVALID_ARGUMENT"),
        ("DELETE", f"{PARENT}/models/none", 404, "NOT_FOUND"),
    ],
)
def test_what_is_not_there(http: Http, method: str, path: str, status: int, word: str) -> None:
    refusal(http(method, path), status, word)


def test_a_running_job_cannot_be_deleted(http: Http) -> None:
    name = http("POST", f"{PARENT}/customJobs", job_document(Script().hang())).document["name"]
    refusal(http("DELETE", f"/v1/{name}"), 400, "FAILED_PRECONDITION")
    http("POST", f"/v1/{name}:cancel", {})
    job = ended(http, name)
    assert job["state"] == "JOB_STATE_CANCELLED" and job["error"]["code"] == 1


def test_filters_orders_masks_and_pages(url: str, tmp_path: Path) -> None:
    with emulator_service(tmp_path / "home", aip_dirs="local") as own:
        http = Http(own)
        for name in ("b", "a", "c"):
            document = job_document(Script(), name=name, labels={"team": name})
            ended(http, http("POST", f"{PARENT}/customJobs", document).document["name"])

        def names(query: str) -> list[str]:
            page = http("GET", f"{PARENT}/customJobs?{query}").document
            return [job["displayName"] for job in page.get("customJobs", [])]

        assert names("") == ["c", "a", "b"]
        assert names("filter=display_name=%22a%22") == ["a"]
        assert names('filter=labels.team:*%20AND%20NOT%20display_name="a"') == ["c", "b"]
        assert names('filter=state="JOB_STATE_FAILED"%20OR%20displayName:"c*"') == ["c"]
        assert names('filter=create_time>="2100-01-01T00:00:00Z"') == []
        page = http(
            "GET", f"{PARENT}/customJobs?pageSize=2&readMask=name,job_spec.worker_pool_specs"
        ).document
        assert [set(job) for job in page["customJobs"]] == [{"name", "jobSpec"}] * 2
        rest = http("GET", f"{PARENT}/customJobs?pageSize=2&pageToken={page['nextPageToken']}").document
        assert [job["displayName"] for job in rest["customJobs"]] == ["b"] and "nextPageToken" not in rest
        elsewhere = PARENT.replace("us-central1", "europe-west4")
        assert http("GET", f"{elsewhere}/customJobs").document == {}
        http.connection.close()


def test_log_entries_between_two_times(http: Http) -> None:
    script = Script().write('one\ntwo\n{"severity": "WARNING", "message": "three"}\n')
    name = http("POST", f"{PARENT}/customJobs", job_document(script)).document["name"]
    job_id = name.rpartition("/")[2]
    ended(http, name)
    chosen = f'resource.type="ml_job" AND resource.labels.job_id="{job_id}"'

    def entries(more: str = "", **body: Any) -> Document:
        document = {"resourceNames": ["projects/demo"], "filter": chosen + more, **body}
        reply = http("POST", "/v2/entries:list?alt=json", document)
        assert reply.status == 200, reply.document
        found: Document = reply.document
        return found

    of_task = ' AND resource.labels.task_name="workerpool0-0"'
    found = entries(of_task)["entries"]
    assert [entry.get("textPayload") for entry in found] == ["one", "two", None]
    assert (found[2]["jsonPayload"]["message"], found[2]["severity"]) == ("three", "WARNING")
    assert found[0]["resource"]["labels"]["job_id"] == job_id
    assert len({entry["insertId"] for entry in found}) == 3
    first = found[0]["timestamp"]
    assert entries(f'{of_task} AND timestamp<"{first}"') == {}
    assert len(entries(f'{of_task} AND timestamp>="{first}"')["entries"]) == 3
    page, read = entries(pageSize=2), []
    while "nextPageToken" in page:
        read += page["entries"]
        page = entries(pageSize=2, pageToken=page["nextPageToken"])
    assert len(read + page["entries"]) == len(entries(pageSize=1000)["entries"])
    for wrong in ("(((", 'timestamp>="now"', "severity>=LOUD", "zone:*"):
        reply = http("POST", "/v2/entries:list", {"filter": wrong})
        refusal(reply, 400, "INVALID_ARGUMENT")
    refusal(http("POST", "/v2/entries:list", {"filter": chosen, "pageToken": "?"}), 400, "INVALID_ARGUMENT")
    assert http("POST", "/v2/entries:list", {"filter": 'resource.labels.job_id="1"'}).document == {}


def test_persistent_resources(http: Http) -> None:
    pool = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "1"}
    path = f"{PARENT}/persistentResources"
    made = http("POST", f"{path}?persistent_resource_id=pool", {"resourcePools": [pool]}).document
    assert made["done"] is True
    name = made["response"]["name"]
    assert name == "projects/demo/locations/us-central1/persistentResources/pool"
    refusal(
        http("POST", f"{path}?persistentResourceId=pool", {"resourcePools": [pool]}), 409, "ALREADY_EXISTS"
    )
    assert http("GET", f"/v1/{name}?$alt=json;enum-encoding=int").document["state"] == 3
    assert [one["name"] for one in http("GET", path).document["persistentResources"]] == [name]
    for version in ("v1", "v1beta1"):
        rebooted = http("POST", f"/{version}/{name}:reboot", {}).document
        package = f"type.googleapis.com/google.cloud.aiplatform.{version}"
        assert rebooted["response"]["@type"] == f"{package}.PersistentResource"
        metadata = f"{package}.RebootPersistentResourceOperationMetadata"
        assert (rebooted["done"], rebooted["metadata"]["@type"]) == (True, metadata)
    document = job_document(Script())
    document["jobSpec"]["persistentResourceId"] = "none"
    refusal(http("POST", f"{PARENT}/customJobs", document), 400, "INVALID_ARGUMENT")
    document["jobSpec"]["persistentResourceId"] = "pool"
    job = ended(http, http("POST", f"{PARENT}/customJobs", document).document["name"])
    assert job["state"] == "JOB_STATE_SUCCEEDED"
    assert http("DELETE", f"/v1/{name}").document["done"] is True
    refusal(http("GET", f"/v1/{name}"), 404, "NOT_FOUND")


def test_models(http: Http, home: Path) -> None:
    folder = home / "buckets" / "models" / "first"
    folder.mkdir(parents=True)
    (folder / "model.joblib").write_bytes(b"x")
    model = {
        "displayName": "first",
        "artifactUri": "gs://models/first",
        "containerSpec": {"imageUri": "us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-5:latest"},
    }
    done = http("POST", f"{PARENT}/models:upload", {"model": model}).document
    name = done["response"]["model"]
    assert name.startswith("projects/demo/") and done["response"]["modelVersionId"] == "1"
    again = http("POST", f"{PARENT}/models:upload", {"model": model, "parentModel": name}).document
    assert again["response"] == done["response"] | {"modelVersionId": "2"}
    assert http("GET", f"/v1/{name}").document["versionAliases"] == ["default"]
    assert http("GET", f"/v1/{name}@2").document["versionId"] == "2"
    versions = http("GET", f"/v1/{name}:listVersions").document["models"]
    assert {one["versionId"] for one in versions} == {"1", "2"}
    assert len(http("GET", f'{PARENT}/models?filter=display_name="first"').document["models"]) == 1
    model_id = name.rpartition("/")[2]
    assert len(http("GET", f"{PARENT}/models?filter=model={model_id}").document["models"]) == 1
    assert http("GET", f"{PARENT}/models?filter=model!={model_id}").document == {}
    assert http("GET", f"{PARENT}/models?filter=base_model_name=gemma").document == {}
    http("POST", f"{PARENT}/models:upload", {"model": model | {"displayName": "second"}})

    def names(query: str) -> list[str]:
        return [one["displayName"] for one in http("GET", f"{PARENT}/models?{query}").document["models"]]

    assert names("orderBy=display_name") == ["first", "second"]
    assert names("order_by=displayName%20desc&pageSize=1") == ["second"]
    refusal(http("DELETE", f"/v1/{name}@1:deleteVersion"), 400, "FAILED_PRECONDITION")
    assert http("DELETE", f"/v1/{name}").document["done"] is True
    missing = {"model": model | {"artifactUri": "gs://models/none"}}
    refusal(http("POST", f"{PARENT}/models:upload", missing), 400, "INVALID_ARGUMENT")


def test_models_are_changed(http: Http, home: Path) -> None:
    (home / "buckets" / "models" / "changed").mkdir(parents=True)
    (home / "buckets" / "models" / "changed" / "model.joblib").write_bytes(b"x")
    image = "us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-5:latest"
    model = {
        "displayName": "old",
        "artifactUri": "gs://models/changed",
        "containerSpec": {"imageUri": image},
    }
    name = http("POST", f"{PARENT}/models:upload", {"model": model}).document["response"]["model"]
    http("POST", f"{PARENT}/models:upload", {"model": model, "parentModel": name})

    def patch(version: str, mask: str, **fields: Any) -> Any:
        return http("PATCH", f"/v1/{name}{version}?updateMask={mask}", {"name": f"{name}{version}", **fields})

    renamed = patch("", "displayName,labels", displayName="new", description="left out", labels={"a": "b"})
    assert renamed.status == 200, renamed.document
    found = http("GET", f"/v1/{name}@2").document
    assert (found["displayName"], found["versionId"]) == ("new", "2")
    assert renamed.document["labels"] == {"a": "b"}
    assert (
        "labels" not in found and "description" not in found and found["artifactUri"] == "gs://models/changed"
    )
    assert renamed.document == http("GET", f"/v1/{name}").document
    described = patch("@2", "version_description", versionDescription="second").document
    assert (described["versionDescription"], described["displayName"]) == ("second", "new")
    assert "versionDescription" not in http("GET", f"/v1/{name}").document
    assert patch("@-", "description", description="all").status == 200
    assert http("GET", f"/v1/{name}@2").document["description"] == "all"
    assert "description" not in patch("", "description").document
    for version, mask in (("@2", "displayName"), ("", "versionDescription"), ("@1", "labels,displayName")):
        refusal(patch(version, mask, displayName="x"), 400, "FAILED_PRECONDITION")
    for mask in ("", "artifactUri", "bogus", "*", "labels.a"):
        refusal(patch("", mask, displayName="x"), 400, "INVALID_ARGUMENT")
    refusal(patch("", "displayName", displayName=""), 400, "INVALID_ARGUMENT")
    refusal(patch("", "displayName", displayName="x", bogus=1), 400, "INVALID_ARGUMENT")
    refusal(patch("0", "displayName", displayName="x"), 404, "NOT_FOUND")
    refusal(patch("@7", "labels", labels={}), 404, "NOT_FOUND")
    refusal(http("PATCH", f"{PARENT}/persistentResources/a?updateMask=labels", {}), 405, "UNIMPLEMENTED")
    named = http("POST", f"/v1/{name}@2:mergeVersionAliases", {"versionAliases": ["best", "default"]})
    assert named.document["versionAliases"] == ["best", "default"]
    assert http("GET", f"/v1/{name}").document["versionId"] == "2"
    for wrong in (["-default"], ["1"], "best", [1], []):
        reply = http("POST", f"/v1/{name}@2:mergeVersionAliases", {"versionAliases": wrong})
        refusal(reply, 400, "INVALID_ARGUMENT")
    assert http("DELETE", f"/v1/{name}").document["done"] is True


def test_a_tuning_job_is_listed_without_its_trials(http: Http) -> None:
    document = {
        "displayName": "tune",
        "maxTrialCount": 1,
        "parallelTrialCount": 1,
        "studySpec": {
            "metrics": [{"metricId": "loss", "goal": 2}],
            "parameters": [{"parameterId": "x", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
            "algorithm": 3,
        },
        "trialJobSpec": job_document(Script())["jobSpec"],
    }
    made = http("POST", f"{PARENT}/hyperparameterTuningJobs", document).document
    assert made["studySpec"]["algorithm"] == "RANDOM_SEARCH"
    name = made["name"]
    http("POST", f"/v1/{name}:cancel", {})
    ended(http, name)
    listed = http("GET", f"{PARENT}/hyperparameterTuningJobs").document["hyperparameterTuningJobs"]
    assert [("trials" in one, one["name"]) for one in listed] == [(False, name)]


def test_credentials_for_programs_that_look_for_a_machine_of_google(http: Http) -> None:
    assert http("GET", "/", Metadata_Flavor="Google").headers["metadata-flavor"] == "Google"
    values = "/computeMetadata/v1"
    token = http("GET", f"{values}/instance/service-accounts/default/token", Metadata_Flavor="Google")
    assert token.document["token_type"] == "Bearer"
    assert http("GET", f"{values}/project/project-id", Metadata_Flavor="Google").body == b"demo"
    assert http("GET", f"{values}/instance/attributes/x", Metadata_Flavor="Google").status == 404


@pytest.mark.parametrize("header", [{"Origin": "https://example.com"}, {"Host": "example.com"}])
def test_web_pages_are_refused(http: Http, header: dict[str, str]) -> None:
    assert http("POST", f"{PARENT}/customJobs", job_document(Script()), **header).status == 403


def test_a_hundred_clients_at_once(url: str) -> None:
    def ask(number: int) -> int:
        http = Http(url)
        try:
            return http("GET", f"{PARENT}/customJobs?pageSize={number + 1}").status
        finally:
            http.connection.close()

    with ThreadPoolExecutor(100) as pool:
        assert set(pool.map(ask, range(100))) == {200}


def test_six_creates_at_once(url: str) -> None:
    def create(number: int) -> Document:
        http = Http(url)
        try:
            name = http("POST", f"{PARENT}/customJobs", job_document(Script(), name=f"six-{number}"))
            return ended(http, name.document["name"])
        finally:
            http.connection.close()

    with ThreadPoolExecutor(6) as pool:
        jobs = list(pool.map(create, range(6)))
    assert {job["state"] for job in jobs} == {"JOB_STATE_SUCCEEDED"}
    assert len({job["name"] for job in jobs}) == 6


def test_a_trainers_own_words_stay_as_they_are(http: Http) -> None:
    name = "projects/demo/locations/us-central1/models/7"
    document = job_document(Script(), labels={"a": "b"})
    document["jobSpec"]["workerPoolSpecs"][0]["pythonPackageSpec"]["args"].append(name)
    document["jobSpec"]["models"] = [name]
    made = http("POST", f"{PARENT}/customJobs", document).document
    assert made["jobSpec"]["workerPoolSpecs"][0]["pythonPackageSpec"]["args"][-1] == name
    assert made["jobSpec"]["models"] == [name]
    http("POST", f"/v1/{made['name']}:cancel", {})
    ended(http, made["name"])


class BrokenBackends(OpenBackends):
    """Backends with a fault in their code."""

    def open_part(self, kind: str, name: str, location: str) -> Any:
        raise ZeroDivisionError(kind)


def test_a_fault_of_the_emulator_has_the_envelope_of_the_api(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = BrokenBackends(tmp_path / "home", "process", "gs")
    with emulator_service(tmp_path / "home", backends=broken) as served:
        http = Http(served)
        message = refusal(http("GET", f"{PARENT}/customJobs"), 500, "INTERNAL")
        assert message == "The emulator has a fault: its messages on stderr tell which."
        http.connection.close()
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError]


def test_an_answer_is_json_that_names_its_type(http: Http) -> None:
    reply = http("GET", f"{PARENT}/customJobs")
    assert reply.headers["content-type"].startswith("application/json")
    json.loads(reply.body)
