"""Settings and their sources: flag > environment > `[tool.vtrain]` > gcloud's configuration > default."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from vtrain.errors import ConfigError, StorageError
from vtrain.messages.names import DEFAULT_REGION, LOCAL_PROJECT, parse_name
from vtrain.privacy import secure_home
from vtrain.properties import Choice as Choice
from vtrain.properties import given_property, property_value
from vtrain.pyproject import nearest_pyproject

TRAINING_REGIONS = (
    "africa-south1",
    "asia-east1",
    "asia-east2",
    "asia-northeast1",
    "asia-northeast2",
    "asia-northeast3",
    "asia-south1",
    "asia-south2",
    "asia-southeast1",
    "asia-southeast2",
    "australia-southeast1",
    "australia-southeast2",
    "europe-central2",
    "europe-north1",
    "europe-southwest1",
    "europe-west1",
    "europe-west2",
    "europe-west3",
    "europe-west4",
    "europe-west6",
    "europe-west8",
    "europe-west9",
    "europe-west12",
    "me-central1",
    "me-central2",
    "me-west1",
    "northamerica-northeast1",
    "northamerica-northeast2",
    "southamerica-east1",
    "southamerica-west1",
    "us-central1",
    "us-east1",
    "us-east4",
    "us-east5",
    "us-south1",
    "us-west1",
    "us-west2",
    "us-west3",
    "us-west4",
)
"""Regions that offer training (gcloud 528's list and asia-south2 of the service's documentation)."""

# Every command imports these patterns and few need one, so they are compiled at their first use.
_PROJECT_ID = r"(?![0-9]+$)(?:[a-z0-9.-]*[a-z0-9]:)?[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_FULL_REGION = r"(?:https?://[^/]+/v1(?:beta1)?/)?projects/([^/]+)/locations/([^/]+)"


def home_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """vtrain's home: `VTRAIN_HOME`, by default `~/.vtrain`; it need not be there yet.

    Raises StorageError where none can be had.
    """
    named = environ.get("VTRAIN_HOME")
    if not named and user_home() is None:
        raise StorageError("This user has no home directory for vtrain's home.", hint="Set VTRAIN_HOME.")
    home = user_path(named).absolute() if named else Path.home() / ".vtrain"
    if not is_text(home):  # jobs are JSON, and they say where it is
        raise StorageError(f"vtrain's home {str(home)!a} is not UTF-8.", hint="Set VTRAIN_HOME.")
    _check_home(home)
    return home


def _check_home(home: Path) -> None:
    """Raise StorageError for a home that exists and cannot be read."""
    try:
        if not stat.S_ISDIR(home.stat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(home, os.R_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except FileNotFoundError:
        if home.is_symlink():
            raise StorageError(
                f"vtrain's home {home} is a link to a folder that does not exist.", hint="Set VTRAIN_HOME."
            ) from None
    except OSError as error:
        raise StorageError(f"vtrain cannot use {home}: {error.strerror}.", hint="Set VTRAIN_HOME.") from error


def is_text(path: Path) -> bool:
    """Whether a path is UTF-8, so that a document can hold it."""
    return not any("\ud800" <= letter <= "\udfff" for letter in str(path))


def user_path(text: str) -> Path:
    """The path that a user means, `~` included; `~NAME` of nobody this machine knows is left as it is."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def named_folder(path: Path) -> Path:
    """The absolute path of a folder, whose last part is its name, not `..`."""
    path = path.absolute()
    return path.resolve() if path.name == ".." else path


def check_current_folder() -> None:
    """Raise ConfigError if the current folder was removed."""
    try:
        os.getcwd()  # noqa: PTH109 - Path.cwd() asks the same
    except FileNotFoundError as error:
        raise ConfigError(
            "The current folder does not exist any more.", hint="Change to one that does: cd FOLDER"
        ) from error


def user_home() -> Path | None:
    """The user's home directory; None for a user without one, as containers and CI runners may have."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def make_home(home: Path) -> None:
    """Make vtrain's home, its owner's alone. Raises StorageError where that is refused."""
    try:
        secure_home(home)
    except OSError as error:
        raise StorageError(f"Cannot make {home}: {error.strerror}.", hint="Set VTRAIN_HOME.") from error


def choose_backend(
    *, flag: str, name: str, project: Choice | None, named_by: str = "the resource's name"
) -> Choice:
    """The backend of a command line; the first match wins (design, section 1).

    `named_by` says how the full name of the resource is known.
    """
    chosen = given_backend(flag)
    if chosen is not None:
        return chosen
    full = parse_name(name)
    if full is not None:
        where = "local" if full.project == LOCAL_PROJECT else "vertex"
        return Choice(value=where, origin=named_by)
    if project is not None and project.value != LOCAL_PROJECT:
        return Choice(value="vertex", origin=f"project {project.value}, from {project.origin}")
    return Choice(value="local", origin="no project is set")


def given_backend(flag: str) -> Choice | None:
    """The backend that is named: by the flag, the environment or pyproject.toml; None where none is."""
    if flag:
        return Choice(value=flag, origin="--backend")
    return _from_environment("VTRAIN_BACKEND") or _from_pyproject("backend")


def find_project(flag: str | None) -> Choice | None:
    """The project as gcloud finds it: flag, environment, the active configuration; None where none is given.

    Raises ConfigError for what is not a project's id: its number, its name, nothing at all.
    """
    chosen = Choice(value=flag, origin="--project") if flag is not None else given_property("core", "project")
    if chosen and chosen.value != LOCAL_PROJECT and not re.fullmatch(_PROJECT_ID, chosen.value):
        raise ConfigError(
            f"{chosen.value!r} (from {chosen.origin}) is not a project id.",
            hint="Ids hold lower-case letters, digits and '-'; a project's number does not serve.",
        )
    return chosen


def find_region(flag: str, *, local: bool) -> tuple[str, str]:
    """Region, and the project that a full `projects/P/locations/R` brings along (else empty).

    Raises ConfigError for a region that does not offer training.
    """
    configured = _from_environment("CLOUDSDK_AI_REGION") if local else property_value("ai", "region")
    text = flag or (configured.value if configured else DEFAULT_REGION if local else "")
    match = re.fullmatch(_FULL_REGION, text)
    project, region = match.groups() if match else ("", text)
    if not region:
        raise ConfigError("No region is set.", hint="Give --region=REGION, or set CLOUDSDK_AI_REGION.")
    if region not in TRAINING_REGIONS:
        import difflib

        near = difflib.get_close_matches(region, TRAINING_REGIONS, n=3, cutoff=0.4) or TRAINING_REGIONS[30:33]
        hint = f"Did you mean {' or '.join(near)}?"
        raise ConfigError(f"{region!r} is not a region that offers training.", hint=hint)
    return region, project


def project_in_region(flag: str) -> Choice | None:
    """The project of a region that is given as `projects/P/locations/R`; it counts more than any other."""
    match = re.fullmatch(_FULL_REGION, flag)
    return Choice(value=match[1], origin="--region") if match else None


def machine_setting(variable: str, key: str) -> Choice | None:
    """A setting of this machine, from the environment or else pyproject.toml; None where it is not given."""
    return _from_environment(variable) or _from_pyproject(key)


def _from_environment(variable: str) -> Choice | None:
    value = os.environ.get(variable, "")
    return Choice(value=value, origin=variable) if value else None


def _from_pyproject(key: str) -> Choice | None:
    try:
        project = nearest_pyproject(Path.cwd())
    except FileNotFoundError:  # the current folder was removed: a command that needs it says so
        return None
    if project is None or not (text := project.setting(key)):
        return None
    return Choice(value=text, origin=f"{project.file} [tool.vtrain]")
