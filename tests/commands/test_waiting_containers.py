"""Persistent resources on docker: a container waits for the next job, which notices nothing of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from docker_engines import remaining
from supervisors import supervisor_of
from test_studies_run import STUDY, TRAINER

from vtrain.backends.docker.waiting import waiting_folder
from vtrain.containers.engine import Engine
from vtrain.containers.labels import HOME_LABEL, WAITING_LABEL
from vtrain.privacy import home_label
from vtrain.retry import wait_until
from vtrain.runtime.folder import JobFolder

pytestmark = [
    pytest.mark.docker,
    pytest.mark.engine,
    pytest.mark.skipif(sys.platform != "linux", reason="containers wait on Linux only"),
]
NOTE = "workerpool0-0 started in a container that waited for it."


class Team:
    """A resource `team`, jobs on it, and the containers that wait."""

    def __init__(self, vtrain: Any, home: Path, code: Path, engine: Engine, image: str) -> None:
        self.vtrain = vtrain
        self.home = home
        self.code = code
        self.engine = engine
        self.image = image

    def make(self, count: int = 1) -> None:
        pool = f"--resource-pool-spec=machine-type=n1-standard-4,replica-count={count}"
        resource = ("persistent-resources", "create", "--persistent-resource-id=team")
        made = self.vtrain(*resource, pool, "--backend=local")
        assert made.code == 0, made.err

    def create(self, code: str, *flags: str, args: tuple[str, ...] = (), resource: bool = True) -> Any:
        """A job of that code."""
        (self.code / "trainer").mkdir(parents=True, exist_ok=True)
        (self.code / "trainer" / "task.py").write_text(code)
        (self.code / "trainer" / "__init__.py").write_text("")
        pool = f"machine-type=n1-standard-4,local-package-path={self.code},python-module=trainer.task"
        on = ("--persistent-resource-id=team",) if resource else ()
        return self.vtrain(
            *("custom-jobs", "create", "--backend=docker", "--display-name=job", *on),
            *(f"--worker-pool-spec={pool},executor-image-uri={self.image}", *flags, "--", *args),
        )

    def run(self, code: str, *flags: str, **options: Any) -> list[str]:
        """The lines of a job of that code that ended well, and then those of the service about its start."""
        done = self.create(code, "--wait", *flags, **options)
        assert done.code == 0, done.err
        return self.log()

    def log(self) -> list[str]:
        read = self.vtrain("custom-jobs", "stream-logs", "@last", "--format=value(task_name, message)")
        lines = [line.split("\t", 1) for line in read.out.splitlines()]
        own = [text[0] for task, *text in lines if task == "workerpool0-0" and text]
        return [*own, *(NOTE for task, *text in lines if task == "service" and text == [NOTE])]

    def waiting(self) -> list[dict[str, Any]]:
        """The containers of the home that wait, as the engine lists them."""
        labels = [WAITING_LABEL, f"{HOME_LABEL}={home_label(self.home)}"]
        found: list[dict[str, Any]] = self.engine.client.containers(all=True, filters={"label": labels})
        return [entry for entry in found if entry["Names"][0].startswith("/vtrain-waiting-")]

    def places(self) -> list[Path]:
        return sorted(self.home.glob("waiting/*/*/[0-9]*"))

    def warm(self, count: int = 1) -> None:
        """Wait until so many containers wait, and none is being made."""
        assert wait_until(lambda: len(self.places()) == count == len(self.waiting()), 60)
        assert wait_until(lambda: not [*self.home.glob("waiting/*/*/.unpublished-*")], 60)


@pytest.fixture
def team(vtrain: Any, vtrain_home: Path, tmp_path: Path, docker_engine: Engine, base_image: str) -> Any:
    made = Team(vtrain, vtrain_home, tmp_path / "code", docker_engine, base_image)
    yield made
    vtrain("persistent-resources", "delete", "team", "--force", "--backend=local")
    assert remaining(docker_engine, vtrain_home) == []
    assert not waiting_folder(vtrain_home, "team").exists()


def test_the_second_job_starts_in_a_container_that_waited(team: Team) -> None:
    team.make()
    assert team.run("print('first')") == ["first"]
    team.warm()
    assert team.run("print('second')") == ["second", NOTE], "with the code of today"
    team.warm()
    assert team.run("print('third')") == ["third", NOTE]


FACTS = """
import json, os, resource, signal, socket, stat, sys
import trainer
def numbers(name):
    return [line.split()[1] for line in open("/proc/self/status") if line.startswith(name)]
names = ("HOSTNAME", "CLUSTER_SPEC", "CLOUD_ML_JOB_ID", "AIP_MODEL_DIR", "AIP_CHECKPOINT_DIR",
         "AIP_TENSORBOARD_LOG_DIR", "TF_CONFIG")
spec = json.loads(os.environ["CLUSTER_SPEC"])
facts = {
    "argv": sys.argv, "orig": sys.orig_argv, "path": sys.path, "python": sys.executable,
    "cmdline": open("/proc/self/cmdline").read().split(chr(0)),
    "environ": sorted((k, v) for k, v in os.environ.items() if k not in names),
    "names": sorted(k for k in os.environ if k in names),
    "host": [socket.gethostname() == os.environ["HOSTNAME"],
             socket.gethostbyname(socket.gethostname()) != "",
             spec["cluster"]["workerpool0"][0].split(":")[0] == socket.gethostname()
             if "workerpool0" in spec["cluster"] else socket.gethostname() in os.environ["CLUSTER_SPEC"]],
    "cwd": os.getcwd(), "files": sorted(os.listdir(".")), "writable": os.access(".", os.W_OK),
    "mode": stat.S_IMODE(os.stat(".").st_mode),
    "site": sorted(os.listdir(os.path.dirname(trainer.__path__[0]))),
    "site-writable": os.statvfs(trainer.__path__[0]).f_flag & os.ST_RDONLY,
    "mounts": sorted(line.split()[1] for line in open("/proc/mounts")),
    "fds": sorted(os.listdir("/proc/self/fd"))[:4],
    "targets": [os.readlink("/proc/self/fd/0"), os.isatty(1)],
    "ids": [os.getppid(), os.getuid(), os.getgid(), os.getpgid(0) == os.getpid(), os.getsid(0)],
    "groups": os.getgroups(),
    "processes": sum(name.isdigit() for name in os.listdir("/proc")),
    "signals": [numbers(name) for name in ("SigIgn", "SigBlk", "SigCgt", "CapEff", "Seccomp")],
    "umask": os.umask(0o22), "nice": os.nice(0),
    "limits": [resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")],
}
print(json.dumps(facts))
"""


def test_a_trainer_finds_what_it_would_find_in_a_new_container(team: Team) -> None:
    team.make()
    flags = ("--env=WORD=two words,EMPTY=", "--user=1000:1000")
    args = ("--text=ä\n", "", "b c")
    (usual,) = team.run(FACTS, *flags, args=args, resource=False)
    team.run(FACTS, *flags, args=args)
    team.warm()
    waited, note = team.run(FACTS, *flags, args=args)
    assert note == NOTE
    assert json.loads(waited) == json.loads(usual)


def test_nothing_of_one_job_is_there_for_the_next(team: Team) -> None:
    team.make()
    leave = (
        "import os, subprocess, sys\n"
        "for folder in ('.', '/tmp', '/dev/shm', os.path.expanduser('~')):\n"
        "    open(os.path.join(folder, 'left'), 'w').close()\n"
        "subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
    )
    look = (
        "import os\n"
        "for folder in ('.', '/tmp', '/dev/shm', os.path.expanduser('~')):\n"
        "    assert not os.path.exists(os.path.join(folder, 'left')), folder\n"
        "assert 'MINE' not in os.environ\n"
        "lines = [open(f'/proc/{p}/cmdline').read() for p in os.listdir('/proc') if p.isdigit()]\n"
        "assert not any('sleep' in line for line in lines), lines\n"
    )
    team.run(leave, "--env=MINE=secret")
    team.warm()
    assert team.run(leave, "--env=MINE=secret") == [NOTE]
    team.warm()
    assert team.run(look) == [NOTE]


def test_a_job_that_needs_another_container_gets_one(team: Team) -> None:
    team.make()
    team.run("")
    team.warm()
    assert team.run("", "--memory=200m") == [], "one with another limit"
    team.warm(1)
    assert team.run("") == [], "as one slot keeps one container, the newest"
    team.warm(1)
    assert team.run("") == [NOTE]


def test_as_many_wait_as_there_are_slots(team: Team) -> None:
    team.make(count=2)
    team.run("")
    team.warm(1)
    for _ in range(2):
        assert team.create("import time; time.sleep(3)").code == 0
    assert team.vtrain("custom-jobs", "wait", "@last").code == 0
    team.warm(2)
    assert team.run("") == [NOTE]
    team.warm(2)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("raise SystemExit(3)", "code 3"),
        ("import os; os.kill(os.getpid(), 6)", "SIGABRT"),
        ("import no_such_module", "code 1"),
    ],
)
def test_its_end_is_told_as_of_a_new_container(team: Team, code: str, told: str) -> None:
    team.make()
    team.run("")
    team.warm()
    done = team.create(code, "--wait")
    assert done.code != 0
    assert told in done.err
    assert NOTE in team.log()


def test_it_is_asked_to_end_as_a_new_container(team: Team) -> None:
    team.make()
    team.run("")
    team.warm()
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('asked', flush=True), sys.exit(0)))\n"
        "print('runs', flush=True)\ntime.sleep(600)\n"
    )
    assert team.create(code).code == 0
    assert wait_until(lambda: "runs" in team.vtrain("logs", "@last").out, 60)
    sees = 'test -n "$CLUSTER_SPEC" && test -n "$AIP_MODEL_DIR" && test "$(pwd)" = /usr/app'
    assert team.vtrain("exec", "@last", "--", "sh", "-c", sees).code == 0
    assert team.vtrain("custom-jobs", "cancel", "@last").code == 0
    assert team.vtrain("custom-jobs", "wait", "@last").code != 0
    assert "asked" in team.log()


def test_times_are_those_of_the_job(team: Team) -> None:
    team.make()
    team.run("")
    team.warm()
    made = float(team.waiting()[0]["Created"])
    assert wait_until(lambda: time.time() > made + 3, 60)
    team.run("")
    (folder,) = (JobFolder(path) for path in [newest(team.home)])
    exit = folder.replica("workerpool0-0").exit()
    assert exit is not None
    assert exit.started > made + 3


def newest(home: Path) -> Path:
    return max(home.glob("jobs/*"), key=lambda path: path.stat().st_mtime)


@pytest.mark.parametrize("harm", ["killed", "removed", "folder", "described", "socket"])
def test_without_the_container_the_job_runs_all_the_same(team: Team, harm: str) -> None:
    team.make()
    team.run("")
    team.warm()
    (container,), (place,) = team.waiting(), team.places()
    if harm == "killed":
        team.engine.client.kill(container["Id"])
    elif harm == "removed":
        team.engine.client.remove_container(container["Id"], force=True)
    elif harm == "described":
        (place / "container.json").write_text("{")
    elif harm == "socket":
        (place / "work" / ".vtrain-slot").unlink()
    else:
        shutil.rmtree(place)
    assert team.run("print('ran')") == ["ran"]
    assert wait_until(lambda: len(team.places()) == 1, 60)
    assert team.vtrain("gc", "--kind=container", "-q").code == 0
    team.warm()
    assert team.run("print('again')") == ["again", NOTE]


def test_a_container_without_its_folder_ends_by_itself(team: Team) -> None:
    team.make()
    team.run("")
    team.warm()
    (container,) = team.waiting()
    for path in team.home.glob("waiting/*/*/*/work/.vtrain-slot"):
        path.unlink()
    assert wait_until(
        lambda: not team.engine.client.inspect_container(container["Id"])["State"]["Running"], 60
    )


def test_reboot_and_delete_remove_it(team: Team) -> None:
    team.make()
    team.run("")
    team.warm()
    assert team.vtrain("persistent-resources", "reboot", "team", "--backend=process").code == 0
    assert team.waiting() == []
    assert team.run("") == []
    team.warm()
    assert team.vtrain("persistent-resources", "delete", "team", "--backend=process").code == 0
    assert team.waiting() == []


def test_nothing_waits_for_a_resource_that_was_deleted_meanwhile(team: Team) -> None:
    for _ in range(4):
        team.make()
        team.run("")  # its supervisor makes a container now
        assert team.vtrain("persistent-resources", "delete", "team", "--backend=local").code == 0
    assert remaining(team.engine, team.home) == []
    assert wait_until(lambda: not [*team.home.glob("waiting/*")], 60)


def test_gc_removes_what_nobody_claims_any_more(team: Team) -> None:
    team.make()
    team.run("")
    team.warm()
    assert team.vtrain("gc", "--kind=container", "-q").code == 0
    assert len(team.waiting()) == 1, "it waits"
    shutil.rmtree(team.home / "waiting")
    assert team.vtrain("gc", "--kind=container", "-q").code == 0
    assert team.waiting() == []


@pytest.mark.parametrize("moment", ["replica-spec", "sent", "started"])
def test_another_supervisor_goes_on(team: Team, moment: str) -> None:
    team.make()
    team.run("")
    team.warm()
    assert team.create("import time\nprint('once', flush=True)\ntime.sleep(2)").code == 0
    folder = newest(team.home)
    wanted = {"replica-spec": "spec.json", "sent": "sent", "started": "started.json"}[moment]
    assert wait_until(lambda: (folder / "replicas" / "workerpool0-0" / wanted).exists(), 60, 0.001)
    os.kill(supervisor_of(JobFolder(folder)), signal.SIGKILL)
    assert team.vtrain("custom-jobs", "wait", "@last").code == 0
    assert team.log().count("once") == 1


def test_trials_start_in_containers_that_wait_and_report(team: Team, tmp_path: Path) -> None:
    team.make()
    team.code.mkdir()
    (team.code / "train.py").write_text(TRAINER)
    study = STUDY.format(trials=3, parallel=1, failures=0, most=9)
    pool = "trialJobSpec: {workerPoolSpecs: [{machineSpec: {machineType: n1-standard-4}, replicaCount: 1}]}"
    (tmp_path / "study.yaml").write_text(f"{study}{pool}\n")
    line = (
        *("hp-tuning-jobs", "create", "--backend=docker", "--display-name=tune", "--wait", "--format=json"),
        *(f"--config={tmp_path / 'study.yaml'}", f"--local-package-path={team.code}", "--script=train.py"),
        *(f"--executor-image-uri={team.image}", "--persistent-resource-id=team", "--", "--case=good"),
    )
    assert team.vtrain(*line).code == 0
    assert wait_until(lambda: len(team.places()) == 1, 60)
    ended = team.vtrain(*line)
    assert ended.code == 0, ended.err
    trials = json.loads(ended.out)["trials"]
    assert [trial["finalMeasurement"]["metrics"][0]["value"] for trial in trials] == [0.1, 0.2, 0.3]
    assert any(team.home.glob("jobs/*/replicas/*/sent")), "no trial started in one that waited"
