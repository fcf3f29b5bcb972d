"""Google's client library: its own client makes the same requests, and no command waits for its import."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import pytest
from google.auth.credentials import AnonymousCredentials
from lib.vertex_jobs import CLUSTER, CUSTOM_JOB, PARENT, TUNING_JOB
from lib.vertex_service import Request, VertexService

from vtrain.backends import Query
from vtrain.backends.vertex.api import NOUNS
from vtrain.backends.vertex.vertex_backend import VertexBackend
from vtrain.backends.vertex.vertex_plan import library_has_fields
from vtrain.errors import UnavailableError
from vtrain.messages.codec import to_document
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.names import parse_name
from vtrain.messages.persistent_resource import PersistentResource

JOB = f"{PARENT}/customJobs/1"
TUNING = f"{PARENT}/hyperparameterTuningJobs/1"
PIPELINE = f"{PARENT}/trainingPipelines/1"
JOBS = (JOB, TUNING, PIPELINE)
QUERY: dict[str, Any] = {"project": "demo", "page_size": 7, "page_token": "3", "labels": {"a": "b c"}}
RESOURCE = f"{PARENT}/persistentResources/c"
SERVICES = {JOB: "job", TUNING: "job", PIPELINE: "pipeline", RESOURCE: "persistent_resource"}


def library_client(url: str, service: str) -> Any:
    """The library's client of a service, over HTTP and without credentials."""
    name = f"{service}_service"
    prefix = "".join(word.capitalize() for word in name.split("_"))
    module = import_module(f"google.cloud.aiplatform_v1.services.{name}")
    rest = import_module(f"google.cloud.aiplatform_v1.services.{name}.transports.rest")
    transport = getattr(rest, f"{prefix}RestTransport")(
        host=url.rstrip("/"), credentials=AnonymousCredentials()
    )
    return getattr(module, f"{prefix}Client")(transport=transport)


def words(noun: str) -> str:
    """`custom_job` of `CustomJob`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in noun).lstrip("_")


class Case(NamedTuple):
    """One verb on one resource: the fields of the library's request, and what the backend is asked."""

    name: str
    verb: str
    ours: Callable[[VertexBackend], object]
    document: CustomJob | HyperparameterTuningJob | PersistentResource | None = None
    more: dict[str, Any] | None = None

    def noun(self) -> str:
        full = parse_name(self.name)
        assert full is not None
        return NOUNS[full.collection]

    def fields(self) -> dict[str, Any]:
        """The request as the library takes it."""
        if self.document is None:
            return {"parent": PARENT, **(self.more or {})} if self.verb == "list" else {"name": self.name}
        message = message_of(self.noun(), to_document(self.document))
        return {"parent": PARENT, words(self.noun()): message, **(self.more or {})}


def message_of(noun: str, document: Any) -> Any:
    """The library's message of a document."""
    message = getattr(import_module("google.cloud.aiplatform_v1"), noun)
    return message.from_json(json.dumps(document), ignore_unknown_fields=False)


PAGE = {"page_size": 7, "page_token": "3", "filter": 'labels.a="b c"'}
CASES = [
    Case(JOB, "create", lambda b: b.submit(b.plan(CUSTOM_JOB)), CUSTOM_JOB),
    Case(TUNING, "create", lambda b: b.submit(b.plan(TUNING_JOB)), TUNING_JOB),
    Case(
        RESOURCE,
        "create",
        lambda b: b.create_resource("c", CLUSTER, {}),
        CLUSTER,
        {"persistent_resource_id": "c"},
    ),
    Case(RESOURCE, "get", lambda b: b.get_resource(RESOURCE)),
    Case(RESOURCE, "reboot", lambda b: b.reboot_resource(RESOURCE)),
    Case(RESOURCE, "delete", lambda b: b.delete_resource(RESOURCE)),
    *(Case(name, "get", lambda b, n=name: b.get(n)) for name in JOBS),
    *(Case(name, "cancel", lambda b, n=name: b.cancel(n)) for name in JOBS),
    *(Case(name, "delete", lambda b, n=name: b.delete(n)) for name in JOBS),
    *(
        Case(name, "list", lambda b, n=name: b.list(Query(collection=n.split("/")[-2], **QUERY)), more=PAGE)
        for name in JOBS
    ),
]


def test_the_library_makes_the_same_requests(vertex: VertexService, backend: VertexBackend) -> None:
    """One test, because the library takes seconds to import."""
    vertex.polls_until_done = 1  # the library cannot read an operation's response without its type
    clients = {service: library_client(vertex.url, service) for service in set(SERVICES.values())}
    for case in CASES:
        client, plural = clients[SERVICES[case.name]], "s" if case.verb == "list" else ""
        method = getattr(client, f"{case.verb}_{words(case.noun())}{plural}")
        sent: list[Request] = []
        fields = case.fields()
        for is_ours in (False, True):
            vertex.resources.clear()
            vertex.requests.clear()
            if case.verb != "create":
                state = "JOB_STATE_SUCCEEDED" if case.verb == "delete" else "JOB_STATE_RUNNING"
                vertex.put(case.name, state="RUNNING" if case.name == RESOURCE else state)
            case.ours(backend) if is_ours else method(request=fields, retry=None, timeout=60)
            sent.append(vertex.requests[0])
        assert described(sent[1], case) == described(sent[0], case)


def described(request: Request, case: Case) -> tuple[Any, ...]:
    """A request, but for the form in which enums are asked for; a body as the library's message."""
    query = {name: value for name, value in request.query.items() if name not in ("alt", "$alt")}
    body = message_of(case.noun(), request.body) if case.document is not None else request.body
    return request.method, request.path, query, body


def run(code: str) -> str:
    """The output of a fresh interpreter."""
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_plan_imports_nothing_of_google_and_a_request_no_client_library(vertex: VertexService) -> None:
    """The library takes seconds to import, google-auth a fraction of one."""
    vertex.put(JOB, state="JOB_STATE_RUNNING")
    run(f"""
        import pathlib, sys
        from vtrain.backends import BackendSettings
        from vtrain.backends.registry import open_backend
        from vtrain.messages.custom_job import CustomJob
        b = open_backend("vertex", BackendSettings(home=pathlib.Path("."), project="p", region="us-central1"))
        b.plan(CustomJob(display_name="x"))
        assert not [m for m in sys.modules if m == "requests" or m.startswith("google.auth")]
        assert b.get({JOB!r}).name == {JOB!r}
        heavy = ("google.cloud.", "google.api_core", "grpc", "proto", "google.protobuf")
        assert not [m for m in sys.modules if m.startswith(heavy)], sorted(sys.modules)
    """)


def test_without_the_extra_the_way_to_get_it_is_told() -> None:
    run("""
        import pathlib, sys
        from vtrain.backends import BackendSettings
        from vtrain.backends.registry import open_backend
        from vtrain.errors import UnavailableError
        class Hidden:
            def find_spec(self, name, path=None, target=None):
                if name.startswith("google"):
                    raise ModuleNotFoundError(name)
        sys.meta_path.insert(0, Hidden())
        try:
            open_backend("vertex", BackendSettings(home=pathlib.Path("."), project="p", region="us-central1"))
        except UnavailableError as error:
            assert "pip install " in error.hint and "google-cloud-aiplatform" in error.hint
            assert "--backend=local" in error.hint
        else:
            raise AssertionError("no error")
    """)


def test_a_field_that_only_the_library_can_judge_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """google-auth alone comes with many other packages."""
    monkeypatch.setitem(sys.modules, "google.cloud.aiplatform_v1", None)
    with pytest.raises(UnavailableError, match="google-cloud-aiplatform, which is not installed") as told:
        library_has_fields("CustomJob", {"newField": 1}, "v1")
    assert "pip install" in told.value.hint
