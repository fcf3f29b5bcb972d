"""Start to first line of a job on a persistent resource: with a framework kept imported, and without.

The framework takes 2 s to import. Both sides run the same package, in an environment that is there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import measure
from measure import VTRAIN, alternate, arguments, judge, scene, seconds_to_line, until

WARM = 0.3
"""The part of a cold job's time that a warm one may take to its first line."""
IMPORT_SECONDS = 2
FIRST = "the first line"
TRAINER = f"import framework\nprint({FIRST!r}, flush=True)\n"
POOL = "machine-type=n1-standard-4"


def main() -> int:
    options = arguments(__doc__, runs=7)
    with scene() as folder:
        write_files(folder)
        for name, flags in (("cold", []), ("warm", ["--preload=framework"])):
            make = ["persistent-resources", "create", f"--persistent-resource-id={name}", *flags]
            spec = f"--resource-pool-spec={POOL},replica-count=1"
            subprocess.run([*VTRAIN, *make, spec, "--backend=local"], check=True, capture_output=True)
        first_line(folder, "warm")
        until(lambda: any((folder / "home").glob("slots/*/*.socket")))
        sides = {name: lambda name=name: first_line(folder, name) for name in ("cold", "warm")}
        cold, warm = alternate(sides, options.runs).values()  # type: ignore[arg-type]
        judge("start to first line, warm of cold", warm / cold, WARM)
        for name in ("cold", "warm"):
            end = [*VTRAIN, "persistent-resources", "delete", name, "--backend=local", "--force"]
            subprocess.run(end, check=True, capture_output=True)
    return min(measure.failures, 1)


def write_files(folder: Path) -> None:
    """A trainer, and the framework as a wheel that pip's configuration finds."""
    (folder / "code").mkdir()
    (folder / "code" / "train.py").write_text(TRAINER)
    wheels = folder / "wheels"
    wheels.mkdir()
    info = "framework-1.0.dist-info"
    with zipfile.ZipFile(wheels / "framework-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("framework.py", f"import time\ntime.sleep({IMPORT_SECONDS})\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: framework\nVersion: 1.0\n")
        tag = "Wheel-Version: 1.0\nGenerator: benchmark\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(f"{info}/WHEEL", tag)
        wheel.writestr(f"{info}/RECORD", "")
    os.environ.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheels))


def first_line(folder: Path, resource: str) -> float:
    """Seconds from the command to the first line of the trainer."""
    pool = f"{POOL},local-package-path={folder / 'code'},script=train.py,requirements=framework"
    create = ["custom-jobs", "create", "--backend=process", "--display-name=a", "--stream-logs"]
    argv = [*VTRAIN, *create, f"--worker-pool-spec={pool}", f"--persistent-resource-id={resource}"]
    return seconds_to_line(argv, FIRST)


if __name__ == "__main__":
    sys.exit(main())
