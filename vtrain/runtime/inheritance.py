"""Variables and credentials that replicas get from the command that submitted them."""

from __future__ import annotations

import os
from pathlib import Path

from vtrain.atomic import discard, publish_file
from vtrain.errors import ConfigError
from vtrain.https_proxy import leading_here
from vtrain.messages.secrets import names_secret
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.job_order import JobOrder

INHERITED = frozenset(
    "PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ "
    "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE "
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy "
    "LD_LIBRARY_PATH DYLD_LIBRARY_PATH DYLD_FALLBACK_LIBRARY_PATH "
    "XDG_CACHE_HOME HF_HOME TORCH_HOME OMP_NUM_THREADS".split()
)
INHERITED_PREFIXES = ("LC_", "CUDA_", "NVIDIA_")
"""The variables that replicas inherit of the submitting command. Everything else is absent, as in a
container: a trainer that works only with the variables of one shell fails here already. HOME stays the
user's, so that caches are found. The caller's sign-in is left out: `--credentials` gives that, and
`--env NAME` any other variable."""
COPY = "credentials.json"
EMPTY_CONFIGURATION = "gcloud"
"""A folder that nobody makes: what gcloud's own sign-in left in the caller's is not found there."""
_READ_BY_ALL = 0o444
NO_METADATA = {"NO_GCE_CHECK": "true"}
"""Keeps Google's library for Python from the credentials of the virtual machine that it may run on.

It looks at GOOGLE_APPLICATION_CREDENTIALS first, then into gcloud's configuration (CLOUDSDK_CONFIG). Source:
google.auth.default.
"""


def inherited_environment() -> dict[str, str]:
    """The variables that replicas inherit of this process. Raises ConfigError for one that is not UTF-8."""
    led = leading_here()
    inherited = {
        name: value
        for name, value in os.environ.items()
        if (name in INHERITED or name.startswith(INHERITED_PREFIXES))
        and not names_secret(name)
        and name not in led
    }
    for name, value in inherited.items():
        if any("\ud800" <= letter <= "\udfff" for letter in name + value):  # an order is JSON, which is text
            raise ConfigError(
                f"The variable {name!a}, which the trainer inherits, is not UTF-8: {value!a}.",
                hint="Change it, or unset it.",
            )
    return inherited


def with_own_copy(order: JobOrder, folder: JobFolder) -> JobOrder:
    """The order with the job's own copy in place of the caller's file."""
    if not order.setting.credentials_file:
        return order
    return order.with_setting(credentials_file=str(folder.path / COPY))


def keep_credentials(file: str, folder: JobFolder) -> None:
    """Copy the caller's file into the job's folder; nothing without one.

    The users who can read the file can read the copy, as far as its folder lets them; nobody can write it.
    Raises ConfigError for a file that cannot be read.
    """
    if not file:
        return
    try:
        content = Path(file).read_bytes()
        mode = Path(file).stat().st_mode
    except OSError as error:
        raise ConfigError(f"The credentials {file} cannot be read: {error.strerror}.") from error
    publish_file(folder.path / COPY, content, 0o400 | (mode & _READ_BY_ALL))


def drop_credentials(folder: JobFolder) -> None:
    """Remove the copy, if there is one: the job has ended."""
    discard(folder.path / COPY)
