"""`package image` of a tree of 2,000 files that has not changed: the whole command, from start to end."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import measure
from docker_scene import docker_scene, remove_images
from measure import VTRAIN, alternate, arguments, judge, seconds

FILES = 2_000
FILES_PER_FOLDER = 50
LIMIT = 0.5


def main() -> int:
    options = arguments(__doc__, runs=9, image=True)
    with docker_scene() as folder:
        code = folder / "code"
        plant(code)
        command = [*VTRAIN, "package", "image", f"--local-package-path={code}"]
        command += ["--python-module=trainer.task", f"--executor-image-uri={options.image}"]
        started = time.perf_counter()
        image = name_of(command)
        try:
            print(f"  the first time: {time.perf_counter() - started:.2f} s")
            (taken,) = alternate(
                {f"unchanged, {FILES:,} files": lambda: seconds(command)}, options.runs
            ).values()
            if name_of(command) != image:
                raise SystemExit("FAIL  the image of an unchanged tree has another name")
        finally:
            remove_images(image)
        judge("package image of an unchanged tree", taken, LIMIT, " s")
    return min(measure.failures, 1)


def name_of(command: list[str]) -> str:
    """The name of the image that the command prints."""
    done = subprocess.run([*command, "--format=value(image)"], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def plant(code: Path) -> None:
    """Modules of about a kilobyte, in packages, and the one that is run. They are this benchmark's alone."""
    for number in range(FILES):
        package = code / "trainer" / f"part{number // FILES_PER_FOLDER:02}"
        if number % FILES_PER_FOLDER == 0:
            package.mkdir(parents=True)
            name = package / "__init__.py"
        else:
            name = package / f"module{number:04}.py"
        name.write_text(f"NUMBER = {number}\nMOMENT = {time.time_ns()}\n" + "# a line of it\n" * 60)
    (code / "trainer" / "__init__.py").touch()
    (code / "trainer" / "task.py").write_text('print("packed")\n')


if __name__ == "__main__":
    sys.exit(main())
