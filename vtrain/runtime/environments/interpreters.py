"""The Python that a trainer runs on, vtrain's own or another one of this machine that uv finds; and what lies
where in a virtual environment (PEP 405)."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from vtrain.digests import document_digest
from vtrain.runtime.environments.layers import EnvironmentFailed, python_of

_SHEBANG_ZONE = 1024
_COMMAND_PYTHON = re.compile(rb"/[^\n\"']*/bin/python[\d.]*t?")


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


def begin_environment(folder: Path, interpreter: Interpreter) -> None:
    """Make an empty folder a virtual environment of an interpreter, without pip (PEP 405).

    `uv venv` makes the same, and takes a process of its own for each.
    """
    python = Path(interpreter.path).resolve()  # which finds its library: a link elsewhere would not
    name = f"python{interpreter.short_version}"
    free_threaded = "t" if "t" in interpreter.abi.rpartition("-")[2] else ""
    (folder / "lib" / f"{name}{free_threaded}" / "site-packages").mkdir(parents=True)
    (folder / "lib64").symlink_to("lib")
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(python)
    for command in ("python3", name):
        (folder / "bin" / command).symlink_to("python")
    settings = {
        "home": python.parent,
        "implementation": "CPython",
        "version_info": interpreter.version,
        "include-system-site-packages": "false",
    }
    lines = "".join(f"{key} = {value}\n" for key, value in settings.items())
    (folder / "pyvenv.cfg").write_text(lines, encoding="utf-8")


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
    """Copy the Python commands of a folder, so that they start this environment's interpreter.

    Commands that the environment has already are kept, unless the folder is its own. Those of other
    languages stay where they are.
    """
    own = str(python_of(environment)).encode()
    for command in sorted(binaries.iterdir()) if binaries.is_dir() else ():
        copy = environment / "bin" / command.name
        is_taken = copy.exists() and copy != command
        if command.name.startswith("python") or is_taken or not command.is_file():
            continue
        content = command.read_bytes()
        head, found = _COMMAND_PYTHON.subn(own, content[:_SHEBANG_ZONE], count=1)
        if found and content.startswith(b"#!"):
            copy.unlink(missing_ok=True)  # which may be a link to the one in uv's cache
            copy.write_bytes(head + content[_SHEBANG_ZONE:])
            copy.chmod(0o755)


OLDEST = (3, 8)
"""uv makes environments for this Python and later ones."""
_SEARCH_SECONDS = 60
_DOWNLOAD_SECONDS = 600
_DESCRIBE = (
    "import json, sys; flags = getattr(sys, 'abiflags', ''); major, minor = sys.version_info[:2]; "
    "base = f'{sys.base_prefix}/bin/python{major}.{minor}'; print(json.dumps({"
    "'path': sys.executable if sys.prefix == sys.base_prefix else base, "
    "'version': '.'.join(map(str, sys.version_info[:3])), "
    "'abi': sys.implementation.cache_tag + '-' + flags}))"
)


class PythonChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The interpreter of an environment; `unmet` is a request that no interpreter here meets, in uv's words.

    With `is_required` there is no substitute.
    """

    interpreter: Interpreter
    unmet: str = ""
    is_required: bool = False


def asked_python(request: str, requires: tuple[str, ...]) -> PythonChoice:
    """The interpreter of a version, or of a path, that the user asks for. Writes nothing, downloads nothing.

    Raises EnvironmentFailed where the packages' Requires-Python, `requires`, refuse it.
    """
    found = _find(request)
    if found is not None and not accepts_python(",".join(requires), found.version):
        raise EnvironmentFailed(
            f"The trainer requires Python {','.join(requires)}, and --python={request} is {found.version}.",
            hint="Ask for another, or leave --python out.",
        )
    return PythonChoice(
        interpreter=found or base_interpreter(), unmet="" if found else request, is_required=True
    )


def choose_python(image_version: str, requires: tuple[str, ...]) -> PythonChoice:
    """The image's Python where uv finds it; else vtrain's own; where packages refuse that, one they accept.

    `requires` are the packages' Requires-Python. Writes nothing, and downloads nothing.
    """
    here = base_interpreter()
    accepts_here = accepts_python(",".join(requires), here.version)
    if accepts_here and image_version in ("", here.short_version):
        return PythonChoice(interpreter=here)
    if image_version and tuple(map(int, image_version.split("."))) >= OLDEST:
        found = _find(image_version)
        if found is not None and accepts_python(",".join(requires), found.version):
            return PythonChoice(interpreter=found)
    if accepts_here:
        return PythonChoice(interpreter=here, unmet=image_version)
    request = ",".join(requires)
    found = _find(request)
    return PythonChoice(interpreter=found or here, unmet="" if found else request, is_required=True)


def search_state(environ: Mapping[str, str], request: str = "") -> str:
    """A digest of all that decides what uv finds: where it looks, when that changed, and its variables.

    Where the request is a path, that is where it looks.
    """
    if request.startswith("/"):
        return document_digest((os.path.realpath(request), _changed(request)))
    folders = search_path(environ).split(os.pathsep)
    data = environ.get("XDG_DATA_HOME") or Path(environ.get("HOME") or "~").expanduser() / ".local" / "share"
    folders.append(environ.get("UV_PYTHON_INSTALL_DIR") or str(Path(data, "uv", "python")))
    own = sorted(item for item in environ.items() if item[0].startswith("UV_PYTHON"))
    return document_digest((own, [(folder, _changed(folder)) for folder in folders]))


def _changed(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 - of every folder on PATH
    except OSError:
        return 0


def search_path(environ: Mapping[str, str]) -> str:
    """PATH without pyenv's shims, which fail for versions that are not active, and with pyenv's versions."""
    folders = [each for each in environ.get("PATH", os.defpath).split(os.pathsep) if each]
    shims = [each for each in folders if Path(each).name == "shims"]
    roots = [*filter(None, [environ.get("PYENV_ROOT")]), *(str(Path(each).parent) for each in shims)]
    versions = [
        str(each) for root in dict.fromkeys(roots) for each in sorted(Path(root).glob("versions/*/bin"))
    ]
    return os.pathsep.join([each for each in folders if each not in shims] + versions)


def _find(request: str) -> Interpreter | None:
    from vtrain.uv_program import uv_call

    call = uv_call("python", "find", "--no-python-downloads", "--system", "--no-project", request)
    path = _run(call.argv, call.environ)
    described = _run([path.strip(), "-I", "-c", _DESCRIBE], call.environ) if path else None
    try:
        return msgspec.json.decode(described, type=Interpreter) if described else None
    except msgspec.DecodeError:
        return None


def download_python(request: str) -> None:
    """Have uv download an interpreter. Raises as `uv_call`, and EnvironmentFailed."""
    from vtrain.uv_program import uv_call

    call = uv_call("python", "install", "--no-bin", request)
    if _run(call.argv, call.environ, _DOWNLOAD_SECONDS) is None:
        raise EnvironmentFailed(
            f"uv could not download Python {request}.", hint=f"See what `uv python install {request}` says."
        )


def _run(argv: list[str], variables: dict[str, str], seconds: float = _SEARCH_SECONDS) -> str | None:
    """A program's stdout; None where it failed."""
    import subprocess

    environ = variables | {"PATH": search_path(os.environ)}
    try:
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def downloads_allowed(environ: Mapping[str, str]) -> bool:
    """Whether uv may download interpreters: by UV_PYTHON_DOWNLOADS, or in uv.toml."""
    from vtrain.uv_program import uv_settings

    chosen = environ.get("UV_PYTHON_DOWNLOADS") or next(
        (str(table["python-downloads"]) for table in uv_settings(environ) if "python-downloads" in table), ""
    )
    return chosen.lower() in ("automatic", "auto", "true")
