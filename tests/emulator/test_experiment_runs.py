"""The runs of experiments that an emulator keeps, as other commands read them from its files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lib.emulator_service import emulator_service
from lib.storage_service import Http

from vtrain.runtime.experiments import ExperimentRun, experiment_runs

PARENT = "/v1/projects/demo/locations/us-central1"
CONTEXTS = f"{PARENT}/metadataStores/default/contexts"


@pytest.fixture
def stored(vtrain_home: Path) -> Iterator[Http]:
    """Requests by hand to an emulator in the home of the commands, with a store of metadata."""
    with emulator_service(vtrain_home) as url:
        made = Http(url)
        post(made, f"{PARENT}/metadataStores?metadataStoreId=default", {})
        yield made
        made.connection.close()


def post(http: Http, path: str, body: Any) -> Any:
    reply = http("POST", path, body)
    assert reply.status == 200, reply.body
    return reply.document


def add_run(stored: Http, own_id: str, experiment: str, **logged: Any) -> None:
    fields = {"schemaTitle": "system.ExperimentRun", "displayName": own_id, "metadata": logged}
    run = post(stored, f"{CONTEXTS}?contextId={experiment}-{own_id}", fields)["name"]
    children = {"childContexts": [run]}
    post(stored, f"{CONTEXTS}/{experiment}:addContextChildren", children)


def test_runs_are_read_as_they_were_logged(stored: Http, vtrain_home: Path) -> None:
    post(stored, f"{CONTEXTS}?contextId=digits", {"schemaTitle": "system.Experiment"})
    add_run(stored, "a", "digits", _params={"lr": 0.1}, _metrics={"accuracy": 0.9}, _state="COMPLETE")
    add_run(stored, "b", "digits")
    newest, first = experiment_runs(vtrain_home, 10)
    assert (newest.display_name, newest.args, newest.metrics) == ("b", {}, {})
    assert first == ExperimentRun(
        name="projects/local/locations/us-central1/metadataStores/default/contexts/digits-a",
        experiment="digits",
        display_name="a",
        state="COMPLETE",
        create_time=first.create_time,
        args={"lr": 0.1},
        metrics={"accuracy": 0.9},
    )


def test_a_series_counts_with_its_last_number(stored: Http, vtrain_home: Path) -> None:
    post(stored, f"{CONTEXTS}?contextId=digits", {"schemaTitle": "system.Experiment"})
    add_run(stored, "a", "digits", _metrics={"accuracy": 0.9})
    board = post(stored, f"{PARENT}/tensorboards", {"displayName": "board"})["response"]["name"]
    post(stored, f"/v1/{board}/experiments?tensorboardExperimentId=digits", {})
    runs = f"/v1/{board}/experiments/digits/runs"
    post(stored, f"{runs}?tensorboardRunId=a", {"displayName": "a"})
    for name, values in {"loss": [2, 1, 0.5], "accuracy": [0.1], "odd": ["NaN"], "empty": []}.items():
        series = {"displayName": name, "valueType": "SCALAR"}
        made = post(stored, f"{runs}/a/timeSeries", series)["name"].rpartition("/")[2]
        points = [
            {"step": str(step), "wallTime": "2026-11-01T10:00:00Z", "scalar": {"value": value}}
            for step, value in enumerate(values)
        ]
        data = {"tensorboardTimeSeriesId": made, "valueType": "SCALAR", "values": points}
        post(stored, f"{runs}/a:write", {"timeSeriesData": [data]})
    (run,) = experiment_runs(vtrain_home, 10)
    assert run.metrics == {"loss": 0.5, "accuracy": 0.9}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '"\xff"',
        "[]",
        '{"schemaTitle": "system.ExperimentRun", "metadata": []}',
        '{"schemaTitle": 1}',
        '{"schemaTitle": "system.Experiment"}',
    ],
)
def test_a_damaged_run_hides_no_other(stored: Http, vtrain_home: Path, text: str) -> None:
    post(stored, f"{CONTEXTS}?contextId=digits", {})
    add_run(stored, "a", "digits", _params="x", _metrics=[1])
    folder = vtrain_home / "emulator" / "metadataStores" / "us-central1.default" / "contexts"
    (folder / "digits-b.json").write_text(text, encoding="latin-1")
    assert [(run.display_name, run.args, run.metrics) for run in experiment_runs(vtrain_home, 10)] == [
        ("a", {}, {})
    ]


def test_only_so_many_are_read(stored: Http, vtrain_home: Path) -> None:
    assert experiment_runs(vtrain_home / "nowhere", 10) == []
    post(stored, f"{CONTEXTS}?contextId=digits", {})
    for own_id in "abc":
        add_run(stored, own_id, "digits")
    assert [run.display_name for run in experiment_runs(vtrain_home, 2)] == ["c", "b"]
