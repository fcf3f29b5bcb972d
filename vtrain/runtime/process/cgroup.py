"""A control group for each attempt of a replica: the kernel's own list of all processes that came from it.

It holds those, too, that have left their parents, their session and their environment behind, and it outlives
the shim. It has no limits. Where no cgroup may be made, as for most users outside a container, the shim keeps
a list of processes instead. Standard library only: part of the shim.
"""

# ruff: noqa: PTH102, PTH106, PTH118, PTH123

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

V1_CONTROLLERS = ("pids", "freezer")
"""Hierarchies of the first version in which a group without limits changes nothing for its members."""
MAX_DEPTH = 12
"""How deep below the root of a hierarchy groups are looked for."""


def make_group(name: str) -> str:
    """Make a group beside this process, in the first hierarchy that allows it; its folder, or nothing."""
    for own, _ in _hierarchies():
        folder = os.path.join(own, name)
        try:
            os.mkdir(folder, 0o755)
        except FileExistsError:
            pass  # of a shim that died before its trainer had begun
        except OSError:
            continue
        if os.access(os.path.join(folder, "cgroup.procs"), os.W_OK):
            return folder
        remove_group(folder)
    return ""


def join_group(folder: str) -> bool:
    """Let this process, and all that it starts from now on, be members; whether the kernel allows it."""
    try:
        with open(f"{folder}/cgroup.procs", "wb", buffering=0) as file:
            file.write(b"0")
    except OSError:
        return False
    return True


def find_groups(name: str, *, is_prefix: bool = False) -> list[str]:
    """The folders of all groups of this machine that have this name, or a name that begins with it."""
    found = []
    for root in {root for _, root in _hierarchies()}:
        for folder, names, _ in os.walk(root):
            wanted = [entry for entry in names if entry == name or (is_prefix and entry.startswith(name))]
            found += [os.path.join(folder, entry) for entry in wanted]
            if folder[len(root) :].count("/") >= MAX_DEPTH:
                names.clear()
    return sorted(found)


def members(folder: str) -> list[int]:
    """The ids of a group's processes; none of a group that is gone."""
    try:
        with open(f"{folder}/cgroup.procs", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def kill_group(folder: str) -> bool:
    """Have the kernel end all members at once, whatever their user; False where it does not offer that."""
    try:
        with open(f"{folder}/cgroup.kill", "wb", buffering=0) as file:
            file.write(b"1")
    except OSError:
        return False
    return True


def remove_group(folder: str) -> bool:
    """Remove a group; False while it has members."""
    try:
        os.rmdir(folder)
    except OSError as error:
        return error.errno == errno.ENOENT
    return True


def _hierarchies() -> Iterator[tuple[str, str]]:
    """This process's own folder in each hierarchy that will do, and the root; the second version first."""
    mounts, paths = _mounts(), _own_paths()
    for controller in ("", *V1_CONTROLLERS):
        if controller in mounts and controller in paths:
            top, root = mounts[controller]
            path = paths[controller]
            if path == top or path.startswith(top.rstrip("/") + "/"):
                yield os.path.normpath(root + "/" + path[len(top.rstrip("/")) :]), root


def _own_paths() -> dict[str, str]:
    """By controller (empty: the second version) the group that this process is in."""
    found = {}
    for line in _lines("/proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _mounts() -> dict[str, tuple[str, str]]:
    """By controller the group that is mounted, and where."""
    found: dict[str, tuple[str, str]] = {}
    for line in _lines("/proc/self/mountinfo"):
        fields, _, rest = line.partition(" - ")  # before it stand any number of optional fields
        kind, _, options = rest.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            top, place = fields.split(" ")[3:5]
            for controller in options.rpartition(" ")[2].split(",") if kind == "cgroup" else ("",):
                found.setdefault(controller, (top, place))
    return found


def _lines(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []
