"""What pip has been told about indexes and certificates, in the words of uv, which does not read it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from vtrain.settings import user_path

_FLAGS = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
    "constraint": "--constraints",
    "no-binary": "--no-binary",
    "only-binary": "--only-binary",
}
_VARIABLES = {"cert": "SSL_CERT_FILE", "timeout": "UV_HTTP_TIMEOUT", "default-timeout": "UV_HTTP_TIMEOUT"}
_SWITCHES = {"no-index": "--no-index", "pre": "--prerelease=allow"}
# These change how pip talks or where it installs by itself, not what it would install here.
_HARMLESS = frozenset(
    {
        "break-system-packages",
        "cache-dir",
        "compile",
        "config-file",
        "debug",
        "disable-pip-version-check",
        "exists-action",
        "keyring-provider",
        "log",
        "log-file",
        "no-cache-dir",
        "no-color",
        "no-compile",
        "no-input",
        "no-python-version-warning",
        "no-warn-conflicts",
        "no-warn-script-location",
        "prefer-binary",
        "progress-bar",
        "quiet",
        "require-venv",
        "require-virtualenv",
        "resume-retries",
        "retries",
        "root-user-action",
        "upgrade-strategy",
        "use-deprecated",
        "use-feature",
        "user",
        "verbose",
        "yes",
    }
)
_OWN_VARIABLES = (
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
    "UV_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_NO_INDEX",
)


class UvOptions(msgspec.Struct, frozen=True, kw_only=True):
    """pip's configuration as uv takes it."""

    flags: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()


def uv_options(environ: Mapping[str, str]) -> UvOptions | None:
    """Translate pip's configuration for uv; None where uv has no word for something that is set.

    Where uv's own variables name indexes, those hold and pip's are left out.
    """
    settings = read_pip_settings(environ)
    if any(environ.get(name) for name in _OWN_VARIABLES):
        settings = {key: value for key, value in settings.items() if key in _VARIABLES}
    known = _FLAGS.keys() | _VARIABLES.keys() | _SWITCHES.keys() | _HARMLESS
    if not settings.keys() <= known:
        return None
    flags = [f"{_FLAGS[key]}={value}" for key in _FLAGS for value in settings.get(key, "").split()]
    flags += [flag for key, flag in _SWITCHES.items() if _is_true(settings.get(key, ""))]
    if "extra-index-url" in settings:
        # pip takes the best version of all indexes; uv by itself the first index that has the name.
        flags.append("--index-strategy=unsafe-best-match")
    variables = [(_VARIABLES[key], settings[key]) for key in _VARIABLES if settings.get(key)]
    return UvOptions(flags=tuple(flags), variables=tuple(variables))


def read_pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The options that pip's files and PIP_* variables set for `pip install`, by long name.

    The order is pip's own: machine, user, virtual environment, PIP_CONFIG_FILE, environment; in a file
    `[global]`, then `[install]`.
    """
    from configparser import Error, RawConfigParser

    settings: dict[str, str] = {}
    for path in _files(environ):
        parser = RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (Error, UnicodeDecodeError):
            continue  # pip itself will name the fault when it runs
        for section in ("global", "install"):
            if parser.has_section(section):
                settings.update({_long_name(key): value for key, value in parser.items(section) if value})
    # An empty variable unsets nothing: pip passes over it.
    variables = {key[4:]: value for key, value in environ.items() if key.startswith("PIP_") and value}
    settings.update({_long_name(key): value for key, value in variables.items()})
    return settings


def _files(environ: Mapping[str, str]) -> Iterator[Path]:
    named = environ.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return
    home = user_path(environ.get("HOME", "~"))
    for folder in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(os.pathsep):
        yield Path(folder) / "pip" / "pip.conf"
    yield Path("/etc/pip.conf")
    yield home / ".pip" / "pip.conf"
    if sys.platform == "darwin":
        yield home / "Library" / "Application Support" / "pip" / "pip.conf"
    yield Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"
    yield Path(sys.prefix) / "pip.conf"
    if named:
        yield Path(named)


def _long_name(key: str) -> str:
    return key.lower().replace("_", "-").removeprefix("--")


def _is_true(value: str) -> bool:
    return value.lower() in ("1", "true", "yes", "on", "y", "t")
