"""What the service, or the way to it, says no with: in its own words, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from vtrain.backends.vertex.credentials import refused_credentials
from vtrain.backends.vertex.envelope import Detail, ErrorBody, read_envelope
from vtrain.backends.vertex.retries import is_unreachable, is_without_token
from vtrain.errors import (
    ConflictError,
    CredentialsError,
    NotFoundError,
    ServiceAwayError,
    ServiceBusyError,
    ServiceError,
    VtrainError,
)

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
    """What to do about errors of a status (empty: any) whose text matches; `{0}` is the first group."""

    status: str
    pattern: str
    hint: str


_ADVICE = (
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
        r"([a-z]+\.[A-Za-z]+\.[a-z][A-Za-z]+)",
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


def translate(error: Exception, endpoint: str) -> VtrainError | None:
    """An exception of the library or its transport as ours; None for one that is neither's."""
    import requests
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError, InvalidOperation
    from urllib3.exceptions import LocationParseError

    if isinstance(error, GoogleAPICallError):
        return _refusal(error)
    if is_without_token(error):
        return ServiceAwayError(f"No token could be had: {_innermost(error)}.")
    if isinstance(error, InvalidOperation):
        return CredentialsError(
            "The service wants credentials, and none are sent (auth/disable_credentials is true).",
            hint="Unset CLOUDSDK_AUTH_DISABLE_CREDENTIALS, or set it to false.",
        )
    if isinstance(error, GoogleAuthError):
        return refused_credentials(error)
    if isinstance(error, requests.RequestException | LocationParseError):
        return _no_answer(error, endpoint)
    return None


def _refusal(error: Exception) -> VtrainError:
    """The service's own refusal, from the envelope of its answer."""
    answer = getattr(error, "response", None)
    content = answer.content if answer is not None else b""
    body = read_envelope(content) or ErrorBody(message=str(error))
    code = int(body.code or getattr(error, "code", 0) or 0)
    known = body.status or _STATUSES.get(code, "")
    found = _CLASSES.get(known, ServiceError)
    advice = _advise(known, content.decode("utf-8", "replace") or body.message)
    return found(f"{known or code}: {_worded(body.message, body.details)}", hint=advice)


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


def _no_answer(error: Exception, endpoint: str) -> VtrainError:
    import requests
    from urllib3.exceptions import LocationParseError

    hint = "Check the network, proxies and CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM."
    if isinstance(error, requests.exceptions.SSLError):
        return ServiceError(f"{endpoint} does not speak TLS as it should: {_innermost(error)}.", hint=hint)
    if isinstance(error, requests.exceptions.InvalidProxyURL | requests.exceptions.InvalidSchema):
        return ServiceError(f"The proxy to {endpoint} cannot be used: {_innermost(error)}.", hint=hint)
    if isinstance(error, requests.exceptions.InvalidURL | LocationParseError):
        return ServiceError(f"{endpoint} is not the address of a service.", hint=hint)
    if isinstance(error, requests.TooManyRedirects):
        return ServiceError(f"{endpoint} answers with redirects that lead nowhere.", hint=hint)
    if isinstance(error, requests.exceptions.ContentDecodingError):
        return ServiceAwayError(f"{endpoint} answered with what cannot be unpacked.", hint=hint)
    if is_unreachable(error) or isinstance(error, requests.ConnectTimeout):
        return ServiceAwayError(f"Cannot connect to {endpoint}: {_innermost(error)}.", hint=hint)
    if isinstance(error, requests.Timeout):
        return ServiceAwayError(f"{endpoint} did not answer in time.", hint=hint)
    return ServiceAwayError(f"{endpoint} closed the connection without an answer.", hint=hint)


def _innermost(error: BaseException) -> str:
    """The reason at the bottom of a chain of exceptions, without addresses of objects."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    strerror = getattr(error, "strerror", None)
    return str(strerror or error).rstrip(".")
