"""Failed requests: the service's words, the network's or google-auth's, as errors of ours with a hint."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from vtrain.backends.vertex.credentials import refused_credentials
from vtrain.errors import (
    ConflictError,
    CredentialsError,
    NotFoundError,
    ServiceAwayError,
    ServiceBusyError,
    ServiceError,
    VtrainError,
)
from vtrain.messages.secrets import masked_text
from vtrain.properties import STOPPED_HINT, is_loopback

if TYPE_CHECKING:
    from requests import Response

SHOWN_CHARACTERS = 300
"""Characters shown of an answer that is not JSON."""
_TRANSIENT = (500, 502, 503, 504)
_LASTING_QUOTA = ("exceed quota limits", "custom_model_training")
_CLASSES: dict[str, type[VtrainError]] = {
    "NOT_FOUND": NotFoundError,
    "UNAUTHENTICATED": CredentialsError,
    "ALREADY_EXISTS": ConflictError,
    "FAILED_PRECONDITION": ConflictError,
    "ABORTED": ConflictError,
    "RESOURCE_EXHAUSTED": ServiceBusyError,
    "INTERNAL": ServiceAwayError,
    "UNAVAILABLE": ServiceAwayError,
    "DEADLINE_EXCEEDED": ServiceAwayError,
}
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class Advice(msgspec.Struct, frozen=True):
    """Advice for errors of a status (empty: any) whose text matches; `{0}` is the first group."""

    status: str
    pattern: str
    hint: str


_ADVICE = (
    Advice("", "vtrain emulator env", ""),  # the emulator has said what to do, and has no roles and accounts
    Advice("", r"SERVICE_DISABLED", "Enable the API: gcloud services enable aiplatform.googleapis.com"),
    Advice(
        "",
        r"billing[^.]*(?:disabled|not enabled|enabled for)",
        "Link a billing account to the project: gcloud billing projects link PROJECT --billing-account=ID",
    ),
    Advice(
        "RESOURCE_EXHAUSTED",
        r"aiplatform\.googleapis\.com/(\w+)",
        "Ask for a higher {0} in the quotas of the project, or take another region or fewer machines.",
    ),
    Advice(
        "RESOURCE_EXHAUSTED", r"", "The service is asked too often, or a quota is used up; try again later."
    ),
    Advice(
        "PERMISSION_DENIED",
        r"actAs|serviceAccountUser",
        "To run a job as a service account, get roles/iam.serviceAccountUser on that account.",
    ),
    Advice(
        "PERMISSION_DENIED",
        r"aiplatform\.persistentResources\.(?:create|delete|update)",
        "The account needs the role roles/aiplatform.admin in this project.",
    ),
    Advice(
        "PERMISSION_DENIED",
        r"(?<![\w/.])([a-z]+\.(?!googleapis\b)[A-Za-z]+\.[a-z][A-Za-z]+)(?![\w/]|\.\w)",  # and no host
        "The account needs a role with {0}, such as roles/aiplatform.user, in this project. "
        "Is it the project and the account that you mean?",
    ),
    Advice(
        "PERMISSION_DENIED",
        r"",
        "The account needs the role roles/aiplatform.user in this project. "
        "Is it the project and the account that you mean?",
    ),
    Advice("UNAUTHENTICATED", r"", "Sign in: gcloud auth application-default login"),
    Advice("", r"(?i)resources are insufficient", "Try another region or machine type, or again later."),
    Advice(
        "INVALID_ARGUMENT",
        r"(?i)accelerator .*not supported|accelerator_type",
        "Which accelerators go with which machines, and where: https://cloud.google.com/vertex-ai/docs/training/"
        "configure-compute",
    ),
    Advice(
        "INVALID_ARGUMENT",
        r"(?i)machine[ _]type",
        "Which machine types there are, and where: https://cloud.google.com/vertex-ai/docs/training/"
        "configure-compute",
    ),
    Advice(
        "",
        r"(?i)(?:region|location)\b.*(?:not (?:supported|available|allowed)|unsupported)",
        "Give another --region; not every region offers every machine and accelerator.",
    ),
    Advice("NOT_FOUND", r"", "Is it in this project and region? Say which with --project and --region."),
)


class Trouble(Enum):
    """The effect that a failed request may have had."""

    REFUSED = "refused: asking again gets the same answer"
    NOT_DONE = "not carried out: asking again is safe"
    STOPPED = "not carried out, and nobody will: the emulator has stopped"
    LOST = "carried out or not: the answer does not tell"


NOTHING_DONE = (Trouble.NOT_DONE, Trouble.STOPPED)


class CallFailed(Exception):
    """One request failed: the error for the user, and what matters for asking again.

    `retry_after` is the pause that the service asks for, in seconds.
    """

    def __init__(self, error: VtrainError, trouble: Trouble, retry_after: float = 0.0) -> None:
        super().__init__(error.message)
        self.error = error
        self.trouble = trouble
        self.retry_after = retry_after


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """One field, and what is wrong with it."""

    field: str = ""
    description: str = ""


class Detail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One of the messages that come along with an error; most name no fields."""

    field_violations: tuple[Violation, ...] = ()


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """The error: an HTTP status, its name (`NOT_FOUND`), and the service's words."""

    code: int = 0
    status: str = ""
    message: str = ""
    details: tuple[Detail, ...] = ()


class _Envelope(msgspec.Struct, frozen=True):
    error: ErrorBody


def read_envelope(content: bytes) -> ErrorBody | None:
    """The error in an answer; None for an answer that is not the API's, such as a proxy's."""
    try:
        return msgspec.json.decode(content, type=_Envelope).error
    except (msgspec.DecodeError, RecursionError):
        return None


def refused(response: Response) -> CallFailed:
    """The failure in an answer whose status is 400 or higher."""
    code, content = response.status_code, response.content
    body = read_envelope(content) or ErrorBody(message=_without_envelope(response))
    known = body.status or _STATUSES.get(body.code or code, "")
    text = content.decode("utf-8", "replace") or body.message
    error = _CLASSES.get(known, ServiceError)(
        f"{known or code}: {_worded(body.message, body.details)}", hint=_advise(known, text), http_status=code
    )
    if code == 429 and not any(words in text for words in _LASTING_QUOTA):
        trouble = Trouble.NOT_DONE
    else:
        trouble = Trouble.LOST if code in _TRANSIENT else Trouble.REFUSED
    return CallFailed(error, trouble, seconds_asked(response))


def seconds_asked(response: Response) -> float:
    """The pause that a service asks for (`Retry-After`), in seconds; 0 where it asks for none."""
    text = response.headers.get("Retry-After", "")
    if re.fullmatch("[0-9]{1,9}", text):
        return float(text)
    until = header_time(response, "Retry-After")  # RFC 9110 has a date, too, by the clock of the service
    return max(until - (header_time(response, "Date") or time.time()), 0.0) if until else 0.0


def header_time(response: Response, header: str) -> float:
    """The date in a header, in seconds since 1970; 0 where there is none."""
    try:
        return parsedate_to_datetime(response.headers[header]).timestamp()
    except (KeyError, TypeError, ValueError, OverflowError):
        return 0.0


def _without_envelope(response: Response) -> str:
    """The words of an error that came without the API's envelope, from a proxy for instance."""
    text = f"{response.status_code} {response.reason}"
    if "html" not in response.headers.get("Content-Type", "") and response.content.strip():
        text += f": {shortened(response.content)}"
    return text


def shortened(content: bytes) -> str:
    """The beginning of an answer, on one line."""
    text = " ".join(content.decode("utf-8", "replace").split())
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def _worded(message: str, details: Sequence[Detail]) -> str:
    """The service's words; its list of errors, which TABs separate, and fields it names apart, on lines."""
    lines = [line.strip() for line in message.split("\t") if line.strip()]
    for violation in (violation for detail in details for violation in detail.field_violations):
        field, description = violation.field, violation.description
        if not any(field in line for line in lines):
            lines.append(f"{field}: {description}" if field else description)
    return "\n  ".join(lines) or "no reason is given."


def _advise(status: str, text: str) -> str:
    for advice in _ADVICE:
        match = re.search(advice.pattern, text) if advice.status in ("", status) else None
        if match is not None:
            return advice.hint.format(*match.groups())
    return ""


def unanswered(error: Exception, endpoint: str) -> CallFailed | None:
    """The failure of a request without an answer; None for another kind of exception."""
    import requests
    from google.auth.exceptions import GoogleAuthError, InvalidOperation, TransportError
    from urllib3.exceptions import LocationParseError

    from vtrain import http_session

    if isinstance(error, TransportError) or (isinstance(error, GoogleAuthError) and error.retryable):
        is_late = bool(error.args) and isinstance(error.args[0], requests.Timeout)
        late = f"the token service did not answer within {http_session.TOKEN_SECONDS:g} s"
        away = ServiceAwayError(
            f"No token could be had: {late if is_late else _innermost(error)}.",
            hint="Check the network, the proxy and the token service that the credentials name.",
        )
        return CallFailed(away, Trouble.NOT_DONE)
    if isinstance(error, InvalidOperation):
        missing = CredentialsError(
            "The service wants credentials, and none are sent (auth/disable_credentials is true).",
            hint="Unset CLOUDSDK_AUTH_DISABLE_CREDENTIALS, or set it to false.",
        )
        return CallFailed(missing, Trouble.REFUSED)
    if isinstance(error, GoogleAuthError):
        return CallFailed(refused_credentials(error), Trouble.REFUSED)
    if isinstance(error, requests.RequestException | LocationParseError):
        return _lost_request(error, endpoint)
    return None


def _lost_request(error: Exception, endpoint: str) -> CallFailed:
    """The failure of a request that `requests` could not make, or whose answer did not come."""
    from requests import exceptions
    from urllib3.exceptions import LocationParseError

    hint = "Check the network, proxies and CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM."
    shown = masked_text(endpoint, (), {})
    refusals = (
        (exceptions.SSLError, f"{shown} does not speak TLS as it should: {_innermost(error)}."),
        (
            exceptions.InvalidProxyURL | exceptions.InvalidSchema,
            f"The proxy to {shown} cannot be used: {_innermost(error)}.",
        ),
        (exceptions.InvalidURL | LocationParseError, f"{shown} is not the address of a service."),
        (exceptions.TooManyRedirects, f"{shown} answers with redirects that lead nowhere."),
    )
    for kind, message in refusals:
        if isinstance(error, kind) and not _is_cut(error):
            return CallFailed(ServiceError(message, hint=hint), Trouble.REFUSED)
    if _is_unreachable(error):
        # Nobody listens at an address of this machine: it is the emulator's.
        if is_loopback(urlsplit(endpoint).hostname or "") and isinstance(
            _root(error), ConnectionRefusedError
        ):
            stopped = ServiceAwayError(f"The emulator at {shown} has stopped.", hint=STOPPED_HINT)
            return CallFailed(stopped, Trouble.STOPPED)
        away = ServiceAwayError(f"Cannot connect to {shown}: {_innermost(error)}.", hint=hint)
        return CallFailed(away, Trouble.NOT_DONE)
    said = "closed the connection without an answer"
    if isinstance(error, exceptions.ContentDecodingError):
        said = "answered with what cannot be unpacked"
    elif isinstance(error, exceptions.Timeout):
        said = "did not answer in time"
    lost = exceptions.ConnectionError | exceptions.Timeout | exceptions.ChunkedEncodingError
    trouble = Trouble.LOST if isinstance(error, lost | exceptions.ContentDecodingError) else Trouble.REFUSED
    return CallFailed(ServiceAwayError(f"{shown} {said}.", hint=hint), trouble)


def _is_cut(error: Exception) -> bool:
    """Whether the connection ended within TLS, as that of a restarted proxy; no certificate was refused."""
    import ssl

    return isinstance(_root(error), ssl.SSLEOFError | ssl.SSLZeroReturnError)


def _is_unreachable(error: Exception) -> bool:
    """Whether no connection was made at all, so that nothing can have been sent."""
    import requests
    from urllib3.exceptions import NewConnectionError

    if isinstance(error, requests.exceptions.ProxyError | requests.ConnectTimeout):
        return True
    reason = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(error, requests.ConnectionError) and isinstance(reason, NewConnectionError)


def _innermost(error: BaseException) -> str:
    """The reason at the bottom of a chain of exceptions, without addresses of objects."""
    root = _root(error)
    return str(getattr(root, "strerror", None) or root).rstrip(".")


def _root(error: BaseException) -> BaseException:
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return error
