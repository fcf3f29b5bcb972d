"""What only real containers show: entry points, networks, limits, mounts, and ways to lose a part of it."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from docker_jobs import docker_job, docker_settings
from lib.local_jobs import PRIMARY, ended, folder_of, info, kill, kill_supervisor, lines, submit
from lib.supervisors import supervisor_of
from lib.waiting import wait_until

from vtrain.backends import Mount, Ulimit
from vtrain.backends.docker import container, install
from vtrain.backends.docker.container import container_name, network_name
from vtrain.backends.docker.container_life import REMOVED, STOPPED
from vtrain.backends.local import LocalBackend
from vtrain.backends.registry import open_backend
from vtrain.containers.build import BuildRequest, build_image
from vtrain.containers.engine import JOB_LABEL, Engine
from vtrain.containers.images import remove_image
from vtrain.errors import ConfigError, EngineError, ImageError
from vtrain.http_limits import LARGEST_ANSWER
from vtrain.messages import states
from vtrain.messages.custom_job import (
    ContainerSpec,
    CustomJob,
    CustomJobSpec,
    EnvVar,
    GcsDestination,
    MachineSpec,
    PythonPackageSpec,
    Scheduling,
    WorkerPoolSpec,
)
from vtrain.runtime.replica.vertex_view import ReplicaId, host_name
from vtrain.testing.script import Script

pytestmark = pytest.mark.docker


def pool(image: str, *command: str, args: tuple[str, ...] = (), **fields: object) -> WorkerPoolSpec:
    return WorkerPoolSpec(container_spec=ContainerSpec(image_uri=image, command=command, args=args), **fields)


def shell(image: str, script: str, **fields: object) -> WorkerPoolSpec:
    return pool(image, "sh", "-c", script, **fields)


def python(image: str, code: str, **fields: object) -> WorkerPoolSpec:
    return pool(image, "python3", "-u", "-c", code, **fields)


def job_of(*pools: WorkerPoolSpec, **spec: object) -> CustomJob:
    return CustomJob(display_name="test", job_spec=CustomJobSpec(worker_pool_specs=pools, **spec))


def run(backend: LocalBackend, *pools: WorkerPoolSpec, **spec: object) -> CustomJob:
    return ended(backend, submit(backend, job_of(*pools, **spec)))


def message(job: CustomJob) -> str:
    assert job.error is not None, job
    return job.error.message


def id_of(name: str) -> str:
    return name.rpartition("/")[2]


@pytest.fixture
def greeting_image(docker_engine: Engine, base_image: str) -> Iterator[str]:
    """An image with an ENTRYPOINT and a CMD, which runs as another user than root."""
    name = f"vtrain-test/greeting:{os.getpid()}"
    lines_of = (f"FROM {base_image}", f"LABEL test={name}", "USER 1234:1234", "WORKDIR /tmp")
    program = 'ENTRYPOINT ["echo", "hello"]\nCMD ["world"]\n'
    dockerfile = "\n".join((*lines_of, program))
    build_image(docker_engine, BuildRequest(tags=(name,), dockerfile=dockerfile), lambda _line: None)
    yield name
    remove_image(docker_engine, name)


# what runs


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        ((), (), "hello world"),
        ((), ("you",), "hello you"),
        (("echo", "own"), (), "own"),
        (("echo", "own"), ("a b", "$HOME"), "own a b $HOME"),
    ],
)
def test_entry_points(
    docker_backend: LocalBackend,
    greeting_image: str,
    command: tuple[str, ...],
    args: tuple[str, ...],
    expected: str,
) -> None:
    job = run(docker_backend, pool(greeting_image, *command, args=args))
    assert job.state == states.SUCCEEDED
    assert lines(docker_backend, job.name) == [expected]
    (replica,) = docker_backend.plan(job_of(pool(greeting_image, *command, args=args))).replicas
    assert " ".join(replica.argv) in (expected, f"echo {expected}")


def test_the_environment_is_vertex_ais(docker_backend: LocalBackend, base_image: str) -> None:
    spec = python(base_image, "import json, os; print(json.dumps(dict(os.environ)))", replica_count=1)
    task = msgspec.structs.replace(
        spec.container_spec, env=(EnvVar(name="REGION", value="$(CLOUD_ML_REGION)"),)
    )
    spec = msgspec.structs.replace(spec, container_spec=task)
    output = GcsDestination(output_uri_prefix="gs://models/run")
    job = run(docker_backend, spec, base_output_directory=output)
    env = json.loads(lines(docker_backend, job.name)[0])
    host = host_name(id_of(job.name), ReplicaId(0, 0))
    assert json.loads(env["CLUSTER_SPEC"])["cluster"] == {"chief": [f"{host}:2222"]}
    assert env["HOSTNAME"] == host
    assert env["AIP_MODEL_DIR"] == "gs://models/run/model/"
    assert (env["REGION"], env["CLOUD_ML_JOB_ID"]) == ("us-central1", id_of(job.name))
    assert "GOOGLE_APPLICATION_CREDENTIALS" not in env


PEERS = """
import json, os, socket, sys, time
spec = json.loads(os.environ["CLUSTER_SPEC"])
own = spec["task"]
hosts = [address.split(":")[0] for pool in sorted(spec["cluster"]) for address in spec["cluster"][pool]]
server = socket.create_server(("", 2222))
deadline = time.time() + 120
def ask(host):
    while True:
        try:
            return socket.create_connection((host, 2222), 5).recv(100).decode()
        except OSError:
            if time.time() > deadline:
                raise
            time.sleep(0.05)
if own["type"] == "workerpool0":
    print(" ".join(ask(host) for host in hosts[1:]))
else:
    while True:
        server.accept()[0].sendall(f'{own["type"]}-{own["index"]}'.encode())
"""


def test_replicas_reach_each_other_by_name(docker_backend: LocalBackend, base_image: str) -> None:
    job = run(docker_backend, python(base_image, PEERS), python(base_image, PEERS, replica_count=2))
    assert job.state == states.SUCCEEDED, message(job)
    assert lines(docker_backend, job.name) == ["workerpool1-0 workerpool1-1"]


def test_a_replica_alone_uses_the_engines_default_bridge(
    docker_backend: LocalBackend, docker_engine: Engine, base_image: str
) -> None:
    own_name = "import socket, time; print(socket.gethostbyname(socket.gethostname()), flush=True)"
    name = submit(docker_backend, job_of(python(base_image, f"{own_name}; time.sleep(3600)")))
    wait_until(lambda: lines(docker_backend, name))
    found = docker_engine.client.inspect_container(container_name(id_of(name), PRIMARY))
    (network,) = found["NetworkSettings"]["Networks"].values()
    assert found["HostConfig"]["NetworkMode"] == "bridge"
    assert found["Config"]["Hostname"] == host_name(id_of(name), ReplicaId(0, 0))
    assert lines(docker_backend, name) == [network["IPAddress"]]
    assert not docker_engine.client.networks(names=[network_name(id_of(name))])
    docker_backend.cancel(name)
    ended(docker_backend, name)


def test_another_jobs_containers_are_out_of_reach(
    docker_backend: LocalBackend, docker_engine: Engine, base_image: str
) -> None:
    serve = "import socket; s = socket.create_server(('', 2222)); print('ready')\nwhile True: s.accept()"
    name = submit(
        docker_backend, job_of(python(base_image, serve), python(base_image, "import time; time.sleep(3600)"))
    )
    wait_until(lambda: lines(docker_backend, name) == ["ready"])
    state = docker_engine.client.inspect_container(container_name(id_of(name), PRIMARY))
    address = state["NetworkSettings"]["Networks"][network_name(id_of(name))]["IPAddress"]
    reach = (
        "import socket, sys\n"
        "for host in sys.argv[1:]:\n"
        "    try: socket.create_connection((host, 2222), 2); print('reached')\n"
        "    except OSError as error: print(type(error).__name__)\n"
    )
    host = host_name(id_of(name), ReplicaId(0, 0))
    job = run(docker_backend, python(base_image, reach, args=()), python(base_image, "pass"))
    other = pool(base_image, "python3", "-c", reach, args=(host, address))
    job = run(docker_backend, other)
    assert lines(docker_backend, job.name) == ["gaierror", "TimeoutError"]
    docker_backend.cancel(name)
    ended(docker_backend, name)


# limits, mounts and options


def test_limits_come_from_the_machine_type(
    docker_backend: LocalBackend, docker_engine: Engine, base_image: str
) -> None:
    machine = MachineSpec(machine_type="n1-highcpu-96")
    plan = docker_backend.plan(job_of(pool(base_image, "sleep", "60", machine_spec=machine)))
    assert any("n1-highcpu-96" in note for note in plan.notes)
    name = docker_backend.submit(plan).name
    wait_until(lambda: docker_backend.get(name).state == states.RUNNING)
    host = docker_engine.client.inspect_container(container_name(id_of(name), PRIMARY))["HostConfig"]
    machine_info = docker_engine.info()
    assert host["NanoCpus"] == machine_info["NCPU"] * 10**9
    assert 0.9 * machine_info["MemTotal"] < host["Memory"] < machine_info["MemTotal"]
    assert host["MemorySwap"] == host["Memory"]
    assert host["ShmSize"] == host["Memory"] // 2
    assert (host["Init"], host["RestartPolicy"]["Name"]) == (True, "no")
    docker_backend.cancel(name)
    ended(docker_backend, name)


def test_options_reach_the_container(docker_home: Path, base_image: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a b.txt").write_text("there\n")
    options = {
        "mounts": (
            Mount(source=str(tmp_path / "data"), target="/data", read_only=True),
            Mount(type="tmpfs", target="/scratch", tmpfs_size=1024 * 1024),
        ),
        "shm_size": 32 * 1024 * 1024,
        "user": "4321:4321",
        "add_hosts": ("elsewhere:192.0.2.7",),
        "ulimits": (Ulimit(name="nofile", soft=100, hard=200),),
    }
    backend = open_backend("docker", docker_settings(docker_home, **options))
    assert isinstance(backend, LocalBackend)
    script = (
        "cat '/data/a b.txt'; id -u; df -m /dev/shm /scratch | tail -2 | tr -s ' ' | cut -d' ' -f2; "
        "ulimit -n; grep elsewhere /etc/hosts; sleep 0.3; touch /data/x"
    )
    job = run(backend, shell(base_image, script))
    found = lines(backend, job.name)
    assert found[:5] == ["there", "4321", "32", "1", "100"]
    assert found[5].split() == ["192.0.2.7", "elsewhere"]
    assert job.state == states.FAILED
    assert "Read-only file system" in message(job)


def test_buckets_are_mounted_and_the_caller_can_delete(
    docker_backend: LocalBackend, docker_home: Path, greeting_image: str
) -> None:
    script = (
        'cd "/gcs/${AIP_MODEL_DIR#gs://}" && mkdir -p deep && echo weights > deep/model '
        "&& cat /gcs/data/input && id -u"
    )
    data = docker_home / "buckets" / "data"
    data.mkdir(parents=True)
    (data / "input").write_text("rows\n")
    output = GcsDestination(output_uri_prefix="gs://models/run")
    job = run(docker_backend, shell(greeting_image, script), base_output_directory=output)
    assert lines(docker_backend, job.name) == ["rows", "1234"], message(job)
    model = docker_home / "buckets" / "models" / "run" / "model" / "deep" / "model"
    assert model.read_text() == "weights\n"


TAMPERING = """
import os

path = os.environ["GOOGLE_APPLICATION_CREDENTIALS"]
ways = {
    "write": lambda: open(path, "w").write("mine"),
    "append": lambda: open(path, "a").write("mine"),
    "truncate": lambda: os.truncate(path, 0),
    "chmod": lambda: os.chmod(path, 0o666),
    "chown": lambda: os.chown(path, 1, 1),
    "times": lambda: os.utime(path),
    "unlink": lambda: os.unlink(path),
    "rename": lambda: os.replace(path, path + ".old"),
}
for name, act in ways.items():
    try:
        act()
        print(name, "done")
    except OSError as error:
        print(name, "refused")
print("whole:", open(path).read())
"""


def test_a_trainer_cannot_change_the_credentials(docker_home: Path, base_image: str, tmp_path: Path) -> None:
    """Root in a container, which no mode of a file stops."""
    file = tmp_path / "key.json"
    file.write_text("the caller's")
    file.chmod(0o666)
    backend = open_backend("docker", docker_settings(docker_home, credentials_file=str(file)))
    assert isinstance(backend, LocalBackend)
    before = file.stat()
    job = run(backend, python(base_image, TAMPERING))
    *tried, whole = lines(backend, job.name)
    assert job.state == states.SUCCEEDED
    assert len(tried) == 8 and all(line.endswith(" refused") for line in tried), tried
    assert whole == "whole: the caller's"
    after = file.stat()
    assert (after.st_mtime_ns, after.st_ctime_ns, after.st_mode) == (
        before.st_mtime_ns,
        before.st_ctime_ns,
        before.st_mode,
    )


def test_credentials_only_when_asked(docker_home: Path, base_image: str, tmp_path: Path) -> None:
    (tmp_path / "key.json").write_text('{"type": "authorized_user"}\n')
    settings = docker_settings(docker_home, credentials_file=str(tmp_path / "key.json"))
    backend = open_backend("docker", settings)
    assert isinstance(backend, LocalBackend)
    job = run(backend, shell(base_image, 'cat "$GOOGLE_APPLICATION_CREDENTIALS"'))
    assert lines(backend, job.name) == ['{"type": "authorized_user"}']


# ends that are told apart


def test_out_of_memory(docker_home: Path, base_image: str) -> None:
    backend = open_backend("docker", docker_settings(docker_home, memory_bytes=64 * 1024 * 1024))
    assert isinstance(backend, LocalBackend)
    job = run(backend, python(base_image, "x = b'x' * 10**9; print(len(x))"))
    assert job.error is not None
    assert job.error.code == 8
    assert "Replicas low on memory: workerpool0" in message(job)


def test_an_image_that_does_not_exist(docker_home: Path, docker_backend: LocalBackend) -> None:
    missing = job_of(pool("vtrain-test/there-is-none:1"))
    with pytest.raises(ImageError, match="vtrain-test/there-is-none:1 is not here"):
        docker_backend.plan(missing)
    backend = open_backend("docker", docker_settings(docker_home, pull="missing"))
    assert isinstance(backend, LocalBackend)
    job = ended(backend, submit(backend, job_of(pool("127.0.0.1:9/there-is-none:1"))))
    assert (job.state, info(job)["reason"]) == (states.FAILED, "ENVIRONMENT_FAILED")
    assert "127.0.0.1:9/there-is-none:1" in message(job)


@pytest.mark.parametrize(
    ("program", "code", "words"),
    [("/no/such/program", "127", "no such file or directory"), ("/etc/passwd", "126", "permission denied")],
)
def test_programs_that_cannot_be_started(
    docker_backend: LocalBackend, base_image: str, program: str, code: str, words: str
) -> None:
    job = run(docker_backend, pool(base_image, program))
    assert (info(job)["reason"], info(job)["exitCode"]) == ("START_FAILED", code)
    assert words in message(job).lower()


def test_no_image_and_no_engine(docker_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = open_backend("docker", docker_settings(docker_home))
    with pytest.raises(ConfigError, match="imageUri: is required"):
        backend.plan(job_of(pool("")))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    with pytest.raises(EngineError, match=r"unix:///nonexistent/docker\.sock"):
        open_backend("docker", docker_settings(docker_home)).plan(job_of(pool("image")))
    monkeypatch.setenv("DOCKER_HOST", "ssh://somebody@192.0.2.1")
    with pytest.raises(EngineError, match="is on another machine"):
        open_backend("docker", docker_settings(docker_home)).plan(job_of(pool("image")))


def test_stopped_or_removed_by_somebody_else(
    docker_backend: LocalBackend, docker_engine: Engine, base_image: str
) -> None:
    for act, words in (
        (docker_engine.client.kill, STOPPED),
        (docker_engine.client.stop, STOPPED),
        (lambda name: docker_engine.client.remove_container(name, force=True), REMOVED),
    ):
        sleeper = python(base_image, "import time; print('x'); time.sleep(600)")
        name = submit(docker_backend, job_of(sleeper, scheduling=Scheduling(disable_retries=True)))
        wait_until(lambda name=name: lines(docker_backend, name) == ["x"])  # type: ignore[misc]
        act(container_name(id_of(name), PRIMARY))
        job = ended(docker_backend, name)
        assert (job.state, info(job)["reason"]) == (states.FAILED, "REPLICA_INTERRUPTED"), message(job)
        assert words in message(job)


def test_nothing_runs_on_whose_folder_was_removed(
    docker_backend: LocalBackend, docker_home: Path, base_image: str
) -> None:
    """The home's fixtures see to it that no container, network or process is left."""
    name = submit(docker_backend, job_of(python(base_image, "import time; print('x'); time.sleep(600)")))
    wait_until(lambda: lines(docker_backend, name) == ["x"])
    folder = docker_home / "jobs" / id_of(name)
    folder.rename(docker_home / "aside")
    shutil.rmtree(docker_home / "aside")
    assert info(ended(docker_backend, name))["reason"] == "SUPERVISION_LOST"


def test_the_program_in_the_image_knows_the_same_places() -> None:
    assert (install.SITE, install.USER_BASE) == (container.SITE, container.USER_BASE)


# what is killed, and goes on


def test_a_killed_supervisor_is_replaced_and_nothing_is_lost(
    docker_backend: LocalBackend, docker_home: Path, base_image: str
) -> None:
    count = (
        "import os, time\nfor i in range(4000):\n    print(i)\n    time.sleep(0.002)\n"
        "while not os.path.exists('/gcs/marks/go'): time.sleep(0.05)\nraise SystemExit(4)"
    )
    (docker_home / "buckets" / "marks").mkdir(parents=True)
    name = submit(docker_backend, job_of(python(base_image, count)))
    killed = 0
    while not states.has_ended(docker_backend.get(name).state):
        time.sleep(0.4 + 0.3 * (killed % 3))
        supervisor = supervisor_of(folder_of(docker_home, name))
        if supervisor and killed < 8:
            kill(supervisor)
            killed += 1
            if killed == 4:
                (docker_home / "buckets" / "marks" / "go").touch()
    job = docker_backend.get(name)
    assert killed > 1
    assert (job.state, info(job)["exitCode"]) == (states.FAILED, "4")
    assert lines(docker_backend, name) == [str(number) for number in range(4000)]


def test_an_exit_that_nobody_watched_is_found(
    docker_backend: LocalBackend, docker_home: Path, docker_engine: Engine, base_image: str
) -> None:
    marks = docker_home / "buckets" / "marks"
    marks.mkdir(parents=True)
    script = "echo begun; until [ -e /gcs/marks/go ]; do sleep 0.05; done; echo over; exit 7"
    name = submit(docker_backend, job_of(shell(base_image, script)))
    wait_until(lambda: lines(docker_backend, name) == ["begun"])
    kill_supervisor(folder_of(docker_home, name))
    (marks / "go").touch()
    docker_engine.client.wait(container_name(id_of(name), PRIMARY))
    job = ended(docker_backend, name)
    assert (job.state, info(job)["exitCode"]) == (states.FAILED, "7")
    assert lines(docker_backend, name) == ["begun", "over"]


def test_a_supervisor_killed_while_it_starts(
    docker_backend: LocalBackend, docker_home: Path, base_image: str
) -> None:
    killed = 0
    for delay in (0.05, 0.15, 0.25, 0.35, 0.5):
        name = submit(docker_backend, job_of(shell(base_image, "echo once"), shell(base_image, "sleep 30")))
        time.sleep(delay)
        supervisor = supervisor_of(folder_of(docker_home, name))
        if supervisor:
            kill(supervisor)
            killed += 1
        job = ended(docker_backend, name)
        assert job.state == states.SUCCEEDED, (delay, job)
        assert lines(docker_backend, name) == ["once"]
    assert killed > 0


def test_containers_carry_labels(
    docker_backend: LocalBackend, docker_engine: Engine, base_image: str
) -> None:
    name = submit(docker_backend, job_of(pool(base_image, "sleep", "60"), pool(base_image, "sleep", "60")))
    wait_until(lambda: docker_backend.get(name).state == states.RUNNING)
    found = docker_engine.client.containers(filters={"label": f"{JOB_LABEL}={id_of(name)}"})
    assert sorted(c["Labels"]["vtrain.replica"] for c in found) == ["workerpool0-0", "workerpool1-0"]
    docker_backend.cancel(name)
    assert ended(docker_backend, name).state == states.CANCELLED


def test_scripted_job_with_a_long_line_and_bytes_that_are_no_text(
    docker_backend: LocalBackend, base_image: str
) -> None:
    code = "import sys; sys.stdout.buffer.write(b'x' * 100_000 + 'Grüße 🙂\\r\\n'.encode() + b'no newline')"
    job = run(docker_backend, python(base_image, code))
    assert lines(docker_backend, job.name) == ["x" * 100_000 + "Grüße 🙂\r", "no newline"]


def test_a_line_longer_than_any_answer_of_the_engine(
    docker_backend: LocalBackend, docker_home: Path, base_image: str
) -> None:
    """Its pieces bear one time: the end of the log cannot be told by a tail that fits into memory."""
    size = LARGEST_ANSWER + (6 << 20)
    name = submit(docker_backend, job_of(python(base_image, f"print('x' * {size})")))
    assert ended(docker_backend, name).state == states.SUCCEEDED
    assert (folder_of(docker_home, name).path / "logs" / f"{PRIMARY}.0.log").stat().st_size == size + 1


def test_a_script_follows_its_image(docker_backend: LocalBackend, base_image: str) -> None:
    job = ended(docker_backend, submit(docker_backend, docker_job(base_image, Script().write("x\n"))))
    assert lines(docker_backend, job.name) == ["x"]


def test_a_user_of_ones_own_finds_the_packages(
    docker_home: Path, base_image: str, tmp_path: Path, docker_engine: Engine
) -> None:
    from vtrain.packaging.sdist import build_sdist, plan_sdist
    from vtrain.packaging.source import TrainerSource

    (tmp_path / "code" / "trainer").mkdir(parents=True)
    (tmp_path / "code" / "trainer" / "task.py").write_text("import os; print('here', os.getuid())\n")
    source = TrainerSource(folder=tmp_path / "code", python_module="trainer.task")
    built = build_sdist(plan_sdist(source), tmp_path / "packages")
    task = PythonPackageSpec(
        executor_image_uri=base_image, package_uris=(f"file://{built.sdist}",), python_module="trainer.task"
    )
    backend = open_backend("docker", docker_settings(docker_home, user="1234:1234"))
    assert isinstance(backend, LocalBackend)
    job = run(backend, WorkerPoolSpec(python_package_spec=task))
    assert lines(backend, job.name) == ["here 1234"], message(job)


@pytest.fixture
def own_user_image(docker_engine: Engine, base_image: str) -> Iterator[str]:
    """An image that runs as a user who has a home, with a PATH of its own."""
    name = f"vtrain-test/own-user:{os.getpid()}"
    text = (
        f'FROM {base_image}\nENV HOME=/home/me\nENV PATH="/only here:$PATH"\n'
        "RUN mkdir -p /home/me && chown 1234 /home/me\nUSER 1234\n"
    )
    build_image(docker_engine, BuildRequest(tags=(name,), dockerfile=text), lambda _line: None)
    yield name
    remove_image(docker_engine, name)


COMMAND_SETUP = """
from setuptools import setup
commands = {"console_scripts": ["penguins-say=penguins:say"]}
setup(name="penguins", version="1", py_modules=["penguins"], entry_points=commands)
"""
COMMAND_CODE = """
import os, subprocess
def say():
    print("said by", os.getuid())
if __name__ == "__main__":
    subprocess.run(["penguins-say"], check=True)
    print(os.environ["PATH"].endswith(":/bin"), "/only here" in os.environ["PATH"])
"""


@pytest.mark.pages
def test_commands_of_packages_are_on_the_path(
    docker_home: Path, base_image: str, own_user_image: str, tmp_path: Path
) -> None:
    """As on process: for root, for a user of one's own, and for the user of an image."""
    from vtrain.packaging.sdist import build_sdist, plan_sdist
    from vtrain.packaging.source import TrainerSource

    (tmp_path / "setup.py").write_text(COMMAND_SETUP)
    (tmp_path / "penguins.py").write_text(COMMAND_CODE)
    source = TrainerSource(folder=tmp_path, python_module="penguins")
    built = build_sdist(plan_sdist(source), docker_home.parent / "packages")
    for image, user, uid in (
        (base_image, "", "0"),
        (base_image, "1234", "1234"),
        (own_user_image, "", "1234"),
    ):
        task = PythonPackageSpec(
            executor_image_uri=image, package_uris=(f"file://{built.sdist}",), python_module="penguins"
        )
        backend = open_backend("docker", docker_settings(docker_home, user=user))
        assert isinstance(backend, LocalBackend)
        job = run(backend, WorkerPoolSpec(python_package_spec=task))
        assert job.state == states.SUCCEEDED, message(job)
        assert lines(backend, job.name) == [f"said by {uid}", f"True {image == own_user_image}"]


def test_the_earliest_end_decides_whoever_is_read_first(
    docker_backend: LocalBackend, docker_home: Path, docker_engine: Engine, base_image: str
) -> None:
    marks = docker_home / "buckets" / "marks"
    marks.mkdir(parents=True)
    wait = "until [ -e /gcs/marks/{0} ]; do sleep 0.05; done"
    log = 'for i in range(200000): print(i, "x" * 60)'
    worker = f"{wait.format('worker')}; python3 -c '{log}'; exit 5"
    primary = f"echo begun; {wait.format('primary')}; exit 0"
    name = submit(docker_backend, job_of(shell(base_image, primary), shell(base_image, worker)))
    wait_until(lambda: docker_backend.get(name).state == states.RUNNING)
    kill_supervisor(folder_of(docker_home, name))
    for task, mark in (("workerpool1-0", "worker"), (PRIMARY, "primary")):
        (marks / mark).touch()
        docker_engine.client.wait(container_name(id_of(name), task), timeout=300)
    job = ended(docker_backend, name)
    assert (job.state, info(job)["replica"], info(job)["exitCode"]) == (states.FAILED, "workerpool1-0", "5")


@pytest.mark.parametrize("number", ["USR1", "HUP", "WINCH"])
def test_a_signal_that_a_trainer_lives_through_is_no_end(
    docker_backend: LocalBackend, docker_engine: Engine, base_image: str, number: str
) -> None:
    script = "trap : USR1 HUP WINCH; echo ready; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; done; exit 0"
    name = submit(docker_backend, job_of(shell(base_image, script)))
    wait_until(lambda: lines(docker_backend, name) == ["ready"])
    docker_engine.client.kill(container_name(id_of(name), PRIMARY), f"SIG{number}")
    assert ended(docker_backend, name).state == states.SUCCEEDED


@pytest.mark.pages
def test_a_supervisor_killed_while_a_runtime_image_is_built(
    docker_home: Path, base_image: str, tmp_path: Path
) -> None:
    from vtrain.packaging.sdist import build_sdist, plan_sdist
    from vtrain.packaging.source import TrainerSource

    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "setup.py").write_text(SLOW_SETUP.format(number=os.getpid()))
    (folder / "slow.py").write_text("print('ran')\n")
    source = TrainerSource(folder=folder, python_module="slow")
    built = build_sdist(plan_sdist(source), tmp_path / "packages")
    task = PythonPackageSpec(
        executor_image_uri=base_image, package_uris=(f"file://{built.sdist}",), python_module="slow"
    )
    backend = open_backend("docker", docker_settings(docker_home))
    assert isinstance(backend, LocalBackend)
    name = submit(backend, job_of(WorkerPoolSpec(python_package_spec=task)))
    wait_until(lambda: any("Running command" in line for line in lines(backend, name, "service")))
    kill_supervisor(folder_of(docker_home, name))
    time.sleep(1.5)
    assert backend.get(name).state != states.FAILED
    job = ended(backend, name)
    assert job.state == states.SUCCEEDED, message(job)
    assert lines(backend, name) == ["ran"]


SLOW_SETUP = """
import sys, time
from setuptools import setup
if "bdist_wheel" in sys.argv or "install" in sys.argv:
    time.sleep(3)
commands = {{"console_scripts": ["slow=slow:x"]}}
setup(name="slow", version="{number}", py_modules=["slow"], entry_points=commands)
"""
