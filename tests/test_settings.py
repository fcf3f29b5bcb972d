from __future__ import annotations

from pathlib import Path

import pytest

from vtrain.errors import ConfigError
from vtrain.settings import (
    Choice,
    choose_backend,
    find_project,
    find_region,
    home_folder,
)
from vtrain.staging import find_staging_bucket

LOCAL_JOB = "projects/local/locations/us-central1/customJobs/1"
CLOUD_JOB = "projects/demo/locations/us-central1/customJobs/1"
DEMO = Choice(value="demo", origin="--project")


@pytest.fixture(autouse=True)
def project_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: one without a pyproject.toml of its own above vtrain's."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    return tmp_path


@pytest.fixture
def gcloud(own_home: Path) -> Path:
    """gcloud's configuration folder, with project `from-gcloud`."""
    folder = own_home / "gcloud"
    (folder / "configurations").mkdir(parents=True)
    (folder / "configurations" / "config_default").write_text("[core]\nproject = from-gcloud\n")
    return folder


def backend(*, flag: str = "", name: str = "", project: Choice | None = None) -> str:
    return choose_backend(flag=flag, name=name, project=project).value


def test_home(monkeypatch: pytest.MonkeyPatch, own_home: Path) -> None:
    assert home_folder() == own_home / ".vtrain"
    monkeypatch.setenv("VTRAIN_HOME", "~/elsewhere")
    assert home_folder() == own_home / "elsewhere"
    monkeypatch.delenv("VTRAIN_HOME")
    assert home_folder() == own_home / ".vtrain"


def test_the_project_is_found_as_gcloud_finds_it(gcloud: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_project(None) == Choice(value="from-gcloud", origin="gcloud's configuration")
    (gcloud / "active_config").write_text("work\n")
    assert find_project(None) is None
    (gcloud / "configurations" / "config_work").write_text(
        "[core]\nproject = at-work\n[ai]\nregion = me-west1\n"
    )
    assert find_project(None) == Choice(value="at-work", origin="gcloud's configuration")
    monkeypatch.setenv("CLOUDSDK_CORE_PROJECT", "from-env")
    assert find_project(None) == Choice(value="from-env", origin="CLOUDSDK_CORE_PROJECT")
    assert find_project("from-flag") == Choice(value="from-flag", origin="--project")


def test_without_gcloud_there_is_no_project() -> None:
    assert find_project(None) is None


@pytest.mark.parametrize("project", ["", "123456", "Demo", "a!b", "-demo", "demo-", " demo ", "x:"])
def test_what_is_not_a_project_id_is_refused(project: str) -> None:
    with pytest.raises(ConfigError, match="is not a project id"):
        find_project(project)


def test_an_empty_project_is_refused_where_one_is_given(
    gcloud: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUDSDK_CORE_PROJECT", "")
    with pytest.raises(ConfigError, match=r"'' \(from CLOUDSDK_CORE_PROJECT\) is not a project id"):
        find_project(None)


@pytest.mark.parametrize("project", ["demo-1", "1demo", "d", "example.com:proj", "a-b.c.com:1", "local"])
def test_project_ids(project: str) -> None:
    assert find_project(project) == Choice(value=project, origin="--project")


def test_which_backend_a_line_uses(project_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert backend() == "local"
    assert backend(project=DEMO) == "vertex"
    assert backend(project=Choice(value="local", origin="--project")) == "local"
    assert backend(name=LOCAL_JOB, project=DEMO) == "local"
    assert backend(name=CLOUD_JOB) == "vertex"
    assert backend(name="123", project=DEMO) == "vertex"
    (project_folder / "pyproject.toml").write_text('[tool.vtrain]\nbackend = "docker"\n')
    assert backend(name=CLOUD_JOB, project=DEMO) == "docker"
    monkeypatch.setenv("VTRAIN_BACKEND", "process")
    assert backend(name=CLOUD_JOB, project=DEMO) == "process"
    assert backend(flag="vertex", name=LOCAL_JOB) == "vertex"


def test_pyproject_is_found_from_a_folder_below(
    project_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project_folder / "pyproject.toml").write_text('[tool.vtrain]\nbackend = "process"\n')
    (project_folder / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(project_folder / "a" / "b")
    choice = choose_backend(flag="", name="", project=None)
    assert choice == Choice(value="process", origin=f"{project_folder / 'pyproject.toml'} [tool.vtrain]")


def test_the_reason_is_told() -> None:
    assert choose_backend(flag="", name="", project=DEMO).origin == "project demo, from --project"
    assert choose_backend(flag="x", name="", project=None).origin == "--backend"


def test_region(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_region("", local=True) == ("us-central1", "")
    monkeypatch.setenv("CLOUDSDK_AI_REGION", "europe-west4")
    assert find_region("", local=True) == ("europe-west4", "")
    assert find_region("me-west1", local=False) == ("me-west1", "")
    full = "projects/other/locations/us-east1"
    assert find_region(full, local=False) == ("us-east1", "other")
    assert find_region(f"https://aiplatform.googleapis.com/v1/{full}", local=False) == ("us-east1", "other")


def test_region_from_gclouds_configuration(gcloud: Path) -> None:
    (gcloud / "configurations" / "config_default").write_text("[ai]\nregion = asia-east1\n")
    assert find_region("", local=False) == ("asia-east1", "")


@pytest.mark.parametrize("region", ["us-central2", "US-CENTRAL1", "us-central1-a", "nowhere"])
def test_an_unknown_region_is_refused_with_near_ones(region: str) -> None:
    with pytest.raises(ConfigError, match="is not a region") as caught:
        find_region(region, local=True)
    assert caught.value.hint.startswith("Did you mean ")


def test_staging_bucket(project_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_staging_bucket("") == ""
    (project_folder / "pyproject.toml").write_text('[tool.vtrain]\nstaging-bucket = "gs://from-file"\n')
    assert find_staging_bucket("") == "gs://from-file"
    monkeypatch.setenv("VTRAIN_STAGING_BUCKET", "from-env")
    assert find_staging_bucket("") == "gs://from-env"
    assert find_staging_bucket("file:///from/flag") == "file:///from/flag"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# [tool.vtrain]\n[tool.black]\n", ""),
        ("# [tool.vtrain]\n", ""),
        ("[project]\ndescription = 'reads [tool.vtrain]'\n", ""),
        ("[tool.vtrain]\n", ""),
        ("[tool]\nvtrain.staging-bucket = 'abc'\n", "gs://abc"),
        ("[ tool . 'vtrain' ]\nstaging-bucket = 'abc'\n", "gs://abc"),
        ("tool = {vtrain = {staging-bucket = 'abc'}}\n", "gs://abc"),
    ],
)
def test_the_table_is_read_as_toml_has_it(project_folder: Path, text: str, found: str) -> None:
    (project_folder / "pyproject.toml").write_text(text)
    assert find_staging_bucket("") == found


@pytest.mark.parametrize("text", ["gs://", "gs:///", "file://", "gs://b", "s3://bucket"])
def test_a_staging_uri_without_a_bucket_is_refused_by_its_flag(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"^--staging-bucket: "):
        find_staging_bucket(text)
    monkeypatch.setenv("VTRAIN_STAGING_BUCKET", text)
    with pytest.raises(ConfigError, match=r"^VTRAIN_STAGING_BUCKET: "):
        find_staging_bucket("")
