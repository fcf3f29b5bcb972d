"""Packages for the tests of environments: sdists as vtrain writes them, sdists to be built, wheels."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

from vtrain.packaging.direct import Member, write_direct

BACKEND = """\
import pathlib, zipfile

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = "{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w") as wheel:
        wheel.writestr("{name}/__init__.py", "")
        wheel.writestr("{name}/task.py", pathlib.Path("{name}/task.py").read_text())
        info = "{name}-{version}.dist-info"
        wheel.writestr(info + "/METADATA", {metadata!r})
        wheel.writestr(info + "/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "/RECORD", "")
    return name
"""


def direct_sdist(folder: Path, code: str, requirements: tuple[str, ...] = (), name: str = "trainer") -> str:
    """A package that vtrain wrote, with `code` as its module `task`."""
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(code.encode()).hexdigest()[:8]
    path = folder / f"{name}-{digest}.tar.gz"
    member = Member(name=f"{name}/task.py", content=code.encode())
    write_direct(path, name=name, version="0.1", requirements=requirements, members=[member])
    return str(path)


def sdist(folder: Path, code: str, requirements: tuple[str, ...] = (), name: str = "trainer") -> str:
    """A package that has to be built, by a back end inside it, and tells its requirements only then."""
    folder.mkdir(parents=True, exist_ok=True)
    build_system = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    files = {
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n",
        "pyproject.toml": build_system,
        "backend.py": BACKEND.format(name=name, version="0.1", metadata=_metadata(name, "0.1", requirements)),
        f"{name}/task.py": code,
    }
    path = folder / f"{name}-built-{hashlib.sha256(code.encode()).hexdigest()[:8]}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file, text in files.items():
            info = tarfile.TarInfo(f"{name}-0.1/{file}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return str(path)


def wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    requirements: tuple[str, ...] = (),
    command: bool = False,
    requires_python: str = "",
    module: str = "",
    code: str = "",
) -> str:
    """A wheel of one module that knows its version, and a command of the same name where asked.

    The module is called as the wheel, where nothing else is said, and ends with `code`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{module or name}.py": f"VERSION = {version!r}\ndef main():\n    import sys\n    print(sys.prefix)\n"
        + code,
        f"{info}/METADATA": _metadata(name, version, requirements, requires_python),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if command:
        files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{name} = {name}:main\n"
    rows = [f"{file},sha256={_digest(text)},{len(text)}" for file, text in files.items()]
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
        archive.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,", ""]))
    return str(path)


def _metadata(name: str, version: str, requirements: tuple[str, ...], requires_python: str = "") -> str:
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    lines += [f"Requires-Python: {requires_python}"] * bool(requires_python)
    return "\n".join([*lines, *(f"Requires-Dist: {line}" for line in requirements)]) + "\n"


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
