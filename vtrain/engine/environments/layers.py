"""Folders that are made once, by whoever comes first, and virtual environments made by hand."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from vtrain.atomic import publish_file, remove_folder
from vtrain.engine.environments.state import state_of
from vtrain.errors import VtrainError
from vtrain.privacy import FOLDER_MODE, make_private

Log = Callable[[bytes], None]

_MARKER = "complete"
"""Written last: the state that the folder was made in."""
_CHANGED = "changed"
"""The marker's name once the folder's state is another."""
_HASHED = ("packages", "wheels")
"""The kinds of folders whose files are read to know their state; of the others the times count."""
_CLAIMS = ".claims"
"""A lock beside the folders: shared by who claims one, held alone by who withdraws one."""
SITES = ("_vtrain_dependencies", "_vtrain_frameworks")
"""The names under which `add_site` tells an environment of other folders."""
_SHEBANG_ZONE = 1024
_COMMAND_PYTHON = re.compile(rb"/[^\n\"']*/bin/python[\d.]*")


class EnvironmentFailed(VtrainError):
    """The trainer's environment could not be made; complete environments are untouched."""


@contextmanager
def writing_environments(home: Path) -> Iterator[None]:
    """What the disk refuses below vtrain's home, as EnvironmentFailed."""
    try:
        yield
    except OSError as error:
        raise EnvironmentFailed(
            f"The environment below {home} could not be written: {error.strerror or error}.",
            hint="Free some space there, or set VTRAIN_HOME to another folder.",
        ) from error


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """The Python that trainers run on: the one below vtrain's own virtual environment."""

    path: str
    version: str
    abi: str

    @property
    def short_version(self) -> str:
        """`3.11`, as pre-built images name theirs."""
        return ".".join(self.version.split(".")[:2])


def base_interpreter() -> Interpreter:
    """The interpreter that runs vtrain, without the virtual environment it may run in."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    abi = f"{sys.implementation.cache_tag}-{getattr(sys, 'abiflags', '')}"
    return Interpreter(path=_base_executable(), version=version, abi=abi)


def _base_executable() -> str:
    # Until Python 3.10, sys._base_executable names the virtual environment's own link.
    recorded = Path(getattr(sys, "_base_executable", sys.executable))
    if sys.prefix == sys.base_prefix or not recorded.is_relative_to(sys.prefix):
        return str(recorded)
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return str(Path(sys.base_prefix) / "bin" / name)


def is_complete(folder: Path) -> bool:
    """True once `make_once` has made the folder to the end."""
    return (folder / _MARKER).exists()


def is_whole(folder: Path) -> bool:
    """Whether a folder is complete, and so are those that it reads."""
    try:
        return is_complete(folder) and all(is_whole(below) for below in layers_below(folder))
    except FileNotFoundError:  # somebody is removing it
        return False


def sound(folder: Path) -> Path:
    """The folder of that name or, where files in it were changed, the one that is made in its stead.

    The changed one stays for the jobs that run in it.
    """
    found, number = folder, 1
    while (found / _CHANGED).exists():
        number += 1
        found = folder.with_name(f"{folder.name}-{number}")
    return found


def is_changed(folder: Path) -> bool:
    """Whether files in a folder were found changed: nobody starts in it any more."""
    return (folder / _CHANGED).exists()


def claim(folder: Path, log: Log) -> bool:
    """Note that a folder is used now, with those that it reads; False where one is not complete or changed.

    What was claimed lately is never withdrawn. Raises OSError.
    """
    if not is_complete(folder):
        return False
    with _locked(folder.parent / _CLAIMS, shared=True):
        if not is_complete(folder):  # it was withdrawn while we waited
            return False
        os.utime(folder / _MARKER)
    if not is_intact(folder):
        _give_up(folder, log)
        return False
    if not (folder / _MARKER).stat().st_size:  # an older version's
        _write_marker(folder)
    return all(claim(below, log) for below in layers_below(folder))


def is_intact(folder: Path) -> bool:
    """Whether a complete folder is in the state that it was made in. Older versions did not note that."""
    try:
        made = (folder / _MARKER).read_bytes()
        return not made or made == state_of(folder, _MARKER, hashed=folder.parent.name in _HASHED)
    except OSError:
        return False


def _give_up(folder: Path, log: Log) -> None:
    with _locked(folder.parent / _CLAIMS):
        if not is_complete(folder):
            return
        (folder / _MARKER).rename(folder / _CHANGED)
    name = folder.relative_to(folder.parents[1])
    log(f"Files in environments/{name} were changed after it was made; it is made again.\n".encode())


def layers_below(folder: Path) -> tuple[Path, ...]:
    """The folders that an environment reads: those that `add_site` has told it of."""
    root = folder.parents[1]
    links = (lib / "site-packages" / f"{name}.pth" for lib in folder.glob("lib/python*") for name in SITES)
    sites = (_linked_site(link) for link in links if link.exists())
    inside = (site.relative_to(root).parts for site in sites if site.is_relative_to(root))
    return tuple(root / kind / key for kind, key, *_ in inside)


def last_claimed(folder: Path) -> float:
    """When a folder was made or used last, in seconds since the epoch. Raises OSError."""
    found = (path for path in (folder / _MARKER, folder / _CHANGED) if path.exists())
    return next(found, folder).stat().st_mtime


def withdraw(folder: Path, seen: float, set_aside: Callable[[Path], Path]) -> Path | None:
    """Have `set_aside` rename a folder that was last used at the time `seen`; its path from then on.

    None for one that was used since, or is being made. Raises OSError.
    """
    with _locked(folder.parent / _CLAIMS):
        if last_claimed(folder) != seen:
            return None
        with _locked(_lock_of(folder), wait=False) as making:
            if making < 0:
                return None
            gone = set_aside(folder)
            _lock_of(folder).unlink()
            return gone


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


def make_once(folder: Path, build: Callable[[int], None], log: Log) -> None:
    """Have `build` fill the folder unless that has been done before; one process at a time does it.

    `build` is given the lock's descriptor, to hand on to every process that writes into the folder: the
    lock then lasts as long as the last of them, also when this process is killed. What was left half
    made is removed and made again. A complete folder is claimed, and else never touched.
    """
    if claim(folder, log):
        return
    make_private(folder.parent)
    with _locked(_lock_of(folder), log) as descriptor:
        if is_complete(folder):
            os.utime(folder / _MARKER)
            return
        remove_folder(folder)
        folder.mkdir(mode=FOLDER_MODE)
        build(descriptor)
        _write_marker(folder)


@contextmanager
def _locked(path: Path, log: Log | None = None, *, wait: bool = True, shared: bool = False) -> Iterator[int]:
    """Hold a lock: its descriptor, or -1 where another process has it and we do not `wait`."""
    descriptor = _lock(path, log, wait=wait, shared=shared)
    try:
        yield descriptor
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _lock(path: Path, log: Log | None, *, wait: bool, shared: bool) -> int:
    import fcntl

    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except IsADirectoryError:
            remove_folder(path)
            continue
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                os.close(descriptor)
                return -1
            if log is not None:
                log(b"Another process is making this environment; waiting for it.\n")
            fcntl.flock(descriptor, kind)
        if _is_still(path, descriptor):
            return descriptor
        os.close(descriptor)  # whoever removed the folder removed its lock too


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _write_marker(folder: Path) -> None:
    publish_file(folder / _MARKER, state_of(folder, _MARKER, hashed=folder.parent.name in _HASHED))


def python_of(environment: Path) -> Path:
    """The environment's interpreter."""
    return environment / "bin" / "python"


def site_packages(environment: Path) -> Path:
    """The folder that the environment's interpreter imports from."""
    threads = "t" if "t" in getattr(sys, "abiflags", "") else ""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}{threads}"
    return environment / "lib" / f"python{version}" / "site-packages"


def write_virtual_environment(environment: Path, interpreter: Interpreter) -> None:
    """Write what makes a folder a virtual environment (PEP 405), without pip: about a millisecond."""
    binaries = environment / "bin"
    binaries.mkdir(parents=True)
    site_packages(environment).mkdir(parents=True)
    if sys.maxsize > 2**32 and sys.platform != "darwin":
        (environment / "lib64").symlink_to("lib")
    python_of(environment).symlink_to(interpreter.path)
    for alias in ("python3", f"python{interpreter.short_version}"):
        (binaries / alias).symlink_to("python")
    (environment / "pyvenv.cfg").write_text(
        f"home = {Path(interpreter.path).parent}\n"
        "include-system-site-packages = false\n"
        f"version = {interpreter.version}\n"
        f"executable = {interpreter.path}\n",
        encoding="utf-8",
    )


def add_site(environment: Path, name: str, site: Path) -> None:
    """Let the environment import from `site` too, after its own folder, `.pth` files included."""
    line = f"import site; site.addsitedir({str(site)!r})\n"
    (site_packages(environment) / f"{name}.pth").write_text(line, encoding="utf-8")


def _linked_site(link: Path) -> Path:
    """What `add_site` was given; no path where the file is damaged."""
    try:
        path = re.search(r"addsitedir\((.+)\)", link.read_text(encoding="utf-8"))
        return Path(ast.literal_eval(path[1])) if path else Path()
    except FileNotFoundError:
        raise
    except (OSError, ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return Path()


def copy_environment(environment: Path, target: Path) -> None:
    """Copy a virtual environment; its Python commands start the copy's interpreter."""
    import shutil

    binaries = environment / "bin"

    def left_out(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if folder == str(environment) and name in (_MARKER, "bin")]

    shutil.copytree(environment, target, symlinks=True, ignore=left_out)
    (target / "bin").mkdir()
    for command in binaries.iterdir():
        if command.name.startswith("python") and command.is_symlink():
            (target / "bin" / command.name).symlink_to(command.readlink())
    adopt_commands(target, binaries)
    for command in binaries.iterdir():
        if not os.path.lexists(target / "bin" / command.name):
            shutil.copy2(command, target / "bin" / command.name, follow_symlinks=False)


def adopt_commands(environment: Path, binaries: Path) -> None:
    """Copy the Python commands of another folder, so that they start this environment's interpreter.

    Commands that the environment has already are kept, and so are those of other languages.
    """
    own = str(python_of(environment)).encode()
    for command in sorted(binaries.iterdir()) if binaries.is_dir() else ():
        copy = environment / "bin" / command.name
        if command.name.startswith("python") or copy.exists() or not command.is_file():
            continue
        content = command.read_bytes()
        head, found = _COMMAND_PYTHON.subn(own, content[:_SHEBANG_ZONE], count=1)
        if found and content.startswith(b"#!"):
            copy.write_bytes(head + content[_SHEBANG_ZONE:])
            copy.chmod(0o755)
