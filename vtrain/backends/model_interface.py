"""The interface of models: a registry that keeps them, and a server that answers predictions with one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

if TYPE_CHECKING:
    from vtrain.backends import Query
    from vtrain.messages.model import Model, ModelPage, ModelTarget
    from vtrain.messages.structs import Operation


class ModelRegistryBackend(Protocol):
    """Keeps models, each in versions. A version is named `…/models/ID@VERSION`, or by an alias in its place.

    What takes long is answered with an Operation, at once. That of an upload or of a copy ends with the
    document `{"model": NAME, "modelVersionId": VERSION}`.
    """

    def upload_model(self, model: Model, target: ModelTarget) -> Operation:
        """Keep a new version."""

    def copy_model(self, source: str, target: ModelTarget, kms_key_name: str = "") -> Operation:
        """Copy a version to the region that the backend was opened for."""

    def get_model(self, name: str) -> Model:
        """A version; without one in the name that with the alias `default`. Raises NotFoundError."""

    def list_models(self, query: Query) -> ModelPage:
        """The default version of each model of a project and location."""

    def list_model_versions(self, name: str, query: Query) -> ModelPage:
        """The versions of a model. Raises NotFoundError."""

    def delete_model(self, name: str) -> Operation:
        """Remove a model with all its versions. Raises NotFoundError."""

    def delete_model_version(self, name: str) -> Operation:
        """Remove one version. Raises NotFoundError, ConflictError for the default version."""

    def fetch_artifacts(self, model: Model, folder: Path) -> Path | None:
        """The folder of this machine with the model's files: `folder`, where they had to be copied.

        None for a model without files. Raises ConfigError or StorageError where there should be some.
        """

    def get_operation(self, operation: Operation) -> Operation:
        """The operation as it stands now."""


@runtime_checkable
class ModelEditingBackend(Protocol):
    """Changes the models that it keeps."""

    def update_model(self, name: str, changes: Mapping[str, Any]) -> Model:
        """Change fields of a model, or with `@VERSION` of that version; the version that the name means.

        The keys of `changes` are attributes of `Model`. Raises NotFoundError.
        """

    def merge_version_aliases(self, name: str, aliases: Sequence[str]) -> Model:
        """Give a version these names, and take those away that begin with `-`.

        Raises NotFoundError, ConfigError for anything that is not an alias.
        """


class ServingOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The order to serve a version of a model whose files lie in `artifacts`, a folder; None: it has none.

    `scratch` is a folder for the server, whose lock is held as long as the command lives that asks. With
    `job` it is served in what that job's trainer ran in, which only the backend process has.
    """

    model: Model
    artifacts: Path | None
    scratch: Path
    job: str = ""


class ModelServer(Protocol):
    """A server that was started. It may need a while before it answers."""

    @property
    def address(self) -> int | Path:
        """A port of 127.0.0.1, or the path of a Unix socket in a folder that only this user may enter."""

    def failure(self) -> str:
        """Its last lines, where it has ended by itself; empty while it runs."""

    def remarks(self) -> str:
        """Lines of its output that the user should see, such as a warning; empty without any."""


class ModelServing(Protocol):
    """Starts servers."""

    def serve(self, order: ServingOrder) -> AbstractContextManager[ModelServer]:
        """A server as long as the block lasts. Raises ConfigError for a model that it cannot serve."""
