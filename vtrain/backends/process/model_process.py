"""Serves models as processes: a server in a cached environment stands in for the pre-built containers."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vtrain.backends import BackendSettings
from vtrain.backends.local_plan import environment_spec, package_files
from vtrain.backends.model_interface import ServingOrder
from vtrain.errors import ConfigError
from vtrain.packaging.direct import Member, write_direct
from vtrain.runtime.environments.environment import EnvironmentSpec, make_environment, plan_environment
from vtrain.runtime.environments.interpreters import base_interpreter
from vtrain.runtime.home import Home
from vtrain.runtime.inheritance import inherited_environment
from vtrain.runtime.serving import model_server
from vtrain.runtime.serving.prediction_images import (
    PredictionImage,
    handler_requirements,
    prediction_image,
)
from vtrain.runtime.serving.serving_contract import last_words, listen_at, served

PACKAGE = "vtrain_model_server"
STOP_SECONDS = 10.0
_PROGRAM = Path(model_server.__file__)


class ProcessServing:
    """Starts a server in a cached environment with the framework of the model's pre-built image."""

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings

    @contextmanager
    def serve(self, order: ServingOrder) -> Iterator[ServerProcess]:
        """A server as long as the block lasts. Raises ConfigError for a model of another container."""
        image = _image(order)
        artifacts = _artifacts(order, image)
        scratch = order.scratch
        python = self._python_of(order.job) if order.job else self._python(image, artifacts, scratch)
        program = [str(_PROGRAM)] if order.job else ["-m", PACKAGE]
        address = scratch / "socket"
        with listen_at(address) as listener, (scratch / "output").open("wb") as output:
            process = subprocess.Popen(
                [python, *program, image.family, str(listener.fileno())],
                env=inherited_environment() | served(order.model, str(artifacts)).env | _OWN,
                cwd=scratch,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[listener.fileno()],
            )
        try:
            yield ServerProcess(process, address, scratch / "output")
        finally:
            process.kill()
            process.wait(STOP_SECONDS)
            assert process.stdin is not None
            process.stdin.close()

    def _python_of(self, job: str) -> str:
        """The interpreter that a job's trainer ran in; its environment is made again where it is gone.

        Raises ConfigError for a job without a Python package, EnvironmentFailed.
        """
        order = Home(self._settings.home).job(job).order()
        pools = [pool for pool in order.job.job_spec.worker_pool_specs if package_files(pool)]
        if not pools:
            raise ConfigError(
                "The job ran in an image of its own, and no process can stand in for that.",
                hint="Keep its model, with the image that serves it: vtrain models upload --help",
            )
        if order.setting.active_python:
            return order.setting.active_python
        plan = plan_environment(environment_spec(pools[0], order), self._settings.home)
        if not plan.cached:
            self._settings.tell(
                "The job's environment is gone: it is made again, perhaps with newer versions …"
            )
        return make_environment(plan, self._log).python

    def _log(self, line: bytes) -> None:
        self._settings.tell(line.decode("utf-8", "replace").rstrip())

    def _python(self, image: PredictionImage, artifacts: Path, scratch: Path) -> str:
        """The interpreter of the environment, made where it is not there. Raises EnvironmentFailed."""
        package = scratch / f"{PACKAGE}.tar.gz"
        write_direct(
            package,
            name=PACKAGE,
            version="1",
            requirements=(
                *image.requirements(base_interpreter().short_version),
                *handler_requirements(artifacts / "model.mar"),
            ),
            members=[
                Member(name=f"{PACKAGE}/__init__.py", content=b""),
                Member(name=f"{PACKAGE}/__main__.py", content=_PROGRAM),
            ],
        )
        plan = plan_environment(EnvironmentSpec(packages=(str(package),)), self._settings.home)
        if not plan.cached:
            self._settings.tell(f"Making an environment with {image.family} {image.version} …")
        return make_environment(plan, self._log).python


class ServerProcess:
    """A server that runs, or has ended."""

    def __init__(self, process: subprocess.Popen[bytes], address: Path, output: Path) -> None:
        self.address = address
        self._process = process
        self._output = output

    def failure(self) -> str:
        """Its last lines, where it has ended; empty while it runs."""
        return "" if self._process.poll() is None else last_words(self._lines())

    def remarks(self) -> str:
        """Its last lines: warnings of frameworks, as the server itself writes none."""
        lines = [line for line in self._lines() if not _CHATTER.match(line)]
        return last_words(lines) if lines else ""

    def _lines(self) -> list[str]:
        return self._output.read_text("utf-8", "replace").splitlines()


_CHATTER = re.compile(r"I[0-9]{4} |WARNING: All log messages before absl::|$")
"""Lines that TensorFlow writes at every start."""
_OWN = {"PYTHONUNBUFFERED": "1", "PYTHONNOUSERSITE": "1"}


def _image(order: ServingOrder) -> PredictionImage:
    spec = order.model.container_spec
    named = spec.image_uri if spec is not None else ""
    found = prediction_image(named)
    if found is None or (spec is not None and (spec.command or spec.args)):
        what = f"The image {named}" if named else "A model without an image"
        raise ConfigError(
            f"{what} is no pre-built prediction image of scikit-learn, XGBoost, TensorFlow or PyTorch, "
            "run as it is: the backend process serves no other.",
            hint="Take --backend=docker, which runs the image itself." if named else "",
        )
    return found


def _artifacts(order: ServingOrder, image: PredictionImage) -> Path:
    """The folder with a file that the image accepts. Raises ConfigError where there is none."""
    names = model_server.FILES[image.family]
    if order.artifacts is None:
        raise ConfigError(
            f"Model {order.model.name} has no files: it was uploaded without --artifact-uri.",
            hint=f"Upload it again with a folder that has {' or '.join(names)}.",
        )
    if not any((order.artifacts / name).is_file() for name in names):
        found = sorted(path.name for path in order.artifacts.iterdir())
        raise ConfigError(
            f"{order.artifacts} has no file that a container of {image.family} accepts: {', '.join(names)}.",
            hint=f"It has {', '.join(found[:10])}. Save the model under one of these names.",
        )
    return order.artifacts
