"""Staging 200 files of 1 MB: vtrain's against the library's uploads one after another, taking turns."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path

import measure
from measure import alternate, arguments, judge, scene
from storage_scene import bytes_received, storage_server

FILES, SIZE = 200, 1_000_000
LEAST_RATIO = 2.0
DELAYS = {"loopback": 0.0, "20 ms per request, as on a network": 0.02}
LIBRARY, OURS = "the library, one after another", "vtrain, several at a time"


def main() -> int:
    options = arguments(__doc__, runs=3)
    with scene() as folder:
        files = plant(folder / "files")
        for label, delay in DELAYS.items():
            print(f"{label}:")
            home = folder / f"service-{delay}"
            (home / "buckets" / "stage").mkdir(parents=True)
            with storage_server(home, delay) as url:
                os.environ["STORAGE_EMULATOR_HOST"] = url
                compare(label, files, options.runs)
                judge_second(label, files, url)
    return min(measure.failures, 1)


def plant(folder: Path) -> list[Path]:
    folder.mkdir()
    files = [folder / f"part-{number:03}.bin" for number in range(FILES)]
    for file in files:
        file.write_bytes(os.urandom(SIZE))
    return files


def compare(label: str, files: list[Path], runs: int) -> None:
    """Both sides, each time into a folder of the bucket where nothing is."""
    numbers = count()
    taken = alternate(
        {
            LIBRARY: lambda: clocked(upload_one_by_one, files, f"library-{next(numbers)}"),
            OURS: lambda: clocked(stage, files, f"vtrain-{next(numbers)}"),
        },
        runs,
    )
    judge(f"rate of staging, {label}", taken[LIBRARY] / taken[OURS], LEAST_RATIO, " times", least=True)


def judge_second(label: str, files: list[Path], url: str) -> None:
    """The files once more, where they are."""
    stage(files, "again")
    before = bytes_received(url)
    taken = clocked(stage, files, "again")
    print(f"  the second time: {taken * 1000:.0f} ms")
    judge(f"bytes sent the second time, {label}", bytes_received(url) - before, 0)


def clocked(send: Callable[[list[Path], str], None], files: list[Path], folder: str) -> float:
    started = time.perf_counter()
    send(files, folder)
    return time.perf_counter() - started


def upload_one_by_one(files: list[Path], folder: str) -> None:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud.storage import Client

    with closing(Client(project="demo", credentials=AnonymousCredentials())) as client:
        bucket = client.bucket("stage")
        for file in files:
            blob = bucket.blob(f"{folder}/{file.name}")
            blob.upload_from_filename(str(file), if_generation_match=0, checksum="crc32c")


def stage(files: list[Path], folder: str) -> None:
    from google.auth.credentials import AnonymousCredentials

    from vtrain.staging.cloud import CloudBuckets

    buckets = CloudBuckets("demo", "", AnonymousCredentials)
    buckets.stage_all({file: f"gs://stage/{folder}/{file.name}" for file in files}, lambda _text: None)


if __name__ == "__main__":
    sys.exit(main())
