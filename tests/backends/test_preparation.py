"""The program that prepares a job: what it says, how it is ended, and when it is not needed at all."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from lib.environment_packages import direct_sdist, sdist, wheel
from lib.local_jobs import ended, folder_of, kill_supervisor, lines, submit
from lib.waiting import wait_until

from vtrain.backends.local import LocalBackend
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob, CustomJobSpec, PythonPackageSpec, WorkerPoolSpec
from vtrain.privacy import home_label
from vtrain.runtime.launching import PREPARATION
from vtrain.runtime.recovery import RESTARTS_PER_JOB
from vtrain.uv_program import find_uv

pytestmark = pytest.mark.end_to_end

CODE = "import left; print(left.VERSION)"
KILLED = "The preparation of the environment was killed. It begins again."
FOUND = "def find_uv_bin():\n    {line}\n"
STAND_IN = """#!/bin/sh
case " $* " in *" venv "*) exec {uv} "$@" ;; esac
echo $$ >> {calls}
tries=$(wc -l < {calls})
{script}
exec {uv} "$@"
"""
SLOW_BACKEND = """
import pathlib, time

def build_wheel(*_, **__):
    pathlib.Path({begun!r}).touch()
    time.sleep(600)
"""
SLOW_IN_AN_IMAGE = """
import pathlib, time

def build_wheel(*_, **__):
    if not pathlib.Path({here!r}).exists():
        time.sleep(600)
    raise RuntimeError("This machine is not the right one.")
"""
Uv = Callable[[str], None]


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    """The file with the number of each process of the stand-in for uv that installs or builds."""
    return tmp_path / "calls"


@pytest.fixture
def uv(tmp_path: Path, calls: Path, monkeypatch: pytest.MonkeyPatch) -> Uv:
    """Puts a script before uv, which a job of this test then runs, without a network."""
    wheel(tmp_path / "wheelhouse", "left")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheelhouse"))
    place, real = tmp_path / "uv", find_uv()
    place.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(place))

    def put(script: str) -> None:
        (place / "uv").write_text(STAND_IN.format(calls=calls, script=script, uv=real))
        (place / "uv").chmod(0o755)
        (place / "uv.py").write_text(FOUND.format(line=f"return {str(place / 'uv')!r}"))

    put("")
    return put


def trainer(package: str, image: str = "") -> CustomJob:
    """A job that runs the package."""
    uris = (f"file://{package}",)
    task = PythonPackageSpec(executor_image_uri=image, package_uris=uris, python_module="trainer.task")
    spec = CustomJobSpec(worker_pool_specs=(WorkerPoolSpec(python_package_spec=task),))
    return CustomJob(display_name="prepared", job_spec=spec)


def requiring(tmp_path: Path, *requirements: str, code: str = CODE) -> CustomJob:
    return trainer(direct_sdist(tmp_path, code, requirements or ("left",)))


def programs(folder: Path) -> list[int]:
    """The programs that prepare this job."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[1:3] and words[1].endswith(b"/prepare.py") and words[2] == bytes(folder):
                found.append(int(entry.name))
    return found


def living(calls: Path) -> list[str]:
    """The calls of uv whose processes, or what these have started in their group, still run."""
    groups = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            except OSError:
                continue
            if state not in "ZX":
                groups[entry.name] = group
    own = set(calls.read_text().split()) if calls.exists() else set()
    return [pid for pid in groups if pid in own or groups[pid] in own]


def test_what_a_tool_says_is_in_the_service_log_in_whole_lines(
    tmp_path: Path, uv: Uv, process_backend: LocalBackend
) -> None:
    said = [f"line {number} {'x' * (number % 97)}." for number in range(20_000)]
    (tmp_path / "said").write_text("\n".join([*said, "the last one"]))
    uv(f"cat {tmp_path / 'said'}; echo")
    name = submit(process_backend, requiring(tmp_path))
    assert ended(process_backend, name).state == states.SUCCEEDED
    told = [line.strip() for line in lines(process_backend, name, "service")]
    assert [line for line in told if line.startswith("line ")] == said
    assert {"Installing left …", "the last one"} < set(told)


def test_a_failed_preparation_fails_the_job_and_says_what_to_do(
    tmp_path: Path, uv: Uv, process_backend: LocalBackend
) -> None:
    name = submit(process_backend, requiring(tmp_path, "nosuch"))
    job = ended(process_backend, name)
    assert (job.state, job.start_time) == (states.FAILED, "")
    assert job.error is not None
    assert (job.error.code, job.error.details[0]["reason"]) == (3, "ENVIRONMENT_FAILED")
    assert job.error.message.startswith("nosuch cannot be installed: uv failed.")
    assert job.error.details[0]["metadata"]["hint"].startswith("Correct the requirement")
    assert lines(process_backend, name, "service")[-1] == "Job failed."


def test_a_fault_in_the_preparation_is_named(tmp_path: Path, uv: Uv, process_backend: LocalBackend) -> None:
    (tmp_path / "uv" / "uv.py").write_text(FOUND.format(line="raise ZeroDivisionError('oops')"))
    name = submit(process_backend, requiring(tmp_path))
    job = ended(process_backend, name)
    assert job.error is not None
    assert job.error.message == "The environment could not be made: ZeroDivisionError('oops')."


@pytest.mark.parametrize("kill", ["kill -9 $PPID", "kill -15 $PPID", "kill -9 $$"])
def test_a_preparation_that_is_killed_or_its_tool_begins_again(
    tmp_path: Path, calls: Path, uv: Uv, process_backend: LocalBackend, kill: str
) -> None:
    uv(f"[ $tries -gt {RESTARTS_PER_JOB} ] || {{ {kill}; sleep 600; }}")
    name = submit(process_backend, requiring(tmp_path))
    job = ended(process_backend, name)
    assert job.state == states.SUCCEEDED, job.error
    assert lines(process_backend, name) == ["1.0"]
    assert lines(process_backend, name, "service").count(KILLED) == RESTARTS_PER_JOB
    assert living(calls) == []


@pytest.mark.parametrize("kill", ["kill -9 $PPID", "kill -9 $$"])
def test_a_preparation_that_is_killed_each_time_fails_the_job(
    tmp_path: Path, calls: Path, uv: Uv, process_backend: LocalBackend, kill: str
) -> None:
    uv(f"{kill}; sleep 600")
    job = ended(process_backend, submit(process_backend, requiring(tmp_path)))
    assert job.error is not None
    assert job.error.message == "The preparation of the environment was killed."
    assert len(calls.read_text().split()) == RESTARTS_PER_JOB + 1
    assert living(calls) == []


STUBBORN = "trap '' TERM; (while :; do sleep 1; done) & while :; do sleep 1; done"
"""The shell and the one in the background ignore SIGTERM, and so does each `sleep`."""


@pytest.mark.parametrize("script", ["sleep 600", STUBBORN, "sleep 600 & exit 0"])
def test_cancel_ends_the_tools(
    tmp_path: Path, calls: Path, uv: Uv, process_backend: LocalBackend, home: Path, script: str
) -> None:
    uv(script)
    name = submit(process_backend, requiring(tmp_path))
    wait_until(calls.exists)
    process_backend.cancel(name)
    assert ended(process_backend, name).state == states.CANCELLED
    assert programs(folder_of(home, name).path) == []
    assert living(calls) == []


def test_a_supervisor_that_is_killed_takes_the_preparation_with_it(
    tmp_path: Path, calls: Path, uv: Uv, process_backend: LocalBackend, home: Path
) -> None:
    uv("[ $tries -gt 1 ] || sleep 600")
    name = submit(process_backend, requiring(tmp_path))
    folder = folder_of(home, name)
    wait_until(calls.exists)
    assert len(programs(folder.path)) == 1
    kill_supervisor(folder)
    wait_until(lambda: programs(folder.path) == [] and living(calls) == [])
    job = ended(process_backend, name)
    assert job.state == states.SUCCEEDED, job.error
    assert lines(process_backend, name) == ["1.0"]


def test_a_preparation_that_is_cancelled_removes_what_is_half_made(
    tmp_path: Path, process_backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package that is being built was unpacked into the folder for temporary files."""
    scratch, begun = Path(os.environ["TMPDIR"]), tmp_path / "begun"
    monkeypatch.setattr("lib.environment_packages.BACKEND", SLOW_BACKEND.format(begun=str(begun)))
    name = submit(process_backend, trainer(sdist(tmp_path, CODE)))
    wait_until(begun.exists)
    assert any(scratch.iterdir())
    process_backend.cancel(name)
    assert ended(process_backend, name).state == states.CANCELLED
    assert [*scratch.iterdir()] == []


def test_an_edited_trainer_is_prepared_without_a_program(
    tmp_path: Path, calls: Path, uv: Uv, process_backend: LocalBackend, home: Path
) -> None:
    first = submit(process_backend, requiring(tmp_path))
    assert ended(process_backend, first).state == states.SUCCEEDED
    assert (folder_of(home, first).path / PREPARATION).exists()
    seen = calls.read_text()
    (tmp_path / "uv" / "uv").write_text("#!/bin/sh\nexit 1\n")  # no tool works now
    for code in (CODE, f"{CODE}\nprint(2)"):
        name = submit(process_backend, requiring(tmp_path, code=code))
        assert ended(process_backend, name).state == states.SUCCEEDED
        assert not (folder_of(home, name).path / PREPARATION).exists()
    assert lines(process_backend, name) == ["1.0", "2"]
    assert calls.read_text() == seen


def test_an_edited_package_with_a_back_end_is_built_by_the_program(
    tmp_path: Path, uv: Uv, process_backend: LocalBackend, home: Path
) -> None:
    first = sdist(tmp_path, CODE, ("left",))
    for package in (first, first, sdist(tmp_path, f"{CODE}\nprint(2)", ("left",))):
        name = submit(process_backend, trainer(package))
        assert ended(process_backend, name).state == states.SUCCEEDED
    assert len([*(home / "jobs").glob(f"*/{PREPARATION}")]) == 2
    assert lines(process_backend, name) == ["1.0", "2"]


@pytest.mark.docker
@pytest.mark.parametrize("ending", ["cancel", "kill", "kill the program"])
def test_a_build_of_an_image_ends_with_its_job(
    tmp_path: Path,
    docker_backend: LocalBackend,
    home: Path,
    base_image: str,
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
) -> None:
    monkeypatch.setattr("lib.environment_packages.BACKEND", SLOW_IN_AN_IMAGE.format(here=str(tmp_path)))
    name = submit(docker_backend, trainer(sdist(tmp_path, CODE), base_image))
    folder = folder_of(home, name)
    # From here on nothing is said: a build whose lines nobody reads would end by itself.
    wait_until(lambda: "Preparing metadata" in " ".join(lines(docker_backend, name, "service")[-1:]))
    assert builds(home) != []
    if ending == "kill":
        kill_supervisor(folder)
        wait_until(lambda: programs(folder.path) == [] and builds(home) == [])
    if ending == "kill the program":
        os.kill(programs(folder.path)[0], signal.SIGKILL)
        wait_until(lambda: KILLED in lines(docker_backend, name, "service"))
    docker_backend.cancel(name)
    assert ended(docker_backend, name).state == states.CANCELLED
    assert builds(home) == []


def builds(home: Path) -> list[bytes]:
    """The command lines of the programs that build images for jobs of this home."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(entry.read_bytes())
    return [line for line in found if b"buildx" in line and home_label(home).encode() in line]
