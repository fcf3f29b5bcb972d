"""`--credentials`: which credentials a job on this machine is given. Without the flag it has none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from vtrain.errors import ConfigError, UsageError
from vtrain.flags.mounts import local_path

NONE, ADC = "none", "adc"
FLAG = "--credentials"
VALUES_HINT = "Take none, adc or the path of a file."
KEY_FLAG = "--service-account-key-file"
ADC_FILE = "application_default_credentials.json"


def credentials_file(chosen: str | None, key_file: str | None = None) -> str:
    """The file that `--credentials` or gcloud's `--service-account-key-file` names; empty for no credentials.

    Raises UsageError for an empty value and for both flags, ConfigError for a file that cannot be read.
    """
    if key_file and chosen is not None:
        raise UsageError(f"{FLAG} and {KEY_FLAG} exclude each other.")
    if key_file:
        return _readable(local_path(key_file), KEY_FLAG)
    if chosen is None or chosen == NONE:
        return ""
    if not chosen:
        raise UsageError(f"{FLAG}: the value is empty.", hint=VALUES_HINT)
    if chosen == ADC:
        hint = "Make it with: gcloud auth application-default login"
        return _readable(credentials_place(), f"{FLAG}={ADC}", hint)
    return _readable(local_path(chosen), FLAG, VALUES_HINT)


def credentials_place(environ: Mapping[str, str] = os.environ) -> Path:
    """Where Application Default Credentials lie, as Google's libraries look for them."""
    if named := environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        return local_path(named)
    folder = environ.get("CLOUDSDK_CONFIG") or "~/.config/gcloud"
    return local_path(folder) / ADC_FILE


def _readable(path: Path, flag: str, hint: str = "") -> str:
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "a pipe or a device"
        what = f"is {kind}, not a file" if path.exists() else "does not exist"
        raise ConfigError(f"{flag}: {path} {what}.", hint=hint)
    if not os.access(path, os.R_OK):
        raise ConfigError(f"{flag}: {path} cannot be read.")
    return str(path)
