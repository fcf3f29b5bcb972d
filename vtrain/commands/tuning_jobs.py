"""`vtrain hp-tuning-jobs` about jobs that are there."""

from __future__ import annotations

from vtrain.commands.jobs import cancel_job, delete_job, describe_job, list_kind
from vtrain.commands.kinds import TUNING_JOB
from vtrain.commands.watch_jobs import stream_job, wait_for_job
from vtrain.flags.options import CommonFlags, InterruptFlag, ListFlags, PlaceFlags, StreamFlags, TimeoutFlag
from vtrain.flags.tuning import TuningJobFlag


def list_jobs(listing: ListFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """List tuning jobs."""
    list_kind(TUNING_JOB, listing, place, common)


def describe(job: TuningJobFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Print one tuning job."""
    describe_job(TUNING_JOB, job.hptuning_job, place, common)


def cancel(job: TuningJobFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Ask a tuning job to end."""
    cancel_job(TUNING_JOB, job.hptuning_job, place, common)


def delete(job: TuningJobFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Remove an ended tuning job."""
    delete_job(TUNING_JOB, job.hptuning_job, place, common)


def wait(
    job: TuningJobFlag, waiting: TimeoutFlag, interrupt: InterruptFlag, place: PlaceFlags, common: CommonFlags
) -> None:
    """Stay until a tuning job ends."""
    wait_for_job(TUNING_JOB, job.hptuning_job, waiting, interrupt, place, common)


def stream_logs(job: TuningJobFlag, stream: StreamFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """Print a tuning job's log."""
    stream_job(TUNING_JOB, job.hptuning_job, stream, place, common)
