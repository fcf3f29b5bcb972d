"""The page about programs of Google's library: its table of methods, its figures, and its refusals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from lib.emulator_service import emulator_service
from lib.storage_service import Http
from notebook_counts import ANSWERED, CALLED, MISSING, NOTEBOOKS

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "run-your-sdk-program.md"
TEXT = PAGE.read_text(encoding="utf-8")
LOCATION = "/v1/projects/demo/locations/us-central1"
AUTOML = "gs://google-cloud-aiplatform/schema/trainingjob/definition/automl_tabular_1.0.0.yaml"
SOURCE = {"instancesFormat": "bigquery", "bigquerySource": {"inputUri": "bq://a.b.c"}}
TARGET = {"predictionsFormat": "bigquery", "bigqueryDestination": {"outputUri": "bq://a"}}
MODEL = f"{LOCATION[4:]}/models/1"
POOL = {
    "machineSpec": {"machineType": "n1-standard-4"},
    "replicaCount": 1,
    "containerSpec": {"imageUri": "europe-docker.pkg.dev/me/mine"},
}
REFUSED = {
    "endpoints/1:explain": {"instances": []},
    "pipelineJobs": {},
    "featurestores": {},
    "studies": {},
    "models/1:export": {},
    "trainingPipelines": {"displayName": "a", "trainingTaskDefinition": AUTOML, "trainingTaskInputs": {}},
    "endpoints": {"displayName": "a", "dedicatedEndpointEnabled": True},
    "batchPredictionJobs": {
        "displayName": "a",
        "model": MODEL,
        "inputConfig": SOURCE,
        "outputConfig": TARGET,
    },
    "customJobs": {"displayName": "a", "jobSpec": {"workerPoolSpecs": [POOL]}},
}
"""Requests, by what follows the location, that the page says are refused."""


def rows() -> Iterator[str]:
    """The table of the page, as the emulator's table of methods and the notebooks have it."""
    missing = set().union(*MISSING.values())
    for service in sorted({method.partition(".")[0] for method in ANSWERED | CALLED.keys()}):
        own = f"{service}."
        notebooks = sum(any(one.startswith(own) for one in found) for found in NOTEBOOKS.values())
        answered = [method.removeprefix(own) for method in ANSWERED if method.startswith(own)]
        lacking = (f"{each.removeprefix(own)} ({CALLED[each]})" for each in missing if each.startswith(own))
        yield f"| {service} | {notebooks} | {'; '.join(in_short(answered))} | {', '.join(sorted(lacking))} |"


def in_short(methods: list[str]) -> Iterator[str]:
    """Methods by what they are about: `Endpoint: Create, Get`."""
    parts = [
        found.groups()
        for found in map(re.compile(r"((?:Batch)?[A-Z][a-z]+)(\w*)").fullmatch, methods)
        if found
    ]
    nouns = {noun for _, noun in parts}
    verbs: dict[str, list[str]] = {}
    for verb, noun in sorted(parts, key=lambda each: each[::-1]):
        singular = noun.removesuffix("s")
        verbs.setdefault(singular if singular in nouns else noun, []).append(verb)
    for noun, found in verbs.items():
        if noun and len(found) > 1:
            yield f"{noun}: {', '.join(sorted(found))}"
        else:
            yield from (f"{verb}{noun}" for verb in found)


def test_the_table_is_that_of_the_emulator() -> None:
    wanted = list(rows())
    assert [
        line for line in TEXT.splitlines() if re.match(r"\| (?:\w+Service|Operations) \|", line)
    ] == wanted


def test_the_figures_are_those_of_the_notebooks() -> None:
    answered = sum(not missing for missing in MISSING.values())
    assert f"{answered} of {len(NOTEBOOKS)}" in TEXT


def test_what_is_refused_has_the_sentence_of_the_page(tmp_path: Path) -> None:
    with emulator_service(tmp_path / "home") as url:
        http = Http(url)
        for path, body in REFUSED.items():
            reply = http("POST", f"{LOCATION}/{path}", body)
            message = reply.document["error"]["message"]
            assert reply.status in (400, 405) and f"`{message}`" in TEXT, (path, reply.body)
        http.connection.close()
