"""Lay a request over a config file: the result is a job, and a trainer to package.

In order: the file; the project's table; `--worker-pool-spec` in place of the pools; single flags in place of
their field; then what is for the first pool and for every one; `--set` last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, cast

import msgspec

from vtrain.core.config_file import ConfigFile, check_not_legacy, read_config
from vtrain.core.job_layers import EVERY_POOL, FIRST_POOL, POOLS, Fold, Layer, Origin, named, nobody
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
    """A job that is asked for, in layers, and the trainer to be packaged for it.

    `project_layers`, the keys of `[tool.vtrain.job]`, lie over the file of `config` that they name,
    `layers` lie over both, and `assignments` (`--set`) over all. An empty `config` is an empty file. The
    caller knows the values of `env_names`, and lays them over before the job is composed. `fallback_name` is
    used where neither file nor layer gives a name.
    """

    config: str | None = None
    allow_unknown_fields: bool = False
    project_layers: tuple[Layer, ...] = ()
    layers: tuple[Layer, ...] = ()
    env_names: tuple[str, ...] = ()
    assignments: tuple[str, ...] = ()
    source: TrainerSource | None = None
    output_image_uri: str = ""
    fallback_name: str = ""

    def says(self, path: str) -> bool:
        """Whether a layer says something at a path, such as `jobSpec.workerPoolSpecs`."""
        return path in Fold((*self.project_layers, *self.layers)).origins

    @property
    def says_what_runs(self) -> bool:
        """Whether there are a file, a trainer, pools or an image."""
        is_given = self.config is not None or self.source is not None
        return is_given or self.says(f"jobSpec.{POOLS}") or self.says(f"jobSpec.{EVERY_POOL}.image")

    def over(self, *layers: Layer) -> JobRequest:
        """The request with more layers over its own."""
        return msgspec.structs.replace(self, layers=(*self.layers, *layers))


class Images(msgspec.Struct, frozen=True, kw_only=True):
    """The images that a job names: those of containers, and those that Python packages run in."""

    containers: tuple[str, ...] = ()
    executors: tuple[str, ...] = ()


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A job whose trainer may still have to be packaged.

    `command` is for containers that run it, `output_image_uri` the name that its image is given.
    `unknown_fields` is a document of what the API is not known to have, to be sent all the same. `blame` puts
    who said a field in front of an error about it. `paths` tells the job's message, and the field in which it
    says what runs. `wrap` makes of the job what is submitted.
    """

    document: dict[str, Any]
    source: TrainerSource | None
    command: tuple[str, ...] = ()
    output_image_uri: str = ""
    unknown_fields: dict[str, Any] = {}
    blame: Origin = nobody
    paths: PathRoot = CUSTOM_JOB_PATHS
    wrap: Callable[[Job], Job] = lambda job: job

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

    @property
    def has_gpus(self) -> bool:
        """Whether a pool has GPUs of NVIDIA."""
        machines = (pool.get("machineSpec") or {} for pool in self._pools)
        return any(str(machine.get("acceleratorType", "")).startswith("NVIDIA") for machine in machines)

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


def _awaits_trainer(pool: dict[str, Any]) -> bool:
    python = pool.get("pythonPackageSpec")
    return python is not None and not python.get("packageUris")


def _lacks_image(pool: dict[str, Any]) -> bool:
    return _awaits_trainer(pool) and not pool["pythonPackageSpec"].get("executorImageUri")


def compose(
    request: JobRequest,
    *,
    executor_required: bool = False,
    api_has: ApiHas = api_has_no_more,
    config: ConfigFile | None = None,
    paths: PathRoot = CUSTOM_JOB_PATHS,
) -> Draft:
    """The draft of a job. Raises ConfigError or UsageError with the path of what is wrong.

    `api_has` decides on fields of the file that vtrain does not know. `config` is the file, where the caller
    has read it. `paths` tells the job's message.
    """
    if config is None and request.config:
        config = read_config(request.config, "the fields of a CustomJobSpec")
    described, unknown = _described(config, request, api_has) if config is not None else ({}, {})
    name = {"displayName": request.fallback_name} if request.fallback_name else {}
    file = Layer(config.blame_line if config is not None else nobody, described)
    fold = Fold([Layer(nobody, name), file, *request.project_layers, *request.layers], paths.spec)
    if request.says("labels"):
        fold.document["labels"] = dict(sorted(fold.document["labels"].items()))  # as gcloud sends them
    document = deepcopy(fold.document)  # layers may be laid again, and share their values with it
    spec: dict[str, Any] = document.pop(paths.spec, {})
    has_own_pools = request.says(f"jobSpec.{POOLS}")
    if has_own_pools:
        unknown.get("jobSpec", {}).pop(POOLS, None)
    if executor_required and (request.source is None or request.source.in_pool_spec):
        pools = spec.get(POOLS) or []
        if has_own_pools:
            check_executors(pools, packaged=request.source is not None)
        elif config is not None:
            with config.blamed():
                _check_config_pools(pools)
    command = tuple(spec.get(EVERY_POOL, {}).get("command", ()))
    try:
        source = _spread(spec, request.source, has_file=config is not None and not has_own_pools)
    except FieldError as error:
        raise fold.blame(error) from error
    for index, pool in enumerate(spec.get(POOLS) or []):
        fold.say_spread(index, pool)
    if spec or paths.spec == "jobSpec":
        document[paths.spec] = spec
    for assignment in request.assignments:
        fold.say(assign(document, assignment, paths), named("--set"))
    return Draft(
        document=document,
        source=source,
        command=command,
        output_image_uri=request.output_image_uri,
        unknown_fields={paths.spec if name == "jobSpec" else name: unknown[name] for name in unknown},
        blame=fold.blame,
        paths=paths,
    )


def check_executors(pools: Sequence[dict[str, Any]], *, packaged: bool) -> None:
    """Raise ConfigError for the first pool of a line that names no image, which a service needs."""
    for index, pool in enumerate(pools):
        if "executorImageUri" in pool.get("pythonPackageSpec", {"executorImageUri": ""}):
            continue
        if not packaged:
            raise no_image(index)
        raise ConfigError(
            f"--worker-pool-spec: pool {index} needs executor-image-uri beside local-package-path.",
            hint="Add executor-image-uri=IMAGE, the image that the package runs in.",
        )


def no_image(index: int) -> ConfigError:
    """The error about a pool of a line that does not say in which image it runs."""
    return ConfigError(
        f"--worker-pool-spec: pool {index} needs exactly one of executor-image-uri and container-image-uri.",
        hint="Add container-image-uri=IMAGE; or, to run a Python package,\n"
        "executor-image-uri=IMAGE,python-module=PACKAGE.MODULE.",
    )


def _check_config_pools(pools: Sequence[dict[str, Any]]) -> None:
    """Raise ConfigError for a pool of a file that does not run one thing, an image or a Python package."""
    for index, pool in enumerate(pools):
        container = pool.get("containerSpec", {}).get("imageUri")
        python = pool.get("pythonPackageSpec", {})
        if bool(container) == bool(python.get("executorImageUri") or python.get("pythonModule")):
            raise FieldError(
                f"workerPoolSpecs[{index}]",
                "runs an image or a Python package, exactly one of them.",
                hint="An empty pool that keeps its place is said with --worker-pool-spec= alone.",
            )


def _spread(spec: dict[str, Any], source: TrainerSource | None, *, has_file: bool) -> TrainerSource | None:
    """Spread over a spec's pools what layers say of the first and of every one. The trainer, if there is one.

    Raises UsageError for an image that nothing runs in, ConfigError for a trainer that names nothing to run,
    or that no pool runs.
    """
    first, every = spec.pop(FIRST_POOL, {}), spec.pop(EVERY_POOL, {})
    image, pools = every.get("image", ""), spec.get(POOLS) or []
    if source is not None:
        pools = pools or [{"replicaCount": 1}]
        for pool in pools:
            if pool and "containerSpec" not in pool:  # what names no program runs the trainer
                pool.setdefault("pythonPackageSpec", {}).update({"executorImageUri": image} if image else {})
        if not any(map(_awaits_trainer, pools)):
            raise ConfigError(
                "A trainer is named, and no worker pool runs it: each has an image or packages of its own.",
                hint="Name the image in which it runs as executor-image-uri, or leave the trainer out.",
            )
        source = _settle_module(pools, source)
    elif image and (has_file or any(not {"containerSpec", "pythonPackageSpec"}.isdisjoint(p) for p in pools)):
        tasks = [pool["pythonPackageSpec"] for pool in pools if "pythonPackageSpec" in pool]
        if not tasks:
            raise UsageError("--executor-image-uri is for Python packages, and the file describes none.")
        for task in tasks:
            task["executorImageUri"] = image
    elif image:
        pools = pools or [{"replicaCount": 1}]
        for pool in filter(None, pools):
            pool |= {"machineSpec": pool.get("machineSpec", {}), "containerSpec": {"imageUri": image}}
    for pool in pools:
        _lay_over_task(pool, every)
    if pools and first:
        _lay_over_machines(pools, first)
    if pools:
        spec[POOLS] = pools
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
            document, unknown = {"jobSpec": spec}, {"jobSpec": unknown} if unknown else {}
        else:
            check_place(content, CUSTOM_JOB_PATHS)
            job = {name: value for name, value in content.items() if name not in CustomJob.output_fields}
            document, unknown = _normalise(CustomJob, job, request, api_has)
    spec = document.get("jobSpec", {})
    if is_default_output((spec.get("baseOutputDirectory") or {}).get("outputUriPrefix", "")):
        del spec["baseOutputDirectory"]  # of the printed job: each has its own
    return document, unknown


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


def _lay_over_task(pool: dict[str, Any], every: dict[str, Any]) -> None:
    """Give a pool's task what every one is given: lists in place of its own, variables by their names."""
    for key in ("containerSpec", "pythonPackageSpec"):
        task = pool.get(key)
        if task is None:
            continue
        if every.get("args"):
            task["args"] = list(every["args"])
        if every.get("command") and key == "containerSpec":
            task["command"] = list(every["command"])
        if given := every.get("env"):
            own = {variable.get("name"): variable for variable in task.get("env", [])}
            task["env"] = list((own | {k: {"name": k, "value": v} for k, v in given.items()}).values())


def _lay_over_machines(pools: list[dict[str, Any]], machine: dict[str, Any]) -> None:
    """Lay a WorkerPoolSpec's part over the first pool; a second one of the same machines stays the same.

    Its replicas are those of the job. Vertex AI wants the primary alone, so that the others are the second
    pool. An accelerator brings the smallest machine type that has it, where none is named.
    """
    first, *others = pools
    hardware = {key: value for key, value in machine.items() if key != "replicaCount"}
    pools[0] = laid_over(first, hardware)
    spec = pools[0].get("machineSpec", {})
    if spec.get("acceleratorType"):
        spec.setdefault("acceleratorCount", 1)
    if spec.get("acceleratorType") and not spec.get("machineType"):
        kind = smallest_machine_with(spec["acceleratorType"], spec.get("acceleratorCount", 1))
        spec |= {"machineType": kind} if kind else {}
    if others and all(others[0].get(key) == first.get(key) for key in ("machineSpec", "diskSpec")):
        pools[1] |= {key: deepcopy(pools[0][key]) for key in hardware}
    if "replicaCount" in machine:
        count = machine["replicaCount"]
        second = (pools[1] if others else {}) or deepcopy(pools[0])
        pools[0]["replicaCount"] = min(count, 1)
        pools[1:2] = [second | {"replicaCount": count - 1}] if count > 1 else [{}] * (len(pools) > 2)
