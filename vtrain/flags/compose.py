"""Lays flags over a config file: what the user wrote becomes a job, and a trainer to package.

In order: the file; `--worker-pool-spec` in place of its pools; single flags in place of their field;
`--args` and `--command` into every pool; labels and `--env` merged by name; `--set` last.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from vtrain.errors import ConfigError, UsageError
from vtrain.flags.pools import check_pools, pool_document, pool_list
from vtrain.messages.codec import fields, read_message
from vtrain.messages.custom_job import OUTPUT_FIELDS, CustomJob, CustomJobSpec
from vtrain.messages.paths import assign
from vtrain.packaging.source import TrainerSource


class JobRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A job as flags say it, each already parsed by gcloud's grammar. None means: not given.

    `fallback_name` and `fallback_fields` (of the spec) count where neither file nor flag says anything.
    """

    display_name: str | None = None
    config: str | None = None
    pools: tuple[dict[str, str], ...] = ()
    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    package_uris: tuple[str, ...] = ()
    labels: dict[str, str] | None = None
    env: dict[str, str] = {}
    assignments: tuple[str, ...] = ()
    spec_fields: dict[str, Any] = {}
    kms_key: str = ""
    source: TrainerSource | None = None
    executor_image_uri: str = ""
    output_image_uri: str = ""
    fallback_name: str = ""
    fallback_fields: dict[str, Any] = {}


class Images(msgspec.Struct, frozen=True, kw_only=True):
    """The images that a job names: those of containers, and those that Python packages run in."""

    containers: tuple[str, ...] = ()
    executors: tuple[str, ...] = ()


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A job whose trainer may still have to be packaged.

    `command` is for containers that run it, `output_image_uri` the name that its image is given.
    """

    document: dict[str, Any]
    source: TrainerSource | None
    command: tuple[str, ...] = ()
    output_image_uri: str = ""

    @property
    def executor_image_uri(self) -> str:
        """The image in which the primary's Python package would run; empty when none is named."""
        pools = self.document["jobSpec"].get("workerPoolSpecs") or [{}]
        return str((pools[0].get("pythonPackageSpec") or {}).get("executorImageUri", ""))

    @property
    def images(self) -> Images:
        """The images that the pools name."""
        pools = self.document["jobSpec"].get("workerPoolSpecs") or []
        containers = [(pool.get("containerSpec") or {}).get("imageUri", "") for pool in pools]
        executors = [(pool.get("pythonPackageSpec") or {}).get("executorImageUri", "") for pool in pools]
        return Images(containers=tuple(filter(None, containers)), executors=tuple(filter(None, executors)))

    def finish(self, python_module: str, package_uris: Sequence[str]) -> CustomJob:
        """The job, with the packaged trainer in each pool that runs a Python package of this folder."""
        for pool in self.document["jobSpec"].get("workerPoolSpecs", []) if self.source else []:
            python = pool.get("pythonPackageSpec")
            if python is not None and not python.get("packageUris"):
                python["packageUris"] = list(package_uris)
                python.setdefault("pythonModule", python_module)
        return read_message(CustomJob, self.document)

    def finish_with_image(self, image_uri: str, module_command: Callable[[str], Sequence[str]]) -> CustomJob:
        """The job, with a container of the image in each pool that runs a Python package of this folder.

        `module_command` tells the command for a pool's own module; empty leaves it to the image.
        """
        for pool in self.document["jobSpec"].get("workerPoolSpecs", []) if self.source else []:
            python = pool.get("pythonPackageSpec")
            if python is None or python.get("packageUris"):
                continue
            command = self.command or module_command(python.get("pythonModule", ""))
            container = {"imageUri": image_uri, **({"command": list(command)} if command else {})}
            pool["containerSpec"] = container | {k: python[k] for k in ("args", "env") if k in python}
            del pool["pythonPackageSpec"]
        return read_message(CustomJob, self.document)


def compose(request: JobRequest, *, executor_required: bool) -> Draft:
    """The draft of a job. Raises ConfigError or UsageError with the path of what is wrong."""
    document = _read_config(request.config) if request.config else {"jobSpec": {}}
    spec: dict[str, Any] = document["jobSpec"]
    if request.pools:
        spec["workerPoolSpecs"] = _pools_from_flags(request, executor_required)
    source = _source(request)
    if source is not None:
        _make_room(spec, request.executor_image_uri)
        source = _settle_module(spec["workerPoolSpecs"], source)
    _lay_over_job(document, request)
    spec |= request.spec_fields
    for name, value in request.fallback_fields.items():
        spec.setdefault(name, value)
    _lay_over_pools(spec.get("workerPoolSpecs") or [], request)
    for assignment in request.assignments:
        assign(document, assignment)
    return Draft(
        document=document,
        source=source,
        command=request.command,
        output_image_uri=request.output_image_uri or _output_image(request),
    )


def _read_config(path: str) -> dict[str, Any]:
    """A CustomJobSpec, or a whole CustomJob as `describe` and `--dry-run` print it."""
    from vtrain.messages.yaml_reader import load_yaml

    origin = "standard input" if path == "-" else path
    content = load_yaml(_read_text(path), origin)
    if not isinstance(content, dict):
        found = "nothing" if content is None else f"{content!r:.60}"
        raise ConfigError(f"{origin}: expected the fields of a CustomJobSpec, found {found}.")
    try:
        return _normalise(content)
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error.message}", hint=error.hint) from error


def _normalise(content: dict[Any, Any]) -> dict[str, Any]:
    """Checked, with one form for each value, so that flags can be laid over it."""
    from vtrain.messages.codec import to_document

    whole_job = not set(content).isdisjoint(set(fields(CustomJob)) - set(fields(CustomJobSpec)))
    if not whole_job:
        return {"jobSpec": to_document(read_message(CustomJobSpec, content))}
    job = {name: value for name, value in content.items() if name not in OUTPUT_FIELDS}
    return {"jobSpec": {}} | to_document(read_message(CustomJob, job))


def _read_text(path: str) -> str:
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).expanduser().read_bytes()
        return data.decode("utf-8")
    except OSError as error:
        raise ConfigError(f"--config: cannot read {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"--config: {path} is not UTF-8 text.") from error


def _pools_from_flags(request: JobRequest, executor_required: bool) -> list[dict[str, Any]]:
    pools = request.pools
    check_pools(pools, executor_required=executor_required and request.source is None)
    packaged = "local-package-path" in pools[0]
    if packaged:
        software = {k: v for k, v in pools[0].items() if k in ("executor-image-uri", "python-module")}
        pools = tuple(pool | software if pool else pool for pool in pools)
    return [pool_document(pool, request.package_uris, packaged=packaged) for pool in pools]


def _output_image(request: JobRequest) -> str:
    return request.pools[0].get("output-image-uri", "") if request.pools else ""


def _source(request: JobRequest) -> TrainerSource | None:
    """What to package: named by single flags, or in the first pool."""
    first = request.pools[0] if request.pools else {}
    if "local-package-path" not in first:
        return request.source
    if request.source is not None:
        raise UsageError("--local-package-path is given twice: as a flag and in --worker-pool-spec.")
    return make_source(
        folder=first["local-package-path"],
        python_module=first.get("python-module", ""),
        script=first.get("script", ""),
        requirements=pool_list(first, "requirements"),
        extra_packages=pool_list(first, "extra-packages"),
        extra_dirs=pool_list(first, "extra-dirs"),
    )


def make_source(*, folder: str, python_module: str, script: str, **lists: tuple[str, ...]) -> TrainerSource:
    """The trainer in a folder, or in a single file. Raises ConfigError when there is no such place."""
    path = Path(folder).expanduser()
    alone = path.is_file() and not python_module and not script
    if alone:
        path, script = path.parent, path.name
    if not path.is_dir():
        what = "is a file, not a folder" if path.exists() else "does not exist"
        raise ConfigError(f"--local-package-path: {folder} {what}.")
    return TrainerSource(
        folder=path.absolute(), python_module=python_module, script=script, script_alone=alone, **lists
    )


def _make_room(spec: dict[str, Any], executor_image_uri: str) -> None:
    """Give every pool that names no program a Python package; without pools, one replica."""
    pools = spec.setdefault("workerPoolSpecs", [])
    if not pools:
        pools.append({"replicaCount": 1})
    for pool in pools:
        if pool and "containerSpec" not in pool:
            python = pool.setdefault("pythonPackageSpec", {})
            if executor_image_uri:
                python["executorImageUri"] = executor_image_uri


def _settle_module(pools: list[dict[str, Any]], source: TrainerSource) -> TrainerSource:
    """What flags name runs in every pool; else each pool runs its own module, and the first is checked."""
    tasks = [pool["pythonPackageSpec"] for pool in pools if "pythonPackageSpec" in pool]
    if source.python_module or source.script:
        for task in tasks:
            task.pop("pythonModule", None)
        return source
    modules = [task["pythonModule"] for task in tasks if task.get("pythonModule")]
    if not modules:
        raise ConfigError(
            "What is to be run is not named.", hint="Give --python-module=MODULE or --script=FILE."
        )
    return msgspec.structs.replace(source, python_module=modules[0])


def _lay_over_job(document: dict[str, Any], request: JobRequest) -> None:
    if request.display_name is not None:
        document["displayName"] = request.display_name
    elif request.fallback_name:
        document.setdefault("displayName", request.fallback_name)
    if request.labels is not None:
        document["labels"] = dict(sorted((document.get("labels", {}) | request.labels).items()))
    if request.kms_key:
        document["encryptionSpec"] = {"kmsKeyName": request.kms_key}


def _lay_over_pools(pools: list[dict[str, Any]], request: JobRequest) -> None:
    for pool in pools:
        for key in ("containerSpec", "pythonPackageSpec"):
            task = pool.get(key)
            if task is None:
                continue
            if request.args:
                task["args"] = list(request.args)
            if request.command and key == "containerSpec":
                task["command"] = list(request.command)
            if request.env:
                task["env"] = _merge_env(task.get("env", []), request.env)


def _merge_env(env: list[dict[str, str]], changes: dict[str, str]) -> list[dict[str, str]]:
    kept = [_changed(variable, changes) for variable in env]
    known = {variable.get("name") for variable in env}
    return kept + [{"name": name, "value": value} for name, value in changes.items() if name not in known]


def _changed(variable: dict[str, str], changes: dict[str, str]) -> dict[str, str]:
    name = variable.get("name", "")
    return {"name": name, "value": changes[name]} if name in changes else variable
