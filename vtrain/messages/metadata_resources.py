"""The messages of Vertex ML Metadata (`metadata_store.proto`, `context.proto` … of the API's v1)."""

from typing import Annotated, Any, ClassVar

from vtrain.messages.structs import EncryptionSpec, Message, Resource, enum

_WRITTEN = frozenset(["name", "createTime", "updateTime"])


class MetadataStore(Resource, frozen=True):
    """The place of all experiments of a region; its usual id is `default`."""

    output_fields: ClassVar[frozenset[str]] = _WRITTEN | {"state"}
    name: str = ""
    create_time: str = ""
    update_time: str = ""
    encryption_spec: EncryptionSpec | None = None
    description: str = ""
    state: dict[str, Any] | None = None
    dataplex_config: dict[str, Any] | None = None


class Context(Resource, frozen=True):
    """A group of executions and artifacts: an experiment, or a run of one."""

    output_fields: ClassVar[frozenset[str]] = _WRITTEN | {"parentContexts"}
    name: str = ""
    display_name: str = ""
    etag: str = ""
    labels: dict[str, str] = {}
    create_time: str = ""
    update_time: str = ""
    parent_contexts: tuple[str, ...] = ()
    schema_title: str = ""
    schema_version: str = ""
    metadata: dict[str, Any] | None = None
    description: str = ""


class Execution(Resource, frozen=True):
    """A step of a workflow, which reads and writes artifacts."""

    output_fields: ClassVar[frozenset[str]] = _WRITTEN
    name: str = ""
    display_name: str = ""
    state: Annotated[str, enum("STATE_UNSPECIFIED NEW RUNNING COMPLETE FAILED CACHED CANCELLED")] = ""
    etag: str = ""
    labels: dict[str, str] = {}
    create_time: str = ""
    update_time: str = ""
    schema_title: str = ""
    schema_version: str = ""
    metadata: dict[str, Any] | None = None
    description: str = ""


class Artifact(Resource, frozen=True):
    """Data, a model or metrics that a step reads or writes."""

    output_fields: ClassVar[frozenset[str]] = _WRITTEN
    name: str = ""
    display_name: str = ""
    uri: str = ""
    etag: str = ""
    labels: dict[str, str] = {}
    create_time: str = ""
    update_time: str = ""
    state: Annotated[str, enum("STATE_UNSPECIFIED PENDING LIVE")] = ""
    schema_title: str = ""
    schema_version: str = ""
    metadata: dict[str, Any] | None = None
    description: str = ""


class MetadataSchema(Resource, frozen=True):
    """The form of the metadata of a context, an execution or an artifact. Nothing is compared with it."""

    output_fields: ClassVar[frozenset[str]] = frozenset(["name", "createTime"])
    name: str = ""
    schema_version: str = ""
    schema: str = ""
    schema_type: Annotated[
        str, enum("METADATA_SCHEMA_TYPE_UNSPECIFIED ARTIFACT_TYPE EXECUTION_TYPE CONTEXT_TYPE")
    ] = ""
    create_time: str = ""
    description: str = ""


class Event(Message, frozen=True):
    """An artifact that an execution has read or written."""

    artifact: str = ""
    execution: str = ""
    event_time: str = ""
    type: Annotated[str, enum("TYPE_UNSPECIFIED INPUT OUTPUT")] = ""
    labels: dict[str, str] = {}


class LineageSubgraph(Message, frozen=True):
    """Artifacts and executions, and the events between them."""

    artifacts: tuple[Artifact, ...] = ()
    executions: tuple[Execution, ...] = ()
    events: tuple[Event, ...] = ()
