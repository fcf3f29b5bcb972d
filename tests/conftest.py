"""What every test gets: a home of its own, an environment without surprises, no network."""

from __future__ import annotations

import gc
import io
import ipaddress
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings

# A shell without job control starts background programs with Ctrl-C ignored, nohup with hangups, and programs
# inherit that. The tests of signals mean programs that do not.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

# Examples have no deadline: a shared machine may pause in the middle of one. Each run takes the same ones;
# VTRAIN_HYPOTHESIS=explore takes others, and more of them, and =thorough many more.
settings.register_profile(
    "usual",
    deadline=None,
    database=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
for name, examples in (("explore", 100), ("thorough", 1000)):
    settings.register_profile(
        name, settings.get_profile("usual"), derandomize=False, max_examples=examples, print_blob=True
    )
settings.load_profile(os.environ.get("VTRAIN_HYPOTHESIS") or "usual")

pytest_plugins = (
    "lib.chaos_report",
    "lib.ci_report",
    "lib.differential_report",
    "lib.docker_engines",
    "lib.emulator_report",
    "lib.fixtures",
    "lib.no_children",
)

FOREIGN_PREFIXES = ("VTRAIN_", "CLOUDSDK_", "GITHUB_", "CLOUD_ML_", "AIP_", "DOCKER_")
FOREIGN = (
    "CI",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "CLUSTER_SPEC",
    "TF_CONFIG",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "PYTEST_ADDOPTS",
    "XDG_RUNTIME_DIR",
)
NOBODY = "127.0.0.1:1"
"""A loopback address where nobody listens."""
KEPT = ("VTRAIN_REQUIRE_API", "VTRAIN_REQUIRE_DOCKER")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of the installed gcloud where there is none."""
    if shutil.which("gcloud") is None and os.environ.get("VTRAIN_REQUIRE_GCLOUD") != "1":
        for item in items:
            if item.get_closest_marker("gcloud"):
                item.add_marker(pytest.mark.skip(reason="gcloud is not installed"))


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """HOME, VTRAIN_HOME, TMPDIR and gcloud's configuration below pytest's own temporary folder."""
    home = tmp_path_factory.mktemp("home")
    (home / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(home / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(home / "tmp"))
    for variable in list(os.environ):
        if (variable.startswith(FOREIGN_PREFIXES) or variable in FOREIGN) and variable not in KEPT:
            monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("VTRAIN_HOME", str(home / ".vtrain"))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(home / "gcloud"))
    monkeypatch.setenv("UV_PYTHON_PREFERENCE", "only-managed")  # whatever interpreters this machine has
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(home / "pythons"))
    monkeypatch.setenv("GCE_METADATA_HOST", NOBODY)  # a runner in Google's cloud has credentials of its own
    return home


@pytest.fixture
def vtrain_home(own_home: Path) -> Path:
    """vtrain's home in this test; nothing has made it yet."""
    return own_home / ".vtrain"


@pytest.fixture(autouse=True)
def _loopback_only(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Refuse connections that leave this machine, unless the test is marked `network`."""
    if request.node.get_closest_marker("network") is None:
        for verb in ("connect", "connect_ex"):
            monkeypatch.setattr(socket.socket, verb, _guarded(getattr(socket.socket, verb)))
    yield


def _guarded(connect: Any) -> Any:
    def guarded(self: socket.socket, address: Any) -> Any:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
            raise RuntimeError(f"A test may not connect to {address[0]}; mark it network if it has to.")
        return connect(self, address)

    return guarded


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Ended(NamedTuple):
    """What a command line left behind."""

    code: int
    out: str
    err: str


CommandLine = Callable[..., Ended]


@pytest.fixture
def vtrain(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Runs one command line in this process, `stdin` as its standard input."""

    def run(*argv: str, stdin: str | bytes = b"") -> Ended:
        from vtrain.cli import main

        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data), "utf-8"))
        capfd.readouterr()
        code = main(argv)
        gc.unfreeze()  # a command keeps all objects from collection to its end; this process goes on
        captured = capfd.readouterr()
        return Ended(code, captured.out, captured.err)

    return run
