"""The backend `vertex`: jobs and persistent resources on Vertex AI."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from vtrain.backends.interface import CREDENTIALS_FLAG, Backend, TrainerForm

if TYPE_CHECKING:
    from vtrain.backends import BackendSettings, JobBackend
    from vtrain.backends.health import Check
    from vtrain.backends.interface import CommandLine
    from vtrain.backends.model_interface import ModelRegistryBackend
    from vtrain.messages.names import ResourceName
    from vtrain.staging.cloud import CloudBuckets


class Vertex(Backend):
    """Sends jobs to Google Cloud, where a project and a region have them."""

    name = "vertex"
    is_local = False
    trainer_form = TrainerForm.PUSHED_IMAGE
    image_form = TrainerForm.PUSHED_IMAGE
    no_usage_hint = (
        "The page of the job in the Google Cloud console shows its processors, memory and GPUs:\n"
        "https://console.cloud.google.com/vertex-ai/training/custom-jobs"
    )
    no_entry_hint = (
        "Create the job with --enable-web-access: while it runs, `vtrain custom-jobs describe` prints the\n"
        "address of a shell in each replica (webAccessUris), which opens in a browser."
    )

    def open(self, settings: BackendSettings) -> JobBackend:
        """The service. Raises UnavailableError where the extra is not installed."""
        from vtrain.backends.vertex.vertex_backend import open_vertex

        return open_vertex(settings)

    def open_models(self, settings: BackendSettings) -> ModelRegistryBackend:
        """The registry of the service. Raises UnavailableError where the extra is not installed."""
        from vtrain.backends.vertex.vertex_backend import VertexModels, check_installed

        check_installed()
        return VertexModels(settings, self.buckets(settings))

    def buckets(self, settings: BackendSettings) -> CloudBuckets:
        """Cloud Storage, as the account that the jobs are created as."""
        from vtrain.staging.cloud import CloudBuckets

        def credentials() -> Any:
            from vtrain.backends.vertex.credentials import find_credentials

            return find_credentials(settings.access)

        return CloudBuckets(settings.project, settings.region, credentials)

    def uri(self, name: ResourceName, settings: BackendSettings) -> str:
        """The address of a resource at the service."""
        from vtrain.backends.vertex.api import service_endpoint
        from vtrain.messages.secrets import masked_text

        endpoint = masked_text(service_endpoint(name.location), (), {})
        return f"{endpoint}/{settings.access.api_version}/{name}"

    def has_fields(self, message: str, document: Mapping[str, Any], settings: BackendSettings) -> bool:
        """Whether the API has these fields, as the installed google-cloud-aiplatform knows it."""
        from vtrain.backends.vertex.vertex_plan import library_has_fields

        return library_has_fields(message, document, settings.access.api_version)

    def checks(self, line: CommandLine) -> Iterable[Check]:
        """The checks of what jobs on Vertex AI need."""
        from vtrain.backends.vertex.vertex_health import vertex_checks

        return vertex_checks(lambda: self.settings(line), self.buckets)

    def no_effect(self, flag: str) -> str:
        """A sentence about a flag that is given in vain."""
        said = super().no_effect(flag)
        return f"{said[:-1]}: the job runs as its service account." if flag == CREDENTIALS_FLAG else said
