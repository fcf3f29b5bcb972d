"""Start to first line of a job on Docker: in a container that waits on a resource, and in a new one.

Both sides run the same image and the same package.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import measure
from docker_scene import docker_scene
from measure import VTRAIN, alternate, arguments, judge, seconds_to_line, until

WARM = 0.6
"""The part of a cold job's time that a warm one may take to its first line."""
FIRST = "the first line"
POOL = "machine-type=n1-standard-4"
ID = "warm"


def main() -> int:
    options = arguments(__doc__, runs=15, image=True)
    with docker_scene() as folder:
        code = folder / "code"
        code.mkdir()
        (code / "train.py").write_text(f"print({FIRST!r}, flush=True)\n")
        resource = ["persistent-resources", "create", f"--persistent-resource-id={ID}", "--backend=local"]
        make = [*VTRAIN, *resource, f"--resource-pool-spec={POOL},replica-count=1"]
        subprocess.run(make, check=True, capture_output=True)
        try:
            flags = (f"--persistent-resource-id={ID}",)
            first_line(folder, options.image, *flags)
            sides = {
                "cold": lambda: first_line(folder, options.image),
                "warm": lambda: first_line(folder, options.image, *flags),
            }
            cold, warm = alternate(sides, options.runs).values()  # type: ignore[arg-type]
        finally:
            delete = [*VTRAIN, "persistent-resources", "delete", ID, "--backend=local", "--force"]
            subprocess.run(delete, check=True, capture_output=True)
    judge("start to first line, warm of cold", warm / cold, WARM)
    return min(measure.failures, 1)


def first_line(folder: Path, image: str, *flags: str) -> float:
    """Seconds from the command to the first line of the trainer."""
    pool = f"{POOL},local-package-path={folder / 'code'},script=train.py,executor-image-uri={image}"
    create = ["custom-jobs", "create", "--backend=docker", "--display-name=a", "--stream-logs", *flags]
    argv = [*VTRAIN, *create, f"--worker-pool-spec={pool}"]
    taken = seconds_to_line(argv, FIRST)
    if flags:
        until(lambda: any(folder.glob("**/waiting/*/*/[0-9]*/container.json")))
    return taken


if __name__ == "__main__":
    sys.exit(main())
