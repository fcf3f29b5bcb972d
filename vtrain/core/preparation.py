"""From a request to a plan, as its target has it: the draft, its Python or its image, the packages' place."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from vtrain.backends.image_order import ImageOrder, ImageWish
from vtrain.backends.interface import DEBUGPY_FLAG, RuntimeBackend, TrainerForm
from vtrain.backends.replica_options import ReplicaOptions
from vtrain.core.compose import Draft, JobRequest, compose
from vtrain.core.config_file import ConfigFile
from vtrain.core.secret_variables import check_secrets, with_callers_values
from vtrain.core.submission import Place, Prepared, prepare
from vtrain.core.target import R, Session, Target
from vtrain.errors import ConfigError, UsageError
from vtrain.packaging.sdist_plan import declares_nothing
from vtrain.packaging.source import interpreter_of
from vtrain.runtime.debugging import REQUIREMENT
from vtrain.settings import check_current_folder, find_staging_bucket

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

    Raises as `prepare` does, with the line of the file that is wrong, and as `check_secrets` does.
    """
    image = image_order(session, draft) if baked else None
    with draft.blamed():
        prepared = prepare(draft, session.jobs, packages, strict=strict, image=image)
    job, local = prepared.plan.job, session.is_local
    secrets = check_secrets(job, local=local, allowed=secrets_allowed, strict=strict)
    return msgspec.structs.replace(prepared, secrets=secrets)


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
