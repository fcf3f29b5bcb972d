"""The models of this machine: each has versions, and each version a name of its own or several.

What Vertex AI continues after its answer is done here at once. The files of models stay where they are.
Sources of the rules: `UploadModel`, `MergeVersionAliases` and `DeleteModelVersion` of
`google/cloud/aiplatform/v1/model_service.proto`, and `Model.version_aliases` of `model.proto`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from vtrain.errors import ConfigError, ConflictError, DamagedError, NotFoundError
from vtrain.messages.codec import from_document, to_document
from vtrain.messages.model import Model, ModelPage, ModelSourceInfo, ModelTarget, OriginalModelInfo
from vtrain.messages.names import LOCAL_PROJECT, MODELS, ResourceName, require_name
from vtrain.messages.structs import EncryptionSpec, Operation, Query
from vtrain.runtime.database import has_store
from vtrain.runtime.serving.artifacts import artifact_folder, check_artifacts, has_files
from vtrain.runtime.store import Store
from vtrain.runtime.supervisor_process import random_job_id
from vtrain.times import timestamp

DEFAULT_ALIAS = "default"
"""The version that is meant where none is named. Every model has one."""
_ALIAS = re.compile(r"[a-z][a-zA-Z0-9-]{0,126}[a-z0-9]")
"""`Model.version_aliases`: no number, so that it differs from a version."""
_ID = re.compile(r"[a-z_][a-z0-9_-]{0,62}")
"""`UploadModelRequest.model_id`: up to 63 characters, the first no digit and no hyphen."""


class ModelRegistry:
    """Models in the store of a home. Every method raises StorageError where the store refuses."""

    def __init__(self, home: Path, region: str = "") -> None:
        """`region` is that of new models."""
        self._home = home
        self._region = region

    @cached_property
    def _store(self) -> Store:
        return Store.open(self._home)

    def upload_model(self, model: Model, target: ModelTarget) -> Operation:
        """Keep a version. Raises as `upload` does, and ConfigError where its folder has no files."""
        if model.artifact_uri and not has_files(artifact_folder(model, self._home)):
            raise ConfigError(
                f"There are no files in {model.artifact_uri}, which --artifact-uri names.",
                hint=f"It is the folder {artifact_folder(model, self._home)}.",
            )
        return _kept(self.upload(model, target))

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
        return _kept(self.upload(copied, target))

    def upload(self, model: Model, target: ModelTarget) -> Model:
        """Keep a version; it as it is kept.

        A version that a training pipeline made is made once: asking again answers with it. Raises as
        `check_target` does.
        """
        with self._store.transaction() as connection:
            made = self.made_by(model.training_pipeline) if model.training_pipeline else None
            if made is not None:
                return made
            name = self.check_target(model, target)
            if target.parent:
                return self._add_version(connection, name, model)
            return _insert(connection, name, 1, model, (*model.version_aliases, DEFAULT_ALIAS))

    def check_target(self, model: Model, target: ModelTarget) -> str:
        """The name of the model that would have this version.

        Raises ConfigError for an id or an alias that the API does not take, ConflictError for an id that is
        taken, NotFoundError for a parent that there is not.
        """
        if target.model_id and not _ID.fullmatch(target.model_id):
            raise ConfigError(
                f"{target.model_id!r} is not the id of a model.",
                hint="Up to 63 of a-z, 0-9, '_' and '-'; the first is no digit and no hyphen.",
            )
        _check_aliases(model.version_aliases)
        full = ResourceName(
            project=LOCAL_PROJECT,
            location=self._region,
            collection=MODELS,
            id=target.model_id or random_job_id(),
        )
        name = _split(target.parent)[0] if target.parent else str(full)
        is_there = bool(self._rows(name))
        if target.parent and not is_there:
            raise _not_found(name)
        if is_there and not target.parent:
            raise ConflictError(
                f"There is a model {full.id} already.",
                hint=f"For another version of it: --parent-model={full.id}",
            )
        return name

    def made_by(self, pipeline: str) -> Model | None:
        """The version that a training pipeline has made; None where it has made none."""
        rows = self._store.execute(f"{_SELECT} WHERE training_pipeline = ?", (pipeline,))
        return _read(*rows[0]) if rows else None

    def get_model(self, name: str) -> Model:
        """A version: `…/models/ID` is the default one, `…/models/ID@2` and `…/models/ID@alias` name another.

        Raises NotFoundError, DamagedError.
        """
        base, wanted = _split(name)
        return _find(self._rows(base), base, wanted)

    def list_model_versions(self, name: str, query: Query) -> ModelPage:  # noqa: ARG002 - there is one page
        """The versions of a model, the first one first. Raises NotFoundError."""
        rows = self._rows(_split(name)[0])
        if not rows:
            raise _not_found(name)
        return ModelPage(models=tuple(_readable(rows)), damaged=_damaged(rows))

    def list_models(self, query: Query) -> ModelPage:
        """The default version of each model, the newest model first, on one page."""
        if not has_store(self._home):
            return ModelPage(models=())
        rows = self._store.execute(
            f"{_SELECT} WHERE project = ? AND (? = '' OR location = ?) AND is_default ORDER BY rowid DESC",
            (LOCAL_PROJECT, query.location, query.location),
        )
        damaged = _damaged(self._store.execute(f"{_SELECT} ORDER BY rowid"))
        return ModelPage(models=tuple(_readable(rows)), damaged=damaged)

    def artifact_uris(self) -> set[str]:
        """The folders of the files of all versions; a damaged one does not tell its own."""
        rows = self._store.execute(_SELECT) if has_store(self._home) else ()
        return {model.artifact_uri for model in _readable(rows)} - {""}

    def fetch_artifacts(self, model: Model, folder: Path) -> Path | None:  # noqa: ARG002 - they are here
        """The folder in which its files lie; None for a model without. Raises ConfigError."""
        return check_artifacts(model, self._home)

    def get_operation(self, operation: Operation) -> Operation:
        """The operation itself, as each is done at once."""
        return operation

    def merge_version_aliases(self, name: str, aliases: Sequence[str]) -> Model:
        """Give a version these names, and take those away that begin with `-`. They leave other versions."""
        base, wanted = _split(name)
        added = [alias for alias in aliases if not alias.startswith("-")]
        removed = {alias[1:] for alias in aliases if alias.startswith("-")}
        if DEFAULT_ALIAS in removed:
            raise ConfigError("A model has always a default version.", hint="Give the alias to another one.")
        _check_aliases(added)
        with self._changing(name) as connection:
            version = _find(self._rows(base), base, wanted)
            kept = [alias for alias in version.version_aliases if alias not in removed]
            return self._name_version(connection, version, (*kept, *added))

    def update_model(self, name: str, changes: Mapping[str, Any]) -> Model:
        """Change fields of a model in all its versions, or with `@VERSION` in that one. The named version.

        The keys of `changes` are attributes of `Model`. Raises NotFoundError.
        """
        of_all = {key: value for key, value in changes.items() if key != "labels"}
        base, wanted = _split(name)
        with self._changing(name) as connection:
            rows = self._rows(base)
            named, now = _find(rows, base, wanted), timestamp()
            for version in [named] if "@" in name else _readable(rows):
                # Labels of other versions stay (googleapis/python-aiplatform, issue 3049).
                own = changes if version.version_id == named.version_id else of_all
                changed = msgspec.structs.replace(version, **own, update_time=now, answer=None)
                if "@" in name:
                    changed = msgspec.structs.replace(changed, version_update_time=now)
                _save(connection, changed)
            return _find(self._rows(base), base, wanted)

    def delete_model(self, name: str) -> Operation:
        """Remove a model with all its versions. Raises NotFoundError."""
        if "@" in name:
            raise ConfigError(
                f"{name} names a version, and this command deletes the whole model.",
                hint=f"Delete the version: vtrain models delete-version {name}",
            )
        with self._changing(name) as connection:
            connection.execute("DELETE FROM models WHERE name = ?", (name,))
        return Operation(name=f"{name}/operations/0", done=True)

    def delete_model_version(self, name: str) -> Operation:
        """Remove one version, by its number also where its entry is damaged.

        Raises NotFoundError, ConflictError for the default version.
        """
        if "@" not in name:
            raise ConfigError(
                f"{name} names a model without a version.",
                hint=f"Write {name}@VERSION. To delete the whole model: vtrain models delete {name}",
            )
        base, version = _split(name)
        # Compared as text: SQLite takes no number of more than 64 bits.
        where = "FROM models WHERE name = ? AND CAST(version AS TEXT) = ?"
        with self._changing(name) as connection:
            if not version.isdecimal():
                version = _find(self._rows(base), base, version).version_id
            row = connection.execute(f"SELECT is_default {where}", (base, version)).fetchone()
            if row is None:
                raise _no_version(base, version)
            if row[0]:
                raise ConflictError(
                    f"Version {version} is the default version of the model.",
                    hint="Give the alias default to another version, or delete the whole model.",
                )
            connection.execute(f"DELETE {where}", (base, version))
        return Operation(name=f"{name}/operations/0", done=True)

    @contextmanager
    def _changing(self, name: str) -> Iterator[sqlite3.Connection]:
        """A transaction about a model. Raises NotFoundError where it is not there."""
        if not has_store(self._home):
            raise _not_found(name)
        with self._store.transaction() as connection:
            if not self._rows(_split(name)[0]):
                raise _not_found(name)
            yield connection

    def _rows(self, base: str) -> Rows:
        """The versions of a model, the first one first."""
        select = f"{_SELECT} WHERE name = ? ORDER BY version"
        return self._store.execute(select, (base,)) if has_store(self._home) else []

    def _add_version(self, connection: sqlite3.Connection, name: str, model: Model) -> Model:
        inherited = next(iter(_readable(self._rows(name))), model)
        model = msgspec.structs.replace(
            model,
            display_name=model.display_name or inherited.display_name,
            create_time=inherited.create_time,
        )
        # Counted apart, as the number of a version that was deleted is not given again.
        (newest,) = connection.execute("SELECT last FROM model_counts WHERE name = ?", (name,)).fetchone()
        made = _insert(connection, name, int(newest) + 1, model, ())
        return self._name_version(connection, made, model.version_aliases)

    def _name_version(self, connection: sqlite3.Connection, version: Model, aliases: Sequence[str]) -> Model:
        """The version with these names, which no other version of the model has any more."""
        wanted = tuple(dict.fromkeys(aliases))
        if DEFAULT_ALIAS in wanted:  # also of a version that is damaged
            connection.execute("UPDATE models SET is_default = 0 WHERE name = ?", (version.name,))
        for other in _readable(self._rows(version.name)):
            names = tuple(alias for alias in other.version_aliases if alias not in wanted)
            is_own = other.version_id == version.version_id
            if is_own or names != other.version_aliases:
                changed = msgspec.structs.replace(
                    other,
                    version_aliases=wanted if is_own else names,
                    version_update_time=timestamp(),
                    answer=None,
                )
                _save(connection, changed)
                version = changed if is_own else version
        return version


def _check_aliases(aliases: Iterable[str]) -> None:
    """Raise ConfigError for a name that no version can have."""
    for alias in aliases:
        if not _ALIAS.fullmatch(alias):
            raise ConfigError(
                f"{alias!r} is not an alias of a version.",
                hint="2 to 128 of a-z, A-Z, 0-9 and '-'; the first is in a-z, the last no hyphen.",
            )


_SELECT = "SELECT name, version, document FROM models"
Rows = Sequence[Sequence[Any]]
"""What `_SELECT` finds."""


def _kept(made: Model) -> Operation:
    """The operation of a version that was kept before its answer."""
    response = {"model": made.name, "modelVersionId": made.version_id}
    return Operation(name=f"{made.name}/operations/0", done=True, response=response)


def _split(name: str) -> tuple[str, str]:
    """The model, and the version or alias that a name means."""
    base, _, wanted = name.partition("@")
    return base, wanted or DEFAULT_ALIAS


def _id(name: str) -> str:
    return name.rpartition("/")[2]


def _no_version(name: str, wanted: str) -> NotFoundError:
    return NotFoundError(
        f"Model {_id(name)} has no version {wanted}.", hint=f"See them: vtrain models list-version {name}"
    )


def _not_found(name: str) -> NotFoundError:
    return NotFoundError(f"Model {_id(name)} not found.", hint="See what there is:\n$ vtrain models list")


def _read(name: str, version: Any, document: str) -> Model:
    try:
        decoded = msgspec.json.decode(document, type=dict[str, Any])
        return msgspec.structs.replace(from_document(Model, decoded), answer=decoded)
    except (msgspec.DecodeError, msgspec.ValidationError):
        raise DamagedError(
            f"The entry of {name}@{version} in the store is damaged: it is not the JSON of a model.",
            hint=f"Its files are untouched. To remove it: vtrain models delete {name}",
        ) from None


def _readable(rows: Rows) -> list[Model]:
    """The versions of rows, without damaged ones."""
    found = []
    for row in rows:
        with suppress(DamagedError):
            found.append(_read(*row))
    return found


def _damaged(rows: Rows) -> tuple[str, ...]:
    """The names of the versions whose entries cannot be read."""
    return tuple(f"{row[0]}@{row[1]}" for row in rows if not _readable([row]))


def _find(rows: Rows, base: str, wanted: str) -> Model:
    """The version of that number or alias.

    Raises NotFoundError, DamagedError for a version that is damaged, or may be one that is.
    """
    if not rows:
        raise _not_found(base)
    for version in _readable(rows):
        if wanted in (version.version_id, *version.version_aliases):
            return version
    for row in rows:
        if not wanted.isdecimal() or wanted == str(row[1]):
            _read(*row)
    raise _no_version(base, wanted)


def _insert(
    connection: sqlite3.Connection, name: str, version: int, model: Model, aliases: Sequence[str]
) -> Model:
    now = timestamp()
    kept = msgspec.structs.replace(
        model,
        name=name,
        version_id=str(version),
        version_aliases=tuple(dict.fromkeys(aliases)),
        version_create_time=now,
        version_update_time=now,
        create_time=model.create_time or now,
        update_time=now,
        answer=None,
    )
    _save(connection, kept)
    connection.execute("INSERT OR REPLACE INTO model_counts (name, last) VALUES (?, ?)", (name, version))
    return kept


def _save(connection: sqlite3.Connection, version: Model) -> None:
    """Write the entry of a version, or write it anew."""
    full, document = require_name(version.name), msgspec.json.encode(to_document(version)).decode()
    connection.execute(
        "INSERT INTO models (name, version, project, location, is_default, training_pipeline, document)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name, version)"
        " DO UPDATE SET document = excluded.document, is_default = excluded.is_default",
        (
            *(version.name, int(version.version_id), full.project, full.location),
            *(DEFAULT_ALIAS in version.version_aliases, version.training_pipeline, document),
        ),
    )
