"""Runs while a runtime image is built: installs packages in the order and with the options of Vertex AI.

Beside it lies `steps.json`, a list: {"package": FILE} or {"requirements": FILE}. Standard library only,
and for every Python that training images have (3.7 and later).
"""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SITE = "/opt/vtrain/site"
USER_BASE = "/opt/vtrain/user"


def main() -> None:
    """Install everything, then make Python look for the trainer's code."""
    user = ["--user"] if site.ENABLE_USER_SITE else []
    with open(os.path.join(HERE, "steps.json")) as file:
        steps = json.load(file)
    for step in steps:
        if "package" in step:
            package = os.path.join(HERE, step["package"])
            pip(*user, "--upgrade", "--force-reinstall", "--no-deps", package)
            pip(*user, package)
        else:
            pip(*user, "--requirement", os.path.join(HERE, step["requirements"]))
    folder = site.getusersitepackages() if user else site.getsitepackages()[0]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "vtrain_trainer.pth"), "w") as file:
        file.write(SITE + "\n")
    if user:
        os.symlink(site.getuserbase(), USER_BASE)
    if user and os.getuid() == 0:
        open_to_all(site.getuserbase())


def open_to_all(base: str) -> None:
    """Let containers that run as another user read what was installed."""
    for folder, _, files in os.walk(base):
        for path in [folder] + [os.path.join(folder, name) for name in files]:
            if not os.path.islink(path):
                os.chmod(path, os.stat(path).st_mode | (0o055 if os.path.isdir(path) else 0o044))
    while len(base) > 1:
        base = os.path.dirname(base)
        os.chmod(base, os.stat(base).st_mode | 0o011)


def pip(*arguments: str) -> None:
    """One `pip install`; ends this program with pip's own code when it fails."""
    print("Running command: pip3 install " + " ".join(arguments), flush=True)
    cache = ["--cache-dir", sys.argv[1]] if len(sys.argv) > 1 else ["--no-cache-dir"]
    code = subprocess.call(
        [sys.executable, "-m", "pip", *cache, "install", "--progress-bar", "off", *arguments]
    )
    if code:
        sys.exit(code)


if __name__ == "__main__":
    main()
