"""gcloud's properties: environment variables and named configurations, as gcloud reads them; never written.

The variable of `core/project` is `CLOUDSDK_` and section and name in capitals: `CLOUDSDK_CORE_PROJECT`.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path

import msgspec

from vtrain.errors import ConfigError
from vtrain.special_files import why_special

_TRUE = ("true", "1", "on", "yes", "y")
_FALSE = ("false", "0", "off", "no", "n", "none", "")
_NO_CONFIGURATION = "NONE"
"""The reserved name that means: no configuration at all."""
_DEFAULT_CONFIGURATION = "default"
_chosen = ""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A value and where it comes from, for the line that says so."""

    value: str
    origin: str


def use_configuration(name: str) -> None:
    """Read the named configuration `name` from now on; empty goes back to the active one.

    Raises ConfigError where there is no such configuration.
    """
    global _chosen
    if name:
        _check_exists(name, "--configuration")
    _chosen = name


def property_value(section: str, name: str) -> Choice | None:
    """A property, from its variable or else from the configuration in use; None where it is empty."""
    found = given_property(section, name)
    return found if found and found.value else None


def given_property(section: str, name: str) -> Choice | None:
    """A property as it was given, even as nothing: an empty variable hides what the configuration says."""
    variable = f"CLOUDSDK_{section}_{name}".upper()
    if variable in os.environ:
        return Choice(value=os.environ[variable], origin=variable)
    configured = _configuration().get((section, name))
    return None if configured is None else Choice(value=configured, origin="gcloud's configuration")


def property_flag(section: str, name: str) -> bool:
    """A property that is on or off; off where it is not given. Raises ConfigError for any other word."""
    found = property_value(section, name)
    word = found.value.lower() if found else ""
    if found and word not in (*_TRUE, *_FALSE):
        raise ConfigError(
            f"{found.value!r} (from {found.origin}) does not say whether {section}/{name} is on.",
            hint="Write true or false.",
        )
    return word in _TRUE


def endpoint_override(api: str) -> str:
    """The address that replaces that of `aiplatform`, `logging` or `storage`: a URL with a slash at its end.

    Empty without such a property. Raises ConfigError for a value that is not a URL.
    """
    found = property_value("api_endpoint_overrides", api)
    if found is None:
        return ""
    if not re.match(r"https?://[^/\s]+", found.value):
        raise ConfigError(
            f"{found.value!r} (from {found.origin}) is not the address of a service.",
            hint="Write it as https://HOST/.",
        )
    return found.value.rstrip("/") + "/"


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


LEAD_BACK = 'eval "$(vtrain emulator env --unset)"'
"""The line that takes the variables of an emulator out of a shell."""
STOPPED_HINT = (
    f"Start it again, or lead this shell away from it: {LEAD_BACK}\n"
    "For this machine's own jobs: --backend=process"
)
"""The advice where the variables of an emulator are set that has stopped."""


def gcloud_folder() -> Path:
    """The folder of gcloud's configuration and credentials: `CLOUDSDK_CONFIG`, else `~/.config/gcloud`."""
    named = os.environ.get("CLOUDSDK_CONFIG")
    if named:
        return Path(named)
    try:
        return Path.home() / ".config" / "gcloud"
    except RuntimeError:  # a user without a home directory, as containers may have
        return Path("/.config/gcloud")


def _configuration() -> dict[tuple[str, str], str]:
    """Every property of the configuration in use."""
    configuration = active_configuration()
    if configuration == _NO_CONFIGURATION:
        return {}
    file = _file_of(configuration)
    try:
        state = file.stat()
    except (OSError, ValueError):  # no file, or a name that no file can have
        return {}
    return _read_properties(file, state.st_mtime_ns, state.st_size)


def active_configuration() -> str:
    """The name of the configuration in use. Raises ConfigError where a variable names none."""
    if _chosen:
        return _chosen
    named = os.environ.get("CLOUDSDK_ACTIVE_CONFIG_NAME")
    if named:
        _check_exists(named, "CLOUDSDK_ACTIVE_CONFIG_NAME")
        return named
    return _read_word(gcloud_folder() / "active_config") or _DEFAULT_CONFIGURATION


def _file_of(configuration: str) -> Path:
    return gcloud_folder() / "configurations" / f"config_{configuration}"


def _check_exists(configuration: str, origin: str) -> None:
    if configuration in (_NO_CONFIGURATION, _DEFAULT_CONFIGURATION):
        return
    try:
        if _file_of(configuration).is_file():
            return
    except (OSError, ValueError):  # of a name that no file can have
        configuration = configuration[:80]
    raise ConfigError(
        f"There is no gcloud configuration called {configuration!r} (from {origin}).",
        hint="$ gcloud config configurations list",
    )


def _check_regular(file: Path) -> None:
    if reason := why_special(file):
        raise ConfigError(
            f"gcloud's configuration {file} cannot be read: {reason}.",
            hint="Remove it, or set CLOUDSDK_CONFIG to another folder.",
        )


def _read_word(file: Path) -> str:
    _check_regular(file)
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


@lru_cache(maxsize=8)
def _read_properties(file: Path, _changed: int, _size: int) -> dict[tuple[str, str], str]:
    """The properties in a file, read again when it has changed. Raises ConfigError for a broken one."""
    import configparser

    _check_regular(file)
    parser = configparser.ConfigParser(strict=False)
    try:
        parser.read_string(file.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise ConfigError(f"gcloud's configuration {file} cannot be read: {error.strerror}.") from error
    except configparser.MissingSectionHeaderError as error:
        raise _broken(file, error.lineno) from error
    except configparser.ParsingError as error:
        raise _broken(file, error.errors[0][0]) from error
    found = {}
    for section in parser.sections():
        for name, raw in parser.items(section, raw=True):
            try:
                found[section, name] = parser.get(section, name)  # gcloud reads `%%` as `%`
            except configparser.InterpolationError:  # of a single `%`, which gcloud does not write
                found[section, name] = raw
    return found


def _broken(file: Path, line: int) -> ConfigError:
    return ConfigError(
        f"{file}:{line}: not a line of gcloud's configuration.", hint="Write NAME = VALUE below a [SECTION]."
    )
