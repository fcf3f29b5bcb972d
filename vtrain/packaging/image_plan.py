"""The plan of an image: its Dockerfile, context and name, known before it is built.

Planning only reads files, and needs no Docker Engine. The context of a user's own Dockerfile is a folder;
its plan has the files that Docker would send.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from vtrain.containers.build import base_images
from vtrain.containers.engine import CONTENT_LABEL, KIND_LABEL
from vtrain.containers.image_names import check_image_name
from vtrain.digests import document_digest
from vtrain.errors import ConfigError, PackagingError
from vtrain.messages.secrets import is_secret
from vtrain.packaging.direct import Member
from vtrain.packaging.dockerfile import (
    ImageRequirements,
    context_members,
    image_entrypoint,
    read_image_requirements,
    write_dockerfile,
)
from vtrain.packaging.ignore_files import DockerRules
from vtrain.packaging.notebooks import started
from vtrain.packaging.pep517 import with_computed_dependencies
from vtrain.packaging.prebuilt import newest_image
from vtrain.packaging.preflight import trainer_imports, with_preflight
from vtrain.packaging.sdist_plan import (
    SdistPlan,
    check_no_credentials,
    read_trainer,
    with_sources,
)
from vtrain.packaging.source import TrainerSource, check_source
from vtrain.packaging.tree import belonging_files, file_warnings, pack_file
from vtrain.text_files import why_not_utf8

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
        raise no_base(source)
    check_image_name(base, "--executor-image-uri")
    check_source(source)
    requirements = read_image_requirements(source)
    trainer = read_trainer(source, requirements=requirements.merged)
    if trainer.project and not trainer.project.is_package:  # else pip asks the back end, in the image
        trainer = with_computed_dependencies(trainer)
    trainer = with_sources(trainer, indexes=requirements.indexes, in_image=True)
    plan = _plan_generated(trainer, requirements.for_trainer(trainer), base, platform)
    checked = with_preflight(trainer, provided, strict)
    return msgspec.structs.replace(plan, warnings=checked.warnings)


def proposed_image(source: TrainerSource, *, has_gpus: bool = False) -> tuple[str, str]:
    """The framework that a trainer imports, and the pre-built image with it.

    For one without a framework it is the smallest image, or one that has CUDA.
    """
    imports = {name.partition(".")[0] for name in trainer_imports(read_trainer(source)).names}
    framework, image = newest_image(imports, has_gpus=has_gpus)
    if image:
        return framework, image
    _, image = newest_image({"torch" if has_gpus else "sklearn"}, has_gpus=has_gpus)
    return "a trainer without a framework", image


def no_base(source: TrainerSource, *, has_gpus: bool = False, can_take: bool = False) -> ConfigError:
    """The error for a trainer whose image is not named, with the one that its imports suggest.

    `can_take` says that the command has --yes.
    """
    framework, image = proposed_image(source, has_gpus=has_gpus)
    take = "To take it, add --yes, or save it" if can_take else "Or save it"
    return ConfigError(
        "Vertex AI and Docker run a trainer in an image, and no base image is named.",
        hint=f"For {framework}: --executor-image-uri={image}\n"
        f"{take} as image in [tool.vtrain.job] of pyproject.toml.",
    )


def _plan_generated(
    trainer: SdistPlan, requirements: ImageRequirements, base: str, platform: str
) -> ImagePlan:
    source = trainer.source
    files = context_members(trainer, requirements)
    folders = {file.name.partition("/")[0] for file in files}
    entrypoint = image_entrypoint(
        base, started(trainer.entry.path), source.python_module, trainer.entry.interpreter
    )
    plan = ImagePlan(
        folder=source.folder,
        name="",
        content_hash="",
        dockerfile=write_dockerfile(trainer, requirements, base, entrypoint, folders, plain=False),
        plain_dockerfile=write_dockerfile(trainer, requirements, base, entrypoint, folders, plain=True),
        bases=(base,),
        platform=platform,
        files=files,
        byte_count=trainer.byte_count,
        python_module=source.python_module,
        entrypoint=entrypoint,
        left_out=trainer.left_out,
        warnings=trainer.warnings,
    )
    given = Path(source.script).stem if source.script else source.python_module.split(".")[0]
    return _named(plan, given)


def _plan_own(source: TrainerSource, dockerfile: Path, platform: str, strict: bool) -> ImagePlan:
    if source.python_module or source.script:
        raise ConfigError("--dockerfile has its own entry point: leave --python-module and --script out.")
    folder = source.folder
    if not folder.is_dir():
        raise PackagingError(f"{folder} {'is not a folder' if folder.exists() else 'does not exist'}.")
    text = _text(folder, dockerfile)
    belonging = belonging_files(folder, rules=DockerRules(folder, dockerfile))
    check_no_credentials(belonging.credentials, strict)
    files = tuple(pack_file(folder, path) for path in belonging.files)
    name = os.path.relpath(dockerfile.resolve(), folder.resolve())
    plan = ImagePlan(
        folder=folder,
        name="",
        content_hash="",
        dockerfile=text,
        plain_dockerfile=text,
        bases=base_images(text),
        platform=platform,
        files=tuple(file.member(folder) for file in files),
        byte_count=sum(file.size for file in files),
        dockerfile_name=name if name in belonging.files else "",
        left_out=belonging.left_out,
        warnings=(*belonging.warnings, *_baked_secrets(text), *file_warnings(folder, files)),
    )
    return _named(plan, folder.resolve().name)


def _named(plan: ImagePlan, given: str) -> ImagePlan:
    """The plan with its name, by the sha256 of all that decides the image, but the content of its base."""
    document = [
        ["vtrain-image", LAYOUT_VERSION, plan.platform],
        plan.dockerfile,
        plan.plain_dockerfile,
        [[file.name, file.executable, file.digest] for file in plan.files],
    ]
    content_hash = document_digest(document)
    # An image's name has lower-case letters and digits with single dashes between.
    words = re.sub(r"[^a-z0-9]+", "-", given.lower())[:_SLUG_LENGTH].strip("-")
    name = f"{REPOSITORY}/{words or 'trainer'}:{content_hash[:16]}"
    return msgspec.structs.replace(plan, name=name, content_hash=content_hash)


_CONTINUED = re.compile(r"\\[ \t]*\n(?:[ \t]*#.*\n)*")
_ENV_LINE = re.compile(r"^[ \t]*(?:ENV|ARG)[ \t]+(.+)", re.IGNORECASE | re.MULTILINE)
_REFERENCE = re.compile(r"""["']?\$(?:\w+|\{\w+\})["']?""")
_ENV_PAIR = re.compile(r"""(?<!\w)(\w+)=("[^"]*"|'[^']*'|\S+)""")


def _baked_secrets(text: str) -> Iterator[str]:
    """A sentence for each variable or argument of the image that looks like a secret."""
    for line in _ENV_LINE.findall(_CONTINUED.sub(" ", text)):
        pairs = _ENV_PAIR.findall(line) or [line.partition(" ")[::2]]
        for name, value in pairs:
            if is_secret(name, value.strip()) and not _REFERENCE.fullmatch(value.strip()):
                yield f"the Dockerfile sets {name}, which looks like a secret and can be read in the image"


def _text(folder: Path, dockerfile: Path) -> str:
    try:
        data = dockerfile.read_bytes()
        text = data.decode("utf-8-sig")
    except FileNotFoundError:
        below = folder / dockerfile
        hint = f"There is {below}; the path is read from the current folder." if below.is_file() else ""
        raise ConfigError(f"--dockerfile: there is no file {dockerfile}.", hint=hint) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else why_not_utf8(data)
        raise ConfigError(f"--dockerfile: cannot read {dockerfile}: {reason}.") from None
    if not text.strip():
        raise ConfigError(f"--dockerfile: {dockerfile} is empty.")
    return text
