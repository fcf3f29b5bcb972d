"""Which buckets a command line means: Cloud Storage's, or folders of this machine."""

from __future__ import annotations

from typing import Any

from vtrain.backends import BackendSettings, traits_of
from vtrain.commands.session import service_access
from vtrain.flags.options import CommonFlags
from vtrain.output.console import Console
from vtrain.settings import choose_backend, find_project, home_folder
from vtrain.staging import Buckets, LocalBuckets


def find_buckets(backend: str, settings: BackendSettings) -> Buckets:
    """The buckets that jobs of a backend read: `gs://NAME` is Cloud Storage, and a folder for a local one."""
    if traits_of(backend).is_local:
        return LocalBuckets(settings.home)
    from vtrain.staging.cloud import CloudBuckets

    def credentials() -> Any:
        from vtrain.backends.vertex.credentials import find_credentials

        return find_credentials(settings.access)

    return CloudBuckets(settings.project, settings.region, credentials)


def output_buckets(console: Console, common: CommonFlags, uri: str) -> Buckets:
    """The buckets of a command without a job: Cloud Storage where a job would go to Vertex AI."""
    home = home_folder()
    if not uri.startswith("gs://"):
        return LocalBuckets(home)
    project = find_project(common.project)
    choice = choose_backend(flag="", name="", project=project)
    console.progress(f"{uri} as on the backend {choice.value} ({choice.origin})")
    settings = BackendSettings(
        home=home, project=project.value if project else "", region="", access=service_access(common)
    )
    return find_buckets(choice.value, settings)
