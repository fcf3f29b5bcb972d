"""The program that makes a key and its certificate, for the hosts of Google's APIs, on stdout in PEM.

It is a program of its own: what it imports would stay in the memory of each server, 11 MB.
"""

from __future__ import annotations

import os
import sys

if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):  # noqa: PTH100, PTH120
    del sys.path[0]  # this folder: its modules would stand for packages of the same name

from datetime import datetime, timedelta, timezone

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOSTS = ("*.googleapis.com", "localhost")
VALID = timedelta(days=365)
_CLOCK_SLACK = timedelta(days=1)
"""The certificate is valid so long before it is made, for clients whose clocks are slow."""
_NO_USES = (
    "content_commitment key_encipherment data_encipherment key_agreement crl_sign encipher_only decipher_only"
)


def make_certificate() -> bytes:
    """A private key and its self-signed certificate."""
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
    private: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    signed: bytes = certificate.public_bytes(serialization.Encoding.PEM)
    return private + signed


if __name__ == "__main__":
    sys.stdout.buffer.write(make_certificate())
