"""Makes the pictures of the dashboard in docs/pictures: real jobs, in a real browser.

usage: python docs/dashboard_pictures.py    (in a clone, with vtrain and its extras `dashboard` and `tuning`)

It runs jobs in an empty home, serves the dashboard, and has Chromium photograph four of its pages.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PICTURES = Path(__file__).parent / "pictures"
LARGEST = 80_000
"""Bytes of a picture."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LONGEST_SECONDS = 300
TRAINER = """
import argparse, json, math, os, time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, default=0.3)
parser.add_argument("--epochs", type=int, default=40)
parser.add_argument("--rest", type=float, default=0.0)
args = parser.parse_args()
folder = Path(os.environ["AIP_MODEL_DIR"])
folder.mkdir(parents=True, exist_ok=True)
rows = []
for epoch in range(1, args.epochs + 1):
    noise = math.sin(epoch * 2.7) / 60
    loss = math.exp(-args.rate * epoch / 3) + 0.08 + noise
    rows.append({"epoch": epoch, "loss": loss, "accuracy": 1 - loss / 1.6})
    print(f"epoch {epoch:3}  loss {loss:.4f}  accuracy {rows[-1]['accuracy']:.4f}", flush=True)
    time.sleep(args.rest)
(folder / "metrics.json").write_text(json.dumps(rows))
(folder / "weights.bin").write_bytes(bytes(123_456))
if file := os.environ.get("CLOUD_ML_HP_METRIC_FILE"):
    measured = {"accuracy": str(rows[-1]["accuracy"]), "global_step": str(args.epochs)}
    measured |= {"timestamp": time.time(), "trial": os.environ["CLOUD_ML_TRIAL_ID"]}
    Path(file).write_text(json.dumps(measured) + "\\n")
"""
STUDY = """
studySpec:
  metrics: [{metricId: accuracy, goal: MAXIMIZE}]
  parameters:
  - parameterId: rate
    scaleType: UNIT_LOG_SCALE
    doubleValueSpec: {minValue: 0.01, maxValue: 1.0}
maxTrialCount: 12
parallelTrialCount: 2
"""


def main() -> None:
    """Run the jobs, and make the pictures."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"None of {', '.join(BROWSERS)} is installed.")
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="vt") as name:
        folder = Path(name)
        environ = os.environ | {"HOME": name, "VTRAIN_HOME": f"{name}/.vtrain", "VTRAIN_BACKEND": "process"}
        try:
            run_jobs(folder, environ)
            with served(folder, environ) as url:
                jobs = listed(folder, environ)
                job, failed, study = (
                    f"{url}/jobs/{jobs[each]}" for each in ("mnist-long", "broken", "tune-rate")
                )
                photograph(browser, folder, url, "jobs", (1080, 500))
                photograph(browser, folder, job, "job-dark", (880, 620), dark=True)
                photograph(browser, folder, study, "tuning-job", (880, 880))
                photograph(browser, folder, failed, "failure-phone", (390, 720))
        finally:
            end_job(folder, environ)


def run_jobs(folder: Path, environ: dict[str, str]) -> None:
    """Jobs of several kinds; one goes on."""
    (folder / "train.py").write_text(TRAINER)
    (folder / "broken.py").write_text(f"{TRAINER}\nprint({{'weight': 3.0}}['wieght'])\n")
    (folder / "study.yaml").write_text(STUDY)
    trainer = ("--local-package-path=.", "--region=us-central1")
    vtrain(
        folder, environ, "run", "--display-name=mnist-small", "train.py", "--", "--epochs=12", "--rate=0.9"
    )
    vtrain(folder, environ, "run", "--display-name=mnist-long", "train.py")
    vtrain(folder, environ, "run", "--display-name=broken", "broken.py", "--", "--epochs=8", fails=True)
    pool = "--worker-pool-spec=machine-type=n1-standard-4,replica-count="
    pools = (f"{pool}1,local-package-path=.,script=train.py", f"{pool}2")
    vtrain(folder, environ, "custom-jobs", "local-run", "--display-name=two-pools", *pools)
    vtrain(
        folder,
        environ,
        *("hp-tuning-jobs", "create", "--display-name=tune-rate", "--config=study.yaml", "--script=train.py"),
        *(*trainer, "--stream-logs"),
    )
    vtrain(
        folder, environ, "submit", "--display-name=mnist-now", "train.py", "--", "--epochs=9000", "--rest=0.4"
    )


def vtrain(folder: Path, environ: dict[str, str], *words: str, fails: bool = False) -> str:
    """The stdout of a command."""
    argv = [sys.executable, "-m", "vtrain", *words]
    ended = subprocess.run(argv, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    if bool(ended.returncode) is not fails:
        sys.exit(f"{' '.join(words)} ended with {ended.returncode}:\n{ended.stderr}")
    return ended.stdout


def listed(folder: Path, environ: dict[str, str]) -> dict[str, str]:
    """The full names of the jobs by their display names, in the form of the dashboard's addresses."""
    documents = json.loads(vtrain(folder, environ, "ps", "--format=json"))
    names = {each["displayName"]: each["name"].split("/") for each in documents}
    return {shown: "/".join((parts[1], parts[3], *parts[4:])) for shown, parts in names.items()}


@contextmanager
def served(folder: Path, environ: dict[str, str]) -> Iterator[str]:
    """The address of the dashboard."""
    argv = [sys.executable, "-m", "vtrain", "dashboard", "--no-browser", "-q"]
    with subprocess.Popen(argv, cwd=folder, env=environ, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        try:
            urllib.request.urlopen(url, timeout=LONGEST_SECONDS).close()
            yield url
        finally:
            server.send_signal(signal.SIGINT)


def photograph(
    browser: str, folder: Path, url: str, name: str, size: tuple[int, int], *, dark: bool = False
) -> None:
    """Write the picture of a page."""
    picture = PICTURES / f"{name}.png"
    argv = [browser, "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu", "--no-first-run"]
    argv += [f"--user-data-dir={folder}/profile", f"--window-size={size[0]},{size[1]}"]
    argv += ["--force-dark-mode"] if dark else []
    argv += ["--virtual-time-budget=2000", f"--screenshot={picture}", url]
    subprocess.run(argv, check=True, capture_output=True, timeout=LONGEST_SECONDS)
    count = picture.stat().st_size
    print(f"{picture.name}: {count} bytes")
    if count > LARGEST:
        sys.exit(f"{picture.name} has more than {LARGEST} bytes: take a smaller window.")


def end_job(folder: Path, environ: dict[str, str]) -> None:
    """End the job that goes on, if it has begun."""
    for words in (("stop", "mnist-now"), ("custom-jobs", "wait", "mnist-now")):
        argv = [sys.executable, "-m", "vtrain", *words]
        subprocess.run(argv, cwd=folder, env=environ, capture_output=True, check=False)


if __name__ == "__main__":
    main()
