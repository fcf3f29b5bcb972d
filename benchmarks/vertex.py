"""Whole commands against a server on loopback that answers at once: vtrain's and gcloud's take turns."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import measure
from measure import VTRAIN, alternate, arguments, judge, scene, seconds

COMMAND_LIMIT, HELP_LIMIT = 0.7, 0.15
REGION = "--region=us-central1"
POOL = "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/p/img:1"
NAME = "projects/demo/locations/us-central1/customJobs/456"
JOB = {
    "name": NAME,
    "displayName": "demo",
    "state": "JOB_STATE_PENDING",
    "createTime": "2026-01-01T00:00:00Z",
}
COMMANDS = {
    "custom-jobs create": ["custom-jobs", "create", REGION, "--display-name=demo", POOL],
    "custom-jobs describe": ["custom-jobs", "describe", "456", REGION, "--format=json"],
}
HELPS = {
    "custom-jobs create --help": ["custom-jobs", "create", "--help"],
    "custom-jobs --help": ["custom-jobs", "--help"],
    "hp-tuning-jobs create --help": ["hp-tuning-jobs", "create", "--help"],
    "persistent-resources list --help": ["persistent-resources", "list", "--help"],
}


def main() -> int:
    options = arguments(__doc__, runs=7)
    if shutil.which("gcloud") is None:
        print("skip  gcloud is not on PATH")
        return 0
    with scene() as folder, answering_server() as address:
        os.environ.update(environment(folder, address))
        for words, limit in ((COMMANDS, COMMAND_LIMIT), (HELPS, HELP_LIMIT)):
            for name, command in words.items():
                compare(name, command, options.runs, limit)
    return min(measure.failures, 1)


def compare(name: str, command: list[str], runs: int, limit: float) -> None:
    """Both sides of one command, and the ratio."""
    ours, theirs = f"vtrain {name}", f"gcloud ai {name}"
    sides = {
        ours: lambda: seconds([*VTRAIN, *command]),
        theirs: lambda: seconds(["gcloud", "ai", *command]),
    }
    medians = alternate(sides, runs)
    judge(f"{name}, of gcloud's time", medians[ours] / medians[theirs], limit)


def environment(folder: Path, address: str) -> dict[str, str]:
    """What makes both speak to the server, without credentials and without questions."""
    return {
        "CLOUDSDK_CONFIG": str(folder / "gcloud"),
        "CLOUDSDK_CORE_PROJECT": "demo",
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM": address,
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
    }


class Answer(BaseHTTPRequestHandler):
    """Answers every request with the same job."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer()

    def _answer(self) -> None:
        body = json.dumps(JOB).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def answering_server() -> Iterator[str]:
    """The address of a server that answers at once."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
