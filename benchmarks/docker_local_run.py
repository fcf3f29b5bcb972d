"""`local-run` in a container: gcloud's, ours and `docker run`, to the trainer's first line and to the end.

The trainer and one wheel of its own run in one image; the trainer is edited before every run.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import measure
from docker_scene import built_image, docker_scene, remove_images
from measure import VTRAIN, alternate, arguments, judge

GCLOUD_FIRST_LINE = 1 / 6
GCLOUD_WHOLE = 1 / 4
GCLOUD_DEPENDENCIES_MISSING = 1 / 2
DOCKER_RUN_FIRST_LINE = 0.40
DOCKER_RUN_WHOLE = 0.6
MARKER = "the trainer's first line"
WHEEL = "benchmark_extra-1.0-py3-none-any.whl"
REQUIREMENT = "six"
GCLOUD_IMAGE = "vtrain-benchmark/gcloud"
READY_IMAGE = "vtrain-benchmark/ready"
GCLOUD_ENVIRONMENT = {"CLOUDSDK_CORE_DISABLE_PROMPTS": "1", "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "1"}
OURS, GCLOUD, DOCKER = "vtrain local-run", "gcloud local-run", "docker run of a ready image"

numbers = count()


def main() -> int:
    options = arguments(__doc__, runs=9, image=True)
    with docker_scene() as folder:
        code = folder / "code"
        edit(code)
        make_wheel(code)
        against_gcloud(folder, code, options.image, options.runs)
        against_docker_run(code, options.image, options.runs)
    return min(measure.failures, 1)


def against_gcloud(folder: Path, code: Path, image: str, runs: int) -> None:
    """An edited trainer, then one that requires what is not there."""
    if shutil.which("gcloud") is None:
        print("skip  gcloud is not on PATH")
        return
    base = partial(flags, image, code)
    print("The trainer is edited before every run")
    first, whole = compare(
        {OURS: lambda: ours(base()), GCLOUD: lambda: gcloud(folder, base())}, runs, partial(edit, code)
    )
    judge("command to first line, of gcloud's", first[OURS] / first[GCLOUD], GCLOUD_FIRST_LINE)
    judge("whole command, of gcloud's", whole[OURS] / whole[GCLOUD], GCLOUD_WHOLE)
    print(f"The trainer requires {REQUIREMENT} in words that are new in every run")
    _, whole = compare(
        {OURS: lambda: ours(missing(base())), GCLOUD: lambda: gcloud(folder, missing(base()))},
        runs,
        partial(edit, code),
    )
    ratio = whole[OURS] / whole[GCLOUD]
    judge("whole command, dependencies missing, of gcloud's", ratio, GCLOUD_DEPENDENCIES_MISSING)


def against_docker_run(code: Path, image: str, runs: int) -> None:
    """An edited trainer, against an image that has the trainer and is run as it is."""
    lines = (
        f"FROM {image}",
        f"COPY {WHEEL} /tmp/",
        f"RUN pip install --no-cache-dir /tmp/{WHEEL}",
        "COPY trainer /usr/app/trainer",
        "WORKDIR /usr/app",
        'CMD ["python", "-m", "trainer.task"]',
    )
    print("The trainer is edited before every run of ours")
    with built_image(READY_IMAGE, "\n".join(lines), code) as ready:
        commands = {
            OURS: lambda: ours(flags(image, code)),
            DOCKER: lambda: run(["docker", "run", "--rm", ready]),
        }
        first, whole = compare(commands, runs, partial(edit, code))
    judge("first line, over docker run's", first[OURS] - first[DOCKER], DOCKER_RUN_FIRST_LINE, " s")
    judge("whole command, over docker run's", whole[OURS] - whole[DOCKER], DOCKER_RUN_WHOLE, " s")


def compare(
    commands: dict[str, Callable[[], tuple[float, float]]], runs: int, before: Callable[[], None]
) -> tuple[dict[str, float], dict[str, float]]:
    """Median seconds to the first line, and of the whole command."""
    wholes: dict[str, list[float]] = {name: [] for name in commands}

    def measured(name: str) -> float:
        before()
        first, whole = commands[name]()
        wholes[name].append(whole)
        return first

    firsts = alternate({name: partial(measured, name) for name in commands}, runs)
    medians = {name: statistics.median(taken[1:]) for name, taken in wholes.items()}
    for name, median in medians.items():
        print(f"  {name + ', whole':<44}{median * 1000:9.1f} ms")
    return firsts, medians


def ours(words: list[str]) -> tuple[float, float]:
    """One run of vtrain."""
    return run([*VTRAIN, "custom-jobs", "local-run", "--backend=docker", *words])


def gcloud(folder: Path, words: list[str]) -> tuple[float, float]:
    """One run of gcloud; the image that it made is removed, and the layers that are only its own."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env |= {**GCLOUD_ENVIRONMENT, "CLOUDSDK_CONFIG": str(folder / "gcloud")}
    made = f"{GCLOUD_IMAGE}:{next(numbers)}"
    try:
        return run(["gcloud", "ai", "custom-jobs", "local-run", *words, f"--output-image-uri={made}"], env)
    finally:
        remove_images(made)


def flags(image: str, code: Path) -> list[str]:
    """What both are told."""
    where = [f"--executor-image-uri={image}", f"--local-package-path={code}"]
    return [*where, "--python-module=trainer.task", f"--extra-packages={WHEEL}"]


def missing(words: list[str]) -> list[str]:
    """The same with a requirement that no run before had, so that no image of an earlier run fits."""
    return [*words, f"--requirements={REQUIREMENT}!=0.{time.time_ns()}"]


def run(argv: list[str], env: dict[str, str] | None = None) -> tuple[float, float]:
    """Seconds until the trainer's first line is on stdout, and until the command has ended well."""
    started, first = time.perf_counter(), 0.0
    with subprocess.Popen(
        argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            first = first or (MARKER in line) * (time.perf_counter() - started)
    if process.returncode != 0 or not first:
        raise SystemExit(f"{' '.join(argv)} ended with {process.returncode}")
    return first, time.perf_counter() - started


def edit(code: Path) -> None:
    """Change a line of the trainer."""
    package = code / "trainer"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    line = f'print("{MARKER}, {next(numbers)}", flush=True)'
    (package / "task.py").write_text(f"import benchmark_extra\n\n{line}\n")


def make_wheel(code: Path) -> None:
    """A package of the trainer's own: a module, and what pip wants to read."""
    record = "benchmark_extra-1.0.dist-info"
    files = {
        "benchmark_extra.py": "NUMBER = 1\n",
        f"{record}/METADATA": "Metadata-Version: 2.1\nName: benchmark-extra\nVersion: 1.0\n",
        f"{record}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{record}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{record}/RECORD"))
    with zipfile.ZipFile(code / WHEEL, "w") as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)


if __name__ == "__main__":
    sys.exit(main())
