"""The fields that flags set of every resource: those of their rows, and the encryption key."""

from __future__ import annotations

import re
from typing import Any

from vtrain.errors import ConfigError, UsageError
from vtrain.flags.options import ResourceFlags
from vtrain.flags.row import fields_of

_KMS = re.compile(r"(?:https?://[^/]+/v1/)?(projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/.+)")


def resource_fields(flags: ResourceFlags, project: str) -> dict[str, Any]:
    """The fields that flags set of a resource, with its encryption key, as `kms_key_name` reads it."""
    key = kms_key_name(flags, project)
    return fields_of(flags) | ({"encryptionSpec": {"kmsKeyName": key}} if key else {})


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
