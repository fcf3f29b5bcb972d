"""`vtrain package sdist`: the trainer's package, without a job."""

from __future__ import annotations

from vtrain.backends import BackendSettings
from vtrain.backends.base import checked_access
from vtrain.backends.registry import find_backend
from vtrain.commands.drafting import warn_all
from vtrain.commands.entry import with_entry
from vtrain.commands.session import check_current_folder, open_console, service_access
from vtrain.core.submission import Place, package_and_stage, plan_package
from vtrain.errors import UsageError
from vtrain.flags.job_options import EntryFlags, TrainerFlags
from vtrain.flags.options import CommonFlags, OutputDirFlag
from vtrain.flags.request import check_format, trainer_source
from vtrain.output.console import Console
from vtrain.settings import choose_backend, find_project, home_folder, user_path
from vtrain.staging import Buckets, LocalBuckets, file_uri, split_uri

COMMAND = "vtrain package sdist"


def sdist(entry: EntryFlags, trainer: TrainerFlags, output: OutputDirFlag, common: CommonFlags) -> None:
    """Package a trainer as an sdist, unless the package exists, and print its path or URI."""
    console = open_console(common)
    if not output.output_dir:
        raise UsageError("--output-dir: the value is empty.", hint="For the current folder, write a dot.")
    check_current_folder()
    trainer = with_entry(entry, trainer, COMMAND)
    check_format(trainer)
    if trainer.package_format == "image":
        raise UsageError("package sdist makes no image.", hint="Take 'vtrain package image'.")
    source = trainer_source(trainer)
    if source is None or not (source.python_module or source.script):
        raise UsageError(
            "What to package is not given.",
            hint=f"Name a script, or a module of a folder: {COMMAND} . -m MODULE",
        )
    folder = output.output_dir
    destination = folder if "://" in folder else file_uri(user_path(folder))
    place = Place(
        home=home_folder(),
        buckets=_output_buckets(console, common, destination),
        staging_bucket=destination,
        flat=True,
        show=console.show_state,
        warn=console.warn,
    )
    package = plan_package(source, trainer.executor_image_uri, place, strict=trainer.strict)
    warn_all(console, package.warnings)
    uris = package_and_stage(package, place, console.progress)
    documents = [{"uri": uri, "path": _path(uri)} for uri in uris]
    console.results(documents, "value(path)")


def _path(uri: str) -> str:
    """The path of a file that lies in a folder; the URI of one in a bucket."""
    scheme, rest = split_uri(uri)
    return rest if scheme == "file" else uri


def _output_buckets(console: Console, common: CommonFlags, uri: str) -> Buckets:
    """The buckets of a command without a job: Cloud Storage where a job would go to Vertex AI."""
    home = home_folder()
    if not uri.startswith("gs://"):
        return LocalBuckets(home)
    project = find_project(common.project)
    choice = choose_backend(flag="", name="", project=project)
    console.progress(f"{uri} as on the backend {choice.value} ({choice.origin})")
    access = checked_access(service_access(common))
    project_id = project.value if project else ""
    settings = BackendSettings(home=home, project=project_id, region="", access=access)
    return find_backend(choice.value).buckets(settings)
