"""Dataset (`google/cloud/aiplatform/v1/dataset.proto`)."""

from typing import Any, ClassVar

from vtrain.messages.structs import EncryptionSpec, Int64, Resource, Value


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
