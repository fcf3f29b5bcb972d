"""pip's configuration: what its files and variables say, and the same for a pip that runs in an image."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from vtrain.errors import ConfigError
from vtrain.settings import user_path

PIP_FILE = "pip.conf"
_ELSEWHERE = (
    "index-url extra-index-url find-links no-index trusted-host cert client-cert proxy timeout "
    "default-timeout retries"
).split()
"""The settings that say where packages come from and how they are fetched, on any machine."""
_FOLDERS = ("extra-index-url", "find-links")
"""The settings that may name folders of this machine beside URLs."""
_CERTIFICATES = ("cert", "client-cert")
_LOGIN = re.compile(r"//[^/\s]+@|^[^/\s]+@")
"""In a URL, or in a proxy that is named without `http://`."""


def read_pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The options that pip's files and PIP_* variables set for `pip install`, by long name.

    The order is pip's own: machine, user, virtual environment, PIP_CONFIG_FILE, environment; in a file
    `[global]`, then `[install]`. Raises ConfigError for a damaged file.
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
            raise ConfigError(
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


def setting_path(text: str, folder: str = "") -> str:
    """A path of a setting in full, read from `folder` (empty: the current one). URLs stay as they are."""
    return text if re.match(r"[a-z+]+:", text) else str(Path(folder, user_path(text)).absolute())


def certificates(settings: Mapping[str, str], environ: Mapping[str, str], folder: str = "") -> str:
    """The file of the certificates to trust; empty for those of the machine.

    pip takes the variables of requests, its library; uv and newer versions of pip take SSL_CERT_FILE.
    """
    if named := settings.get("cert"):
        return setting_path(named, folder)
    names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    return next((environ[name] for name in names if environ.get(name)), "")


def pip_files(environ: Mapping[str, str], at: str, folder: str = "") -> dict[str, bytes]:
    """The files that tell a pip elsewhere, where they lie in the folder `at`, what pip has here.

    Folders of this machine are left out, as that pip cannot read them. So is what decides on versions, such
    as constraints: an image depends on its own files alone. Raises ConfigError for a damaged file of pip's,
    and for certificates that cannot be read.
    """
    settings = read_pip_settings(environ)
    files, lines = {}, ["[global]"]
    settings["cert"] = certificates(settings, environ, folder)
    for key in _ELSEWHERE:
        value = settings.get(key, "")
        if key in _CERTIFICATES and value:
            files[f"{key}.pem"] = _read_certificates(key, setting_path(value, folder))
            value = f"{at}/{key}.pem"
        if key in _FOLDERS:
            value = " ".join(part for part in value.split() if re.match(r"https?:", part))
        if value:
            lines.append(f"{key} = {' '.join(value.split())}")
    return {PIP_FILE: "".join(f"{line}\n" for line in lines).encode(), **files}


def secret_settings(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """The settings in such files that only the user may read: logins, and the key of the client."""
    pairs = [line.partition(" = ")[::2] for line in files[PIP_FILE].decode().splitlines()]
    return tuple(
        key
        for key, value in pairs
        if key == "client-cert" or any(_LOGIN.search(part) for part in value.split())
    )


def _read_certificates(key: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"The certificates {path} cannot be read: {error.strerror}.",
            hint=f"Correct {key} in pip's configuration, or SSL_CERT_FILE and REQUESTS_CA_BUNDLE.",
        ) from error
