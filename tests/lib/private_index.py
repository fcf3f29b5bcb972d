"""A package index of tests: static, on this machine alone, behind a certificate that nobody knows."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lib.serving import serving

LOGIN = "me:hush-hush"
SETTINGS = ("PIP_", "UV_", "SSL_CERT_", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""What else could say where packages are, and whom to trust."""


class Certificates(NamedTuple):
    """Files in PEM: the authority that clients have to be told of, and a server's own with its key."""

    authority: Path
    server: Path


def make_certificates(folder: Path, address: str) -> Certificates:
    """A certificate of an IP address, and of the authority that vouches for it."""
    pytest.importorskip("cryptography")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    now = datetime.datetime.now(datetime.timezone.utc)
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("authority", "server")}
    names = {name: x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in keys}

    def signed(name: str) -> Any:
        public, is_authority = keys[name].public_key(), name == "authority"
        serial = x509.random_serial_number()
        usage = dict.fromkeys(
            "digital_signature content_commitment key_encipherment data_encipherment key_agreement "
            "key_cert_sign crl_sign encipher_only decipher_only".split(),
            False,
        )
        usage |= {"key_cert_sign": is_authority, "digital_signature": not is_authority}
        own = x509.SubjectKeyIdentifier.from_public_key(public)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(keys["authority"].public_key())
        builder = x509.CertificateBuilder(names["authority"], names[name], public, serial)
        builder = builder.not_valid_before(now - datetime.timedelta(hours=1))
        builder = builder.not_valid_after(now + datetime.timedelta(hours=1))
        builder = builder.add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        builder = builder.add_extension(x509.KeyUsage(**usage), critical=True)
        builder = builder.add_extension(own, critical=False).add_extension(issuer, critical=False)
        if not is_authority:
            place = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
            builder = builder.add_extension(place, critical=False)
        return builder.sign(keys["authority"], hashes.SHA256())

    private = keys["server"].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    made = Certificates(folder / "authority.pem", folder / "server.pem")
    made.authority.write_bytes(signed("authority").public_bytes(serialization.Encoding.PEM))
    made.server.write_bytes(private + signed("server").public_bytes(serialization.Encoding.PEM))
    return made


class PrivateIndex(NamedTuple):
    """An index, and the lines of pip.conf that lead to it."""

    url: str
    authority: Path
    requests: list[str]

    @property
    def lines(self) -> str:
        return f"[global]\nindex-url = {self.url}\ncert = {self.authority}\n"

    @property
    def with_login(self) -> str:
        return self.lines.replace("//", f"//{LOGIN}@", 1)


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, packages: Path, requests: list[str], login: str, *rest: Any) -> None:
        self.packages, self.requests, self.login = packages, requests, login
        super().__init__(*rest)

    def do_GET(self) -> None:
        self.requests.append(self.path)
        wanted = f"Basic {base64.b64encode(self.login.encode()).decode()}"
        if self.login and self.headers["Authorization"] != wanted:
            self._answer(401, b"", "text/plain")
            return
        _, kind, name, *_ = f"{self.path}//".split("/")
        if kind == "files":
            self._answer(200, (self.packages / name).read_bytes(), "application/octet-stream")
            return
        found = [
            each.name for each in self.packages.iterdir() if each.name.split("-")[0].replace("_", "-") == name
        ]
        links = "".join(f'<a href="/files/{each}">{each}</a>\n' for each in found)
        self._answer(200 if found else 404, f"<!DOCTYPE html><html><body>{links}".encode(), "text/html")

    do_HEAD = do_GET

    def _answer(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="tests"')
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def private_index(folder: Path, address: str = "127.0.0.1", login: str = "") -> Iterator[PrivateIndex]:
    """The index of `folder/packages`. Raises OSError where the address is not this machine's."""
    packages, requests = folder / "packages", list[str]()
    packages.mkdir(parents=True, exist_ok=True)
    certificates = make_certificates(folder, address)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server)
    server = ThreadingHTTPServer((address, 0), partial(_Handler, packages, requests, login))
    server.handle_error = lambda *_: None  # type: ignore[method-assign] # a client that does not trust it
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with serving(server):
        yield PrivateIndex(f"https://{address}:{server.server_port}/simple", certificates.authority, requests)


def forget_settings(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> None:
    """Take away all variables that say where packages are; files of the machine itself stay."""
    for name in environ:
        if name.startswith(SETTINGS):
            monkeypatch.delenv(name)
