"""`--set PATH=VALUE`: the assignment of one field of a job by its path."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from vtrain.errors import ConfigError, UsageError
from vtrain.messages.codec import Field, fields, read_message
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.structs import Message, Resource

_STEP = re.compile(r"([A-Za-z_][\w-]*)((?:\[\d+\])*)")
_MAX_INDEX = 99


class PathRoot(msgspec.Struct, frozen=True, kw_only=True):
    """The message in which paths begin: the job or, for a field that it lacks, its spec."""

    job: type[Resource]
    spec: str


CUSTOM_JOB_PATHS = PathRoot(job=CustomJob, spec="jobSpec")


def assign(document: dict[str, Any], assignment: str, root: PathRoot = CUSTOM_JOB_PATHS) -> str:
    """Set one field of a job's document: `workerPoolSpecs[0].machineSpec.machineType=n1-standard-8`.

    A path begins at the job (`displayName`, `labels.team`) or, for everything else, at its spec. The
    value is text where the field is text, and JSON or YAML flow style elsewhere. Raises UsageError when
    there is no `=`, ConfigError for a path or a value that the API does not have. The answer is the whole
    path, from the job on.
    """
    path, equals, text = assignment.partition("=")
    if not equals or not path:
        raise UsageError(f"--set: expected PATH=VALUE, found {assignment!r}.")
    steps = _split(path)
    if steps[0] in root.job.output_fields:
        raise ConfigError(f"--set {path}: {steps[0]} is written by the service alone.")
    if steps[0] not in fields(root.job):
        steps = [root.spec, *steps]
    try:
        _assign(document, root.job, steps, text, path)
        read_message(root.job, document)  # right until now
    except ConfigError as error:
        raise ConfigError(f"--set {path}: {error.message}", hint=error.hint) from None
    return path if steps[0] != root.spec or path.startswith(root.spec) else f"{root.spec}.{path}"


def _split(path: str) -> list[str | int]:
    steps: list[str | int] = []
    name, _, rest = path.partition(".")
    if name == "labels":
        return ["labels", rest] if rest else ["labels"]
    for part in path.split("."):
        match = _STEP.fullmatch(part)
        if match is None:
            raise ConfigError(f"--set {path}: {part!r} is not a field name.", hint="Write a.b[0].c=VALUE.")
        steps.append(match[1])
        indices = re.findall(r"\d+", match[2])
        steps.extend(int(index) if len(index) < 10 else _MAX_INDEX + 1 for index in indices)
    return steps


def _assign(target: Any, cls: type[Message], steps: list[Any], text: str, path: str) -> None:
    name, *rest = steps
    if isinstance(name, int):
        raise ConfigError(f"[{name}] follows what is not a list.")
    if name not in fields(cls):
        read_message(cls, {name: None})
    field = fields(cls)[name]
    if not rest:
        is_text = field.kind in ("string", "enum", "duration") and not field.repeated
        target[name] = text if is_text else _parse(text)
    elif field.kind == "map":
        _below(target, name, {})[rest[0]] = text
    elif field.repeated:
        _assign_item(_below(target, name, []), field, rest, text, path)
    elif field.message is not None:
        _assign(_below(target, name, {}), field.message, rest, text, path)  # type: ignore[arg-type]
    else:
        raise ConfigError(f"{name} is a {field.kind}; nothing lies below it.")


def _below(target: Any, key: Any, empty: Any) -> Any:
    """The mapping or list below a key, made where there is none.

    Raises ConfigError where an earlier assignment has put something else there.
    """
    found = target.get(key) if isinstance(target, dict) else target[key]
    if found is None:
        found = target[key] = empty
    if not isinstance(found, type(empty)):
        raise ConfigError(f"nothing lies below {key}, which was set to {str(found)[:60]!r}.")
    return found


def _assign_item(items: list[Any], field: Field, steps: list[Any], text: str, path: str) -> None:
    index, *rest = steps
    if not isinstance(index, int):
        raise ConfigError(f"{field.name} is a list.", hint=f"Write {field.name}[0].{index}=….")
    if index > min(len(items), _MAX_INDEX):
        raise ConfigError(f"{field.name} has {len(items)} elements; the next index is {len(items)}.")
    if index == len(items):
        items.append({} if field.message else "")
    if rest and field.message is not None:
        _assign(_below(items, index, {}), field.message, rest, text, path)  # type: ignore[arg-type]
    elif rest:
        raise ConfigError(f"nothing lies below {field.name}[{index}].")
    else:
        items[index] = text if field.kind in ("string", "enum") else _parse(text)


def _parse(text: str) -> Any:
    from vtrain.messages.yaml_reader import load_yaml

    return load_yaml(text, "the value")
