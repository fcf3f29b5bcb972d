"""The emulators that run for a home: a file for each port, which its process holds locked."""

from __future__ import annotations

import os
import signal
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from vtrain.atomic import discard, publish_file
from vtrain.errors import ConfigError, ConflictError, NotFoundError, StorageError
from vtrain.https_proxy import (
    GCSFS_ALONE,
    METADATA_VARIABLES,
    NO_PROXY_VARIABLES,
    direct_hosts,
    led_variables,
)
from vtrain.messages.names import DEFAULT_REGION
from vtrain.privacy import make_private
from vtrain.retry import wait_until
from vtrain.runtime.folder import DamagedFileError, read_struct
from vtrain.runtime.home import Home
from vtrain.runtime.locks import hold_lock

STOP_SECONDS = 30.0
_PAUSE = 0.05


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """A running emulator.

    `url` has the token that clients send, if any, as its path.
    """

    url: str
    port: int
    backend: str
    project: str
    process: int = 0
    grpc: bool = False

    @property
    def token(self) -> str:
        """The token that clients send; empty where none is asked for."""
        return urlsplit(self.url).path[1:]

    def token_file(self, home: Path) -> Path:
        """The file that gcloud reads the token from."""
        return Home(home.absolute()).emulator / f"{self.port}.token"

    def bundle_file(self, home: Path) -> Path:
        """The file with what clients are to trust, to be led here."""
        return Home(home.absolute()).emulator / f"{self.port}.pem"


def make_folder(home: Path) -> Path:
    """The folder of a home's emulators, made if it is missing. Raises StorageError where that is refused."""
    folder = Home(home).emulator
    try:
        make_private(folder)
    except OSError as error:
        raise StorageError(f"Cannot make {folder}: {error.strerror}.", hint="Set VTRAIN_HOME.") from error
    if not os.access(folder, os.W_OK):
        raise StorageError(f"vtrain cannot write to {folder}.", hint="Set VTRAIN_HOME.")
    return folder


@contextmanager
def recorded(
    home: Path, running: Running, make_tls: Callable[[Path, Path], ssl.SSLContext]
) -> Iterator[ssl.SSLContext]:
    """A block during which other commands find the emulator, and its side of TLS, as `server_tls` makes it.

    Raises ConflictError where one has the port.
    """
    folder = make_folder(home)
    lock = hold_lock(folder / f"{running.port}.lock")
    if lock is None:
        raise ConflictError(f"An emulator of this home is recorded at port {running.port} already.")
    file = folder / f"{running.port}.json"
    try:
        tls = make_tls(Home(home).tls_key, running.bundle_file(home))
        document = msgspec.structs.replace(running, process=os.getpid())
        publish_file(running.token_file(home), running.token.encode())
        publish_file(file, msgspec.json.encode(document))
        yield tls
    finally:
        _forget(file)
        os.close(lock)


def find_running(home: Path) -> list[Running]:
    """The emulators that run now, by port; what one left that was killed is removed.

    Raises StorageError where the record of one that runs is damaged.
    """
    found = []
    for file in sorted(Home(home).emulator.glob("*.json")):
        held = hold_lock(file.with_suffix(".lock"))
        if held is not None:
            _forget(file)
            os.close(held)
            continue
        try:
            running = read_struct(file, Running)
        except DamagedFileError as error:
            raise StorageError(
                f"{file} is damaged, so the emulator at port {file.stem} cannot be used.",
                hint="End that emulator by its process, and start it again.",
            ) from error
        if running is not None:
            found.append(running)
    return found


def _forget(file: Path) -> None:
    """Remove the record of an emulator that has ended, and what is beside it."""
    discard(file)
    for suffix in (".token", ".pem", ".lock"):
        file.with_suffix(suffix).unlink(missing_ok=True)


def the_running(home: Path, port: str) -> Running:
    """The emulator at a port, or the only one. Raises NotFoundError, ConfigError where several run."""
    found = [one for one in find_running(home) if port in ("", str(one.port))]
    if not found:
        where = f" at port {port}" if port else ""
        raise NotFoundError(f"No emulator runs{where}.", hint="Start one: vtrain emulator start --detach")
    if len(found) > 1:
        ports = ", ".join(str(one.port) for one in found)
        raise ConfigError(f"Several emulators run, at the ports {ports}.", hint="Name one: --port=N")
    return found[0]


def stop(home: Path, running: Running) -> None:
    """End an emulator: it finishes what it has accepted. Raises ConflictError where it does not end."""
    with suppress(ProcessLookupError):
        os.kill(running.process, signal.SIGTERM)
    if not wait_until(
        lambda: all(one.port != running.port for one in find_running(home)), STOP_SECONDS, longest=_PAUSE
    ):
        raise ConflictError(
            f"The emulator at port {running.port}, process {running.process}, has not ended in "
            f"{STOP_SECONDS:g} seconds.",
            hint=f"Look at it: ps -p {running.process}",
        )


def variable_names() -> list[str]:
    """The names of all variables that lead clients to an emulator."""
    nowhere = Running(url="", port=0, backend="", project="")
    return [name for name in environment_of(nowhere, Path()) if name not in _TAKEN_AWAY]


_TAKEN_AWAY = ("GOOGLE_APPLICATION_CREDENTIALS",)
"""Variables that are unset, and never set."""


def environment_of(running: Running, home: Path) -> dict[str, str]:
    """The variables that lead every client of Google's to an emulator; empty ones are unset."""
    place = running.url.partition("://")[2]
    host = urlsplit(running.url).hostname or ""
    given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
    direct = direct_hosts(host, "localhost,127.0.0.1", given)
    return {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM": f"{running.url}/",
        # Else gcloud's `config set project` and `services enable` try to reach Google for half a minute.
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER": f"{running.url}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_SERVICEUSAGE": f"{running.url}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": f"{running.url}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{running.url}/storage/v1/",
        # gcloud storage drops the path from addresses of uploads and downloads, and sends an access token
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(running.token_file(home)) if running.token else "",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "" if running.token else "true",
        "CLOUDSDK_AI_REGION": os.environ.get("CLOUDSDK_AI_REGION") or DEFAULT_REGION,
        "CLOUDSDK_CORE_PROJECT": running.project,
        "CLOUDSDK_CONFIG": str(Home(home.absolute()).emulator / "gcloud"),
        "GOOGLE_APPLICATION_CREDENTIALS": "",
        "GOOGLE_CLOUD_PROJECT": running.project,
        **dict.fromkeys(METADATA_VARIABLES, place),
        "STORAGE_EMULATOR_HOST": running.url,
        "BOTO_CONFIG": str(Path(__file__).with_name("gsutil.boto")),
        **GCSFS_ALONE,
        **dict.fromkeys(NO_PROXY_VARIABLES, direct),
        **led_variables(place.partition("/")[0], running.token, str(running.bundle_file(home))),
    }
