"""Clients of Google's library: one per service and endpoint, each with a connection that is kept."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from vtrain.backends import ServiceAccess
from vtrain.backends.vertex.collections import Kind
from vtrain.backends.vertex.deferred import load_service
from vtrain.backends.vertex.wire import Wire
from vtrain.errors import ConfigError
from vtrain.properties import endpoint_override

CALL_SECONDS = 60.0
"""The deadline of a call that reads or that asks for something."""
CREATE_SECONDS = 120.0
"""The deadline of a create: the service checks the whole job, its accounts and its quota."""


class Client:
    """One service of the API at one endpoint."""

    def __init__(self, service: str, endpoint: str, access: ServiceAccess, credentials: Any) -> None:
        module = load_service(service, access.api_version)
        package = module.__name__.partition(".services.")[0]
        prefix = "".join(word.capitalize() for word in service.split("_"))
        rest = import_module(f"{module.__name__}.transports.rest")
        transport = getattr(rest, f"{prefix}RestTransport")(host=endpoint, credentials=credentials)
        self._stub = getattr(module, f"{prefix}Client")(transport=transport)
        self._types = import_module(f"{package}.types.{service}")
        self._wire = Wire(access, _write_log)
        for scheme in ("https://", "http://"):
            transport._session.mount(scheme, self._wire)

    @property
    def service_time(self) -> float:
        """The service's clock at its last answer, in seconds since the epoch; 0 when it does not tell."""
        return self._wire.service_time

    def call(
        self,
        verb: str,
        kind: Kind,
        fields: dict[str, Any],
        *,
        body: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """One request, made once; the answer as the service wrote it. Raises what the library raises.

        The library sees where the `body` goes and not what it is: it would refuse what the API may know.
        """
        message = getattr(self._types, kind.request(verb))
        address = {name: {} if value is body else value for name, value in fields.items()}
        request = message.wrap(_parse(address, message))
        method = getattr(self._stub, kind.method(verb))
        seconds = CREATE_SECONDS if verb == "Create" else CALL_SECONDS
        return self._wire.exchange(lambda: method(request=request, timeout=seconds, retry=None), body)

    def get_operation(self, name: str) -> dict[str, Any]:
        """An operation as it stands now."""
        return self._about_operations(self._stub.get_operation, name)

    def list_operations(self, name: str) -> dict[str, Any]:
        """The operations on a resource, newest first."""
        return self._about_operations(self._stub.list_operations, name)

    def _about_operations(self, method: Callable[..., object], name: str) -> dict[str, Any]:
        request = {"name": name}
        return self._wire.exchange(lambda: method(request=request, timeout=CALL_SECONDS, retry=None))


class Clients:
    """The clients of a command, made when they are needed."""

    def __init__(self, access: ServiceAccess) -> None:
        self._access = access
        self._credentials: Any = None
        self._open: dict[tuple[str, str], Client] = {}

    def get(self, service: str, location: str) -> Client:
        """The client of a service in a region. Raises CredentialsError where there are no credentials."""
        endpoint = service_endpoint(location)
        if (service, endpoint) not in self._open:
            self._open[service, endpoint] = Client(service, endpoint, self._access, self._find_credentials())
        return self._open[service, endpoint]

    def sign_in(self) -> None:
        """Get a token where the credentials need one. Raises what google-auth raises."""
        credentials = self._find_credentials()
        if not credentials.valid:
            from google.auth.transport.requests import Request

            credentials.refresh(Request())

    def _find_credentials(self) -> Any:
        if self._credentials is None:
            from vtrain.backends.vertex.credentials import find_credentials

            self._credentials = find_credentials(self._access)
        return self._credentials


def service_endpoint(location: str) -> str:
    """The address of the API in a region, without a trailing slash: gcloud's override, else Google's own."""
    override = endpoint_override("aiplatform").rstrip("/")
    return override or f"https://{location}-aiplatform.googleapis.com"


def _parse(fields: dict[str, Any], message: Any) -> Any:
    """The library's message; what its version does not know is left out, and is on the wire nevertheless."""
    from google.protobuf import json_format

    try:
        return json_format.ParseDict(fields, message.pb(message()), ignore_unknown_fields=True)
    except json_format.ParseError as error:
        raise ConfigError(f"The API does not take this: {error}") from error


def _write_log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
