"""Checks of what jobs on Vertex AI need: project and region, libraries, credentials, APIs, a bucket."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from vtrain.backends import BackendSettings, Query
from vtrain.backends.health import Check, Finding, Health
from vtrain.backends.vertex.cloud_log import CloudLog
from vtrain.backends.vertex.credentials import find_credentials
from vtrain.backends.vertex.vertex_backend import VertexBackend, open_vertex
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogQuery
from vtrain.messages.names import CUSTOM_JOBS, ResourceName
from vtrain.messages.states import RUNNING
from vtrain.properties import active_configuration, property_value

if TYPE_CHECKING:
    from vtrain.staging import Buckets

LIBRARIES = ("google-auth", "google-cloud-aiplatform", "google-cloud-storage")


def vertex_checks(
    settings: Callable[[], BackendSettings], buckets: Callable[[BackendSettings], Buckets]
) -> tuple[Check, ...]:
    """The checks. `settings` raises ConfigError where a project or a region is missing."""
    known = cache(settings)
    backend = cache(lambda: open_vertex(known()))
    return (
        Check(name="gcloud configuration", probe=lambda: _configuration(known())),
        Check(name="libraries", probe=lambda: _libraries(backend())),
        Check(name="credentials", probe=lambda: _credentials(backend(), known()), asks_network=True),
        Check(name="Vertex AI API", probe=lambda: _service(backend(), known()), asks_network=True),
        Check(name="Cloud Logging API", probe=lambda: _logging(known()), asks_network=True, is_vital=False),
        Check(name="bucket", probe=lambda: _bucket(buckets(known())), asks_network=True, is_vital=False),
    )


def _configuration(settings: BackendSettings) -> Finding:
    account = property_value("core", "account")
    words = [f"project {settings.project}", f"region {settings.region}"]
    words += [f"account {account.value}"] if account else []
    return Finding(text=f"{', '.join(words)} (configuration {active_configuration()})")


def _libraries(_backend: VertexBackend) -> Finding:
    found = dict.fromkeys(LIBRARIES, "of unknown version")
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return Finding(text=", ".join(f"{name} {number}" for name, number in found.items()))


def _credentials(backend: VertexBackend, settings: BackendSettings) -> Finding:
    """Whether a token can be had. No part of a token is shown."""

    backend.sign_in()
    found = find_credentials(settings.access)
    account = getattr(found, "service_account_email", "") or getattr(found, "account", "")
    return Finding(text=f"valid, of {account}" if account else "valid")


def _service(backend: VertexBackend, settings: BackendSettings) -> Finding:
    query = Query(collection=CUSTOM_JOBS, project=settings.project, location=settings.region, page_size=1)
    backend.list(query)
    return Finding(text=f"lists the jobs of {settings.project} in {settings.region}")


def _logging(settings: BackendSettings) -> Finding:
    """Whether the log of a job could be read, asked for a job that there is not."""
    name = str(
        ResourceName(project=settings.project, location=settings.region, collection=CUSTOM_JOBS, id="0")
    )
    log = CloudLog(settings.access, settings.project)
    trouble = log.read(LogQuery(name=name), CustomJob(name=name, state=RUNNING)).trouble
    if trouble:
        mend = f"$ gcloud services enable logging.googleapis.com --project={settings.project}"
        return Finding(text=trouble, health=Health.WARNING, mend=mend)
    return Finding(text="answers")


def _bucket(buckets: Buckets) -> Finding:
    from vtrain.staging import find_staging_bucket

    uri = find_staging_bucket("")
    if not uri:
        text = "no staging bucket is set: a trainer becomes an image, which is pushed"
        return Finding(
            text=text, health=Health.SKIPPED, mend="To stage packages: VTRAIN_STAGING_BUCKET=gs://NAME"
        )
    buckets.examine(uri)
    return Finding(text=f"{uri} can be written")
