"""A shim that is killed had not read everything: the supervisor has, or the log says what it lacks."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from lib.local_jobs import PRIMARY, ended, folder_of, kill, kill_supervisor, lines, submit
from lib.waiting import wait_until

from vtrain.backends.local import LocalBackend
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob, CustomJobSpec, EnvVar, PythonPackageSpec, WorkerPoolSpec
from vtrain.runtime.locks import lock_holder

pytestmark = pytest.mark.end_to_end

TRAINER = """
import os, sys, time
from pathlib import Path
folder = Path(sys.argv[1])
if (folder / "written").exists():
    sys.exit()
print("ready", flush=True)
while not (folder / "go").exists():
    time.sleep(0.01)
os.write(1, b"late\\n")
os.write(2, b"late too\\n")
(folder / "written").touch()
time.sleep(600)
"""


def late_job(folder: Path) -> CustomJob:
    """A job that writes its last lines when it is told to; its second attempt ends well at once."""
    (folder / "late.py").write_text(TRAINER)
    env = (EnvVar(name="PYTHONPATH", value=str(folder)),)
    task = PythonPackageSpec(python_module="late", args=(str(folder),), env=env)
    pools = (WorkerPoolSpec(python_package_spec=task),)
    return CustomJob(display_name="late", job_spec=CustomJobSpec(worker_pool_specs=pools))


def stop_shim_and_write(backend: LocalBackend, home: Path, folder: Path) -> tuple[str, int]:
    """The job's name, and its shim, which sleeps while the trainer writes."""
    name = submit(backend, late_job(folder))
    wait_until(lambda: backend.get(name).state == states.RUNNING and lines(backend, name) == ["ready"])
    shim = lock_holder(folder_of(home, name).replica(PRIMARY).lock)
    assert shim > 0
    os.kill(shim, signal.SIGSTOP)
    (folder / "go").touch()
    wait_until((folder / "written").exists)
    return name, shim


def test_what_a_killed_shim_had_not_read_is_kept(
    process_backend: LocalBackend, home: Path, tmp_path: Path
) -> None:
    name, shim = stop_shim_and_write(process_backend, home, tmp_path)
    kill(shim)
    assert ended(process_backend, name).state == states.SUCCEEDED
    assert sorted(lines(process_backend, name)) == ["late", "late too", "ready"]
    assert "could not be read" not in "\n".join(lines(process_backend, name, "service"))


@pytest.mark.parametrize("has_said_so", [True, False], ids=["started", "before-it-said-so"])
def test_what_nobody_has_read_is_said_to_be_lost(
    process_backend: LocalBackend, home: Path, tmp_path: Path, has_said_so: bool
) -> None:
    name, shim = stop_shim_and_write(process_backend, home, tmp_path)
    kill_supervisor(folder_of(home, name))
    if not has_said_so:  # a shim starts the trainer first, and then stores that it did
        (folder_of(home, name).replica(PRIMARY).path / "started.json").unlink()
    kill(shim)
    assert ended(process_backend, name).state == states.SUCCEEDED
    assert lines(process_backend, name) == ["ready"]
    told = "\n".join(lines(process_backend, name, "service"))
    assert f"A part of the log of {PRIMARY} could not be read: what it wrote last may be lost" in told
