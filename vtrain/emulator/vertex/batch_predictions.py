"""Batch prediction: a model answers the instances in files of a bucket, and the answers are files there.

Sources: `batch_prediction_job.proto` of `google/cloud/aiplatform/v1`, and Vertex AI, "Get batch predictions
from a custom trained model", for the names and lines of the files.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import msgspec

from vtrain.atomic import holding, is_held
from vtrain.emulator.vertex.filters import Restriction, Test, resource_test
from vtrain.emulator.vertex.instance_files import InstanceFiles, InstanceShape
from vtrain.emulator.vertex.model_servers import ModelServers, ServersBusy, ask_model
from vtrain.emulator.vertex.operations import print_fault
from vtrain.emulator.vertex.stored_resources import StoredResources
from vtrain.emulator.vertex.training_service import TrainingService
from vtrain.emulator.vertex.vertex_call import Document, Services, VertexCall, job_methods
from vtrain.emulator.vertex.vertex_refusals import CODES, VertexRefusal, invalid, words_of
from vtrain.errors import ConfigError, StorageError, VtrainError
from vtrain.messages import states
from vtrain.messages.batch_prediction_job import (
    BatchPredictionJob,
    CompletionStats,
    InstanceConfig,
    OutputInfo,
)
from vtrain.messages.codec import from_document, snake_case, to_document
from vtrain.messages.model import Model
from vtrain.messages.names import BATCH_PREDICTION_JOBS, ENDPOINTS
from vtrain.messages.structs import Status
from vtrain.privacy import make_private
from vtrain.staging import LocalBuckets
from vtrain.times import timestamp

FORMATS = ("jsonl", "csv", "file-list")
BATCH = 64
"""`ManualBatchTuningParameters.batch_size`, where none is given."""
MOST_FAILURES = 20
"""`BatchPredictionJob.partial_failures`: files that cannot be read; the others are predicted."""
RESULTS, ERRORS = "prediction.results-00000-of-00001", "prediction.errors_stats-00000-of-00001"
ROOM_SECONDS = 0.5
"""The pause before a job asks again for room among the servers."""


class BatchPredictions(StoredResources[BatchPredictionJob]):
    """The batch prediction jobs of one home; each runs in a thread of this emulator."""

    def __init__(self, service: TrainingService) -> None:
        """Jobs that an earlier emulator left have failed."""
        super().__init__(
            service.home, BATCH_PREDICTION_JOBS, BatchPredictionJob, service.operations, test_of=self._test
        )
        self._buckets = LocalBuckets(service.home)
        self._servers: ModelServers = service.part(ENDPOINTS).servers
        self._find_model = service.model_of
        self._running: set[str] = set()
        """The jobs that run here."""

    def create_at_once(self, call: VertexCall) -> Document:
        """Begin a job."""
        job = self.make(call)
        threading.Thread(target=self._run, args=(job,), name="batch", daemon=True).start()
        return to_document(job)

    def completed(self, document: Document) -> Any:
        """A new job, which runs here from the moment on that others find it."""
        model = self._find_model(document["model"])
        self._running.add(document["name"])
        version = {"model": model.name, "modelVersionId": model.version_id}
        return super().completed({**document, **version, "state": states.PENDING})

    def check(self, document: Document) -> None:
        """Raise VertexRefusal for a job that lacks something, or asks for what is not emulated."""
        _check(from_document(BatchPredictionJob, document))
        super().check(document)

    def shown(self, resource: BatchPredictionJob) -> Document:
        """A job as it stands."""
        return super().shown(self._current(resource))

    def _test(self, restriction: Restriction) -> Test:
        """The test of a job by one restriction, which may be of its model's name."""
        if snake_case(restriction.field) != "model_display_name":
            return resource_test(restriction)
        test = resource_test(msgspec.structs.replace(restriction, field="display_name"))
        names: dict[str, str] = {}

        def holds(document: Mapping[str, Any]) -> bool:
            model = document["model"]
            if model not in names:
                names[model] = ""
                with suppress(VtrainError, VertexRefusal):  # it was deleted
                    names[model] = self._find_model(model).display_name
            return test({"displayName": names[model]})

        return holds

    def cancel(self, call: VertexCall) -> Document:
        """Ask a job to end after the batch that is being asked, also one that another emulator runs."""
        mark = self._cancelled(self.files.find(call.name).name)
        try:
            make_private(mark.parent)
            mark.touch(0o600)
        except OSError as error:
            raise StorageError(f"{mark} cannot be written: {error.strerror}.") from error
        return {}

    def _cancelled(self, name: str) -> Path:
        """The file whose presence says that a job was cancelled."""
        return self.files.folder(name) / "cancelled"

    def delete(self, call: VertexCall) -> Document:
        """Remove an ended job; its files stay."""
        if not states.has_ended(self._current(self.files.find(call.name)).state):
            raise VertexRefusal("FAILED_PRECONDITION", f"The job {call.name} has not ended. Cancel it first.")
        return super().delete(call)

    def _current(self, job: BatchPredictionJob) -> BatchPredictionJob:
        """The job, failed where the emulator that ran it has ended."""
        if states.has_ended(job.state) or job.name in self._running or self._runs_elsewhere(job.name):
            return job
        job = self.files.find(job.name)  # it may have ended since it was read
        if states.has_ended(job.state):
            return job
        error = Status(code=CODES["INTERNAL"], message="The emulator ended while the job ran.")
        return msgspec.structs.replace(job, state=states.FAILED, end_time=job.update_time, error=error)

    def _runs_elsewhere(self, name: str) -> bool:
        """Whether another emulator of this home runs a job: it holds the job's folder."""
        try:
            return is_held(self.files.folder(name))
        except OSError:
            return False

    def _run(self, job: BatchPredictionJob) -> None:
        """The whole life of a job, in a thread of its own."""
        job = msgspec.structs.replace(job, state=states.RUNNING, start_time=timestamp())
        held = ExitStack()
        try:
            try:
                make_private(self.files.folder(job.name))
                held.enter_context(holding(self.files.folder(job.name)))
                self.files.change(job)
                ended = self._predicted(job, self._find_model(f"{job.model}@{job.model_version_id}"))
            except VertexRefusal as refusal:
                ended = _failed(refusal.status, refusal.message)
            except VtrainError as error:
                ended = _failed("INVALID_ARGUMENT", words_of(error))
            except OSError as error:
                ended = _failed("UNAVAILABLE", f"{error.strerror}: {error.filename}.")
            except Exception as fault:
                print_fault()
                ended = _failed("INTERNAL", f"The emulator has a fault: {fault!r}.")
            if self._cancelled(job.name).exists():
                ended = ended | {"state": states.CANCELLED, "error": None}
            with suppress(StorageError):  # without room for its end, the job has failed with this emulator
                self.files.change(job, end_time=timestamp(), **ended)
        finally:
            self._servers.stop(job.name)
            self._running.discard(job.name)
            held.close()

    def _predicted(self, job: BatchPredictionJob, model: Model) -> dict[str, Any]:
        """Ask the model batch by batch, and write what it answers; the fields of the job at its end."""
        assert job.input_config is not None
        assert job.output_config is not None and job.output_config.gcs_destination is not None
        files = InstanceFiles(self._buckets, job.input_config)
        prefix = job.output_config.gcs_destination.output_uri_prefix.rstrip("/")
        stamp = re.sub(r"[-:.]", "_", job.create_time[:23])
        name = re.sub(r"[^\w.-]", "_", model.display_name) or model.name.rpartition("/")[2]
        folder = f"{prefix}/prediction-{name}-{stamp}Z"
        with self._room(job, model), ExitStack() as stack:
            root = self._buckets.root(folder)
            results = stack.enter_context(root.publishing(RESULTS, make_mode=0o777))
            errors = stack.enter_context(root.publishing(ERRORS))
            counts = self._write(job, model, files, results, errors)
            if files.unread and not counts.successful_count and not counts.failed_count:
                raise files.unread[0]
        failures = (_status("NOT_FOUND", words_of(error)) for error in files.unread[:MOST_FAILURES])
        made = {
            "output_info": OutputInfo(gcs_output_directory=folder),
            "completion_stats": counts,
            "partial_failures": tuple(failures),
        }
        if counts.failed_count and not counts.successful_count:
            return _failed("FAILED_PRECONDITION", f"No instance was predicted. See {folder}/{ERRORS}.") | made
        return {"state": states.SUCCEEDED, **made}

    @contextmanager
    def _room(self, job: BatchPredictionJob, model: Model) -> Iterator[None]:
        """A block during which the model's server stays; it waits for room among the servers."""
        cancelled = self._cancelled(job.name)
        with ExitStack() as stack:
            while True:
                try:
                    stack.enter_context(self._servers.using(job.name, model, cancelled.exists))
                    break
                except ServersBusy:
                    if cancelled.exists():
                        raise
                    time.sleep(ROOM_SECONDS)
            yield

    def _write(
        self,
        job: BatchPredictionJob,
        model: Model,
        files: InstanceFiles,
        results: BinaryIO,
        errors: BinaryIO,
    ) -> CompletionStats:
        tuning = job.manual_batch_tuning_parameters
        size = tuning.batch_size if tuning is not None and tuning.batch_size > 0 else BATCH
        shape = InstanceShape(job.instance_config or InstanceConfig())
        succeeded, failed = 0, 0
        for batch in files.batches(size):
            if self._cancelled(job.name).exists():
                break
            try:
                predictions = self._ask(job, model, [shape.instance(line) for line in batch])
            except VtrainError as error:
                failed += len(batch)
                said = f"Post request fails. Cannot get predictions. Error: {error.message}"
                errors.write(f"{(said, len(batch))!r}\n".encode("utf-8", "backslashreplace"))
                continue
            succeeded += len(batch)
            for line, prediction in zip(batch, predictions, strict=True):
                results.write(msgspec.json.encode(shape.answer(line, prediction)) + b"\n")
        return CompletionStats(successful_count=succeeded, failed_count=failed)

    def _ask(self, job: BatchPredictionJob, model: Model, instances: list[Any]) -> list[Any]:
        request: Document = {"instances": instances}
        if job.model_parameters is not None:
            request["parameters"] = job.model_parameters
        with self._servers.using(job.name, model, self._cancelled(job.name).exists) as server:
            predictions = ask_model(server, model, request)
        if len(predictions) != len(instances):
            raise ConfigError(f"the model answered {len(instances)} instances with {len(predictions)} values")
        return predictions

    MESSAGES = (BatchPredictionJob,)
    SERVICES: ClassVar[Services] = {
        "JobService": {
            BATCH_PREDICTION_JOBS: job_methods(
                "BatchPredictionJob",
                create_at_once,
                StoredResources.get,
                StoredResources.list_page,
                cancel,
                delete,
            )
        }
    }


def _failed(status: str, message: str) -> dict[str, Any]:
    """The fields of a job that has failed."""
    return {"state": states.FAILED, "error": _status(status, message)}


def _status(status: str, message: str) -> Status:
    return Status(code=CODES[status], message=message)


def _check(job: BatchPredictionJob) -> None:
    source, target = job.input_config, job.output_config
    if not job.model:
        raise invalid("batch_prediction_job.model is required: an unmanaged container is not emulated.")
    if source is None or target is None or not (source.gcs_source or source.bigquery_source):
        raise invalid("batch_prediction_job.input_config and output_config are required.")
    if source.gcs_source is None or target.gcs_destination is None:
        raise VertexRefusal("UNIMPLEMENTED", "The emulator predicts from and to Cloud Storage alone.")
    if source.instances_format not in FORMATS:
        raise VertexRefusal(
            "UNIMPLEMENTED",
            f"The emulator reads {', '.join(FORMATS)}, and not {source.instances_format[:100]!r}.",
        )
    if target.predictions_format != "jsonl":
        raise VertexRefusal(
            "UNIMPLEMENTED", f"The emulator writes jsonl, and not {target.predictions_format[:100]!r}."
        )
    if job.generate_explanation:
        raise VertexRefusal("UNIMPLEMENTED", "The emulator explains no predictions.")
    if not re.fullmatch(r"gs://[^/]+(/.*)?", target.gcs_destination.output_uri_prefix):
        raise invalid(f"{target.gcs_destination.output_uri_prefix[:300]!r} is no gs:// URI.")
    for uri in source.gcs_source.uris:
        if not re.fullmatch(r"gs://[^/]+/.+", uri):
            raise invalid(f"{uri[:300]!r} is no gs:// URI with a bucket and a path.")
    if not source.gcs_source.uris:
        raise invalid("input_config.gcs_source.uris is empty.")
