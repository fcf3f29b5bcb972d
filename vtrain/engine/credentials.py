"""Credentials of a job on this machine: a read-only copy in its folder while it runs, or none at all."""

from __future__ import annotations

from pathlib import Path

import msgspec

from vtrain.atomic import publish_file
from vtrain.engine.folder import JobFolder, JobOrder, discard
from vtrain.errors import ConfigError

COPY = "credentials.json"
EMPTY_CONFIGURATION = "gcloud"
"""A folder that nobody makes: what gcloud's own sign-in left in the caller's is not found there."""
_READ_BY_ALL = 0o444


def with_own_copy(order: JobOrder, folder: JobFolder) -> JobOrder:
    """The order with the job's own copy in place of the caller's file."""
    if not order.container.credentials_file:
        return order
    options = msgspec.structs.replace(order.container, credentials_file=str(folder.path / COPY))
    return msgspec.structs.replace(order, container=options)


def keep_credentials(file: str, folder: JobFolder) -> None:
    """Copy the caller's file into the job's folder; nothing without one.

    The copy can be read by whom the file itself can be read by, and written by nobody; its folder is closed
    to other users. Raises ConfigError for a file that cannot be read.
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


def credentials_variables(order: JobOrder, folder: JobFolder) -> dict[str, str]:
    """What a process finds credentials by, and what keeps Google's libraries from finding others.

    They look at GOOGLE_APPLICATION_CREDENTIALS, into gcloud's configuration, and ask the metadata server of a
    virtual machine in Google's cloud. Source: google.auth.default.
    """
    variables = {"CLOUDSDK_CONFIG": str(folder.path / EMPTY_CONFIGURATION)}
    if order.container.credentials_file:
        return variables | {"GOOGLE_APPLICATION_CREDENTIALS": order.container.credentials_file}
    return variables | NO_METADATA


NO_METADATA = {"NO_GCE_CHECK": "true"}
"""Keeps Google's library for Python from the credentials of the virtual machine that it may run on."""
