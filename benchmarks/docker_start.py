"""Jobs of trivial replicas: from the command to all running, and to the end, with everything removed.

Against a plain script with Docker's SDK that creates, starts and removes the very same containers on the same
kind of network, one after another. The primary ends when all replicas run; the others sleep until they are
stopped. A third side makes only the script's calls, several at once: what the engine itself takes.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import measure
from docker_scene import docker_scene
from measure import VTRAIN, arguments, judge, until

LIMIT = 0.60
JUDGED_FROM = 10
OURS, PLAIN, FLOOR = "vtrain custom-jobs create", "a plain script", "the same calls at once"
HERE = Path(__file__).parent
LOOK_SECONDS = 0.02
"""The pause between two looks at the job: closer ones take processor time from the engine."""


class Taken(NamedTuple):
    """Seconds from the command to all replicas running, and to the end."""

    running: float
    ended: float


class Scene(NamedTuple):
    """A folder, the file that lets the primary end, and the image of the replicas."""

    folder: Path
    signal: Path
    image: str


def main() -> int:
    options = arguments(__doc__, runs=3, image=True, replicas=(1, 10, 50))
    with docker_scene() as folder:
        bucket = folder / "home" / "buckets" / "benchmark"
        bucket.mkdir(parents=True)
        scene = Scene(folder, bucket / "go", options.image)
        for replicas in options.replicas:
            compare(scene, replicas, options.runs)
    return min(measure.failures, 1)


def compare(scene: Scene, replicas: int, runs: int) -> None:
    """Both sides in turn, after one round that is not counted."""
    print(f"{replicas} replica{'s' if replicas > 1 else ''}")
    sides: dict[str, Callable[[], Taken]] = {
        OURS: lambda: ours(scene, replicas),
        PLAIN: lambda: scripted(scene, "docker_start_plain.py"),
        FLOOR: lambda: scripted(scene, "docker_start_floor.py"),
    }
    taken: dict[str, list[Taken]] = {name: [] for name in sides}
    for run in range(runs + 1):
        for name, act in sides.items():
            one = act()
            if run:
                taken[name].append(one)
    for field in ("running", "ended"):
        medians = {name: show(name, field, [getattr(one, field) for one in taken[name]]) for name in sides}
        ratio, floor = (medians[side] / medians[PLAIN] for side in (OURS, FLOOR))
        if replicas >= JUDGED_FROM:
            judge(f"{replicas} replicas to {field}, of the script's", ratio, LIMIT)
        else:
            print(f"      {replicas} replicas to {field}, of the script's: {ratio:.2f}")
        print(f"      the same calls at once, of the script's: {floor:.2f}")


def show(name: str, field: str, values: list[float]) -> float:
    """Print a line; the median."""
    spread = f"{min(values):.2f}–{max(values):.2f}"
    print(f"  {name + ', to ' + field:<44}{statistics.median(values):9.2f} s  ({spread})", flush=True)
    return statistics.median(values)


def ours(scene: Scene, replicas: int) -> Taken:
    """One job. Its containers' descriptions are left for the script."""
    from vtrain.backends import BackendSettings
    from vtrain.backends.registry import open_backend
    from vtrain.messages import states

    scene.signal.unlink(missing_ok=True)
    config = scene.folder / "job.json"
    config.write_text(json.dumps({"workerPoolSpecs": pools(scene.image, replicas)}))
    home = scene.folder / "home"
    backend = open_backend("docker", BackendSettings(home=home, project="local", region="us-central1"))
    argv = [*VTRAIN, "custom-jobs", "create", "--backend=docker", "--display-name=start"]
    started = time.perf_counter()
    name = output([*argv, f"--config={config}", "--format=value(name)"])
    until(lambda: backend.get(name).state not in (states.QUEUED, states.PENDING), LOOK_SECONDS)
    running = time.perf_counter() - started
    scene.signal.touch()
    until(lambda: states.has_ended(backend.get(name).state), LOOK_SECONDS)
    ended = time.perf_counter() - started
    if backend.get(name).state != states.SUCCEEDED:
        raise SystemExit(f"{name} ended as {backend.get(name).state}")
    keep_configs(scene, home / "jobs" / name.rpartition("/")[2])
    return Taken(running, ended)


def scripted(scene: Scene, program: str) -> Taken:
    """The same containers, by a script."""
    scene.signal.unlink(missing_ok=True)
    argv = [sys.executable, str(HERE / program), str(scene.folder / "containers.json")]
    started = time.perf_counter()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as script:
        assert script.stdout is not None
        script.stdout.readline()
        running = time.perf_counter() - started
        scene.signal.touch()
        if script.wait() != 0:
            raise SystemExit(f"{' '.join(argv)} ended with {script.returncode}")
    return Taken(running, time.perf_counter() - started)


def pools(image: str, replicas: int) -> list[dict[str, object]]:
    """The primary waits for a file in a bucket; the others sleep."""
    wait = "until [ -e /gcs/benchmark/go ]; do sleep 0.02; done"
    programs = [(1, ["sh", "-c", wait])] + [(replicas - 1, ["sleep", "3600"])] * (replicas > 1)
    return [
        {
            "machineSpec": {"machineType": "e2-standard-4"},
            "replicaCount": count,
            "containerSpec": {"imageUri": image, "command": command},
        }
        for count, command in programs
    ]


def keep_configs(scene: Scene, job: Path) -> None:
    """What the engine was asked for, in the order of the replicas."""
    names = json.loads((job / "replicas.json").read_text())
    orders = [json.loads((job / "replicas" / name / "spec.json").read_text()) for name in names]
    (scene.folder / "containers.json").write_text(json.dumps([order["config"] for order in orders]))


def output(argv: list[str]) -> str:
    """What a command that has to succeed prints."""
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
