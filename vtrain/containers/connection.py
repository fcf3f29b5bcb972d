"""A socket to a Docker engine, whatever lies between: a path, TCP, TLS, or a command over SSH."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from vtrain.containers.address import PLAIN_PORT, TLS_PORT, EngineAddress

if TYPE_CHECKING:
    import ssl

SSH_CONNECT_SECONDS = 15
COMPLAINT_SECONDS = 1.0
"""How long ssh gets to say why it closed the connection."""
_SSH_OPTIONS = ("-T", "-o", f"ConnectTimeout={SSH_CONNECT_SECONDS}")
_ANSWER_LIMIT = 64 * 1024


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
    with open_connection(address, timeout) as connection:
        try:
            connection.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            answer = _read_answer(connection)
        except ConnectionError as error:
            words = connection.complaint() if isinstance(connection, SshConnection) else ""
            raise (ConnectionError(words) if words else error) from error
    return _api_version(answer)


def _api_version(answer: bytes) -> str:
    """What a whole answer to /_ping says. Raises ConnectionError where it is not that of an engine."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    if not status.startswith("HTTP/1."):
        raise ConnectionError("what answers there is no Docker engine")
    code = status.split(" ")[1]
    words = " ".join(body.decode("utf-8", "replace").split())
    fields = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
    is_page = "html" in fields.get("content-type", "") or words.startswith("<")
    if is_page or code == "404":
        raise ConnectionError(f"what answers there is no Docker engine (HTTP {code})")
    if code != "200":
        raise ConnectionError(words or status)
    return fields.get("api-version", "")


def _read_answer(connection: socket.socket) -> bytes:
    answer = b""
    while len(answer) < _ANSWER_LIMIT and (block := connection.recv(4096)):
        answer += block
    if not answer:
        raise ConnectionError("it closed the connection")
    return answer


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
        """What ssh said when it ended; empty while it runs."""
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
    """Docker's three files: ca.pem, cert.pem, key.pem; each may be missing."""
    import ssl

    folder = Path(address.tls_folder) if address.tls_folder else None
    authority = folder / "ca.pem" if folder else None
    context = ssl.create_default_context(
        cafile=os.fspath(authority) if authority and authority.exists() else None
    )
    if not address.tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if folder and (folder / "cert.pem").exists():
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context
