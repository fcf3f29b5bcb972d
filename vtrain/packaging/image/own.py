"""A user's own Dockerfile, with a folder as its context: what belongs is what Docker would send."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from vtrain.errors import ConfigError, PackagingError
from vtrain.messages.secrets import is_secret
from vtrain.packaging.direct import Member
from vtrain.packaging.gitignore import RuleSet, read_docker_rules, read_lines
from vtrain.packaging.ignore import IgnoreRules
from vtrain.packaging.plan import PackedFile, pack_file, size_warnings
from vtrain.packaging.tree import belonging_files

IGNORE_FILE = ".dockerignore"
_ENV_LINE = re.compile(r"^[ \t]*ENV[ \t]+(.+)", re.IGNORECASE | re.MULTILINE)
_ENV_PAIR = re.compile(r"""(?<!\w)(\w+)=("[^"]*"|'[^']*'|\S+)""")


class OwnContext(msgspec.Struct, frozen=True, kw_only=True):
    """The text of the Dockerfile, the files of its context, and what is said about them.

    `name` is the Dockerfile's own among the files; empty when it is not one of them.
    """

    dockerfile: str
    name: str
    files: tuple[PackedFile, ...]
    left_out: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()

    def members(self, folder: Path) -> tuple[Member, ...]:
        """The files as they go to the engine."""
        return tuple(
            Member(
                name=file.path,
                content=folder / file.path,
                executable=file.executable,
                digest=file.digest,
            )
            for file in self.files
        )


class DockerRules(IgnoreRules):
    """What `docker build` leaves out: the lines of FILE.dockerignore or .dockerignore, and nothing else.

    Source: docs.docker.com/build/concepts/context, ".dockerignore files".
    """

    def __init__(self, folder: Path, dockerfile: Path) -> None:
        beside = dockerfile.with_name(f"{dockerfile.name}{IGNORE_FILE}")
        found = next((path for path in (beside, folder / IGNORE_FILE) if path.is_file()), None)
        self.folder = folder
        self.excluded = frozenset()
        self.file = found.name if found else ""
        self.rule_sets = (read_docker_rules(read_lines(found)),) if found else ()
        self.kept_by_name = frozenset()

    def with_nested(self, path: str, rule_sets: tuple[RuleSet, ...]) -> tuple[RuleSet, ...]:  # noqa: ARG002
        """The same rules: an ignore file in a subfolder says nothing to Docker."""
        return rule_sets

    def excludes(self, path: str, name: str, is_folder: bool) -> bool:  # noqa: ARG002
        """Nothing is left out by itself."""
        return False


def read_own_context(folder: Path, dockerfile: Path) -> OwnContext:
    """Read a Dockerfile and its context. Raises ConfigError and PackagingError."""
    if not folder.is_dir():
        raise PackagingError(f"{folder} {'is not a folder' if folder.exists() else 'does not exist'}.")
    text = _text(folder, dockerfile)
    belonging = belonging_files(folder, rules=DockerRules(folder, dockerfile))
    files = tuple(pack_file(folder, path) for path in belonging.files)
    warnings = (*belonging.warnings, *_baked_secrets(text), *size_warnings(files))
    return OwnContext(
        dockerfile=text,
        name=_name_in(folder, dockerfile, belonging.files),
        files=files,
        left_out=belonging.left_out,
        warnings=warnings,
        credentials=belonging.credentials,
    )


def _baked_secrets(text: str) -> Iterator[str]:
    """A sentence for each variable of the image that looks like a secret."""
    for line in _ENV_LINE.findall(text.replace("\\\n", " ")):
        pairs = _ENV_PAIR.findall(line) or [line.partition(" ")[::2]]
        for name, value in pairs:
            if is_secret(name, value.strip()):
                yield f"the Dockerfile sets {name}, which looks like a secret and can be read in the image"


def _name_in(folder: Path, dockerfile: Path, files: tuple[str, ...]) -> str:
    try:
        name = dockerfile.resolve().relative_to(folder.resolve()).as_posix()
    except ValueError:
        return ""
    return name if name in files else ""


def _text(folder: Path, dockerfile: Path) -> str:
    try:
        text = dockerfile.read_text("utf-8-sig")
    except FileNotFoundError:
        below = folder / dockerfile
        hint = f"There is {below}; the path is read from the current folder." if below.is_file() else ""
        raise ConfigError(f"--dockerfile: there is no file {dockerfile}.", hint=hint) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"--dockerfile: cannot read {dockerfile}: {reason}.") from None
    if not text.strip():
        raise ConfigError(f"--dockerfile: {dockerfile} is empty.")
    return text
