"""Credentials for Google Cloud: Application Default Credentials, and gcloud's switches around them.

The files are looked for here, and not with `google.auth.default`: that starts gcloud to learn a project which
is known already, and may wait for ten seconds for a metadata server that is not there.
"""

from __future__ import annotations

import http.client
import os
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from vtrain.backends import ServiceAccess
from vtrain.errors import CredentialsError
from vtrain.properties import STOPPED_HINT, Choice, gcloud_folder, property_flag, property_value
from vtrain.settings import user_path
from vtrain.special_files import why_special

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from google.auth.exceptions import GoogleAuthError

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
LOGIN = "$ gcloud auth application-default login"
_TOKEN = re.compile(r"[!-~]+")
METADATA_ADDRESS = "169.254.169.254"
METADATA_PATIENCE = 1.0
"""Seconds that the metadata server of a Google machine has to answer."""


def find_credentials(access: ServiceAccess) -> Credentials:
    """The credentials that a command line and gcloud's properties mean. Asks no service for a token yet.

    Raises CredentialsError where there are none.
    """
    from google.auth.credentials import AnonymousCredentials

    if property_flag("auth", "disable_credentials"):
        return AnonymousCredentials()
    credentials = _with_quota_project(_find_source(access), access)
    chain = access.impersonate_service_account or _value("auth", "impersonate_service_account")
    return _impersonate(credentials, chain) if chain else credentials


def refused_credentials(error: GoogleAuthError) -> CredentialsError:
    """The error for credentials that get no token, or that a service turned down."""
    text = str(error.args[0] if error.args else error).strip()
    reason = text.partition("\n")[0].rstrip(".")
    if "impersonate" in text.lower() or "getAccessToken" in text or "iamcredentials" in text:
        return CredentialsError(
            f"The service account cannot be impersonated: {reason}.",
            hint="Your account needs the role roles/iam.serviceAccountTokenCreator on it.",
        )
    if "necessary fields" in text:
        return CredentialsError(
            "The access token does not count any more.", hint="$ gcloud auth print-access-token > FILE"
        )
    return CredentialsError(f"The credentials do not count any more: {reason}.", hint=LOGIN)


def _value(section: str, name: str) -> str:
    found = property_value(section, name)
    return found.value if found else ""


def _find_source(access: ServiceAccess) -> Credentials:
    """The first credentials that there are: a token, a file, the account of this machine."""
    token_file = (
        Choice(value=access.access_token_file, origin="--access-token-file")
        if access.access_token_file
        else property_value("auth", "access_token_file")
    )
    if token_file:
        return _read_token(token_file)
    override = property_value("auth", "credential_file_override")
    if override:
        return _read_file(Path(override.value), override.origin)
    if access.account:
        return _of_account(access.account)
    found = _application_default() or _of_gcloud(_value("core", "account")) or _of_machine()
    if found is None:
        raise CredentialsError("There are no credentials for Google Cloud.", hint=LOGIN)
    return found


def _of_account(account: str) -> Credentials:
    """The credentials of an account that was named. Those of another one are not used in its place."""
    default = _application_default()
    if default is not None and account == getattr(default, "service_account_email", ""):
        return default
    found = _of_gcloud(account)
    if found is None:
        raise CredentialsError(
            f"There are no credentials of {account} here.", hint=f"$ gcloud auth login {account}"
        )
    return found


def _application_default() -> Credentials | None:
    named = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    if named:
        return _read_file(Path(named), "GOOGLE_APPLICATION_CREDENTIALS")
    file = gcloud_folder() / "application_default_credentials.json"
    return _read_file(file, "gcloud's configuration") if file.is_file() else None


def _of_gcloud(account: str) -> Credentials | None:
    """The file that `gcloud auth login` and `activate-service-account` keep for other programs."""
    file = gcloud_folder() / "legacy_credentials" / account / "adc.json"
    return _read_file(file, "gcloud's configuration") if account and file.is_file() else None


def _of_machine() -> Credentials | None:
    """The service account of the Google machine that this runs on."""
    if os.environ.get("NO_GCE_CHECK", "").lower() == "true":  # google-auth's variable, as the two below
        return None

    address = os.environ.get("GCE_METADATA_HOST") or os.environ.get("GCE_METADATA_IP") or METADATA_ADDRESS
    host, _, path = address.partition("/")  # that of the emulator has a path
    connection = http.client.HTTPConnection(host, timeout=METADATA_PATIENCE)
    try:
        connection.request("GET", f"/{path}", headers={"Metadata-Flavor": "Google"})
        is_google = connection.getresponse().headers.get("Metadata-Flavor") == "Google"
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    if not is_google:
        return None
    from google.auth import compute_engine

    return compute_engine.Credentials(scopes=SCOPES)


def _read_token(file: Choice) -> Credentials:
    from google.oauth2.credentials import Credentials as StaticCredentials

    hint = "$ gcloud auth print-access-token > FILE"
    path = user_path(file.value)
    try:
        if special := why_special(path):
            raise OSError(0, special)
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        if (
            isinstance(error, FileNotFoundError)
            and path.suffix == ".token"
            and path.parent.name == "emulator"
        ):
            raise CredentialsError(
                f"The emulator has stopped: its token, {file.value}, is gone.", hint=STOPPED_HINT
            ) from error
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise CredentialsError(
            f"The access token of {file.value} (from {file.origin}) cannot be read: {reason}.", hint=hint
        ) from error
    if not token:
        raise CredentialsError(f"There is no access token in {file.value} (from {file.origin}).", hint=hint)
    if not _TOKEN.fullmatch(token):
        raise CredentialsError(f"{file.value} (from {file.origin}) holds more than a token.", hint=hint)
    return StaticCredentials(token=token)


def _read_file(file: Path, origin: str) -> Credentials:
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    if reason := why_special(file):
        raise CredentialsError(
            f"The credentials of {file} (from {origin}) cannot be read: {reason}.", hint=LOGIN
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of its own name, and of users without a quota project
            return google.auth.load_credentials_from_file(str(file), scopes=SCOPES)[0]
    except (
        GoogleAuthError,
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:  # the library takes the fields of a file as they come
        reason = "there is no such file"
        if file.exists():
            words = error.strerror if isinstance(error, OSError) else ""
            reason = words or "it is not a credentials file, or a broken one"
        raise CredentialsError(
            f"The credentials of {file} (from {origin}) cannot be read: {reason}.", hint=LOGIN
        ) from error


def _with_quota_project(credentials: Credentials, access: ServiceAccess) -> Credentials:
    """The credentials with the project whose quota is used; a user without one uses the project at work."""
    from google.auth.credentials import CredentialsWithQuotaProject
    from google.oauth2.credentials import Credentials as UserCredentials

    named = access.billing_project or _value("billing", "quota_project")
    if named in ("CURRENT_PROJECT", "CURRENT_PROJECT_WITH_FALLBACK"):
        named = _value("core", "project")
    if named == "LEGACY":
        return credentials
    if not named and isinstance(credentials, UserCredentials) and not credentials.quota_project_id:
        named = _value("core", "project")
    if not named or not isinstance(credentials, CredentialsWithQuotaProject):
        return credentials
    return credentials.with_quota_project(named)


def _impersonate(source: Credentials, chain: str) -> Credentials:
    """Credentials of the last account in a comma-separated chain; each one stands in for the next."""
    from google.auth import impersonated_credentials

    *delegates, target = (account.strip() for account in chain.split(","))
    return impersonated_credentials.Credentials(
        source_credentials=source,
        target_principal=target,
        target_scopes=list(SCOPES),
        delegates=delegates,
        quota_project_id=getattr(source, "quota_project_id", None),
    )
