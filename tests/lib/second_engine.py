"""A Docker engine of the test's own, which it may stop and kill, beside the one that is there.

It lives in a network namespace of its own, so that its bridges, addresses and iptables rules meet
nobody else's; it reaches no network.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from vtrain.containers.discovery import EngineAddress, refusal

PROGRAMS = ("dockerd", "containerd", "unshare", "nsenter", "mount", "umount")
START_SECONDS = 60.0
STOP_SECONDS = 60.0


class SecondEngine:
    """`stop` and `kill` may leave containers running; `start` goes on with what there is."""

    def __init__(self, folder: Path, *, live_restore: bool = False) -> None:
        self.address = EngineAddress(host=f"unix://{folder}/docker.sock", origin="the test")
        self._folder = folder
        self._live_restore = live_restore
        self._name = f"vtrain{uuid.uuid4().hex}"
        subprocess.run(["mount", "-t", "tmpfs", "vtrain-engine", folder], check=True)  # images take 200 MB
        # Containers of other engines begin with a copy of all mounts. Shared ones go there when they go here.
        # Other copies keep a removed container's file system busy, and Docker 20.10 never gets over that.
        subprocess.run(["mount", "--make-shared", folder], check=True)
        self._network = _network_namespace()
        self._daemon: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        """For DOCKER_HOST."""
        return self.address.host

    def start(self) -> None:
        """Start the engine; it answers when this returns."""
        with self._log.open("ab") as log:
            self._daemon = subprocess.Popen(self._argv(), stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while reason := refusal(self.address):
            if self._daemon.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"dockerd does not answer ({reason}): {self._log.read_text()[-4000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """SIGTERM, until it has ended: containers are stopped before, unless the engine has live-restore."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: containers go on without an engine."""
        self._end(signal.SIGKILL)
        self._bury_containerd()

    def container_logs(self) -> dict[str, TextIO]:
        """The engine's own log of each container by its name; they can be read after it is removed."""
        files = self._folder.glob("data/containers/*/config.v2.json")
        logs = {json.loads(file.read_bytes())["Name"][1:]: file.parent for file in files}
        return {name: (folder / f"{folder.name}-json.log").open() for name, folder in logs.items()}

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """The engine's disk has no space left meanwhile."""
        used = shutil.disk_usage(self._folder).used
        self._resize(f"{used // 1024 + 64}k")
        filler = self._folder / "filler"
        try:
            with filler.open("wb", buffering=0) as file, suppress(OSError):
                while file.write(b"x" * 4096):
                    pass
            yield
        finally:
            filler.unlink()
            self._resize("50%")

    def _resize(self, size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", self._folder], check=True)

    def remove(self) -> None:
        """End all that there is of the engine, and remove its files."""
        self._end(signal.SIGTERM)
        self._bury_containerd()
        for pid in self._processes():  # shims, whose containers outlived the engine
            for process in (*_children(pid), pid):
                _kill(process)
        self._network.kill()
        self._network.wait()
        for mount in self._mounts():
            subprocess.run(["umount", "--lazy", mount], check=True)
        self._folder.rmdir()

    @property
    def _log(self) -> Path:
        return self._folder / "log"

    def _argv(self) -> list[str]:
        folder, live = self._folder, ["--live-restore"] if self._live_restore else []
        files = [f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
        # Where the machine runs a containerd of its own, dockerd uses that one: a namespace keeps them apart.
        names = [f"--containerd-namespace={self._name}", f"--containerd-plugins-namespace={self._name}p"]
        enter = ["nsenter", f"--net=/proc/{self._network.pid}/ns/net"]
        return [*enter, "dockerd", "-H", self.host, *files, *names, *live]

    def _end(self, number: int) -> None:
        if self._daemon is not None:
            self._daemon.send_signal(number)
            self._daemon.wait(STOP_SECONDS)
            self._daemon = None

    def _bury_containerd(self) -> None:
        """Wait for the containerd that dies with its dockerd: while its pid exists, no new one is started."""
        file = self._folder / "exec" / "containerd" / "containerd.pid"
        if file.exists():
            pid, deadline = int(file.read_text()), time.monotonic() + STOP_SECONDS
            while _is_alive(pid) and time.monotonic() < deadline:
                time.sleep(0.02)
            file.unlink(missing_ok=True)

    def _processes(self) -> list[int]:
        """Processes that name the engine's folder."""
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and f"{self._folder}/".encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
        return [pid for pid in found if pid != os.getpid()]

    def _mounts(self) -> list[str]:
        """What is mounted below the folder, the innermost first."""
        places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        return [place for place in reversed(places) if f"{place}/".startswith(f"{self._folder}/")]


@contextmanager
def second_engine(*, live_restore: bool = False) -> Iterator[SecondEngine]:
    """An engine that answers, without an image; nothing of it is left afterwards. Needs root."""
    # Short, below the system's temporary folder: a path of a socket has 107 bytes at most.
    folder = Path(tempfile.mkdtemp(prefix="vtrain-engine-", dir="/tmp"))
    engine = SecondEngine(folder, live_restore=live_restore)
    try:
        engine.start()
        yield engine
    finally:
        engine.remove()


def missing_for_an_engine() -> str:
    """Why an engine cannot be started here; empty where it can."""
    if os.geteuid() != 0:
        return "only root can start an engine"
    lacking = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"{', '.join(lacking)} is not on PATH" if lacking else ""


def _network_namespace() -> subprocess.Popen[bytes]:
    """A process in a network namespace of its own; it is in it when this returns.

    An engine that entered the machine's own namespace would take away the other engine's iptables rules.
    """
    process = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
    ours, theirs = Path("/proc/self/ns/net").readlink(), Path(f"/proc/{process.pid}/ns/net")
    while theirs.readlink() == ours:
        assert process.poll() is None, "unshare has ended"
        time.sleep(0.005)
    return process


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _is_alive(pid: int) -> bool:
    """Whether the process exists and has not ended; one that nobody has waited for has."""
    try:
        state = re.search(r"^State:\s+(\w)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        return False
    return state is not None and state[1] != "Z"
