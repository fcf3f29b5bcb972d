"""`vtrain emulator start`, `status`, `env`, `exec` and `stop`, as processes."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from lib.waiting import wait_until

import vtrain
from vtrain.emulator.running import find_running
from vtrain.https_proxy import BUNDLE_VARIABLES
from vtrain.runtime.locks import lock_holder

pytestmark = pytest.mark.end_to_end

ROOT = Path(vtrain.__file__).parent.parent
UPGRADE = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
Ended = subprocess.CompletedProcess[str]


class Machine:
    """A home, and commands in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = os.environ | {"VTRAIN_HOME": str(home), "PYTHONPATH": str(ROOT)}

    def run(self, *words: str, **options: Any) -> Ended:
        """One vtrain command."""
        argv = [sys.executable, "-m", "vtrain", "emulator", *words]
        return subprocess.run(
            argv, env=self.environment, capture_output=True, text=True, timeout=120, check=False, **options
        )

    def stop_all(self) -> None:
        """End what a test has left, and wait for it: a killed process has its lock a moment longer."""
        for running in find_running(self.home):
            assert running.process > 1
            os.kill(running.process, signal.SIGKILL)
        locks = list((self.home / "emulator").glob("*.lock"))
        wait_until(lambda: not any(map(lock_holder, locks)))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path / "home")
    yield made
    made.stop_all()


def test_it_makes_the_buckets_that_a_program_expects(machine: Machine) -> None:
    script = f'test -d "{machine.home}/buckets/stage"'
    assert machine.run("exec", "--bucket=stage", "--", "sh", "-c", script).returncode == 0
    started = machine.run("start", "--detach", "--port=0", "--bucket=stage", "--bucket=data")
    with urlopen(f"{started.stdout.strip()}/storage/v1/b") as answer:
        assert [bucket["name"] for bucket in json.load(answer)["items"]] == ["data", "stage"]
    (machine.home / "buckets" / "taken").write_text("")
    ended = machine.run("exec", "--bucket=taken", "--", "true")
    assert ended.returncode == 1 and "Cannot make" in ended.stderr and "File exists" in ended.stderr


def test_it_starts_in_the_background_and_stops(machine: Machine) -> None:
    started = machine.run("start", "--detach", "--port=0", "--backend=process")
    assert started.returncode == 0, started.stderr
    url = started.stdout.strip()
    with urlopen(f"{url}/v1/projects/p/locations/us-central1/customJobs") as answer:
        assert json.load(answer) == {}
    listed = json.loads(machine.run("status", "--format=json").stdout)
    address, _, token = url.rpartition("/")
    assert [(one["url"], one["backend"]) for one in listed] == [(address, "process")]
    exports = machine.run("env").stdout
    assert f"export CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM={url}/\n" in exports
    assert f"export STORAGE_EMULATOR_HOST={url}\n" in exports
    assert "unset GOOGLE_APPLICATION_CREDENTIALS\n" in exports
    assert "unset CLOUDSDK_AUTH_DISABLE_CREDENTIALS\n" in exports
    (file,) = re.findall("export CLOUDSDK_AUTH_ACCESS_TOKEN_FILE=(.*)", exports)
    assert Path(file).read_text() == token and Path(file).stat().st_mode & 0o777 == 0o600
    (bundle,) = re.findall("export SSL_CERT_FILE=(.*)", exports)
    assert (
        exports.count(f"={bundle}\n") == len(BUNDLE_VARIABLES) and "CERTIFICATE" in Path(bundle).read_text()
    )
    assert f"export HTTPS_PROXY=http://vtrain:{token}@{address.removeprefix('http://')}\n" in exports
    (key,) = (machine.home / "emulator").glob("*.key")
    assert key.stat().st_mode & 0o777 == 0o600
    shell = 'eval "$1"; echo "$CLOUDSDK_CORE_PROJECT $CLOUDSDK_AI_REGION"'
    told = subprocess.run(["sh", "-c", shell, "sh", exports], capture_output=True, text=True, check=True)
    assert told.stdout == "emulator us-central1\n"
    port = address.rpartition(":")[2]
    again = machine.run("start", "--detach", f"--port={port}")
    assert again.returncode == 1 and f"An emulator answers at port {port} already." in again.stderr
    assert machine.run("stop").returncode == 0
    assert find_running(machine.home) == []
    assert {file.name for file in (machine.home / "emulator").iterdir()} == {"emulator.log", "tls.key"}


def test_of_two_that_start_at_once_the_second_names_the_first(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [sys.executable, "-m", "vtrain", "emulator", "start", "--detach", f"--port={port}"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(argv, env=machine.environment, **streams) for _ in range(2)]  # type: ignore[call-overload]
    words = {one.wait(timeout=60): "".join(one.communicate()) for one in both}
    assert set(words) == {0, 1}, words
    assert f"An emulator answers at port {port} already." in words[1], words[1]
    assert "vtrain emulator env" in words[1]


@pytest.mark.parametrize(
    ("number", "code", "last"),
    [
        (signal.SIGINT, 0, "Stopped.\n"),
        (signal.SIGTERM, 143, "Terminated.\n"),
        (signal.SIGHUP, 129, "Hung up.\n"),
    ],
)
def test_it_tells_each_request_and_ends_when_told(
    machine: Machine, number: int, code: int, last: str
) -> None:
    argv = [sys.executable, "-m", "vtrain", "emulator", "start", "--port=0", "--verbosity=debug"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(argv, env=machine.environment, text=True, **streams) as running:  # type: ignore[call-overload]
        url = running.stdout.readline().strip()
        path = "/v1/projects/p/locations/us-central1/customJobs"
        urlopen(f"{url}{path}?access_token=secret").close()
        for wrong in ("/v1/projects/p%0Aq/x", "/storage/v1/b/none"):
            with pytest.raises(OSError, match="404"):
                urlopen(url + wrong)
        for strange in (b"\x16\x03\x01 no HTTP\r\n\r\n", UPGRADE):
            with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0)) as client:
                client.sendall(strange)
                assert client.recv(9) == b"HTTP/1.1 "
        running.send_signal(number)
        assert running.wait(timeout=60) == code
        told = re.sub(r"[0-9]+ ms", "1 ms", running.stderr.read())
    assert f"DEBUG: GET /***{path} 200 1 ms\n" in told
    assert "DEBUG: GET /***/v1/projects/p%0Aq/x 404 1 ms\n" in told
    assert "DEBUG: GET /***/storage/v1/b/none 404 1 ms\n" in told
    assert urlsplit(url).path[1:] not in told
    assert all(line.startswith("DEBUG: ") for line in told.splitlines()[2:-1]), told
    assert "secret" not in told and "Traceback" not in told
    assert told.endswith(last)


def test_what_is_not_there(machine: Machine) -> None:
    for verb in ("stop", "env"):
        ended = machine.run(verb)
        assert ended.returncode == 1
        assert "No emulator runs." in ended.stderr and "vtrain emulator start" in ended.stderr
    assert machine.run("status").stdout == ""
    assert machine.run("env", "--port=1").returncode == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("start", "--backend=vertex"), "emulated jobs run on this machine"),
        (("start", "--port=70000"), "is not a number from 0 to 65535"),
        (("start", "--host=0.0.0.0", "--no-require-token"), "Leave out --no-require-token"),
        (("start", "--max-active-jobs=-1"), "-1 is negative"),
        (("exec", "--max-active-jobs=many", "--", "true"), "expected a whole number, found 'many'"),
        (("exec", "--bucket=gs://b", "--", "true"), "'gs://b' is not the name of a bucket"),
        (("start", "--project=a/b"), "is not the id of a project"),
        (("exec",), "exec needs a command"),
        (("exec", "--", ""), "exec needs a command"),
        (("exec", "--backend=vertex", "--", "true"), "emulated jobs run on this machine"),
    ],
)
def test_wrong_lines_are_refused(machine: Machine, words: tuple[str, ...], told: str) -> None:
    ended = machine.run(*words)
    assert ended.returncode in (1, 2) and told in ended.stderr
    assert "Traceback" not in ended.stderr
    assert find_running(machine.home) == []


def test_a_port_that_is_taken(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = machine.run("start", f"--port={port}")
        assert ended.returncode == 1 and f"Cannot listen on 127.0.0.1:{port}" in ended.stderr
        detached = machine.run("start", "--detach", f"--port={port}")
        assert detached.returncode == 1 and "Cannot listen" in detached.stderr


def test_exec_ends_with_the_codes_of_its_command(machine: Machine) -> None:
    script = 'test -n "$STORAGE_EMULATOR_HOST" && echo "project $CLOUDSDK_CORE_PROJECT" && exit 7'
    ended = machine.run("exec", "--project=mine", "--", "sh", "-c", script)
    assert (ended.returncode, ended.stdout) == (7, "project mine\n"), ended.stderr
    killed = machine.run("exec", "--", "sh", "-c", "kill -9 $$")
    assert (killed.returncode, killed.stderr) == (137, "")
    assert machine.run("exec", "--", "/no/such/program").returncode == 127
    assert find_running(machine.home) == []


def test_exec_hands_the_commands_input_on(machine: Machine) -> None:
    assert machine.run("exec", "--", "cat", input="text").stdout == "text"


def test_exec_that_is_killed_leaves_no_emulator(machine: Machine) -> None:
    argv = [sys.executable, "-m", "vtrain", "emulator", "exec", "--", "sh", "-c", "echo on; exec cat"]
    with subprocess.Popen(
        argv, env=machine.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdin is not None and running.stdout is not None
        assert running.stdout.readline() == b"on\n"
        assert len(find_running(machine.home)) == 1
        running.kill()
        running.stdin.close()
    assert find_running(machine.home) == []


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels do not end a child with its parent")
def test_exec_that_is_killed_takes_its_command_with_it(machine: Machine) -> None:
    argv = [sys.executable, "-m", "vtrain", "emulator", "exec", "--", "sh", "-c", "echo on; exec sleep 600"]
    with subprocess.Popen(argv, env=machine.environment, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"on\n"
        running.kill()
        readable, _, _ = select.select([running.stdout], [], [], 30)
        assert readable and running.stdout.read() == b""  # the command has let go of its stdout


def test_exec_gives_its_command_the_usual_signals(machine: Machine) -> None:
    ended = machine.run("exec", "--", "sh", "-c", "kill -PIPE $$; echo ignored")
    assert (ended.returncode, ended.stdout) == (128 + signal.SIGPIPE, "")


def test_exec_says_why_a_command_cannot_run(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    for name, code, told in (
        ("/no/such/program", 127, "ERROR: /no/such/program: not found."),
        (str(tmp_path), 126, f"ERROR: {tmp_path} cannot be run: Permission denied."),
        (str(tmp_path / "text"), 126, f"ERROR: {tmp_path / 'text'} cannot be run: Permission denied."),
    ):
        ended = machine.run("exec", "--", name)
        assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", f"{told}\n")
    (tmp_path / "text").chmod(0o755)
    ended = machine.run("exec", "--", str(tmp_path / "text"))
    assert (ended.returncode, ended.stderr.count("cannot be run: Exec format error.")) == (126, 1)


def test_what_a_killed_emulator_left_is_removed(machine: Machine) -> None:
    assert machine.run("start", "--detach", "--port=0", "--grpc").returncode == 0
    folder = machine.home / "emulator"
    assert len(list(folder.glob("*.pem"))) == 1
    machine.stop_all()
    assert machine.run("status").returncode == 0
    assert {file.name for file in folder.iterdir()} == {"emulator.log", "tls.key"}


def test_in_the_background_it_runs_no_module_of_the_current_folder(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "vtrain").mkdir()
    for name in ("random.py", "uvicorn.py", "vtrain/__init__.py", "vtrain/__main__.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w'); raise SystemExit(3)\n")
    program = "import sys; del sys.path[0]; from vtrain.__main__ import run; run()"
    words = ("emulator", "start", "--detach", "--port=0", "--backend=process")
    started = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=tmp_path,
        env=machine.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert started.returncode == 0, started.stderr
    assert not (tmp_path / "ran").exists()
    assert machine.run("stop").returncode == 0


def test_a_folder_in_the_place_of_a_record_stops_nothing(machine: Machine) -> None:
    (machine.home / "emulator" / "7.json").mkdir(parents=True)
    assert find_running(machine.home) == []
    assert [path.name[:13] for path in (machine.home / "emulator").iterdir()] == ["7.json.damage"]


def test_a_damaged_record_is_named(machine: Machine) -> None:
    assert machine.run("start", "--detach", "--port=0").returncode == 0
    (record,) = (machine.home / "emulator").glob("*.json")
    good = record.read_bytes()
    record.write_bytes(b"{bad")
    try:
        for verb in ("status", "stop", "env"):
            ended = machine.run(verb)
            assert ended.returncode == 1 and f"{record} is damaged" in ended.stderr
            assert "End that emulator" in ended.stderr and "Traceback" not in ended.stderr
    finally:
        record.write_bytes(good)
    assert machine.run("stop").returncode == 0


def test_exec_hands_a_signal_on(machine: Machine) -> None:
    script = "trap 'echo caught; exit 5' TERM; echo on; while :; do sleep 0.05; done"
    argv = [sys.executable, "-m", "vtrain", "emulator", "exec", "--", "sh", "-c", script]
    with subprocess.Popen(argv, env=machine.environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "on\n"
        running.terminate()
        assert running.stdout.read() == "caught\n"
        assert running.wait() == 143
    assert find_running(machine.home) == []


def test_a_killed_emulator_loses_no_job(machine: Machine) -> None:
    url = machine.run("start", "--detach", "--port=0", "--backend=process").stdout.strip()
    line = "import time; time.sleep(2); print('lived')"
    pool = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": "1",
        "pythonPackageSpec": {
            "executorImageUri": "x",
            "pythonModule": "timeit",
            "args": ["-n1", "-r1", line],
        },
    }
    path = "/v1/projects/p/locations/us-central1/customJobs"
    body = json.dumps({"displayName": "a", "jobSpec": {"workerPoolSpecs": [pool]}}).encode()
    with urlopen(url + path, data=body) as answer:
        name = json.load(answer)["name"]
    machine.stop_all()
    assert json.loads(machine.run("status", "--format=json").stdout) == []
    url = machine.run("start", "--detach", "--port=0", "--backend=process").stdout.strip()

    def found() -> dict[str, object]:
        with urlopen(f"{url}/v1/{name}") as answer:
            job: dict[str, object] = json.load(answer)
        return job if "endTime" in job else {}

    job = wait_until(found)
    assert job["state"] == "JOB_STATE_SUCCEEDED", job
    assert machine.run("stop").returncode == 0


@pytest.mark.parametrize("words", [(), ("--require-token",)])
def test_the_token_is_asked_for(machine: Machine, words: tuple[str, ...]) -> None:
    url = machine.run("start", "--detach", "--port=0", *words).stdout.strip()
    address = url.rpartition("/")[0]
    for wrong in (address, f"{url}x", f"{address}/token-", f"{address}/x{url.rpartition('/')[2]}"):
        with pytest.raises(OSError, match="401"):
            urlopen(f"{wrong}/v1/projects/p/locations/l/customJobs")


def test_a_shell_of_an_earlier_start_is_told(machine: Machine) -> None:
    """gcloud reads the new token from the file, which has the old name."""
    address, _, token = machine.run("start", "--detach", "--port=0").stdout.strip().rpartition("/")
    path = "token-of-before/v1/projects/p/locations/l/customJobs"
    old = Request(f"{address}/{path}", headers={"Authorization": f"Bearer {token}"})
    with pytest.raises(HTTPError, match="403") as refused:
        urlopen(old)
    with refused.value as answer:
        assert "an earlier start" in (said := answer.read().decode()) and "`vtrain emulator env`" in said


def test_without_a_token_where_nobody_wants_one(machine: Machine) -> None:
    url = machine.run("start", "--detach", "--port=0", "--no-require-token").stdout.strip()
    urlopen(f"{url}/v1/projects/p/locations/l/customJobs").close()
    assert not urlsplit(url).path
    exports = machine.run("env").stdout
    assert "unset CLOUDSDK_AUTH_ACCESS_TOKEN_FILE\n" in exports
    assert "export CLOUDSDK_AUTH_DISABLE_CREDENTIALS=true\n" in exports


def test_the_variables_can_be_taken_out_of_the_shell(machine: Machine) -> None:
    """Also when the emulator has ended."""
    assert machine.run("start", "--detach", "--port=0", "--grpc").returncode == 0
    exports = machine.run("env", "--grpc").stdout
    assert machine.run("stop").returncode == 0
    unset = machine.run("env", "--unset").stdout
    shell = 'eval "$1"; before=$(env | wc -l); eval "$2"; env'
    argv = ["env", "-i", "sh", "-c", shell, "sh", exports, unset]
    left = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert [
        line for line in left.splitlines() if not line.startswith(("PWD=", "_=", "SHLVL=", "OLDPWD="))
    ] == []


def test_an_emulator_that_has_stopped_is_named_at_once(machine: Machine) -> None:
    assert machine.run("start", "--detach", "--port=0").returncode == 0
    exports = machine.run("env").stdout
    led = ["sh", "-c", f"{exports}\n{sys.executable} -m vtrain emulator stop"]
    stopped = subprocess.run(
        led, env=machine.environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert stopped.stderr.endswith('lead it back:\n$ eval "$(vtrain emulator env --unset)"\n')
    line = f"{sys.executable} -m vtrain custom-jobs list --region=us-central1"
    for more in ("", "unset CLOUDSDK_AUTH_ACCESS_TOKEN_FILE; export CLOUDSDK_AUTH_DISABLE_CREDENTIALS=1"):
        ended = subprocess.run(
            ["sh", "-c", f"{exports}\n{more}\n{line}"],
            env=machine.environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert ended.returncode == 1 and "has stopped" in ended.stderr, ended.stderr
        assert "vtrain emulator env --unset" in ended.stderr and "Trying again" not in ended.stderr
        assert "token-" not in ended.stderr


@pytest.mark.parametrize(
    "settings",
    [
        {"CLOUDSDK_CORE_USER_OUTPUT_ENABLED": "false"},
        {"CLOUDSDK_CORE_DEFAULT_FORMAT": "none"},
        {"CLOUDSDK_CORE_VERBOSITY": "none"},
    ],
)
def test_it_starts_in_the_background_in_silence(machine: Machine, settings: dict[str, str]) -> None:
    machine.environment |= settings
    started = machine.run("start", "--detach", "--port=0")
    assert started.returncode == 0, started.stderr
    (running,) = find_running(machine.home)
    urlopen(f"{running.url}/v1/projects/p/locations/us-central1/customJobs").close()
