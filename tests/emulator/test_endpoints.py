"""Endpoints by hand: their life, their traffic, and the servers of their models."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest
from lib.emulator_service import emulator_service
from lib.framework_index import SKLEARN, SUM, framework_emulator, servers
from lib.storage_service import Http
from lib.waiting import wait_until

from vtrain.atomic import SCRATCH
from vtrain.emulator.vertex.model_servers import MOST_SERVERS, ModelServers
from vtrain.emulator.vertex.resource_files import ResourceFiles
from vtrain.errors import ConfigError
from vtrain.messages.codec import from_document
from vtrain.messages.model import Model
from vtrain.privacy import home_label

SERVE = framework_emulator


LOCATION = "projects/demo/locations/us-central1"
PARENT = f"/v1/{LOCATION}"
OTHER_IMAGE = "europe-docker.pkg.dev/somebody/else:1"
Document = dict[str, Any]


def refused(reply: Any, status: int, word: str) -> str:
    """The message of a refusal."""
    error = reply.document["error"]
    assert (reply.status, error["status"]) == (status, word), error
    return str(error["message"])


def done(http: Http, reply: Any) -> Document:
    """The operation of an answer once it is done."""
    assert reply.status == 200, reply.body
    operation: Document = reply.document
    while not operation["done"]:
        operation = http("POST", f"/v1/{operation['name']}:wait", {"timeout": "30s"}).document
    return operation


def response(http: Http, reply: Any) -> Document:
    operation = done(http, reply)
    assert "response" in operation, operation
    return dict(operation["response"])


@pytest.fixture
def upload(http: Http, home: Path, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Registers a model of these bytes; its name."""

    def run(content: bytes = SUM, image: str = SKLEARN, name: str = "sum") -> str:
        folder = home / "buckets" / "models" / request.node.name.replace("[", "-").strip("]") / name
        folder.mkdir(parents=True)
        (folder / "model.pkl").write_bytes(content)
        uri = f"gs://models/{folder.relative_to(home / 'buckets' / 'models')}"
        model = {"displayName": name, "artifactUri": uri, "containerSpec": {"imageUri": image}}
        return str(response(http, http("POST", f"{PARENT}/models:upload", {"model": model}))["model"])

    return run


@pytest.fixture
def place(http: Http) -> Iterator[str]:
    """A new endpoint; its name. All its models are undeployed at the end."""
    made = http("POST", f"{PARENT}/endpoints", {"displayName": "place", "labels": {"a": "b"}})
    name = str(response(http, made)["name"])
    yield name
    found = http("GET", f"/v1/{name}").document
    for deployed in found.get("deployedModels", ()):
        body = {"deployedModelId": deployed["id"], "trafficSplit": {}}
        http("PATCH", f"/v1/{name}?updateMask=trafficSplit", {"trafficSplit": {}})
        response(http, http("POST", f"/v1/{name}:undeployModel", body))


def deploy(http: Http, place: str, model: str, **fields: Any) -> str:
    """Deploy a model with all the traffic; its id there."""
    body = {"deployedModel": {"model": model}, "trafficSplit": {"0": 100}} | fields
    made = response(http, http("POST", f"/v1/{place}:deployModel", body))
    return str(made["deployedModel"]["id"])


def predict(http: Http, place: str, *instances: Any) -> Any:
    return http("POST", f"/v1/{place}:predict", {"instances": list(instances)})


def test_the_life_of_an_endpoint(http: Http, place: str) -> None:
    assert place.startswith(f"{LOCATION}/endpoints/")
    found = http("GET", f"/v1/{place}").document
    assert (found["displayName"], found["labels"]) == ("place", {"a": "b"})
    changed = http("PATCH", f"/v1/{place}?updateMask=display_name,labels", {"displayName": "other"})
    assert changed.document["displayName"] == "other" and "labels" not in changed.document
    listed = http("GET", f"{PARENT}/endpoints?filter=display_name%3Dother").document["endpoints"]
    assert [one["name"] for one in listed] == [place]
    assert http("GET", f"{PARENT}/endpoints?filter=display_name%3Dnone").document == {}
    second = response(http, http("POST", f"{PARENT}/endpoints?endpointId=own", {"displayName": "second"}))
    assert second["name"] == f"{LOCATION}/endpoints/own"
    own = http("GET", f"{PARENT}/endpoints?filter=endpoint%3Down").document["endpoints"]
    assert [one["name"] for one in own] == [second["name"]]
    others = http("GET", f"{PARENT}/endpoints?filter=endpoint!%3Down").document["endpoints"]
    assert [one["name"] for one in others] == [place]
    refused(http("POST", f"{PARENT}/endpoints?endpointId=own", {"displayName": "x"}), 409, "ALREADY_EXISTS")
    assert done(http, http("DELETE", f"{PARENT}/endpoints/own"))["done"]
    assert "endpoints/own" in refused(http("GET", f"{PARENT}/endpoints/own"), 404, "NOT_FOUND")


def test_a_deployed_model_answers_and_its_server_is_kept(
    http: Http, place: str, upload: Callable[..., str]
) -> None:
    model = upload()
    deployed = deploy(http, place, model)
    before = servers()
    answer = predict(http, place, [1, 2], [3, 4]).document
    assert answer == {
        "predictions": [3, 7],
        "deployedModelId": deployed,
        "model": model,
        "modelVersionId": "1",
        "modelDisplayName": "sum",
    }
    assert servers() == before and before
    uses = http("GET", f"/v1/{model}").document["deployedModels"]
    assert uses == [{"endpoint": place, "deployedModelId": deployed}]
    assert "deployed" in refused(http("DELETE", f"/v1/{model}"), 400, "FAILED_PRECONDITION")
    assert deployed in refused(http("DELETE", f"/v1/{place}"), 400, "FAILED_PRECONDITION")


def test_a_server_that_was_killed_is_started_again(
    http: Http, place: str, upload: Callable[..., str]
) -> None:
    before = set(servers())
    deploy(http, place, upload())
    (server,) = set(servers()) - before
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: predict(http, place, [1, 2]).status == 200, patience=10)
    assert server not in servers()


def test_an_undeployed_model_has_no_server(http: Http, place: str, upload: Callable[..., str]) -> None:
    before = set(servers())
    deployed = deploy(http, place, upload())
    assert set(servers()) - before
    response(http, http("POST", f"/v1/{place}:undeployModel", {"deployedModelId": deployed}))
    wait_until(lambda: not set(servers()) - before, patience=10)
    assert "deployedModels" not in http("GET", f"/v1/{place}").document
    refused(predict(http, place, [1, 2]), 400, "FAILED_PRECONDITION")
    response(http, http("DELETE", f"/v1/{place}"))
    endpoint_again = http("POST", f"{PARENT}/endpoints?endpointId={place.rpartition('/')[2]}", {})
    refused(endpoint_again, 400, "INVALID_ARGUMENT")  # a generated id is none of a user's


def test_running_predictions_end_before_the_server_of_an_undeployed_model(
    http: Http, place: str, url: str, tmp_path: Path, upload: Callable[..., str]
) -> None:
    before, begun = set(servers()), tmp_path / "begun"
    deployed = deploy(http, place, upload(b"csklearn\nSlow\n(tR."))

    def ask() -> Any:
        own = Http(url)
        try:
            return predict(own, place, str(begun))
        finally:
            own.connection.close()

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask)
        assert wait_until(begun.exists, patience=30)
        body = {"deployedModelId": deployed}
        operation = http("POST", f"/v1/{place}:undeployModel", body).document
        assert not operation["done"]
        refused(predict(http, place, [1, 2]), 400, "FAILED_PRECONDITION")  # nobody new is served
        assert asked.result().document["predictions"] == ["late"]
    response(http, http("POST", f"/v1/{operation['name']}:wait", {"timeout": "30s"}))
    assert not set(servers()) - before


def test_the_end_of_an_emulator_ends_the_server_of_an_undeployed_model_that_still_answers(
    http: Http, home: Path, upload: Callable[..., str]
) -> None:
    model = from_document(Model, http("GET", f"/v1/{upload()}").document)
    own = ModelServers(home, "process", lambda _: None)

    def is_undeployed() -> bool:
        try:
            with own.using("key", Model()):  # none serves it: this is the server that runs
                return False
        except ConfigError:
            return True

    def left() -> set[Any]:
        return {*servers(), *Path(gettempdir()).glob(f"{SCRATCH}{home_label(home)}-*")}

    before = left()
    with ThreadPoolExecutor(1) as pool, own.using("key", model) as server:
        assert not is_undeployed() and isinstance(server.address, Path)
        for number in range(3000):  # its folder is not gone at once
            server.address.with_name(f"file-{number}").touch()
        pool.submit(own.stop, "key")
        wait_until(is_undeployed)
        own.close()
        assert not left() - before


def test_a_model_that_nothing_here_serves_is_deployed_and_says_why(
    http: Http, place: str, upload: Callable[..., str]
) -> None:
    deploy(http, place, upload(image=OTHER_IMAGE))
    message = refused(predict(http, place, [1, 2]), 400, "FAILED_PRECONDITION")
    assert OTHER_IMAGE in message and "--backend=docker" in message


def test_a_model_that_cannot_be_loaded_is_not_deployed(
    http: Http, place: str, upload: Callable[..., str]
) -> None:
    body = {"deployedModel": {"model": upload(b"no pickle")}, "trafficSplit": {"0": 100}}
    error = done(http, http("POST", f"/v1/{place}:deployModel", body))["error"]
    assert error["code"] == 9 and "cannot be loaded" in error["message"]
    assert "deployedModels" not in http("GET", f"/v1/{place}").document


def test_traffic_goes_where_the_split_says(http: Http, place: str, upload: Callable[..., str]) -> None:
    model = upload()
    first = deploy(http, place, model, deployedModel={"model": model, "id": "7"})
    assert first == "7"
    second = deploy(http, place, model, trafficSplit={"0": 50, "7": 50})
    seen = {predict(http, place, [1, 2]).document["deployedModelId"] for _ in range(40)}
    assert seen == {first, second}
    third = response(http, http("POST", f"/v1/{place}:deployModel", {"deployedModel": {"model": model}}))[
        "deployedModel"
    ]["id"]
    assert third not in http("GET", f"/v1/{place}").document["trafficSplit"]
    path = f"/v1/{place}?updateMask=traffic_split"
    changed = http("PATCH", path, {"trafficSplit": {third: 100}}).document
    assert changed["trafficSplit"] == {third: 100}
    assert predict(http, place, [1, 2]).document["deployedModelId"] == third
    taken = http("POST", f"/v1/{place}:undeployModel", {"deployedModelId": third})
    assert "has traffic" in refused(taken, 400, "FAILED_PRECONDITION")
    body = {"deployedModelId": third, "trafficSplit": {first: 100}}
    response(http, http("POST", f"/v1/{place}:undeployModel", body))
    assert predict(http, place, [1, 2]).document["deployedModelId"] == first


def test_a_deployed_model_is_changed(http: Http, place: str, upload: Callable[..., str]) -> None:
    deployed = deploy(http, place, upload(image=OTHER_IMAGE))
    body = {
        "deployedModel": {"id": deployed, "automaticResources": {"minReplicaCount": 2}},
        "updateMask": "automatic_resources.min_replica_count",
    }
    response(http, http("POST", f"/v1/{place}:mutateDeployedModel", body))
    (found,) = http("GET", f"/v1/{place}").document["deployedModels"]
    assert found["automaticResources"] == {"minReplicaCount": 2}


def test_a_raw_prediction_is_the_servers_own_answer(
    http: Http, place: str, upload: Callable[..., str]
) -> None:
    deployed = deploy(http, place, upload())
    reply = http("POST", f"/v1/{place}:rawPredict", b'{"instances": [[1, 2]], "own": 1}', Content_Type="a/b")
    assert (reply.status, reply.body) == (200, b'{"predictions": [3]}')
    assert reply.headers["x-vertex-ai-deployed-model-id"] == deployed
    assert reply.headers["content-type"] == "application/json"
    message = refused(http("POST", f"/v1/{place}:rawPredict", b"\xff"), 400, "INVALID_ARGUMENT")
    assert "refuses the request" in message


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"instances": []}, "instances"),
        ({}, "instances"),
        ({"instances": "x"}, "instances"),
        ({"instances": [[1, 2, 3]]}, "expected 2 features"),
        ({"instances": [[1, 2]], "more": 1}, "more"),
    ],
)
def test_predictions_that_are_refused(
    http: Http, place: str, upload: Callable[..., str], body: Document, word: str
) -> None:
    deploy(http, place, upload())
    assert word in refused(http("POST", f"/v1/{place}:predict", body), 400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    ("fields", "status", "word"),
    [
        ({"deployedModel": {"model": "digits"}}, 400, "INVALID_ARGUMENT"),
        ({"deployedModel": {"model": f"{LOCATION}/models/7"}}, 404, "NOT_FOUND"),
        ({"deployedModel": {}}, 400, "INVALID_ARGUMENT"),
        ({"trafficSplit": {"0": 50}}, 400, "INVALID_ARGUMENT"),
        ({"trafficSplit": {"0": "all"}}, 400, "INVALID_ARGUMENT"),
        ({"trafficSplit": {"9": 100}}, 400, "INVALID_ARGUMENT"),
        ({"trafficSplit": [100]}, 400, "INVALID_ARGUMENT"),
        ({"deployedModel": {"id": "x"}}, 400, "INVALID_ARGUMENT"),
    ],
)
def test_deployments_that_are_refused(
    http: Http, place: str, upload: Callable[..., str], fields: Document, status: int, word: str
) -> None:
    body: Document = {"deployedModel": {"model": upload()}} | fields
    refused(http("POST", f"/v1/{place}:deployModel", body), status, word)
    assert "deployedModels" not in http("GET", f"/v1/{place}").document


@pytest.mark.parametrize("name", ["..", "a.b", "%2e%2e", "A", "x" * 64, "a@b"])
def test_odd_names(http: Http, name: str) -> None:
    for verb in ("GET", "DELETE"):
        assert http(verb, f"{PARENT}/endpoints/{name}").status in (404, 405)
    refused(
        http("POST", f"{PARENT}/endpoints?endpointId={name}", {"displayName": "x"}), 400, "INVALID_ARGUMENT"
    )


def test_what_is_not_emulated(http: Http, place: str) -> None:
    for field in ("dedicatedEndpointEnabled", "enablePrivateServiceConnect"):
        private = {"displayName": "private", field: True}
        refused(http("POST", f"{PARENT}/endpoints", private), 405, "UNIMPLEMENTED")
    refused(http("POST", f"/v1/{place}:explain", {"instances": [1]}), 405, "UNIMPLEMENTED")
    pool = {"deployedModel": {"model": f"{LOCATION}/models/7", "sharedResources": "x"}}
    refused(http("POST", f"/v1/{place}:deployModel", pool), 405, "UNIMPLEMENTED")


def test_endpoints_are_there_after_a_restart(
    home: Path, http: Http, place: str, upload: Callable[..., str]
) -> None:
    deploy(http, place, upload())
    with emulator_service(home) as again:
        other = Http(again)
        assert predict(other, place, [1, 2]).document["predictions"] == [3]
        other.connection.close()


def test_a_version_that_is_deployed_is_kept(http: Http, place: str, upload: Callable[..., str]) -> None:
    model = upload(image=OTHER_IMAGE)
    body = {
        "model": {"displayName": "two", "containerSpec": {"imageUri": OTHER_IMAGE}},
        "parentModel": model,
    }
    response(http, http("POST", f"{PARENT}/models:upload", body))
    deploy(http, place, f"{model}@2")
    assert "deployedModels" not in http("GET", f"/v1/{model}@1").document
    refused(http("DELETE", f"/v1/{model}@2:deleteVersion"), 400, "FAILED_PRECONDITION")
    refused(http("DELETE", f"/v1/{model}"), 400, "FAILED_PRECONDITION")


@pytest.mark.parametrize("mask", ["model", "id", "createTime", "__class__", "__doc__", ""])
def test_a_deployed_model_keeps_what_it_is(
    http: Http, place: str, upload: Callable[..., str], mask: str
) -> None:
    deployed = deploy(http, place, upload(image=OTHER_IMAGE))
    body = {"deployedModel": {"id": deployed}, "updateMask": mask}
    refused(http("POST", f"/v1/{place}:mutateDeployedModel", body), 400, "INVALID_ARGUMENT")


def test_a_path_of_a_mask_changes_what_it_names_alone(
    http: Http, place: str, upload: Callable[..., str]
) -> None:
    model = upload(image=OTHER_IMAGE)
    machine = {"machineType": "n1-standard-4"}
    resources = {"machineSpec": machine, "minReplicaCount": 1, "maxReplicaCount": 2}
    deployed = deploy(http, place, model, deployedModel={"model": model, "dedicatedResources": resources})
    body = {
        "deployedModel": {"id": deployed, "dedicatedResources": {"maxReplicaCount": 5}},
        "updateMask": "dedicated_resources.max_replica_count",
    }
    response(http, http("POST", f"/v1/{place}:mutateDeployedModel", body))
    (found,) = http("GET", f"/v1/{place}").document["deployedModels"]
    assert found["dedicatedResources"] == resources | {"maxReplicaCount": 5}
    refused(http("PATCH", f"/v1/{place}?updateMask=displayName", {}), 400, "INVALID_ARGUMENT")


def test_models_that_cannot_be_served_take_no_room(
    http: Http, place: str, upload: Callable[..., str]
) -> None:
    other = upload(image=OTHER_IMAGE, name="other")
    for _ in range(MOST_SERVERS + 2):
        deploy(http, place, other, trafficSplit={})
    good = deploy(http, place, upload())
    http("PATCH", f"/v1/{place}?updateMask=trafficSplit", {"trafficSplit": {good: 100}})
    before = servers()
    assert predict(http, place, [1, 2]).document["predictions"] == [3]
    assert servers() == before


def test_an_endpoint_whose_model_is_asked_for_while_it_is_undeployed_has_no_server(
    http: Http, place: str, url: str, upload: Callable[..., str]
) -> None:
    before = set(servers())
    deployed = deploy(http, place, upload())
    assert predict(http, place, [1, 2]).status == 200

    def ask() -> int:
        own = Http(url)
        try:
            return int(predict(own, place, [1, 2]).status)
        finally:
            own.connection.close()

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask) for _ in range(40)]
        response(http, http("POST", f"/v1/{place}:undeployModel", {"deployedModelId": deployed}))
        assert {each.result() for each in asked} <= {200, 400, 404, 500}
    wait_until(lambda: not set(servers()) - before, patience=10)


def test_a_prediction_that_began_starts_no_server_of_a_model_that_is_undeployed_meanwhile(
    http: Http, place: str, url: str, upload: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(servers())
    deployed = deploy(http, place, upload())
    find, found = ResourceFiles.find, 0

    def undeploying(files: Any, name: str) -> Any:
        nonlocal found
        endpoint_then, found = find(files, name), found + 1
        if found == 2:  # the last look at the endpoint before the model is asked
            own = Http(url)
            assert own("POST", f"/v1/{place}:undeployModel", {"deployedModelId": deployed}).status == 200
            own.connection.close()
        return endpoint_then

    monkeypatch.setattr(ResourceFiles, "find", undeploying)
    reply = predict(http, place, [1, 2])
    assert found > 2 and reply.status == 200
    assert wait_until(lambda: not set(servers()) - before, patience=10)
