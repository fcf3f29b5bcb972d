"""Serves models as Vertex AI does: by the container that the model names."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from vtrain.backends import BackendSettings
from vtrain.backends.docker.container import DEFAULT_BRIDGE, bind
from vtrain.backends.docker.job_engine import server_hosts
from vtrain.backends.job_storage import missing_module, stop_serving, storage_variables
from vtrain.backends.model_interface import ServingOrder
from vtrain.containers.discovery import find_local_engine
from vtrain.containers.engine import HOME_LABEL, SERVING_LABEL, Engine, connect, engine_errors
from vtrain.containers.image_names import check_image_name
from vtrain.containers.images import ensure_image
from vtrain.errors import ConfigError, ImageError, StorageError
from vtrain.extras import install_command
from vtrain.messages.model import ModelContainerSpec
from vtrain.privacy import home_label
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.foreground import signals_later
from vtrain.runtime.launching import PrepareFailed
from vtrain.runtime.serving.prediction_images import prediction_image
from vtrain.runtime.serving.serving_contract import Served, last_words, served
from vtrain.staging import split_uri

MODEL_FOLDER = "/model"
"""The files of a model that is in no bucket, in its container: AIP_STORAGE_URI leads there."""
MEGABYTE = 1024 * 1024


ModelFiles = tuple[str, list[dict[str, Any]], dict[str, str]]
"""The way of a container to its model's files: AIP_STORAGE_URI, and its mounts and variables for that."""


class ContainerServing:
    """Starts a container of the model's image on the engine of this machine."""

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings

    @contextmanager
    def serve(self, order: ServingOrder) -> Iterator[ServerContainer]:
        """A container as long as the block lasts. Raises ConfigError for a model without an image."""
        spec = order.model.container_spec
        if spec is None or not spec.image_uri:
            raise ConfigError(
                f"Model {order.model.name} names no image that answers predictions.",
                hint="Upload it again with --container-image-uri=IMAGE.",
            )
        image = check_image_name(spec.image_uri, "containerSpec.imageUri")
        with (
            closing(connect(find_local_engine())) as engine,
            self._files(engine, order, JobFolder(order.scratch)) as files,
        ):
            self._have_image(engine, image)
            run = served(order.model, files[0])
            # By these labels garbage collection finds the container if this command is killed.
            labels = {SERVING_LABEL: str(order.scratch), HOME_LABEL: home_label(self._settings.home)}
            config = _config(spec, run, files) | {"Labels": labels}
            name = f"vtrain-predict-{order.scratch.name.rpartition('-')[2]}"
            with _container(engine, name, config) as container:
                yield ServerContainer(engine, container, _published_port(engine, container, run.port))

    def _have_image(self, engine: Engine, image: str) -> None:
        """Pull the image where it is not here. Raises ImageError."""
        try:
            ensure_image(engine, image, tell=self._settings.tell)
        except ImageError as error:
            if prediction_image(image):
                error.hint = f"{error.hint}\nOr take --backend=process, which needs no image."
            raise

    @contextmanager
    def _files(self, engine: Engine, order: ServingOrder, folder: JobFolder) -> Iterator[ModelFiles]:
        """The way to the model's files: as on Vertex AI from Cloud Storage, here that of this machine."""
        uri = order.model.artifact_uri
        if order.artifacts is None:
            yield "", [], {}
        elif split_uri(uri)[0] == "gs" and not missing_module():
            try:
                yield uri, [], self._storage(engine, folder)
            finally:
                stop_serving(folder)
        else:
            if split_uri(uri)[0] == "gs":
                self._settings.tell(
                    f"AIP_STORAGE_URI is the folder {MODEL_FOLDER} and not {uri}, as Cloud Storage of this "
                    f"machine is not installed: {install_command('emulator')}"
                )
            mount = bind(order.artifacts, MODEL_FOLDER, read_only=True)
            yield MODEL_FOLDER, [mount], {}

    def _storage(self, engine: Engine, folder: JobFolder) -> dict[str, str]:
        """Serve the buckets of this machine to containers; the variables that lead there."""
        host, name = server_hosts(engine, DEFAULT_BRIDGE)
        try:
            return storage_variables(folder, str(self._settings.home.absolute()), host, client_host=name)
        except PrepareFailed as failed:
            raise StorageError(failed.message) from failed


class ServerContainer:
    """A container that runs, or has ended."""

    def __init__(self, engine: Engine, container: str, port: int) -> None:
        self.address = port
        self._engine = engine
        self._container = container

    def failure(self) -> str:
        """Its last lines, where it has ended; empty while it runs."""
        with engine_errors("look at the model's container"):
            state = self._engine.calls.get(f"/containers/{self._container}/json")["State"]
            if state["Running"]:
                return ""
            output = self._engine.client.logs(self._container, tail=400).decode("utf-8", "replace")
        return f"{last_words(output.splitlines())}\nIts exit code was {state['ExitCode']}."

    def remarks(self) -> str:
        """Nothing: a container may write as much as it likes about its requests."""
        return ""


def _config(spec: ModelContainerSpec, run: Served, files: ModelFiles) -> dict[str, Any]:
    """The container as the Engine API describes it."""
    port, (_, mounts, env) = f"{run.port}/tcp", files
    host: dict[str, Any] = {
        "NetworkMode": DEFAULT_BRIDGE,
        "Init": True,
        "RestartPolicy": {"Name": "no"},
        "LogConfig": {"Type": "json-file", "Config": {}},
        "PortBindings": {port: [{"HostIp": "127.0.0.1", "HostPort": ""}]},
        "Mounts": mounts,
    }
    if spec.shared_memory_size_mb:
        host["ShmSize"] = spec.shared_memory_size_mb * MEGABYTE
    program: dict[str, Any] = {"Cmd": list(run.args)} if run.args else {}
    if run.command:
        program = {"Entrypoint": list(run.command), "Cmd": list(run.args)}
    return {
        "Image": spec.image_uri,
        **program,
        "Env": [f"{name}={value}" for name, value in (env | run.env).items()],
        "ExposedPorts": {port: {}},
        "HostConfig": host,
    }


@contextmanager
def _container(engine: Engine, name: str, config: dict[str, Any]) -> Iterator[str]:
    """A running container, by its name. It is removed at the end."""
    try:
        # While the engine makes it, it is listed already and cannot be removed yet.
        with (
            signals_later(signal.SIGINT, signal.SIGTERM, signal.SIGHUP),
            engine_errors("create the model's container"),
        ):
            engine.calls.post("/containers/create", config, name=name)
        with engine_errors("start the model's container"):
            engine.calls.post(f"/containers/{name}/start")
        yield name
    finally:
        engine.remove("remove the model's container", f"/containers/{name}", force=1, v=1)


def _published_port(engine: Engine, container: str, port: int) -> int:
    """The port of this machine that leads to the container's; 0 where it has ended already."""
    with engine_errors("look at the model's container"):
        settings = engine.calls.get(f"/containers/{container}/json")["NetworkSettings"]
    bound = settings["Ports"].get(f"{port}/tcp")
    return int(bound[0]["HostPort"]) if bound else 0
