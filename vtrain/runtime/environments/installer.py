"""uv, which puts distributions into an environment; and packages, which their own back ends build once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from vtrain.atomic import scratch_folder
from vtrain.errors import PackagingError
from vtrain.https_proxy import leading_here
from vtrain.messages.log import DETAIL_MARGIN
from vtrain.packaging.archive import is_direct, read_metadata, unpack_direct
from vtrain.packaging.unpacking import project_folder, readable, unpack_tar, unpack_zip
from vtrain.program_output import reason
from vtrain.properties import LEAD_BACK
from vtrain.runtime.environments.interpreters import (
    Interpreter,
    accepts_python,
    adopt_commands,
    base_interpreter,
)
from vtrain.runtime.environments.layers import EnvironmentFailed, Log, ToolKilled
from vtrain.uv_program import known_indexes, uv_call

LONGEST_LINE = 64 * 1024
"""Bytes of a tool's line; the rest of a longer one is another line."""
_KEPT_LINES = 400
_MOST_NAMED = 4
_NAME = re.compile(r"[^\s\[<>=!~;@,]+")
_LOGIN = re.compile(r"(?<=://)[^/\s]+(?=@)")
_UNREACHABLE = re.compile(
    r"failed to establish a new connection|name resolution|name or service not known|network is unreachable"
    r"|connection refused|max retries exceeded|timed out|dns error|error sending request|failed to lookup"
    r"|cannot connect to proxy|connection reset|no route to host|connection broken",
    re.IGNORECASE,
)
_NOT_THERE = re.compile(r"was not found in the package registry|there (?:is|are) no versions? of")
_NO_ROOM = "No space left on device"
_MAKE_ROOM = "Free some space, or choose other folders with VTRAIN_HOME, UV_CACHE_DIR and TMPDIR."
_CULPRITS = (
    re.compile(r"(?:Because|and) you require (?P<name>.{1,300}?), we can conclude"),
    re.compile(r"Because (?P<name>\S+) was not found"),
    re.compile(r"Failed to (?:build|download|download and build|parse):? [`'\"](?P<name>[^`'\"]+)"),
)


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """One call of an installer: what goes into which environment, and how."""

    environment: Path
    requirements: tuple[str, ...]
    options: tuple[str, ...] = ()
    purpose: str = ""


class InstallerFault(Exception):
    """An installer ended with another code than 0."""

    def __init__(self, tool: str, lines: tuple[str, ...]) -> None:
        super().__init__(f"{tool} failed")
        self.tool = tool
        self.lines = lines


class Installer:
    """uv, with what the user's pip configuration says."""

    def __init__(self, log: Log, interpreter: Interpreter, folder: str = "") -> None:
        """`log` receives the output of uv, which installs and builds for that interpreter.

        Relative paths of pip's configuration count from `folder`.
        """
        self.log = log
        self.interpreter = interpreter
        self._folder = folder
        self._told: set[str] = set()

    def install(self, installation: Installation, lock: int) -> None:
        """Install; uv keeps the descriptor `lock` open. Raises as `uv_call`, and EnvironmentFailed."""
        # Not `--python` of the environment: uv would have to start it, to ask what it knows of this Python.
        folder = installation.environment
        words = ["pip", "install", f"--python={self.interpreter.path}", f"--prefix={folder}"]
        if not known_indexes(os.environ):  # which may have builds of their own
            words.append("--torch-backend=auto")
        names = [name for name in _names(installation.requirements) if name not in self._told]
        self._told.update(names)
        if names:  # of a requirement that several packages name, uv installs what is missing
            more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
            self.log(f"Installing {', '.join(names[:_MOST_NAMED])}{more} …\n".encode())
        try:
            self._run([*words, *installation.options, "--", *installation.requirements], folder, lock)
        except InstallerFault as fault:
            raise explain(fault, installation) from fault
        adopt_commands(folder, folder / "bin")  # which uv has made for the interpreter itself

    def build(self, source: Path, folder: Path, lock: int) -> None:
        """Build a wheel of an sdist, or of its unpacked project, in isolation. Raises InstallerFault."""
        self.log(f"Building {source.name} …\n".encode())
        python = self.interpreter.path
        words = ["build", "--wheel", "--no-sources", f"--python={python}", f"--out-dir={folder}"]
        self._run([*words, "--", str(source)], folder, lock)

    def _run(self, words: list[str], cwd: Path, lock: int) -> None:
        call = uv_call(*words, folder=self._folder)
        if call.ignored:
            names = ", ".join(call.ignored)
            self.log(f"uv has no setting like these of pip, and does without: {names}.\n".encode())
        run_logged("uv", call.argv, call.environ, cwd, self.log, lock)


def run_logged(tool: str, argv: list[str], environ: dict[str, str], cwd: Path, log: Log, lock: int) -> None:
    """Run a program, log its lines as they come; raises InstallerFault with the last of them when it fails.

    The program keeps `lock` open. An interrupt kills it. Raises ToolKilled.
    """
    last: deque[str] = deque(maxlen=_KEPT_LINES)
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(lock,),  # should we be killed, the folder stays locked until uv has ended too
    )
    assert process.stdout is not None
    try:
        for line in iter(partial(process.stdout.readline, LONGEST_LINE), b""):
            log(DETAIL_MARGIN.encode() + line)
            last.append(line.decode("utf-8", "replace").rstrip())
        code = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        process.stdout.close()
    if code == -signal.SIGKILL:
        raise ToolKilled(f"{tool} was killed.")
    if code != 0:
        raise InstallerFault(tool, tuple(last))


def _names(requirements: tuple[str, ...]) -> Iterator[str]:
    """The names of requirements, each once; of a file its own."""
    found = (_NAME.match(Path(line).name if line.startswith("/") else line) for line in requirements)
    yield from dict.fromkeys(match[0] for match in found if match)


def explain(fault: InstallerFault, installation: Installation) -> EnvironmentFailed:
    """One sentence on why an installation failed, with the reason that the installer wrote below."""
    text = "\n".join(fault.lines)
    culprit = next((match["name"].strip() for p in _CULPRITS if (match := p.search(text))), "")
    what = culprit or ", ".join(installation.requirements)
    purpose = f", {installation.purpose}," if installation.purpose else ""
    if _NO_ROOM in text:
        hint = _MAKE_ROOM
    elif is_unreachable(fault):
        hint = "Connect to the network, or name a reachable index or folder (PIP_INDEX_URL, PIP_FIND_LINKS)."
        if leading_here():
            hint = f"This shell leads to an emulator. If that has stopped, lead it back: {LEAD_BACK}\n{hint}"
    elif installation.purpose:
        hint = "Name it in the trainer's requirements with a version that your index has."
    elif _NOT_THERE.search(text):
        hint = "If another index has it, set PIP_EXTRA_INDEX_URL=URL; else correct the requirement."
    else:
        hint = "Correct the requirement; the installer's whole output is in the log."
    return _failed(f"{what}{purpose} cannot be installed", fault, hint)


def explain_build(fault: InstallerFault, package: str) -> EnvironmentFailed:
    """One sentence on why a package could not be built, with the reason that the back end wrote below."""
    from vtrain.failure import missing_module

    text = "\n".join(fault.lines)
    if _NO_ROOM in text:
        hint = _MAKE_ROOM
    elif module := missing_module(text):
        hint = f"Its build imports {module}: name what brings it in build-system.requires of pyproject.toml."
    elif is_unreachable(fault):
        hint = "Build requirements that are installed beside vtrain need no index."
    else:
        hint = "Correct its setup.py or pyproject.toml; the build's whole output is in the log."
    return _failed(f"The package {package} cannot be built", fault, hint)


def _failed(problem: str, fault: InstallerFault, hint: str) -> EnvironmentFailed:
    if _NO_ROOM in "\n".join(fault.lines):
        why = "the disk is full"
    else:
        why = "the package index was not reachable" if is_unreachable(fault) else f"{fault.tool} failed"
    # Requirements and programs that uv runs may name a URL with a token; uv masks it like this.
    shown = reason(_LOGIN.sub("****", line) for line in fault.lines)
    sentence = _LOGIN.sub("****", f"{problem}: {why}.")
    return EnvironmentFailed("\n".join([sentence, *(f"  {line}" for line in shown)]), hint=hint)


def is_unreachable(fault: InstallerFault) -> bool:
    """True when the installer's words say that it could not reach an index."""
    return _UNREACHABLE.search("\n".join(fault.lines)) is not None


def build_wheel(package: Path, folder: Path, installer: Installer, lock: int) -> None:
    """Build an sdist's wheel into the folder; raises EnvironmentFailed with the back end's reason.

    Without isolation (0.3 s, no network) where it is for vtrain's own Python, and its build requirements are
    present there; else in an isolated environment, as pip does it.
    """
    own = installer.interpreter == base_interpreter()
    with scratch_folder(folder.parents[2]) as scratch:
        try:
            source = _unpack(package, scratch)
            if source is None or not own or not _build_here(source, folder, installer, lock):
                installer.build(source or package, folder, lock)
        except InstallerFault as fault:
            raise explain_build(fault, package.name) from fault


def _unpack(package: Path, scratch: Path) -> Path | None:
    """The sdist's project; None where this Python cannot unpack a tar file safely (before 3.10.12)."""
    if package.suffix != ".zip" and not hasattr(tarfile, "data_filter"):
        return None
    try:
        (unpack_zip if package.suffix == ".zip" else unpack_tar)(package, scratch)
        return project_folder(package, scratch)
    except PackagingError as error:
        raise EnvironmentFailed(error.message, hint=error.hint) from error


def _build_here(source: Path, folder: Path, installer: Installer, lock: int) -> bool:
    """True when the wheel was built by the interpreter that runs vtrain; False when it lacks requirements."""
    from build import BuildBackendException, BuildException, ProjectBuilder, check_dependency

    def run(
        cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None
    ) -> None:
        environ = {**os.environ, **(extra_environ or {})}
        run_logged("the build", list(cmd), environ, Path(cwd or source), installer.log, lock)

    try:
        builder = ProjectBuilder(source, python_executable=sys.executable, runner=run)
        if any(True for line in builder.build_system_requires for _ in check_dependency(line)):
            return False
        if builder.check_dependencies("wheel"):
            return False
        builder.build("wheel", folder)
    except BuildBackendException as error:
        if isinstance(error.exception, (InstallerFault, ToolKilled)):
            raise error.exception from error
        raise InstallerFault("the build", (str(error),)) from error
    except BuildException as error:
        raise InstallerFault("the build", (str(error),)) from error
    return True


def lay(package: Path, site: Path) -> None:
    """Unpack a package that needs no more than that into a folder from which Python imports.

    Raises PackagingError for an archive with a link or with a name that leads out of the folder.
    """
    if package.suffix == ".whl":
        unpack_zip(package, site)
    else:
        unpack_direct(package, site)


def is_plain(package: Path, python: str = "") -> bool:
    """Whether `lay` is all that installing takes: of a package by vtrain, of a pure wheel without commands.

    A wheel that refuses the version `python` is not plain: an installer says so.
    """
    if package.suffix != ".whl":
        return is_direct(package)
    if not is_importable(package):
        return False
    with readable(package), zipfile.ZipFile(package) as archive:
        if any(name.endswith("/entry_points.txt") for name in archive.namelist()):
            return False
    return not python or accepts_python(read_metadata(package).requires_python, python)


def is_importable(wheel: Path) -> bool:
    """Whether Python can import the wheel where it is unpacked: it is pure, and has no files elsewhere."""
    if not wheel.name.endswith("-none-any.whl"):
        return False
    with readable(wheel), zipfile.ZipFile(wheel) as archive:
        return not any(".data/" in name for name in archive.namelist())
