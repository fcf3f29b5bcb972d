"""From a request to a plan, as its target has it: the draft, its Python or its image, the packages' place."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from vtrain.backends import ReplicaOptions
from vtrain.backends.image_order import ImageOrder, ImageWish
from vtrain.backends.interface import DEBUGPY_FLAG, RuntimeBackend, TrainerForm
from vtrain.core.compose import Draft, JobRequest, compose
from vtrain.core.config_file import ConfigFile
from vtrain.core.job_layers import EVERY_POOL, Layer, at, named
from vtrain.core.submission import Place, Prepared, prepare
from vtrain.core.target import R, Session, Target
from vtrain.errors import ConfigError, FieldError, UsageError
from vtrain.messages.codec import to_document
from vtrain.messages.resources import Job
from vtrain.messages.secrets import MASK, plain_secrets
from vtrain.packaging.sdist_plan import declares_nothing
from vtrain.packaging.source import interpreter_of
from vtrain.runtime.debugging import REQUIREMENT
from vtrain.settings import check_current_folder
from vtrain.staging import find_staging_bucket

OLDEST_TRAINER_PYTHON = (3, 7)
"""The oldest Python that runs the start of a script's package."""


def draft_request(target: Target[R], request: JobRequest, config: ConfigFile | None = None) -> Draft:
    """The draft of a request, with the caller's values for `--env NAME`, and with debugpy if it is wanted.

    `config` is the file of the request, where it was read already.
    """
    request = with_callers_values(request, local=target.backend.is_local)
    draft = compose(
        request, executor_required=not target.backend.is_local, api_has=target.api_has, config=config
    )
    if target.settings.debugger is None or draft.source is None:
        return draft
    script = draft.source.script
    if script and interpreter_of(draft.source.folder / script, script):
        raise ConfigError(f"{DEBUGPY_FLAG} is for Python, and {script} is not a Python script.")
    requirements = (*draft.source.requirements, REQUIREMENT)
    return msgspec.structs.replace(
        draft, source=msgspec.structs.replace(draft.source, requirements=requirements)
    )


def packages_place(target: Target[R], bucket: str) -> Place:
    """The place where packages are made and staged. Raises ConfigError in a folder that was removed.

    An empty `bucket` is left to the environment and to pyproject.toml.
    """
    check_current_folder()
    return Place(
        home=target.settings.home,
        buckets=target.backend.buckets(target.settings),
        staging_bucket=find_staging_bucket(bucket),
        show=target.console.show_state,
        warn=target.console.warn,
        checks_imports=not target.settings.active_python,
        other_python=bool(target.settings.python or target.settings.active_python),
        is_service=not target.backend.is_local,
    )


def calls_for_image(target: Target[R], draft: Draft, place: Place) -> bool:
    """Whether the backend runs the trainer as an image. A staging bucket decides for a Python package."""
    if draft.source is None or target.backend.trainer_form is TrainerForm.PACKAGE:
        return False
    return target.backend.trainer_form is TrainerForm.LOCAL_IMAGE or not place.staging_bucket


def open_draft(
    target: Target[R],
    draft: Draft,
    packages: Place,
    *,
    baked: bool,
    options: Callable[[], ReplicaOptions] = ReplicaOptions,
    python: str = "",
) -> tuple[Session[R], Place]:
    """The session in which the draft's job is started, and the place of its packages.

    `baked` says that the trainer becomes an image, which only containers run. Else it may run in the active
    Python (`python`, where that is known). Raises as `_in_active_python` does, and then as `options` does.
    """
    images = draft.images
    if baked:
        images = msgspec.structs.replace(images, containers=(*images.containers, *images.executors))
    else:
        target, packages = _in_active_python(target, draft, packages, python)
        if target.settings.python or target.settings.environment:
            images = msgspec.structs.replace(images, executors=())  # one that is only named
    return target.open(images, options()), packages


def prepare_draft(
    session: Session[R],
    draft: Draft,
    packages: Place,
    *,
    baked: bool,
    strict: bool,
    secrets_allowed: bool = False,
) -> Prepared:
    """The plan of the draft's job, in the session that was opened for it. Nothing is written yet.

    Raises as `prepare` does, with the one in front who said the wrong field, and as `_check_secrets` does.
    """
    image = image_order(session, draft) if baked else None
    try:
        prepared = prepare(draft, session.jobs, packages, strict=strict, image=image)
    except FieldError as error:
        raise draft.blame(error) from None
    job, local = prepared.plan.job, session.is_local
    secrets = _check_secrets(job, local=local, allowed=secrets_allowed, strict=strict)
    notices = tuple(_as_said(draft, notice) for notice in prepared.plan.notices)
    plan = msgspec.structs.replace(prepared.plan, notices=notices)
    return msgspec.structs.replace(prepared, plan=plan, secrets=secrets)


def _as_said(draft: Draft, notice: str) -> str:
    """A notice about a field with what gave it in front: `--gpus: NO ACCELERATOR`."""
    place, _, said = notice.partition(": ")
    if not place.startswith(("workerPoolSpecs[", "scheduling.")):
        return notice
    path = f"{place}.machineSpec" if place.endswith("]") else place
    blamed = draft.blame(FieldError(path, said))
    return notice if isinstance(blamed, FieldError) else blamed.message


def _in_active_python(
    target: Target[R], draft: Draft, packages: Place, python: str
) -> tuple[Target[R], Place]:
    """A trainer that declares nothing runs in the active Python, as `python train.py` would.

    It names no image, requirement or project, and no flag says where it runs. Without an active Python that
    runs packages of vtrain's, and for --debugpy has debugpy, it gets an environment, as any other trainer.
    `python` is the active one, if it is not empty. Raises PackagingError for a project that cannot be read.
    """
    settings, source = target.settings, draft.source
    is_package = isinstance(target.backend, RuntimeBackend) and (
        target.backend.trainer_form is TrainerForm.PACKAGE
    )
    if not is_package or settings.python or settings.environment or draft.executor_image_uri:
        return target, packages
    if source is None or not declares_nothing(source, beside=(REQUIREMENT,) if settings.debugger else ()):
        return target, packages
    from vtrain.runtime.environments.active_python import active_python, version_of, view_of
    from vtrain.runtime.environments.interpreters import base_interpreter

    try:
        python = python or active_python(os.environ)
        is_usable = version_of(python) >= OLDEST_TRAINER_PYTHON
        if not is_usable or (settings.debugger and view_of(python, (REQUIREMENT,)).missing):
            return target, packages
    except ConfigError as error:
        target.console.warn(f"{error.message} The trainer gets an environment.")
        return target, packages
    origin = f"{target.choice.origin}; in your active Python"
    is_other = os.path.realpath(python) != os.path.realpath(base_interpreter().path)
    return (
        msgspec.structs.replace(
            target,
            choice=msgspec.structs.replace(target.choice, origin=origin),
            settings=msgspec.structs.replace(settings, active_python=python),
        ),
        msgspec.structs.replace(packages, checks_imports=False, other_python=is_other),
    )


def image_order(session: Session[R], draft: Draft) -> ImageOrder:
    """The order for the trainer's image: for the engine here, or published for a service.

    Raises UsageError where there is nothing to make one of, and as the backend refuses it.
    """
    if draft.source is None:
        raise UsageError("There is no trainer to make an image of.", hint="Give --local-package-path=DIR.")
    options = session.settings.options
    wish = ImageWish(
        name=draft.output_image_uri,
        platform=options.platform,
        pull=options.pull,
        project=session.settings.project,
        display_name=draft.document.get("displayName", ""),
    )
    return session.backend.image_order(wish)


# variables, and secrets among them


_KEEP = "Keep a secret in Secret Manager, and let the trainer read it as the job's --service-account."
_INSTEAD = f"{_KEEP}\nTo send it all the same, add --allow-plaintext-secrets."
MOST_NAMES = 10


def with_callers_values(request: JobRequest, *, local: bool) -> JobRequest:
    """The request with the caller's values for `--env NAME`.

    Raises ConfigError where the job is not to run on this machine, and for a name that is not set.
    """
    if not request.env_names:
        return request
    if not local:
        name = request.env_names[0]
        raise ConfigError(
            f"--env {name}: the value of this environment is taken on local backends only.",
            hint=f"Write --env {name}=VALUE. {_KEEP}",
        )
    asked = {name: _callers_value(name) for name in request.env_names}
    return request.over(Layer(named("--env"), at(f"jobSpec.{EVERY_POOL}.env", asked)))


def _callers_value(name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise ConfigError(
            f"--env {name}: {name} is not set in this environment.",
            hint=f"Set it with export {name}=…, or write --env {name}=VALUE.",
        )
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ConfigError(f"--env {name}: the value of {name} is not UTF-8.")
    return value


def _check_secrets(job: Job, *, local: bool, allowed: bool, strict: bool) -> str:
    """A sentence about the secrets among the variables of a job that leaves this machine; else empty.

    There is none where they are `allowed`. Raises ConfigError for them if `strict`; and for a value that was
    masked when the job was printed, wherever the job runs.
    """
    found = list(plain_secrets(to_document(job)))
    for path, name, secret in found:
        if secret == MASK:
            raise ConfigError(
                f"{path}: {name} was masked when this job was printed.",
                hint=f"Write its value in place of {MASK}, or give it with --env {name}.",
            )
    if local or allowed or not found:
        return ""
    names = list(dict.fromkeys(name for _, name, _ in found))
    said = f"{_listed(names)}, and anyone who may see the job can read its variables."
    if strict:
        raise ConfigError(said, hint=_INSTEAD)
    return f"{said} --allow-plaintext-secrets silences this warning."


def _listed(names: list[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} looks like a secret"
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more} look like secrets"
