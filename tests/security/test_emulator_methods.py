"""The attack list against every method of the emulator's API, from its table: names, bodies, Host, Origin."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from lib.api_methods import EMULATED, full_name
from lib.api_methods import ROWS as ALL
from lib.emulator_service import emulator_service
from lib.storage_service import Http, Reply

pytest.importorskip("starlette", reason="needs the extra emulator")

from vtrain.emulator.storage.guard import Admission, new_token
from vtrain.emulator.vertex.vertex_call import OPERATIONS, WHOLE, Method
from vtrain.messages.codec import fields

PARENT = "/v1/projects/p/locations/us-central1"
ROWS = [(collection, method) for _, collection, method in ALL]
every_method = pytest.mark.parametrize(
    ("collection", "method"), ROWS, ids=[f"{collection}-{method.rpc}" for collection, method in ROWS]
)
NAMES = (
    *("..", ".", "%2e%2e", "a%2Fb", "..%2F..%2Fetc%2Fpasswd", "%00", "a%0Ab", "%ff", "a" * 5000, "*", "-"),
    *(quote(text) for text in ("\u202ea", "$(id)", "a;b", "a b", "'", "\x1b[2J", "@default", "1@../x")),
)
NO_OBJECTS = (b"[]", b"1", b'"x"', b"{", b"\xff", b"[" * 100_000, b'{"a":' * 100_000, b'{"a": 1e400}')
VALUES = (
    *("9" * 310, "-1", "1e308", "true", "[]", "[[]]", "[null]", "{}", '{"": {}}', '"\\ud800"', '"../../x"'),
    *('"\\u0000"', '"gs://../x"', '"/etc/passwd"', '[{"name": "../x"}]', json.dumps("x" * 100_000)),
)
MADE = {
    "tensorboards": "",
    "tensorboards/*/experiments": "tensorboardExperimentId=own",
    "tensorboards/*/experiments/*/runs": "tensorboardRunId=own",
    "tensorboards/*/experiments/*/runs/*/timeSeries": "",
    "datasets": "",
    "metadataStores": "metadataStoreId=own",
    "metadataStores/*/contexts": "contextId=own",
    "metadataStores/*/executions": "executionId=own",
    "metadataStores/*/artifacts": "artifactId=own",
    "endpoints": "endpointId=own",
}
"""What there is one of, with the query that makes it."""
BODY = {
    "displayName": "own",
    "schemaTitle": "system.Experiment",
    "metadataSchemaUri": "gs://a/b",
    "metadata": {},
    "valueType": "SCALAR",
}

_ID = "[a-z0-9][a-z0-9_-]{0,127}"
_RESOURCE = rf"us-central1\.{_ID}(/[A-Za-z]+(/{_ID})?)*(\.json)?|\.[A-Za-z]+\.lock"
EXPECTED = re.compile(rf"home(/emulator(/[A-Za-z]+(/({_RESOURCE}))?)?|/(?!emulator).*)?")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("attacked") / "home"


@pytest.fixture(scope="module")
def http(home: Path) -> Iterator[Http]:
    with emulator_service(home) as url:
        made = Http(url)
        yield made
        made.connection.close()


@pytest.fixture(scope="module")
def ids(http: Http) -> dict[str, str]:
    """The id of a resource of each of those collections."""
    found: dict[str, str] = {}
    for collection, query in MADE.items():
        known = fields(EMULATED[collection])
        body = {name: value for name, value in BODY.items() if name in known}
        reply = http("POST", f"{PARENT}/{place_of(collection, found)}?{query}", body)
        assert reply.status == 200, (collection, reply.body)
        name = reply.document["response"]["name"] if "response" in reply.document else reply.document["name"]
        found[collection] = name.rpartition("/")[2]
    return found


def place_of(collection: str, ids: dict[str, str], unknown: str = "1") -> str:
    """The path of a collection, with the ids of parents."""
    parts, made = collection.split("/"), list[str]()
    for index, part in enumerate(parts):
        made.append(ids.get("/".join(parts[:index]), unknown) if part == "*" else part)
    return "/".join(made)


def path_of(collection: str, method: Method, ids: dict[str, str], unknown: str = "1") -> str:
    """The path of a method, about a resource that there is, as far as there is one."""
    place = place_of(collection, ids, unknown)
    if not method.path.startswith("*"):
        return f"{PARENT}/{place}{method.path}"
    return f"{PARENT}/{place}/{ids.get(collection, unknown)}{method.path[1:]}"


def refused(reply: Reply, request: object) -> bool:
    """Whether it is a refusal of the API's, in a sentence of bounded length."""
    assert 400 <= reply.status < 500, (request, reply.status, reply.body[:300])
    return 10 < len(reply.document["error"]["message"]) < 3000


@every_method
def test_a_name_is_no_path(http: Http, home: Path, collection: str, method: Method) -> None:
    for name in NAMES:
        path = path_of(collection, method, {}, name)
        reply = http(method.verb, path, b"{}" if method.body else None)
        if method.of_one or "*" in collection:
            assert not any(reply.document.values()) or refused(reply, path)  # a batch of nothing is none
        else:
            assert reply.status < 500, (path, reply.body[:300])
    place = path_of(collection, method, {})
    for name in NAMES:  # of projects and regions
        for whole in (place.replace("us-central1", name), place.replace("/p/", f"/{name}/")):
            reply = http(method.verb, whole, b"{}" if method.body else None)
            assert reply.status < 500, (whole, reply.body[:300])
    assert not strange_files(home)


@every_method
def test_a_body_is_read_or_refused(
    http: Http, home: Path, ids: dict[str, str], collection: str, method: Method
) -> None:
    path = path_of(collection, method, ids)
    if method.verb in ("GET", "DELETE"):
        for field in method.fields:
            for value in ("9" * 310, "-1", "%00", "%ff", "(" * 2000, "..%2Fx", "a" * 20_000):
                reply = http(method.verb, f"{path}?{field}={value}")
                assert reply.status < 500, (field, value[:50], reply.body[:300])
        return
    if method.answer != "HttpBody":
        for body in NO_OBJECTS:
            assert refused(http(method.verb, path, body), body[:50])
    message = EMULATED.get(collection)
    own = () if message is None else tuple(fields(message))
    bodies = method.fields if method.body == WHOLE else own
    for field in bodies:
        for value in VALUES:
            reply = http(method.verb, f"{path}{mask_of(method, field)}", f'{{"{field}": {value}}}'.encode())
            assert reply.status < 500, (field, value[:50], reply.body[:300])
    nested = method.body != WHOLE and method.body
    for field in method.fields if nested else ():
        for value in ("9" * 310, "%00", "%ff", "..%2Fx", "a" * 20_000):
            reply = http(method.verb, f"{path}?{field}={value}", b"{}")
            assert reply.status < 500, (field, value[:50], reply.body[:300])
    assert not strange_files(home)


def mask_of(method: Method, field: str) -> str:
    return f"?updateMask={field}" if "updateMask" in method.fields else ""


@every_method
def test_pages_of_the_web_are_refused(
    http: Http, ids: dict[str, str], home: Path, collection: str, method: Method
) -> None:
    path, before = path_of(collection, method, ids), files(home)
    body = b"{}" if method.body else None
    for headers in (
        {"Host": "example.com"},
        {"Host": "127.0.0.1.example.com"},
        {"Host": "us-central1-aiplatform.googleapis.com.example.com"},
        {"Origin": "https://example.com"},
        {"Origin": "null"},
        {"Origin": http.url},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-origin"},
    ):
        assert http(method.verb, path, body, **headers).status == 403, headers
    assert files(home) == before


def test_nothing_is_answered_without_the_token(tmp_path: Path) -> None:
    token = new_token()
    with emulator_service(tmp_path / "home", admission=Admission(token=token)) as url:
        http = Http(url.replace(f"/{token}", ""))
        for collection, method in ROWS:
            for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic eDp5"}):
                reply = http(method.verb, path_of(collection, method, {}), b"{}", **headers)
                assert reply.status in (401, 403), (method.rpc, reply.status)
        http.connection.close()


def test_over_grpc_a_name_is_no_path(tmp_path: Path) -> None:
    grpc = pytest.importorskip("grpc")
    for library in ("aiplatform_v1", "aiplatform_v1beta1", "resourcemanager_v3"):
        pytest.importorskip(f"google.cloud.{library}")
    from vtrain.emulator.vertex.grpc_server import serving_grpc
    from vtrain.emulator.vertex.training_service import TrainingService

    home = tmp_path / "home"
    service = TrainingService(home, "process")
    start = b"projects/p/locations/us-central1/"
    names = (b"x", b"../../../etc", b"\xff", start + b"endpoints/../x", start + b"a" * 5000, start + b"\0/\0")
    with (
        serving_grpc(service, home, "p", lambda _text: None) as place,
        grpc.insecure_channel(f"unix:{place}") as channel,
    ):
        before = files(tmp_path)
        for name, _, method in ALL:
            call = channel.unary_unary(f"/{full_name(name)}/{method.rpc}")
            for text in names:
                size = [len(text) & 127 | 128, len(text) >> 7] if len(text) > 127 else [len(text)]
                with pytest.raises(grpc.RpcError) as raised:
                    call(b"\x0a" + bytes(size) + text, timeout=60)
                assert raised.value.code() in (
                    grpc.StatusCode.INVALID_ARGUMENT,
                    grpc.StatusCode.NOT_FOUND,
                ), (method.rpc, text[:50], raised.value)
        assert files(tmp_path) == before
    service.close()


def files(folder: Path) -> list[str]:
    """The names of all files below a folder, but those of locks and of the store."""
    found = (str(file.relative_to(folder)) for file in folder.rglob("*"))
    return sorted(name for name in found if not name.endswith((".lock", "-wal", "-shm", ".db")))


def strange_files(home: Path) -> list[str]:
    """What lies beside a home, or in its resources without the name of one."""
    return [name for name in files(home.parent) if not EXPECTED.fullmatch(name)]


def test_every_method_of_the_table_is_attacked() -> None:
    assert {collection for collection, _ in ROWS} == {*EMULATED, OPERATIONS}
