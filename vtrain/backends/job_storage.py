"""Cloud Storage for one job (`--aip-dirs=gs`): the local buckets, at an address that its replicas get.

A process of its own serves them, so that they stay while a supervisor dies; the next one finds it, or starts
it again at the same address.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from secrets import token_urlsafe

import msgspec

from vtrain.backends import SERVE_STORAGE
from vtrain.errors import ConfigError, UnavailableError
from vtrain.extras import install_command
from vtrain.https_proxy import (
    GCSFS_ALONE,
    METADATA_VARIABLES,
    NO_PROXY_VARIABLES,
    direct_hosts,
    led_variables,
)
from vtrain.messages.custom_job import CustomJobSpec
from vtrain.privacy import make_private
from vtrain.program_output import reason_line
from vtrain.retry import wait_until
from vtrain.runtime.folder import JobFolder, read_struct, write_struct
from vtrain.runtime.inheritance import NO_METADATA
from vtrain.runtime.launching import PrepareFailed
from vtrain.runtime.locks import hold_lock, lock_holder
from vtrain.runtime.spawning import spawn_holding
from vtrain.runtime.supervisor_process import program_environment

GS, LOCAL = "gs", "local"
"""`--aip-dirs`: AIP_MODEL_DIR and its relatives as gs:// URIs, or as paths."""
VARIABLES = ("STORAGE_EMULATOR_HOST", "CLOUD_STORAGE_EMULATOR_ENDPOINT", "CLOUD_STORAGE_TESTBENCH_ENDPOINT")
"""The variables by which Google's libraries find Cloud Storage; the last two are for that in C++."""
START_SECONDS = 60.0
STOP_SECONDS = 8.0
KILL_SECONDS = 8.0
PAUSE_SECONDS = 0.01
_MODULES = ("starlette", "uvicorn", "httptools", "anyio", "google_crc32c", "cryptography")


class StorageOrder(msgspec.Struct, frozen=True, kw_only=True):
    """An order to start the service. `port` is 0 until it has run once.

    `emulator_port` is that of `TrainerSetting`.
    """

    home: str
    host: str
    token: str
    emulator_port: int = 0
    port: int = 0


def check_aip_dirs(wanted: str, spec: CustomJobSpec, *, has_credentials: bool) -> None:
    """Raise ConfigError or UnavailableError where the job cannot have gs:// URIs for its output."""
    if wanted != GS:
        return
    if spec.output_uri.startswith("file:"):
        raise ConfigError(
            f"--aip-dirs=gs: the base output directory {spec.output_uri} is a folder, and has no gs:// URI.",
            hint="Give --base-output-dir=gs://BUCKET/FOLDER, or take --aip-dirs=local.",
        )
    if has_credentials:
        raise ConfigError(
            "--aip-dirs=gs serves the buckets of this machine, and --credentials would open the real ones.",
            hint="Leave one of them out.",
        )
    missing = missing_module()
    if missing:
        raise UnavailableError(
            f"--aip-dirs=gs needs {missing}, which is not installed.",
            hint=f"Install it: {install_command('emulator')}",
        )


def missing_module() -> str:
    """The first module that the service needs and that is not installed; empty where all are."""
    return next((name for name in _MODULES if find_spec(name) is None), "")


def storage_variables(
    folder: JobFolder,
    home: str,
    host: str,
    *,
    client_host: str = "",
    bundle: str = "",
    emulator_port: int = 0,
) -> dict[str, str]:
    """Serve the buckets at an address of this machine; what a replica finds them by.

    `client_host` is the name of that address for replicas, where it is another, and `bundle` the one of
    `bundle_file`; without that no HTTPS is led there. `emulator_port` is that of `TrainerSetting`. Raises
    PrepareFailed.
    """
    order = _serve(folder, home, host, emulator_port)
    name = client_host or order.host
    url = f"http://token:{order.token}@{name}:{order.port}"
    direct = direct_hosts(name, "localhost,127.0.0.1") if bundle else name
    found = dict.fromkeys(VARIABLES, url) | dict.fromkeys(NO_PROXY_VARIABLES, direct)
    if not bundle:
        return found | NO_METADATA
    place = f"{name}:{order.port}"
    found |= dict.fromkeys(METADATA_VARIABLES, f"{place}/{order.token}") | GCSFS_ALONE
    # gcsfs sends credentials that it finds, and refuses them beside those that the URL has.
    found |= {"FSSPEC_GCS_TOKEN": "anon"}
    # Else gcloud storage asks for an account. Who comes by the proxy needs none.
    found |= {"CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true"}
    # The library of Cloud Logging then sends by HTTP, which the job's own server writes into its log.
    found |= {"GOOGLE_CLOUD_DISABLE_GRPC": "true"}
    return found | led_variables(place, order.token, bundle)


def bundle_file(folder: JobFolder) -> Path:
    """The file with the certificates that replicas trust, which is there while the job's storage is."""
    return _place(folder) / "trusted.pem"


def keep_serving(folder: JobFolder) -> None:
    """Start a service again that was killed; nothing for a job without one. Raises PrepareFailed."""
    order = read_struct(_place(folder) / "order.json", StorageOrder)
    if order is not None:
        _serve(folder, order.home, order.host, order.emulator_port)


def stop_serving(folder: JobFolder) -> None:
    """End the service, once no replica runs any more; nothing for a job without one.

    Raises TimeoutError where it does not end: the kernel may not let it, or its lock tells no number.
    """
    lock = _place(folder) / "lock"
    is_ended = wait_until(lambda: _is_ended(lock, signal.SIGTERM), STOP_SECONDS, PAUSE_SECONDS)
    if not (is_ended or wait_until(lambda: _is_ended(lock, signal.SIGKILL), KILL_SECONDS, PAUSE_SECONDS)):
        raise TimeoutError("the process that serves its Cloud Storage does not end")


def _is_ended(lock: Path, number: signal.Signals) -> bool:
    """Whether no process holds the lock any more; one that does is sent the signal."""
    process = lock_holder(lock)
    if process > 0:
        with suppress(ProcessLookupError):
            os.kill(process, number)
    return process == 0


def _place(folder: JobFolder) -> Path:
    return folder.path / "storage"


def _serve(folder: JobFolder, home: str, host: str, emulator_port: int) -> StorageOrder:
    place = _place(folder)
    make_private(place)
    order = read_struct(place / "order.json", StorageOrder)
    if order is None:
        token = token_urlsafe(24)
        order = StorageOrder(home=home, host=host, token=token, emulator_port=emulator_port)
        write_struct(place / "order.json", order)
    lock = hold_lock(place / "lock")
    if lock is not None:
        (place / "ready").unlink(missing_ok=True)
        argv = [sys.executable, str(SERVE_STORAGE), str(place)]
        spawn_holding(lock, argv, program_environment(folder), place / "log")
    return _ready(place)


def _ready(place: Path) -> StorageOrder:
    """The order with its port, once the service answers."""
    ready, lock = place / "ready", place / "lock"
    wait_until(lambda: ready.exists() or lock_holder(lock) == 0, START_SECONDS, PAUSE_SECONDS)
    if not ready.exists():
        said = reason_line((place / "log").read_text("utf-8", "replace").splitlines()) or "nothing"
        raise PrepareFailed(
            f"Cloud Storage on this machine could not be started. It wrote: {said}",
            "Take --aip-dirs=local, which gives the trainer paths.",
        )
    order = read_struct(place / "order.json", StorageOrder)
    assert order is not None
    return order
