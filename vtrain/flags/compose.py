"""Lays flags over a config file: what the user wrote becomes a job, and a trainer to package.

In order: the file; `--worker-pool-spec` in place of its pools; single flags in place of their field;
`--args` and `--command` into every pool; labels and `--env` merged by name; `--set` last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from vtrain.errors import ConfigError, UsageError
from vtrain.flags.config_file import check_not_legacy, read_config
from vtrain.flags.pools import check_config_pools, check_pools, pool_document, pool_list
from vtrain.messages.base import Message
from vtrain.messages.codec import fields, read_message, to_document, with_json_names
from vtrain.messages.custom_job import CustomJob, CustomJobSpec
from vtrain.messages.paths import assign
from vtrain.messages.unknown import split_unknown
from vtrain.packaging.source import TrainerSource
from vtrain.settings import is_text, user_path


class JobRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A job as flags say it, each already parsed by gcloud's grammar. None means: not given.

    An empty `config` is a file that says nothing. `env_names` are variables whose values the caller has, and
    are among `env` before the job is composed. `fallback_name` and `fallback_fields` (of the spec) count
    where neither file nor flag says anything.
    """

    display_name: str | None = None
    config: str | None = None
    allow_unknown_fields: bool = False
    pools: tuple[dict[str, str], ...] = ()
    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    package_uris: tuple[str, ...] = ()
    labels: dict[str, str] | None = None
    env: dict[str, str] = {}
    env_names: tuple[str, ...] = ()
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
    `unknown_fields` is a document of what the API is not known to have, to be sent all the same.
    """

    document: dict[str, Any]
    source: TrainerSource | None
    command: tuple[str, ...] = ()
    output_image_uri: str = ""
    unknown_fields: dict[str, Any] = {}

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
    document, unknown = _read_config(request)
    spec: dict[str, Any] = document["jobSpec"]
    if request.pools:
        spec["workerPoolSpecs"] = _pools_from_flags(request, executor_required)
        unknown.get("jobSpec", {}).pop("workerPoolSpecs", None)
    elif executor_required and request.source is None:
        check_config_pools(spec.get("workerPoolSpecs", []))
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
        unknown_fields=unknown,
    )


def _read_config(request: JobRequest) -> tuple[dict[str, Any], dict[str, Any]]:
    """The job in the file, and its unknown fields where they are allowed.

    A file holds a CustomJobSpec, or a whole CustomJob as `describe` and `--dry-run` print it.
    """
    if not request.config:
        return {"jobSpec": {}}, {}
    config = read_config(request.config, "the fields of a CustomJobSpec")
    with config.blamed():
        check_not_legacy(config.content)
        content = with_json_names(CustomJob, config.content)
        if set(content).isdisjoint(set(fields(CustomJob)) - set(fields(CustomJobSpec))):
            spec, unknown = _normalise(CustomJobSpec, config.content, request)
            return {"jobSpec": spec}, {"jobSpec": unknown} if unknown else {}
        job = {name: value for name, value in content.items() if name not in CustomJob.output_fields}
        document, unknown = _normalise(CustomJob, job, request)
        return {"jobSpec": {}} | document, unknown


def _normalise(
    cls: type[Message], content: dict[Any, Any], request: JobRequest
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Checked, with one form for each value, so that flags can be laid over it."""
    content = with_json_names(cls, content)
    known, unknown = split_unknown(cls, content) if request.allow_unknown_fields else (content, {})
    return to_document(read_message(cls, known)), unknown


def _pools_from_flags(request: JobRequest, executor_required: bool) -> list[dict[str, Any]]:
    pools = request.pools
    check_pools(pools, executor_required=executor_required and request.source is None)
    packaged = "local-package-path" in pools[0]
    if packaged:
        software = {k: v for k, v in pools[0].items() if k in ("executor-image-uri", "python-module")}
        pools = tuple(pool | software if pool else pool for pool in pools)
    uris = () if packaged else request.package_uris
    return [pool_document(pool, uris, packaged=packaged) for pool in pools]


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
    path = user_path(folder)
    alone = path.is_file() and not python_module and not script
    if alone:
        path, script = path.parent, path.name
    if not path.is_dir():
        what = "is a file, not a folder" if path.exists() else "does not exist"
        raise ConfigError(f"--local-package-path: {folder} {what}.")
    path = path.absolute()
    if not is_text(path):
        raise ConfigError(f"--local-package-path: {str(path)!a} is not UTF-8.", hint="Rename the folder.")
    return TrainerSource(folder=path, python_module=python_module, script=script, script_alone=alone, **lists)


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
