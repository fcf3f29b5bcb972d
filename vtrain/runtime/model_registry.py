"""The models of this machine: each has versions, and each version a name of its own or several.

Sources of the rules: `UploadModel`, `MergeVersionAliases` and `DeleteModelVersion` of
`google/cloud/aiplatform/v1/model_service.proto`, and `Model.version_aliases` of `model.proto`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from vtrain.errors import ConfigError, ConflictError, DamagedError, NotFoundError
from vtrain.messages.codec import from_document, to_document
from vtrain.messages.model import Model
from vtrain.messages.names import MODELS, ResourceName, require_name
from vtrain.runtime.store import Store
from vtrain.runtime.supervisor_process import random_job_id
from vtrain.times import timestamp

DEFAULT_ALIAS = "default"
"""The version that is meant where none is named. Every model has one."""
_ALIAS = re.compile(r"[a-z][a-zA-Z0-9-]{0,126}[a-z0-9]")
"""`Model.version_aliases`: no number, so that it is told from a version."""
_ID = re.compile(r"[a-z_][a-z0-9_-]{0,62}")
"""`UploadModelRequest.model_id`: up to 63 characters, the first no digit and no hyphen."""


class ModelRegistry:
    """Models in the store of a home. Every method raises StorageError where the store refuses."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def upload(
        self, model: Model, *, project: str, location: str, model_id: str = "", parent: str = ""
    ) -> Model:
        """Add a model or, with `parent`, another version of one. The version as it is kept.

        A version that a training pipeline made is made once: asking again answers with it. Raises
        ConfigError for an id or an alias that the API does not take, ConflictError for an id that is taken,
        NotFoundError for a parent that there is not.
        """
        check_id(model_id)
        check_aliases(model.version_aliases)
        self._store.check_writable()
        full = ResourceName(
            project=project, location=location, collection=MODELS, id=model_id or random_job_id()
        )
        with self._store.transaction() as connection:
            made = _made_by(connection, model.training_pipeline)
            if made is not None:
                return made
            if parent:
                return _add_version(connection, _split(parent)[0], model)
            if _rows(connection, str(full)):
                raise ConflictError(
                    f"There is a model {full.id} already.",
                    hint=f"For another version of it: --parent-model={full.id}",
                )
            return _insert(connection, str(full), 1, model, (*model.version_aliases, DEFAULT_ALIAS))

    def made_by(self, pipeline: str) -> Model | None:
        """The version that a training pipeline has made; None where it has made none."""
        rows = self._store.query(_MADE_BY, (pipeline,))
        return _read(*rows[0]) if rows else None

    def get(self, name: str) -> Model:
        """A version: `…/models/ID` is the default one, `…/models/ID@2` and `…/models/ID@alias` name another.

        Raises NotFoundError.
        """
        base, wanted = _split(name)
        return _find(self._store.query(_SELECT, (base,)), base, wanted)

    def versions(self, name: str) -> list[Model]:
        """The versions of a model, the first one first; damaged ones are left out. Raises NotFoundError."""
        rows = self._store.query(_SELECT, (_split(name)[0],))
        if not rows:
            raise _not_found(name)
        return _readable(rows)

    def damaged(self, name: str = "") -> list[str]:
        """The versions whose entries cannot be read, of one model or of all."""
        rows = self._store.query(
            "SELECT name, version, document FROM models WHERE ? IN ('', name) ORDER BY rowid",
            (_split(name)[0],),
        )
        return [f"{row[0]}@{row[1]}" for row in rows if not _readable([row])]

    def list(self, *, project: str = "", location: str = "") -> list[Model]:
        """The default version of each model, the newest model first; damaged ones are left out."""
        rows = self._store.query(
            "SELECT name, version, document FROM models WHERE (? = '' OR project = ?)"
            " AND (? = '' OR location = ?) AND is_default ORDER BY rowid DESC",
            (project, project, location, location),
        )
        return _readable(rows)

    def artifact_uris(self) -> set[str]:
        """The folders of the files of all versions; a damaged one does not tell its own."""
        rows = self._store.query("SELECT name, version, document FROM models")
        return {model.artifact_uri for model in _readable(rows)} - {""}

    def set_aliases(self, name: str, aliases: Sequence[str]) -> Model:
        """Give a version these names, and take those away that begin with `-`. They leave other versions."""
        base, wanted = _split(name)
        added = [alias for alias in aliases if not alias.startswith("-")]
        removed = {alias[1:] for alias in aliases if alias.startswith("-")}
        if DEFAULT_ALIAS in removed:
            raise ConfigError("A model has always a default version.", hint="Give the alias to another one.")
        check_aliases(added)
        with self._store.transaction() as connection:
            version = _find(_rows(connection, base), base, wanted)
            kept = [alias for alias in version.version_aliases if alias not in removed]
            return _name_version(connection, version, (*kept, *added))

    def update(self, name: str, changes: Mapping[str, Any]) -> Model:
        """Change fields of a model in all its versions, or with `@VERSION` in that one. The named version.

        The keys of `changes` are attributes of `Model`. Raises NotFoundError.
        """
        of_all = {key: value for key, value in changes.items() if key != "labels"}
        base, wanted = _split(name)
        with self._store.transaction() as connection:
            rows = _rows(connection, base)
            named, now = _find(rows, base, wanted), timestamp()
            for version in [named] if "@" in name else _readable(rows):
                # Labels of other versions stay (googleapis/python-aiplatform, issue 3049).
                own = changes if version.version_id == named.version_id else of_all
                changed = msgspec.structs.replace(version, **own, update_time=now, answer=None)
                if "@" in name:
                    changed = msgspec.structs.replace(changed, version_update_time=now)
                _save(connection, changed)
            return _find(_rows(connection, base), base, wanted)

    def delete(self, name: str) -> None:
        """Remove a model with all its versions, or with `@VERSION` that one. Its files stay.

        Raises NotFoundError, ConflictError for the default version of a model that has others.
        """
        self._store.check_writable()
        base, wanted = _split(name)
        with self._store.transaction() as connection:
            if "@" not in name:
                if not connection.execute("DELETE FROM models WHERE name = ?", (base,)).rowcount:
                    raise _not_found(name)
                return
            if not wanted.isdecimal():
                wanted = _find(_rows(connection, base), base, wanted).version_id
            self._delete_version(connection, base, wanted)

    def _delete_version(self, connection: sqlite3.Connection, base: str, version: str) -> None:
        """Remove a version by its number, also where its entry is damaged."""
        # Compared as text: SQLite takes no number of more than 64 bits.
        where = "FROM models WHERE name = ? AND CAST(version AS TEXT) = ?"
        row = connection.execute(f"SELECT is_default {where}", (base, version)).fetchone()
        if row is None:
            raise _no_version(base, version)
        if row[0]:
            raise ConflictError(
                f"Version {version} is the default version of the model.",
                hint="Give the alias default to another version, or delete the whole model.",
            )
        connection.execute(f"DELETE {where}", (base, version))


def check_id(model_id: str) -> None:
    """Raise ConfigError for what the API does not take as a model's id; empty: one is chosen."""
    if model_id and not _ID.fullmatch(model_id):
        raise ConfigError(
            f"{model_id!r} is not the id of a model.",
            hint="Up to 63 of a-z, 0-9, '_' and '-'; the first is no digit and no hyphen.",
        )


def check_aliases(aliases: Iterable[str]) -> None:
    """Raise ConfigError for a name that no version can have."""
    for alias in aliases:
        if not _ALIAS.fullmatch(alias):
            raise ConfigError(
                f"{alias!r} is not an alias of a version.",
                hint="2 to 128 of a-z, A-Z, 0-9 and '-'; the first is in a-z, the last no hyphen.",
            )


_MADE_BY = "SELECT name, version, document FROM models WHERE training_pipeline = ?"
_SELECT = "SELECT name, version, document FROM models WHERE name = ? ORDER BY version"


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


def _readable(rows: Iterable[Sequence[Any]]) -> list[Model]:
    """The versions of rows, without damaged ones."""
    found = []
    for row in rows:
        with suppress(DamagedError):
            found.append(_read(*row))
    return found


def _find(rows: Sequence[Sequence[Any]], base: str, wanted: str) -> Model:
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


def _rows(connection: sqlite3.Connection, name: str) -> list[tuple[Any, ...]]:
    return connection.execute(_SELECT, (name,)).fetchall()


def _versions(connection: sqlite3.Connection, name: str) -> list[Model]:
    """The versions of a model, without damaged ones."""
    return _readable(_rows(connection, name))


def _made_by(connection: sqlite3.Connection, pipeline: str) -> Model | None:
    """The version that a training pipeline has made; None where it has made none."""
    if not pipeline:
        return None
    row = connection.execute(_MADE_BY, (pipeline,)).fetchone()
    return _read(*row) if row else None


def _add_version(connection: sqlite3.Connection, name: str, model: Model) -> Model:
    if not _rows(connection, name):
        raise _not_found(name)
    inherited = next(iter(_versions(connection, name)), model)
    model = msgspec.structs.replace(
        model, display_name=model.display_name or inherited.display_name, create_time=inherited.create_time
    )
    # Counted apart, as the number of a version that was deleted is not given again.
    (newest,) = connection.execute("SELECT last FROM model_counts WHERE name = ?", (name,)).fetchone()
    made = _insert(connection, name, int(newest) + 1, model, ())
    return _name_version(connection, made, model.version_aliases)


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
    full = require_name(name)
    connection.execute(
        "INSERT INTO models (name, version, project, location, is_default, training_pipeline, document)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            *(name, version, full.project, full.location, DEFAULT_ALIAS in kept.version_aliases),
            *(kept.training_pipeline, _json(kept)),
        ),
    )
    connection.execute("INSERT OR REPLACE INTO model_counts (name, last) VALUES (?, ?)", (name, version))
    return kept


def _name_version(connection: sqlite3.Connection, version: Model, aliases: Sequence[str]) -> Model:
    """The version with these names, which no other version of the model has any more."""
    wanted = tuple(dict.fromkeys(aliases))
    if DEFAULT_ALIAS in wanted:  # also of a version that is damaged
        connection.execute("UPDATE models SET is_default = 0 WHERE name = ?", (version.name,))
    for other in _versions(connection, version.name):
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


def _save(connection: sqlite3.Connection, version: Model) -> None:
    """Write the entry of a version anew."""
    connection.execute(
        "UPDATE models SET document = ?, is_default = ? WHERE name = ? AND version = ?",
        (
            *(_json(version), DEFAULT_ALIAS in version.version_aliases),
            *(version.name, int(version.version_id)),
        ),
    )


def _json(model: Model) -> str:
    return msgspec.json.encode(to_document(model)).decode()
