"""What Cloud Storage answers when it does not do what was asked, as a sentence and a command."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from vtrain.errors import CredentialsError, StorageError

Mend = Callable[[str], Mapping[int, str]]
"""The commands that help with a bucket, by HTTP status."""

_WHAT = {
    401: "does not accept the credentials",
    403: "is not open to you",
    404: "does not exist",
    412: "is written by somebody else",
    429: "is asked too often",
}
_LOGIN = "gcloud auth application-default login"


@contextmanager
def refused(
    what: str, mend: Mapping[int, str], *, passing: type[Exception] | tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Turn the client's exceptions into a StorageError about `what`, but for those of `passing`.

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
        raise _by_cause(what, error.cause, mend) from error
    except GoogleAuthError as error:
        raise CredentialsError(f"No access token can be had: {_short(error)}.", hint=f"$ {_LOGIN}") from error
    except DataCorruption as error:
        raise StorageError(f"{what} arrived damaged.", hint="Run the command again.") from error
    except OSError as error:
        raise _by_cause(what, error, mend) from error


def _by_cause(what: str, cause: BaseException | None, mend: Mapping[int, str]) -> StorageError:
    """The last of several failures. What the file system refused has a name of its own."""
    if isinstance(cause, OSError) and cause.filename is not None:
        return StorageError(f"Cannot read {cause.filename}: {cause.strerror}.")
    if getattr(cause, "response", None) is not None:
        return _by_status(what, cause, mend)
    place = urlsplit(str(getattr(getattr(cause, "request", None), "url", "")))
    where = f" at {place.scheme}://{place.netloc}" if place.netloc else ""
    return StorageError(
        f"Cloud Storage cannot be reached{where}: {_system_reason(cause)}.",
        hint="Look at the network and the proxy, and run the command again.",
    )


def _system_reason(cause: BaseException | None) -> str:
    """What the system says, out of the several layers of words around it."""
    found = re.search(r"\[Errno -?\d+\] ([^'\")]+)", str(cause))
    return found[1] if found else _short(cause)


def _by_status(what: str, error: Any, mend: Mapping[int, str]) -> StorageError:
    response = error.response
    code = int(response.status_code) if response is not None else int(error.code)
    command = {401: _LOGIN, **mend}.get(code, "")
    reason = "" if code == 404 else f": {_reason(error)}"
    return StorageError(
        f"{what} {_WHAT.get(code, 'is refused')}{reason}.", hint=f"$ {command}" if command else ""
    )


def _reason(error: Any) -> str:
    """What the service says of its refusal, or the name of the status where it says nothing."""
    try:
        message = error.response.json()["error"]["message"]
    except (AttributeError, KeyError, TypeError, ValueError):
        message = getattr(error.response, "reason", "") or error
    return _short(message)


def _short(message: object) -> str:
    """On one line, without a full stop."""
    return " ".join(str(message).split())[:300].rstrip(".")
