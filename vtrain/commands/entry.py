"""`vtrain run` and `vtrain submit`: a script or a folder in its own place, then `local-run` or `create`."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TypeVar

import msgspec

from vtrain.core.project_job import find_project_job
from vtrain.errors import ConfigError, UsageError
from vtrain.flags.job_options import EntryFlags, RunLine, SpecFlags, SubmitLine, TrainerFlags
from vtrain.flags.request import names_what_runs, parse_pools
from vtrain.flags.tuning_options import TuneLine, TuningFlags
from vtrain.messages.nearest import nearest
from vtrain.messages.rules import MAX_DISPLAY_NAME
from vtrain.settings import check_current_folder, named_folder, user_path
from vtrain.special_files import why_special

J = TypeVar("J", SpecFlags, TuningFlags)
SCRIPTS = ("train.py", "main.py", "task.py")
"""The scripts of a folder that are run where none is named, if there is one of them."""

DEBUG_PORT = "5678"
"""The default port of debuggers."""

_NAME_ONE = "Name a script or the folder of a trainer."


def run(given: RunLine, remainder: tuple[str, ...] | None, *, command: str = "run") -> None:
    """`local-run` of the entry, by the name of the `command` that was typed."""
    from vtrain.commands.local_run import local_run  # either of the two is needed, and takes long to import

    entry = _in_this_folder(given.entry, given.job.spec, given.job.trainer, f"vtrain {command}")
    trainer = with_entry(entry, given.job.trainer, f"vtrain {command}")
    local_run(msgspec.structs.replace(given.job, trainer=trainer), remainder, command=command)


def debug(given: RunLine, remainder: tuple[str, ...] | None) -> None:
    """`run` under a debugger, at the usual port unless `--debugpy` names another."""
    local = msgspec.structs.replace(given.job.local, debugpy=given.job.local.debugpy or DEBUG_PORT)
    job = msgspec.structs.replace(given.job, local=local)
    run(msgspec.structs.replace(given, job=job), remainder, command="debug")


def submit(given: SubmitLine, remainder: tuple[str, ...] | None) -> None:
    """`create` of the entry, by the name of its script or folder."""
    from vtrain.commands.create import create

    entry = _in_this_folder(given.entry, given.job.spec, given.job.trainer, "vtrain submit")
    trainer = with_entry(entry, given.job.trainer, "vtrain submit")
    spec = _named(given.job.spec, entry, trainer)
    create(msgspec.structs.replace(given.job, spec=spec, trainer=trainer), remainder)


def tune(given: TuneLine, remainder: tuple[str, ...] | None) -> None:
    """A tuning job of the entry, by the name of its script or folder, followed to its end."""
    from vtrain.commands.create import create_study, read_wait
    from vtrain.flags.search_space import study_file

    entry, spec = given.entry, given.job.spec
    if not spec.config:
        entry = _in_this_folder(entry, SpecFlags(), given.job.trainer, "vtrain tune")
    trainer = with_entry(entry, given.job.trainer, "vtrain tune")
    spec = _named(spec, entry, trainer)
    waiting = given.job.how.waiting
    if given.detach.detach and (waiting.wait or waiting.stream_logs):
        raise UsageError("--detach goes without --wait and --stream-logs.")
    if not given.detach.detach:
        waiting = msgspec.structs.replace(waiting, wait=True)
    how = msgspec.structs.replace(given.job.how, waiting=waiting)
    wait, file = read_wait(how), study_file(given.space, spec)
    job = msgspec.structs.replace(given.job, spec=spec, trainer=trainer, how=how)
    create_study(job, remainder, file, wait, as_file=True)


def _named(spec: J, entry: EntryFlags, trainer: TrainerFlags) -> J:
    """The flags of a job with a name: without one it is called as its script or folder."""
    if spec.display_name is not None or not (entry.entry or entry.module):
        return spec
    name = Path(trainer.script).stem or named_folder(user_path(trainer.local_package_path or ".")).name
    return msgspec.structs.replace(spec, display_name=name[:MAX_DISPLAY_NAME])


def _in_this_folder(entry: EntryFlags, spec: SpecFlags, trainer: TrainerFlags, command: str) -> EntryFlags:
    """The entry of a line that names nothing to run, where no job is saved: the one script of this folder.

    Raises UsageError where there are several.
    """
    pools = parse_pools(spec.worker_pool_spec)
    is_named = entry.entry is not None or entry.module or trainer.executor_image_uri
    is_named = is_named or names_what_runs(spec, trainer, pools) or spec.python_package_uris
    if is_named or trainer.local_package_path is not None or find_project_job() is not None:
        return entry
    here = Path()
    if not any(here.glob("*.py")):
        return entry  # the command says what it could be given
    return msgspec.structs.replace(entry, entry=_only_script(here, ".", command))


def with_entry(
    entry: EntryFlags, trainer: TrainerFlags, command: str, *, is_context: bool = False
) -> TrainerFlags:
    """The trainer's flags with the script or the folder that is the command's argument.

    `command` is how the command begins, for hints. With `is_context` the folder is the context of a
    Dockerfile, which names the program. Raises UsageError if the trainer is named twice, or the folder does
    not show what to run, and ConfigError for a path that leads nowhere.
    """
    if entry.entry == "":
        raise UsageError("The script or folder to run is empty.", hint="For the current folder, write a dot.")
    if not entry.entry and not entry.module:
        return trainer
    if not user_path(entry.entry or trainer.local_package_path or ".").is_absolute():
        check_current_folder()
    given = {"--local-package-path": trainer.local_package_path, "--script": trainer.script}
    given["--python-module"] = trainer.python_module
    is_folder = bool(entry.entry and user_path(entry.entry).is_dir())
    # A folder does not name what to run in it, and -m does not name the folder.
    compatible = ("--local-package-path",) if not entry.entry else ("--script", "--python-module") * is_folder
    for flag, value in given.items():
        if value and (flag not in compatible or (entry.module and entry.entry)):
            raise UsageError(f"What to run is named twice: as {entry.entry or '-m'} and by {flag}.")
    if not entry.entry:
        folder = trainer.local_package_path or "."
        return msgspec.structs.replace(trainer, local_package_path=folder, python_module=entry.module)
    path = user_path(entry.entry)
    if is_folder:
        module, script = entry.module or trainer.python_module, trainer.script
        if not (module or script or is_context):
            script = _only_script(path, entry.entry, command)
        return msgspec.structs.replace(
            trainer, local_package_path=entry.entry, python_module=module, script=script
        )
    if not path.exists():
        raise _missing(path, entry.entry)
    if reason := why_special(path) or ("it is a device" if path.is_char_device() else ""):
        raise ConfigError(f"{entry.entry} is no script: {reason}.", hint=_NAME_ONE)
    if entry.module:
        raise UsageError(f"-m names a module of a folder, and {entry.entry} is a file.")
    folder, script = _folder_of(path)
    return msgspec.structs.replace(trainer, local_package_path=folder, script=script)


def _folder_of(script: Path) -> tuple[str, str]:
    """The folder that a script is packaged with, and the script's path in it.

    It is the current folder, with its requirements and its packages, where the script lies below it.
    """
    check_current_folder()
    relative = os.path.relpath(script.absolute())
    if relative.startswith(os.pardir + os.sep):
        return str(script.absolute().parent), script.name
    return ".", relative


def _only_script(folder: Path, shown: str, command: str) -> str:
    """The one script of a folder that can be meant. Raises UsageError if there is none, or several."""
    found = [name for name in SCRIPTS if (folder / name).is_file()]
    if len(found) == 1:
        return found[0]
    why = f"has {' and '.join(found)}" if found else f"has no {', '.join(SCRIPTS[:-1])} or {SCRIPTS[-1]}"
    others = sorted(path.name for path in folder.glob("*.py") if path.name != "setup.py")
    script = os.path.join("" if shown == "." else shown, *(found or others or ["SCRIPT"])[:1])  # noqa: PTH118
    raise UsageError(
        f"It is not clear what to run in {shown}: it {why}.",
        hint=f"Name the script, {command} {shlex.quote(script)}, "
        f"or the module, {command} {shlex.quote(shown)} -m MODULE",
    )


def _missing(path: Path, shown: str) -> ConfigError:
    if path.is_symlink():
        return ConfigError(f"{shown} is a link that leads nowhere.", hint=_NAME_ONE)
    folder = path.parent
    names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    near = nearest(path.name, names)
    meant = os.path.join(os.path.dirname(shown.rstrip("/")), near)  # noqa: PTH118, PTH120 - as it was typed
    hint = f"Did you mean {meant}?" if near else _NAME_ONE
    return ConfigError(f"There is no file or folder {shown}.", hint=hint)
