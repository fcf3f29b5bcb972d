"""Tensorboard and Dataset (`google/cloud/aiplatform/v1/tensorboard.proto`, `dataset.proto`)."""

from typing import Any, ClassVar

from vtrain.messages.structs import EncryptionSpec, Int64, Resource, Value


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
