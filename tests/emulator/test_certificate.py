"""The certificate of the emulator: what OpenSSL, which other clients have too, says about it."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

pytest.importorskip("certifi", reason="needs the extra emulator")

from vtrain.emulator.certificate import make_certificate, server_tls

SELF_SIGNED_TOO = 0x4000
"""X509_V_FLAG_CHECK_SS_SIGNATURE: verify the signature of a certificate that is trusted, too."""


def agree(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """Shake hands in memory. Raises ssl.SSLError."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        server.wrap_bio(there, back, server_side=True),
        client.wrap_bio(back, there, server_hostname=host),
    ]
    for turn in range(6):
        try:
            ends[(turn + 1) % 2].do_handshake()
        except ssl.SSLWantReadError:
            continue


@pytest.mark.parametrize("host", ["storage.googleapis.com", "localhost"])
def test_clients_that_check_all_take_it(tmp_path: Path, host: str) -> None:
    for number in range(20):
        key = tmp_path / f"{number}.pem"
        private, certificate = make_certificate()
        key.write_bytes(private + certificate)
        server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        server.load_cert_chain(key)
        client = ssl.create_default_context(cadata=certificate.decode())
        client.verify_flags |= ssl.VERIFY_X509_STRICT | SELF_SIGNED_TOO
        agree(server, client, host)


def test_it_is_for_no_other_host_and_no_other_key_has_signed_it(tmp_path: Path) -> None:
    key, bundle = tmp_path / "key.pem", tmp_path / "trusted.pem"
    server = server_tls(key, bundle)
    with pytest.raises(ssl.SSLCertVerificationError, match="ostname mismatch"):
        agree(server, ssl.create_default_context(cafile=str(bundle)), "example.com")
    other = make_certificate()[1].decode()
    with pytest.raises(ssl.SSLCertVerificationError):
        agree(server, ssl.create_default_context(cadata=other), "localhost")


def test_a_changed_signature_is_noticed(tmp_path: Path) -> None:
    private, certificate = make_certificate()
    der = bytearray(ssl.PEM_cert_to_DER_cert(certificate.decode()))
    der[-1] ^= 1
    key = tmp_path / "key.pem"
    changed = ssl.DER_cert_to_PEM_cert(bytes(der))
    key.write_bytes(private + changed.encode())
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(key)
    client = ssl.create_default_context(cadata=changed)
    client.verify_flags |= SELF_SIGNED_TOO
    with pytest.raises(ssl.SSLCertVerificationError):
        agree(server, client, "localhost")
