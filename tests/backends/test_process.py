"""What only real processes show: deaths of supervisors and shims, timeouts, disks that refuse."""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
import threading
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from lib.local_jobs import (
    ended,
    folder_of,
    info,
    kill_shim,
    kill_supervisor,
    lines,
    reason,
    scripted,
    snippet_job,
    submit,
)
from lib.supervisors import supervisor_of
from lib.waiting import wait_until

from vtrain.backends import BackendSettings, Query
from vtrain.backends.local import LocalBackend
from vtrain.backends.registry import open_backend
from vtrain.errors import ConfigError, NotFoundError, StorageError, UnavailableError
from vtrain.messages import states
from vtrain.messages.custom_job import (
    ContainerSpec,
    CustomJob,
    CustomJobSpec,
    GcsDestination,
    MachineSpec,
    Scheduling,
    WorkerPoolSpec,
)
from vtrain.messages.log import LogQuery
from vtrain.runtime.folder import write_struct
from vtrain.runtime.inheritance import inherited_environment
from vtrain.testing.script import Script, script_job

pytestmark = pytest.mark.end_to_end


def test_a_killed_supervisor_is_replaced_and_nothing_is_lost(
    process_backend: LocalBackend, home: Path
) -> None:
    script = Script().write("before\n").sleep(5).write("after\n").exit(7)
    name = submit(process_backend, scripted(script))
    folder = folder_of(home, name)
    wait_until(lambda: lines(process_backend, name) == ["before"])
    kill_supervisor(folder)
    job = ended(process_backend, name)
    assert (job.state, info(job)["exitCode"]) == (states.FAILED, "7")
    assert lines(process_backend, name) == ["before", "after"]


def test_an_exit_that_nobody_watched_is_found(process_backend: LocalBackend, home: Path) -> None:
    name = submit(process_backend, scripted(Script().write("x\n").sleep(5).exit(7)))
    folder = folder_of(home, name)
    wait_until(lambda: lines(process_backend, name) == ["x"])
    kill_supervisor(folder)
    wait_until(lambda: (folder.path / "replicas" / "workerpool0-0" / "exit.json").exists())
    assert supervisor_of(folder) == 0
    assert info(ended(process_backend, name))["exitCode"] == "7"


def test_cancel_reaches_a_job_whose_supervisor_died(process_backend: LocalBackend, home: Path) -> None:
    name = submit(process_backend, scripted(Script().write("x\n").hang()))
    wait_until(lambda: lines(process_backend, name) == ["x"])
    kill_supervisor(folder_of(home, name))
    process_backend.cancel(name)
    assert ended(process_backend, name).state == states.CANCELLED


def test_a_supervisor_that_never_started_is_made_up_for(
    process_backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as context:
        context.setattr(LocalBackend, "_spawn_supervisor", lambda self, folder, lock: os.close(lock))
        name = submit(process_backend, scripted(Script().write("x\n")))
    assert ended(process_backend, name).state == states.SUCCEEDED
    assert lines(process_backend, name) == ["x"]


def test_the_folder_one_stands_in_is_not_imported_from(
    process_backend: LocalBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("signal", "socket", "vtrain", "msgspec", "journal"):
        (tmp_path / f"{module}.py").write_text("raise RuntimeError")
    monkeypatch.chdir(tmp_path)
    assert ended(process_backend, submit(process_backend, scripted(Script()))).state == states.SUCCEEDED


def test_a_killed_shim_takes_its_replica_along(process_backend: LocalBackend, home: Path) -> None:
    scheduling = Scheduling(disable_retries=True)
    name = submit(process_backend, scripted(Script().leave_grandchild().hang(), scheduling=scheduling))
    wait_until(lambda: lines(process_backend, name) != [])
    kill_shim(folder_of(home, name))
    job = ended(process_backend, name)
    assert (job.state, reason(job)) == (states.FAILED, "SUPERVISION_LOST")


def test_a_restarted_machine_fails_the_job(process_backend: LocalBackend, home: Path) -> None:
    name = submit(process_backend, scripted(Script().write("x\n").hang()))
    folder = folder_of(home, name)
    wait_until(lambda: lines(process_backend, name) == ["x"])
    kill_supervisor(folder)
    kill_shim(folder)
    write_struct(folder.path / "spec.json", msgspec.structs.replace(folder.order(), boot_id="another"))
    job = ended(process_backend, name)
    assert (job.state, reason(job)) == (states.FAILED, "MACHINE_RESTARTED")
    assert lines(process_backend, name) == ["x"]


def test_a_removed_folder_fails_the_job(
    process_backend: LocalBackend, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as context:
        context.setattr(LocalBackend, "_spawn_supervisor", lambda self, folder, lock: os.close(lock))
        name = submit(process_backend, scripted(Script()))
    shutil.rmtree(home / "jobs")
    assert reason(ended(process_backend, name)) == "SUPERVISION_LOST"
    (entry,) = process_backend.logs(LogQuery(name=name)).entries
    assert entry.message == "The log is gone: its folder was removed."
    process_backend.delete(name)


def test_nothing_runs_on_whose_folder_was_removed(process_backend: LocalBackend, home: Path) -> None:
    """The home's fixture sees to it that no process is left."""
    name = submit(process_backend, scripted(Script().write("x\n").hang()))
    folder = folder_of(home, name).path
    wait_until(lambda: lines(process_backend, name) == ["x"])
    folder.rename(home / "aside")
    shutil.rmtree(home / "aside")
    assert reason(ended(process_backend, name)) == "SUPERVISION_LOST"


def test_a_damaged_folder_fails_the_job(process_backend: LocalBackend, home: Path) -> None:
    name = submit(process_backend, scripted(Script().write("x\n").hang()))
    folder = folder_of(home, name)
    wait_until(lambda: lines(process_backend, name) == ["x"])
    kill_supervisor(folder)
    (folder.path / "spec.json").write_text('{"home": ')
    job = ended(process_backend, name)
    assert (job.state, reason(job)) == (states.FAILED, "SUPERVISION_LOST")
    assert job.error is not None
    assert "is damaged" in job.error.message
    process_backend.delete(name)


def test_timeout(process_backend: LocalBackend) -> None:
    name = submit(process_backend, scripted(Script().hang(), scheduling=Scheduling(timeout="0.3s")))
    job = ended(process_backend, name)
    assert (job.state, reason(job)) == (states.CANCELLED, "TIMEOUT")
    assert job.error is not None
    assert (job.error.code, "0.3s" in job.error.message) == (1, True)


def test_a_traceback_is_in_the_error(process_backend: LocalBackend, tmp_path: Path) -> None:
    code = "def train():\n    raise ValueError('no data')\n\ntrain()\n"
    name = submit(process_backend, snippet_job(tmp_path / "src", code))
    job = ended(process_backend, name)
    assert job.error is not None
    assert "ValueError: no data\n\nTo find out more" in job.error.message
    assert job.error.details[1]["stackEntries"][-1] == "ValueError: no data"
    assert (info(job)["file"], info(job)["line"]) == (str(tmp_path / "src" / "snippet.py"), "2")


def test_service_lines_and_arguments(process_backend: LocalBackend, tmp_path: Path) -> None:
    awkward = ("--a=b c", "$HOME", "", "é'\"\n;")
    name = submit(process_backend, snippet_job(tmp_path / "src", "import sys; print(sys.argv[1:])", *awkward))
    ended(process_backend, name)
    assert lines(process_backend, name) == [str(list(awkward))]
    service = lines(process_backend, name, "service")
    assert service[0] == "Waiting for job to be provisioned."
    assert service[-2:] == ["Finished tearing down training program.", "Job completed successfully."]
    assert "Job is running." in service


def test_environment_of_three_replicas(process_backend: LocalBackend, tmp_path: Path, home: Path) -> None:
    code = (
        "import json, os, pathlib, sys, time\n"
        "spec = json.loads(os.environ['CLUSTER_SPEC'])\n"
        "keys = 'RANK WORLD_SIZE MASTER_ADDR MASTER_PORT AIP_MODEL_DIR TMPDIR'.split()\n"
        "print(json.dumps({'message': 'x', 'spec': spec, **{k: os.environ[k] for k in keys}}))\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "(folder / os.environ['RANK']).touch()\n"
        "while len(list(folder.iterdir())) < 3: time.sleep(0.05)\n"
    )
    (tmp_path / "here").mkdir()
    job = snippet_job(
        tmp_path / "src",
        code,
        str(tmp_path / "here"),
        pools=3,
        base_output_directory=GcsDestination(output_uri_prefix="gs://demo/out/"),
    )
    name = submit(process_backend, job)
    assert ended(process_backend, name).state == states.SUCCEEDED
    entries = process_backend.logs(LogQuery(name=name)).entries
    seen = {entry.task_name: entry.json_payload for entry in entries if entry.json_payload}
    assert [seen[f"workerpool{i}-0"]["RANK"] for i in range(3)] == ["0", "1", "2"]
    primary = seen["workerpool0-0"]
    hosts = [host for pool in primary["spec"]["cluster"].values() for host in pool]
    assert len(set(hosts)) == 3
    assert primary["spec"]["open_ports"] == [int(primary["MASTER_PORT"])]
    assert primary["AIP_MODEL_DIR"] == f"{home}/buckets/demo/out/model/"
    assert len({payload["TMPDIR"] for payload in seen.values()}) == 3


def test_only_what_is_listed_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_MY_SHELL", "1")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    inherited = inherited_environment()
    assert "SECRET_OF_MY_SHELL" not in inherited
    assert "PYTHONPATH" not in inherited
    assert inherited["CUDA_VISIBLE_DEVICES"] == "0"


def test_containers_are_refused_and_fields_are_named(process_backend: LocalBackend, home: Path) -> None:
    image = WorkerPoolSpec(container_spec=ContainerSpec(image_uri="europe-docker.pkg.dev/p/r/i"))
    with pytest.raises(UnavailableError, match="run by Docker"):
        process_backend.plan(CustomJob(display_name="a", job_spec=CustomJobSpec(worker_pool_specs=(image,))))
    job = scripted(Script(), network="projects/1/global/networks/n", enable_web_access=True)
    pool = msgspec.structs.replace(
        job.job_spec.worker_pool_specs[0],
        machine_spec=MachineSpec(
            machine_type="n1-standard-4", accelerator_type="NVIDIA_TESLA_T4", accelerator_count=2
        ),
    )
    spec = msgspec.structs.replace(job.job_spec, worker_pool_specs=(pool,))
    plan = process_backend.plan(msgspec.structs.replace(job, job_spec=spec))
    assert any("NO ACCELERATOR" in notice for notice in plan.notices)
    assert plan.not_reproduced == ("machineType of workerPoolSpecs[0]", "network", "enableWebAccess")
    assert not home.exists()


def test_defaults_are_filled_in(process_backend: LocalBackend) -> None:
    pool = process_backend.plan(scripted(Script())).job.job_spec.worker_pool_specs[0]
    assert pool.replica_count == 1
    assert pool.disk_spec is not None
    assert (pool.disk_spec.boot_disk_type, pool.disk_spec.boot_disk_size_gb) == ("pd-ssd", 100)


def test_a_home_that_refuses(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    settings = BackendSettings(home=tmp_path / "file" / "home", project="local", region="us-central1")
    backend = open_backend("process", settings)
    with pytest.raises(StorageError, match=str(tmp_path)):
        backend.submit(backend.plan(scripted(Script())))


def test_questions_make_no_home(process_backend: LocalBackend, home: Path) -> None:
    assert process_backend.list(Query()).jobs == ()
    with pytest.raises(NotFoundError):
        process_backend.get("projects/local/locations/us-central1/customJobs/1")
    assert not home.exists()


def test_home_is_private_and_delete_empties_it(process_backend: LocalBackend, home: Path) -> None:
    name = submit(process_backend, scripted(Script().write("x\n")))
    ended(process_backend, name)
    assert home.stat().st_mode & 0o777 == 0o700
    assert folder_of(home, name).log("workerpool0-0").read_bytes() == b"x\n"
    with pytest.raises(ConfigError):
        process_backend.list(Query(page_token="x"))
    with pytest.raises(ConfigError, match="is not a page token"):
        process_backend.list(Query(page_token="9" * 30))
    assert process_backend.list(Query(page_size=10**30)).jobs == process_backend.list(Query()).jobs
    process_backend.delete(name)
    assert list((home / "jobs").iterdir()) == []


def test_missing_package_fails_the_job(process_backend: LocalBackend, tmp_path: Path) -> None:
    job = scripted(Script())
    task = msgspec.structs.replace(
        job.job_spec.worker_pool_specs[0].python_package_spec,
        package_uris=(f"file://{tmp_path}/none-1.0.tar.gz",),
    )
    spec = CustomJobSpec(worker_pool_specs=(WorkerPoolSpec(python_package_spec=task),))
    job = ended(process_backend, submit(process_backend, msgspec.structs.replace(job, job_spec=spec)))
    assert (job.state, reason(job)) == (states.FAILED, "ENVIRONMENT_FAILED")
    assert job.error is not None
    assert (job.error.code, "none-1.0.tar.gz" in job.error.message) == (3, True)


def test_the_document_in_the_store_is_the_apis_json(process_backend: LocalBackend, home: Path) -> None:
    import sqlite3

    name = submit(process_backend, scripted(Script().exit(2)))
    ended(process_backend, name)
    connection = sqlite3.connect(home / "store.db")
    document = json.loads(connection.execute("SELECT document FROM resources").fetchone()[0])
    connection.close()
    assert document["jobSpec"]["workerPoolSpecs"][0]["replicaCount"] == "1"
    assert document["error"]["details"][0]["metadata"]["exitCode"] == "2"


def test_the_log_of_a_removed_folder_says_so_once(tmp_path: Path) -> None:
    settings = BackendSettings(home=tmp_path / "home", project="local", region="us-central1")
    backend = open_backend("process", settings)
    name = backend.submit(backend.plan(script_job(Script().write("x\n")))).name
    ended(backend, name)
    shutil.rmtree(tmp_path / "home" / "jobs")
    page = backend.logs(LogQuery(name=name))
    assert [entry.message for entry in page.entries] == ["The log is gone: its folder was removed."]
    assert backend.logs(LogQuery(name=name, cursor=page.cursor)).entries == ()


def test_deletes_at_once_do_not_trip_over_each_other(process_backend: LocalBackend, home: Path) -> None:
    name = submit(process_backend, scripted(Script()))
    ended(process_backend, name)
    for number in range(300):
        (folder_of(home, name).path / "replicas" / f"file{number}").touch()
    errors: list[Exception] = []
    barrier = threading.Barrier(4)

    def delete() -> None:
        backend = open_backend("process", BackendSettings(home=home, project="local", region="us-central1"))
        assert isinstance(backend, LocalBackend)
        barrier.wait()
        try:
            backend.delete(name)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=delete) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [error for error in errors if not isinstance(error, NotFoundError)] == []
    assert not folder_of(home, name).path.exists()
    with pytest.raises(NotFoundError):
        process_backend.get(name)


def test_a_machine_that_takes_no_further_process_is_said_and_the_job_is_kept(
    process_backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = process_backend.plan(scripted(Script().write("x\n")))
    with monkeypatch.context() as context:
        context.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(StorageError, match="No process can be started") as refused:
            process_backend.submit(plan)
        assert "kept" in str(refused.value.hint)
        (job,) = process_backend.list(Query(project="local")).jobs
        with pytest.raises(StorageError, match="No process can be started"):
            wait_until(lambda: bool(process_backend.look_after(job.name)))
    assert ended(process_backend, job.name).state == states.SUCCEEDED


def test_a_backend_that_nobody_holds_has_closed_its_store(home: Path) -> None:
    """Without waiting for the garbage collector: a program may open thousands of backends."""

    def open_here() -> list[str]:
        files = []
        for link in Path("/proc/self/fd").iterdir():
            with suppress(FileNotFoundError):  # that of the folder itself
                files.append(str(link.readlink()))
        return [file for file in files if file.startswith(f"{home}/")]

    gc.disable()
    try:
        backend = open_backend("process", BackendSettings(home=home, project="local", region="us-central1"))
        assert isinstance(backend, LocalBackend)
        name = submit(backend, scripted(Script()))
        assert ended(backend, name).state == states.SUCCEEDED
        assert [job.name for job in backend.list(Query()).jobs] == [name]
        assert open_here()
        del backend
        assert open_here() == []
    finally:
        gc.enable()
