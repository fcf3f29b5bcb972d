"""The plan of an image: all that is known before it is built. It only reads, and asks no engine."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import msgspec

from vtrain.containers.build import base_images
from vtrain.containers.labels import CONTENT_LABEL, KIND_LABEL
from vtrain.containers.references import check_image_name
from vtrain.errors import ConfigError
from vtrain.packaging.direct import Member
from vtrain.packaging.image.context import (
    ImageRequirements,
    context_members,
    installs_project,
    read_image_requirements,
)
from vtrain.packaging.image.dockerfile import (
    Layers,
    ProjectLayer,
    image_entrypoint,
    write_dockerfile,
)
from vtrain.packaging.image.own import read_own_context
from vtrain.packaging.plan import SdistPlan, check_no_credentials, read_trainer, with_preflight
from vtrain.packaging.preflight import check_source
from vtrain.packaging.project import read_project
from vtrain.packaging.source import TrainerSource

LAYOUT_VERSION = 1
"""Changes whenever the same files would give another image."""
REPOSITORY = "vtrain"
IMAGE_KIND = "image"
_SLUG_LENGTH = 60


class ImagePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about an image that is known before it is built.

    `name` is its name on the engine, `vtrain/<slug>:<16 hex of the content hash>`. `entrypoint` is empty
    where the user's own Dockerfile decides, and `dockerfile_name` is that one's name among the files, if it
    is one of them; `bases` are the images that its FROM lines name.
    """

    folder: Path
    name: str
    content_hash: str
    dockerfile: str
    plain_dockerfile: str
    bases: tuple[str, ...]
    platform: str
    files: tuple[Member, ...]
    byte_count: int
    dockerfile_name: str = ""
    python_module: str = ""
    entrypoint: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def file_count(self) -> int:
        return len(self.files)

    @property
    def title(self) -> str:
        """`vtrain/trainer:0123456789abcdef on python:3.11`; the name alone where no base is known."""
        return f"{self.name} on {', '.join(self.bases)}" if self.bases else self.name

    @property
    def labels(self) -> dict[str, str]:
        """The labels that every image of this plan bears."""
        return {KIND_LABEL: IMAGE_KIND, CONTENT_LABEL: self.content_hash}

    def module_command(self, module: str) -> tuple[str, ...]:
        """The command that runs another module of the same image; () for the module that it runs anyway."""
        if not module or module == self.python_module or not self.entrypoint:
            return ()
        return image_entrypoint(self.bases[0], "", module)


def plan_image(
    source: TrainerSource,
    base: str,
    *,
    dockerfile: Path | None = None,
    platform: str = "",
    provided: frozenset[str] = frozenset(),
    strict: bool = False,
) -> ImagePlan:
    """Read the folder and decide everything; write nothing.

    `base` is the image to build on; with the user's own `dockerfile` neither it nor an entry is needed.
    `platform` is `os/architecture`, empty for the engine's own. `provided` are the canonical names of the
    distributions that the base brings. Raises ConfigError and PackagingError.
    """
    if dockerfile is not None:
        return _plan_own(source, dockerfile, platform, strict)
    if not base:
        raise ConfigError("An image needs a base to build on.", hint="Give --executor-image-uri=IMAGE.")
    check_image_name(base, "--executor-image-uri")
    check_source(source)
    project = None if source.script_alone else read_project(source.folder)
    requirements = read_image_requirements(source, project)
    trainer = read_trainer(source, requirements=requirements.merged)
    plan = _plan_generated(trainer, requirements, base, platform)
    checked = with_preflight(trainer, provided, strict)
    return msgspec.structs.replace(plan, warnings=checked.warnings)


def _plan_generated(
    trainer: SdistPlan, requirements: ImageRequirements, base: str, platform: str
) -> ImagePlan:
    source = trainer.source
    files = context_members(trainer, requirements)
    layers = Layers(
        base=base,
        folders=frozenset(file.name.partition("/")[0] for file in files),
        entrypoint=image_entrypoint(base, trainer.entry.path, source.python_module),
        project=_project_layer(trainer, requirements),
    )
    plan = ImagePlan(
        folder=source.folder,
        name="",
        content_hash="",
        dockerfile=write_dockerfile(layers, plain=False),
        plain_dockerfile=write_dockerfile(layers, plain=True),
        bases=(base,),
        platform=platform,
        files=files,
        byte_count=trainer.byte_count,
        python_module=source.python_module,
        entrypoint=layers.entrypoint,
        left_out=trainer.left_out,
        warnings=trainer.warnings,
    )
    given = Path(source.script).stem if source.script else source.python_module.split(".")[0]
    return _named(plan, given)


def _project_layer(trainer: SdistPlan, requirements: ImageRequirements) -> ProjectLayer | None:
    project = trainer.project
    if project is None or not installs_project(project, trainer.source.folder):
        return None
    from vtrain.packaging.pep517 import version_variables

    return ProjectLayer(
        alone=project.dependencies is not None,
        tools_below=bool(requirements.tools),
        variables=version_variables(project),
    )


def _plan_own(source: TrainerSource, dockerfile: Path, platform: str, strict: bool) -> ImagePlan:
    if source.python_module or source.script:
        raise ConfigError("--dockerfile has its own entry point: leave --python-module and --script out.")
    context = read_own_context(source.folder, dockerfile)
    check_no_credentials(context.credentials, strict)
    plan = ImagePlan(
        folder=source.folder,
        name="",
        content_hash="",
        dockerfile=context.dockerfile,
        plain_dockerfile=context.dockerfile,
        bases=base_images(context.dockerfile),
        platform=platform,
        files=context.members(source.folder),
        byte_count=sum(file.size for file in context.files),
        dockerfile_name=context.name,
        left_out=context.left_out,
        warnings=context.warnings,
    )
    return _named(plan, source.folder.resolve().name)


def _named(plan: ImagePlan, given: str) -> ImagePlan:
    content_hash = _content_hash(plan)
    name = f"{REPOSITORY}/{_slug(given)}:{content_hash[:16]}"
    return msgspec.structs.replace(plan, name=name, content_hash=content_hash)


def _slug(given: str) -> str:
    """A word for the image's name: lower-case letters and digits with single dashes between."""
    words = re.sub(r"[^a-z0-9]+", "-", given.lower())[:_SLUG_LENGTH].strip("-")
    return words or "trainer"


def _content_hash(plan: ImagePlan) -> str:
    """The sha256 of all that decides the image, but for the content of its base."""
    files = [[file.name, file.executable, file.digest or _digest(file.content)] for file in plan.files]
    document = [
        ["vtrain-image", LAYOUT_VERSION, plan.platform],
        plan.dockerfile,
        plan.plain_dockerfile,
        files,
    ]
    return hashlib.sha256(msgspec.json.encode(document)).hexdigest()


def _digest(content: bytes | Path) -> str:
    return hashlib.sha256(content if isinstance(content, bytes) else content.read_bytes()).hexdigest()
