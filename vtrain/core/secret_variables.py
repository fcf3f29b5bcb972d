"""Secrets among the variables of a job: `--env NAME`, and what may not be sent in plain text."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from vtrain.core.compose import JobRequest
from vtrain.errors import ConfigError
from vtrain.messages.codec import to_document
from vtrain.messages.resources import Job
from vtrain.messages.secrets import MASK, plain_secrets

_KEEP = "Keep a secret in Secret Manager, and let the trainer read it as the job's --service-account."
_INSTEAD = f"{_KEEP}\nTo send it all the same, add --allow-plaintext-secrets."
MOST_NAMES = 10


def with_callers_values(
    request: JobRequest, *, local: bool, environ: Mapping[str, str] = os.environ
) -> JobRequest:
    """The request with the caller's values for `--env NAME`.

    Raises ConfigError where the job is not to run on this machine, and for a name that is not set.
    """
    if not request.env_names:
        return request
    if not local:
        name = request.env_names[0]
        raise ConfigError(
            f"--env {name}: the value of this environment is taken on local backends only.",
            hint=f"Write --env {name}=VALUE. {_KEEP}",
        )
    asked = {name: _value(name, environ) for name in request.env_names}
    return msgspec.structs.replace(request, env=request.env | asked, env_names=())


def _value(name: str, environ: Mapping[str, str]) -> str:
    value = environ.get(name)
    if value is None:
        raise ConfigError(
            f"--env {name}: {name} is not set in this environment.",
            hint=f"Set it with export {name}=…, or write --env {name}=VALUE.",
        )
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ConfigError(f"--env {name}: the value of {name} is not UTF-8.")
    return value


def check_secrets(job: Job, *, local: bool, allowed: bool, strict: bool = False) -> str:
    """A sentence about the secrets among the variables of a job that leaves this machine; else empty.

    There is none where they are `allowed`. Raises ConfigError for them if `strict`; and for a value that was
    masked when the job was printed, wherever the job runs.
    """
    found = list(plain_secrets(to_document(job)))
    for path, name, secret in found:
        if secret == MASK:
            raise ConfigError(
                f"{path}: {name} was masked when this job was printed.",
                hint=f"Write its value in place of {MASK}, or give it with --env {name}.",
            )
    if local or allowed or not found:
        return ""
    names = list(dict.fromkeys(name for _, name, _ in found))
    said = f"{_listed(names)}, and anyone who may see the job can read its variables."
    if strict:
        raise ConfigError(said, hint=_INSTEAD)
    return f"{said} --allow-plaintext-secrets silences this warning."


def _listed(names: list[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} looks like a secret"
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more} look like secrets"
