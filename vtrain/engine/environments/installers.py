"""uv and pip: the two programs that put distributions into an environment."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Literal

import msgspec

from vtrain.engine.environments.layers import EnvironmentFailed, Log, make_once, python_of
from vtrain.engine.process_tree import signal_all
from vtrain.failure import missing_module

Tool = Literal["uv", "pip", "virtualenv"]
"""uv; the pip beside vtrain; a pip that virtualenv makes."""

_LAST_LINES = 5
_RETRIES = "2"
_PIP_MINIMUM = (22, 3)
_UNREACHABLE = re.compile(
    r"failed to establish a new connection|name resolution|name or service not known|network is unreachable"
    r"|connection refused|max retries exceeded|timed out|dns error|error sending request|failed to lookup"
    r"|cannot connect to proxy|connection reset|no route to host|connection broken",
    re.IGNORECASE,
)
_QUIET = ("--no-input", "--disable-pip-version-check", "--progress-bar=off", "--no-color")
_CULPRITS = (
    re.compile(r"No matching distribution found for (?P<name>.+)"),
    re.compile(r"satisfies the requirement (?P<name>[^(]+)"),
    re.compile(r"Failed to build [`'\"](?P<name>[^`'\"]+)"),
    re.compile(r"Failed building wheel for (?P<name>\S+)"),
    re.compile(r"Cannot install (?P<name>.{1,300}?) because"),
    re.compile(r"Because (?P<name>\S+) was not found"),
    re.compile(r"Invalid requirement: (?P<name>.+)"),
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
    """Installs with uv where it is on PATH, else with pip, and once more with pip where uv fails."""

    def __init__(self, home: Path, log: Log, tool: Tool | None = None) -> None:
        """`home` is the folder of the environments; `tool` decides which program is used."""
        self._home = home
        self.log = log
        self._tool = tool

    def reading_paths(self) -> Installer:
        """The same installer by pip, which counts distributions that `.pth` files bring; uv does not."""
        return self if self._tool == "virtualenv" else Installer(self._home, self.log, "pip")

    def install(self, installation: Installation, lock: int) -> None:
        """Install, or raise EnvironmentFailed; `lock` is the descriptor that the installer keeps open."""
        try:
            self.attempt(installation, lock)
        except InstallerFault as fault:
            raise explain(fault, installation) from fault

    def attempt(self, installation: Installation, lock: int) -> None:
        """Install, or raise InstallerFault."""
        command = self._uv_command(installation) if self._tool in (None, "uv") else None
        if command is not None:
            try:
                self._run("uv", *command, installation.environment, lock)
                return
            except InstallerFault:
                if self._tool == "uv":
                    raise
                self.log(b"uv could not install this; trying once more with pip.\n")
        self._run("pip", *self._pip_command(installation), installation.environment, lock)

    def build(self, package: Path, folder: Path, lock: int) -> None:
        """Build an sdist's wheel into the folder, isolated; raises InstallerFault."""
        argv = [self._pip_host(), "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(folder), *_QUIET]
        self._run("pip", [*argv, str(package)], _pip_variables(), folder, lock)

    def _uv_command(self, installation: Installation) -> tuple[list[str], dict[str, str]] | None:
        from vtrain.engine.environments.pip_configuration import uv_options

        program = shutil.which("uv")
        options = uv_options(os.environ) if program else None
        if program is None or options is None:
            return None
        python = str(python_of(installation.environment))
        argv = [program, "pip", "install", "--python", python, "--no-progress", "--color=never"]
        argv += [*options.flags, *installation.options, *installation.requirements]
        variables = dict(options.variables)
        if "UV_HTTP_RETRIES" not in os.environ:
            variables["UV_HTTP_RETRIES"] = _RETRIES
        return argv, variables

    def _pip_command(self, installation: Installation) -> tuple[list[str], dict[str, str]]:
        python = str(python_of(installation.environment))
        argv = [self._pip_host(), "-m", "pip", "--python", python, "install", "--no-compile"]
        argv += ["--no-warn-script-location", "--root-user-action=ignore", *_QUIET]
        return [*argv, *installation.options, *installation.requirements], _pip_variables()

    def _pip_host(self) -> str:
        """An interpreter whose pip can install elsewhere: ours, or one that virtualenv makes."""
        if self._tool != "virtualenv" and _has_pip():
            return sys.executable
        folder = self._home / "pip" / str(sys.implementation.cache_tag)
        argv = [sys.executable, "-m", "virtualenv", "--quiet", "--no-download", str(folder)]
        try:
            make_once(folder, lambda lock: self._run("virtualenv", argv, {}, folder, lock), self.log)
        except InstallerFault as fault:
            raise EnvironmentFailed(
                _with_lines("There is no pip here, and virtualenv could not make one.", fault.lines),
                hint="Install uv, or pip into the environment that runs vtrain.",
            ) from fault
        return str(python_of(folder))

    def _run(self, tool: str, argv: list[str], variables: dict[str, str], cwd: Path, lock: int) -> None:
        environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        environ.update(variables)
        environ.pop("VIRTUAL_ENV", None)
        run_logged(tool, argv, environ, cwd, self.log, lock)


def run_logged(tool: str, argv: list[str], environ: dict[str, str], cwd: Path, log: Log, lock: int) -> None:
    """Run a program, log its lines as they come; raises InstallerFault with the last ones when it fails.

    The program keeps `lock` open. When we are interrupted, its whole process group goes.
    """
    last: deque[str] = deque(maxlen=40)
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=(lock,),
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            log(line)
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


def explain(fault: InstallerFault, installation: Installation) -> EnvironmentFailed:
    """One sentence on why an installation failed, with the installer's last lines below."""
    text = "\n".join(fault.lines)
    culprit = next((match["name"].strip() for p in _CULPRITS if (match := p.search(text))), "")
    what = culprit or ", ".join(installation.requirements)
    purpose = f", {installation.purpose}," if installation.purpose else ""
    if is_unreachable(fault):
        sentence = f"{what}{purpose} cannot be installed: the package index was not reachable."
        hint = "Connect to the network, or name a reachable index or folder (PIP_INDEX_URL, PIP_FIND_LINKS)."
    else:
        sentence = f"{what}{purpose} cannot be installed: {fault.tool} failed."
        hint = "Correct the requirement; the installer's whole output is in the log."
        if installation.purpose:
            hint = "Name it in the trainer's requirements with a version that your index has."
    return EnvironmentFailed(_with_lines(sentence, fault.lines), hint=hint)


def explain_build(fault: InstallerFault, package: str) -> EnvironmentFailed:
    """One sentence on why a package could not be built, with the back end's last lines below."""
    reason = "the package index was not reachable" if is_unreachable(fault) else f"{fault.tool} failed"
    if module := missing_module("\n".join(fault.lines)):
        hint = f"Its build imports {module}: name what brings it in build-system.requires of pyproject.toml."
    elif is_unreachable(fault):
        hint = "Build requirements that are installed beside vtrain need no index."
    else:
        hint = "Correct its setup.py or pyproject.toml; the build's whole output is in the log."
    return EnvironmentFailed(
        _with_lines(f"The package {package} cannot be built: {reason}.", fault.lines), hint=hint
    )


def is_unreachable(fault: InstallerFault) -> bool:
    """True when the installer's words say that it could not reach an index."""
    return _UNREACHABLE.search("\n".join(fault.lines)) is not None


def _with_lines(sentence: str, lines: tuple[str, ...]) -> str:
    shown = [line for line in lines if line.strip() and not line.startswith("[notice]")][-_LAST_LINES:]
    return "\n".join([sentence, *(f"  {line}" for line in shown)])


def _pip_variables() -> dict[str, str]:
    variables = {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}
    if "PIP_RETRIES" not in os.environ:
        variables["PIP_RETRIES"] = _RETRIES
    return variables


def _has_pip() -> bool:
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("pip")
    except PackageNotFoundError:
        return False
    return tuple(int(part) for part in re.findall(r"\d+", found)[:2]) >= _PIP_MINIMUM
