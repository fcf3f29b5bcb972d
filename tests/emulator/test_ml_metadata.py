"""Metadata stores: contexts, executions, artifacts, what links them, and filters; over HTTP."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from lib.emulator_service import emulator_service
from lib.storage_service import Http

from vtrain.emulator.vertex import ml_metadata, resource_files


@pytest.fixture(scope="module", autouse=True)
def _store(url: str) -> None:
    http = Http(url)
    assert http("GET", STORE).status == http("POST", f"{STORE}/contexts", {}).status == 404
    assert http("POST", f"{PARENT}?metadataStoreId=default", {}).document["done"]
    http.connection.close()


Document = dict[str, Any]
PARENT = "/v1/projects/demo/locations/us-central1/metadataStores"
STORE = f"{PARENT}/default"


def make(http: Http, collection: str, own_id: str, **fields: Any) -> Document:
    named = {"contexts": "contextId", "executions": "executionId", "artifacts": "artifactId"}[collection]
    reply = http("POST", f"{STORE}/{collection}?{named}={own_id}", fields)
    assert reply.status == 200, reply.body
    return dict(reply.document)


def ids(http: Http, collection: str, text: str, **more: str) -> list[str]:
    query = "&".join(f"{name}={quote(value)}" for name, value in {"filter": text, **more}.items())
    reply = http("GET", f"{STORE}/{collection}?{query}")
    assert reply.status == 200, reply.body
    return [one["name"].rpartition("/")[2] for one in reply.document.get(collection, [])]


@pytest.mark.parametrize("collection", ["contexts", "executions", "artifacts"])
def test_the_life_of_a_node(http: Http, collection: str) -> None:
    made = make(http, collection, "life", displayName="first", metadata={"a": 1, "b": {"c": None}})
    path, etag = f"/v1/{made['name']}", made["etag"]
    assert http("GET", path).document == made and made["metadata"] == {"a": 1, "b": {"c": None}}
    again = http("POST", f"{STORE}/{collection}?{collection[:-1]}Id=life", {})
    assert (again.status, again.document["error"]["status"]) == (409, "ALREADY_EXISTS")
    changed = http("PATCH", path, {"metadata": {"a": 2}, "etag": etag}).document
    assert (changed["displayName"], changed["metadata"]) == ("first", {"a": 2}) and changed["etag"] > etag
    stale = http("PATCH", path, {"description": "x", "etag": etag})
    words = f"Specified {collection[:-1].title()} `etag`: `{etag}` does not match server `etag`: "
    assert (stale.status, stale.document["error"]["status"]) == (409, "ABORTED")
    assert stale.document["error"]["message"] == f"{words}`{changed['etag']}`"
    masked = http("PATCH", f"{path}?updateMask=description", {"description": "of mine", "displayName": "no"})
    assert (masked.document["description"], masked.document["displayName"]) == ("of mine", "first")
    refused = http("DELETE", f"{path}?etag={etag}")
    assert (refused.status, refused.document["error"]["status"]) == (400, "FAILED_PRECONDITION")
    assert http("DELETE", f"{path}?etag={masked.document['etag']}").document["done"]
    assert http("GET", path).status == http("DELETE", path).status == http("PATCH", path, {}).status == 404
    assert http("PATCH", f"{path}?allowMissing=true", {"displayName": "new"}).document["displayName"] == "new"
    assert http("DELETE", path).status == 200


def test_what_a_context_groups(http: Http) -> None:
    experiment, run = make(http, "contexts", "group")["name"], make(http, "contexts", "group-run")["name"]
    data = make(http, "artifacts", "group-data", uri="gs://a/b")["name"]
    model, step = (
        make(http, "artifacts", "group-model")["name"],
        make(http, "executions", "group-step")["name"],
    )
    assert http("POST", f"/v1/{experiment}:addContextChildren", {"childContexts": [run]}).status == 200
    assert http("GET", f"/v1/{run}").document["parentContexts"] == [experiment]
    circle = http("POST", f"/v1/{run}:addContextChildren", {"childContexts": [experiment]})
    assert circle.status == 400 and "above it" in circle.document["error"]["message"]
    for _ in range(2):  # the second changes nothing
        added = {"artifacts": [data, model], "executions": [step]}
        assert http("POST", f"/v1/{run}:addContextArtifactsAndExecutions", added).document == {}
    assert ids(http, "contexts", f'parent_contexts:"{experiment}"') == ["group-run"]
    assert ids(http, "contexts", f'child_contexts:"{run}" AND display_name=""') == ["group"]
    assert set(ids(http, "artifacts", f'in_context("{run}")')) == {"group-data", "group-model"}
    assert ids(http, "artifacts", f'in_context("{run}") AND uri="gs://a/b"') == ["group-data"]
    assert ids(http, "executions", f'in_context("{run}")') == ["group-step"]
    events = [{"artifact": data, "type": "INPUT"}, {"artifact": model, "type": 2}]
    assert http("POST", f"/v1/{step}:addExecutionEvents", {"events": events}).status == 200
    graph = http("GET", f"/v1/{run}:queryContextLineageSubgraph").document
    assert [(one["artifact"], one["type"]) for one in graph["events"]] == [(data, "INPUT"), (model, "OUTPUT")]
    assert http("GET", f"/v1/{step}:queryExecutionInputsAndOutputs").document == graph
    assert http("GET", f"/v1/{data}:queryArtifactLineageSubgraph").document == graph
    numbers = http("GET", f"/v1/{run}:queryContextLineageSubgraph?$alt=json%3Benum-encoding%3Dint").document
    assert [one["type"] for one in numbers["events"]] == [1, 2]

    def hops(count: int, *, query: str = "") -> list[str]:
        found = http("GET", f"/v1/{data}:queryArtifactLineageSubgraph?maxHops={count}{query}").document
        kinds = [*found.get("artifacts", []), *found.get("executions", [])]
        return [one["name"].rpartition("/")[2] for one in kinds]

    assert hops(0) == ["group-data"]
    assert hops(1) == ["group-data", "group-step"]
    assert hops(2) == ["group-data", "group-model", "group-step"]
    assert hops(9, query="&filter=" + quote('uri:"gs://"')) == ["group-data", "group-step"]

    assert http("DELETE", f"/v1/{model}").status == 200
    graph = http("GET", f"/v1/{run}:queryContextLineageSubgraph").document
    assert [one["artifact"] for one in graph["events"]] == [data] and len(graph["artifacts"]) == 1
    assert http("POST", f"/v1/{experiment}:removeContextChildren", {"childContexts": [run]}).status == 200
    assert "parentContexts" not in http("GET", f"/v1/{run}").document
    make(http, "artifacts", "group-model")
    assert set(ids(http, "artifacts", f'in_context("{run}")')) == {"group-data"}, "of the one before"


def test_filters_and_orders(http: Http) -> None:
    for number, name in enumerate(("one", "two", "three")):
        value = {"score": number, "kind:of": name, "good": number > 0}
        make(http, "artifacts", f"filter-{name}", schemaTitle="test.Filter", metadata=value, displayName=name)
    mine = 'schema_title="test.Filter" AND '
    assert ids(http, "artifacts", f"{mine}metadata.score.number_value >= 1") == ["filter-three", "filter-two"]
    assert ids(http, "artifacts", f'{mine}metadata."kind:of".string_value = "two"') == ["filter-two"]
    assert ids(http, "artifacts", f"{mine}metadata.good.bool_value = false") == ["filter-one"]
    either = '(display_name="one" OR display_name="two")'
    assert ids(http, "artifacts", mine + either, orderBy="display_name desc") == ["filter-two", "filter-one"]
    page = http("GET", f"{STORE}/artifacts?pageSize=2&filter={quote(mine[:-5])}").document
    rest = http(
        "GET", f"{STORE}/artifacts?pageToken={page['nextPageToken']}&filter={quote(mine[:-5])}"
    ).document
    assert (len(page["artifacts"]), len(rest["artifacts"]), "nextPageToken" in rest) == (2, 1, False)


@pytest.mark.parametrize("collection", ["contexts", "executions", "artifacts"])
def test_a_purge_shows_what_it_would_remove_and_then_removes_it(http: Http, collection: str) -> None:
    names = [make(http, collection, f"purge-{id_}", schemaTitle="test.Purge")["name"] for id_ in "ab"]
    kept = make(http, collection, "purge-kept")["name"]
    wanted = {"filter": 'schema_title = "test.Purge"'}
    done = http("POST", f"{STORE}/{collection}:purge", wanted).document
    answer = f"google.cloud.aiplatform.v1.Purge{collection.title()}"
    assert http("GET", f"/v1/{done['name']}").document == done
    assert done["metadata"]["@type"] == f"type.googleapis.com/{answer}Metadata"
    assert done["response"]["@type"] == f"type.googleapis.com/{answer}Response"
    assert (done["response"]["purgeCount"], sorted(done["response"]["purgeSample"])) == ("2", names)
    assert http("GET", f"/v1/{names[0]}").status == 200
    done = http("POST", f"{STORE}/{collection}:purge", {**wanted, "force": True}).document
    assert done["response"]["purgeCount"] == "2" and "purgeSample" not in done["response"]
    assert [http("GET", f"/v1/{name}").status for name in (*names, kept)] == [404, 404, 200]


def test_a_purge_takes_away_what_links_others_to_it(http: Http) -> None:
    run, step = make(http, "contexts", "purged-run")["name"], make(http, "executions", "purged-step")["name"]
    data = make(http, "artifacts", "purged-data", displayName="purged")["name"]
    members = {"artifacts": [data], "executions": [step]}
    assert http("POST", f"/v1/{run}:addContextArtifactsAndExecutions", members).status == 200
    events = {"events": [{"artifact": data, "type": "INPUT"}]}
    assert http("POST", f"/v1/{step}:addExecutionEvents", events).status == 200
    wanted = {"filter": 'display_name="purged"', "force": True}
    assert http("POST", f"{STORE}/artifacts:purge", wanted).document["done"]
    graph = http("GET", f"/v1/{run}:queryContextLineageSubgraph").document
    assert (len(graph["executions"]), graph["artifacts"], graph["events"]) == (1, [], [])


def test_a_damaged_context_is_removed(http: Http, home: Path) -> None:
    name = make(http, "contexts", "damaged")["name"]
    file = home / "emulator" / "metadataStores" / "us-central1.default" / "contexts" / "damaged.json"
    file.write_bytes(b"{")
    assert http("GET", f"/v1/{name}").status == 500
    assert http("DELETE", f"/v1/{name}?etag=1").status == 500
    assert http("DELETE", f"/v1/{name}").document["done"]
    assert http("GET", f"/v1/{name}").status == 404


def test_the_life_of_a_schema(http: Http) -> None:
    body = {"schema": "title: mine.Data\ntype: object\n", "schemaVersion": "0.0.1", "schemaType": 1}
    made = http("POST", f"{STORE}/metadataSchemas?metadataSchemaId=mine", body).document
    assert {name: made[name] for name in body} == {**body, "schemaType": "ARTIFACT_TYPE"}
    assert http("GET", f"/v1/{made['name']}").document == made
    assert http("GET", f"{STORE}/metadataSchemas").document == {"metadataSchemas": [made]}
    assert http("DELETE", f"/v1/{made['name']}").status == 405


@pytest.mark.parametrize(
    "text",
    [
        "in_context(",
        "in_context()",
        'in_context("x") >',
        "other(1)",
        'metadata.a = "x"',
        "metadata.a.number_value = x",
        "metadata.a.bool_value : true",
        "metadata.number_value",
        "unknown = 1",
        'parent_contexts:"a",',
        'parent_contexts = "a"',
    ],
)
def test_filters_that_are_refused(http: Http, text: str) -> None:
    reply = http("GET", f"{STORE}/artifacts?filter={quote(text)}")
    assert (reply.status, reply.document["error"]["status"]) in (
        (400, "INVALID_ARGUMENT"),
        (404, "NOT_FOUND"),
    )


@pytest.mark.parametrize("own_id", ["..", "a.b", "A", "-a", "a" * 129, "%2e%2e%2fx", "ä", "a%00b"])
def test_ids_that_are_refused(http: Http, home: Path, own_id: str) -> None:
    before = sorted(home.rglob("*"))
    reply = http("POST", f"{STORE}/contexts?contextId={quote(own_id, safe='%')}", {})
    assert (reply.status, reply.document["error"]["status"]) == (400, "INVALID_ARGUMENT"), reply.body
    assert http("GET", f"{STORE}/contexts/{quote(own_id, safe='%')}").status in (404, 405)
    assert sorted(home.rglob("*")) == before


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"a": "x" * 300_000}},
        {"description": "x" * 3_000_000},
        {"displayName": "x" * 129},
        {"metadata": []},
        {"metadata": "x"},
        {"labels": {"a": 1}},
        {"unknown": 1},
        {"members": []},
        {"displayName": 1},
    ],
)
def test_contexts_that_are_refused(http: Http, body: Document) -> None:
    reply = http("POST", f"{STORE}/contexts", body)
    assert (reply.status, reply.document["error"]["status"]) == (400, "INVALID_ARGUMENT"), reply.body
    assert len(reply.body) < 3000


def test_numbers_of_any_size_are_kept(http: Http) -> None:
    nested: Document = {}
    for _ in range(30):
        nested = {"a": nested}
    made = make(http, "contexts", "numbers", metadata={"big": 2**70, "small": 1e-300, "nested": nested})
    assert http("GET", f"/v1/{made['name']}").document["metadata"]["big"] == 2**70
    for _ in range(60):
        nested = {"a": nested}
    assert http("POST", f"{STORE}/contexts", {"metadata": nested}).status == 400


def test_masks_do_not_pass_the_limits(http: Http) -> None:
    path = f"/v1/{make(http, 'contexts', 'masks', metadata={'my_key': 'ä' * 90_000})['name']}"
    assert http("PATCH", f"{path}?updateMask=metadata.b", {"metadata": {"b": "x" * 10_000}}).status == 200
    for mask in ("metadata.c", "metadata." + ".".join(["c"] * 9000)):
        refused = http("PATCH", f"{path}?updateMask={mask}", {"metadata": {"c": "x" * 10_000}})
        assert (refused.status, refused.document["error"]["status"]) == (400, "INVALID_ARGUMENT")
    for index in range(2):
        body = {"labels": {f"long_{index}": "x" * 600_000}}
        refused = http("PATCH", f"{path}?updateMask=labels.long_{index}", body)
        assert refused.status == (400 if index else 200)


def test_masks_name_keys_as_they_are(http: Http) -> None:
    path = f"/v1/{make(http, 'contexts', 'keys', labels={'my_key': 'a', 'myKey': 'b'})['name']}"
    changed = http("PATCH", f"{path}?updateMask=labels.my_key,labels.new_one", {"labels": {"new_one": "c"}})
    assert changed.document["labels"] == {"myKey": "b", "new_one": "c"}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("contexts/odd:addContextChildren", {"childContexts": "x"}, 404),
        ("contexts/odd:addContextChildren", {"childContexts": [1]}, 400),
        ("contexts/odd:addContextArtifactsAndExecutions", {"artifacts": ["projects/a/b"]}, 404),
        ("contexts/none:addContextChildren", {}, 404),
        ("executions/none:addExecutionEvents", {"events": []}, 404),
        ("executions/none:addExecutionEvents", {"events": {"a": 1}}, 400),
        ("executions/none:addExecutionEvents", {"events": [1]}, 400),
        ("contexts:purge", {"filter": "x"}, 400),
        ("artifacts:purge", {"force": True}, 400),
        ("metadataSchemas", {}, 400),
        ("metadataSchemas", {"schema": "title: x", "schemaType": "OTHER"}, 400),
        ("contexts/odd/contexts", {}, 405),
    ],
)
def test_requests_that_are_refused_as_a_whole(http: Http, path: str, body: Document, status: int) -> None:
    http("POST", f"{STORE}/contexts?contextId=odd", {})
    assert http("POST", f"{STORE}/{path}", body).status == status


def test_a_store_outlives_the_emulator_and_goes_with_all_that_is_in_it(home: Path, http: Http) -> None:
    assert http("POST", f"{PARENT}?metadataStoreId=other", {}).document["done"]
    context = f"{PARENT}/other/contexts"
    assert http("POST", f"{context}?contextId=kept", {"displayName": "kept"}).status == 200
    with emulator_service(home) as url:
        again = Http(url)
        assert again("GET", f"{context}/kept").document["displayName"] == "kept"
        again.connection.close()
    listed = http("GET", PARENT).document["metadataStores"]
    assert {one["name"].rpartition("/")[2] for one in listed} == {"default", "other"}
    assert http("DELETE", f"{PARENT}/other").document["done"]
    assert http("GET", f"{context}/kept").status == http("GET", context).status == 404
    assert http("POST", f"{PARENT}?metadataStoreId=other", {}).document["done"]
    assert http("GET", context).document == {}


def test_stores_and_graphs_have_an_end(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    assert http("POST", f"{PARENT}?metadataStoreId=small", {}).document["done"]
    child = make(http, "contexts", "child")["name"]
    monkeypatch.setattr(resource_files, "MOST_RESOURCES", 2)
    monkeypatch.setattr(ml_metadata, "MOST_PARENTS", 1)
    monkeypatch.setattr(ml_metadata, "LARGEST_GRAPH", 1)
    names = []
    for collection in ("contexts", "artifacts"):
        replies = [http("POST", f"{PARENT}/small/{collection}", {}) for _ in range(3)]
        assert [reply.status for reply in replies] == [200, 200, 429]
        assert replies[-1].document["error"]["status"] == "RESOURCE_EXHAUSTED"
        names.append([reply.document["name"] for reply in replies[:2]])
    (first, second), artifacts = names
    assert http("POST", f"/v1/{first}:addContextChildren", {"childContexts": [child]}).status == 200
    assert http("POST", f"/v1/{second}:addContextChildren", {"childContexts": [child]}).status == 429
    assert (
        http("POST", f"/v1/{first}:addContextArtifactsAndExecutions", {"artifacts": artifacts}).status == 200
    )
    graph = http("GET", f"/v1/{first}:queryContextLineageSubgraph")
    assert (graph.status, graph.document["error"]["status"]) == (400, "FAILED_PRECONDITION")


def test_nodes_that_are_removed_at_once_leave_no_link_and_do_not_fail_each_other(http: Http) -> None:
    contexts = [make(http, "contexts", f"shared-{number}")["name"] for number in range(12)]
    artifacts = [make(http, "artifacts", f"shared-{number}")["name"] for number in range(24)]
    kept = make(http, "contexts", "kept")["name"]

    def send(method: str, path: str, body: Document | None = None) -> int:
        own = Http(f"http://{http.connection.host}:{http.connection.port}")
        try:
            return int(own(method, f"/v1/{path}", body).status)
        finally:
            own.connection.close()

    for context in contexts:
        send("POST", f"{context}:addContextArtifactsAndExecutions", {"artifacts": artifacts})
    with ThreadPoolExecutor(8) as pool:
        removed = [pool.submit(send, "DELETE", name) for name in (*contexts, *artifacts)]
        added = [
            pool.submit(send, "POST", f"{kept}:addContextArtifactsAndExecutions", {"artifacts": [name]})
            for name in artifacts
        ]
    assert {each.result() for each in removed} == {200}
    assert {each.result() for each in added} <= {200, 404}
    found = http("GET", f"/v1/{kept}:queryContextLineageSubgraph")
    assert (found.status, found.document["artifacts"]) == (200, [])
