"""The methods of the API over gRPC: each is the method of REST, between messages of Google's library."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from google.api import httpbody_pb2
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2, json_format
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2

from vtrain.atomic import scratch_folder
from vtrain.emulator.request_log import OncePerHost, Tell, timed
from vtrain.emulator.vertex.documents import with_project
from vtrain.emulator.vertex.grpc_messages import VERSIONS, load_message, load_project_messages
from vtrain.emulator.vertex.methods import methods_of, pattern_of
from vtrain.emulator.vertex.training_service import TrainingService
from vtrain.emulator.vertex.vertex_call import (
    EMPTY,
    HTTP_BODY,
    OPERATION,
    OPERATIONS,
    WHOLE,
    Method,
    VertexCall,
)
from vtrain.emulator.vertex.vertex_refusals import CODES, VertexRefusal, refusal_of
from vtrain.errors import VtrainError
from vtrain.messages.codec import snake_case
from vtrain.messages.names import LOCAL_PROJECT, LOCAL_PROJECT_NUMBER, ResourceName

THREADS = 64
"""Calls at once: predictions and waits may take long."""
DETAILS = (error_details_pb2.ErrorInfo,)
"""The messages in the details of a job's error: their import makes them known to the library."""
LARGEST_MESSAGE = 10 << 20
CLOSE_SECONDS = 5.0
MOST_SAID = 2000
"""Characters of an error."""
PROJECT = "/google.cloud.resourcemanager.v3.Projects/GetProject"
_METHOD = re.compile(
    rf"/(?:google\.cloud\.aiplatform\.({'|'.join(VERSIONS)})\.(\w+)|google\.longrunning\.Operations)/(\w+)"
)


@contextmanager
def serving_grpc(service: TrainingService, home: Path, project: str, tell: Tell) -> Iterator[Path]:
    """A block during which the API answers gRPC at a socket that no other user reaches.

    The proxy leads clients there, and has ended their TLS. `project` is the id that numbers of projects stand
    for. `tell` gets a line about each call.
    """
    server = grpc.server(
        ThreadPoolExecutor(THREADS),
        options=[("grpc.max_receive_message_length", LARGEST_MESSAGE), ("grpc.so_reuseport", 0)],
    )
    server.add_generic_rpc_handlers((_Methods(service, project, tell),))
    with _private_place(home) as place:
        server.add_insecure_port(f"unix:{place}")
        server.start()
        try:
            yield place
        finally:
            server.stop(CLOSE_SECONDS).wait()


@contextmanager
def _private_place(home: Path) -> Iterator[Path]:
    """The path of a socket that no other user reaches, and that is short: a kernel takes some 100 bytes."""
    with scratch_folder(home) as folder:
        if not Path("/proc/self/fd").is_dir():
            yield folder / "grpc"
            return
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield Path(f"/proc/self/fd/{descriptor}/grpc")
        finally:
            os.close(descriptor)


class _Methods(grpc.GenericRpcHandler):  # type: ignore[misc]
    """All methods. Those that are emulated load what they need with their first call; others are refused."""

    def __init__(self, service: TrainingService, project: str, tell: Tell) -> None:
        self._service = service
        self._project = project
        self._tell = tell
        self._handlers: dict[str, Any] = {}
        self._refused = OncePerHost()

    def service(self, details: Any) -> Any:
        """The handler of a method."""
        name = details.method
        if name not in self._handlers:
            called = _find(name)
            if called is not None:
                self._handlers[name] = _handler(self._service, called, self._tell)
            elif name == PROJECT:
                self._handlers[name] = _project_handler(self._project)
            else:
                return grpc.unary_unary_rpc_method_handler(partial(self._refuse, name))
        return self._handlers[name]

    def _refuse(self, name: str, _message: bytes, context: grpc.ServicerContext) -> None:
        """Refuse with a sentence; the default has none that names the method."""
        sentence = f"The emulator does not emulate {name}."
        if not name.startswith("/google.cloud.aiplatform."):
            self._refused.record(name.rpartition("/")[0], sentence)
        context.abort(grpc.StatusCode.UNIMPLEMENTED, sentence)


class _CalledMethod(NamedTuple):
    """A method of a version of the API."""

    service: str
    collection: str
    method: Method
    version: str

    def message(self, name: str) -> Any:
        """The class of one of its messages."""
        if self.service == "Operations" or name == OPERATION:
            return empty_pb2.Empty if name == EMPTY else getattr(operations_pb2, name)
        of_all = {EMPTY: empty_pb2.Empty, HTTP_BODY: httpbody_pb2.HttpBody}
        return of_all.get(name) or load_message(self.version, self.service, name)


def _find(name: str) -> _CalledMethod | None:
    """The method of a name in gRPC; None where it is not emulated."""
    found = _METHOD.fullmatch(name)
    if found is None:
        return None
    version, service, rpc = found[1] or VERSIONS[0], found[2] or "Operations", found[3]
    every = ((name, method) for name, methods in methods_of(service).items() for method in methods)
    called = (_CalledMethod(service, name, method, version) for name, method in every if method.rpc == rpc)
    return next(called, None)


def _handler(service: TrainingService, called: _CalledMethod, tell: Tell) -> Any:
    method = called.method

    def run(data: bytes, context: grpc.ServicerContext) -> Any:
        with timed(tell, lambda: f"gRPC {method.rpc} {getattr(context.code(), 'name', 'OK')}"):
            return carry_out(_read(called.message(f"{method.rpc}Request"), data, context), context)

    def carry_out(message: Any, context: grpc.ServicerContext) -> Any:
        service.calls.count({name: str(text) for name, text in context.invocation_metadata()}, "gRPC")
        try:
            fields = json_format.MessageToDict(message)
            call = call_of(method, called.collection, fields, called.version)
            found = method.handler(service.part(called.collection), call)
            named = with_project(found, call.place.project, only=LOCAL_PROJECT)
            return json_format.ParseDict(named, called.message(method.answer)(), ignore_unknown_fields=True)
        except (json_format.ParseError, json_format.SerializeToJsonError) as error:
            _abort(
                context,
                VertexRefusal("INVALID_ARGUMENT", f"The message has no form in JSON: {error}."[:MOST_SAID]),
            )
        except (VertexRefusal, VtrainError) as error:
            refusal = refusal_of(error) if isinstance(error, VtrainError) else error
            _abort(context, refusal, project_of(method, message))

    return grpc.unary_unary_rpc_method_handler(run, response_serializer=lambda made: made.SerializeToString())


def _read(request: Any, data: bytes, context: grpc.ServicerContext) -> Any:
    """The message of a request; gRPC itself would call one that cannot be read a fault of the server."""
    try:
        return request.FromString(data)
    except (DecodeError, RecursionError):
        _abort(
            context,
            VertexRefusal("INVALID_ARGUMENT", "The message is damaged, nested too deeply, or not UTF-8."),
        )


def _project_handler(project: str) -> Any:
    """Answer the library's questions for a project: its id by its number, and its number by its id."""
    request, answer = load_project_messages()

    def run(data: bytes, context: grpc.ServicerContext) -> Any:
        message = _read(request, data, context)
        asked = message.name.removeprefix("projects/")
        name = f"projects/{LOCAL_PROJECT_NUMBER}"
        return answer(name=name, project_id=project if asked.isdecimal() else asked)

    return grpc.unary_unary_rpc_method_handler(run, response_serializer=lambda made: made.SerializeToString())


def _abort(context: grpc.ServicerContext, refusal: VertexRefusal, project: str = LOCAL_PROJECT) -> None:
    """End a call with an error, in which names have the project that the client used."""
    codes = {code.value[0]: code for code in grpc.StatusCode}
    message = refusal.message.replace(f"projects/{LOCAL_PROJECT}/", f"projects/{project}/")
    context.abort(codes[CODES[refusal.status]], message[:MOST_SAID])


def project_of(method: Method, message: Any) -> str:
    """The project in the name that a request is about."""
    named = getattr(message, snake_case(method.body), message) if method.of_one else message
    fields = (getattr(message, field, "") for field in (snake_case(method.named), "parent"))
    names = (getattr(named, "name", ""), *fields)
    name = str(next(filter(None, names), ""))
    parts = name.split("/")
    return parts[1] if len(parts) > 1 and parts[0] == "projects" else LOCAL_PROJECT


def call_of(method: Method, collection: str, fields: dict[str, Any], version: str) -> VertexCall:
    """A request of gRPC as one of REST, of a version of the API. Raises VertexRefusal for an invalid name."""
    if method.of_one:  # of an update the name is in the resource
        named = fields.get(method.body, {}) if method.body not in ("", WHOLE) else fields
        name = str(named.pop("name" if named is not fields else method.named, "") or "")
    else:
        name = str(fields.get("parent") or fields.pop("name", ""))
    parts = name.split("/")
    if len(parts) < 4 or parts[0] != "projects" or parts[2] != "locations" or not all(parts):
        raise VertexRefusal("INVALID_ARGUMENT", f"{name[:300]!r} is not the name of a resource.")
    project, location, rest = parts[1], parts[3], parts[4:]
    resource_id = rest.pop() if method.of_one and rest else ""
    if not method.of_one:
        rest.append(collection.rpartition("/")[2])
    if collection not in (OPERATIONS, pattern_of(rest)):
        raise VertexRefusal(
            "INVALID_ARGUMENT", f"{name[:300]!r} is not the name of a resource of this method."
        )
    place = ResourceName(project=project, location=location, collection="/".join(rest), id=resource_id)
    return VertexCall(place=place, fields=fields, body=fields.get(method.body) or {}, version=version)
