"""The client of Cloud Storage: its address, credentials and deadlines, and its refusals as errors."""

from __future__ import annotations

import base64
import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from vtrain.errors import CredentialsError, StorageError, UnavailableError
from vtrain.extras import install_command
from vtrain.properties import STOPPED_HINT, endpoint_override, is_loopback

if TYPE_CHECKING:
    from google.api_core.retry import Retry
    from google.auth.credentials import Credentials
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import AuthorizedSession
    from google.cloud.storage import Client

MEBIBYTE = 1024 * 1024
EMULATOR = "STORAGE_EMULATOR_HOST"
NO_SIDE_REQUESTS = "DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"
"""The library's switch against describing each bucket in the background, for traces that nobody records."""

CONTENT_TYPE = "application/octet-stream"
Mend = Callable[[str], Mapping[int, str]]
"""The commands that help with a bucket, by HTTP status."""

_WHAT = {
    401: "does not accept the credentials",
    403: "is not open to you",
    404: "does not exist",
    412: "is written by somebody else",
    429: "is asked too often",
}
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a disk that takes no more: libraries pass them through among those of the network."""
_UNUSABLE = (AttributeError, KeyError, TypeError, ValueError)
"""Errors of the library on an answer with 200 that has another shape than the service's."""
_LOGIN = "gcloud auth application-default login"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a transfer. Times are seconds; a request that fails is repeated at growing intervals.

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
        may_pass = DEFAULT_RETRY._predicate
        return waits.with_timeout(self.give_up_after).with_predicate(
            lambda error: may_pass(error) and not _has_stopped(error)
        )


def storage_credentials(find: Callable[[], Credentials]) -> Credentials:
    """The credentials for Cloud Storage: those that `find` returns, or anonymous ones for an emulator.

    Raises UnavailableError where the library is not installed, and what `find` raises.
    """
    try:
        import google.cloud.storage  # noqa: F401 - whether it is there
        from google.auth.credentials import AnonymousCredentials
    except ImportError as error:
        raise UnavailableError(
            "Cloud Storage needs packages that are not installed.", hint=f"$ {install_command('vertex')}"
        ) from error
    return AnonymousCredentials() if os.environ.get(EMULATOR) else find()


def open_client(project: str, credentials: Credentials) -> Client:
    """A client for Cloud Storage, or for what `STORAGE_EMULATOR_HOST` or gcloud's property names instead."""
    from google.cloud.storage import Client

    from vtrain.http_session import authorized_session

    os.environ.setdefault(NO_SIDE_REQUESTS, "true")
    endpoint = _endpoint(os.environ.get(EMULATOR, "") or endpoint_override("storage"))
    return Client(
        project=project or None,
        credentials=credentials,
        client_options={"api_endpoint": endpoint} if endpoint else None,
        # The one way to give the client a session, and with it deadlines; the library calls it private.
        _http=authorized_session(credentials),
    )


def _endpoint(text: str) -> str:
    """An address as the client wants it: with a scheme, and without the path that gcloud has in it."""
    bare = text.rstrip("/").removesuffix("/storage/v1")
    return bare if not bare or "://" in bare else f"http://{bare}"


class SimpleUploader:
    """Sends content in one request each, over connections that several threads share."""

    # The library has no call for it. It wraps a small file in a multipart body, which copies it twice here,
    # and is taken apart again there: with several files at a time that keeps a machine's processors busy.

    def __init__(self, session: AuthorizedSession, endpoint: str, settings: Settings) -> None:
        self._session = session
        self._endpoint = endpoint
        self._settings = settings

    def send(self, bucket: str, name: str, content: bytes, generation: int) -> int:
        """Put content in place of that generation (0: of nothing); the generation that it is now.

        Repeating is safe, for what is replaced is named. Raises what the library raises.
        """
        from google_crc32c import Checksum

        checksum = base64.b64encode(Checksum(content).digest()).decode("ascii")

        def post() -> int:
            response = self._session.post(
                f"{self._endpoint}/upload/storage/v1/b/{bucket}/o",
                params={"uploadType": "media", "name": name, "ifGenerationMatch": str(generation)},
                data=content,
                headers={"Content-Type": CONTENT_TYPE, "X-Goog-Hash": f"crc32c={checksum}"},
                timeout=self._settings.timeout,
            )
            if not response.ok:
                from google.api_core.exceptions import from_http_response

                raise from_http_response(response)
            return int(response.json()["generation"])

        generation_now: int = self._settings.retry()(post)()
        return generation_now


@contextmanager
def refused(
    what: str, mend: Mapping[int, str], *, passing: type[Exception] | tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Turn the client's exceptions, except those of `passing`, into a StorageError about `what`.

    `mend` holds the command that helps, by HTTP status.
    """
    from google.api_core.exceptions import GoogleAPICallError, RetryError
    from google.auth.exceptions import GoogleAuthError
    from google.resumable_media import DataCorruption

    try:
        yield
    except passing:
        raise
    except GoogleAPICallError as error:
        raise _by_status(what, error, mend) from error
    except RetryError as error:
        if isinstance(error.cause, GoogleAuthError):
            raise _no_token(error.cause) from error
        raise _by_cause(what, error.cause, mend) from error
    except GoogleAuthError as error:
        raise _no_token(error) from error
    except DataCorruption as error:
        raise StorageError(f"{what} arrived damaged.", hint="Run the command again.") from error
    except OSError as error:
        raise _by_cause(what, error, mend) from error
    except _UNUSABLE as error:
        raise StorageError(
            f"{what}: the answer is not one of Cloud Storage ({type(error).__name__}: {_short(error)}).",
            hint="Look at the proxy, which may ask for a sign-in, and run the command again.",
        ) from error


def _no_token(error: GoogleAuthError) -> CredentialsError:
    from requests import Timeout

    from vtrain import http_session

    if error.args and isinstance(error.args[0], Timeout):
        return CredentialsError(
            "No access token can be had: the token service did not answer within "
            f"{http_session.TOKEN_SECONDS:g} s.",
            hint="Check the network, the proxy and the token service that the credentials name.",
        )
    return CredentialsError(f"No access token can be had: {_short(error)}.", hint=f"$ {_LOGIN}")


def _has_stopped(error: BaseException | None) -> bool:
    """Whether nobody listens at an address of this machine: no service of Google's is there."""
    url = str(getattr(getattr(error, "request", None), "url", ""))
    while error is not None and not isinstance(error, ConnectionRefusedError):
        error = error.__cause__ or error.__context__
    return error is not None and is_loopback(urlsplit(url).hostname or "")


def _by_cause(what: str, cause: BaseException | None, mend: Mapping[int, str]) -> StorageError:
    """The error for the last of several failures. One of the file system names its file."""
    if isinstance(cause, OSError) and cause.filename is not None:
        return StorageError(f"Cannot read {cause.filename}: {cause.strerror}.")
    if isinstance(cause, OSError) and cause.errno in _FULL:
        return StorageError(f"Cannot write the copy of {what}: {cause.strerror}.", hint="Free some space.")
    if getattr(cause, "response", None) is not None:
        return _by_status(what, cause, mend)
    place = urlsplit(str(getattr(getattr(cause, "request", None), "url", "")))
    address = f"{place.scheme}://{place.netloc.rpartition('@')[2]}"
    if _has_stopped(cause):
        return StorageError(f"The emulator of Cloud Storage at {address} has stopped.", hint=STOPPED_HINT)
    where = f" at {address}" if place.netloc else ""
    return StorageError(
        f"Cloud Storage cannot be reached{where}: {_system_reason(cause)}.",
        hint="Look at the network and the proxy, and run the command again.",
    )


def _system_reason(cause: BaseException | None) -> str:
    """The words of the operating system, without those of the libraries around them."""
    found = re.search(r"\[Errno -?\d+\] ([^'\")]+)", str(cause))
    return found[1] if found else _short(cause)


def _by_status(what: str, error: Any, mend: Mapping[int, str]) -> StorageError:
    response = error.response
    code = int(response.status_code) if response is not None else int(error.code)
    command = {401: _LOGIN, **mend}.get(code, "")
    reason = "" if code == 404 else f": {_reason(error)}"
    return StorageError(
        f"{what} {_WHAT.get(code, 'is refused')}{reason}.",
        hint=f"$ {command}" if command else "",
        http_status=code,
    )


def _reason(error: Any) -> str:
    """The service's own message, or the name of the status where it sent none."""
    try:
        message = error.response.json()["error"]["message"]
    except (AttributeError, KeyError, TypeError, ValueError):
        message = getattr(error.response, "reason", "") or error
    return _short(message)


def _short(message: object) -> str:
    """On one line, without a full stop."""
    return " ".join(str(message).split())[:300].rstrip(".")
