"""The certificate of the emulator: what OpenSSL, which other clients have too, says about it."""

from __future__ import annotations

import ssl
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("certifi", reason="needs the extra emulator")

from vtrain.emulator.certificate import server_tls


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
    key, bundle = tmp_path / "key.pem", tmp_path / "trusted.pem"
    server = server_tls(key, bundle)
    client = ssl.create_default_context(cafile=str(bundle))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    agree(server, client, host)


def test_servers_that_start_together_each_have_the_certificate_that_their_clients_get(tmp_path: Path) -> None:
    bundles = [tmp_path / f"{number}.pem" for number in range(4)]
    with ThreadPoolExecutor(len(bundles)) as pool:
        servers = pool.map(lambda bundle: server_tls(tmp_path / "key.pem", bundle), bundles)
        for server, bundle in zip(servers, bundles, strict=True):
            agree(server, ssl.create_default_context(cafile=str(bundle)), "localhost")


def test_it_is_for_no_other_host_and_of_no_other_key(tmp_path: Path) -> None:
    key, bundle, other = tmp_path / "key.pem", tmp_path / "trusted.pem", tmp_path / "other.pem"
    server = server_tls(key, bundle)
    with pytest.raises(ssl.SSLCertVerificationError, match="ostname mismatch"):
        agree(server, ssl.create_default_context(cafile=str(bundle)), "example.com")
    server_tls(tmp_path / "other_key.pem", other)
    with pytest.raises(ssl.SSLCertVerificationError):
        agree(server, ssl.create_default_context(cafile=str(other)), "localhost")


def test_without_the_library_that_signs_the_emulator_names_it(
    vtrain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra `dashboard` brings all that the emulator imports, but not this."""
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for name in ("server", "certificate"):
        monkeypatch.delitem(sys.modules, f"vtrain.emulator.{name}", raising=False)
    ended = vtrain("emulator", "exec", "--", "true")
    assert ended.code == 1
    assert "The emulator needs cryptography, which is not installed." in ended.err
