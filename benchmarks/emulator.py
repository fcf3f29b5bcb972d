"""The emulator: start, creates of 10 clients, get and list of 1,000 jobs, memory, 200 MB of storage."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import measure
from many_jobs import fill
from measure import VTRAIN, alternate, arguments, judge, scene, until

START_SECONDS = 1.0
CREATE_MS, READ_MS = 60.0, 8.0
MEMORY_MB = 80.0
SHARE_OF_A_COPY = 0.2
JOBS, CLIENTS, PER_SECOND = 1000, 10, 5
CREATES = 50
PARENT = "/v1/projects/demo/locations/us-central1/customJobs"
POOL = {
    "machineSpec": {"machineType": "n1-standard-4"},
    "replicaCount": "1",
    "pythonPackageSpec": {"executorImageUri": "image", "pythonModule": "this"},
}
BODY = json.dumps({"displayName": "created", "jobSpec": {"workerPoolSpecs": [POOL]}})
SIZE = 200 << 20


def main() -> int:
    options = arguments(__doc__, runs=5)
    with scene() as folder:
        starts = alternate({"start to the first answer": lambda: started(folder / "empty")}, options.runs)
        judge("start to the first answer", statistics.median(starts.values()), START_SECONDS, " s")
        home = folder / "many"
        fill(home, JOBS)
        url, stop = serve(home)
        try:
            names = [job["name"] for job in ask(url, "GET", f"{PARENT}?pageSize=1000")["customJobs"]]
            judge("get", 1000 * each(lambda n: ask(url, "GET", f"/v1/{names[n]}"), 200), READ_MS, " ms")
            judge("list of a page of 100", 1000 * each(lambda _: ask(url, "GET", PARENT), 50), READ_MS, " ms")
            judge("create", 1000 * creates(url), CREATE_MS, " ms")
            judge("memory", memory(home), MEMORY_MB, " MB")
            transfer(url, folder, options.runs)
        finally:
            stop()
    return min(measure.failures, 1)


def serve(home: Path) -> tuple[str, Callable[[], None]]:
    """An emulator of a home, and how it is stopped."""
    words = [*VTRAIN, "emulator", "start", "--port=0", "--backend=process", "--no-require-token"]
    environment = {**os.environ, "VTRAIN_HOME": str(home)}
    with subprocess.Popen([*words, "--detach"], env=environment, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        url = child.stdout.read().strip()
    stop = [*VTRAIN, "emulator", "stop"]
    return url, lambda: subprocess.run(stop, env=environment, check=True, capture_output=True) and None


def started(home: Path) -> float:
    """Seconds from the start of the program to its first answer."""
    environment = {**os.environ, "VTRAIN_HOME": str(home)}
    began = time.perf_counter()
    words = [*VTRAIN, "emulator", "start", "--port=0", "--backend=process", "--no-require-token"]
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, env=environment, text=True, **quiet) as child:
        assert child.stdout is not None
        url = child.stdout.readline().strip()
        ask(url, "GET", PARENT)
        taken = time.perf_counter() - began
        child.terminate()
    return taken


def ask(url: str, verb: str, path: str, body: str | None = None) -> Any:
    """One request on a connection of its own, as the high-level library makes it."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        connection.request(verb, path, body)
        answer = connection.getresponse()
        document = json.loads(answer.read())
        assert answer.status == 200, document
        return document
    finally:
        connection.close()


def each(run: Callable[[int], object], times: int) -> float:
    """The median of so many runs, in seconds."""
    taken = []
    for number in range(times):
        began = time.perf_counter()
        run(number)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def creates(url: str) -> float:
    """The median of creates by clients that make so many a second together."""
    taken: list[float] = []
    names: list[str] = []
    begin = time.monotonic() + 0.5

    def client(number: int) -> None:
        for turn in range(number, CREATES, CLIENTS):
            time.sleep(max(begin + turn / PER_SECOND - time.monotonic(), 0))
            began = time.perf_counter()
            names.append(ask(url, "POST", PARENT, BODY)["name"])
            taken.append(time.perf_counter() - began)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: all("endTime" in ask(url, "GET", f"/v1/{name}") for name in names), pause=0.5)
    return statistics.median(taken)


def memory(home: Path) -> float:
    """The proportional set size of the emulator in MB, after all of the above."""
    (file,) = (home / "emulator").glob("*.json")
    process = json.loads(file.read_text())["process"]
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def transfer(url: str, folder: Path, runs: int) -> None:
    """Uploads and downloads against a copy of the same file."""
    source, target = folder / "source", folder / "target"
    source.write_bytes(os.urandom(1 << 20) * (SIZE >> 20))
    place = urlsplit(url).netloc
    (folder / "many" / "buckets" / "bench").mkdir(parents=True, exist_ok=True)

    def upload() -> float:
        began = time.perf_counter()
        connection = HTTPConnection(place, timeout=120)
        with source.open("rb") as file:
            headers = {"Content-Length": str(SIZE), "Content-Type": "application/octet-stream"}
            connection.request(
                "POST", "/upload/storage/v1/b/bench/o?uploadType=media&name=big", file, headers
            )
            answer = connection.getresponse()
            answer.read()
        assert answer.status == 200, answer.status
        connection.close()
        return time.perf_counter() - began

    def download() -> float:
        began = time.perf_counter()
        connection = HTTPConnection(place, timeout=120)
        connection.request("GET", "/download/storage/v1/b/bench/o/big?alt=media")
        with target.open("wb") as file:
            shutil.copyfileobj(connection.getresponse(), file, 1 << 20)
        connection.close()
        return time.perf_counter() - began

    def copy() -> float:
        began = time.perf_counter()
        with source.open("rb") as old, target.open("wb") as new:
            shutil.copyfileobj(old, new, 1 << 20)
        return time.perf_counter() - began

    taken = alternate({"copy": copy, "upload": upload, "download": download}, runs)
    for side in ("upload", "download"):
        share = taken["copy"] / taken[side]
        judge(f"{side} of 200 MB, against a copy", share, SHARE_OF_A_COPY, " of its speed", least=True)


if __name__ == "__main__":
    sys.exit(main())
