"""Buckets of Cloud Storage: checked before a job is sent, filled with its packages, and copied from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vtrain.errors import ConfigError, StorageError
from vtrain.staging.buckets import Show, Staged
from vtrain.staging.cloud_client import Settings, SimpleUploader, open_client, refused, storage_credentials
from vtrain.staging.transfer import Sender, Upload, is_same, without_repetition
from vtrain.staging.uris import split_object, split_uri

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from google.cloud.storage import Blob, Bucket, Client

CREATE = "storage.objects.create"
DUAL_REGIONS = {
    "asia1": ("asia-northeast1", "asia-northeast2"),
    "eur4": ("europe-north1", "europe-west4"),
    "eur5": ("europe-west1", "europe-west2"),
    "eur7": ("europe-west2", "europe-west3"),
    "eur8": ("europe-west3", "europe-west6"),
    "nam4": ("us-central1", "us-east1"),
}
"""The dual-regions that have a name, and the two regions in each."""

_PREFIXES = {"us": "us-", "eu": "europe-", "asia": "asia-"}
"""The beginnings of the names of regions, by the multi-region that has them."""

_OUTSIDE = ("europe-west2", "europe-west6")
"""Regions of Europe that are not part of the multi-region `eu`."""


class CloudBuckets:
    """`gs://…` of Cloud Storage, for jobs of one region (empty: any).

    `credentials` is called at the first request to Google, and never for an emulator, which
    `STORAGE_EMULATOR_HOST` names.
    """

    def __init__(
        self,
        project: str,
        region: str,
        credentials: Callable[[], Credentials],
        settings: Settings | None = None,
    ) -> None:
        self.project = project
        self.region = region
        self.credentials = credentials
        self.settings = settings or Settings()

    def accept(self, uri: str) -> None:
        """Raise ConfigError for a URI of this machine, which Vertex AI cannot read."""
        if split_uri(uri)[0] != "gs":
            raise ConfigError(f"Vertex AI cannot read {uri}.", hint="Give --staging-bucket=gs://NAME.")

    def examine(self, staging_uri: str, output_uri: str = "") -> None:
        """Raise StorageError unless both buckets are there, and the first is writable and in the region."""
        staging = split_object(staging_uri)[0]
        output = split_object(output_uri)[0] if output_uri else staging
        with closing(self._open()) as client:
            self._check_location(self._find(client, staging), staging)
            self._check_writable(client, staging)
            if output != staging:
                self._find(client, output)

    def stage_all(self, uris: Mapping[Path, str], show: Show) -> tuple[Staged, ...]:
        """Upload what is not there, several files at a time. Raises StorageError, naming what refused."""
        from vtrain.http_session import BoundedAdapter, authorized_session

        adapter = BoundedAdapter(pool_maxsize=self.settings.workers)
        session = authorized_session(self._credentials, adapter)
        with closing(self._open()) as client, closing(session):
            simple = SimpleUploader(session, client.api_endpoint, self.settings)
            sender = Sender(client, simple, self.settings, show, self._mend)
            return sender.send_all([Upload(file=file, uri=uri) for file, uri in uris.items()])

    def fetch(self, uri: str, folder: Path) -> None:
        """Copy the objects below a URI to a folder of this machine.

        Raises StorageError for what is refused, for an object whose name leads out of the folder, and where
        there is none.
        """
        bucket, name = split_object(uri)
        prefix = f"{name.rstrip('/')}/" if name else ""
        # 404 is not among them: to create the bucket would not bring its objects.
        settings, mend = self.settings, {403: self._grant(bucket)}
        with closing(self._open()) as client:
            with refused(uri, mend):
                found = client.list_blobs(
                    bucket, prefix=prefix, timeout=settings.timeout, retry=settings.retry()
                )
                # A name with a slash at its end is how the console makes an empty folder.
                blobs = [blob for blob in without_repetition(found, bucket) if not blob.name.endswith("/")]
            if not blobs:
                raise StorageError(f"There are no files in {uri}.")
            for blob in blobs:
                _fetch(blob, _place(folder, blob, prefix), settings, mend)

    @cached_property
    def _credentials(self) -> Credentials:
        return storage_credentials(self.credentials)

    def _open(self) -> Client:
        return open_client(self.project, self._credentials)

    def _find(self, client: Client, name: str) -> Bucket | None:
        """The bucket's description; None where it exists, and the caller may not read it."""
        from google.api_core.exceptions import Forbidden

        settings = self.settings
        try:
            with refused(f"gs://{name}", self._mend(name), passing=Forbidden):
                return client.get_bucket(name, timeout=settings.timeout, retry=settings.retry())
        except Forbidden:
            return None

    def _check_location(self, bucket: Bucket | None, name: str) -> None:
        if bucket is None or not self.region:
            return
        with refused(f"gs://{name}", {}):  # an answer of another shape shows when its fields are read
            if holds(bucket, self.region):
                return
        raise StorageError(
            f"The bucket gs://{name} lies in {bucket.location.lower()}, and the job runs in {self.region}.",
            hint=f"$ {self._create('OTHER_NAME')}",
        )

    def _check_writable(self, client: Client, name: str) -> None:
        settings = self.settings
        with refused(f"gs://{name}", self._mend(name)):
            is_writable = CREATE in client.bucket(name).test_iam_permissions(
                [CREATE], timeout=settings.timeout, retry=settings.retry()
            )
        if not is_writable:
            raise StorageError(
                f"The bucket gs://{name} takes no objects from you: {CREATE} is missing.",
                hint=f"$ {self._grant(name)}",
            )

    def _mend(self, name: str) -> dict[int, str]:
        """The command that helps, by the HTTP status of the refusal."""
        return {403: self._grant(name), 404: self._create(name)}

    def _create(self, name: str) -> str:
        location = f" --location={self.region}" if self.region else ""
        return f"gcloud storage buckets create gs://{name}{location} --project={self.project}"

    def _grant(self, name: str) -> str:
        return (
            f"gcloud storage buckets add-iam-policy-binding gs://{name} "
            "--member=user:EMAIL --role=roles/storage.objectUser"
        )


def holds(bucket: Bucket, region: str) -> bool:
    """Whether a bucket lies in a region, or in a pair or multi-region that contains it; true if unknown."""
    location = (bucket.location or "").lower()
    pair = DUAL_REGIONS.get(location) or tuple(part.lower() for part in bucket.data_locations or ())
    if pair:
        return region in pair
    if location in _PREFIXES:
        return region.startswith(_PREFIXES[location]) and region not in _OUTSIDE
    return location in ("", region)


def _place(folder: Path, blob: Blob, prefix: str) -> Path:
    """The file for an object's copy. Raises StorageError for a name that leads out of the folder."""
    place = Path(folder, str(blob.name).removeprefix(prefix)).resolve()
    if not place.is_relative_to(folder.resolve()) or place == folder.resolve():
        raise StorageError(f"{_uri(blob)} cannot be copied: its name leads out of the folder.")
    return place


def _fetch(blob: Blob, file: Path, settings: Settings, mend: Mapping[int, str]) -> None:
    """Copy one object, in parts that are asked for again where a connection breaks."""
    blob.chunk_size = settings.chunk
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    except OSError as error:
        raise StorageError(f"Cannot write {file}: {error.strerror}.") from error
    with refused(_uri(blob), mend):
        blob.download_to_filename(str(file), timeout=settings.timeout, retry=settings.retry())
    if not is_same(file, blob):
        raise StorageError(f"{_uri(blob)} arrived damaged.", hint="Run the command again.")


def _uri(blob: Blob) -> str:
    return f"gs://{blob.bucket.name}/{blob.name}"
