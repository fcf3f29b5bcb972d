"""The certificate by which clients take this machine for Google's hosts, if they trust it.

It is one signature of a key that lives as long as the server, by ECDSA over P-256 (FIPS 186-5, SEC 1). The
library for that would take 11 MB and 0.1 s of every start, of the emulator and of each job's storage.
"""

from __future__ import annotations

import os
import secrets
import ssl
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from pathlib import Path

import certifi

from vtrain.atomic import publish_file
from vtrain.https_proxy import BUNDLE_VARIABLES, leading_here

HOSTS = ("*.googleapis.com", "localhost")
VALID = timedelta(days=365)
_CLOCK_SLACK = timedelta(days=1)
"""The certificate is valid so long before it is made, for clients whose clocks are slow."""
_READABLE = 0o644

Point = tuple[int, int]
_PRIME = 2**256 - 2**224 + 2**192 + 2**96 - 1
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_BASE = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
"""P-256: y² = x³ - 3x + b over the integers modulo `_PRIME`, with a base point of the order `_ORDER`."""
_INTEGER, _BITS, _OCTETS, _OBJECT, _TEXT, _TIME, _SEQUENCE, _SET = 2, 3, 4, 6, 12, 23, 48, 49
"""Tags of DER (ITU-T X.690)."""
_TRUE = b"\x01\x01\xff"


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
    """A private key and its self-signed certificate for the hosts of Google's APIs, in PEM (RFC 5280)."""
    private = _random()
    public = _bits(b"\x04" + b"".join(number.to_bytes(32, "big") for number in _times(private)))
    curve = _oid("2a8648ce3d030107")
    algorithm = _der(_SEQUENCE, _oid("2a8648ce3d040302"))  # ecdsa-with-SHA256
    name = _der(_SEQUENCE, _der(_SET, _der(_SEQUENCE, _oid("550403"), _der(_TEXT, b"vtrain emulator"))))
    now = datetime.now(timezone.utc)
    times = (f"{moment:%y%m%d%H%M%SZ}".encode() for moment in (now - _CLOCK_SLACK, now + VALID))
    key_id = sha256(public).digest()[:20]
    hosts = (_der(0x82, host.encode()) for host in HOSTS)
    extensions = (
        _extension("551d11", _der(_SEQUENCE, *hosts)),  # the names that it is for
        _extension("551d13", _der(_SEQUENCE, _TRUE, _integer(0)), _TRUE),  # an authority, of no other one
        # Python checks these since 3.13: the key signs certificates, and messages of TLS.
        _extension("551d0f", _bits(b"\x84", unused=2), _TRUE),
        _extension("551d0e", _der(_OCTETS, key_id)),
        _extension("551d23", _der(_SEQUENCE, _der(0x80, key_id))),
    )
    content = _der(
        _SEQUENCE,
        _der(0xA0, _integer(2)),  # version 3
        _integer(secrets.randbits(158) + 1),
        algorithm,
        name,
        _der(_SEQUENCE, *(_der(_TIME, moment) for moment in times)),
        name,
        _der(_SEQUENCE, _der(_SEQUENCE, _oid("2a8648ce3d0201"), curve), public),
        _der(0xA3, _der(_SEQUENCE, *extensions)),
    )
    certificate = _der(_SEQUENCE, content, algorithm, _bits(_signature(content, private)))
    secret = _der(_OCTETS, private.to_bytes(32, "big"))
    key = _der(_SEQUENCE, _integer(1), secret, _der(0xA0, curve), _der(0xA1, public))
    in_pem = ssl.DER_cert_to_PEM_cert(key).replace("CERTIFICATE", "EC PRIVATE KEY")
    return in_pem.encode(), ssl.DER_cert_to_PEM_cert(certificate).encode()


def _signature(content: bytes, private: int) -> bytes:
    """The signature of ECDSA."""
    once = _random()
    first = _times(once)[0] % _ORDER
    digest = int.from_bytes(sha256(content).digest(), "big")
    second = pow(once, -1, _ORDER) * (digest + first * private) % _ORDER
    return _der(_SEQUENCE, _integer(first), _integer(second))


def _random() -> int:
    return secrets.randbelow(_ORDER - 1) + 1


def _times(number: int) -> Point:
    """So many times the base point. How long it takes tells nobody anything: each number is used once."""
    found: Point | None = None
    power = _BASE
    while number:
        if number & 1:
            found = power if found is None else _sum(found, power)
        power = _sum(power, power)
        number >>= 1
    assert found is not None
    return found


def _sum(one: Point, other: Point) -> Point:
    """The sum of two points of the curve; they are not opposite, as their multiples are below the order."""
    if one == other:
        slope = (3 * one[0] ** 2 - 3) * pow(2 * one[1], -1, _PRIME)
    else:
        slope = (other[1] - one[1]) * pow(other[0] - one[0], -1, _PRIME)
    x = (slope**2 - one[0] - other[0]) % _PRIME
    return x, (slope * (one[0] - x) - one[1]) % _PRIME


def _der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    octets = size.to_bytes((size.bit_length() + 7) // 8, "big")
    length = bytes([size]) if size < 128 else bytes([0x80 | len(octets)]) + octets
    return bytes([tag]) + length + content


def _integer(number: int) -> bytes:
    return _der(_INTEGER, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def _bits(content: bytes, unused: int = 0) -> bytes:
    return _der(_BITS, bytes([unused]), content)


def _oid(text: str) -> bytes:
    return _der(_OBJECT, bytes.fromhex(text))


def _extension(oid: str, value: bytes, critical: bytes = b"") -> bytes:
    return _der(_SEQUENCE, _oid(oid), critical, _der(_OCTETS, value))
