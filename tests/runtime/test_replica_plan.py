"""The plan of what replicas see: over a world of a test's own, and over those of process and docker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vtrain.backends import BackendSettings, ReplicaOptions
from vtrain.backends.docker.container import container_orders
from vtrain.backends.docker.docker_part import with_docker_part
from vtrain.backends.docker.docker_plan import DockerPlanner
from vtrain.backends.local_plan import PLANNED_JOB_ID, planned_order
from vtrain.backends.process.process_launcher import ProcessLauncher
from vtrain.backends.process.process_plan import ProcessPlanner
from vtrain.containers.discovery import EngineAddress
from vtrain.errors import EngineError
from vtrain.messages.custom_job import (
    ContainerSpec,
    CustomJob,
    CustomJobSpec,
    EnvVar,
    PythonPackageSpec,
    WorkerPoolSpec,
)
from vtrain.messages.structs import GcsDestination
from vtrain.runtime.debugging import Debugger
from vtrain.runtime.home import Home
from vtrain.runtime.job_order import JobOrder, LentTerminal
from vtrain.runtime.launching import Runtime
from vtrain.runtime.replica.replica_plan import ReplicaView, World, replica_views
from vtrain.runtime.replica.vertex_view import replica_ids

PACKAGE = PythonPackageSpec(
    executor_image_uri="an/image",
    python_module="trainer.task",
    args=("--a=b",),
    env=(EnvVar(name="TERM", value="dumb"), EnvVar(name="PYTHONPATH", value="/mine")),
)


def order_of(*tasks: PythonPackageSpec | ContainerSpec, **fields: Any) -> JobOrder:
    pools = tuple(
        WorkerPoolSpec(replica_count=1, python_package_spec=task)
        if isinstance(task, PythonPackageSpec)
        else WorkerPoolSpec(replica_count=1, container_spec=task)
        for task in tasks
    )
    job = CustomJob(job_spec=CustomJobSpec(worker_pool_specs=pools))
    name = "projects/local/locations/us-central1/customJobs/1"
    return JobOrder(home="/home", name=name, job=job, backend="own", grace_seconds=1.0, **fields)


def seen(order: JobOrder, **fields: Any) -> tuple[ReplicaView, ...]:
    members = replica_ids(order.job.job_spec)
    hosts = {member: f"host{n}:2222" for n, member in enumerate(members)}
    files = {member: f"/reports/{member.name}" for member in members}
    world = World(hosts=hosts, folder=str.upper, work="/work", metric_files=files, **fields)
    return replica_views(order, world)


def test_the_output_of_packages_comes_at_once() -> None:
    package, container = seen(order_of(PACKAGE, ContainerSpec(image_uri="a")), package_variables={"A": "1"})
    assert (package.env["PYTHONUNBUFFERED"], package.env["A"]) == ("1", "1")
    assert not {"PYTHONUNBUFFERED", "A"} & container.env.keys()


def test_the_users_variables_take_the_place_of_the_machines() -> None:
    terminal = LentTerminal(
        columns=80, lines=24, stdout=True, stderr=True, variables={"TERM": "xterm", "COLORTERM": "x"}
    )
    (view,) = seen(order_of(PACKAGE), variables={"TERM": "vt100"}, terminal=terminal)
    assert (view.surroundings["TERM"], view.env["TERM"], view.env["COLORTERM"]) == ("xterm", "dumb", "x")


def test_the_code_comes_first_on_the_path_of_modules_unless_the_interpreter_finds_it_itself() -> None:
    runtimes = (Runtime(python="/env/bin/python", path_entries=("/env/bin",), site="/site"),)
    (view,) = seen(order_of(PACKAGE), runtimes=runtimes, variables={"PATH": "/bin"})
    assert (view.env["PYTHONPATH"], view.env["PATH"]) == ("/site:/mine", "/env/bin:/bin")
    assert view.argv == ("/env/bin/python", "-m", "trainer.task", "--a=b")
    (view,) = seen(order_of(PACKAGE), runtimes=runtimes, site="/opt/site")
    assert view.env["PYTHONPATH"] == "/mine"


def test_credentials_are_named_or_not_looked_for() -> None:
    (view,) = seen(order_of(PACKAGE), credentials="/key.json")
    assert view.env["GOOGLE_APPLICATION_CREDENTIALS"] == "/key.json"
    assert "NO_GCE_CHECK" not in view.env
    (view,) = seen(order_of(PACKAGE))
    assert view.env["NO_GCE_CHECK"] == "true"


@pytest.mark.parametrize(("variables", "direct"), [({}, "here"), ({"NO_PROXY": "a.b"}, "a.b,here")])
def test_no_proxy_is_asked_for_cloud_storage_of_this_machine(variables: dict[str, str], direct: str) -> None:
    storage = {"STORAGE_EMULATOR_HOST": "http://here", "NO_PROXY": "here", "no_proxy": "here"}
    (view,) = seen(order_of(PACKAGE), variables=variables, storage=storage)
    assert "NO_GCE_CHECK" not in view.env  # its own metadata server is looked for
    assert view.env["NO_PROXY"] == view.env["no_proxy"] == f"{direct},host0"


def test_each_replica_has_its_own_file_for_measurements() -> None:
    primary, worker = seen(order_of(PACKAGE, PACKAGE, trial_id="1"))
    assert primary.env["CLOUD_ML_HP_METRIC_FILE"] == "/reports/workerpool0-0"
    assert worker.env["CLOUD_ML_HP_METRIC_FILE"] == "/reports/workerpool1-0"
    (plain,) = seen(order_of(PACKAGE))
    assert plain.env["CLOUD_ML_HP_METRIC_FILE"] == "/reports/workerpool0-0"
    assert "CLOUD_ML_HP_METRIC_FILE" not in plain.variables, "Vertex AI sets it in trials alone"


def test_only_a_replica_with_devices_of_its_own_is_told_them() -> None:
    order = order_of(PACKAGE, PACKAGE)
    first, second = replica_ids(order.job.job_spec)
    chosen, free = seen(order, devices={first: ("GPU-a", "GPU-b")})
    assert chosen.env["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    assert "CUDA_VISIBLE_DEVICES" not in free.env
    assert seen(order, devices={second: ()})[1].env["CUDA_VISIBLE_DEVICES"] == ""


def test_the_primary_runs_under_the_debugger() -> None:
    order = order_of(PACKAGE, PACKAGE, debugger=Debugger(port=5678))
    planned, _ = seen(order)
    assert planned.argv[:3] == ("python3", "-m", "debugpy")
    assert "IDE_PROJECT_ROOTS" not in planned.env
    primary, worker = seen(order, debugger_host="0.0.0.0")
    assert (primary.argv[1], primary.argv[3]) == ("-c", "0.0.0.0:5678")
    assert "IDE_PROJECT_ROOTS" in primary.env
    assert worker.argv == ("python3", "-m", "trainer.task", "--a=b")


def planned(tmp_path: Path) -> tuple[CustomJob, BackendSettings]:
    output = GcsDestination(output_uri_prefix="gs://bucket/out")
    pools = (WorkerPoolSpec(replica_count=1, python_package_spec=PACKAGE),)
    job = CustomJob(job_spec=CustomJobSpec(worker_pool_specs=pools, base_output_directory=output))
    return job, BackendSettings(home=tmp_path, project="local", region="us-central1")


def test_what_is_shown_of_a_process_is_what_runs(tmp_path: Path) -> None:
    job, settings = planned(tmp_path)
    (shown,) = ProcessPlanner(settings).view(job)
    order = planned_order(job, settings)
    folder = Home(tmp_path).job(PLANNED_JOB_ID)
    (runs,) = ProcessLauncher().replica_orders(order, folder, (Runtime(python="python3"),), {}).values()
    port_free = shown.env.keys() - {"CLUSTER_SPEC"}
    assert {name: runs.env[name] for name in port_free} == {name: shown.env[name] for name in port_free}
    assert runs.argv == shown.argv


def test_what_is_shown_of_a_container_is_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_engine() -> EngineAddress:
        raise EngineError("There is none.")

    monkeypatch.setattr("vtrain.backends.docker.docker_plan.find_local_engine", no_engine)
    job, settings = planned(tmp_path)
    (shown,) = DockerPlanner(settings).view(job)
    engine = EngineAddress(host="unix:///nowhere", origin="a test")
    order = with_docker_part(planned_order(job, settings), engine, ReplicaOptions())
    folder = Home(tmp_path).job(PLANNED_JOB_ID)
    info = {"NCPU": 2, "MemTotal": 2**34}
    (runs,) = container_orders(info, order, folder, (Runtime(image="an/image"),), {}, {}, "").values()
    host, *env = (f"{name}={value}" for name, value in shown.env.items())
    assert (host, env) == (f"HOSTNAME={runs.config['Hostname']}", runs.config["Env"])
    assert runs.config["Entrypoint"] == list(shown.argv)
