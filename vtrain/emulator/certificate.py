"""The certificate by which clients take this machine for Google's hosts, if they trust it."""

from __future__ import annotations

import os
import ssl
from datetime import datetime, timedelta, timezone
from pathlib import Path

import certifi
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from vtrain.atomic import publish_file
from vtrain.https_proxy import BUNDLE_VARIABLES, leading_here

HOSTS = ("*.googleapis.com", "localhost")
VALID = timedelta(days=365)
_CLOCK_SLACK = timedelta(days=1)
"""The certificate is valid so long before it is made, for clients whose clocks are slow."""
_READABLE = 0o644
_NO_USES = (
    "content_commitment key_encipherment data_encipherment key_agreement crl_sign encipher_only decipher_only"
)


def server_tls(key: Path, bundle: Path) -> ssl.SSLContext:
    """The server's side of TLS, with the certificate of two files, which are made unless both are there.

    `key` is private. `bundle` has what clients are to trust: the certificate, and those that they would trust
    without it. gRPC offers h2 alone, and gets it; all others get HTTP/1.1. Raises OSError.
    """
    if not (key.exists() and bundle.exists()):
        private, certificate = make_certificate()
        publish_file(key, private + certificate)
        publish_file(bundle, b"\n".join([*_trusted(), certificate]), _READABLE)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1", "h2"])
    context.load_cert_chain(key)
    return context


def _trusted() -> list[bytes]:
    """The certificates that the user's programs trust: those of the variables, and those of the machine."""
    named = [os.environ.get(name) for name in BUNDLE_VARIABLES if name not in leading_here()]
    paths = map(Path, filter(None, [*named, ssl.get_default_verify_paths().cafile or certifi.where()]))
    return [path.read_bytes() for path in dict.fromkeys(paths) if path.is_file()]


def make_certificate() -> tuple[bytes, bytes]:
    """A private key and its self-signed certificate for the hosts of Google's APIs, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "vtrain emulator")])
    now = datetime.now(timezone.utc)
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, **dict.fromkeys(_NO_USES.split(), False)
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SLACK)
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in HOSTS]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        # Python checks these since 3.13.
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private, certificate.public_bytes(serialization.Encoding.PEM)
