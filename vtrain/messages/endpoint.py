"""Endpoint (`google/cloud/aiplatform/v1/endpoint.proto`).

What decides nothing on this machine, such as networks and logging, stays a free document.
"""

from typing import Any, ClassVar

from vtrain.messages.custom_job import MachineSpec
from vtrain.messages.structs import EncryptionSpec, Message, Resource

Document = dict[str, Any]


class AutomaticResources(Message, frozen=True):
    min_replica_count: int = 0
    max_replica_count: int = 0


class DedicatedResources(Message, frozen=True):
    machine_spec: MachineSpec | None = None
    min_replica_count: int = 0
    max_replica_count: int = 0
    required_replica_count: int = 0
    autoscaling_metric_specs: tuple[Document, ...] = ()
    spot: bool = False


class DeployedModel(Message, frozen=True):
    """A version of a model at an endpoint, under an id of its own there."""

    id: str = ""
    model: str = ""
    model_version_id: str = ""
    display_name: str = ""
    create_time: str = ""
    dedicated_resources: DedicatedResources | None = None
    automatic_resources: AutomaticResources | None = None
    shared_resources: str = ""
    explanation_spec: Document | None = None
    disable_explanations: bool = False
    service_account: str = ""
    disable_container_logging: bool = False
    enable_access_logging: bool = False
    private_endpoints: Document | None = None
    faster_deployment_config: Document | None = None
    status: Document | None = None
    system_labels: dict[str, str] = {}
    checkpoint_id: str = ""
    speculative_decoding_spec: Document | None = None


class Endpoint(Resource, frozen=True):
    """An address that answers predictions with the models that are deployed to it."""

    output_fields: ClassVar[frozenset[str]] = frozenset(
        [
            "name",
            "deployedModels",
            "createTime",
            "updateTime",
            "modelDeploymentMonitoringJob",
            "dedicatedEndpointDns",
            "satisfiesPzs",
            "satisfiesPzi",
        ]
    )
    name: str = ""
    display_name: str = ""
    description: str = ""
    deployed_models: tuple[DeployedModel, ...] = ()
    traffic_split: dict[str, int] = {}
    etag: str = ""
    labels: dict[str, str] = {}
    create_time: str = ""
    update_time: str = ""
    encryption_spec: EncryptionSpec | None = None
    network: str = ""
    enable_private_service_connect: bool = False
    private_service_connect_config: Document | None = None
    model_deployment_monitoring_job: str = ""
    predict_request_response_logging_config: Document | None = None
    dedicated_endpoint_enabled: bool = False
    dedicated_endpoint_dns: str = ""
    client_connection_config: Document | None = None
    satisfies_pzs: bool = False
    satisfies_pzi: bool = False
    gen_ai_advanced_features_config: Document | None = None
    private_model_server_enabled: bool = False
