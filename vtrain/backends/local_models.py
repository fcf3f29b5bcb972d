"""The models of this machine, as a backend keeps them: in the store, with their files where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from vtrain.backends import BackendSettings, Query
from vtrain.backends.models import ModelPage, ModelTarget
from vtrain.errors import ConfigError, NotFoundError
from vtrain.messages.base import EncryptionSpec, Operation
from vtrain.messages.model import Model, ModelSourceInfo, OriginalModelInfo
from vtrain.messages.names import LOCAL_PROJECT
from vtrain.runtime.database import has_store
from vtrain.runtime.serving.artifacts import artifact_folder, check_artifacts, files_of

if TYPE_CHECKING:
    from vtrain.runtime.model_registry import ModelRegistry


class LocalModels:
    """The registry in vtrain's home. What Vertex AI continues after its answer is done here at once."""

    def __init__(self, settings: BackendSettings) -> None:
        self._home = settings.home
        self._region = settings.region

    def upload_model(self, model: Model, target: ModelTarget) -> Operation:
        """Keep a version. Raises ConfigError where its folder has no files."""
        if model.artifact_uri and not any(files_of(artifact_folder(model, self._home))):
            raise ConfigError(
                f"There are no files in {model.artifact_uri}, which --artifact-uri names.",
                hint=f"It is the folder {artifact_folder(model, self._home)}.",
            )
        return self._keep(model, target)

    def copy_model(self, source: str, target: ModelTarget, kms_key_name: str = "") -> Operation:
        """Keep another version that has the files of the source."""
        original = self.get_model(source)
        info = original.model_source_info  # CUSTOM is the API's word for the models of users, too
        copied = msgspec.structs.replace(
            original,
            version_aliases=(),
            training_pipeline="",
            create_time="",
            encryption_spec=EncryptionSpec(kms_key_name=kms_key_name) if kms_key_name else None,
            model_source_info=ModelSourceInfo(source_type=info.source_type if info else "CUSTOM", copy=True),
            original_model_info=OriginalModelInfo(model=f"{original.name}@{original.version_id}"),
        )
        return self._keep(copied, target)

    def get_model(self, name: str) -> Model:
        """The version that a name means."""
        return self._registry(name).get(name)

    def list_models(self, query: Query) -> ModelPage:
        """The default versions of all models, on one page."""
        if not has_store(self._home):
            return ModelPage(models=())
        registry = self._registry()
        found = registry.list(project=LOCAL_PROJECT, location=query.location)
        return ModelPage(models=tuple(found), damaged=tuple(registry.damaged()))

    def list_model_versions(self, name: str, query: Query) -> ModelPage:  # noqa: ARG002 - there is one page
        """All versions of a model, on one page."""
        registry = self._registry(name)
        return ModelPage(models=tuple(registry.versions(name)), damaged=tuple(registry.damaged(name)))

    def delete_model(self, name: str) -> Operation:
        """Remove a model. Its files stay."""
        if "@" in name:
            raise ConfigError(
                f"{name} names a version, and this command deletes the whole model.",
                hint=f"Delete the version: vtrain models delete-version {name}",
            )
        self._registry(name).delete(name)
        return Operation(name=f"{name}/operations/0", done=True)

    def delete_model_version(self, name: str) -> Operation:
        """Remove one version. Its files stay."""
        if "@" not in name:
            raise ConfigError(
                f"{name} names a model without a version.",
                hint=f"Write {name}@VERSION. To delete the whole model: vtrain models delete {name}",
            )
        self._registry(name).delete(name)
        return Operation(name=f"{name}/operations/0", done=True)

    def update_model(self, name: str, changes: Mapping[str, Any]) -> Model:
        """Change fields of a model or of a version."""
        return self._registry(name).update(name, changes)

    def merge_version_aliases(self, name: str, aliases: Sequence[str]) -> Model:
        """Give names to a version, and take some away."""
        return self._registry(name).set_aliases(name, aliases)

    def fetch_artifacts(self, model: Model, folder: Path) -> Path | None:  # noqa: ARG002 - they are here
        """The folder that they lie in."""
        return check_artifacts(model, self._home)

    def get_operation(self, operation: Operation) -> Operation:
        """The operation itself, as each is done at once."""
        return operation

    def _keep(self, model: Model, target: ModelTarget) -> Operation:
        made = self._registry().upload(
            model,
            project=LOCAL_PROJECT,
            location=self._region,
            model_id=target.model_id,
            parent=target.parent,
        )
        response = {"model": made.name, "modelVersionId": made.version_id}
        return Operation(name=f"{made.name}/operations/0", done=True, response=response)

    def _registry(self, name: str = "") -> ModelRegistry:
        """The registry; raises NotFoundError for a name where there is none yet."""
        from vtrain.runtime.model_registry import ModelRegistry
        from vtrain.runtime.store import Store

        if name and not has_store(self._home):
            raise NotFoundError(f"Model {name} not found.", hint="See what there is:\n$ vtrain models list")
        return ModelRegistry(Store.open(self._home))
