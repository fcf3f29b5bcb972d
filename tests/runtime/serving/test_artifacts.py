"""The files of a model: where they are, and who could have written them."""

from __future__ import annotations

import grp
import os
import pwd
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from vtrain.atomic import remove_folder
from vtrain.errors import ConfigError
from vtrain.messages.model import Model
from vtrain.runtime.serving.artifacts import artifact_folder, check_artifacts, foreign_part, has_files

SOMEBODY = 54321


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a file, which everybody on this machine can reach."""
    made = Path(tempfile.mkdtemp(prefix="vtrain-test-", dir="/tmp"))
    made.chmod(0o755)
    (made / "model.pkl").write_text("a model")
    (made / "model.pkl").chmod(0o644)
    yield made
    remove_folder(made)


def test_what_only_the_user_writes_is_the_users(folder: Path) -> None:
    assert foreign_part(folder) == ""


def test_a_file_that_a_group_of_others_writes_is_foreign(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder / "model.pkl"
    file.chmod(0o664)
    user = SimpleNamespace(pw_name="anna", pw_gid=file.stat().st_gid)
    monkeypatch.setattr(pwd, "getpwuid", lambda _number: user)
    monkeypatch.setattr(grp, "getgrgid", lambda _number: SimpleNamespace(gr_name="anna"))
    assert foreign_part(folder) == ""  # many systems make a group for each user
    monkeypatch.setattr(grp, "getgrgid", lambda _number: SimpleNamespace(gr_name="students"))
    assert foreign_part(folder) == f"Other users can write to {file}."


def test_a_file_that_others_write_is_foreign(folder: Path) -> None:
    (folder / "model.pkl").chmod(0o666)
    assert foreign_part(folder) == f"Other users can write to {folder / 'model.pkl'}."


def test_a_folder_in_which_others_replace_files_is_foreign(folder: Path) -> None:
    folder.chmod(0o777)
    assert foreign_part(folder) == f"Other users can write to {folder}."
    folder.chmod(0o1777)  # in which everybody has files of their own, as in /tmp: also a better name
    assert foreign_part(folder) == f"Other users can write to {folder}."


def test_what_lies_in_a_closed_folder_is_the_users(folder: Path) -> None:
    inside = folder / "model"
    inside.mkdir()
    inside.chmod(0o777)  # as the folders that containers write to are
    assert foreign_part(inside) == f"Other users can write to {inside}."
    folder.chmod(0o700)
    assert foreign_part(inside) == ""


def test_a_file_of_another_user_is_foreign(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.getuid() == 0:
        os.chown(folder / "model.pkl", SOMEBODY, SOMEBODY)
    else:  # who cannot give files away
        monkeypatch.setattr(os, "getuid", lambda: SOMEBODY)
    assert "belongs to another user" in foreign_part(folder)


def test_a_link_leads_to_what_it_names(folder: Path, tmp_path: Path) -> None:
    (folder / "model.pkl").chmod(0o666)
    (tmp_path / "model.pkl").symlink_to(folder / "model.pkl")
    assert "Other users can write" in foreign_part(tmp_path)


def test_what_lies_below_a_linked_folder_is_looked_at(folder: Path, tmp_path: Path) -> None:
    (folder / "library" / "circle").mkdir(parents=True)
    (folder / "library" / "circle" / "back").symlink_to(folder)
    (tmp_path / "linked").symlink_to(folder)
    assert foreign_part(tmp_path) == ""
    (folder / "library").chmod(0o777)
    assert foreign_part(tmp_path) == f"Other users can write to {folder / 'library'}."


def test_a_link_that_leads_nowhere_is_refused(folder: Path) -> None:
    link = folder / "link"
    for target in (link, folder / "missing"):
        link.symlink_to(target)
        with pytest.raises(ConfigError, match="cannot be read"):
            foreign_part(folder)
        link.unlink()


def test_a_folder_whose_path_is_too_long_is_refused(tmp_path: Path) -> None:
    model = Model(name="m", artifact_uri="gs://models/" + "x" * 5000)
    with pytest.raises(ConfigError, match="cannot be read"):
        has_files(artifact_folder(model, tmp_path))
    with pytest.raises(ConfigError):
        check_artifacts(model, tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_a_link_of_another_user_is_followed_once(folder: Path) -> None:
    """He may turn it after the look at it: what was looked at is served, wherever it leads by then."""
    link = Path(tempfile.gettempdir(), f"{folder.name}-link")
    link.symlink_to(folder)
    try:
        os.lchown(link, SOMEBODY, SOMEBODY)
        assert check_artifacts(Model(name="m", artifact_uri=f"file://{link}"), folder) == folder
        assert "belongs to another user" in foreign_part(link)
    finally:
        link.unlink()
    (folder / "model.joblib").symlink_to("model.pkl")
    os.lchown(folder / "model.joblib", SOMEBODY, SOMEBODY)
    assert foreign_part(folder) == f"{folder / 'model.joblib'} belongs to another user."


def test_uris_of_folders(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert artifact_folder(Model(artifact_uri="gs://models/a"), home) == home / "buckets/models/a"
    assert artifact_folder(Model(artifact_uri=f"file://{tmp_path}"), home) == tmp_path
    for uri in ("s3://bucket/a", "gs://models/../../x"):
        with pytest.raises(ConfigError):
            artifact_folder(Model(artifact_uri=uri), home)


def test_missing_files_are_told(tmp_path: Path) -> None:
    assert check_artifacts(Model(name="m"), tmp_path) is None
    model = Model(name="m", artifact_uri=f"file://{tmp_path}/model")
    with pytest.raises(ConfigError, match="gone"):
        check_artifacts(model, tmp_path)
    (tmp_path / "model").mkdir()
    with pytest.raises(ConfigError, match="has no files"):
        check_artifacts(model, tmp_path)
    (tmp_path / "model" / "a").touch()
    assert check_artifacts(model, tmp_path) == tmp_path / "model"
