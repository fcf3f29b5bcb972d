"""The certificate by which clients take this machine for Google's hosts, if they trust it."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import certifi

from vtrain.atomic import publish_file
from vtrain.https_proxy import BUNDLE_VARIABLES, leading_here

if find_spec("cryptography") is None:  # which the program that signs needs
    raise ModuleNotFoundError("No module named 'cryptography'", name="cryptography")

_READABLE = 0o644
_KEPT_SECONDS = 180 * 24 * 3600
"""A certificate serves so long; it is valid for twice that. Signing takes a third of the CPU of a start."""
_BEGIN = b"-----BEGIN CERTIFICATE-----"


def server_tls(key: Path, bundle: Path) -> ssl.SSLContext:
    """The server's side of TLS, with the key and the certificate of a private file, made if it is missing.

    It writes `bundle`, which has what clients are to trust: the certificate, and those that they would trust
    without it. gRPC offers h2 alone, and gets it; all others get HTTP/1.1. Raises OSError.
    """
    if not (key.exists() and time.time() - key.stat().st_mtime < _KEPT_SECONDS):
        program = Path(__file__).with_name("sign_certificate.py")
        publish_file(
            key, subprocess.run([sys.executable, program], stdout=subprocess.PIPE, check=True).stdout
        )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1", "h2"])
    made = b""
    while made != key.read_bytes():  # another server has made it anew meanwhile
        made = key.read_bytes()
        context.load_cert_chain(key)
    publish_file(bundle, b"\n".join([*_trusted(), made[made.index(_BEGIN) :]]), _READABLE)
    return context


def _trusted() -> list[bytes]:
    """The certificates that the user's programs trust: those of the variables, and those of the machine."""
    named = [os.environ.get(name) for name in BUNDLE_VARIABLES if name not in leading_here()]
    paths = map(Path, filter(None, [*named, ssl.get_default_verify_paths().cafile or certifi.where()]))
    return [path.read_bytes() for path in dict.fromkeys(paths) if path.is_file()]
