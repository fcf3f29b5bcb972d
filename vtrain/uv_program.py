"""uv, the program that installs and builds, with pip's configuration in uv's own words."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from vtrain.errors import ConfigError, UnavailableError
from vtrain.pip_settings import certificates, read_pip_settings, setting_path
from vtrain.settings import user_path
from vtrain.toml_reader import listed, load_toml, tables_in


class _Translation(msgspec.Struct, frozen=True):
    """A setting of pip as uv takes it: a flag or variables, and where uv has the same setting itself.

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
_INDEX_SETTINGS = ("index-url", "extra-index-url", "find-links")
_INDEX_KEYS = ("index", *_INDEX_SETTINGS, "no-index")


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
    "find-links": _index(variable="UV_FIND_LINKS", paths=True),
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
    "cert": _Translation(),  # which is not for pip and uv alone: see `certificates`
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
PYPI = "https://pypi.org/simple"
_TRUE = ("1", "true", "yes", "on", "y", "t")
"""The words that pip takes for true."""
_RETRIES = "2"
"""How often uv tries again where neither pip nor uv has a setting: a job should fail in seconds."""


class UvCall(msgspec.Struct, frozen=True, kw_only=True):
    """A command line of uv, and its variables. `ignored` names settings of pip's that uv does not have."""

    argv: list[str]
    environ: dict[str, str]
    ignored: tuple[str, ...] = ()


def uv_call(*words: str, folder: str = "") -> UvCall:
    """The call of uv with these words; every use of uv gets in this way what pip gets.

    Relative paths of pip's configuration count from `folder`. Raises ConfigError for a damaged file of pip's,
    and UnavailableError where there is no uv.
    """
    options = uv_options(os.environ, folder)
    flags: tuple[str, ...] = ()
    command = 2 if words[0] == "pip" else 1
    if words[:2] == ("pip", "install"):
        flags = options.flags
    elif words[0] in ("pip", "build"):
        flags = options.build_flags
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environ.update(options.variables, UV_NO_WRAP="1")  # so that a cause is one line
    environ.pop("VIRTUAL_ENV", None)
    return UvCall(
        argv=[find_uv(), "--no-progress", "--color=never", *words[:command], *flags, *words[command:]],
        environ=environ,
        ignored=options.ignored,
    )


def find_uv() -> str:
    """The path of uv: of the package that vtrain requires, else on PATH. Raises UnavailableError."""
    try:
        from uv import find_uv_bin

        return find_uv_bin()
    except (ImportError, FileNotFoundError):
        beside = Path(sys.executable).with_name("uv")
        found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise UnavailableError(
            "uv, which installs packages and builds them, is not installed.",
            hint=f"Install it beside vtrain: {sys.executable} -m pip install uv.",
        )
    return found


class UvOptions(msgspec.Struct, frozen=True, kw_only=True):
    """pip's configuration as uv takes it; `build_flags` are those that `uv build` has too."""

    flags: tuple[str, ...] = ()
    build_flags: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()


def uv_options(environ: Mapping[str, str], folder: str = "") -> UvOptions:
    """Translate pip's configuration for uv. Relative paths count from `folder` (empty: the current one).

    Where uv has a setting itself, by a variable of its own or in uv.toml, that holds, and pip's settings
    on the same subject are left out. `ignored` names settings that uv has no word for. Raises
    ConfigError for a damaged file of pip's.
    """
    settings = read_pip_settings(environ)
    keys = {key for table in uv_settings(environ) for key in table}
    used = {
        key: each
        for key, each in _TRANSLATIONS.items()
        if settings.get(key) and not any(map(environ.get, each.own)) and not keys.intersection(each.toml)
    }
    flags = {key: list(_flags(each, settings[key], folder)) for key, each in used.items()}
    if "extra-index-url" in flags:
        # pip takes the best version of all indexes; uv by itself the first index that has the name.
        flags["extra-index-url"].append("--index-strategy=unsafe-best-match")
    variables = {} if environ.get("UV_HTTP_RETRIES") else {"UV_HTTP_RETRIES": _RETRIES}
    if trusted := certificates(settings, environ, folder):
        variables["SSL_CERT_FILE"] = trusted
    for key, each in used.items():
        variables |= dict.fromkeys(each.variables, _value(key, settings[key], folder))
    return UvOptions(
        flags=tuple(flag for found in flags.values() for flag in found),
        build_flags=tuple(flag for key, found in flags.items() if used[key].builds for flag in found),
        variables=tuple(variables.items()),
        ignored=tuple(sorted(settings.keys() - _TRANSLATIONS.keys() - _HARMLESS)),
    )


def _flags(each: _Translation, value: str, folder: str) -> Iterator[str]:
    if each.switch:
        if value.lower() in _TRUE:
            yield each.flag
    elif each.flag:
        separated = value.replace(",", " ") if each.flag.endswith("-binary") else value
        yield from (
            f"{each.flag}={setting_path(part, folder) if each.paths else part}" for part in separated.split()
        )


def _value(key: str, value: str, folder: str) -> str:
    """The value of a variable. A proxy may be named without `http://`, which uv demands."""
    if key == "find-links":
        return ",".join(_without_comma(setting_path(part, folder)) for part in value.split())
    if _TRANSLATIONS[key].paths:
        return setting_path(value, folder)
    if key == "extra-index-url":
        return " ".join(value.split())
    return f"http://{value}" if key == "proxy" and "://" not in value else value


def _without_comma(place: str) -> str:
    """The same place for a list of uv's, whose items have commas between them."""
    if "," not in place:
        return place
    return (Path(place).as_uri() if place.startswith("/") else place).replace(",", "%2C")


def index_urls(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The indexes that uv asks with these variables, the default one first."""
    named = [table for each in uv_settings(environ) for table in tables_in(each.get("index"))]
    default = environ.get("UV_DEFAULT_INDEX") or environ.get("UV_INDEX_URL")
    of_files = [str(each["index-url"]) for each in uv_settings(environ) if "index-url" in each]
    of_files += [str(table.get("url")) for table in named if table.get("default")]
    more = f"{environ.get('UV_INDEX', '')} {environ.get('UV_EXTRA_INDEX_URL', '')}".split()
    more = more or [str(table.get("url")) for table in named if not table.get("default")]
    # uv takes an index with its name before the URL.
    urls = [default or next(iter(of_files), PYPI), *more]
    return tuple(re.sub(r"^[\w-]+=", "", url) for url in urls)


def uv_settings(environ: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
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
    for path in files:
        try:
            settings = load_toml(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue  # uv itself names a fault in its files
        yield settings
        if isinstance(settings.get("pip"), dict):
            yield settings["pip"]


def indexes_in(settings: Mapping[str, Any], *, explicit: bool = True) -> Iterator[tuple[str, str]]:
    """The settings in a table of uv's that name an index or a page of links, each with its URL.

    Those that are `explicit`, which uv asks for some packages alone, may be left out.
    """
    for table in tables_in(settings.get("index")):
        if explicit or not table.get("explicit"):
            yield "index", str(table.get("url"))
    for key in _INDEX_SETTINGS:
        yield from ((key, str(url)) for url in listed(settings.get(key)))


def known_indexes(environ: Mapping[str, str]) -> frozenset[str]:
    """The URLs of indexes, and of pages of links, that pip's and uv's configuration name here."""
    said = [url for table in uv_settings(environ) for _, url in indexes_in(table)]
    with suppress(ConfigError):  # which is an error where an environment is made
        settings = read_pip_settings(environ)
        said += (url for key in _INDEX_SETTINGS for url in settings.get(key, "").split())
    for name in _INDEX_VARIABLES:
        # `UV_INDEX=corp=https://…` names an index, too.
        said += (re.sub(r"^[\w-]+=(?=\w+:)", "", word) for word in re.split(r"[\s,]+", environ.get(name, "")))
    return frozenset(filter(None, said))
