"""What is asked again: requests that were refused for the moment, or whose answer was lost on the way.

Five attempts in all, with back-off and jitter, in about half a minute. Reading, cancelling and deleting may
be repeated even when the first request was carried out: the second finds what the first one left. A create
and a reboot may not (`lost_create`): only a request that certainly was not carried out is made again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from requests import Response

T = TypeVar("T")
Again = Callable[[Exception], None]
"""Hears of each failure after which the same request is made again."""

ATTEMPTS = 5
FIRST_PAUSE = 1.5
"""Seconds before the second attempt; every further pause is twice as long."""
LONGEST_PAUSE = 16.0
_TRANSIENT = (500, 502, 503, 504)
_LASTING_QUOTA = ("exceed quota limits", "custom_model_training")


class Trouble(Enum):
    """What a failed request may have done."""

    REFUSED = "refused: asking again gets the same answer"
    NOT_DONE = "not carried out: asking again is safe"
    LOST = "carried out or not: the answer does not tell"


def trouble_of(error: Exception) -> Trouble:
    """What an exception of the library, of `requests` or of google-auth says about the request."""
    import requests
    from google.api_core.exceptions import GoogleAPICallError

    if isinstance(error, GoogleAPICallError):
        return _trouble_of_status(error)
    if is_without_token(error) or isinstance(error, requests.ConnectTimeout):
        return Trouble.NOT_DONE
    if isinstance(error, requests.exceptions.SSLError):
        return Trouble.REFUSED
    if isinstance(error, requests.ConnectionError):
        return Trouble.NOT_DONE if is_unreachable(error) else Trouble.LOST
    broken = requests.exceptions.ChunkedEncodingError | requests.exceptions.ContentDecodingError
    return Trouble.LOST if isinstance(error, requests.Timeout | broken) else Trouble.REFUSED


def is_without_token(error: Exception) -> bool:
    """Whether those who give tokens could not be asked, or cannot answer, so that nothing was sent."""
    from google.auth.exceptions import GoogleAuthError, TransportError

    return isinstance(error, TransportError) or (isinstance(error, GoogleAuthError) and error.retryable)


def is_unreachable(error: Exception) -> bool:
    """Whether no connection was made at all, so that nothing can have been sent."""
    import requests
    from urllib3.exceptions import NewConnectionError

    if isinstance(error, requests.exceptions.ProxyError):
        return True
    reason = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(reason, NewConnectionError)


def repeat(call: Callable[[], T], *, may_repeat: Callable[[Trouble], bool], again: Again) -> T:
    """The answer to the call, made again while it fails in a way that may be repeated.

    Raises what the last attempt raised.
    """
    for pause in pauses():
        try:
            return call()
        except Exception as error:  # whatever is no trouble of the network or the service is raised again
            if not may_repeat(trouble_of(error)) or asked_to_stay_away(error):
                raise
            again(error)
            wait(pause, error)
    return call()


def pauses() -> Iterator[float]:
    """The pauses between attempts, in seconds."""
    for number in range(ATTEMPTS - 1):
        longest: float = min(FIRST_PAUSE * 2**number, LONGEST_PAUSE)
        yield longest * random.uniform(0.7, 1.3)


def wait(pause: float, error: Exception) -> None:
    """Wait that long, or as long as the service asked for."""
    time.sleep(max(pause, seconds_asked(getattr(error, "response", None))))


def asked_to_stay_away(error: Exception) -> bool:
    """Whether the service asks for a longer pause than anybody wants to sit through."""
    return seconds_asked(getattr(error, "response", None)) > LONGEST_PAUSE


def seconds_asked(response: Response | None) -> float:
    """How long a service asks to be left alone (`Retry-After`); 0 where it does not."""
    text = response.headers.get("Retry-After", "") if response is not None else ""
    return float(text) if text.isdecimal() else 0.0


def _trouble_of_status(error: Exception) -> Trouble:
    code = getattr(error, "code", None)
    if code == 429 and not any(words in str(error) for words in _LASTING_QUOTA):
        return Trouble.NOT_DONE
    return Trouble.LOST if code in _TRANSIENT else Trouble.REFUSED
