"""Tensorboard (`google/cloud/aiplatform/v1/tensorboard.proto`)."""

from typing import ClassVar

from vtrain.messages.structs import EncryptionSpec, Resource


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
