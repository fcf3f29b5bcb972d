"""Programs as other people write them, unchanged, against the emulator: with old libraries and new ones."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
from lib.emulator_report import report_calls
from lib.framework_index import framework_index

import vtrain

pytestmark = [pytest.mark.programs, pytest.mark.network, pytest.mark.timeout(900)]
ROOT = Path(vtrain.__file__).parent.parent
PROGRAMS = Path(__file__).parent
EXPERIMENTS = "../emulator/sdk_experiment_program.py"
OLDEST = "google-cloud-aiplatform==1.25.0", "setuptools<81"
"""It imports pkg_resources, which newer setuptools have no more."""
VARIABLES = dict(os.environ)
"""Before a test has another HOME, and with it another cache of packages."""


def environment_of(*packages: str, python: str = "") -> str:
    """The Python of an environment with these packages, which stays beside the session's own.

    Skips the test where they cannot be installed.
    """
    named = "_".join(packages).translate(str.maketrans("[]<>=", "....."))
    folder = Path(sys.prefix, "programs", named)
    folder.parent.mkdir(exist_ok=True)
    uv = (sys.executable, "-m", "uv")
    make = (
        *uv,
        "venv",
        "--clear",
        "--no-python-downloads",
        f"--python={python or sys.executable}",
        str(folder),
    )
    with folder.with_name(f"{named}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            for argv in (make, (*uv, "pip", "install", f"--python={folder}", *packages)):
                ended = subprocess.run(argv, env=VARIABLES, capture_output=True, text=True, check=False)
                if ended.returncode:
                    pytest.skip(f"{' '.join(packages)} cannot be installed: {ended.stderr.strip()[-300:]}")
            (folder / "complete").touch()
    return str(folder / "bin" / "python")


def python_with(library: str) -> str:
    """The Python that has a version of google-cloud-aiplatform: the session's own has the newest."""
    return environment_of(*OLDEST, python=">=3.10,<3.12") if library == "oldest" else sys.executable


def run(folder: Path, python: str, program: str, *arguments: str, backend: str = "process") -> None:
    """Run a program to its last line. What trainers and servers of models need is there without an index."""
    variables = {
        "VTRAIN_HOME": str(folder / "home"),
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(framework_index(folder / "wheels")),
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_LOGGING_TO_API_ENABLED": "0",
    }
    execute = [sys.executable, "-m", "vtrain", "emulator", "exec", f"--backend={backend}", "--"]
    ended = subprocess.run(
        [*execute, python, str(PROGRAMS / program), *arguments],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.endswith("done\n") and "Refused" not in ended.stderr, ended.stdout + ended.stderr
    report_calls(ended.stderr)


@pytest.mark.parametrize(
    ("library", "transport"), [("oldest", "grpc"), ("newest", "grpc"), ("newest", "rest")]
)
def test_a_notebook_from_the_first_cell_to_the_last(tmp_path: Path, library: str, transport: str) -> None:
    run(tmp_path, python_with(library), "train_and_serve.py", transport)


@pytest.mark.parametrize(("library", "transport"), [("oldest", "grpc"), ("newest", "rest")])
def test_a_notebook_of_the_generated_clients(tmp_path: Path, library: str, transport: str) -> None:
    run(tmp_path, python_with(library), "generated_clients.py", transport)


def test_experiments_of_an_old_library(tmp_path: Path) -> None:
    (tmp_path / "home/buckets/stage").mkdir(parents=True)
    run(tmp_path, python_with("oldest"), EXPERIMENTS, "grpc")


@pytest.mark.docker
def test_a_notebook_with_containers_of_its_own(tmp_path: Path, base_image: str) -> None:
    run(tmp_path, python_with("oldest"), "own_containers.py", base_image, backend="docker")


def test_data_frames_in_a_bucket(tmp_path: Path) -> None:
    run(tmp_path, environment_of("pandas", "gcsfs", "google-cloud-storage"), "data_frames.py")


def test_the_launchers_of_kubeflow(tmp_path: Path) -> None:
    run(tmp_path, environment_of("google-cloud-pipeline-components"), "kubeflow_launchers.py")


@pytest.mark.docker
def test_a_worker_of_prefect(tmp_path: Path, base_image: str) -> None:
    python = environment_of("prefect-gcp", "google-cloud-aiplatform")
    run(tmp_path, python, "prefect_worker.py", base_image, backend="docker")
