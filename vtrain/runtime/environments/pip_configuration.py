"""pip's configuration, which uv does not read, as flags and variables of uv."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import msgspec

from vtrain.runtime.environments.layers import EnvironmentFailed
from vtrain.settings import user_path


class _Translation(msgspec.Struct, frozen=True):
    """A setting of pip as uv takes it: a flag or variables, and where uv is told the same itself.

    `own` holds uv's variables, `toml` the keys of uv.toml. `builds` tells that `uv build` has the flag too,
    and `paths` that the values are paths.
    """

    flag: str = ""
    variables: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    toml: tuple[str, ...] = ()
    builds: bool = False
    switch: bool = False
    paths: bool = False


_INDEX_VARIABLES = (
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
    "UV_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_NO_INDEX",
)
_INDEX_KEYS = ("index", "index-url", "extra-index-url", "find-links", "no-index")


def _index(flag: str = "", variable: str = "", *, switch: bool = False, paths: bool = False) -> _Translation:
    # All settings of indexes are one subject: half of pip's beside half of uv's would be a third thing.
    return _Translation(
        flag,
        (variable,) * bool(variable),
        own=_INDEX_VARIABLES,
        toml=_INDEX_KEYS,
        builds=True,
        switch=switch,
        paths=paths,
    )


_TIMEOUT = _Translation(variables=("UV_HTTP_TIMEOUT",), own=("UV_HTTP_TIMEOUT", "UV_REQUEST_TIMEOUT"))
_TRANSLATIONS = {
    # The URL of an index may hold a password, and other users can read a command line, not its variables.
    "index-url": _index(variable="UV_DEFAULT_INDEX"),
    "extra-index-url": _index(variable="UV_INDEX"),
    "find-links": _index("--find-links", paths=True),
    "no-index": _index("--no-index", switch=True),
    "trusted-host": _Translation(
        "--allow-insecure-host", own=("UV_INSECURE_HOST",), toml=("allow-insecure-host",), builds=True
    ),
    "constraint": _Translation(
        "--constraint", own=("UV_CONSTRAINT",), toml=("constraint-dependencies",), paths=True
    ),
    "build-constraint": _Translation(
        "--build-constraint",
        own=("UV_BUILD_CONSTRAINT",),
        toml=("build-constraint-dependencies",),
        builds=True,
        paths=True,
    ),
    "no-binary": _Translation(
        "--no-binary", own=("UV_NO_BINARY", "UV_NO_BINARY_PACKAGE"), toml=("no-binary",)
    ),
    "only-binary": _Translation(
        "--only-binary", own=("UV_NO_BUILD", "UV_NO_BUILD_PACKAGE"), toml=("only-binary",)
    ),
    "pre": _Translation(
        "--prerelease=allow", own=("UV_PRERELEASE",), toml=("prerelease",), builds=True, switch=True
    ),
    "require-hashes": _Translation("--require-hashes", own=("UV_REQUIRE_HASHES",), switch=True),
    "cert": _Translation(variables=("SSL_CERT_FILE",), paths=True),
    "client-cert": _Translation(variables=("SSL_CLIENT_CERT",), paths=True),
    "proxy": _Translation(
        variables=("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"),
        toml=("http-proxy", "https-proxy"),
    ),
    "default-timeout": _TIMEOUT,
    "timeout": _TIMEOUT,
    "retries": _Translation(variables=("UV_HTTP_RETRIES",), own=("UV_HTTP_RETRIES",)),
}
# These change how pip talks or where it installs by itself, not what it would install here.
_HARMLESS = frozenset(
    "break-system-packages cache-dir compile config-file debug disable-pip-version-check exists-action log "
    "keyring-provider log-file no-cache-dir no-color no-compile no-input no-python-version-warning "
    "no-warn-conflicts no-warn-script-location prefer-binary progress-bar quiet require-venv resume-retries "
    "require-virtualenv root-user-action upgrade-strategy use-deprecated use-feature user verbose yes".split()
)
_TRUE = ("1", "true", "yes", "on", "y", "t")
"""The words that pip takes for true."""
_RETRIES = "2"
"""How often uv tries again where neither pip nor uv is told: a job should fail in seconds."""


class UvOptions(msgspec.Struct, frozen=True, kw_only=True):
    """pip's configuration as uv takes it; `build_flags` are those that `uv build` has too."""

    flags: tuple[str, ...] = ()
    build_flags: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    unheeded: tuple[str, ...] = ()


def uv_options(environ: Mapping[str, str], folder: str = "") -> UvOptions:
    """Translate pip's configuration for uv. Relative paths count from `folder` (empty: the current one).

    Where uv is told something itself, by a variable of its own or in uv.toml, that holds, and pip's settings
    on the same subject are left out. `unheeded` names settings that uv has no word for. Raises
    EnvironmentFailed for a damaged file of pip's.
    """
    settings = read_pip_settings(environ)
    keys = {key for table in uv_settings(environ) for key in table}
    heeded = {
        key: each
        for key, each in _TRANSLATIONS.items()
        if settings.get(key) and not any(map(environ.get, each.own)) and not keys.intersection(each.toml)
    }
    flags = {key: list(_flags(each, settings[key], folder)) for key, each in heeded.items()}
    if "extra-index-url" in flags:
        # pip takes the best version of all indexes; uv by itself the first index that has the name.
        flags["extra-index-url"].append("--index-strategy=unsafe-best-match")
    variables = {} if environ.get("UV_HTTP_RETRIES") else {"UV_HTTP_RETRIES": _RETRIES}
    trusted = environ.get("REQUESTS_CA_BUNDLE") or environ.get("CURL_CA_BUNDLE")
    if trusted and not environ.get("SSL_CERT_FILE"):
        variables["SSL_CERT_FILE"] = trusted  # pip takes these variables by way of its library requests
    for key, each in heeded.items():
        variables |= dict.fromkeys(each.variables, _value(key, settings[key], folder))
    return UvOptions(
        flags=tuple(flag for found in flags.values() for flag in found),
        build_flags=tuple(flag for key, found in flags.items() if heeded[key].builds for flag in found),
        variables=tuple(variables.items()),
        unheeded=tuple(sorted(settings.keys() - _TRANSLATIONS.keys() - _HARMLESS)),
    )


def _flags(each: _Translation, value: str, folder: str) -> Iterator[str]:
    if each.switch:
        if value.lower() in _TRUE:
            yield each.flag
    elif each.flag:
        separated = value.replace(",", " ") if each.flag.endswith("-binary") else value
        yield from (
            f"{each.flag}={_path(part, folder) if each.paths else part}" for part in separated.split()
        )


def _path(text: str, folder: str) -> str:
    """A path in full, as uv runs in another folder than the user's command. URLs stay as they are."""
    return text if re.match(r"[a-z+]+:", text) else str(Path(folder, user_path(text)).absolute())


def _value(key: str, value: str, folder: str) -> str:
    """The value of a variable. A proxy may be named without `http://`, which uv demands."""
    if _TRANSLATIONS[key].paths:
        return _path(value, folder)
    if key == "extra-index-url":
        return " ".join(value.split())
    return f"http://{value}" if key == "proxy" and "://" not in value else value


def uv_settings(environ: Mapping[str, str]) -> Iterator[Mapping[str, object]]:
    """The content of uv's configuration files, the user's first; after each its table `pip`."""
    if environ.get("UV_NO_CONFIG"):
        return
    home = user_path(environ.get("HOME", "~"))
    files = [Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "uv" / "uv.toml"]
    folders = environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    files += [Path(folder) / "uv" / "uv.toml" for folder in folders.split(os.pathsep)]
    files += [Path("/etc/uv/uv.toml")]
    if named := environ.get("UV_CONFIG_FILE"):
        files = [Path(named)]
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    for path in files:
        try:
            settings = toml.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # uv itself names a fault in its files
        yield settings
        if isinstance(settings.get("pip"), dict):
            yield settings["pip"]


def read_pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The options that pip's files and PIP_* variables set for `pip install`, by long name.

    The order is pip's own: machine, user, virtual environment, PIP_CONFIG_FILE, environment; in a file
    `[global]`, then `[install]`. Raises EnvironmentFailed for a damaged file.
    """
    from configparser import Error, RawConfigParser

    settings: dict[str, str] = {}
    for path in _files(environ):
        parser = RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (Error, UnicodeDecodeError) as error:
            # pip ends here too. The file may name the only index that packages may come from.
            said = str(error).replace("\n", " ")
            raise EnvironmentFailed(
                f"pip's configuration {path} cannot be read: {said}.", hint="Correct it, or remove it."
            ) from error
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
    for folder in (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep):
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


def known_indexes(environ: Mapping[str, str]) -> frozenset[str]:
    """The URLs of indexes, and of pages of links, that pip's and uv's configuration name here."""
    tables = list(uv_settings(environ))
    said = [str(each.get("url")) for table in tables for each in _tables(table.get("index"))]
    for key in ("index-url", "extra-index-url", "find-links"):
        for table in tables:
            value = table.get(key) or []
            said += [value] if isinstance(value, str) else map(str, value if isinstance(value, list) else [])
        with suppress(EnvironmentFailed):  # which is told where an environment is made
            said += read_pip_settings(environ).get(key, "").split()
    for name in _INDEX_VARIABLES:
        # `UV_INDEX=corp=https://…` names an index, too.
        said += (re.sub(r"^[\w-]+=(?=\w+:)", "", word) for word in re.split(r"[\s,]+", environ.get(name, "")))
    return frozenset(filter(None, said))


def _tables(listed: object) -> list[Mapping[str, object]]:
    return [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
