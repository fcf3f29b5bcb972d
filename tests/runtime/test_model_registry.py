"""Models of this machine: their versions, and the names that versions have."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from vtrain.errors import ConfigError, ConflictError, DamagedError, NotFoundError
from vtrain.messages.model import Model, ModelTarget
from vtrain.messages.structs import Query
from vtrain.runtime.model_registry import ModelRegistry
from vtrain.runtime.store import Store

REGION = "us-central1"
ALL = Query()
NAME = "projects/local/locations/us-central1/models/digits"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "home")
    yield opened
    opened.close()


@pytest.fixture
def registry(tmp_path: Path) -> ModelRegistry:
    return ModelRegistry(tmp_path / "home", REGION)


def upload(
    registry: ModelRegistry, *aliases: str, parent: str = "", model_id: str = "", **fields: str
) -> Model:
    model = Model(display_name="digits", version_aliases=aliases, **fields)  # type: ignore[arg-type]
    return registry.upload(model, ModelTarget(parent=parent, model_id=model_id))


def versions(registry: ModelRegistry) -> tuple[Model, ...]:
    return registry.list_model_versions(NAME, ALL).models


def test_the_first_version_is_the_default_one(registry: ModelRegistry) -> None:
    made = upload(registry, model_id="digits")
    assert (made.name, made.version_id, made.version_aliases) == (NAME, "1", ("default",))
    assert registry.get_model(NAME).version_id == registry.get_model(f"{NAME}@1").version_id == "1"
    assert len(upload(registry).name.rpartition("/")[2]) == 19


def test_an_alias_belongs_to_one_version(registry: ModelRegistry) -> None:
    upload(registry, "best", model_id="digits")
    upload(registry, "best", "default", parent=NAME)
    upload(registry, parent=NAME)
    names = {one.version_id: one.version_aliases for one in versions(registry)}
    assert names == {"1": (), "2": ("best", "default"), "3": ()}
    assert registry.get_model(f"{NAME}@best").version_id == registry.get_model(NAME).version_id == "2"
    registry.merge_version_aliases(f"{NAME}@3", ["best", "new-one"])
    registry.merge_version_aliases(f"{NAME}@2", ["-best"])
    names = {one.version_id: one.version_aliases for one in versions(registry)}
    assert names == {"1": (), "2": ("default",), "3": ("best", "new-one")}


def test_fields_are_changed_in_one_version_or_in_all(registry: ModelRegistry) -> None:
    upload(registry, model_id="digits")
    upload(registry, parent=NAME)
    changed = registry.update_model(f"{NAME}@2", {"version_description": "second"})
    assert (changed.version_id, changed.version_description) == ("2", "second")
    assert registry.update_model(NAME, {"display_name": "new"}).version_id == "1"
    found = {one.version_id: (one.display_name, one.version_description) for one in versions(registry)}
    assert found == {"1": ("new", ""), "2": ("new", "second")}
    registry.update_model(NAME, {"labels": {"of": "the default"}})
    assert [one.labels for one in versions(registry)] == [
        {"of": "the default"},
        {},
    ]
    for name in (f"{NAME}x", f"{NAME}@3"):
        with pytest.raises(NotFoundError):
            registry.update_model(name, {"display_name": "new"})


def test_a_number_of_a_version_is_given_once(registry: ModelRegistry) -> None:
    upload(registry, model_id="digits")
    upload(registry, parent=NAME)
    registry.delete_model_version(f"{NAME}@2")
    assert upload(registry, parent=NAME).version_id == "3"


def test_a_pipeline_makes_one_version_however_often_it_asks(registry: ModelRegistry) -> None:
    pipeline = "projects/local/locations/us-central1/trainingPipelines/1"
    assert registry.made_by(pipeline) is None
    first = upload(registry, training_pipeline=pipeline)
    again = upload(registry, training_pipeline=pipeline)
    assert first.name == again.name
    found = registry.made_by(pipeline)
    assert found is not None
    assert found.name == first.name


def test_six_uploads_at_once_make_six_versions(tmp_path: Path, registry: ModelRegistry) -> None:
    upload(registry, model_id="digits")

    def add(_number: int) -> str:
        return upload(ModelRegistry(tmp_path / "home"), parent=NAME).version_id

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(add, range(6))) == ["2", "3", "4", "5", "6", "7"]


def test_what_there_is_not_is_not_found(registry: ModelRegistry) -> None:
    with pytest.raises(NotFoundError, match="Model digits not found"):
        registry.get_model(NAME)
    with pytest.raises(NotFoundError, match="Model digits not found"):
        upload(registry, parent=NAME)
    upload(registry, model_id="digits")
    with pytest.raises(NotFoundError, match="has no version 7"):
        registry.get_model(f"{NAME}@7")


def test_deleting(registry: ModelRegistry) -> None:
    upload(registry, model_id="digits")
    upload(registry, parent=NAME)
    with pytest.raises(ConflictError, match="default version"):
        registry.delete_model_version(f"{NAME}@default")
    registry.delete_model(NAME)
    assert registry.list_models(ALL).models == ()
    with pytest.raises(NotFoundError):
        registry.delete_model(NAME)


@pytest.mark.parametrize("number", ["0", "01", "9" * 20, "9" * 5000, "٣"])
def test_a_number_that_no_version_has_is_not_found(registry: ModelRegistry, number: str) -> None:
    upload(registry, model_id="digits")
    for verb in (registry.get_model, registry.delete_model_version):
        with pytest.raises(NotFoundError, match="has no version"):
            verb(f"{NAME}@{number}")


def test_models_are_listed_by_place_the_newest_first(tmp_path: Path, registry: ModelRegistry) -> None:
    upload(registry, model_id="one")
    upload(registry, model_id="two")
    other = ModelRegistry(tmp_path / "home", "europe-west4")
    other.upload(Model(display_name="x"), ModelTarget(model_id="three"))
    found = registry.list_models(Query(location=REGION)).models
    assert [each.name.rpartition("/")[2] for each in found] == ["two", "one"]
    assert len(registry.list_models(ALL).models) == 3


@pytest.mark.parametrize("model_id", ["1digits", "-a", "A", "a" * 64, "a/b", "..", "a@b"])
def test_ids_that_the_api_refuses(registry: ModelRegistry, model_id: str) -> None:
    with pytest.raises(ConfigError, match="not the id of a model"):
        upload(registry, model_id=model_id)


@pytest.mark.parametrize("alias", ["2", "Best", "a", "best-", "b_t", "a" * 129])
def test_aliases_that_the_api_refuses(registry: ModelRegistry, alias: str) -> None:
    with pytest.raises(ConfigError, match="not an alias"):
        upload(registry, alias)


def test_a_damaged_row_is_named(store: Store, registry: ModelRegistry) -> None:
    upload(registry, model_id="digits")
    with store.transaction() as connection:
        connection.execute("UPDATE models SET document = '{'")
    with pytest.raises(DamagedError, match="digits@1 in the store is damaged"):
        registry.get_model(NAME)


def damage(store: Store, version: int) -> None:
    with store.transaction() as connection:
        connection.execute("UPDATE models SET document = '{' WHERE version = ?", (version,))


def test_a_damaged_version_hides_no_other(store: Store, registry: ModelRegistry) -> None:
    upload(registry, model_id="digits")
    upload(registry, "best", parent=NAME)
    damage(store, 2)
    assert registry.get_model(NAME).version_id == registry.get_model(f"{NAME}@1").version_id == "1"
    assert [one.version_id for one in versions(registry)] == ["1"]
    assert registry.list_models(ALL).damaged == (f"{NAME}@2",)
    assert registry.list_model_versions(NAME, ALL).damaged == (f"{NAME}@2",)
    for name in (f"{NAME}@2", f"{NAME}@best"):
        with pytest.raises(DamagedError):
            registry.get_model(name)
    with pytest.raises(NotFoundError):
        registry.get_model(f"{NAME}@3")
    assert upload(registry, "best", parent=NAME).version_id == "3"
    registry.delete_model_version(f"{NAME}@2")
    assert registry.list_models(ALL).damaged == ()


def test_another_version_takes_the_place_of_a_damaged_one(store: Store, registry: ModelRegistry) -> None:
    upload(registry, model_id="digits")
    damage(store, 1)
    assert registry.list_models(ALL).models == ()
    with pytest.raises(ConflictError):
        upload(registry, model_id="digits")
    upload(registry, "default", parent=NAME)
    assert [one.version_id for one in registry.list_models(ALL).models] == ["2"]
    registry.delete_model_version(f"{NAME}@1")
    damage(store, 2)
    registry.delete_model(NAME)
    with pytest.raises(NotFoundError):
        versions(registry)


def test_a_model_keeps_a_default_version_whatever_happens_at_once(
    tmp_path: Path, registry: ModelRegistry
) -> None:
    """One gives the alias to a version while another deletes that version."""

    def name(_turn: int) -> None:
        with suppress(NotFoundError):
            ModelRegistry(tmp_path / "home").merge_version_aliases(f"{NAME}@2", ["default"])

    def remove(_turn: int) -> None:
        with suppress(NotFoundError, ConflictError):
            ModelRegistry(tmp_path / "home").delete_model_version(f"{NAME}@2")

    for _ in range(10):
        upload(registry, model_id="digits")
        upload(registry, parent=NAME)
        with ThreadPoolExecutor(2) as pool:
            done = [pool.submit(work, 0) for work in (name, remove)]
        assert [each.result() for each in done] == [None, None]
        assert registry.get_model(NAME).version_id in ("1", "2")
        registry.delete_model(NAME)
