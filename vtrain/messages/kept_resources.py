"""Tensorboard with what is in it, and Dataset (`google/cloud/aiplatform/v1/tensorboard.proto` …)."""

from typing import Annotated, Any, ClassVar

from vtrain.messages.structs import EncryptionSpec, Int64, Message, Resource, Value, enum

_ValueType = Annotated[str, enum("VALUE_TYPE_UNSPECIFIED SCALAR TENSOR BLOB_SEQUENCE")]


class Tensorboard(Resource, frozen=True):
    """The place of the event files of several jobs."""

    output_fields: ClassVar[frozenset[str]] = frozenset(
        [
            "name",
            "blobStoragePathPrefix",
            "runCount",
            "createTime",
            "updateTime",
            "satisfiesPzs",
            "satisfiesPzi",
        ]
    )
    name: str = ""
    display_name: str = ""
    description: str = ""
    encryption_spec: EncryptionSpec | None = None
    blob_storage_path_prefix: str = ""
    run_count: int = 0
    create_time: str = ""
    update_time: str = ""
    labels: dict[str, str] = {}
    etag: str = ""
    is_default: bool = False
    satisfies_pzs: bool = False
    satisfies_pzi: bool = False


class Dataset(Resource, frozen=True):
    """A name for data, whose `metadata` says where they are."""

    output_fields: ClassVar[frozenset[str]] = frozenset(
        [
            "name",
            "dataItemCount",
            "createTime",
            "updateTime",
            "metadataArtifact",
            "satisfiesPzs",
            "satisfiesPzi",
        ]
    )
    name: str = ""
    display_name: str = ""
    description: str = ""
    metadata_schema_uri: str = ""
    metadata: Value = None
    data_item_count: Int64 = 0
    create_time: str = ""
    update_time: str = ""
    etag: str = ""
    labels: dict[str, str] = {}
    saved_queries: tuple[dict[str, Any], ...] = ()
    encryption_spec: EncryptionSpec | None = None
    metadata_artifact: str = ""
    model_reference: str = ""
    satisfies_pzs: bool = False
    satisfies_pzi: bool = False


class TensorboardExperiment(Resource, frozen=True):
    """The runs of one experiment in a TensorBoard (`tensorboard_experiment.proto`)."""

    output_fields: ClassVar[frozenset[str]] = frozenset(["name", "createTime", "updateTime"])
    name: str = ""
    display_name: str = ""
    description: str = ""
    create_time: str = ""
    update_time: str = ""
    labels: dict[str, str] = {}
    etag: str = ""
    source: str = ""


class TensorboardRun(Resource, frozen=True):
    """The time series of one run (`tensorboard_run.proto`)."""

    output_fields: ClassVar[frozenset[str]] = frozenset(["name", "createTime", "updateTime"])
    name: str = ""
    display_name: str = ""
    description: str = ""
    create_time: str = ""
    update_time: str = ""
    labels: dict[str, str] = {}
    etag: str = ""


class TensorboardTimeSeries(Resource, frozen=True):
    """The points of one metric (`tensorboard_time_series.proto`). `plugin_data` is base64."""

    output_fields: ClassVar[frozenset[str]] = frozenset(["name", "createTime", "updateTime", "metadata"])
    name: str = ""
    display_name: str = ""
    description: str = ""
    value_type: _ValueType = ""
    create_time: str = ""
    update_time: str = ""
    etag: str = ""
    plugin_name: str = ""
    plugin_data: str = ""
    metadata: dict[str, Any] | None = None


class TimeSeriesDataPoint(Message, frozen=True):
    """A value at a step (`tensorboard_data.proto`). `scalar` has a `value` that may be NaN or infinite."""

    scalar: dict[str, Any] | None = None
    tensor: dict[str, Any] | None = None
    blobs: dict[str, Any] | None = None
    wall_time: str = ""
    step: Int64 = 0


class TimeSeriesData(Message, frozen=True):
    """Points of a time series, in requests and answers."""

    tensorboard_time_series_id: str = ""
    value_type: _ValueType = ""
    values: tuple[TimeSeriesDataPoint, ...] = ()
