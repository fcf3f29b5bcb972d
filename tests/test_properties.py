from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from vtrain.errors import ConfigError
from vtrain.properties import (
    Choice,
    endpoint_override,
    gcloud_folder,
    given_property,
    property_flag,
    property_value,
    use_configuration,
)


@pytest.fixture(autouse=True)
def no_configuration_chosen() -> Iterator[None]:
    yield
    use_configuration("")


@pytest.fixture
def folder(own_home: Path) -> Path:
    """gcloud's folder, with the configurations `default` and `work`."""
    folder = own_home / "gcloud"
    (folder / "configurations").mkdir(parents=True)
    configure(folder, "default", "[core]\nproject = at-home\naccount = me%40@example.com\n")
    configure(folder, "work", "[core]\nproject = at-work\n\n[auth]\ndisable_credentials = True\n")
    return folder


def configure(folder: Path, name: str, text: str) -> None:
    (folder / "configurations" / f"config_{name}").write_text(text)


def project() -> str:
    found = property_value("core", "project")
    return found.value if found else ""


def test_the_variable_beats_the_configuration(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert property_value("core", "project") == Choice(value="at-home", origin="gcloud's configuration")
    assert property_value("core", "account") == Choice(
        value="me%40@example.com", origin="gcloud's configuration"
    )
    monkeypatch.setenv("CLOUDSDK_CORE_PROJECT", "here")
    assert property_value("core", "project") == Choice(value="here", origin="CLOUDSDK_CORE_PROJECT")


def test_an_empty_variable_hides_the_configuration(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDSDK_CORE_PROJECT", "")
    assert property_value("core", "project") is None
    assert given_property("core", "project") == Choice(value="", origin="CLOUDSDK_CORE_PROJECT")


def test_which_configuration_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "active_config").write_text("work")
    assert project() == "at-work"
    monkeypatch.setenv("CLOUDSDK_ACTIVE_CONFIG_NAME", "default")
    assert project() == "at-home"
    use_configuration("work")
    assert project() == "at-work"
    use_configuration("")
    assert project() == "at-home"
    monkeypatch.setenv("CLOUDSDK_ACTIVE_CONFIG_NAME", "NONE")
    assert project() == ""


def test_a_configuration_that_was_named_has_to_be_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"'nope' \(from --configuration\)"):
        use_configuration("nope")
    (folder / "active_config").write_text("gone")
    assert project() == ""
    monkeypatch.setenv("CLOUDSDK_ACTIVE_CONFIG_NAME", "nope")
    with pytest.raises(ConfigError, match=r"'nope' \(from CLOUDSDK_ACTIVE_CONFIG_NAME\)") as caught:
        project()
    assert caught.value.hint == "$ gcloud config configurations list"


def test_a_configuration_that_changes_is_read_again(folder: Path) -> None:
    assert project() == "at-home"
    configure(folder, "default", "[core]\nproject = moved-house\n")
    assert project() == "moved-house"


@pytest.mark.parametrize(
    ("text", "line"), [("project = x\n", 1), ("[core]\n\nproject\n", 3), ("[core\nproject = x\n", 1)]
)
def test_a_broken_configuration_is_named_with_its_line(folder: Path, text: str, line: int) -> None:
    configure(folder, "default", text)
    with pytest.raises(ConfigError, match=f"config_default:{line}: not a line of"):
        project()


@pytest.mark.parametrize(
    ("written", "read"),
    [("a%%40b", "a%40b"), ("%(project)s.pem", "at-home.pem"), ("a%40b", "a%40b"), ("%(none)s", "%(none)s")],
)
def test_a_value_with_a_percent_sign_is_read_as_gcloud_reads_it(
    folder: Path, written: str, read: str
) -> None:
    configure(folder, "default", f"[core]\nproject = at-home\ncustom_ca_certs_file = {written}\n")
    found = property_value("core", "custom_ca_certs_file")
    assert found is not None
    assert found.value == read


def test_the_name_of_no_configuration_is_that_of_no_file(folder: Path) -> None:
    configure(folder, "NONE", "[core]\nproject = nobody\n")
    (folder / "active_config").write_text("NONE")
    assert project() == ""


def test_without_gcloud_nothing_is_set() -> None:
    assert project() == ""
    assert not property_flag("auth", "disable_credentials")


@pytest.mark.parametrize("word", ["true", "True", "1", "on", "yes", "y"])
def test_on(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv("CLOUDSDK_AUTH_DISABLE_CREDENTIALS", word)
    assert property_flag("auth", "disable_credentials")


@pytest.mark.parametrize("word", ["false", "0", "OFF", "no", "n", "None", ""])
def test_off(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv("CLOUDSDK_AUTH_DISABLE_CREDENTIALS", word)
    assert not property_flag("auth", "disable_credentials")


def test_neither_on_nor_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "maybe")
    with pytest.raises(ConfigError, match=r"'maybe' \(from CLOUDSDK_AUTH_DISABLE_CREDENTIALS\)"):
        property_flag("auth", "disable_credentials")


def test_endpoints(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert endpoint_override("logging") == ""
    configure(folder, "default", "[api_endpoint_overrides]\nlogging = http://127.0.0.1:1\n")
    assert endpoint_override("logging") == "http://127.0.0.1:1/"
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING", "https://localhost/x//")
    assert endpoint_override("logging") == "https://localhost/x/"
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING", "localhost:1")
    with pytest.raises(ConfigError, match="is not the address of a service"):
        endpoint_override("logging")


def test_the_folder(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gcloud_folder() == own_home / "gcloud"
    monkeypatch.delenv("CLOUDSDK_CONFIG")
    assert gcloud_folder() == own_home / ".config" / "gcloud"


@pytest.mark.parametrize("text", ["x" * 5000, "a\0b", "\x01\x02" * 3000])
def test_an_active_configuration_that_no_file_can_be_named_after(own_home: Path, text: str) -> None:
    (own_home / "gcloud").mkdir(exist_ok=True)
    (own_home / "gcloud" / "active_config").write_text(text)
    assert property_value("core", "project") is None


def test_a_configuration_whose_name_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDSDK_ACTIVE_CONFIG_NAME", "x" * 5000)
    with pytest.raises(ConfigError, match="There is no gcloud configuration called"):
        property_value("core", "project")
