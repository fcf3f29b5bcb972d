"""What a stand-in for a Docker engine has, and what it was asked for."""

from __future__ import annotations

import hashlib
import time
from datetime import datetime, timezone
from typing import Any, NamedTuple

NEVER = "0001-01-01T00:00:00Z"
Message = dict[str, Any]


class Build(NamedTuple):
    """One build: its Dockerfile, and the other files of its context by name."""

    name: str
    dockerfile: str
    files: dict[str, bytes]
    labels: dict[str, str]
    platform: str
    base: str


class Refusal(Exception):
    """An answer that is none of success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class StandInEngine:
    """What the engine has, and what was asked of it.

    `codes` holds the exit codes of builds, pushes and runs that do not succeed; `built_for` is the
    architecture of the images that it builds, `version` its answer to GET /version, `run_seconds` how long
    its containers run, and `statistics` its answers to the question what they use, the last one for ever.
    """

    def __init__(self) -> None:
        self.host = ""
        self.codes: dict[str, int] = {}
        self.built_for = "amd64"
        self.version: Message = {"ApiVersion": "1.45"}
        self.run_seconds = 0.0
        self.statistics: list[bytes] = [b"{}"]
        self.builds: list[Build] = []
        self.pulled: list[str] = []
        self.pushed: list[str] = []
        self.runs: list[Message] = []
        self.registry: dict[str, str] = {}
        self.images: dict[str, Message] = {}
        self.containers: dict[str, Message] = {}
        self.networks: dict[str, Message] = {}

    def image(self, name: str) -> Message:
        """The image of that name or id."""
        for image in self.images.values():
            if name == image["Id"] or full_name(name) in image["RepoTags"]:
                return image
        raise Refusal(404, f"No such image: {name}")

    def add_image(self, name: str, *, config: Message | None = None, architecture: str = "amd64") -> Message:
        """An image under a name that another may have had."""
        number = hashlib.sha256(f"{name} {len(self.images)}".encode()).hexdigest()
        facts = {
            "Id": f"sha256:{number}",
            "RepoTags": [],
            "RepoDigests": [],
            "Os": "linux",
            "Architecture": architecture,
            "Size": 1000,
            "Config": {"Labels": {}, "Env": [], "Entrypoint": None, "Cmd": None, **(config or {})},
        }
        self.images[facts["Id"]] = facts
        self.name(facts, name)
        return facts

    def name(self, image: Message, name: str) -> None:
        """Give an image a name, and take it from the one that had it."""
        for other in self.images.values():
            other["RepoTags"] = [tag for tag in other["RepoTags"] if tag != full_name(name)]
        image["RepoTags"].append(full_name(name))

    def container(self, name: str) -> Message:
        """The container of that name or id, as it stands now."""
        for found in self.containers.values():
            if name in (found["Id"], found["Name"].lstrip("/")):
                self._settle(found["State"])
                return found
        raise Refusal(404, f"No such container: {name}")

    def _settle(self, state: Message) -> None:
        if state["Running"] and time.time() >= state["until"]:
            state |= {"Running": False, "Status": "exited", "FinishedAt": _now()}

    def start(self, container: Message) -> None:
        """Run it: from now on for `run_seconds`."""
        self.runs.append(container["Config"])
        container["State"] |= {
            "Running": True,
            "Status": "running",
            "StartedAt": _now(),
            "ExitCode": self.codes.get("run", 0),
            "until": time.time() + self.run_seconds,
        }


def full_name(name: str) -> str:
    """The name with its tag."""
    return name if ":" in name.rpartition("/")[2] or "@" in name else f"{name}:latest"


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
