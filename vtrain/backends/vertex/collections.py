"""The collections of the API in the words of the client library."""

from __future__ import annotations

import re

import msgspec

from vtrain.messages.names import (
    CUSTOM_JOBS,
    HYPERPARAMETER_TUNING_JOBS,
    PERSISTENT_RESOURCES,
    TRAINING_PIPELINES,
)


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """The service that keeps a collection, and the name of its message (`CustomJob`)."""

    service: str
    noun: str

    def request(self, verb: str) -> str:
        """The library's message of a request: `ListCustomJobsRequest`."""
        return f"{verb}{self.noun}{'s' if verb == 'List' else ''}Request"

    def method(self, verb: str) -> str:
        """The library's method: `list_custom_jobs`."""
        camel = self.request(verb).removesuffix("Request")
        return re.sub(r"(?<!^)(?=[A-Z])", "_", camel).lower()

    @property
    def field(self) -> str:
        """The field of a create request that holds the message: `customJob`."""
        return self.noun[0].lower() + self.noun[1:]


KINDS = {
    CUSTOM_JOBS: Kind(service="job_service", noun="CustomJob"),
    HYPERPARAMETER_TUNING_JOBS: Kind(service="job_service", noun="HyperparameterTuningJob"),
    TRAINING_PIPELINES: Kind(service="pipeline_service", noun="TrainingPipeline"),
    PERSISTENT_RESOURCES: Kind(service="persistent_resource_service", noun="PersistentResource"),
}
