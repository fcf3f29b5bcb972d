"""`--credentials`: none, those of the caller, or a file; never without being asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from vtrain.errors import ConfigError, UsageError
from vtrain.flags.containers import credentials_file, credentials_place, replica_options
from vtrain.flags.job_options import ContainerFlags, GpuFlags


@pytest.fixture
def key(tmp_path: Path) -> Path:
    file = tmp_path / "key.json"
    file.write_text("{}")
    return file


def test_application_default_credentials_are_where_google_s_libraries_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = "application_default_credentials.json"
    monkeypatch.delenv("CLOUDSDK_CONFIG", raising=False)
    assert credentials_place() == Path.home() / ".config" / "gcloud" / file
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    assert credentials_place() == tmp_path / file
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/a/key.json")
    assert credentials_place() == Path("/a/key.json")


def test_credentials_are_given_only_when_asked_for(key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    assert replica_options(ContainerFlags(), GpuFlags()).credentials_file == ""
    assert replica_options(ContainerFlags(credentials="none")).credentials_file == ""
    assert replica_options(ContainerFlags(credentials="adc")).credentials_file == str(key)


@pytest.mark.parametrize("word", ["key.json", "./adc", "./none"])
def test_a_file_is_read_from_the_current_folder(
    key: Path, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(key.parent)
    file = key.rename(key.parent / word)
    assert credentials_file(word) == str(file)
    assert replica_options(ContainerFlags(), GpuFlags(service_account_key_file=word)).credentials_file == str(
        file
    )


def test_credentials_come_from_one_place_only(key: Path) -> None:
    for word in ("adc", "none"):
        with pytest.raises(
            UsageError, match="--credentials and --service-account-key-file exclude each other"
        ):
            credentials_file(word, str(key))


def test_a_key_file_without_a_name_is_none_and_credentials_without_a_value_are_refused() -> None:
    assert credentials_file(None, "") == ""
    with pytest.raises(UsageError, match="--credentials: the value is empty"):
        credentials_file("")


def test_who_names_no_file_is_told_which_values_there_are(tmp_path: Path) -> None:
    for missing in (tmp_path / "key.json", tmp_path):
        with pytest.raises(ConfigError, match=f"--credentials: {missing}") as caught:
            credentials_file(str(missing))
        assert caught.value.hint == "Take none, adc or the path of a file."


def test_credentials_that_are_missing_are_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        credentials_file("adc")
    assert "application_default_credentials.json does not exist" in caught.value.message
    assert caught.value.hint == "Make it with: gcloud auth application-default login"
    with pytest.raises(ConfigError, match=r"--service-account-key-file: .* is a folder, not a file"):
        credentials_file(None, str(tmp_path))
    with pytest.raises(ConfigError, match=r"--credentials: .*nothing.json does not exist"):
        credentials_file(str(tmp_path / "nothing.json"))
