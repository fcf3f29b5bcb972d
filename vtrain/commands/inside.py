"""Looking into a job: a command or a shell in a running replica, and copies of its files."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import stat
import sys
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from vtrain.backends import HostBackend, HostedJob, RunningReplica
from vtrain.backends.registry import running_replicas
from vtrain.commands.session import Session, open_named, open_trial
from vtrain.core.references import LAST, command_about, ended_log_command, names_trial, shown_name
from vtrain.errors import (
    CommandError,
    ConfigError,
    ConflictError,
    NotFoundError,
    StorageError,
    UnavailableError,
    UsageError,
    refusal,
)
from vtrain.flags.options import CommonFlags, CopyFlags, JobNameFlag, PlaceFlags, TaskFlag
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.nearest import did_you_mean
from vtrain.messages.states import CANCELLING, has_ended, short
from vtrain.rooted import Found, Root
from vtrain.settings import user_path


def execute(
    job: JobNameFlag,
    task: TaskFlag,
    place: PlaceFlags,
    common: CommonFlags,
    remainder: tuple[str, ...] | None,
) -> None:
    """Run a command in a replica, and end with its exit code."""
    if not remainder or not remainder[0]:
        raise UsageError(
            "exec needs a command.", hint=f"Put it after --: vtrain exec {job.text} -- nvidia-smi"
        )
    session, name = open_named(common, place, job.text, about_running=True, only_one=True)
    _run(find_replica(session, name, task.task_name), remainder)


def shell(job: JobNameFlag, task: TaskFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Open a shell in a replica, and end with its exit code."""
    session, name = open_named(common, place, job.text, about_running=True, only_one=True)
    replica = find_replica(session, name, task.task_name)
    if _has_terminal():
        session.console.progress(f"A shell in {replica.name}. It ends with `exit`; the job goes on.")
    _run(replica, replica.shell)


def find_replica(session: Session, name: str, task_name: str) -> RunningReplica:
    """The running replica of that name, by default the primary.

    Raises UnavailableError where the job runs elsewhere, ConflictError where it does not run now, ConfigError
    where it has no such replica.
    """
    hosted = find_hosted(session, name)
    replicas = running_replicas(hosted)
    if not replicas:
        raise not_running(hosted)
    found = next((replica for replica in replicas if task_name in ("", replica.name)), None)
    if found is None:
        running = ", ".join(replica.name for replica in replicas)
        raise ConfigError(f"No replica {task_name} of the job runs.", hint=f"Running: {running}.")
    return found


def find_hosted(session: Session, name: str) -> HostedJob:
    """The job, if it runs on this machine. Raises UnavailableError for any other."""
    if not isinstance(session.jobs, HostBackend):
        message = f"Jobs on {session.backend.name} do not run on this machine: vtrain cannot look into them."
        raise UnavailableError(message, hint=session.backend.no_entry_hint)
    return session.jobs.hosted(name)


def not_running(hosted: HostedJob) -> ConflictError:
    """The error for a job without a running replica."""
    name, state = hosted.job.name, short(hosted.job.state)
    job_id = shown_name(name).rpartition("/")[2]
    if has_ended(hosted.job.state):
        hint = f"Its log:\n$ {ended_log_command(name)}"
        return ConflictError(f"Job {job_id} has ended ({state}): no replica of it runs.", hint=hint)
    if hosted.job.state == CANCELLING:
        hint = f"Its log:\n$ {command_about(name, 'stream-logs')}"
        message = f"Job {job_id} is being cancelled: no replica of it runs any more."
        return ConflictError(message, hint=hint)
    return ConflictError(
        f"Job {job_id} is {state}: no replica of it runs yet.", hint="Try again in a moment."
    )


def _run(replica: RunningReplica, argv: tuple[str, ...]) -> None:
    """Run a command. Raises CommandError with its code, unless that is 0."""
    sys.stdout.flush()
    code = replica.execute(argv, terminal=_has_terminal())
    if code:
        raise CommandError("", code)


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


MOST_NAMED = 10
MOST_LINKS = 40
"""Links on the way to a file; as many as Linux follows."""
PERMISSIONS = 0o777
"""The part of a mode that is copied: no trainer makes a program that runs as the user who copies it."""
BLOCK = 1 << 20


def copy(files: CopyFlags, task: TaskFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Copy a file or a folder of a job as `cp -r` does; links stay links."""
    if not files.target:
        raise UsageError("The target is empty.", hint="For the current folder, write a dot.")
    # The project of a full name may have a colon of its own: projects/example.com:demo/…
    in_full = files.source.startswith("projects/")
    end = files.source.find(":", files.source.find("/", len("projects/")) if in_full else 0)
    text, path = (files.source[:end], files.source[end + 1 :]) if end >= 0 else (files.source, "")
    if not files.source:
        raise UsageError("The name of the job is empty.", hint="For the newest one, write @last.")
    output = None
    if names_trial(text):
        session, name, output = open_trial(common, place, text)
    else:
        session, name = open_named(common, place, text or LAST)
    source = _find(session, name, path, task.task_name, files.target, output)
    is_folder = source.is_folder()
    wanted = user_path(files.target)
    _check_folder(files.target, wanted, is_folder=is_folder)
    target = wanted / source.path.name if wanted.is_dir() else wanted
    if target.is_dir() and not is_folder:
        raise StorageError(f"Nothing is copied: {target} is a folder.", hint="Name another target.")
    if blocked := _link_in_the_way(source, target, below=wanted.is_dir()):
        hint = "Remove it, or copy to another folder."
        raise StorageError(f"Nothing is copied: {blocked} is a link, which may lead anywhere.", hint=hint)
    if is_folder:
        _copy_folder(source, target)
    elif stat.S_ISREG(source.status().st_mode):
        _copy_typed(source, target)
    else:
        raise StorageError(f"Nothing is copied: {source.path} is a pipe, a socket or a device.")
    session.console.status(f"Copied {source.path} to {target}.")


def _find(
    session: Session, name: str, path: str, replica: str, target: str, output: str | None = None
) -> Root:
    """The file or folder of this machine that is meant. Raises NotFoundError where it is not there.

    `output` is where a service keeps the files, if the job does not say it itself.
    """
    if not isinstance(session.jobs, HostBackend):
        raise _elsewhere(session, name, path, target, output)
    relative = PurePosixPath(path)
    if relative.is_absolute() or ".." in relative.parts:
        copied = f"vtrain exec {name.rpartition('/')[2]} -- tar c {shlex.quote(path)} | tar x"
        hint = f"To copy any path that a running replica sees:\n$ {copied}"
        raise ConfigError(
            f"{path} is not below the job's output folder or its working directory.",
            hint="" if has_ended(session.jobs.get(name).state) else hint,
        )
    roots = session.jobs.folders(name, replica)
    place = "/".join(relative.parts)
    there = [found for root in roots if (found := _followed(root, place, roots)) is not None]
    if not there:
        raise NotFoundError(f"The job has no {path or 'output folder'}.", hint=_what_there_is(path, roots))
    found = there[0]
    if path and found.is_folder() and not _has_files(found):
        # vtrain makes model/ and its like before the trainer starts, which may write beside itself instead.
        found = next((each for each in there if _has_files(each)), found)
    if found.is_folder() and not _has_files(found):
        raise NotFoundError(f"The job has written no files to {path or 'its output folder'}.")
    return found


def _followed(root: Root, place: str, roots: tuple[Root, ...]) -> Root | None:
    """What is at a place, with links followed as long as they stay in the job's folders; None for nothing.

    Raises ConfigError where one leads out. What is answered is opened without following any link.
    """
    path, done = place, ""
    for _ in range(MOST_LINKS):
        parts = PurePosixPath(path).parts
        try:
            for part in parts:
                done = f"{done}/{part}" if done else part
                if target := root.link(done):
                    break
            else:
                root.status(path)
                return root.below(path)
        except OSError:
            return None
        rest = parts[len(PurePosixPath(done).parts) :]
        real = Path(os.path.normpath(Path(os.path.realpath(root.path), done).parent.joinpath(target, *rest)))
        folders = {each: os.path.realpath(each.path) for each in roots}
        inside = [each for each, folder in folders.items() if real.is_relative_to(folder)]
        if not inside:
            hint = (
                f"If you trust the trainer that made it, copy it yourself:\n$ ls -l {shlex.quote(str(real))}"
            )
            raise ConfigError(f"{place} is a link out of the job's folders, to {real}.", hint=hint)
        root, path, done = inside[0], str(real.relative_to(folders[inside[0]])), ""
        path = "" if path == "." else path
    return None


def _has_files(root: Root) -> bool:
    """Whether there is something to copy; what cannot be read counts, for the copy to say why."""
    unreadable: list[OSError] = []
    return any(not found.is_folder for found in root.walk(on_error=unreadable.append)) or bool(unreadable)


def _check_folder(typed: str, wanted: Path, *, is_folder: bool) -> None:
    """Raise StorageError where a folder is meant, as for `cp`, and there is none."""
    means_folder = typed.endswith("/") or is_folder
    if means_folder and os.path.lexists(wanted) and not wanted.is_dir():
        raise StorageError(f"Nothing is copied: {typed} is not a folder.", hint="Name another one.")
    needed = typed if typed.endswith("/") else os.path.dirname(typed)  # noqa: PTH120 - as it was typed
    if needed and not is_folder and not user_path(needed).is_dir():
        hint = f"$ mkdir -p {shlex.quote(needed)}"
        raise StorageError(f"Nothing is copied: there is no folder {needed}.", hint=hint)


def _link_in_the_way(source: Root, target: Path, *, below: bool) -> Path | None:
    """The first link of the target that a copied file would replace, or that leads on to where it belongs.

    A target that is not `below` an existing folder is the path that the user typed, and may be a link.
    """
    if below and target.is_symlink():
        return target
    places = (target / found.place for found in source.walk()) if target.is_dir() else iter(())
    return next((place for place in places if place.is_symlink()), None)


def _what_there_is(path: str, roots: tuple[Root, ...]) -> str:
    """A hint with the name nearest to the path, or with all names; folders without a file are left out."""
    names = [
        found.name + "/" * found.is_folder
        for root in roots
        for found in sorted(root.entries(), key=lambda found: found.name)
        if not found.is_folder or _has_files(root.below(found.name))
    ]
    more = ", …" if len(names) > MOST_NAMED else ""
    listed = f"It has {', '.join(names[:MOST_NAMED])}{more}." if names else "It has written no files."
    return did_you_mean(path, names, otherwise=listed)


def _elsewhere(
    session: Session, name: str, path: str, target: str, output: str | None = None
) -> UnavailableError:
    """The error for a job of a service, with the command that copies its files."""
    if output is None:
        job = session.jobs.get(name)
        output = job.job_spec.output_uri if isinstance(job, CustomJob) else ""
    message = f"The files of jobs on {session.backend.name} are not on this machine."
    if not output:
        return UnavailableError(message, hint="The job names no baseOutputDirectory.")
    words = ["gcloud", "storage", "cp", "--recursive", f"{output.rstrip('/')}/{path}".rstrip("/"), target]
    return UnavailableError(message, hint=f"$ {shlex.join(words)}")


def _copy_folder(source: Root, target: Path) -> None:
    """Copy a folder with all below it. Raises StorageError where some cannot be copied."""
    failed: list[OSError] = []
    # All names first: the target may lie in the folder that is copied.
    found, into = [*source.walk(on_error=failed.append)], Root(target)
    for each in found:
        try:
            _copy_one(source, each, into)
        except OSError as error:
            failed.append(error)
    with suppress(OSError):  # they are nobody's data
        for folder in (each for each in reversed(found) if each.is_folder):
            _describe(into, folder)
    if failed:
        count = "1 file" if len(failed) == 1 else f"{len(failed)} files"
        raise StorageError(f"{count} could not be copied. The first: {refusal(failed[0])}.") from failed[0]


def _copy_one(source: Root, found: Found, into: Root) -> None:
    """Copy a file, a link as a link, or a folder without what it holds."""
    if found.is_folder:
        with into.folder(found.place, make_mode=0o777):
            return
    if link := source.link(found.place):
        with into.above(found.place, make_mode=0o777) as (folder, name):
            os.symlink(link, name, dir_fd=folder)
        return
    if not found.is_file:
        raise OSError(errno.EINVAL, "A pipe, a socket or a device", str(source.path / found.place))
    with source.open(found.place) as file:
        _publish(file, into, found.place)


def _copy_typed(source: Root, target: Path) -> None:
    """Copy one file to the path that the user typed: a link there stays a link, a device a device."""
    real = Path(os.path.realpath(target))
    with source.open() as file:
        if real.exists() and os.path.samestat(os.fstat(file.fileno()), real.stat()):
            raise StorageError(f"Nothing is copied: {source.path} and {target} are the same file.")
        if real.exists() and not real.is_file():  # such as /dev/stdout, which cannot be replaced
            with real.open("wb") as device:
                shutil.copyfileobj(file, device)
            return
        _publish(file, Root(real.parent), real.name)


def _publish(file: BinaryIO, into: Root, place: str) -> None:
    """Copy an open file, its times and its permissions. The target is replaced at the end, or stays."""
    status = os.fstat(file.fileno())
    with into.publishing(place, make_mode=0o777) as copy:
        shutil.copyfileobj(file, copy, BLOCK)
        copy.flush()
        os.fchmod(copy.fileno(), status.st_mode & PERMISSIONS)
        os.utime(copy.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))


def _describe(into: Root, folder: Found) -> None:
    """Give a copied folder the permissions and the times of the one that was copied."""
    with into.folder(folder.place) as descriptor:
        os.fchmod(descriptor, folder.status.st_mode & PERMISSIONS)
        os.utime(descriptor, ns=(folder.status.st_atime_ns, folder.status.st_mtime_ns))
