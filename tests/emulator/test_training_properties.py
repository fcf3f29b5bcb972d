"""Whatever a client sends, the emulator answers: with the resource, or with a refusal, and never with 500."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lib.job_strategies import valid_jobs
from lib.storage_service import Http

from vtrain.emulator.vertex.documents import masked, read_body, with_enum_numbers, with_project
from vtrain.emulator.vertex.filters import read_filter
from vtrain.emulator.vertex.vertex_refusals import VertexRefusal
from vtrain.messages.codec import fields, to_document
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.resources import RESOURCES

ONE_CONNECTION = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

COLLECTIONS = tuple(RESOURCES)
WORDS = st.one_of(
    st.sampled_from(
        (*COLLECTIONS, "operations", "1", "a@2", "..", ".", "", "projects", "locations", "local")
    ),
    st.text(max_size=12),
)
ACTIONS = st.sampled_from(("", ":cancel", ":reboot", ":upload", ":copy", ":wait", ":listVersions", ":x", ":"))
FIELDS = st.sampled_from(
    "displayName display_name jobSpec workerPoolSpecs machineSpec replicaCount labels studySpec trialJobSpec "
    "parameters metrics goal model modelToUpload resourcePools trainingTaskInputs trainingTaskDefinition "
    "filter pageSize pageToken sourceModel env".split()
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(FIELDS, st.text(max_size=8)), inner, max_size=5),
    ),
    max_leaves=20,
)
QUERIES = st.dictionaries(
    st.sampled_from(
        ("filter", "pageSize", "pageToken", "orderBy", "readMask", "$alt", "persistentResourceId")
    ),
    st.text(max_size=30),
    max_size=3,
)


@given(
    st.sampled_from(("GET", "POST", "DELETE", "PATCH", "PUT")),
    st.sampled_from(
        ("/v1/projects/p/locations/l/", "/v1beta1/projects/p/locations/-/", "/ui/", "/v1/", "/v2/")
    ),
    st.lists(WORDS, max_size=4),
    ACTIONS,
    QUERIES,
    JSON,
)
@ONE_CONNECTION
def test_no_request_is_answered_with_500(
    http: Http, verb: str, prefix: str, words: list[str], action: str, query: dict[str, str], body: Any
) -> None:
    parameters = "&".join(f"{quote(key)}={quote(value)}" for key, value in query.items())
    path = prefix + "/".join(quote(word, safe="") for word in words) + action
    reply = http(verb, f"{path}?{parameters}", json.dumps(body).encode())
    assert reply.status < 500, reply.body
    assert isinstance(reply.document, dict)


@given(st.sampled_from(COLLECTIONS), JSON)
@ONE_CONNECTION
def test_no_body_is_answered_with_500(http: Http, collection: str, body: Any) -> None:
    end = ":upload" if collection == "models" else "?persistentResourceId=a"
    reply = http("POST", f"/v1/projects/p/locations/l/{collection}{end}", json.dumps(body).encode())
    assert reply.status < 500, reply.body


@given(JSON)
@ONE_CONNECTION
def test_no_question_about_logs_is_answered_with_500(http: Http, body: Any) -> None:
    reply = http("POST", "/v2/entries:list", json.dumps(body).encode())
    assert reply.status < 500, reply.body


@given(st.text(max_size=200))
def test_a_filter_is_read_or_refused(text: str) -> None:
    try:
        test = read_filter(text)
    except VertexRefusal as refusal:
        assert refusal.status == "INVALID_ARGUMENT"
    else:
        assert test({"displayName": "a", "labels": {}, "state": "x"}) in (True, False)


@given(st.text(min_size=1, max_size=40))
def test_a_name_is_found_by_its_filter(name: str) -> None:
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    test = read_filter(f'display_name="{quoted}"')
    assert test({"displayName": name}) and not test({"displayName": name + "x"})


def with_known_enums(cls: Any, document: dict[str, Any]) -> dict[str, Any]:
    """The document with names of the API in its enums."""
    made = dict(document)
    for name, field in fields(cls).items():
        if field.enum and name in made:
            names = [each for number, each in field.enum.items() if number]
            made[name] = names[len(made[name]) % len(names)]
        elif field.message is not None and name in made:
            items = made[name] if field.repeated else [made[name]]
            cleaned = [with_known_enums(field.message, item) for item in items]
            made[name] = cleaned if field.repeated else cleaned[0]
    return made


@given(valid_jobs())
def test_a_job_is_the_same_in_every_spelling(job: CustomJob) -> None:
    document = with_known_enums(CustomJob, to_document(job))
    read = read_body(CustomJob, document, "custom_job")
    assert to_document(read) == document
    numbers = with_enum_numbers(CustomJob, to_document(read))
    assert read_body(CustomJob, numbers, "custom_job") == read
    assert with_project(with_project(document, "a", only="none"), "b", only="none") == document


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.text(max_size=20))
def test_a_mask_takes_nothing_that_is_not_there(document: dict[str, Any], mask: str) -> None:
    assert set(masked(document, mask)) <= set(document)
