"""`/gcs` for processes: real mounts, seen by the replicas of one job and by nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lib.local_jobs import PRIMARY, ended, folder_of, lines, submit
from lib.waiting import wait_until

import vtrain
from vtrain.backends import BackendSettings
from vtrain.backends.local import LocalBackend
from vtrain.backends.process.process_world import mentions_buckets, refusal
from vtrain.backends.registry import open_backend
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob, CustomJobSpec, EnvVar, PythonPackageSpec, WorkerPoolSpec
from vtrain.runtime.folder import read_struct
from vtrain.runtime.job_order import ReplicaOrder
from vtrain.runtime.process import bucket_mount

pytestmark = pytest.mark.end_to_end

ROOT = Path(vtrain.__file__).parent.parent

TRAINER = """
import os, pathlib, socket, subprocess, sys, tempfile
data = pathlib.Path(sys.argv[1])
print(data.read_text(), end="")
(data.parent / "made").mkdir()
(data.parent / "made" / "out.txt").write_text("written")
print("user", os.getuid(), os.stat(data).st_uid)
print("buckets", *sorted(os.listdir("/gcs")))
print("root", *sorted(os.listdir("/")))
print("cwd", os.getcwd())
tempfile.TemporaryFile().close()
print("loopback", socket.gethostbyname("localhost"))
print("null", open("/dev/null").read() == "", "pid", os.path.exists(f"/proc/{os.getpid()}/stat"))
print("child", subprocess.run(["true"]).returncode)
try:
    open("/made-by-a-trainer", "w").close()
except OSError:
    print("the root is closed")
"""
HANGING = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
print("ready", flush=True)
time.sleep(1000)
"""
DROP_RIGHT = """
import ctypes, os, sys
PR_CAPBSET_DROP, CAP_SYS_ADMIN = 24, 21
ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""Runs a program as somebody who may mount nothing, root or not."""
FORBID = """
import ctypes, os, sys
CLONE_NEWUSER = 0x10000000
user, group = os.geteuid(), os.getegid()
if ctypes.CDLL(None).unshare(CLONE_NEWUSER) == 0:
    maps = ("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")
    limits = ("max_mnt_namespaces", "0"), ("max_user_namespaces", "0")
    for folder, files in (("/proc/self", maps), ("/proc/sys/user", limits)):
        for name, text in files:
            with open(f"{folder}/{name}", "w") as file:
                file.write(text)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""Runs a program where the kernel makes no more namespaces, or never did."""


@pytest.fixture
def mounts() -> None:
    """Skips where the kernel refuses, and only there."""
    why = refusal()
    if why:
        pytest.skip(f"this kernel gives programs no mounts of their own: {why}")


@pytest.fixture
def bucket(home: Path) -> Path:
    """A local bucket with an object in it."""
    folder = home / "buckets" / "data"
    folder.mkdir(parents=True)
    (folder / "in.txt").write_text("from the bucket\n")
    return folder


def job_of(folder: Path, code: str, *args: str, **variables: str) -> CustomJob:
    """A job whose trainer is this code."""
    folder.mkdir(exist_ok=True)
    (folder / "snippet.py").write_text(code)
    env = [
        EnvVar(name=name, value=value) for name, value in ({"PYTHONPATH": str(folder)} | variables).items()
    ]
    task = PythonPackageSpec(python_module="snippet", args=args, env=tuple(env))
    return CustomJob(
        display_name="gcs",
        job_spec=CustomJobSpec(worker_pool_specs=(WorkerPoolSpec(python_package_spec=task),)),
    )


def root_entries() -> list[str]:
    return sorted(path.name for path in Path("/").iterdir())


def python(*argv: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *argv], capture_output=True, text=True, **options)  # type: ignore[call-overload]


def test_a_trainer_reads_and_writes_buckets(
    mounts: None, process_backend: LocalBackend, home: Path, bucket: Path, tmp_path: Path
) -> None:
    before = root_entries()
    done = ended(process_backend, submit(process_backend, job_of(tmp_path, TRAINER, "/gcs/data/in.txt")))
    written = lines(process_backend, done.name)
    assert done.state == states.SUCCEEDED, written
    assert written[0] == "from the bucket"
    assert written[1] == f"user {os.getuid()} {os.getuid()}"
    assert written[2] == "buckets data local-runs"
    assert written[3].split()[1:] == sorted({*before, "gcs"})
    assert written[4] == f"cwd {folder_of(home, done.name).replica(PRIMARY).work}"
    assert written[5:] == ["loopback 127.0.0.1", "null True pid True", "child 0", "the root is closed"]
    made = bucket / "made" / "out.txt"
    assert (made.read_text(), made.stat().st_uid) == ("written", os.getuid())
    assert root_entries() == before


def test_a_variable_mentions_them_too(
    mounts: None, process_backend: LocalBackend, bucket: Path, tmp_path: Path
) -> None:
    code = "import os\nprint(open(os.environ['DATA'] + '/in.txt').read(), end='')"
    done = ended(process_backend, submit(process_backend, job_of(tmp_path, code, DATA="/gcs/data")))
    assert lines(process_backend, done.name) == ["from the bucket"]


def test_without_a_mention_a_job_sees_the_machine_as_it_is(
    process_backend: LocalBackend, home: Path, bucket: Path, tmp_path: Path
) -> None:
    code = "import os\nprint(*sorted(os.listdir('/')))"
    done = ended(process_backend, submit(process_backend, job_of(tmp_path, code, "--x=/my/gcs/data")))
    assert lines(process_backend, done.name) == [" ".join(root_entries())]
    order = read_struct(folder_of(home, done.name).replica(PRIMARY).path / "spec.json", ReplicaOrder)
    assert order is not None
    assert order.gcs == ""


def test_what_sees_buckets_is_stopped_with_its_grandchildren(
    mounts: None, process_backend: LocalBackend, tmp_path: Path
) -> None:
    name = submit(process_backend, job_of(tmp_path, HANGING, "/gcs"))
    wait_until(lambda: lines(process_backend, name) == ["ready"])
    process_backend.cancel(name)
    assert ended(process_backend, name).state == states.CANCELLED  # the fixture `home` looks for left-overs


@pytest.mark.parametrize(
    "launcher", ["", DROP_RIGHT], ids=["as who runs the tests", "without the right to mount"]
)
def test_the_mount_is_made_as_anybody(mounts: None, launcher: str, tmp_path: Path) -> None:
    code = f"""
import os, sys
sys.path.insert(0, {str(Path(bucket_mount.__file__).parent)!r})
from bucket_mount import show_buckets
show_buckets({str(tmp_path)!r})
open("/gcs/file", "w").close()
print(os.getuid(), os.getgid(), os.listdir("/gcs"), os.stat("/gcs/file").st_uid)
"""
    first = ["-c", launcher] if launcher else []
    ran = python(*first, "-I", "-S", "-c", code)
    assert ran.stdout == f"{os.getuid()} {os.getgid()} ['file'] {os.getuid()}\n", ran.stderr
    assert (tmp_path / "file").stat().st_uid == os.getuid()


def test_where_the_kernel_refuses_a_line_says_so_and_the_job_runs(
    home: Path, bucket: Path, tmp_path: Path
) -> None:
    (tmp_path / "t.py").write_text("import os\nprint(os.path.exists('/gcs/data/in.txt'))\n")
    words = ("-m", "vtrain", "custom-jobs", "local-run", "--backend=process")
    trainer = (f"--local-package-path={tmp_path / 't.py'}", "--", "/gcs/data")
    ran = python("-c", FORBID, *words, *trainer, cwd=ROOT)
    notices = [line for line in ran.stderr.splitlines() if "/gcs" in line and "WARNING" in line]
    assert len(notices) == 1, ran.stderr
    assert "--backend=docker has it" in notices[0]
    assert (ran.returncode, ran.stdout) == (0, "False\n"), ran.stderr


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("/gcs", True),
        ("--data=/gcs/bucket/x", True),
        ("a,/gcs/b", True),
        ("file:///gcs/b", True),
        ("/home/gcs/b", False),
        ("./gcs/b", False),
        ("/gcsfuse", False),
        ("/gcs-cache/x", False),
        ("gs://bucket", False),
    ],
)
def test_what_mentions_buckets(word: str, expected: bool) -> None:
    task = PythonPackageSpec(python_module="m", args=(word,))
    spec = CustomJobSpec(worker_pool_specs=(WorkerPoolSpec(python_package_spec=task),))
    assert mentions_buckets(spec) is expected


TRANSLATED = """
import os
folder = os.environ["AIP_MODEL_DIR"].replace("gs://", "/gcs/")
os.makedirs(folder, exist_ok=True)
with open(os.path.join(folder, "model.bin"), "w") as file:
    file.write("model")
"""


def test_a_trainer_that_makes_paths_of_its_uris_writes_to_the_bucket(
    mounts: None, home: Path, tmp_path: Path
) -> None:
    settings = BackendSettings(home=home, project="local", region="us-central1", aip_dirs="gs")
    backend = open_backend("process", settings)
    had_gcs = Path("/gcs").exists()
    done = ended(backend, submit(backend, job_of(tmp_path / "code", TRANSLATED)))
    assert done.state == states.SUCCEEDED
    (model,) = (home / "buckets" / "local-runs").glob("*/model/model.bin")
    assert model.read_text() == "model"
    assert Path("/gcs").exists() is had_gcs
