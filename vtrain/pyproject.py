"""vtrain's tables of pyproject.toml: found, parsed, and checked to the letter."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from vtrain.errors import ConfigError, FieldError
from vtrain.messages.nearest import did_you_mean
from vtrain.special_files import why_special
from vtrain.text_files import decoded, why_not_utf8
from vtrain.toml_reader import line_of, load_toml

TABLE = ("tool", "vtrain")
MAX_SIZE = 16_000_000
"""Bytes of the largest file that is read."""

_PLACE = r" \(at (?:line (\d+), column \d+|end of document)\)\Z"  # compiled where there is an error
_MAY_NAME_THE_TABLE = r"""tool["']?[ \t]*(?:\.[ \t]*["']?vtrain|\]|=)"""
_EXPECTED = r"Expected `([^`]+)`( [<>]= -?\d+)?(?:, got `([^`]+)`)?"
_WHERE = r"`\$([^`]*)`\Z"
_WORDS = {
    "str": "text",
    "array": "a list",
    "object": "a table",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
}
_SAMPLES = {"str": '"VALUE"', "array": '["VALUE"]', "object": '{ NAME = "VALUE" }'}
FLAGS = {
    "display-name": "name",
    "local-package-path": "path",
    "python-module": "module",
    "executor-image-uri": "image",
    "container-image-uri": "image",
    "base-output-dir": "output-dir",
    "replicas": "replica-count",
    "accelerator": "gpus",
    "staging-bucket": "bucket",
}
"""Flags, by their names without `--`, whose keys in `[tool.vtrain.job]` have others."""


class ProjectJob(
    msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True, forbid_unknown_fields=True
):
    """`[tool.vtrain.job]`: what runs where a command line names nothing to run. Paths begin at the file."""

    name: Annotated[
        str, Meta(description="Display name of the job; by default the project's name, or its folder's.")
    ] = ""
    path: Annotated[
        str, Meta(description="Folder with the training code, or a single script; by default this folder.")
    ] = ""
    module: Annotated[str, Meta(description="Python module to run, such as trainer.task.")] = ""
    script: Annotated[str, Meta(description="Python or shell script to run, in place of a module.")] = ""
    image: Annotated[
        str,
        Meta(description="Image that the trainer runs in; without module and script, the container to run."),
    ] = ""
    config: Annotated[
        str, Meta(description="YAML or JSON file of a CustomJobSpec or CustomJob, as --config takes it.")
    ] = ""
    command: Annotated[tuple[str, ...], Meta(description="Command of the container.")] = ()
    args: Annotated[tuple[str, ...], Meta(description="Arguments of the trainer.")] = ()
    env: Annotated[dict[str, str], Meta(description="Variables of the trainer, by name.")] = {}
    requirements: Annotated[
        tuple[str, ...], Meta(description="Requirements to install beside those of the package.")
    ] = ()
    extra_packages: Annotated[
        tuple[str, ...], Meta(description="Package files to install, relative to path.")
    ] = ()
    extra_dirs: Annotated[tuple[str, ...], Meta(description="Folders to take along, relative to path.")] = ()
    machine_type: Annotated[str, Meta(description="Machine type on Vertex AI, such as n1-standard-4.")] = ""
    replica_count: Annotated[
        int,
        Meta(ge=1, le=1000, description="Replicas of the job: the primary, and the others in a second pool."),
    ] = 1
    accelerator_type: Annotated[
        str, Meta(description="GPU or TPU of each replica, such as NVIDIA_TESLA_T4.")
    ] = ""
    accelerator_count: Annotated[
        int, Meta(ge=0, le=1000, description="Accelerators of each replica; by default 1 of the type.")
    ] = 0
    gpus: Annotated[
        str, Meta(description="GPUs of each replica by short names, such as T4 or L4:2, with their machine.")
    ] = ""
    boot_disk_size: Annotated[
        int, Meta(ge=1, le=64000, description="Size of each machine's disk in GB, such as 200.")
    ] = 0
    spot: Annotated[bool, Meta(description="Cheaper machines that may be taken away.")] = False
    flex_start: Annotated[bool, Meta(description="Wait for machines that are in demand.")] = False
    labels: Annotated[dict[str, str], Meta(description="Labels of the job, by name.")] = {}
    region: Annotated[str, Meta(description="Region on Vertex AI, such as us-central1.")] = ""
    bucket: Annotated[
        str, Meta(description="Bucket for packages, in place of staging-bucket: gs://NAME or file:///folder.")
    ] = ""
    output_dir: Annotated[
        str, Meta(description="Where the job writes: gs://BUCKET/FOLDER or file:///folder (AIP_MODEL_DIR).")
    ] = ""
    service_account: Annotated[
        str, Meta(description="Service account that the job runs as on Vertex AI.")
    ] = ""


_Int = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""The integers of TOML."""


class ProjectSettings(
    msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True, forbid_unknown_fields=True
):
    """`[tool.vtrain]`: the settings of a project."""

    backend: Annotated[str, Meta(description="Where jobs run: process, docker, vertex, or a plug-in.")] = ""
    staging_bucket: Annotated[
        str, Meta(description="Bucket for packages: gs://NAME, or file:///folder on this machine.")
    ] = ""
    memory: Annotated[
        str | _Int | float,
        Meta(description="Memory that all jobs on this machine may use, such as 16g; none: no limit."),
    ] = ""
    accelerators: Annotated[
        str | _Int | list[str | _Int],
        Meta(description="GPUs that jobs on this machine may use: none, indexes such as 0,1, or UUIDs."),
    ] = ""
    job: Annotated[
        ProjectJob | None, Meta(description="What runs where a command line names nothing to run.")
    ] = None


class Pyproject(msgspec.Struct, frozen=True, kw_only=True):
    """A pyproject.toml, and what its `[tool.vtrain]` says. `name` is that of its `[project]`, if any."""

    file: Path
    text: str
    settings: ProjectSettings
    name: str = ""

    def setting(self, key: str) -> str:
        """A setting as text; empty where it is not given."""
        value = getattr(self.settings, key.replace("-", "_"))
        return ",".join(map(str, value if isinstance(value, list) else [value]))

    def fault(self, path: tuple[str, ...], problem: str, hint: str = "") -> ConfigError:
        """The error for the key at a path below `[tool.vtrain]`, with its line."""
        return _fault(self.file, self.text, path, f": {problem}", hint)

    def blames(self, key: str) -> Callable[[FieldError], ConfigError]:
        """The origin of what a key of the job says: makes the key's fault of an error about a field."""
        return lambda error: self.fault(("job", key), error.message.removesuffix("."), error.hint)


def nearest_pyproject(folder: Path) -> Pyproject | None:
    """The pyproject.toml of a folder, or of the nearest one above that has such a file.

    Raises ConfigError for one that cannot be read, and for a table of vtrain's that is wrong, with its line.
    """
    for place in (folder, *folder.parents):
        file = place / "pyproject.toml"
        if reason := why_special(file):
            raise ConfigError(f"{file} cannot be read: {reason}.", hint="Rename it, or work elsewhere.")
        if file.is_file():
            return read_pyproject(file)
    return None


def read_pyproject(file: Path) -> Pyproject:
    """A pyproject.toml, checked. Raises ConfigError as `nearest_pyproject` does."""
    if file.stat().st_size > MAX_SIZE:  # every command reads it
        raise ConfigError(f"{file} is larger than 16 MB.", hint="Rename it, or work elsewhere.")
    try:
        data = file.read_bytes()
        if reason := why_not_utf8(data):
            raise ConfigError(f"{file} is not TOML: {reason}.", hint="Save it as UTF-8, or rename it.")
        return parse_pyproject(file, decoded(data))
    except PermissionError:
        raise ConfigError(f"{file} cannot be read: permission denied.", hint="Make it readable.") from None


@lru_cache(maxsize=4)
def parse_pyproject(file: Path, text: str) -> Pyproject:
    """The text of a file, checked; once for all the settings that a command asks for."""
    if "vtrain" not in text or not re.search(_MAY_NAME_THE_TABLE, text):
        # A file that is of no concern to vtrain may be anything. Reading TOML takes a twentieth of a command.
        return Pyproject(file=file, text=text, settings=ProjectSettings())
    document = _document(file, text)
    try:
        settings = _checked(file, text, document)
    except RecursionError:
        raise _too_deep(file) from None
    project = document.get("project")
    name = project.get("name") if isinstance(project, dict) else ""
    return Pyproject(file=file, text=text, settings=settings, name=name if isinstance(name, str) else "")


def _document(file: Path, text: str) -> dict[str, Any]:
    try:
        return load_toml(text)
    except ValueError as error:
        found = re.search(_PLACE, str(error))
        line = (found and found[1]) or text.rstrip("\n").count("\n") + 1
        problem = re.sub(_PLACE, "", str(error))
        raise ConfigError(f"{file}:{line}: not TOML: {problem}.", hint="Fix that line.") from error
    except RecursionError:
        raise _too_deep(file) from None


def _too_deep(file: Path) -> ConfigError:
    return ConfigError(f"{file} is nested too deeply.")


def _checked(file: Path, text: str, document: dict[str, Any]) -> ProjectSettings:
    """The settings in a document. Raises ConfigError, with the line, for an unknown key or a wrong value."""
    tools = document.get("tool", {})
    table = tools.get("vtrain", {}) if isinstance(tools, dict) else {}
    if not isinstance(table, dict):
        place = _place(file, text, TABLE)
        raise ConfigError(f"{place}: tool.vtrain is not a table.", hint="Write it as [tool.vtrain].")
    for path, known in _unknown_keys(ProjectSettings, table, ()):
        raise _unknown_key(file, text, path, known)
    for path in _with_nul(table, ()):
        raise _fault(file, text, path, " holds a NUL character", "Leave it out.")
    try:
        return msgspec.convert(table, ProjectSettings)
    except msgspec.ValidationError as error:
        raise _wrong_value(file, text, str(error)) from error


def _unknown_keys(
    cls: type[msgspec.Struct], table: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The paths of keys that a table does not have, each with the keys that it has."""
    known = cls.__struct_encode_fields__
    for name, value in table.items():
        if name not in known:
            yield (*path, name), known
        elif name == "job" and not path and isinstance(value, dict):
            yield from _unknown_keys(ProjectJob, value, (name,))


def _unknown_key(file: Path, text: str, path: tuple[str, ...], known: Iterable[str]) -> ConfigError:
    name = path[-1].replace("_", "-")
    hint = did_you_mean(name, known, otherwise=f"Its keys are {', '.join(sorted(known))}.")
    if len(path) > 1:
        hint = f"Write {FLAGS[name]}." if name in FLAGS else hint
    elif name in ProjectJob.__struct_encode_fields__:
        hint = f"It belongs to [{_dotted(('job',))}]."
    place = _place(file, text, (*TABLE, *path))
    return ConfigError(f"{place}: [{_dotted(path[:-1])}] has no key {path[-1]!r}.", hint=hint)


def _with_nul(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The paths of texts with a NUL character, which no argument and no path of the system holds."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _with_nul(f"{name}\0" if "\0" in name else item, (*path, name))
    elif isinstance(value, list):
        for item in value:
            yield from _with_nul(item, path)
    elif isinstance(value, str) and "\0" in value:
        yield path


def _wrong_value(file: Path, text: str, message: str) -> ConfigError:
    """The error for a value of another type, in words, from msgspec's sentence about it."""
    where, found = re.search(_WHERE, message), re.match(_EXPECTED, message)
    path = tuple(re.sub(r"\[[^\]]*\]", "", where[1] if where else "").strip(".").split("."))
    if found is None:
        return _fault(file, text, path, f": {message}")
    unsaid = ("null", "int") if "float" in found[1] else ("null",)  # TOML has no null
    kinds = [kind for kind in found[1].split(" | ") if kind not in unsaid]
    wanted = " or ".join(dict.fromkeys(_WORDS.get(kind, kind) for kind in kinds)) + (found[2] or "")
    got = f", found {_WORDS.get(found[3], found[3])}" if found[3] else ""
    sample = next((sample for kind, sample in _SAMPLES.items() if kind in kinds), "")
    hint = f"Write {path[-1]} = {sample}." if sample else ""
    if path == ("job",):
        hint = "Write [tool.vtrain.job]."
    elif where and where[1].endswith("]") and kinds == ["str"]:  # one value of several
        hint = "Write it in quotes."
    return _fault(file, text, path, f": expected {wanted}{got}", hint)


def _fault(file: Path, text: str, path: tuple[str, ...], problem: str, hint: str = "") -> ConfigError:
    place = _place(file, text, (*TABLE, *path))
    return ConfigError(f"{place}: {path[-1]} of [{_dotted(path[:-1])}]{problem}.", hint=hint)


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join((*TABLE, *path))


def _place(file: Path, text: str, path: tuple[str, ...]) -> str:
    """`FILE:LINE` of a key, or the file where its line is not known."""
    line = line_of(text, path)
    return f"{file}:{line}" if line else str(file)
