"""How a stand-in for a Docker engine answers: the part of the Engine API that vtrain speaks."""

from __future__ import annotations

import hashlib
import io
import json
import re
import struct
import tarfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from lib.stand_in_state import NEVER, Build, Message, Refusal, StandInEngine, full_name

POLL_SECONDS = 0.02
OUTPUT = b"a line of the trainer\n"
Query = dict[str, str]


def _messages(*messages: Message) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\r\n" for message in messages)


def _failure(words: str, code: int) -> Message:
    return {"errorDetail": {"code": code, "message": words}, "error": words}


def _ping(_engine: StandInEngine, _query: Query, _body: bytes) -> bytes:
    return b"OK"


def _info(engine: StandInEngine, _query: Query, _body: bytes) -> Message:
    runtimes = {"runc": {}, "nvidia": {}}
    limits = {"MemoryLimit": True, "CpuCfsQuota": True}
    return {"NCPU": 4, "MemTotal": 16 << 30, "Runtimes": runtimes, "Architecture": "x86_64", **limits}


def _pull(engine: StandInEngine, query: Query, _body: bytes) -> bytes:
    tag = query["tag"]
    name = f"{query['fromImage']}{'@' if tag.startswith('sha256:') else ':'}{tag}"
    engine.pulled.append(name)
    engine.add_image(name)
    return _messages({"status": f"Pulling {name}"})


def _build(engine: StandInEngine, query: Query, body: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        files = {entry.name: _content(tar, entry) for entry in tar if entry.isfile()}
    dockerfile = files.pop(query["dockerfile"]).decode()
    labels = json.loads(query.get("labels", "{}"))
    base = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)[0]
    build = Build(query["t"], dockerfile, files, labels, query.get("platform", ""), base)
    engine.builds.append(build)
    steps = [{"stream": f"Step 1/1 : FROM {base}\n"}]
    if code := engine.codes.get("build"):
        words = f"The command '/bin/sh -c pip' returned a non-zero code: {code}"
        return _messages(*steps, _failure(words, code))
    entry = re.findall(r"^ENTRYPOINT (.*)$", dockerfile, re.MULTILINE)
    config = {"Labels": labels, "Entrypoint": json.loads(entry[-1]) if entry else None}
    made = engine.add_image(build.name, config=config, architecture=engine.built_for)
    return _messages(*steps, {"aux": {"ID": made["Id"]}}, {"stream": "Successfully built\n"})


def _content(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(entry)
    assert file is not None
    return file.read()


def _list_images(engine: StandInEngine, query: Query, _body: bytes) -> list[Message]:
    wanted = json.loads(query.get("filters", "{}")).get("label", [])
    return [
        {**image, "Labels": image["Config"]["Labels"], "Created": 0}
        for image in engine.images.values()
        if _bears(image["Config"]["Labels"], wanted)
    ]


def _bears(labels: dict[str, str], wanted: list[str]) -> bool:
    pairs = [entry.partition("=") for entry in wanted]
    return all(key in labels and (not mark or labels[key] == value) for key, mark, value in pairs)


def _tag(engine: StandInEngine, query: Query, _body: bytes, name: str) -> bytes:
    engine.name(engine.image(name), f"{query['repo']}:{query['tag']}")
    return b""


def _push(engine: StandInEngine, query: Query, _body: bytes, repository: str) -> bytes:
    name = f"{repository}:{query['tag']}"
    image = engine.image(name)
    if code := engine.codes.get("push"):
        return _messages(_failure(f"denied: permission to {repository}", code))
    digest = f"sha256:{hashlib.sha256(image['Id'].encode()).hexdigest()}"
    engine.pushed.append(name)
    engine.registry[name] = digest
    image["RepoDigests"].append(f"{repository}@{digest}")
    return _messages({"status": "Pushed"}, {"aux": {"Tag": query["tag"], "Digest": digest}})


def _distribution(engine: StandInEngine, _query: Query, _body: bytes, name: str) -> Message:
    if full_name(name) not in engine.registry:
        raise Refusal(404, f"manifest unknown: {name}")
    return {"Descriptor": {"digest": engine.registry[full_name(name)]}}


def _remove_image(engine: StandInEngine, _query: Query, _body: bytes, name: str) -> list[Message]:
    image = engine.image(name)
    image["RepoTags"] = [tag for tag in image["RepoTags"] if tag != full_name(name)]
    if not image["RepoTags"]:
        del engine.images[image["Id"]]
    return []


def _create(engine: StandInEngine, query: Query, body: bytes) -> Message:
    config = json.loads(body)
    image = engine.image(config["Image"])
    if "name" in query and any(one["Name"] == f"/{query['name']}" for one in engine.containers.values()):
        raise Refusal(409, f"The container name /{query['name']} is already in use")
    number = hashlib.sha256(f"container {len(engine.containers)}".encode()).hexdigest()
    state = {"Running": False, "Status": "created", "Error": "", "ExitCode": 0, "OOMKilled": False}
    engine.containers[number] = {
        "Id": number,
        "Name": f"/{query.get('name', number[:12])}",
        "Image": image["Id"],
        "Config": config,
        "State": {**state, "StartedAt": NEVER, "FinishedAt": NEVER},
    }
    return {"Id": number, "Warnings": []}


def _start(engine: StandInEngine, _query: Query, _body: bytes, name: str) -> bytes:
    engine.start(engine.container(name))
    return b""


def _inspect(engine: StandInEngine, _query: Query, _body: bytes, name: str) -> Message:
    return engine.container(name)


def _kill(engine: StandInEngine, query: Query, _body: bytes, name: str) -> bytes:
    state = engine.container(name)["State"]
    if not state["Running"]:
        raise Refusal(409, f"{name} is not running")
    number = {"SIGTERM": 15, "SIGINT": 2}.get(query.get("signal", ""), 9)
    state |= {"until": 0.0, "ExitCode": 128 + number}
    return b""


def _wait(engine: StandInEngine, _query: Query, _body: bytes, name: str) -> Message:
    while engine.container(name)["State"]["Running"]:
        time.sleep(POLL_SECONDS)
    return {"StatusCode": engine.container(name)["State"]["ExitCode"]}


def _attach(engine: StandInEngine, query: Query, body: bytes, name: str) -> Iterator[bytes]:
    """The container's line on its terminal, once it runs; who is attached is let go when it ends."""
    while engine.container(name)["State"]["StartedAt"] == NEVER:
        time.sleep(POLL_SECONDS)
    yield OUTPUT
    _wait(engine, query, body, name)


def _logs(engine: StandInEngine, query: Query, body: bytes, name: str) -> Iterator[bytes]:
    """The container's one line, at once; who follows is let go when it ends."""
    since = float(query.get("since", 0))
    stamp = engine.container(name)["State"]["StartedAt"]
    if not since or since <= datetime.fromisoformat(stamp[:26] + "+00:00").timestamp():
        line = (stamp.encode() + b" " if query.get("timestamps") else b"") + OUTPUT
        is_terminal = engine.container(name)["Config"].get("Tty")
        yield line if is_terminal else struct.pack(">BxxxL", 1, len(line)) + line
    if query.get("follow"):
        _wait(engine, query, body, name)


def _list_containers(engine: StandInEngine, query: Query, _body: bytes) -> list[Message]:
    wanted = json.loads(query.get("filters", "{}"))
    images = wanted.get("ancestor", [])
    return [
        {"Id": found["Id"], "Names": [found["Name"]], "ImageID": found["Image"]}
        for found in engine.containers.values()
        if _bears(found["Config"]["Labels"], wanted.get("label", []))
        and (not images or found["Image"] in images)
    ]


def _remove(engine: StandInEngine, _query: Query, _body: bytes, name: str) -> bytes:
    del engine.containers[engine.container(name)["Id"]]
    return b""


def _make_network(engine: StandInEngine, _query: Query, body: bytes) -> Message:
    wanted = json.loads(body)
    engine.networks[wanted["Name"]] = wanted
    return {"Id": wanted["Name"]}


def _network(engine: StandInEngine, _query: Query, _body: bytes, name: str) -> Message:
    if name not in engine.networks:
        raise Refusal(404, f"network {name} not found")
    return engine.networks[name]


def _remove_network(engine: StandInEngine, _query: Query, _body: bytes, name: str) -> bytes:
    if engine.networks.pop(name, None) is None:
        raise Refusal(404, f"network {name} not found")
    return b""


def _statistics(engine: StandInEngine, *_: Any) -> bytes:
    return engine.statistics.pop(0) if len(engine.statistics) > 1 else engine.statistics[0]


ROUTES: tuple[tuple[str, str, Callable[..., Any]], ...] = (
    ("ANY", "/_ping", _ping),
    ("GET", "/info", _info),
    ("GET", "/version", lambda engine, *_: engine.version),
    ("POST", "/images/create", _pull),
    ("POST", "/build", _build),
    ("GET", "/images/json", _list_images),
    ("GET", "/images/(.+)/json", lambda engine, _query, _body, name: engine.image(name)),
    ("POST", "/images/(.+)/tag", _tag),
    ("POST", "/images/(.+)/push", _push),
    ("DELETE", "/images/(.+)", _remove_image),
    ("GET", "/distribution/(.+)/json", _distribution),
    ("GET", "/containers/json", _list_containers),
    ("POST", "/containers/create", _create),
    ("GET", "/containers/([^/]+)/json", _inspect),
    ("POST", "/containers/([^/]+)/start", _start),
    ("POST", "/containers/([^/]+)/kill", _kill),
    ("POST", "/containers/([^/]+)/wait", _wait),
    ("GET", "/containers/([^/]+)/logs", _logs),
    ("POST", "/containers/([^/]+)/attach", _attach),
    ("POST", "/containers/([^/]+)/resize", lambda *_: b""),
    ("GET", "/containers/([^/]+)/stats", _statistics),
    ("DELETE", "/containers/([^/]+)", _remove),
    ("POST", "/networks/create", _make_network),
    ("GET", "/networks/([^/]+)", _network),
    ("DELETE", "/networks/([^/]+)", _remove_network),
)
