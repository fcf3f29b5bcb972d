"""Logs: 300,000 lines of 86 bytes through engine and `stream-logs`, against the same trainer through `cat`.

Nothing may be lost, and the order is kept. Memory is that of supervisor and shim while the job runs.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import measure
from measure import VTRAIN, arguments, judge, scene, seconds

LINES = 300_000
WIDTH = 86
STORED = 40_000
SHARE = 1 / 3
MEGABYTES = 40
TRAINER = f"""
import time

print(f"{{time.time():.6f}}", flush=True)
for number in range({LINES}):
    print(f"{{number:08}} ".ljust({WIDTH} - 1, "x"))
"""


class Rates(NamedTuple):
    """Lines per second since the trainer's start, until the last one was there."""

    stored: float
    shown: float
    cat: float


def main() -> int:
    options = arguments(__doc__, runs=3)
    with scene() as folder:
        code = folder / "code"
        code.mkdir()
        (code / "task.py").write_text(TRAINER)
        rates = [measured(folder, code) for _ in range(options.runs + 1)][1:]
        stored, shown, cat = (statistics.median(column) for column in zip(*rates, strict=True))
        print(f"  stored {stored:,.0f} lines/s; shown {shown:,.0f} lines/s; through cat {cat:,.0f} lines/s")
        judge("lines stored", stored, STORED, " lines/s", least=True)
        ratio = statistics.median(rate.shown / rate.cat for rate in rates)
        judge("a running job through stream-logs, of cat's rate", ratio, SHARE, least=True)
        finished(folder, options.runs)
        if Path("/proc/self/smaps_rollup").exists():
            watch_memory(folder, code)
    return min(measure.failures, 1)


def create(code: Path) -> str:
    """Start a job that writes the lines; its name."""
    argv = [
        *VTRAIN,
        "custom-jobs",
        "create",
        "--display-name=logs",
        f"--local-package-path={code}",
        "--script=task.py",
    ]
    done = subprocess.run([*argv, "--format=value(name)"], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def job_folder(folder: Path, name: str) -> Path:
    return folder / "home" / "jobs" / name.rpartition("/")[2]


def measured(folder: Path, code: Path) -> Rates:
    """One job followed while it runs, then the same program through `cat`; both complete and in order."""
    name = create(code)
    shown = folder / "shown"
    with shown.open("wb") as out:
        subprocess.run(
            [*VTRAIN, "custom-jobs", "stream-logs", name], check=True, stdout=out, stderr=subprocess.DEVNULL
        )
    raw = job_folder(folder, name) / "logs" / "workerpool0-0.0.log"
    return Rates(rate(raw), rate(shown), through_cat(folder, name, code))


def through_cat(folder: Path, name: str, code: Path) -> float:
    """Lines per second of the same program, with the replica's variables, through `| cat > file`."""
    spec = json.loads((job_folder(folder, name) / "replicas" / "workerpool0-0" / "spec.json").read_text())
    argv = [sys.executable, str(code / "task.py")]  # the job has removed its own environment at its end
    target = folder / "cat"
    with target.open("wb") as out:
        cat = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=out)
        assert cat.stdin is not None
        subprocess.run(argv, env=spec["env"], cwd=folder, stdout=cat.stdin, check=True)
        cat.stdin.close()
        cat.wait()
    return rate(target)


def rate(file: Path, expected: int = LINES) -> float:
    """Lines per second from the trainer's start to the file's last write; all have to be there, in order."""
    pattern = re.compile(rb"(?:^|\t)(\d{8} x+|\d{10}\.\d{6})$")
    with file.open("rb") as lines:
        found = [match[1] for line in lines if (match := pattern.search(line.rstrip(b"\n")))]
    if [int(line[:8]) for line in found[1:]] != list(range(expected)):
        raise SystemExit(f"FAIL  {file} has lost lines, or their order")
    return expected / (file.stat().st_mtime - float(found[0]))


def finished(folder: Path, runs: int) -> None:
    """A finished log through `stream-logs`, and its raw file through `cat`: told, not judged."""
    newest = max((folder / "home" / "jobs").iterdir(), key=lambda path: path.stat().st_mtime)
    out, raw = folder / "out", newest / "logs" / "workerpool0-0.0.log"
    command = " ".join(VTRAIN) + f" custom-jobs stream-logs {newest.name}"
    ours = statistics.median(seconds(["sh", "-c", f"{command} > {out} 2> /dev/null"]) for _ in range(runs))
    rate(out)
    cat = statistics.median(seconds(["sh", "-c", f"cat {raw} > {out}"]) for _ in range(runs))
    print(
        f"  a finished log: stream-logs {LINES / ours:,.0f} lines/s, cat {LINES / cat:,.0f} lines/s, "
        f"ratio {cat / ours:.3f}"
    )


def watch_memory(folder: Path, code: Path) -> None:
    """The largest PSS of supervisor and shim together while a job runs."""
    job = job_folder(folder, create(code))
    largest, deadline = 0.0, time.monotonic() + 120
    while time.monotonic() < deadline:
        sizes = pss_of(str(job))
        if largest and not sizes:
            break
        largest = max(largest, sum(sizes))
        time.sleep(0.02)
    judge("supervisor and shim, PSS", largest, MEGABYTES, " MB")


def pss_of(marker: str) -> list[float]:
    """PSS in megabytes of each process with `marker` on its command line."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and marker.encode() in (entry / "cmdline").read_bytes():
                rollup = (entry / "smaps_rollup").read_text()
                found.append(int(re.search(r"^Pss: +(\d+) kB", rollup, re.M)[1]) / 1000)  # type: ignore[index]
        except OSError:
            continue  # it has ended meanwhile
    return found


if __name__ == "__main__":
    sys.exit(main())
