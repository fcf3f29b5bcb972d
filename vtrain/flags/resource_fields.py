"""Flags with one meaning in every `create`: labels, the encryption key, the service account."""

from __future__ import annotations

import re
from typing import Any

from vtrain.errors import ConfigError, UsageError
from vtrain.flags.grammar import join_dicts
from vtrain.flags.options import ResourceFlags
from vtrain.messages.rules import check_labels

_KMS = re.compile(r"(?:https?://[^/]+/v1/)?(projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/.+)")


def read_labels(values: list[str], flag: str = "--labels") -> dict[str, str] | None:
    """The labels of a repeated flag, None without one. Raises UsageError for what is not a label."""
    if not values:
        return None
    labels = join_dicts(values, flag)
    try:
        check_labels(labels)
    except ConfigError as error:
        raise UsageError(f"{flag}: {error.message.removeprefix('labels: ')}", hint=error.hint) from error
    return labels


def shared_fields(flags: ResourceFlags, project: str) -> dict[str, Any]:
    """The fields that flags set of every resource, in place of a file's: labels, and the encryption key."""
    key, labels = kms_key_name(flags, project), read_labels(flags.labels)
    found = {"labels": dict(sorted(labels.items()))} if labels is not None else {}
    return found | ({"encryptionSpec": {"kmsKeyName": key}} if key else {})


def check_account(account: str | None) -> None:
    """Raise UsageError for what is neither an e-mail nor a number."""
    if account is not None and not (_is_email(account) or re.fullmatch(r"[0-9]+", account)):
        raise UsageError(
            f"--service-account: {account!r} is not an account.", hint="Give its e-mail or its number."
        )


def _is_email(text: str) -> bool:
    """Whether gcloud takes a text for an e-mail: `.+@.+\\..+`, said so that a long text is read once."""
    at = text.find("@", 1)
    return at > 0 and text.find(".", at + 2, len(text) - 1) > 0 and "\n" not in text


def kms_key_name(flags: ResourceFlags, project: str) -> str:
    """The full name of the key, empty without one; `project` owns it where nothing else is said.

    Raises UsageError for parts without a key, ConfigError for a key that is not fully named.
    """
    parts = (flags.kms_keyring, flags.kms_location, flags.kms_project)
    if flags.kms_key is None and parts != (None, None, None):
        raise UsageError("--kms-key must be given with --kms-keyring, --kms-location and --kms-project.")
    if not flags.kms_key and not any(parts):
        return ""
    full = _KMS.fullmatch(flags.kms_key or "")
    if full:
        return full[1]
    owner = flags.kms_project or project
    if not all((flags.kms_key, flags.kms_keyring, flags.kms_location, owner)):
        raise ConfigError(
            "--kms-key: the key is not fully named.",
            hint="Add --kms-keyring, --kms-location and --kms-project.",
        )
    ring = f"projects/{owner}/locations/{flags.kms_location}/keyRings/{flags.kms_keyring}"
    return f"{ring}/cryptoKeys/{flags.kms_key}"
