"""`vtrain hp-tuning-jobs report`: a page with the charts, the trials and the configuration of a job."""

from __future__ import annotations

from pathlib import Path

from vtrain.atomic import publish_file
from vtrain.commands.emulator_storage import needed_modules
from vtrain.commands.kinds import TUNING_JOB
from vtrain.commands.session import open_named, resource_document
from vtrain.commands.trials import tuning_job
from vtrain.errors import ConfigError, StorageError
from vtrain.flags.options import CommonFlags, NameFlag, PlaceFlags
from vtrain.flags.tuning_options import ReportFlags
from vtrain.messages.codec import from_document
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.secrets import masked_document
from vtrain.settings import user_path
from vtrain.special_files import why_special

FILE_MODE = 0o644


def report(job: NameFlag, report: ReportFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """Write the page of a tuning job."""
    target = _target(report.output)
    session, name = open_named(common, place, job.text, TUNING_JOB)
    document = masked_document(resource_document(tuning_job(session, name)))
    found = from_document(HyperparameterTuningJob, document)
    with needed_modules("report", "tuning"):
        from vtrain.emulator.dashboard.report import study_report
    page = study_report(found)
    try:
        publish_file(target, page, FILE_MODE)
    except OSError as error:
        raise StorageError(f"Cannot write {target}: {error.strerror}.") from error
    session.console.status(f"Wrote {target}.")
    session.console.result({"file": str(target), "trials": len(found.trials)})


def _target(text: str) -> Path:
    """The file to write. Raises ConfigError where there can be none."""
    path = user_path(text)
    if not text or path.is_dir():
        raise ConfigError(f"--output: expected a file such as report.html, found {text!r}.")
    if reason := why_special(path) or ("it is a device" if path.is_char_device() else ""):
        raise ConfigError(f"--output: {text} is no file: {reason}.")
    if not path.parent.is_dir():
        raise ConfigError(f"--output: there is no folder {path.parent}.", hint=f"$ mkdir -p {path.parent}")
    return path.resolve() if path.is_symlink() else path
