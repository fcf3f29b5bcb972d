"""`vtrain persistent-resources`, from the command line to what the service gets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from lib.vertex_service import VertexService

from vtrain.backends.vertex import retries
from vtrain.times import timestamp

PARENT = "projects/demo/locations/us-central1"
NAME = f"{PARENT}/persistentResources/pr-1"
CREATE = (
    "persistent-resources",
    "create",
    "--persistent-resource-id=pr-1",
    "--resource-pool-spec=machine-type=n1-standard-4,replica-count=2",
)
SENT = {"resourcePools": [{"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "2"}]}


def test_an_id_is_sent_as_it_is(vtrain: Any, vertex: VertexService) -> None:
    ended = vtrain(*CREATE, "--persistent-resource-id=Bad Id!")
    assert ended.code == 0, ended.err
    assert vertex.requests[0].query["persistentResourceId"] == "Bad Id!"


def test_create_prints_the_operation_in_the_format(vtrain: Any, vertex: VertexService) -> None:
    vertex.polls_until_done = 1
    printed = json.loads(vtrain(*CREATE, "--format=json").out)
    assert printed["name"] in vertex.operations
    assert "metadata" in printed


def test_unknown_fields_are_sent_where_that_is_allowed(vtrain: Any, vertex: VertexService) -> None:
    """And what of the file does not count is left out, and said."""
    known = {"resourcePools": [{**SENT["resourcePools"][0], "idleTimeout": "3s"}]}
    config = json.dumps(known | {"displayName": "machines"})
    flags = ("persistent-resources", "create", "--persistent-resource-id=x", "--config=-")
    refused = vtrain(*flags, stdin=config)
    assert (refused.code, "idleTimeout" in refused.err, vertex.requests) == (1, True, [])
    vertex.answer(json.dumps({"name": f"{PARENT}/persistentResources/x/operations/1"}).encode())
    ended = vtrain(*flags, "--allow-unknown-fields", stdin=config)
    assert ended.code == 0, ended.err
    assert "WARNING" in ended.err and "displayName" in ended.err
    assert vertex.requests[0].body == known


def test_a_create_whose_answer_and_operation_are_lost_has_still_happened(
    vtrain: Any, vertex: VertexService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE", 0.01)
    vertex.drop("POST", handled=True)
    vertex.answer(json.dumps({"name": NAME, "createTime": timestamp(), **SENT}).encode(), method="GET")
    vertex.answer(b'{"operations": []}', method="GET")
    ended = vtrain(*CREATE)
    assert ended.code == 0, ended.err
    assert list(vertex.resources) == [NAME]


@pytest.mark.parametrize(
    "line", [CREATE, ("persistent-resources", "reboot", "pr-1")], ids=["create", "reboot"]
)
@pytest.mark.parametrize("answer", [{"name": NAME}, {}], ids=["a-resource", "nothing"])
def test_an_answer_that_is_no_operation_is_told(
    vtrain: Any, vertex: VertexService, line: tuple[str, ...], answer: dict[str, str]
) -> None:
    vertex.answer(json.dumps(answer).encode(), method="POST")
    ended = vtrain(*line)
    assert ended.code == 1
    assert "no operation" in ended.err


def test_a_delete_that_was_taken_is_believed_whatever_the_answer(vtrain: Any, vertex: VertexService) -> None:
    vertex.answer(b"{}", method="DELETE")
    assert vtrain("persistent-resources", "delete", "pr-1").code == 0


def test_list_hides_clusters_of_ray_before_it_counts(vtrain: Any, vertex: VertexService) -> None:
    vertex.put(f"{PARENT}/persistentResources/plain")
    vertex.put(f"{PARENT}/persistentResources/account", resourceRuntimeSpec={"serviceAccountSpec": {}})
    vertex.put(f"{PARENT}/persistentResources/ray", resourceRuntimeSpec={"raySpec": {}})
    line = ("persistent-resources", "list", "--format=value(name.basename())")
    assert vtrain(*line).out == "account\nplain\n"
    assert vtrain(*line, "--limit=1").out == "account\n"
    assert vertex.calls() == [f"GET /v1/{PARENT}/persistentResources"] * 2


def test_delete_does_not_wait(vtrain: Any, vertex: VertexService) -> None:
    vertex.put(NAME, state="RUNNING")
    vertex.polls_until_done = 99
    ended = vtrain("persistent-resources", "delete", "pr-1", "--format=value(name)")
    assert ended.code == 0, ended.err
    assert ended.out.strip() in vertex.operations
    assert vertex.calls() == [f"DELETE /v1/{NAME}"]


def test_reboot_sends_an_empty_message(vtrain: Any, vertex: VertexService) -> None:
    vertex.put(NAME, state="RUNNING")
    ended = vtrain("persistent-resources", "reboot", NAME)
    assert (ended.code, ended.out) == (0, ""), ended.err
    assert vertex.calls() == [f"POST /v1/{NAME}:reboot"]
    assert vertex.requests[0].body == {}


@pytest.mark.parametrize("project", ["a b", "a\nb", "a\u20ac"])
def test_a_project_to_bill_that_no_header_holds(vtrain: Any, vertex: VertexService, project: str) -> None:
    ended = vtrain("persistent-resources", "list", f"--billing-project={project}")
    assert ended.code == 1
    assert "--billing-project" in ended.err and not vertex.requests
