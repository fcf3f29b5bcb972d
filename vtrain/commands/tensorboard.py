"""`vtrain tensorboard`: TensorBoard on the logs that trainers write for it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from vtrain.commands.session import Session, open_named, open_session
from vtrain.errors import CommandError, ConfigError, UnavailableError
from vtrain.flags.options import BoardFlags, CommonFlags, PlaceFlags
from vtrain.messages.custom_job import CustomJob
from vtrain.runtime.default_output import BUCKET
from vtrain.runtime.foreground import run_in_foreground
from vtrain.runtime.replica.vertex_view import OUTPUT_FOLDERS
from vtrain.staging import LocalBuckets, join_uri

PROGRAM = "tensorboard"
INTERRUPTED_CODE = 130
LOGS = OUTPUT_FOLDERS["AIP_TENSORBOARD_LOG_DIR"]
HOW_TO_WRITE = "Trainers write them to the folder in the variable AIP_TENSORBOARD_LOG_DIR."


def tensorboard(
    board: BoardFlags, place: PlaceFlags, common: CommonFlags, remainder: tuple[str, ...] | None
) -> None:
    """Run TensorBoard until Ctrl-C."""
    program = _program()
    if board.job:
        session, name = open_named(common, place, board.job)
        logs = _logs_of(session, name)
    else:
        session = open_session(common, place)
        logs = _all_logs(session)
    if not logs.startswith("gs://") and not any(Path(logs).rglob("*tfevents*")):
        session.console.warn(f"There are no logs for TensorBoard in {logs} yet. {HOW_TO_WRITE}")
    session.console.progress(f"TensorBoard shows {logs}. Ctrl-C ends it.")
    code = run_in_foreground([program, f"--logdir={logs}", *(remainder or ())])
    if code not in (0, INTERRUPTED_CODE):
        raise CommandError("", code)


def _program() -> str:
    """TensorBoard as the shell finds it, else beside vtrain. Raises UnavailableError where it is neither."""
    beside = Path(sys.executable).with_name(PROGRAM)
    found = shutil.which(PROGRAM) or (str(beside) if os.access(beside, os.X_OK) else "")
    if not found:
        hint = "Install it:\n$ uv tool install tensorboard"
        raise UnavailableError("TensorBoard is not installed.", hint=hint)
    return found


def _logs_of(session: Session, name: str) -> str:
    """The folder or URI of a job's logs. Raises ConfigError for a job without a base output directory."""
    job = session.jobs.get(name)
    output = job.job_spec.output_uri if isinstance(job, CustomJob) else ""
    if not output:
        hint = "Give --base-output-dir=gs://BUCKET/FOLDER when you create the job."
        raise ConfigError("The job has no base output directory, and so no folder of logs.", hint=hint)
    uri = join_uri(output, LOGS)
    return str(LocalBuckets(session.settings.home).local_path(uri)) if session.is_local else uri


def _all_logs(session: Session) -> str:
    """The folder with the logs of all jobs of this machine that chose no output directory of their own."""
    if not session.is_local:
        message = f"TensorBoard can show one job of the backend {session.backend.name} at a time."
        raise ConfigError(message, hint="Name the job: vtrain tensorboard JOB")
    return str(LocalBuckets(session.settings.home).local_path(BUCKET))
