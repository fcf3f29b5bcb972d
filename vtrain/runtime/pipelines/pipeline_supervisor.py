"""Runs one training pipeline: parts its data, submits its task as a job, and registers the model."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from vtrain.errors import ConfigError, ConflictError, DamagedError, NotFoundError, refusal
from vtrain.messages import states
from vtrain.messages.codec import to_document
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, StudySpec
from vtrain.messages.model import ModelSourceInfo, ModelTarget
from vtrain.messages.names import PIPELINE_LABEL, TRAINING_PIPELINES
from vtrain.messages.resources import collection_of, spec_of
from vtrain.messages.training_pipeline import TrainingPipeline
from vtrain.messages.training_task import (
    BACKING_JOB,
    BACKING_TUNING_JOB,
    BEST_TRIAL_JOB,
    TaskJob,
    task_of,
)
from vtrain.rooted import Root
from vtrain.runtime import job_error
from vtrain.runtime.capacity.queue import is_living, look_after, request_end
from vtrain.runtime.database import lacks_room
from vtrain.runtime.enrolment import enrol, pending, remove_unborn
from vtrain.runtime.folder import JobFolder, read_struct, write_struct
from vtrain.runtime.history import MODEL_FIELD, stored_job
from vtrain.runtime.home import Home
from vtrain.runtime.job_order import DataPart, JobOrder
from vtrain.runtime.log.service_log import LAST_WORDS_OF_PIPELINES
from vtrain.runtime.model_registry import ModelRegistry
from vtrain.runtime.pipelines import TASK_FILE, TaskRecord
from vtrain.runtime.pipelines.dataset import BadDatasetError, find_dataset, remove_split, split_dataset
from vtrain.runtime.process.process_tree import boot_id
from vtrain.runtime.replica.vertex_view import OUTPUT_FOLDERS
from vtrain.runtime.serving.artifacts import has_files
from vtrain.runtime.store import Store
from vtrain.runtime.supervision.base import Decision, ParentSupervisor
from vtrain.runtime.supervisor_process import new_job_id
from vtrain.runtime.tuning.study import best
from vtrain.runtime.tuning.trial_record import TrialRecord, readable_records
from vtrain.runtime.working_folder import beside_buckets, kept_files
from vtrain.staging import LocalBuckets, join_uri
from vtrain.times import timestamp


class PipelineSupervisor(ParentSupervisor[TrainingPipeline]):
    """One training pipeline's life."""

    message = TrainingPipeline
    last_words = LAST_WORDS_OF_PIPELINES

    def __init__(self, folder: JobFolder, store: Store, lock: int, program: Path) -> None:
        super().__init__(folder, store, lock, program)
        self._registry = ModelRegistry(self._home, self._order.resource.location)
        self._task: TaskRecord | None = None

    def _begin(self) -> None:
        self._task = read_struct(self._folder.path / TASK_FILE, TaskRecord)

    def _advance(self) -> Decision | None:
        if self._task is None:
            try:
                data = self._make_data()
            except (BadDatasetError, ConfigError) as error:
                return _failed(str(error), "DATASET_FAILED")
            except OSError as error:
                if lacks_room(error):
                    raise
                return _failed(f"The dataset cannot be split: {refusal(error)}.", "DATASET_FAILED")
            self._submit(data)
        job = self._task_job()
        if job is None:
            return _failed("The job of the pipeline's task was deleted while it ran.", "TASK_DELETED")
        if not states.has_ended(job.state):
            self._show(job)
            return None
        if job.state != states.SUCCEEDED:
            return Decision(state=job.state, error=job.error)
        return self._register(job)

    def _described(self) -> TaskJob:
        """The task as the pipeline describes it."""
        task = task_of(self._job)
        assert task is not None  # checked before the pipeline was submitted
        return task

    def _make_data(self) -> DataPart | None:
        """Split the dataset into the folder from which the task reads it; None where there is none."""
        config = self._job.input_data_config
        if config is None:
            return None
        dataset, (uri, target) = find_dataset(config, self._home), self._parts_place()
        counts = split_dataset(dataset, config, target, seed=self._order.name, hear=self._check_requests)
        parts = ", ".join(f"{count} for {part}" for part, count in counts.items())
        self._log.say(f"The dataset is split: {parts}.")
        return DataPart(uri=uri, format=dataset.format, suffix=dataset.suffix)

    def _parts_place(self) -> tuple[str, Root]:
        """The folder of the parts: its URI; and below the output, in which a trainer may put a link there."""
        spec = spec_of(self._job)
        assert spec is not None
        name = f"dataset-{self._folder.path.name}"
        return join_uri(spec.output_uri, name), LocalBuckets(self._home).root(spec.output_uri).below(name)

    def _finish(self, decision: Decision) -> None:
        """The parts of the dataset go with the task that reads them."""
        if self._job.input_data_config is not None:
            try:
                remove_split(self._parts_place()[1])
            except (OSError, ConfigError) as error:
                self._log.complain(f"The parts of the dataset cannot be removed: {error}.")
        super()._finish(decision)

    def _task_job(self) -> TaskJob | None:
        """The job of the task, submitted where a supervisor died before that. None where it was deleted."""
        assert self._task is not None
        try:
            row = self._store.get(self._task.job)
        except NotFoundError:
            if self._task.seen:
                return None
            remove_unborn(self._store, self._task.job, Home(self._home).job(self._task.job))
            self._submit(self._task.data)
            row = self._store.get(self._task.job)
        if not self._task.seen:
            self._keep(msgspec.structs.replace(self._task, seen=True))
        look_after(self._store, self._start, row)
        try:
            job = stored_job(row)
        except DamagedError:
            return msgspec.structs.replace(self._described(), name=row.name, state=row.state)
        assert not isinstance(job, TrainingPipeline)
        return job

    def _submit(self, data: DataPart | None) -> None:
        """Start the task: its record first, with the name of a new job, then the job."""
        collection = collection_of(self._described())
        own = self._order.resource
        name = str(msgspec.structs.replace(own, collection=collection, id=new_job_id(self._home)))
        self._keep(TaskRecord(job=name, data=data))
        labels = {PIPELINE_LABEL: self._folder.path.name}
        task = msgspec.structs.replace(
            self._described(), labels=labels, encryption_spec=self._job.encryption_spec
        )
        task = pending(task, name)
        order = self._task_order(task)
        enrol(self._store, task, order, self._start, snapshot=kept_files(self._folder))
        self._log.say(f"The pipeline runs the {type(task).__name__} {name}.")

    def _task_order(self, task: TaskJob) -> JobOrder:
        assert self._task is not None
        study, own = self._order.study, self._order.job
        if study is not None:
            document = to_document(msgspec.structs.replace(task, trial_job_spec=None))
            study = msgspec.structs.replace(study, job=document)
        if isinstance(task, CustomJob):
            own = task
        return msgspec.structs.replace(
            self._order,
            name=task.name,
            job=own,
            study=study,
            pipeline=None,
            parent=self._order.name,
            data=self._task.data,
            boot_id=boot_id(),
        )

    def _register(self, job: TaskJob) -> Decision:
        """Make a model of what the task has left, where the pipeline asks for one."""
        model = self._job.model_to_upload
        if model is None:
            return Decision(state=states.SUCCEEDED)
        spec = spec_of(job)
        assert spec is not None
        output, trainer = spec.output_uri, job.name
        if isinstance(job, HyperparameterTuningJob) and (best := best_record(job, self._home)):
            output, trainer = join_uri(output, str(best.id)), best.job
        uri = model.artifact_uri or join_uri(output, OUTPUT_FOLDERS["AIP_MODEL_DIR"])
        if not model.artifact_uri and not has_files(LocalBuckets(self._home).local_path(uri)):
            astray = beside_buckets(Home(self._home).job(trainer).attempt_folders())
            advice = (
                "" if astray else "Let the trainer write its model to the folder that AIP_MODEL_DIR names."
            )
            sentence = (
                f"The task has left no model: AIP_MODEL_DIR is empty ({uri}). {' '.join(astray)}".rstrip()
            )
            return _failed(sentence, "NO_MODEL", hint="" if astray else advice)
        made = msgspec.structs.replace(
            model,
            artifact_uri=uri,
            training_pipeline=self._order.name,
            model_source_info=ModelSourceInfo(source_type="CUSTOM"),
        )
        try:
            target = ModelTarget(model_id=self._job.model_id, parent=self._job.parent_model)
            kept = self._registry.upload(made, target)
        except (ConfigError, ConflictError, NotFoundError) as error:
            return _failed(f"The model cannot be registered: {error.message}", "MODEL_REFUSED")
        self._log.say(f"The model is registered: {kept.name}@{kept.version_id}.")
        return Decision(state=states.SUCCEEDED)

    def _show(self, job: TaskJob) -> None:
        """Write what has changed to the store."""
        if self._job.state != states.state_in(TRAINING_PIPELINES, states.PENDING):
            return
        if job.state == states.RUNNING:
            self._change(state=states.RUNNING, start_time=timestamp())
        elif self._job.training_task_metadata is None:
            self._change()

    def _end_jobs(self, state: str) -> bool:  # noqa: ARG002 - for studies, whose trials tell it
        if self._task is None or not is_living(self._store, self._start, self._task.job):
            return True
        request_end(self._store, self._start, self._task.job, self._verb())
        return False

    def _job_names(self) -> Iterable[str]:
        return [self._task.job] if self._task is not None else []

    def _change(self, **fields: object) -> None:
        model = self._registry.made_by(self._order.name)
        if model is not None:
            fields["model_to_upload"] = msgspec.structs.replace(model, answer=None)
        super()._change(**fields, training_task_metadata=self._metadata())
        if model is not None and self._task is not None:
            self._store.annotate(self._task.job, MODEL_FIELD, f"{model.name}@{model.version_id}")

    def _metadata(self) -> dict[str, str] | None:
        """The names of the task's jobs, as the service tells them."""
        if self._task is None:
            return None
        if self._order.study is None:
            return {BACKING_JOB: self._task.job}
        named = {BACKING_TUNING_JOB: self._task.job}
        task = self._described()
        assert isinstance(task, HyperparameterTuningJob)
        best = best_record(msgspec.structs.replace(task, name=self._task.job), self._home)
        return named | ({BEST_TRIAL_JOB: best.job} if best is not None else {})

    def _keep(self, task: TaskRecord) -> None:
        write_struct(self._folder.path / TASK_FILE, task)
        self._task = task


def best_record(job: HyperparameterTuningJob, home: Path) -> TrialRecord | None:
    """The record of the best trial, the first of equals; None while no trial has a result."""
    found = best(job.study_spec or StudySpec(), readable_records(Home(home).job(job.name)))
    return found[0] if found else None


def _failed(message: str, reason: str, **metadata: str) -> Decision:
    error = job_error.error(job_error.USER_ERROR_CODE, message, reason, **metadata)
    return Decision(state=states.FAILED, error=error)
