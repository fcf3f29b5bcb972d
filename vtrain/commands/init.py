"""`vtrain init` writes `[tool.vtrain.job]`, `vtrain schema` the JSON schemas by which editors check files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from vtrain.atomic import publishing_file
from vtrain.commands.session import answer_to, open_console
from vtrain.errors import ConfigError, StorageError, UsageError, VtrainError
from vtrain.flags.options import CommonFlags, DryRunFlag, InitFlags, SchemaFlag
from vtrain.messages.custom_job import CustomJob, CustomJobSpec
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.json_schema import messages_schema, table_schema
from vtrain.messages.nearest import did_you_mean
from vtrain.messages.persistent_resource import PersistentResource
from vtrain.output.console import Console
from vtrain.packaging.candidates import TrainerCandidate, find_candidates, is_file, named_candidate
from vtrain.packaging.prebuilt import HOST, newest_image
from vtrain.packaging.source import interpreter_of, relative_path
from vtrain.pyproject import (
    TABLE,
    ProjectJob,
    ProjectSettings,
    nearest_pyproject,
    parse_pyproject,
    read_pyproject,
)
from vtrain.settings import check_current_folder
from vtrain.special_files import why_special

FILE = "pyproject.toml"
MACHINE_TYPE = "n1-standard-4"
MOST_SHOWN = 5
_HEADER = "[tool.vtrain.job]"
_LATER = ('# args = ["--epochs=10"]', '# env = { NAME = "value" }', '# requirements = ["pandas"]')
_ON_VERTEX = (
    "# For Vertex AI:",
    f'# image = "{HOST}/IMAGE:latest"',
    f'# machine-type = "{MACHINE_TYPE}"',
    '# region = "us-central1"',
    '# bucket = "gs://my-bucket"',
)


def init(flags: InitFlags, run: DryRunFlag, common: CommonFlags) -> None:
    """Write the job of the current folder. Raises ConfigError where there is one, or nothing to run."""
    console = open_console(common)
    check_current_folder()
    folder = Path.cwd()
    file = folder / FILE
    if reason := why_special(file):
        raise ConfigError(f"{file} cannot be read: {reason}.", hint="Rename it, or work elsewhere.")
    if file.is_symlink() and not file.exists():
        raise ConfigError(f"{file} is a link that leads nowhere.", hint="Remove the link.")
    before = read_pyproject(file) if file.is_file() else None
    if before is not None and before.settings.job is not None:
        raise before.fault(
            ("job",), "it is there already", "Change it, or remove it and run vtrain init again."
        )
    asks = console.can_ask and not flags.yes
    entry = _named_entry(folder, flags.entry) if flags.entry is not None else None
    job = _answers(console, folder, entry, asks=asks)
    table = _table(job)
    if run.dry_run:
        console.status(f"Would write to {file}:\n\n{table}")
        return
    above = nearest_pyproject(folder.parent) if before is None else None
    if above is not None and msgspec.to_builtins(above.settings):
        console.warn(f"[tool.vtrain] of {above.file} does not count here any more.")
    _write(file, table)
    console.status(f"Wrote {_HEADER} to {file}:\n\n{table}\nRun it here:\n$ vtrain run\n")


def _answers(console: Console, folder: Path, entry: TrainerCandidate | None, *, asks: bool) -> ProjectJob:
    """The job of the entry or else that the folder suggests or, where somebody can be asked, is answered."""
    if entry is None:
        found = find_candidates(folder)
        entry = _asked_entry(console, folder, found) if asks else _first(console, found)
    job = ProjectJob(module=entry.module, script=entry.script, path=entry.path)
    if not asks or answer_to(console, "Will it run on Vertex AI too? [y/N]: ").lower() not in ("y", "yes"):
        return job
    _, image = newest_image(entry.imports)
    shown = f" [{image}]" if image else " (empty: none yet)"
    image = answer_to(console, f"Image that it runs in{shown}: ") or image
    bucket = answer_to(console, "Cloud Storage bucket for its packages (empty: none yet): ")
    name = bucket.removeprefix("gs://").strip("/")
    return msgspec.structs.replace(
        job, image=image, machine_type=MACHINE_TYPE, bucket=f"gs://{name}" if name else ""
    )


def _named_entry(folder: Path, name: str) -> TrainerCandidate:
    """The module or file of that name. Raises VtrainError where it is none of the folder, or no program."""
    given = Path(name)
    # The current folder has no links in its path, which the path that somebody copied may have.
    place = str(given.parent.resolve() / given.name) if given.is_absolute() else name
    file = relative_path(folder, place, "The file")
    if candidate := named_candidate(folder, file):
        return candidate
    hint = "Name a script or a module below it, or leave the name out."
    if name and os.path.isdir(folder / file):  # noqa: PTH112 - a name may be too long for Path
        raise ConfigError(f"{name} is a folder, and no package with a __main__.py.", hint=hint)
    if is_file(folder / file):
        interpreter_of(folder / file, name)  # says why it is no program
    raise ConfigError(f"There is no module and no file {name!r} in {folder}.", hint=hint)


def _first(console: Console, found: tuple[TrainerCandidate, ...]) -> TrainerCandidate:
    if not found:
        raise ConfigError(
            "No file here looks like the start of a trainer.",
            hint='Name one train.py, give it an `if __name__ == "__main__":`, or write '
            f'{_HEADER} with script = "FILE" into {FILE}.',
        )
    if len(found) > 1:
        others = ", ".join(candidate.name for candidate in found[1 : MOST_SHOWN + 1])
        console.status(f"It runs {found[0].name}. Other files that it could be: {others}.")
    return found[0]


def _asked_entry(console: Console, folder: Path, found: tuple[TrainerCandidate, ...]) -> TrainerCandidate:
    """The module or file that is typed; asked until it is in the folder."""
    if len(found) > 1:
        names = ", ".join(candidate.name for candidate in found[:MOST_SHOWN])
        console.status(f"Files that look like the start of a trainer: {names}.")
    if not found:
        console.status(f"No file in {folder} looks like the start of a trainer. Name one, or press Ctrl-C.")
    default = f" [{found[0].name}]" if found else ""
    while True:
        name = answer_to(console, f"Module or file that starts the trainer{default}: ")
        if not name and found:
            return found[0]
        try:
            return next((one for one in found if one.name == name), None) or _named_entry(folder, name)
        except VtrainError as error:
            console.status(error.message)


def _table(job: ProjectJob) -> str:
    """The table as TOML, with comments that show what else it may hold."""
    values: dict[str, Any] = msgspec.to_builtins(job)  # without the keys that are not given
    # A basic string of TOML is written as JSON's; but DEL has to be escaped, too.
    texts = {
        key: msgspec.json.encode(value).decode().replace("\x7f", "\\u007f") for key, value in values.items()
    }
    lines = [f"{key} = {text}" for key, text in texts.items()]
    later = _LATER if job.machine_type else (*_LATER, *_ON_VERTEX)
    return "\n".join((_HEADER, *lines, *later, ""))


def _write(file: Path, table: str) -> None:
    """Add the table to the file, in one step. Raises ConfigError where the file has no place for it."""
    # Read again: somebody may have changed or made it while the questions waited for their answers.
    text = file.read_bytes().decode() if file.is_file() else ""
    newline = "\r\n" if "\r\n" in text else "\n"
    start = text.rstrip() + 2 * newline if text.strip() else ""
    content = start + table.replace("\n", newline)
    try:
        parse_pyproject(file, content)
    except ConfigError as error:  # the file is not TOML, or it has `tool = {…}` on one line
        raise ConfigError(error.message, hint=f"Fix the file, or write it yourself:\n{table}") from error
    target = file.resolve()
    try:
        with publishing_file(target, None) as temporary:
            temporary.write_bytes(content.encode())
            if target.is_file():
                temporary.chmod(target.stat().st_mode & 0o777)
    except OSError as error:
        raise StorageError(f"Cannot write {file}: {error.strerror}.") from error


# schemas


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "custom-job": lambda: messages_schema(
        "The --config of vtrain custom-jobs create", CustomJobSpec, CustomJob
    ),
    "hp-tuning-job": lambda: messages_schema(
        "The --config of vtrain hp-tuning-jobs create", HyperparameterTuningJob
    ),
    "persistent-resource": lambda: messages_schema(
        "The --config of vtrain persistent-resources create", PersistentResource
    ),
    "pyproject": lambda: table_schema("vtrain's table of pyproject.toml", ProjectSettings, TABLE),
}


def schema(wanted: SchemaFlag, common: CommonFlags) -> None:
    """Print the schema of a kind of file. Raises UsageError for a kind that there is not."""
    make = SCHEMAS.get(wanted.kind)
    if make is None:
        hint = did_you_mean(wanted.kind, SCHEMAS, otherwise=f"There are {', '.join(SCHEMAS)}.")
        raise UsageError(f"There is no schema {wanted.kind!r}.", hint=hint)
    open_console(common).result(make(), "json")
