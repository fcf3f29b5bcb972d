"""Messages and names: what is written is read again, in every way; anything else is refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lib.job_strategies import messages

from vtrain.containers.image_names import read_image_name
from vtrain.core.config_file import read_config
from vtrain.errors import ConfigError, UsageError
from vtrain.messages.codec import fields, from_document, read_message, to_document
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.model import Model
from vtrain.messages.names import ResourceName, parse_name, resolve_name
from vtrain.messages.nearest import did_you_mean, nearest
from vtrain.messages.paths import assign
from vtrain.messages.persistent_resource import PersistentResource
from vtrain.messages.rules import check_formats, check_job
from vtrain.messages.service_documents import canonical_document, split_unknown
from vtrain.messages.training_pipeline import TrainingPipeline
from vtrain.messages.yaml_reader import load_entries, load_yaml
from vtrain.output.language.yaml_writer import dump_yaml
from vtrain.staging.uris import file_uri, join_uri, split_object, split_uri
from vtrain.times import epoch, format_duration, from_epoch, parse_duration, parse_instant, parse_timestamp

KINDS = [CustomJob, HyperparameterTuningJob, Model, PersistentResource, TrainingPipeline]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCALARS, inner, max_size=3),
    max_leaves=8,
)
EVERY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@pytest.mark.parametrize("kind", KINDS)
@EVERY
@given(data=st.data())
def test_a_message_comes_back_from_json_and_yaml(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    message = data.draw(messages(kind))
    document = to_document(message)
    for written in (json.loads(json.dumps(document)), load_yaml(dump_yaml(document), "the test")):
        assert read_message(kind, written) == message
        assert from_document(kind, written) == message
        assert canonical_document(kind, written) == document
        assert split_unknown(kind, written) == (document, {})


@pytest.mark.parametrize("kind", KINDS)
@EVERY
@given(data=st.data())
def test_any_document_is_a_message_or_refused(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    document = data.draw(misshapen(kind))
    try:
        message = read_message(kind, document)
    except ConfigError as refusal:
        assert refusal.message.endswith(".")
        return
    assert read_message(kind, to_document(message)) == message


def misshapen(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Documents in which most names are right, and most values are not."""
    known = fields(kind)

    def value(name: str) -> st.SearchStrategy[Any]:
        below = known[name].message if name in known else None
        return ANYTHING | (st.deferred(lambda: misshapen(below)) if below else st.nothing())

    names = st.lists(st.sampled_from(sorted(known)) | SCALARS, max_size=3, unique_by=repr)
    return names.flatmap(
        lambda chosen: st.fixed_dictionaries({name: value(name) for name in chosen if name == name})
    )


@EVERY
@given(messages(CustomJob))
def test_any_job_keeps_the_rules_or_is_refused(job: CustomJob) -> None:
    try:
        check_job(job, executor_required=False)
        check_formats(job)
    except ConfigError as refusal:
        assert refusal.message.endswith(".")


@given(st.text("{}[]:-,&*!|>'\"%@`#? \n\tab01.~<=_é", max_size=40) | TEXT)
def test_any_text_is_yaml_or_refused(text: str) -> None:
    for load in (load_yaml, load_entries):
        try:
            load(text, "the test")
        except ConfigError as refusal:
            assert refusal.message.startswith("the test")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(content=st.binary(max_size=30) | st.text("{}:- ab\n", max_size=20).map(str.encode))
def test_any_file_is_a_config_or_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(content)
    try:
        found = read_config(str(file), "a job")
    except ConfigError as refusal:
        assert str(file) in refusal.message
        return
    assert isinstance(found.content, dict)


# --set

STEPS = st.sampled_from(
    "jobSpec workerPoolSpecs[0] workerPoolSpecs[1] workerPoolSpecs machineSpec machineType containerSpec "
    "args args[0] env[0] name value labels labels.a scheduling timeout replicaCount displayName state [0] "
    "x[99999999999] encryptionSpec kmsKeyName network enableWebAccess".split()
)
PATHS = st.lists(STEPS, min_size=1, max_size=5).map(".".join)


@given(
    st.lists(
        st.tuples(PATHS | TEXT, TEXT | st.sampled_from(["1", "true", "[a, b]", "{a: 1}", "{", "~"])),
        max_size=4,
    )
)
def test_any_assignment_is_made_or_refused(assignments: list[tuple[str, str]]) -> None:
    document: dict[str, Any] = {}
    for path, value in assignments:
        try:
            assign(document, f"{path}={value}")
        except (ConfigError, UsageError) as refusal:
            assert refusal.message.startswith("--set")
            return
    try:
        read_message(CustomJob, document)
    except ConfigError as refusal:
        assert refusal.message.endswith(".")


@given(TEXT, TEXT)
def test_a_field_of_text_is_what_was_given(name: str, value: str) -> None:
    document: dict[str, Any] = {}
    assign(document, f"displayName={name}")
    assign(document, f"workerPoolSpecs[0].containerSpec.args[0]={value}")
    job = read_message(CustomJob, document)
    container = job.job_spec.worker_pool_specs[0].container_spec
    assert container is not None
    assert (job.display_name, container.args) == (name, (value,))


# names

PARTS = st.from_regex(r"[^/\s\x00-\x1f\x7f]{1,12}", fullmatch=True)


@given(PARTS, PARTS, PARTS, PARTS)
def test_a_full_name_comes_back(project: str, location: str, collection: str, own: str) -> None:
    name = ResourceName(project=project, location=location, collection=collection, id=own)
    assert parse_name(str(name)) == name
    assert parse_name(f"https://us-central1-aiplatform.googleapis.com/v1/{name}") == name


@given(TEXT | st.lists(st.sampled_from(["projects", "locations", "customJobs", "p", "", "1"])).map("/".join))
def test_any_text_names_a_job_or_is_refused(text: str) -> None:
    try:
        name = resolve_name(text, project="p", location="l", collection="customJobs")
    except ConfigError as refusal:
        assert refusal.hint
        return
    assert parse_name(str(name)) == name
    assert name.collection == "customJobs"


@given(TEXT, st.lists(TEXT, max_size=6))
def test_the_nearest_of_names_is_one_of_them(word: str, names: list[str]) -> None:
    assert nearest(word, names) in ("", *names)
    assert not names or word not in names or nearest(word, names) == word or "" in (word, *names)
    assert did_you_mean(word, names, otherwise="Nothing.")


@given(TEXT | st.text("gs:/file.a0-_%", max_size=20))
def test_any_text_is_a_uri_or_refused(text: str) -> None:
    for read in (split_uri, split_object):
        try:
            first, rest = read(text)
        except ConfigError as refusal:
            assert refusal.message.endswith((".", "…"))
        else:
            assert isinstance(first + rest, str)


@given(
    st.lists(
        st.text(
            st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=8
        ).filter(lambda part: part.strip("."))
    )
)
def test_the_uri_of_a_path_leads_back(parts: list[str]) -> None:
    path = Path("/", *parts)
    assert split_uri(file_uri(path)) == ("file", str(path))
    assert split_uri(join_uri("gs://bucket/", "a", "b")) == ("gs", "bucket/a/b")


REPOSITORIES = st.from_regex(
    r"([a-z0-9]{1,8}(\.[a-z]{2,3}|:[0-9]{2,4})/)?[a-z0-9]{1,6}([._-][a-z0-9]{1,4})?(/[a-z0-9]{1,5})?",
    fullmatch=True,
)


@given(REPOSITORIES, st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,10}|", fullmatch=True), st.booleans())
def test_the_parts_of_an_images_name_come_back(repository: str, tag: str, pinned: bool) -> None:
    digest = "sha256:" + "0123abcd" * 8 if pinned else ""
    text = repository + (f":{tag}" if tag else "") + (f"@{digest}" if digest else "")
    found = read_image_name(text)
    assert (found.repository, found.tag, found.digest) == (repository, tag, digest)


# instants


@given(st.integers(0, 4_000_000_000_000_000))
def test_an_instant_comes_back_to_the_microsecond(micros: int) -> None:
    written = from_epoch(micros / 1_000_000)
    assert abs(epoch(written) - micros / 1_000_000) < 2e-6
    parsed = parse_timestamp(written)
    assert parsed is not None
    assert abs(parsed.timestamp() - epoch(written)) < 1e-6


@given(st.integers(-(10**12), 10**12).filter(bool))  # gcloud writes P0 for nothing, and does not read it
def test_a_duration_comes_back_to_the_millisecond(millis: int) -> None:
    written = format_duration(millis / 1000, parts=5)
    read = parse_duration(written)
    assert read is not None
    assert abs(read - millis / 1000) < 1e-3


@given(TEXT | st.text("-+PTYMWDHSZ0123456789:.,s ", max_size=24))
def test_any_text_is_an_instant_or_none(text: str) -> None:
    from datetime import datetime, timezone

    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert isinstance(parse_timestamp(text), datetime | None)
    assert isinstance(parse_duration(text), float | None)
    found = parse_instant(text, now)
    assert found is None or found.tzinfo is not None
