"""An HTTP client for the Engine API, over a Unix socket, TCP, TLS or SSH.

The SDK takes a quarter of a second to import and ten megabytes to keep, for each job anew.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import select
import socket
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from vtrain.containers.address import PLAIN_PORT, TLS_PORT, EngineAddress
from vtrain.http_limits import LARGEST_ANSWER, deadline

if TYPE_CHECKING:
    import ssl

SSH_CONNECT_SECONDS = 15
KEEP_ALIVE_SECONDS = 30
"""The silence after which the kernel asks whether the other machine is still there."""
COMPLAINT_SECONDS = 1.0
"""The time for ssh to say why it closed the connection."""
_SSH_OPTIONS = ("-T", "-o", f"ConnectTimeout={SSH_CONNECT_SECONDS}")
_ANSWER_LIMIT = 64 * 1024
_BLOCK_BYTES = 64 * 1024
_SSL_DECORATION = re.compile(r"^\[(?:SSL|X509)[^\]]*\] | \(_ssl\.c:\d+\)$")


def open_connection(address: EngineAddress, timeout: float | None) -> socket.socket:
    """Connect; `timeout` in seconds holds for connecting and for each read and write after it.

    Raises OSError (ValueError where the address or a TLS file is malformed).
    """
    url = urlsplit(address.host)
    if url.scheme == "unix":
        return _open_path(url.path, timeout)
    if url.scheme == "ssh":
        return SshConnection(_ssh_command(url), timeout)
    secure = url.scheme == "https" or bool(address.tls_folder)
    port = url.port or (TLS_PORT if secure else PLAIN_PORT)
    plain = socket.create_connection((url.hostname or "localhost", port), timeout)
    # A stream waits for ever: the kernel has to notice that the engine's machine is gone. It asks after two
    # hours unless it is told otherwise.
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    idle = getattr(socket, "TCP_KEEPIDLE", getattr(socket, "TCP_KEEPALIVE", None))  # Linux, macOS
    if idle is not None:
        plain.setsockopt(socket.IPPROTO_TCP, idle, KEEP_ALIVE_SECONDS)
    if not secure:
        return plain
    try:
        return _tls_context(address).wrap_socket(plain, server_hostname=url.hostname)
    except BaseException:
        plain.close()
        raise


def ping(address: EngineAddress, timeout: float) -> str:
    """The newest API version that the engine speaks, such as "1.41"; empty where it does not say.

    Raises OSError (ValueError) when nothing answers there, or something else than an engine.
    """
    connection = EngineConnection(address, timeout)
    try:
        connection.connect()
        with _in_time(connection, timeout):
            answer = connection.ask("GET", "/_ping")
            body = answer.read(_ANSWER_LIMIT)
    except http.client.RemoteDisconnected as error:
        raise ConnectionError(_complaint(connection) or "it closed the connection") from error
    except http.client.HTTPException as error:
        raise ConnectionError("what answers there is no Docker engine") from error
    except ConnectionError as error:
        words = _complaint(connection)
        raise (ConnectionError(words) if words else error) from error
    finally:
        connection.close()
    return _api_version(answer, " ".join(body.decode("utf-8", "replace").split()))


def _complaint(connection: EngineConnection) -> str:
    """The words of the ssh command, where the connection is one of its."""
    return connection.opened.complaint() if isinstance(connection.opened, SshConnection) else ""


def _api_version(answer: http.client.HTTPResponse, words: str) -> str:
    """The version in an answer to /_ping. Raises ConnectionError where it is not that of an engine."""
    is_page = "html" in answer.headers.get("content-type", "") or words.startswith("<")
    if is_page or answer.status == HTTPStatus.NOT_FOUND:
        raise ConnectionError(f"what answers there is no Docker engine (HTTP {answer.status})")
    if answer.status != HTTPStatus.OK:
        raise ConnectionError(words or f"HTTP {answer.status} {answer.reason}")
    return answer.headers.get("api-version", "")


def _open_path(path: str, timeout: float | None) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection


class SshConnection(socket.socket):
    """The end of a pair of sockets whose other end is the input and output of an ssh command."""

    def __init__(self, command: list[str], timeout: float | None) -> None:
        """Raises OSError where there is no ssh."""
        import subprocess
        import threading

        ours, theirs = socket.socketpair()
        super().__init__(fileno=ours.detach())
        self.settimeout(timeout)
        self._words = b""
        with theirs:
            try:
                # A session of its own: Ctrl-C is for us, who then end the connection in order.
                self._program = subprocess.Popen(
                    command,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            except OSError:
                self.close()
                raise
        self._reader = threading.Thread(target=self._await, name="ssh to the engine", daemon=True)
        self._reader.start()

    def complaint(self) -> str:
        """The words of ssh when it ended; empty while it runs."""
        self._reader.join(COMPLAINT_SECONDS)
        return " ".join(self._words.decode("utf-8", "replace").split())

    def _await(self) -> None:
        self._words = self._program.communicate()[1][-_ANSWER_LIMIT:]


def _ssh_command(url: SplitResult) -> list[str]:
    """`docker system dial-stdio` on the other machine, as the docker command does it."""
    user = ["-l", url.username] if url.username else []
    port = ["-p", str(url.port)] if url.port else []
    remote = ["docker", *(["--host", f"unix://{url.path}"] if url.path.strip("/") else [])]
    return ["ssh", *_SSH_OPTIONS, *user, *port, "--", url.hostname or "", *remote, "system", "dial-stdio"]


def _tls_context(address: EngineAddress) -> ssl.SSLContext:
    """TLS with Docker's three files: ca.pem, and cert.pem with key.pem. Without ca.pem the system's count.

    Raises ValueError for files that cannot be used.
    """
    import ssl

    folder = Path(address.tls_folder) if address.tls_folder else None
    authority = folder / "ca.pem" if folder else None
    try:
        context = ssl.create_default_context(
            cafile=os.fspath(authority) if authority and authority.exists() else None
        )
        if not address.tls_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if folder and (folder / "cert.pem").exists():
            if not (folder / "key.pem").exists():
                raise ValueError("key.pem is missing")
            context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        why = f"the TLS files in {folder} cannot be used: {reason_of(error)}"
        raise ValueError(why) from error
    return context


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

    def send(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any] = {},
        body: Any = None,
        headers: Mapping[str, str] = {},
    ) -> bytes:
        """The body of the answer to one request."""
        connection = self._take()
        try:
            with _in_time(connection, self._seconds), _breaks():
                answer = connection.ask(method, self._target(path, params), body, headers)
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
    def stream(
        self,
        path: str,
        params: Mapping[str, Any] = {},
        *,
        method: str = "GET",
        data: Iterator[bytes] | None = None,
        headers: Mapping[str, str] = {},
    ) -> Iterator[http.client.HTTPResponse]:
        """The answer to a request, to be read as it comes; reads wait as long as the engine is silent.

        `data` is the request's body in blocks.
        """
        connection = EngineConnection(self._address, self._seconds, is_patient=True)
        try:
            with _breaks():
                answer = connection.ask(method, self._target(path, params), data, headers)
                if _is_refusal(answer):
                    with _in_time(connection, self._seconds):
                        _accepted(answer, _read_whole(answer))
            with answer:
                yield answer
        finally:
            connection.close()

    @contextmanager
    def hijack(self, path: str, body: Any = None, params: Mapping[str, Any] = {}) -> Iterator[socket.socket]:
        """The connection itself, after a POST that turns it into the streams of a program.

        Both ends may write at any time; reads wait as long as the program is silent.
        """
        connection = EngineConnection(self._address, self._seconds, is_patient=True)
        connection.response_class = _HeadOnly
        try:
            with _breaks():
                # These tell a proxy in between that both directions stay open.
                headers = {"Connection": "Upgrade", "Upgrade": "tcp"}
                answer = connection.ask("POST", self._target(path, params), body, headers)
                if _is_refusal(answer):
                    with _in_time(connection, self._seconds):
                        _accepted(answer, _read_whole(answer))
            assert connection.opened is not None
            yield connection.opened
        finally:
            connection.close()

    def post_stream(
        self,
        path: str,
        params: Mapping[str, Any] = {},
        *,
        data: Iterator[bytes] | None = None,
        headers: Mapping[str, str] = {},
    ) -> Generator[dict[str, Any], None, None]:
        """The JSON objects, one a line, that a POST answers, as they come.

        Closing the generator ends the request: the engine stops the work. Reads wait as long as the engine is
        silent.
        """
        with self.stream(path, params, method="POST", data=data, headers=headers) as answer:
            rest = b""
            while block := _read_some(answer):
                *lines, rest = (rest + block).split(b"\n")
                if len(rest) > LARGEST_ANSWER:
                    raise ConnectionError(f"a line of the answer has more than {LARGEST_ANSWER} bytes")
                for line in lines:
                    if line.strip():
                        yield _read_object(line)
            if rest.strip():
                yield _read_object(rest)

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
        """Send a request with `body`, JSON or blocks of bytes; the answer, whose body is not read yet."""
        if isinstance(body, Iterator):
            self._send_blocks(method, target, body, {"Transfer-Encoding": "chunked", **headers})
        else:
            content = None if body is None else json.dumps(body).encode()
            json_type = {} if content is None else {"Content-Type": "application/json"}
            self.request(method, target, content, {**json_type, **headers})
        self._answer = self.getresponse()
        return self._answer

    def _send_blocks(
        self, method: str, target: str, blocks: Iterator[bytes], headers: Mapping[str, str]
    ) -> None:
        try:
            self.request(method, target, blocks, headers, encode_chunked=True)
        except (BrokenPipeError, ConnectionResetError):
            # An engine that refuses a build reads no further; its answer says why.
            if self.sock is None:
                raise

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
    """The content of an answer that is no error."""
    if not _is_refusal(answer):
        return content
    text = content.decode("utf-8", "replace")
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    raise CallRefused(answer.status, str(told.get("message", "")) if isinstance(told, dict) else text)


def _read_whole(answer: http.client.HTTPResponse) -> bytes:
    """The body of an answer. Raises ConnectionError for one that is too large."""
    length = answer.length  # None where only its end tells
    content = answer.read(LARGEST_ANSWER + 1) if length is None else b""
    if max(len(content), length or 0) > LARGEST_ANSWER:
        raise ConnectionError(f"the answer has more than {LARGEST_ANSWER} bytes")
    return content if length is None else answer.read()


def _read_some(answer: http.client.HTTPResponse) -> bytes:
    """A part of the body that has come; empty at its end."""
    with _breaks():
        return answer.read1(_BLOCK_BYTES)


def _is_refusal(answer: http.client.HTTPResponse) -> bool:
    """Whether the status is an error; so is a redirection, which the Engine API does not have."""
    return answer.status >= HTTPStatus.MULTIPLE_CHOICES and answer.status != HTTPStatus.NOT_MODIFIED


def _read(content: bytes) -> Any:
    with _breaks():
        return json.loads(content)


def _read_object(content: bytes) -> dict[str, Any]:
    found = _read(content)
    if not isinstance(found, dict):
        raise ConnectionError(f"a line of the answer is no object: {content[:60]!r}")
    return found


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
    """The older of two versions of the API; `other` where the first is none."""

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
    return _SSL_DECORATION.sub("", words).rstrip(".")
