"""The client of Cloud Storage: whom it speaks to, as whom, and how long it waits."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from vtrain.errors import UnavailableError
from vtrain.properties import endpoint_override

if TYPE_CHECKING:
    from google.api_core.retry import Retry
    from google.auth.credentials import Credentials
    from google.auth.transport.requests import AuthorizedSession
    from google.cloud.storage import Client

MEBIBYTE = 1024 * 1024
EMULATOR = "STORAGE_EMULATOR_HOST"
NO_SIDE_REQUESTS = "DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"
"""The library's switch against describing each bucket in the background, for traces that nobody records."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How files travel. Times are seconds; a request that fails is repeated at growing intervals.

    A file larger than `chunk` bytes goes in parts, so that a lost connection costs no more than one.
    """

    workers: int = 8
    chunk: int = 8 * MEBIBYTE
    timeout: float = 60.0
    first_wait: float = 1.0
    longest_wait: float = 16.0
    give_up_after: float = 120.0

    def retry(self) -> Retry:
        """On 408, 429, 500, 502, 503, 504 and lost connections; only for what is safe to repeat."""
        from google.cloud.storage.retry import DEFAULT_RETRY

        waits = DEFAULT_RETRY.with_delay(initial=self.first_wait, maximum=self.longest_wait)
        return waits.with_timeout(self.give_up_after)


def storage_credentials(find: Callable[[], Credentials]) -> Credentials:
    """Whom Cloud Storage is spoken to as: what `find` finds, and nobody where an emulator is named.

    Raises UnavailableError where the library is not installed, and what `find` raises.
    """
    try:
        import google.cloud.storage  # noqa: F401 - whether it is there
        from google.auth.credentials import AnonymousCredentials
    except ImportError as error:
        raise UnavailableError(
            "Cloud Storage needs packages that are not installed.", hint="$ pip install 'vtrain[vertex]'"
        ) from error
    return AnonymousCredentials() if os.environ.get(EMULATOR) else find()


def open_client(project: str, credentials: Credentials) -> Client:
    """A client for Cloud Storage, or for what `STORAGE_EMULATOR_HOST` or gcloud's property names instead."""
    from google.cloud.storage import Client

    from vtrain.http_adapter import BoundedAdapter

    os.environ.setdefault(NO_SIDE_REQUESTS, "true")
    endpoint = _endpoint(os.environ.get(EMULATOR, "") or endpoint_override("storage"))
    client = Client(
        project=project or None,
        credentials=credentials,
        client_options={"api_endpoint": endpoint} if endpoint else None,
    )
    for scheme in ("https://", "http://"):
        client._http.mount(scheme, BoundedAdapter())
    return client


def open_session(credentials: Credentials) -> AuthorizedSession:
    """A session for requests that the client has no call for."""
    from google.auth.transport.requests import AuthorizedSession

    return AuthorizedSession(credentials)


def _endpoint(text: str) -> str:
    """An address as the client wants it: with a scheme, and without the path that gcloud has in it."""
    bare = text.rstrip("/").removesuffix("/storage/v1")
    return bare if not bare or "://" in bare else f"http://{bare}"
