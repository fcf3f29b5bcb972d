"""Ways to a real engine for tests: TCP and TLS ports that pass everything on, and an `ssh` that does."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_SSH = """#!{python}
import os, socket, sys, threading
with open({record!r}, "w") as record:
    record.write(" ".join(sys.argv[1:]))
if "unknown" in sys.argv:
    sys.exit("ssh: Could not resolve hostname unknown: Name or service not known")
engine = socket.socket(socket.AF_UNIX)
engine.connect({path!r})
def send():
    while block := os.read(0, 65536):
        engine.sendall(block)
    os._exit(0)
threading.Thread(target=send, daemon=True).start()
while block := engine.recv(65536):
    os.write(1, block)
"""


@contextmanager
def relay(
    path: str,
    context: ssl.SSLContext | None = None,
    limit: int = 0,
    about: bytes = b"",
    host: str = "127.0.0.1",
) -> Iterator[int]:
    """The loopback port of a relay to the socket at `path`.

    With `limit`, lines break after as many bytes, but for those whose first request has not `about` in it.
    """
    with socket.create_server((host, 0)) as server:
        threading.Thread(target=_accept, args=(server, path, context, limit, about), daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def make_ssh(folder: Path, path: str) -> Path:
    """A program `ssh` in `folder` that reaches the socket at `path`; the file where its arguments appear."""
    record = folder / "ssh-arguments"
    program = folder / "ssh"
    program.write_text(_SSH.format(python=sys.executable, record=str(record), path=path))
    program.chmod(0o755)
    return record


def make_certificates(folder: Path) -> ssl.SSLContext:
    """ca.pem, cert.pem, key.pem in `folder`, good for both ends; the context of a server that wants them."""
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test"
    )
    files = [
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-keyout",
        folder / "key.pem",
        "-out",
        folder / "ca.pem",
    ]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    (folder / "cert.pem").write_bytes((folder / "ca.pem").read_bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    context.load_verify_locations(folder / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _accept(
    server: socket.socket, path: str, context: ssl.SSLContext | None, limit: int, about: bytes
) -> None:
    while True:
        try:
            near, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(near, path, context, limit, about), daemon=True).start()


def _serve(near: socket.socket, path: str, context: ssl.SSLContext | None, limit: int, about: bytes) -> None:
    with near, socket.socket(socket.AF_UNIX) as far, suppress(OSError):
        client = context.wrap_socket(near, server_side=True) if context else near
        with client:
            far.connect(path)
            request = client.recv(65536)
            far.sendall(request)
            limit = limit if about in request else 0
            threading.Thread(target=_pass, args=(client, far), daemon=True).start()
            passed = 0
            while block := far.recv(65536):
                client.sendall(block[: limit - passed] if limit else block)
                passed += len(block)
                if limit and passed >= limit:
                    break
            client.shutdown(socket.SHUT_RDWR)


def _pass(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while block := source.recv(65536):
            target.sendall(block)
        target.shutdown(socket.SHUT_WR)


def path_with(folder: Path) -> str:
    """PATH with a folder before the others."""
    return f"{folder}{os.pathsep}{os.environ['PATH']}"
