"""An HTTP client for the Engine API of this machine, over a Unix socket or a TCP port.

The SDK takes a quarter of a second to import and ten megabytes to keep, for each job anew.
"""

from __future__ import annotations

import http.client
import json
import select
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from vtrain.http_limits import LARGEST_ANSWER, deadline

PLAIN_PORT = 2375
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_ANSWER_LIMIT = 64 * 1024
_BLOCK_BYTES = 64 * 1024


class EngineAddress(msgspec.Struct, frozen=True, kw_only=True):
    """An engine, and how it was found."""

    host: str
    """`unix:///var/run/docker.sock`, `tcp://host:2375`, `https://host:2376` with TLS, or `ssh://user@host`."""
    origin: str
    """`DOCKER_HOST`, `the context colima`, `the default socket`."""
    context: str = ""
    """The Docker context that names it, if one does."""

    @property
    def is_local(self) -> bool:
        """Whether vtrain runs containers there: on a socket here, or a port of this machine without TLS."""
        url = urlsplit(self.host)
        return url.scheme == "unix" or (url.scheme in ("tcp", "http") and url.hostname in _LOOPBACK)


def open_connection(address: EngineAddress, timeout: float | None) -> socket.socket:
    """Connect; `timeout` in seconds holds for connecting and for each read and write after it.

    Raises OSError.
    """
    url = urlsplit(address.host)
    if url.scheme != "unix":
        return socket.create_connection((url.hostname or "localhost", url.port or PLAIN_PORT), timeout)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(url.path)
    except BaseException:
        connection.close()
        raise
    return connection


def ping(address: EngineAddress, timeout: float) -> str:
    """The newest API version that the engine speaks, such as "1.41"; empty where it does not say.

    Raises OSError when nothing answers there, or something else than an engine.
    """
    connection = EngineConnection(address, timeout)
    try:
        connection.connect()
        with _in_time(connection, timeout):
            answer = connection.ask("GET", "/_ping")
            body = answer.read(_ANSWER_LIMIT)
    except http.client.RemoteDisconnected as error:
        raise ConnectionError("it closed the connection") from error
    except http.client.HTTPException as error:
        raise ConnectionError("what answers there is no Docker engine") from error
    finally:
        connection.close()
    return _api_version(answer, " ".join(body.decode("utf-8", "replace").split()))


def _api_version(answer: http.client.HTTPResponse, words: str) -> str:
    """The version in an answer to /_ping. Raises ConnectionError where it is not that of an engine."""
    is_page = "html" in answer.headers.get("content-type", "") or words.startswith("<")
    if is_page or answer.status == HTTPStatus.NOT_FOUND:
        raise ConnectionError(f"what answers there is no Docker engine (HTTP {answer.status})")
    if answer.status != HTTPStatus.OK:
        raise ConnectionError(words or f"HTTP {answer.status} {answer.reason}")
    return answer.headers.get("api-version", "")


NEWEST_VERSION = "1.44"
"""The newest version of the API that these calls are written for; old engines know one below."""
CALL_SECONDS = 60.0


class CallRefused(Exception):
    """The engine's answer is an error: an HTTP status, and the engine's words."""

    def __init__(self, status: int, explanation: str) -> None:
        super().__init__(explanation)
        self.status = status
        self.explanation = explanation


class EngineCalls:
    """Calls to one engine, by any number of threads. Not to be used across a fork.

    Raises CallRefused, and ConnectionError where no whole answer comes.
    """

    def __init__(self, address: EngineAddress, version: str = "", *, seconds: float = CALL_SECONDS) -> None:
        """`version` is the newest that the engine speaks; without one it takes its newest.

        `seconds` is how long connecting may take, and the whole answer to a call that is not a stream.
        """
        self._address = address
        self._seconds = seconds
        self._prefix = f"/v{older(version, NEWEST_VERSION)}" if version else ""
        self.idle: list[EngineConnection] = []
        """Connections that wait for the next call."""

    def close(self) -> None:
        """Close the connections that are idle."""
        while (connection := self._idle_one()) is not None:
            connection.close()

    def get(self, path: str, **params: Any) -> Any:
        """The JSON that a GET answers."""
        return _read(self.send("GET", path, params))

    def post(self, path: str, body: Any = None, **params: Any) -> Any:
        """The JSON that a POST answers; None where it answers nothing."""
        answer = self.send("POST", path, params, body)
        return _read(answer) if answer.strip() else None

    def delete(self, path: str, **params: Any) -> None:
        """A DELETE."""
        self.send("DELETE", path, params)

    def send(self, method: str, path: str, params: Mapping[str, Any] = {}, body: Any = None) -> bytes:
        """The body of the answer to one request."""
        connection = self._take()
        try:
            with _in_time(connection, self._seconds), _breaks():
                answer = connection.ask(method, self._target(path, params), body)
                content = _read_whole(answer)
        except BaseException:
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            self.idle.append(connection)
        return _accepted(answer, content)

    @contextmanager
    def stream(self, path: str, params: Mapping[str, Any] = {}) -> Iterator[http.client.HTTPResponse]:
        """The answer to a GET, to be read as it comes; reads wait as long as the engine is silent."""
        with self._lasting("GET", self._target(path, params)) as (_, answer), answer:
            yield answer

    @contextmanager
    def hijack(self, path: str, body: Any = None, params: Mapping[str, Any] = {}) -> Iterator[socket.socket]:
        """The connection itself, after a POST that turns it into the streams of a program.

        Both ends may write at any time; reads wait as long as the program is silent.
        """
        # These tell a proxy in between that both directions stay open.
        headers = {"Connection": "Upgrade", "Upgrade": "tcp"}
        with self._lasting("POST", self._target(path, params), body, headers) as (connection, _):
            assert connection.opened is not None
            yield connection.opened

    @contextmanager
    def _lasting(
        self, method: str, target: str, body: Any = None, headers: Mapping[str, str] = {}
    ) -> Iterator[tuple[EngineConnection, http.client.HTTPResponse]]:
        """A connection of its own, and the accepted answer, whose body is not read yet."""
        connection = EngineConnection(self._address, self._seconds, is_patient=True)
        if headers:
            connection.response_class = _HeadOnly
        try:
            with _breaks():
                answer = connection.ask(method, target, body, headers)
                if _is_refusal(answer):
                    with _in_time(connection, self._seconds):
                        _accepted(answer, _read_whole(answer))
            yield connection, answer
        finally:
            connection.close()

    def _target(self, path: str, params: Mapping[str, Any]) -> str:
        words = {name: json.dumps(v) if isinstance(v, dict) else v for name, v in params.items()}
        return f"{self._prefix}{quote(path, safe='/:@')}" + (
            f"?{urlencode(words, doseq=True)}" if words else ""
        )

    def _take(self) -> EngineConnection:
        """A connection that is still open, or a new one."""
        while (connection := self._idle_one()) is not None:
            if not connection.is_stale:
                return connection
            connection.close()
        return EngineConnection(self._address, self._seconds)

    def _idle_one(self) -> EngineConnection | None:
        try:
            return self.idle.pop()
        except IndexError:
            return None


class EngineConnection(http.client.HTTPConnection):
    """HTTP over whatever leads to the engine. `is_patient`: reads wait for ever, connecting does not."""

    def __init__(self, address: EngineAddress, seconds: float, *, is_patient: bool = False) -> None:
        super().__init__("docker")
        self._address = address
        self._seconds = seconds
        self._is_patient = is_patient
        self._answer: http.client.HTTPResponse | None = None
        self.opened: socket.socket | None = None
        """The socket, also when only an answer still holds it."""

    def connect(self) -> None:
        """Connect. Raises OSError."""
        self.sock = self.opened = open_connection(self._address, self._seconds)
        if self._is_patient:
            self.sock.settimeout(None)

    def ask(
        self, method: str, target: str, body: Any = None, headers: Mapping[str, str] = {}
    ) -> http.client.HTTPResponse:
        """Send a request with `body` as JSON; the answer, whose body is not read yet."""
        content = None if body is None else json.dumps(body).encode()
        json_type = {} if content is None else {"Content-Type": "application/json"}
        self.request(method, target, content, {**json_type, **headers})
        self._answer = self.getresponse()
        return self._answer

    def close(self) -> None:
        """Close the socket, and the answer, which may hold it too."""
        super().close()
        if self._answer is not None:
            self._answer.close()

    @property
    def is_stale(self) -> bool:
        """Whether the engine has closed it: nothing else makes an idle connection readable."""
        if self.sock is None:
            return True
        readable = select.poll()
        readable.register(self.sock, select.POLLIN)
        return bool(readable.poll(0))


class _HeadOnly(http.client.HTTPResponse):
    """An answer that takes no byte off the connection behind its head."""

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp.close()
        self.fp = sock.makefile("rb", buffering=1)  # a larger buffer would swallow the program's first bytes


def _accepted(answer: http.client.HTTPResponse, content: bytes) -> bytes:
    """The content of an answer. Raises CallRefused for an error."""
    if not _is_refusal(answer):
        return content
    text = content.decode("utf-8", "replace")
    try:
        refusal = json.loads(text)
    except ValueError:
        refusal = None
    raise CallRefused(answer.status, str(refusal.get("message", "")) if isinstance(refusal, dict) else text)


def _read_whole(answer: http.client.HTTPResponse) -> bytes:
    """The body of an answer. Raises ConnectionError for one that is too large."""
    length = answer.length  # None where only its end tells
    content = answer.read(LARGEST_ANSWER + 1) if length is None else b""
    if max(len(content), length or 0) > LARGEST_ANSWER:
        raise ConnectionError(f"the answer has more than {LARGEST_ANSWER} bytes")
    return content if length is None else answer.read()


def _is_refusal(answer: http.client.HTTPResponse) -> bool:
    """Whether the status is an error; so is a redirection, which the Engine API does not have."""
    return answer.status >= HTTPStatus.MULTIPLE_CHOICES and answer.status != HTTPStatus.NOT_MODIFIED


def _read(content: bytes) -> Any:
    with _breaks():
        return json.loads(content)


@contextmanager
def _in_time(connection: EngineConnection, seconds: float) -> Iterator[None]:
    """A block in which an answer is read. Raises TimeoutError where that takes too long."""
    with deadline(seconds, lambda: connection.opened) as expiry:
        try:
            yield
        except ConnectionError as error:
            if not expiry.passed:
                raise
            raise TimeoutError(f"no whole answer within {seconds:g} s") from error
    if expiry.passed:
        raise TimeoutError(f"no whole answer within {seconds:g} s")


@contextmanager
def _breaks() -> Iterator[None]:
    """Turn every fault of a connection, or of the bytes that arrive, into a ConnectionError."""
    try:
        yield
    except (ConnectionError, TimeoutError):
        raise
    except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
        raise ConnectionError(reason_of(error)) from error


def older(version: str, other: str) -> str:
    """The older of two versions of the API; `other` where the first is not a version."""

    def order(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in text.split("."))

    try:
        return min(version, other, key=order)
    except ValueError:
        return other


def reason_of(error: Exception) -> str:
    """A failure to connect in a few words."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, FileNotFoundError):
        return f"{error.filename} is missing" if error.filename else "no such socket"
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there"
    if isinstance(error, PermissionError):
        return "permission denied"
    if isinstance(error, http.client.IncompleteRead):
        return "it closed the connection in the middle of its answer"
    words = (error.strerror if isinstance(error, OSError) else "") or str(error)
    return words.rstrip(".")
