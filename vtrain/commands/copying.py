"""`vtrain cp`: files of a job, copied to where the user wants them."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path, PurePosixPath

from vtrain.atomic import publishing_file
from vtrain.backends import HostBackend
from vtrain.commands.session import Session, open_named
from vtrain.errors import ConfigError, NotFoundError, StorageError, UnavailableError, UsageError
from vtrain.flags.options import CommonFlags, CopyFlags, PlaceFlags, TaskFlag
from vtrain.messages.custom_job import CustomJob
from vtrain.settings import user_path

MOST_NAMED = 10


def copy(files: CopyFlags, task: TaskFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Copy a file or a folder of a job as `cp -r` does; links stay links."""
    if not files.target:
        raise UsageError("The target is empty.", hint="For the current folder, write a dot.")
    # The project of a full name may have a colon of its own: projects/example.com:demo/…
    in_full = files.source.startswith("projects/")
    end = files.source.find(":", files.source.find("/", len("projects/")) if in_full else 0)
    text, path = (files.source[:end], files.source[end + 1 :]) if end >= 0 else (files.source, "")
    if end <= 0:
        hint = f"Name the job and the path: vtrain cp {text or 'JOB'}:model {shlex.quote(files.target)}"
        raise UsageError(f"cp copies out of a job, and {files.source!r} is no JOB:PATH.", hint=hint)
    session, name = open_named(common, place, text)
    source = _find(session, name, path, task.task_name, files.target)
    wanted = user_path(files.target)
    _check_folder(source, files.target, wanted)
    target = wanted / source.name if wanted.is_dir() else wanted
    if target.is_dir() and not source.is_dir():  # shutil would copy into it
        raise StorageError(f"Nothing is copied: {target} is a folder.", hint="Name another target.")
    if blocked := _link_in_the_way(source, target, below=wanted.is_dir()):
        hint = "Remove it, or copy to another folder."
        raise StorageError(f"Nothing is copied: {blocked} is a link, which may lead anywhere.", hint=hint)
    _copy(source, target)
    session.console.status(f"Copied {source} to {target}.")


def _find(session: Session, name: str, path: str, replica: str, target: str) -> Path:
    """The file or folder of this machine that is meant. Raises NotFoundError where it is not there."""
    if not isinstance(session.jobs, HostBackend):
        raise _elsewhere(session, name, path, target)
    relative = PurePosixPath(path)
    if relative.is_absolute() or ".." in relative.parts:
        job_id = name.rpartition("/")[2]
        raise ConfigError(
            f"{path} is not below the job's output folder or its working directory.",
            hint="To copy any path that a running replica sees:\n"
            f"$ vtrain exec {job_id} -- tar c {shlex.quote(path)} | tar x",
        )
    folders = session.jobs.folders(name, replica)
    there = [folder / relative for folder in folders if os.path.lexists(folder / relative)]
    if not there:
        raise NotFoundError(f"The job has no {path or 'output folder'}.", hint=_what_there_is(folders))
    found = there[0]
    if path and found.is_dir() and not _has_files(found):
        # vtrain makes model/ and its like before the trainer starts, which may write beside itself instead.
        found = next((each for each in there if _has_files(each)), found)
    real = Path(os.path.realpath(found))
    if not any(real.is_relative_to(os.path.realpath(folder)) for folder in folders):
        hint = f"If you trust the trainer that made it, copy it yourself:\n$ ls -l {shlex.quote(str(found))}"
        raise ConfigError(f"{path} is a link out of the job's folders, to {real}.", hint=hint)
    if found.is_dir() and not _has_files(found):
        raise NotFoundError(f"The job has written no files to {path or 'its output folder'}.")
    return found


def _has_files(folder: Path) -> bool:
    """Whether there is something to copy; what cannot be read counts, for the copy to say why."""
    unreadable: list[OSError] = []
    found = any(
        files or any(Path(top, name).is_symlink() for name in folders)
        for top, folders, files in os.walk(folder, onerror=unreadable.append)
    )
    return found or bool(unreadable)


def _check_folder(source: Path, typed: str, wanted: Path) -> None:
    """Raise StorageError where a folder is meant, as for `cp`, and there is none."""
    means_folder = typed.endswith("/") or source.is_dir()
    if means_folder and os.path.lexists(wanted) and not wanted.is_dir():
        raise StorageError(f"Nothing is copied: {typed} is not a folder.", hint="Name another one.")
    needed = typed if typed.endswith("/") else os.path.dirname(typed)  # noqa: PTH120 - as it was typed
    if needed and not source.is_dir() and not user_path(needed).is_dir():
        hint = f"$ mkdir -p {shlex.quote(needed)}"
        raise StorageError(f"Nothing is copied: there is no folder {needed}.", hint=hint)


def _link_in_the_way(source: Path, target: Path, *, below: bool) -> Path | None:
    """The first link of the target that a copied file would be written through, or that a copied link meets.

    A target that is not `below` an existing folder is the path that the user typed, and may be a link.
    """
    if below and target.is_symlink():
        return target
    for folder, folders, files in os.walk(source) if target.is_dir() else ():
        place = target / os.path.relpath(folder, source)
        for name in (*folders, *files):
            if (place / name).is_symlink():
                return place / name
    return None


def _what_there_is(folders: tuple[Path, ...]) -> str:
    names = [entry.name + "/" * entry.is_dir() for folder in folders for entry in sorted(folder.iterdir())]
    more = ", …" if len(names) > MOST_NAMED else ""
    return f"It has {', '.join(names[:MOST_NAMED])}{more}." if names else "It has written no files."


def _elsewhere(session: Session, name: str, path: str, target: str) -> UnavailableError:
    """The error for a job of a service, with the command that copies its files."""
    job = session.jobs.get(name)
    output = job.job_spec.output_uri if isinstance(job, CustomJob) else ""
    message = f"The files of jobs on {session.backend.name} are not on this machine."
    if not output:
        return UnavailableError(message, hint="The job names no baseOutputDirectory.")
    words = ["gcloud", "storage", "cp", "--recursive", f"{output.rstrip('/')}/{path}".rstrip("/"), target]
    return UnavailableError(message, hint=f"$ {shlex.join(words)}")


def _copy(source: Path, target: Path) -> None:
    """Copy one file, or a folder with all below it. Raises StorageError where some cannot be copied."""
    try:
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, copy_function=_copy_file)
        else:
            _copy_file(source, target)
    except shutil.Error as error:
        failed = error.args[0] if isinstance(error.args[0], list) else [(source, target, error)]
        count = "1 file" if len(failed) == 1 else f"{len(failed)} files"
        raise StorageError(f"{count} could not be copied. The first: {failed[0][2]}.") from error


def _copy_file(source: str | Path, target: str | Path) -> None:
    """Copy one file. The target is replaced at the end, so an interrupted copy leaves it as it was."""
    real = Path(os.path.realpath(target))  # a link that the user typed stays a link
    if real.exists() and real.samefile(source):
        raise StorageError(f"Nothing is copied: {source} and {target} are the same file.")
    if real.exists() and not real.is_file():  # such as /dev/stdout, which can neither be replaced nor changed
        shutil.copyfile(source, real)
        return
    with publishing_file(real, mode=None) as temporary:
        shutil.copy2(source, temporary)
