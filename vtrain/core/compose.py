"""Lay flags over a config file: the result is a job, and a trainer to package.

In order: the file; `--worker-pool-spec` in place of its pools; single flags in place of their field;
`--args` and `--command` into every pool; labels and `--env` merged by name; `--set` last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any, cast

import msgspec

from vtrain.core.config_file import ConfigFile, check_not_legacy, read_config
from vtrain.core.pools import EXTRA_KEYS, Pool, check_config_pools, check_pools, pool_document
from vtrain.errors import ConfigError, FieldError, UsageError
from vtrain.messages.codec import fields, read_message, to_document, with_json_names
from vtrain.messages.custom_job import CustomJob, CustomJobSpec
from vtrain.messages.hardware import smallest_machine_with
from vtrain.messages.paths import CUSTOM_JOB_PATHS, PathRoot, assign
from vtrain.messages.service_documents import ApiHas, accepted_fields, api_has_no_more, laid_over
from vtrain.messages.structs import Message
from vtrain.packaging.source import TrainerSource
from vtrain.runtime.default_output import is_default_output
from vtrain.settings import is_text, named_folder, user_path

if TYPE_CHECKING:
    from vtrain.messages.resources import Job


class JobRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of a job, parsed by gcloud's grammar. None means that a flag was not given.

    `fields` is the part of the CustomJob that flags set as they are, and `machine` the part of its first
    WorkerPoolSpec. An empty `config` is an empty file.
    The caller knows the values of `env_names`, and adds them to `env` before the job is composed.
    `fallback_name` is used where neither file nor flag gives a name, and `trainer_pools` where neither gives
    pools.
    """

    config: str | None = None
    allow_unknown_fields: bool = False
    pools: tuple[Pool, ...] = ()
    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    package_uris: tuple[str, ...] = ()
    env: dict[str, str] = {}
    env_names: tuple[str, ...] = ()
    assignments: tuple[str, ...] = ()
    fields: dict[str, Any] = {}
    machine: dict[str, Any] = {}
    source: TrainerSource | None = None
    executor_image_uri: str = ""
    output_image_uri: str = ""
    fallback_name: str = ""
    trainer_pools: tuple[dict[str, Any], ...] = ({"replicaCount": 1},)


class Images(msgspec.Struct, frozen=True, kw_only=True):
    """The images that a job names: those of containers, and those that Python packages run in."""

    containers: tuple[str, ...] = ()
    executors: tuple[str, ...] = ()


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A job whose trainer may still have to be packaged.

    `command` is for containers that run it, `output_image_uri` the name that its image is given.
    `unknown_fields` is a document of what the API is not known to have, to be sent all the same. `config` is
    the file of `--config`, if any, and `file_document` the job as that file alone describes it. `paths` tells
    the job's message, and the field in which it says what runs. `wrap` makes of the job what is submitted.
    """

    document: dict[str, Any]
    source: TrainerSource | None
    command: tuple[str, ...] = ()
    output_image_uri: str = ""
    unknown_fields: dict[str, Any] = {}
    config: ConfigFile | None = None
    file_document: dict[str, Any] = {}
    paths: PathRoot = CUSTOM_JOB_PATHS
    wrap: Callable[[Job], Job] = lambda job: job

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Name the file, and the line, in an error about a field that no flag has changed."""
        try:
            yield
        except FieldError as error:
            now, before = (
                _field_at(document, error.path, self.paths.spec)
                for document in (self.document, self.file_document)
            )
            if self.config is None or now != before or not self.config.line_of(error.path):
                raise
            with self.config.blamed():
                raise

    @property
    def _pools(self) -> list[dict[str, Any]]:
        """The worker pools of the job, or of each of its trials."""
        pools: list[dict[str, Any]] = (self.document.get(self.paths.spec) or {}).get("workerPoolSpecs") or []
        return pools

    @property
    def executor_image_uri(self) -> str:
        """The image in which the primary's Python package would run; empty when none is named."""
        first = self._pools[0] if self._pools else {}
        return str((first.get("pythonPackageSpec") or {}).get("executorImageUri", ""))

    @property
    def lacks_image(self) -> bool:
        """Whether a pool runs the trainer to be packaged, and names no image for it."""
        return self.source is not None and any(map(_lacks_image, self._pools))

    def with_image(self, image: str) -> Draft:
        """The draft with an image in each pool that lacks one."""
        document = deepcopy(self.document)
        for pool in filter(_lacks_image, document[self.paths.spec]["workerPoolSpecs"]):
            pool["pythonPackageSpec"]["executorImageUri"] = image
        return msgspec.structs.replace(self, document=document)

    @property
    def indexes(self) -> frozenset[str]:
        """The indexes of packages that the job's variables name to pip."""
        tasks = (pool.get("pythonPackageSpec") or {} for pool in self._pools)
        variables = [each for task in tasks for each in task.get("env") or () if isinstance(each, dict)]
        names = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS")
        values = (str(each.get("value", "")) for each in variables if each.get("name") in names)
        return frozenset(word for value in values for word in value.split())

    @property
    def images(self) -> Images:
        """The images that the pools name."""
        containers = [(pool.get("containerSpec") or {}).get("imageUri", "") for pool in self._pools]
        executors = [
            (pool.get("pythonPackageSpec") or {}).get("executorImageUri", "") for pool in self._pools
        ]
        return Images(containers=tuple(filter(None, containers)), executors=tuple(filter(None, executors)))

    def finish(self, python_module: str, package_uris: Sequence[str]) -> Job:
        """The job, with the packaged trainer in each pool that runs a Python package of this folder."""

        def packaged(pool: dict[str, Any]) -> dict[str, Any]:
            task = {"pythonModule": python_module, **pool["pythonPackageSpec"]}
            return pool | {"pythonPackageSpec": task | {"packageUris": list(package_uris)}}

        return self._with_trainer(packaged)

    def finish_with_image(self, image_uri: str, module_command: Callable[[str], Sequence[str]]) -> Job:
        """The job, with a container of the image in each pool that runs a Python package of this folder.

        `module_command` tells the command for a pool's own module; empty leaves it to the image.
        """

        def baked(pool: dict[str, Any]) -> dict[str, Any]:
            python = pool["pythonPackageSpec"]
            command = self.command or module_command(python.get("pythonModule", ""))
            container = {"imageUri": image_uri, **({"command": list(command)} if command else {})}
            container |= {k: python[k] for k in ("args", "env") if k in python}
            others = {key: value for key, value in pool.items() if key != "pythonPackageSpec"}
            return others | {"containerSpec": container}

        return self._with_trainer(baked)

    def _with_trainer(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Job:
        """The job with changed copies of the pools that run a Python package of this folder."""
        document = self.document
        if self.source is not None and self._pools:
            pools = [change(pool) if _awaits_trainer(pool) else pool for pool in self._pools]
            spec = document[self.paths.spec] | {"workerPoolSpecs": pools}
            document = document | {self.paths.spec: spec}
        return self.wrap(cast("Job", read_message(self.paths.job, document)))


def _field_at(document: dict[str, Any], path: str, spec: str) -> Any:
    """The value of a job's field, or of a field of its `spec`; None where there is none."""
    steps = re.findall(r"[^.\[\]]+", path)
    value: Any = document if steps and steps[0] in document else document.get(spec)
    for step in steps:
        if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def _awaits_trainer(pool: dict[str, Any]) -> bool:
    python = pool.get("pythonPackageSpec")
    return python is not None and not python.get("packageUris")


def _lacks_image(pool: dict[str, Any]) -> bool:
    return _awaits_trainer(pool) and not pool["pythonPackageSpec"].get("executorImageUri")


def compose(
    request: JobRequest,
    *,
    executor_required: bool,
    api_has: ApiHas = api_has_no_more,
    config: ConfigFile | None = None,
) -> Draft:
    """The draft of a job. Raises ConfigError or UsageError with the path of what is wrong.

    `api_has` decides on fields of the file that vtrain does not know. `config` is the file, where the caller
    has read it.
    """
    if config is None and request.config:
        config = read_config(request.config, "the fields of a CustomJobSpec")
    document, unknown = _described(config, request, api_has) if config else ({"jobSpec": {}}, {})
    file_document = deepcopy(document)  # the flags change the other one in place
    spec: dict[str, Any] = document["jobSpec"]
    if is_default_output((spec.get("baseOutputDirectory") or {}).get("outputUriPrefix", "")):
        del spec["baseOutputDirectory"]  # of the job that the file was printed from: each has its own
    first_pool = request.pools[0] if request.pools else {}
    if request.pools:
        spec["workerPoolSpecs"] = _pools_from_flags(request, executor_required)
        unknown.get("jobSpec", {}).pop("workerPoolSpecs", None)
    elif config is not None and executor_required and request.source is None:
        with config.blamed():
            check_config_pools(spec.get("workerPoolSpecs", []))
    source = lay_over_pools(spec, request)
    document = laid_over(document, request.fields)
    if request.fallback_name:
        document.setdefault("displayName", request.fallback_name)
    if "labels" in request.fields:
        document["labels"] = dict(sorted(document["labels"].items()))  # as gcloud sends them
    for assignment in request.assignments:
        assign(document, assignment)
    return Draft(
        document=document,
        source=source,
        command=request.command,
        output_image_uri=request.output_image_uri or first_pool.get("output-image-uri", ""),
        unknown_fields=unknown,
        config=config,
        file_document=file_document,
    )


def lay_over_pools(spec: dict[str, Any], request: JobRequest) -> TrainerSource | None:
    """Lay a trainer, arguments, variables and machines over a spec's pools. The trainer, if there is one.

    Raises UsageError for one that is named twice and for an image that nothing runs in, ConfigError for a
    trainer that names nothing to run, or that no pool runs.
    """
    source = _source(request)
    if source is not None:
        _add_python_packages(spec, request)
        if not any(map(_awaits_trainer, spec["workerPoolSpecs"])):
            raise ConfigError(
                "A trainer is named, and no worker pool runs it: each has an image or packages of its own.",
                hint="Name the image in which it runs as executor-image-uri, or leave the trainer out.",
            )
        source = _settle_module(spec["workerPoolSpecs"], source)
    elif request.executor_image_uri and request.config and not request.pools:
        _set_executor_image(spec.get("workerPoolSpecs") or [], request.executor_image_uri)
    pools = spec.get("workerPoolSpecs") or []
    _lay_over_tasks(pools, request)
    if pools and request.machine:
        _lay_over_machines(pools, request.machine)
    return source


def _described(
    config: ConfigFile, request: JobRequest, api_has: ApiHas
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The job in the file, and its unknown fields where they are allowed or the API has them.

    A file holds a CustomJobSpec, or a whole CustomJob as `describe` and `--dry-run` print it.
    """
    with config.blamed():
        check_not_legacy(config.content)
        content = with_json_names(CustomJob, config.content)
        if set(content).isdisjoint(set(fields(CustomJob)) - set(fields(CustomJobSpec))):
            spec, unknown = _normalise(CustomJobSpec, config.content, request, api_has)
            return {"jobSpec": spec}, {"jobSpec": unknown} if unknown else {}
        check_place(content, CUSTOM_JOB_PATHS)
        job = {name: value for name, value in content.items() if name not in CustomJob.output_fields}
        document, unknown = _normalise(CustomJob, job, request, api_has)
        return {"jobSpec": {}} | document, unknown


def check_place(content: dict[Any, Any], paths: PathRoot) -> None:
    """Raise ConfigError for fields of the job's spec that stand beside it."""
    elsewhere = fields(CustomJobSpec).keys() - fields(paths.job).keys()
    misplaced = [name for name in content if name in elsewhere]
    if misplaced:
        raise FieldError(
            misplaced[0],
            f"belongs under {paths.spec}.",
            hint=f"Write {paths.spec}: above it, and indent what belongs to it: {', '.join(misplaced)}.",
        )


def _normalise(
    cls: type[Message], content: dict[Any, Any], request: JobRequest, api_has: ApiHas
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Checked, with one form for each value, so that flags can be laid over it."""
    content = with_json_names(cls, content)
    known, unknown = accepted_fields(cls, content, allowed=request.allow_unknown_fields, api_has=api_has)
    return to_document(read_message(cls, known)), unknown


def _pools_from_flags(request: JobRequest, executor_required: bool) -> list[dict[str, Any]]:
    pools = request.pools
    check_pools(pools, executor_required=executor_required and request.source is None)
    packaged = "local-package-path" in pools[0]
    if packaged:
        software = {k: v for k, v in pools[0].items() if k in ("executor-image-uri", "python-module")}
        # gcloud gives every pool the first one's program, and an empty pool keeps its place
        pools = tuple(pool | software if pool else pool for pool in pools)
    uris = () if packaged else request.package_uris
    return [pool_document(pool, uris, packaged=packaged) for pool in pools]


def _source(request: JobRequest) -> TrainerSource | None:
    """The trainer to package, from single flags or from the first pool."""
    first = request.pools[0] if request.pools else {}
    if "local-package-path" not in first:
        return request.source
    if request.source is not None:
        raise UsageError("--local-package-path is given twice: as a flag and in --worker-pool-spec.")
    return make_source(
        in_pool_spec=True,
        folder=first["local-package-path"],
        python_module=first.get("python-module", ""),
        script=first.get("script", ""),
        **{key.replace("-", "_"): first.get(key, ()) for key in EXTRA_KEYS},
    )


def make_source(
    *, folder: str, python_module: str, script: str, in_pool_spec: bool = False, **lists: tuple[str, ...]
) -> TrainerSource:
    """The trainer in a folder, or in a single file. Raises ConfigError when there is no such place."""
    path = user_path(folder)
    flag = "--worker-pool-spec: local-package-path" if in_pool_spec else "--local-package-path"
    alone = path.is_file() and not python_module and not script
    if alone:
        path, script = path.parent, path.name
    if not path.is_dir():
        what = "is a file, not a folder" if path.exists() else "does not exist"
        raise ConfigError(f"{flag}: {folder} {what}.")
    path = named_folder(path)
    if not is_text(path):
        raise ConfigError(f"{flag}: {str(path)!a} is not UTF-8.", hint="Rename the folder.")
    return TrainerSource(
        folder=path,
        python_module=python_module,
        script=script,
        script_alone=alone,
        in_pool_spec=in_pool_spec,
        **lists,
    )


def _add_python_packages(spec: dict[str, Any], request: JobRequest) -> None:
    """Give every pool that names no program a Python package; without pools, one replica."""
    pools = spec.setdefault("workerPoolSpecs", [])
    if not pools:
        pools.extend(dict(pool) for pool in request.trainer_pools)
    for pool in pools:
        if pool and "containerSpec" not in pool:
            python = pool.setdefault("pythonPackageSpec", {})
            if request.executor_image_uri:
                python["executorImageUri"] = request.executor_image_uri


def _set_executor_image(pools: list[dict[str, Any]], image: str) -> None:
    """Give the pools of a file the image of the flag. Raises UsageError where none would run in it."""
    tasks = [pool["pythonPackageSpec"] for pool in pools if "pythonPackageSpec" in pool]
    if not tasks:
        raise UsageError("--executor-image-uri is for Python packages, and the file describes none.")
    for task in tasks:
        task["executorImageUri"] = image


def _settle_module(pools: list[dict[str, Any]], source: TrainerSource) -> TrainerSource:
    """Choose the module: that of the flags for all pools, else each pool's own. The first is checked."""
    tasks = [pool["pythonPackageSpec"] for pool in pools if "pythonPackageSpec" in pool]
    if source.python_module or source.script:
        for task in tasks:  # of the file: the flags' own module counts in every pool
            task.pop("pythonModule", None)
        return source
    modules = [task["pythonModule"] for task in tasks if task.get("pythonModule")]
    if not modules:
        raise ConfigError(
            "What is to be run is not named.", hint="Give --python-module=MODULE or --script=FILE."
        )
    return msgspec.structs.replace(source, python_module=modules[0])


def _lay_over_tasks(pools: list[dict[str, Any]], request: JobRequest) -> None:
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


def _lay_over_machines(pools: list[dict[str, Any]], machine: dict[str, Any]) -> None:
    """Lay a WorkerPoolSpec's part over the first pool; a second one of the same machines stays the same.

    Its replicas are those of the job. Vertex AI wants the primary alone, so that the others are the second
    pool. An accelerator brings the smallest machine type that has it, where none is named.
    """
    first, *others = pools
    hardware = {key: value for key, value in machine.items() if key != "replicaCount"}
    pools[0] = laid_over(first, hardware)
    spec = pools[0].get("machineSpec", {})
    if spec.get("acceleratorType") and not spec.get("machineType"):
        kind = smallest_machine_with(spec["acceleratorType"], spec.get("acceleratorCount", 1))
        spec |= {"machineType": kind} if kind else {}
    if others and all(others[0].get(key) == first.get(key) for key in ("machineSpec", "diskSpec")):
        pools[1] |= {key: deepcopy(pools[0][key]) for key in hardware}
    if "replicaCount" in machine:
        rest = machine["replicaCount"] - 1
        second = (pools[1] if others else {}) or deepcopy(pools[0])
        pools[0]["replicaCount"] = 1
        pools[1:2] = [second | {"replicaCount": rest}] if rest else [{}] * (len(pools) > 2)


def _merge_env(env: list[dict[str, str]], changes: dict[str, str]) -> list[dict[str, str]]:
    given = {name: {"name": name, "value": value} for name, value in changes.items()}
    kept = [given.get(variable.get("name", ""), variable) for variable in env]
    there = {variable.get("name") for variable in env}
    return kept + [variable for name, variable in given.items() if name not in there]
