"""uv, the program that puts distributions into an environment and builds packages."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections import deque
from pathlib import Path

import msgspec

from vtrain.failure import missing_module
from vtrain.messages.log import DETAIL_MARGIN
from vtrain.runtime.environments.interpreters import python_of
from vtrain.runtime.environments.layers import EnvironmentFailed, Log
from vtrain.runtime.environments.pip_configuration import UvOptions, uv_options
from vtrain.runtime.process_tree import signal_all

_LAST_LINES = 5
_MOST_NAMED = 4
_NAME = re.compile(r"[^\s\[<>=!~;@,]+")
_LOGIN = re.compile(r"(?<=://)[^/\s]+(?=@)")
_UNREACHABLE = re.compile(
    r"failed to establish a new connection|name resolution|name or service not known|network is unreachable"
    r"|connection refused|max retries exceeded|timed out|dns error|error sending request|failed to lookup"
    r"|cannot connect to proxy|connection reset|no route to host|connection broken",
    re.IGNORECASE,
)
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
    """uv, told what the user's pip configuration says."""

    def __init__(self, log: Log, folder: str = "") -> None:
        """`log` receives the output of uv. Relative paths of pip's configuration count from `folder`."""
        self.log = log
        self._folder = folder

    def install(self, installation: Installation, lock: int) -> None:
        """Install; `lock` is the descriptor that uv keeps open. Raises EnvironmentFailed."""
        options = self._options()
        # A trainer may write to what is installed: a link would let that reach uv's cache.
        argv = ["pip", "install", f"--python={python_of(installation.environment)}", "--link-mode=copy"]
        argv += [*options.flags, *installation.options, "--", *installation.requirements]
        self.log(f"Installing {_named(installation.requirements)} …\n".encode())
        try:
            self._run(argv, options, installation.environment, lock)
        except InstallerFault as fault:
            raise explain(fault, installation) from fault

    def build(self, source: Path, folder: Path, python: str, lock: int) -> None:
        """Build a wheel of an sdist, or of its unpacked project, in isolation. Raises InstallerFault."""
        options = self._options()
        self.log(f"Building {source.name} …\n".encode())
        argv = ["build", "--wheel", "--no-sources", f"--python={python}"]
        self._run(
            [*argv, *options.build_flags, f"--out-dir={folder}", "--", str(source)], options, folder, lock
        )

    def _options(self) -> UvOptions:
        options = uv_options(os.environ, self._folder)
        if options.unheeded:
            names = ", ".join(options.unheeded)
            self.log(f"uv has no setting like these of pip, and does without: {names}.\n".encode())
        return options

    def _run(self, words: list[str], options: UvOptions, cwd: Path, lock: int) -> None:
        argv = [find_uv(), *words[:1], "--no-progress", "--color=never", *words[1:]]
        environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        environ.update(options.variables, UV_NO_WRAP="1")  # so that a cause is one line
        environ.pop("VIRTUAL_ENV", None)
        run_logged("uv", argv, environ, cwd, self.log, lock)


def find_uv() -> str:
    """The path of uv: of the package that vtrain requires, else on PATH. Raises EnvironmentFailed."""
    try:
        from uv import find_uv_bin

        return find_uv_bin()
    except (ImportError, FileNotFoundError):
        beside = Path(sys.executable).with_name("uv")
        found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise EnvironmentFailed(
            "uv, which makes the trainer's environment, is not installed.",
            hint=f"Install it beside vtrain: {sys.executable} -m pip install uv.",
        )
    return found


def run_logged(tool: str, argv: list[str], environ: dict[str, str], cwd: Path, log: Log, lock: int) -> None:
    """Run a program, log its lines as they come; raises InstallerFault with the last ones when it fails.

    The program keeps `lock` open. An interrupt kills its whole process group.
    """
    last: deque[str] = deque(maxlen=40)
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C reaches us alone, and its group can be killed as a whole
        pass_fds=(lock,),  # should we be killed, the folder stays locked until uv has ended too
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            log(DETAIL_MARGIN.encode() + line)
            last.append(line.decode("utf-8", "replace").rstrip())
        code = process.wait()
    except BaseException:
        signal_all({(-process.pid, 0)}, signal.SIGKILL)  # its group, unless that is gone
        process.wait()
        raise
    finally:
        process.stdout.close()
    if code != 0:
        raise InstallerFault(tool, tuple(last))


def _named(requirements: tuple[str, ...]) -> str:
    """The names of the first requirements, and how many more there are."""
    names = [_NAME.match(Path(line).name if line.startswith("/") else line) for line in requirements]
    shown = list(dict.fromkeys(match[0] for match in names if match))
    more = len(shown) - _MOST_NAMED
    return ", ".join(shown[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def explain(fault: InstallerFault, installation: Installation) -> EnvironmentFailed:
    """One sentence on why an installation failed, with the installer's last lines below."""
    text = "\n".join(fault.lines)
    culprit = next((match["name"].strip() for p in _CULPRITS if (match := p.search(text))), "")
    what = culprit or ", ".join(installation.requirements)
    purpose = f", {installation.purpose}," if installation.purpose else ""
    if _NO_ROOM in text:
        hint = _MAKE_ROOM
    elif is_unreachable(fault):
        hint = "Connect to the network, or name a reachable index or folder (PIP_INDEX_URL, PIP_FIND_LINKS)."
    elif installation.purpose:
        hint = "Name it in the trainer's requirements with a version that your index has."
    else:
        hint = "Correct the requirement; the installer's whole output is in the log."
    return _failed(f"{what}{purpose} cannot be installed", fault, hint)


def explain_build(fault: InstallerFault, package: str) -> EnvironmentFailed:
    """One sentence on why a package could not be built, with the back end's last lines below."""
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
        reason = "the disk is full"
    else:
        reason = "the package index was not reachable" if is_unreachable(fault) else f"{fault.tool} failed"
    shown = [line for line in fault.lines if line.strip() and not line.startswith("Using ")][-_LAST_LINES:]
    text = "\n".join([f"{problem}: {reason}.", *(f"  {line}" for line in shown)])
    # Requirements and programs that uv runs may name a URL with a token; uv masks it like this.
    return EnvironmentFailed(_LOGIN.sub("****", text), hint=hint)


def is_unreachable(fault: InstallerFault) -> bool:
    """True when the installer's words say that it could not reach an index."""
    return _UNREACHABLE.search("\n".join(fault.lines)) is not None
