"""TensorBoards and datasets: they are kept, and a pipeline finds the files of a dataset by its id."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import pytest
from lib.storage_service import Http
from lib.waiting import wait_until

from vtrain.emulator.vertex.resource_files import ResourceFiles
from vtrain.messages.kept_resources import Dataset
from vtrain.times import timestamp

PARENT = "/v1/projects/demo/locations/us-central1"
IMAGE = "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest"


def made(http: Http, collection: str, **fields: Any) -> dict[str, Any]:
    reply = http("POST", f"{PARENT}/{collection}", {"displayName": "first", **fields})
    assert reply.status == 200, reply.body
    return dict(reply.document["response"])


@pytest.mark.parametrize("collection", ["tensorboards", "datasets"])
def test_the_life_of_a_resource(http: Http, collection: str) -> None:
    name = made(http, collection, labels={"a": "b"})["name"]
    found = http("GET", f"/v1/{name}").document
    assert (found["displayName"], found["labels"]) == ("first", {"a": "b"})
    body = {"displayName": "second"}
    changed = http("PATCH", f"/v1/{name}?updateMask=display_name", body).document
    assert (changed.get("response") or changed)["displayName"] == "second"
    listed = http("GET", f"{PARENT}/{collection}?filter=display_name%3Dsecond").document[collection]
    assert [each["name"] for each in listed] == [name]
    for text, count in (("labels:a", 1), ("labels:b", 0), ("labels.a:*", 1), ('metadata_schema_uri=""', 1)):
        found = http("GET", f"{PARENT}/{collection}?filter={quote(text)}").document
        assert len(found.get(collection, ())) == count, text
    assert http("DELETE", f"/v1/{name}").document["done"]
    assert http("GET", f"/v1/{name}").status == http("DELETE", f"/v1/{name}").status == 404
    assert collection not in http("GET", f"{PARENT}/{collection}").document


@pytest.mark.parametrize("collection", ["tensorboards", "datasets"])
@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("", {"displayName": ""}),
        ("", {"displayName": 1}),
        ("", {"unknown": "x"}),
        ("?updateMask=name", {"name": "x"}),
        ("?updateMask=unknown", {}),
        ("", []),
    ],
)
def test_requests_that_are_refused(http: Http, collection: str, query: str, body: Any) -> None:
    path = f"/v1/{made(http, collection)['name']}{query}" if query else f"{PARENT}/{collection}"
    reply = http("PATCH" if query else "POST", path, body if body else b"[]" if body == [] else {})
    assert (reply.status, reply.document["error"]["status"]) == (400, "INVALID_ARGUMENT"), reply.body


def test_two_emulators_of_a_home_lose_no_change(tmp_path: Path) -> None:
    name = "projects/local/locations/us-central1/datasets/1"
    several = [ResourceFiles(tmp_path, "datasets", Dataset) for _ in range(2)]
    several[0].add(Dataset(name=name))

    def label(files: ResourceFiles[Dataset], which: int) -> None:
        for number in range(50):
            with files.changing(name) as found:
                files.change(found, labels={**found.labels, f"{which}-{number}": ""})

    threads = [Thread(target=label, args=(files, which)) for which, files in enumerate(several)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(several[0].find(name).labels) == 100


class CountingFiles(ResourceFiles[Dataset]):
    """Files that count how often one is read."""

    reads = 0

    def _load(self, file: Path) -> Any:
        self.reads += 1
        return super()._load(file)


def test_a_page_reads_what_it_answers(tmp_path: Path) -> None:
    parent = "projects/local/locations/us-central1"
    files = CountingFiles(tmp_path, "datasets", Dataset)
    names = [f"{parent}/datasets/{number}" for number in range(30)]
    for name in names:
        files.add(Dataset(name=name, create_time=timestamp()))
    assert [one.name for one in files.below(parent)] == names[::-1]
    files.reads = 0
    read, token = files.page(parent, 10, "")
    assert ([one.name for one in read], files.reads) == (names[:19:-1], 10)
    for one in read:
        files.remove(one.name)
    damaged = tmp_path / "emulator" / "datasets" / "us-central1.19.json"
    damaged.write_text("{")
    read, token = files.page(parent, 20, token)
    assert [one.name for one in read] == names[18::-1] and not token


def test_a_page_of_what_a_filter_lets_through_looks_at_each_file_once(
    http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        made(http, "datasets", displayName=f"sought {number}")
    walks = []
    usual = ResourceFiles._paths

    def counted(files: Any, parent: str) -> Any:
        walks.append(parent)
        return usual(files, parent)

    monkeypatch.setattr(ResourceFiles, "_paths", counted)
    for text, number in (("display_name:sought display_name:0", 1), ('display_name="nothing"', 0)):
        page = http("GET", f"{PARENT}/datasets?pageSize=1&filter={quote(text)}").document
        assert (len(page.get("datasets", ())), len(walks)) == (number, 1), page
        walks.clear()


def test_who_removes_what_a_page_has_listed_finds_the_rest_on_the_next(http: Http) -> None:
    names = [made(http, "datasets", displayName=f"paged {number}")["name"] for number in range(7)]
    found, token = list[str](), ""
    while True:
        query = f"?pageSize=2&pageToken={token}&filter={quote('display_name:paged NOT display_name:3')}"
        page = http("GET", f"{PARENT}/datasets{query}").document
        found += [one["name"] for one in page.get("datasets", ())]
        for one in page.get("datasets", ()):
            assert http("DELETE", f"/v1/{one['name']}").status == 200
        if not (token := page.get("nextPageToken", "")):
            break
    assert found == [name for name in names[::-1] if name != names[3]]


def operation_of(http: Http, begun: dict[str, Any]) -> dict[str, Any]:
    """An operation at its end."""
    return dict(http("POST", f"/v1/{begun['name']}:wait?timeout=30s").document)


def test_a_dataset_is_imported_and_exported(http: Http, home: Path) -> None:
    folder = home / "buckets" / "pictures"
    for name in ("a/list.csv", "b/list.csv", "b/more.csv", "b/other.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    dataset = made(http, "datasets", displayName="my/pictures")["name"]
    prefix = {"gcsDestination": {"outputUriPrefix": "gs://pictures/out/"}}
    reply = http("POST", f"/v1/{dataset}:export", {"exportConfig": prefix})
    assert (reply.status, reply.document["error"]["status"]) == (400, "FAILED_PRECONDITION")
    uris = ["gs://pictures/a/list.csv", "gs://pictures/b/*.csv"]
    configs = [{"gcsSource": {"uris": [uri]}, "importSchemaUri": "gs://schema"} for uri in uris]
    assert http("POST", f"/v1/{dataset}:import", {"importConfigs": configs}).document["done"]
    ended = operation_of(http, http("POST", f"/v1/{dataset}:export", {"exportConfig": prefix}).document)
    files = ended["response"]["exportedFiles"]
    assert all(file.startswith("gs://pictures/out/export-data-my_pictures-") for file in files)
    contents = [(home / "buckets" / file.removeprefix("gs://")).read_text() for file in files]
    assert contents == ["a/list.csv", "b/list.csv", "b/more.csv"]
    configs = [{"gcsSource": {"uris": ["gs://pictures/missing.csv"]}}]
    http("POST", f"/v1/{dataset}:import", {"importConfigs": configs})
    ended = operation_of(http, http("POST", f"/v1/{dataset}:export", {"exportConfig": prefix}).document)
    assert ended["error"]["message"] == "gs://pictures/missing.csv cannot be read: No such file or directory."


@pytest.mark.parametrize(
    ("config", "status"),
    [
        (None, 400),
        ({}, 400),
        ({"gcsDestination": {"outputUriPrefix": "/tmp"}}, 400),
        ({"gcsDestination": {"outputUriPrefix": "gs://b"}, "annotationsFilter": "x"}, 405),
    ],
)
def test_exports_that_are_refused(http: Http, config: Any, status: int) -> None:
    dataset = made(http, "datasets")["name"]
    assert http("POST", f"/v1/{dataset}:export", {"exportConfig": config}).status == status


def test_a_pipeline_reads_a_dataset_by_its_id(http: Http, home: Path) -> None:
    folder = home / "buckets" / "tables"
    folder.mkdir(parents=True)
    (folder / "data.csv").write_text("a,b\n" + "1,2\n" * 20)
    metadata = {"inputConfig": {"gcsSource": {"uri": ["gs://tables/data.csv"]}}}
    dataset = made(http, "datasets", metadata=metadata)["name"].rpartition("/")[2]
    task = {
        "workerPoolSpecs": [
            {
                "machineSpec": {"machineType": "n1-standard-4"},
                "replicaCount": 1,
                "pythonPackageSpec": {"executorImageUri": IMAGE, "pythonModule": "this", "packageUris": []},
            }
        ]
    }
    pipeline = {
        "displayName": "reads",
        "trainingTaskDefinition": "gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml",
        "trainingTaskInputs": task,
        "inputDataConfig": {
            "datasetId": dataset,
            "gcsDestination": {"outputUriPrefix": "gs://tables/out"},
        },
    }
    begun = http("POST", f"{PARENT}/trainingPipelines", pipeline)
    assert begun.status == 200, begun.body
    found: dict[str, Any] = {}

    def has_ended() -> bool:
        found.update(http("GET", f"/v1/{begun.document['name']}").document)
        return "endTime" in found

    wait_until(has_ended)
    assert found["state"] == "PIPELINE_STATE_SUCCEEDED", found
    assert found["inputDataConfig"]["datasetId"] == "gs://tables/data.csv"


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        [1],
        {"inputConfig": 3},
        {"inputConfig": {"gcsSource": {"uri": []}}},
        {"inputConfig": {"gcsSource": {"uri": ["gs://tables/a.csv", "gs://tables/b.csv"]}}},
    ],
)
def test_a_pipeline_reads_one_place(http: Http, metadata: Any) -> None:
    dataset = made(http, "datasets", metadata=metadata)["name"]
    config = {"datasetId": dataset.rpartition("/")[2]}
    reply = http("POST", f"{PARENT}/trainingPipelines", {"displayName": "x", "inputDataConfig": config})
    assert reply.status == 400 and "does not name one place" in reply.document["error"]["message"]


def test_imported_data_are_where_they_were(http: Http) -> None:
    name = made(http, "datasets")["name"]
    body = {"importConfigs": [{"gcsSource": {"uris": ["gs://tables/data.jsonl"]}}]}
    assert http("POST", f"/v1/{name}:import", body).document["done"]
    assert http("GET", f"/v1/{name}").document["metadata"] == {
        "inputConfig": {"gcsSource": {"uri": ["gs://tables/data.jsonl"]}}
    }
    for odd in ({"importConfigs": 1}, {"importConfigs": [1]}, {"importConfigs": [{"gcsSource": "x"}]}):
        assert http("POST", f"/v1/{name}:import", odd).status == 400


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b'{"name": "pro', b'{"displayName": "\xff"}', b"[" * 100_000, b'{"name": "other"}'],
    ids=["empty", "nameless", "cut", "no UTF-8", "deep", "another's"],
)
@pytest.mark.parametrize("collection", ["datasets", "batchPredictionJobs", "endpoints"])
def test_a_damaged_file_hides_no_other_resource(
    http: Http, home: Path, collection: str, content: bytes
) -> None:
    if collection == "datasets":
        made(http, collection)
    before = http("GET", f"{PARENT}/{collection}").document
    file = home / "emulator" / collection / "us-central1.damaged.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    try:
        found = http("GET", f"{PARENT}/{collection}")
        assert (found.status, found.document) == (200, before)
        reply = http("GET", f"{PARENT}/{collection}/damaged")
        assert (reply.status, f"{file} is damaged" in reply.document["error"]["message"]) == (500, True)
    finally:
        file.unlink()


def test_a_resource_that_cannot_be_removed(http: Http, home: Path) -> None:
    file = home / "emulator" / "datasets" / "us-central1.folder.json"
    file.mkdir(parents=True)
    reply = http("DELETE", f"{PARENT}/datasets/folder")
    file.rmdir()
    assert f"{file} cannot be removed" in reply.document["error"]["message"]
    assert http("GET", f"{PARENT}/datasets").status == 200


def test_what_a_kill_has_left_of_a_removed_resource_does_not_come_back(http: Http, home: Path) -> None:
    def make(parent: str, **fields: str) -> str:
        reply = http("POST", parent, {"displayName": "first", **fields})
        assert reply.status == 200, reply.body
        return str((reply.document.get("response") or reply.document)["name"])

    experiments = f"/v1/{make(f'{PARENT}/tensorboards')}/experiments"
    run = make(f"/v1/{make(f'{experiments}?tensorboardExperimentId=one')}/runs?tensorboardRunId=one")
    (file,) = (home / "emulator" / "tensorboards").glob("*/experiments/one.json")
    file.unlink()  # as a removal does first
    assert http("GET", f"/v1/{run}").status == 200
    make(f"{experiments}?tensorboardExperimentId=one")
    assert http("GET", f"/v1/{run}").status == 404
    assert http("GET", f"{experiments}/one/runs").document == {}
