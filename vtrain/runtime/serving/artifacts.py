"""The files of a model, and whether somebody else could have written them."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vtrain.errors import ConfigError
from vtrain.messages.model import Model
from vtrain.staging import LocalBuckets


def artifact_folder(model: Model, home: Path) -> Path:
    """The folder of a model's files on this machine. Raises ConfigError for a URI that means none."""
    return LocalBuckets(home).local_path(model.artifact_uri)


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """A block that looks at files of a model. Raises ConfigError where one cannot be read."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # Python 3.12 raises the latter for links that lead in a circle
        reason = getattr(error, "strerror", None) or str(error)
        at = getattr(error, "filename", None) or folder
        raise ConfigError(f"The model's files cannot be read: {str(at)[:300]}: {reason}.") from error


def has_files(folder: Path) -> bool:
    """Whether a file lies below a folder that may be missing. Raises ConfigError where it cannot be read."""

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    with _reading(folder):
        walked = os.walk(folder, onerror=refuse)
        return any(Path(top, name).is_file() for top, _, names in walked for name in names)


def foreign_part(folder: Path) -> str:
    """A sentence about a part of the model that is not the user's alone; empty where all is.

    The owner of a folder above a file can replace the file, and so can anybody who may write to that folder.
    Where a folder above is closed to others, only its owner can have written the file. It holds for the real
    path alone: who owns a link in a path may turn it at any time. What lies below a linked folder counts.
    Raises ConfigError for files that cannot be read, and for a link that leads nowhere.
    """
    seen: set[Path] = set()
    folders = [folder]
    with _reading(folder):
        while folders:
            top = folders.pop()
            for path in (top, *top.rglob("*")):
                if path.lstat().st_uid not in (os.getuid(), 0):
                    return f"{path} belongs to another user."
                real = path.resolve(strict=True)
                if real.is_dir() and _others_write(real.stat()) and _is_reachable(real):
                    return f"Other users can write to {real}."
                if real not in seen and path.is_symlink() and path != top and real.is_dir():
                    folders.append(real)
                for part in (real, *real.parents):
                    if part not in seen:
                        seen.add(part)
                        if reason := _why_foreign(part):
                            return reason
    return ""


def _why_foreign(path: Path) -> str:
    found = path.stat()
    if found.st_uid not in (os.getuid(), 0):
        return f"{path} belongs to another user."
    is_sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    if _others_write(found) and not is_sticky and _is_reachable(path):
        return f"Other users can write to {path}."
    return ""


def _others_write(found: os.stat_result) -> bool:
    """Whether others can write there; in a sticky folder they can add files, and replace none."""
    by_group = found.st_mode & stat.S_IWGRP and not _is_own_group(found.st_gid)
    return bool(found.st_mode & stat.S_IWOTH or by_group)


def _is_own_group(number: int) -> bool:
    """Whether a group is the user's alone: the one that systems make for each user, under the user's name."""
    try:
        user = pwd.getpwuid(os.getuid())
        return number == user.pw_gid and grp.getgrgid(number).gr_name == user.pw_name
    except KeyError:  # a user or a group without a name, as in containers
        return False


def _is_reachable(path: Path) -> bool:
    return all(parent.stat().st_mode & (stat.S_IXOTH | stat.S_IXGRP) for parent in path.parents)


def check_artifacts(model: Model, home: Path) -> Path | None:
    """The real path of a model's files; None for a model without. Raises ConfigError where it is empty."""
    if not model.artifact_uri:
        return None
    folder = Path(os.path.realpath(artifact_folder(model, home)))
    with _reading(folder):
        is_there = folder.is_dir()
    if not is_there:
        raise ConfigError(
            f"The files of model {model.name} are gone: there is no folder {folder}.",
            hint=f"It was uploaded with --artifact-uri={model.artifact_uri}.",
        )
    if not has_files(folder):
        raise ConfigError(
            f"Model {model.name} has no files: {folder} is empty.",
            hint=f"It was uploaded with --artifact-uri={model.artifact_uri}.",
        )
    return folder
