"""The flags that every `create` reads alike, as gcloud takes and refuses them."""

from __future__ import annotations

import pytest

from vtrain.errors import ConfigError, UsageError, VtrainError
from vtrain.flags.grammar import account
from vtrain.flags.options import ResourceFlags
from vtrain.flags.request import kms_key_name

KEY = "projects/p/locations/l/keyRings/r/cryptoKeys/k"


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ({}, ""),
        ({"kms_key": ""}, ""),
        ({"kms_key": KEY, "kms_project": "other"}, KEY),
        ({"kms_key": f"https://cloudkms.googleapis.com/v1/{KEY}"}, KEY),
        ({"kms_key": f"{KEY}/cryptoKeyVersions/1"}, f"{KEY}/cryptoKeyVersions/1"),
        ({"kms_key": "k", "kms_keyring": "r", "kms_location": "l"}, KEY),
        ({"kms_key": "k", "kms_keyring": "r", "kms_location": "l", "kms_project": ""}, KEY),
    ],
)
def test_an_encryption_key(flags: dict[str, str], name: str) -> None:
    assert kms_key_name(ResourceFlags(**flags), "p") == name  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ({"kms_keyring": "r"}, UsageError),
        ({"kms_location": ""}, UsageError),
        ({"kms_project": ""}, UsageError),
        ({"kms_key": "k"}, ConfigError),
        ({"kms_key": "", "kms_keyring": "r", "kms_location": "l"}, ConfigError),
        ({"kms_key": "k", "kms_keyring": "", "kms_location": "l"}, ConfigError),
    ],
)
def test_an_encryption_key_that_is_none(flags: dict[str, str], error: type[VtrainError]) -> None:
    with pytest.raises(error, match="--kms-key"):
        kms_key_name(ResourceFlags(**flags), "p")  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["123", "a@b.c", "a b@c.d", "serviceAccount:a@b.c"])
def test_accounts(text: str) -> None:
    assert account(text, "--service-account") == text


@pytest.mark.parametrize("text", ["", "bob", "a@b", "@b.c", "a@b.", "12 ", "١٢"])
def test_what_is_no_account_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not an account"):
        account(text, "--service-account")
