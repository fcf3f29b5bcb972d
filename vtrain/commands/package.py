"""`vtrain package image` and `vtrain package sdist`: a trainer's image or package, without a job."""

from __future__ import annotations

from vtrain.backends import BackendSettings
from vtrain.backends.image_order import ImageOrder, with_engine
from vtrain.backends.interface import checked_access
from vtrain.backends.registry import find_backend
from vtrain.commands.drafting import warn_all
from vtrain.commands.entry import with_entry
from vtrain.commands.session import open_console, service_access
from vtrain.containers.image_names import PUBLISHED_PLATFORM, check_tag_name, read_image_name
from vtrain.core.submission import (
    MadeImage,
    Place,
    make_trainer_image,
    package_and_stage,
    plan_package,
    plan_trainer_image,
    would_make,
)
from vtrain.errors import ConfigError, UsageError
from vtrain.flags.containers import platform_name, pull_policy
from vtrain.flags.job_options import EntryFlags, ImageFlags, TrainerFlags
from vtrain.flags.options import CommonFlags, DryRunFlag, OutputDirFlag
from vtrain.flags.request import check_format, trainer_source
from vtrain.output.console import Console
from vtrain.output.live_progress import live_progress
from vtrain.packaging.source import TrainerSource
from vtrain.settings import check_current_folder, choose_backend, find_project, home_folder, user_path
from vtrain.staging import Buckets, LocalBuckets, file_uri, split_uri

IMAGE = "vtrain package image"


def image(
    entry: EntryFlags, trainer: TrainerFlags, build: ImageFlags, run: DryRunFlag, common: CommonFlags
) -> None:
    """Build a trainer's container image, unless it exists, and print its name."""
    console = open_console(common)
    check_current_folder()
    order = _order(build)
    trainer = with_entry(entry, trainer, IMAGE, is_context=bool(build.dockerfile))
    source = _source(trainer, build)
    if not (build.print_dockerfile or run.dry_run):
        order = with_engine(order)
    plan = plan_trainer_image(source, trainer.executor_image_uri, order, strict=trainer.strict)
    if build.print_dockerfile:
        console.write(plan.dockerfile.encode())
        return
    warn_all(console, plan.warnings)
    name = build.output_image_uri or plan.name
    if run.dry_run:
        console.progress(would_make(plan))
        if order.push:
            console.progress(f"Would push {name}.")
        made = MadeImage(name=name, id="", digest="", built=False)
    else:
        with live_progress(console) as tell:
            made = make_trainer_image(plan, order, name, tell)
    document = {"image": made.name, "id": made.id, "digest": made.digest, "built": made.built}
    console.result(document, "value(image)")


def _order(build: ImageFlags) -> ImageOrder:
    """The order for the build. Raises UsageError and ConfigError for flags that contradict each other."""
    pull, platform = pull_policy(build.pull), platform_name(build.platform)
    if build.output_image_uri:
        check_tag_name(build.output_image_uri, "--output-image-uri")
    if build.push:
        _check_pushed_name(build.output_image_uri)
    return ImageOrder(
        platform=platform or (PUBLISHED_PLATFORM if build.push else ""),
        pull=pull,
        push=build.push,
        dockerfile=user_path(build.dockerfile) if build.dockerfile else None,
    )


def _check_pushed_name(name: str) -> None:
    if not name:
        raise UsageError("--push needs --output-image-uri=REGISTRY/NAME:TAG.")
    if not read_image_name(name).registry:
        raise ConfigError(
            f"--push: {name} names no registry.", hint=f"Put it in front, as in docker.io/{name}."
        )


def _source(trainer: TrainerFlags, build: ImageFlags) -> TrainerSource:
    check_format(trainer)
    if trainer.package_format == "sdist":
        raise UsageError("package image makes no sdist.", hint="Take 'vtrain package sdist'.")
    if build.dockerfile:
        return _own_source(trainer)
    source = trainer_source(trainer)
    if source is None or not (source.python_module or source.script):
        raise UsageError(
            "What to package is not given.",
            hint=f"Name a script, or a module of a folder: {IMAGE} . -m MODULE. Or give --dockerfile=FILE.",
        )
    return source


def _own_source(trainer: TrainerFlags) -> TrainerSource:
    """The context of the user's own Dockerfile, which says itself what is installed and run."""
    flags = {
        "--python-module": trainer.python_module,
        "--script": trainer.script,
        "--requirements": trainer.requirements,
        "--extra-packages": trainer.extra_packages,
        "--extra-dirs": trainer.extra_dirs,
        "--executor-image-uri": trainer.executor_image_uri,
    }
    given = [flag for flag, value in flags.items() if value]
    if given:
        raise UsageError(
            f"{given[0]} and --dockerfile exclude each other: the file says what is in the image."
        )
    folder = user_path(trainer.local_package_path or ".")
    return TrainerSource(folder=folder.absolute())


# sdist


SDIST = "vtrain package sdist"


def sdist(entry: EntryFlags, trainer: TrainerFlags, output: OutputDirFlag, common: CommonFlags) -> None:
    """Package a trainer as an sdist, unless the package exists, and print its path or URI."""
    console = open_console(common)
    if not output.output_dir:
        raise UsageError("--output-dir: the value is empty.", hint="For the current folder, write a dot.")
    check_current_folder()
    trainer = with_entry(entry, trainer, SDIST)
    check_format(trainer)
    if trainer.package_format == "image":
        raise UsageError("package sdist makes no image.", hint="Take 'vtrain package image'.")
    source = trainer_source(trainer)
    if source is None or not (source.python_module or source.script):
        raise UsageError(
            "What to package is not given.",
            hint=f"Name a script, or a module of a folder: {SDIST} . -m MODULE",
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
