"""`/gcs` for a process: a mount namespace of its own in which the folder of local buckets lies there.

Standard library only: part of the shim. `python -I -S bucket_mount.py` tries it, and says why it cannot be.
`/` belongs to somebody else, so that nothing can be made in it: where there is no `/gcs` to mount on, the
process gets a root of its own (a tmpfs) in which every entry of `/` is bound where it was, and `/gcs` beside
them.
"""

# ruff: noqa: PTH102, PTH106, PTH112, PTH114, PTH115, PTH123, PTH208, PTH211
# pathlib would cost more than all the rest of the start.

from __future__ import annotations

import ctypes
import os
import sys
import tempfile

MOUNT_POINT = "/gcs"

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_RDONLY = 0x1
_MS_REMOUNT = 0x20
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_SLAVE = 0x80000
_MNT_DETACH = 2
_NO_SUCH_CALL = 38
_OLD_ROOT = "/.old"
_ROOT_OPTIONS = b"mode=755"


def show_buckets(folder: str) -> None:
    """Let this process see `folder` as /gcs, and nobody else. Raises OSError where that is refused.

    It stays the user that it was, and so does the owner of every file.
    """
    _leave_namespaces()
    # What is mounted outside later appears here too; what is mounted here stays here.
    _mount("none", "/", flags=_MS_SLAVE | _MS_REC)
    if os.path.isdir(MOUNT_POINT) and not os.path.islink(MOUNT_POINT):
        _mount(folder, MOUNT_POINT, flags=_MS_BIND | _MS_REC)
        return
    # An empty root, in which the one before lies. The folder on which it is mounted is left as it was.
    _mount("tmpfs", folder, kind="tmpfs", options=_ROOT_OPTIONS)
    os.mkdir(folder + _OLD_ROOT)
    _check(_libc().pivot_root(os.fsencode(folder), os.fsencode(folder + _OLD_ROOT)), folder)
    os.chdir("/")
    for name in os.listdir(_OLD_ROOT):
        if f"/{name}" not in (_OLD_ROOT, MOUNT_POINT):
            try:
                _take_along(name)
            except FileNotFoundError:  # somebody has just removed it
                continue
    os.mkdir(MOUNT_POINT)
    _mount(_OLD_ROOT + folder, MOUNT_POINT, flags=_MS_BIND | _MS_REC)
    _check(_libc().umount2(_OLD_ROOT.encode(), _MNT_DETACH), _OLD_ROOT)
    os.rmdir(_OLD_ROOT)
    # Else a file made in `/` would vanish with the process; so it is refused, as it is to a user.
    _mount("none", "/", flags=_MS_REMOUNT | _MS_BIND | _MS_RDONLY)


def _leave_namespaces() -> None:
    """A mount namespace of its own: root may have one, others have it with a user namespace around it."""
    if not sys.platform.startswith("linux"):
        raise OSError(_NO_SUCH_CALL, os.strerror(_NO_SUCH_CALL))
    if os.geteuid() == 0 and _libc().unshare(_CLONE_NEWNS) == 0:
        return
    user, group = os.geteuid(), os.getegid()
    _check(_libc().unshare(_CLONE_NEWUSER | _CLONE_NEWNS), "unshare")
    for name, text in (
        ("setgroups", "deny"),  # without it nobody may say who the groups are
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _take_along(name: str) -> None:
    """An entry of the old root, at its place in the new one."""
    source, target = f"{_OLD_ROOT}/{name}", f"/{name}"
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
        return
    if os.path.isdir(source):
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    _mount(source, target, flags=_MS_BIND | _MS_REC)


def _mount(source: str, target: str, *, kind: str = "", flags: int = 0, options: bytes = b"") -> None:
    call = _libc().mount
    call.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
    _check(call(os.fsencode(source), os.fsencode(target), kind.encode(), flags, options), target)


def _check(result: int, place: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), place)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def refusal() -> str:
    """Why this process cannot be shown /gcs; empty where it can: it has tried, and sees an empty one now."""
    folder = tempfile.mkdtemp()
    child = os.fork()
    if child == 0:
        _try(folder)
    _, status = os.waitpid(child, 0)
    os.rmdir(folder)
    code = os.waitstatus_to_exitcode(status)
    return os.strerror(code) if code else ""


def _try(folder: str) -> None:
    """Show the buckets in a child process, and end it with 0 or with the number of the error."""
    number = 1
    try:
        show_buckets(folder)
        number = 0 if os.listdir(MOUNT_POINT) == [] else 1
    except OSError as error:
        number = error.errno or 1
    finally:
        os._exit(number)


if __name__ == "__main__":
    print(refusal())
