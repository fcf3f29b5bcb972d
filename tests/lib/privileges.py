"""Processes that may do less than the tests: without root's right to pass over modes, or as another user."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2
NOBODY = 65534
ROOT = Path(__file__).parents[2]
_AS_NOBODY = f"""
import os, sys
from vtrain.cli import main

home, os.environ["VTRAIN_HOME"] = os.environ["VTRAIN_HOME"], os.environ["HOME"] + "/own"
main(sys.argv[1:])
print("as nobody", file=sys.stderr, flush=True)
os.environ["VTRAIN_HOME"] = home
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
sys.exit(main(sys.argv[1:]))
"""


def run_bound(argv: Sequence[str], env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program for which modes of files count, also when the tests run as root."""
    return _run(argv, env, _drop_override if os.geteuid() == 0 else None)


def vtrain_as_nobody(argv: Sequence[str], home: Path, own: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as another user, of that home; skips the test where that is not possible.

    That user may not be able to read this Python: so the same is done once before, in a home of his `own`.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    return _run([sys.executable, "-c", _AS_NOBODY, *argv], {"VTRAIN_HOME": str(home), "HOME": str(own)})


def python_as_nobody(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a script as another user; skips the test where that is not possible.

    That user may not be able to read this Python: so the modules that a script may need are imported before.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    become = "import encodings.idna, json, os, pathlib, socket, sys\n"
    become += f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
    return subprocess.run(
        [sys.executable, "-c", become + script, *words],
        capture_output=True, text=True, timeout=150, cwd="/", check=False,
    )  # fmt: skip


_SHIM_AS_NOBODY = f"""
import ctypes, os, resource, sys, warnings

sys.path.append(sys.argv[1])
import shim

if sys.argv[4] != "-1":
    resource.setrlimit(resource.RLIMIT_NPROC, (int(sys.argv[4]),) * 2)
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
shim.main(sys.argv[2], int(sys.argv[3]))
"""


def shim_as_nobody(shim: Path, replica: Path, lock: int, *, processes: int = -1) -> subprocess.Popen[bytes]:
    """A shim of another user, who may not be able to read this Python: so all is imported before.

    That user may have so many `processes`; -1 is no limit.
    """
    words = [str(shim.parent), str(replica), str(lock), str(processes)]
    argv = [sys.executable, "-I", "-S", "-c", _SHIM_AS_NOBODY, *words]
    return subprocess.Popen(argv, pass_fds=[lock])


def program_of_root(folder: Path) -> str:
    """A command line that any user may begin with and that goes on as root; skips the test without one."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None:
        pytest.skip("only root can give a program the right to become root, and `setpriv` is that program")
    if os.statvfs(folder).f_flag & os.ST_NOSUID:
        pytest.skip(f"on the file system of {folder} no program becomes root")
    shutil.copy(setpriv, folder / "setpriv")
    (folder / "setpriv").chmod(0o4755)
    return f"{folder / 'setpriv'} --reuid=0 --regid=0 --clear-groups"


@contextmanager
def mounted_tmpfs(folder: Path, *options: str) -> Iterator[Path]:
    """A small file system of its own in that folder; skips the test where none can be mounted."""
    folder.mkdir()
    mount = shutil.which("mount")
    argv = [mount or "mount", "-t", "tmpfs", "-o", ",".join(options), "vtrain-test", str(folder)]
    if mount is None or os.geteuid() != 0 or subprocess.run(argv, capture_output=True).returncode:
        pytest.skip("a file system can be mounted by root only")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)  # a supervisor may be about to leave


def _run(
    argv: Sequence[str], env: Mapping[str, str] | None, before: object = None
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
    return subprocess.run(
        argv, env=environment, capture_output=True, text=True, timeout=150, preexec_fn=before, cwd="/"
    )  # type: ignore[call-overload]


def _drop_override() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for right in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        if libc.prctl(PR_CAPBSET_DROP, right, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
