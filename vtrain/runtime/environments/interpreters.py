"""Interpreters that trainers run on, and what lies where in a virtual environment (PEP 405)."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import msgspec

_SHEBANG_ZONE = 1024
_COMMAND_PYTHON = re.compile(rb"/[^\n\"']*/bin/python[\d.]*")


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """A Python that trainers run on, outside of every virtual environment."""

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


def accepts_python(requires: str, version: str) -> bool:
    """Whether a Requires-Python accepts a version; one that is none accepts all: the installer says so."""
    if not requires:
        return True
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(requires).contains(version)
    except InvalidSpecifier:
        return True


def python_of(environment: Path) -> Path:
    """The environment's interpreter."""
    return environment / "bin" / "python"


def site_packages(environment: Path) -> Path:
    """The folder that the environment's interpreter imports from."""
    return next(environment.glob("lib/python*")) / "site-packages"


def add_site(environment: Path, site: Path) -> None:
    """Let the environment import from `site` too, after its own folder, `.pth` files included.

    The line is ASCII, as Python up to 3.11 reads it in the encoding of the trainer's locale.
    """
    line = f"import site; site.addsitedir({str(site)!a})\n"
    (site_packages(environment) / "_vtrain_dependencies.pth").write_text(line, encoding="ascii")


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
