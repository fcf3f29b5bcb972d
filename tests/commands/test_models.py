"""`vtrain models` on this machine: versions, aliases, copies, and the files that stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vtrain.runtime.store import Store

IMAGE = "us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-6:latest"
NAME = "projects/local/locations/us-central1/models/digits"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.joblib").write_text("a model")
    return folder


@pytest.fixture
def upload(vtrain: Any, files: Path) -> Any:
    def run(*flags: str) -> Any:
        named = ("--display-name=Digits", f"--artifact-uri={files}", f"--container-image-uri={IMAGE}")
        return vtrain("models", "upload", *named, *flags)

    return run


def described(vtrain: Any, name: str, *flags: str) -> dict[str, Any]:
    ended = vtrain("models", "describe", name, "--format=json", *flags)
    assert ended.code == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


def test_an_upload_prints_nothing_and_says_what_it_made(vtrain: Any, upload: Any, files: Path) -> None:
    ended = upload("--model-id=digits")
    assert (ended.code, ended.out) == (0, ""), ended.err
    assert f"Uploaded Model [{NAME}], version 1." in ended.err
    other = upload("--model-id=other", "--format=json")
    assert json.loads(other.out) == {"model": NAME.replace("digits", "other"), "modelVersionId": "1"}
    found = described(vtrain, "digits")
    assert found["artifactUri"] == f"file://{files}"
    assert (found["name"], found["versionId"], found["versionAliases"]) == (NAME, "1", ["default"])
    assert found["containerSpec"] == {"imageUri": IMAGE}


def test_a_dry_run_registers_nothing(vtrain: Any, upload: Any) -> None:
    ended = upload("--parent-model=digits", "--dry-run", "--format=json")
    assert json.loads(ended.out)["parentModel"] == NAME
    assert json.loads(ended.out)["model"]["displayName"] == "Digits"
    assert vtrain("models", "describe", "digits").code == 1


def test_lists_are_tables_everywhere(vtrain: Any, upload: Any) -> None:
    upload("--model-id=digits")
    upload("--parent-model=digits", "--version-aliases=best")
    assert vtrain("models", "list").out.split() == ["MODEL_ID", "DISPLAY_NAME", "digits", "Digits"]
    listed = vtrain("models", "list-version", "digits").out.split()
    assert listed == "MODEL_ID VERSION_ID DISPLAY_NAME digits 1 Digits digits 2 Digits".split()
    assert vtrain("models", "list", "--uri").out == f"{NAME}\n"
    assert vtrain("models", "list", "--filter=displayName=other").out == ""


def test_versions_are_named_by_number_and_alias(vtrain: Any, upload: Any) -> None:
    upload("--model-id=digits", "--version-description=first")
    upload("--parent-model=digits", "--version-aliases=best", "--version-description=second")
    assert described(vtrain, "digits")["versionDescription"] == "first"
    assert described(vtrain, f"{NAME}@2")["versionDescription"] == "second"
    assert described(vtrain, "digits@best")["versionId"] == "2"
    upload("--parent-model=digits", "--version-aliases=best,default")
    assert described(vtrain, "digits")["versionId"] == "3"
    assert described(vtrain, "digits@best")["versionId"] == "3"


def test_a_model_is_named_as_people_call_it(vtrain: Any, upload: Any) -> None:
    assert "There is no model on this machine yet." in vtrain("models", "describe", "@last").err
    for name in ("older", "digits"):
        upload(f"--model-id={name}")
    assert described(vtrain, "@last")["name"] == NAME
    ended = vtrain("models", "describe", "Digits@1", "--format=value(name)")
    assert (ended.code, ended.out) == (0, f"{NAME}\n")
    assert f"2 models are called Digits; this is the newest: {NAME}\n" in ended.err
    ended = vtrain("models", "delete", "Digits")
    assert ended.code == 1 and "ERROR: 2 models are called Digits.\n  Name one:\n" in ended.err
    assert vtrain("models", "delete", "older").code == 0
    assert vtrain("models", "delete", "Digits").code == 0
    ended = vtrain("models", "describe", "Digits")
    assert ended.code == 1 and "not found" in ended.err


def test_a_version_goes_and_the_default_one_does_not(vtrain: Any, upload: Any, files: Path) -> None:
    upload("--model-id=digits")
    upload("--parent-model=digits")
    refused = vtrain("models", "delete-version", "digits@1")
    assert refused.code == 1 and "default version" in refused.err
    ended = vtrain("models", "delete-version", "digits@2")
    assert (ended.code, ended.out) == (0, "") and f"Deleted Model [{NAME}@2]." in ended.err
    assert vtrain("models", "describe", "digits@2").code == 1
    upload("--parent-model=digits")
    assert described(vtrain, "digits@3")["versionId"] == "3"  # a number is used once
    assert vtrain("models", "delete", "digits").code == 0
    assert vtrain("models", "describe", "digits").code == 1
    assert (files / "model.joblib").exists()


def test_mistakes_are_told(vtrain: Any, upload: Any) -> None:
    upload("--model-id=digits")
    for line, said in (
        ("delete digits@1", "delete-version"),
        ("delete-version digits", "digits@VERSION"),
        ("describe digits@", "names no version"),
        ("describe digits@a/b", "names no version"),
        ("describe digits@7", "no version 7"),
        ("describe other", "Model other not found"),
        ("list-version other", "Model other not found"),
        ("delete other", "Model other not found"),
        ("describe projects/local/locations/us-central1/customJobs/1", "takes one of models"),
        ("copy --source-model=other", "Model other not found"),
    ):
        ended = vtrain("models", *line.split())
        assert (ended.code, ended.out) == (1, ""), line
        assert said in ended.err


def test_nothing_is_there_before_the_first_upload(vtrain: Any, vtrain_home: Path) -> None:
    assert vtrain("models", "list").out == ""
    assert "not found" in vtrain("models", "describe", "digits").err
    assert not vtrain_home.exists()


def test_what_gcloud_demands_is_demanded(vtrain: Any) -> None:
    for flags in (["--display-name=a"], [f"--container-image-uri={IMAGE}"], []):
        assert vtrain("models", "upload", *flags).code == 2


def test_an_upload_without_files_is_refused(vtrain: Any, tmp_path: Path, upload: Any) -> None:
    (tmp_path / "empty").mkdir()
    for uri in (str(tmp_path / "empty"), str(tmp_path / "missing"), "gs://models/missing"):
        ended = upload(f"--artifact-uri={uri}")
        assert ended.code == 1 and "no files" in ended.err
    assert "BUCKET" in upload("--artifact-uri=s3://bucket/model").err
    assert vtrain("models", "list").out == ""


def test_an_id_is_taken_once(upload: Any) -> None:
    assert upload("--model-id=digits").code == 0
    ended = upload("--model-id=digits")
    assert ended.code == 1 and "--parent-model=digits" in ended.err
    assert upload("--model-id=1digits").code == 1
    assert upload("--model-id=a", "--parent-model=digits").code == 2
    assert "not found" in upload("--parent-model=other").err


def test_a_copy_has_the_files_in_another_region(vtrain: Any, upload: Any, files: Path) -> None:
    upload("--model-id=digits", "--version-description=first")
    upload("--parent-model=digits", "--version-aliases=best", "--version-description=second")
    line = ("models", "copy", "--source-model=digits@best", "--region=europe-west4")
    ended = vtrain(*line, "--destination-model-id=copied", "--format=json")
    name = "projects/local/locations/europe-west4/models/copied"
    assert json.loads(ended.out) == {"model": name, "modelVersionId": "1"}
    found = described(vtrain, name)
    assert (found["versionDescription"], found["versionAliases"]) == ("second", ["default"])
    assert found["artifactUri"] == f"file://{files}"
    assert found["modelSourceInfo"] == {"sourceType": "CUSTOM", "copy": True}
    assert found["originalModelInfo"] == {"model": f"{NAME}@2"}
    listed = vtrain("models", "list", "--format=value(name)").out.split()
    assert listed == [name, NAME]


def test_a_copy_becomes_a_version(vtrain: Any, upload: Any) -> None:
    upload("--model-id=digits")
    upload("--model-id=production", "--display-name=Production")
    line = ("models", "copy", f"--source-model={NAME}", "--destination-parent-model=production")
    assert vtrain(*line).code == 0
    assert described(vtrain, "production@2")["originalModelInfo"] == {"model": f"{NAME}@1"}
    assert described(vtrain, "production")["versionId"] == "1"
    assert vtrain(*line, "--destination-model-id=x").code == 2


def test_a_model_of_a_pipeline_can_be_copied(vtrain: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, pathlib\nfolder = pathlib.Path(os.environ['AIP_MODEL_DIR'])\n"
        "folder.mkdir(parents=True, exist_ok=True)\n(folder / 'model.pkl').write_text('x')\n"
    )
    line = ("--display-name=p", f"--local-package-path={tmp_path}", "--script=train.py", "--wait", "-q")
    model = ("--model-display-name=m", "--model-id=m", f"--serving-container-image-uri={IMAGE}")
    made = vtrain("training-pipelines", "create", "--backend=process", *line, *model)
    assert made.code == 0, made.err
    assert described(vtrain, "m")["trainingPipeline"].startswith("projects/local/")
    assert vtrain("models", "copy", "--source-model=m", "--destination-model-id=copied").code == 0
    assert "trainingPipeline" not in described(vtrain, "copied")


def test_a_damaged_version_is_named_and_can_be_deleted(vtrain: Any, upload: Any, vtrain_home: Path) -> None:
    upload("--model-id=digits")
    upload("--parent-model=digits")
    store = Store.open(vtrain_home)
    with store.transaction() as connection:
        connection.execute("UPDATE models SET document = '{' WHERE version = 2")
    store.close()
    for line in (("list",), ("list-version", "digits")):
        ended = vtrain("models", *line)
        assert ended.code == 0 and "digits" in ended.out
        assert f"damaged, and not listed: {NAME}@2" in ended.err
    assert "damaged" in vtrain("models", "describe", "digits@2").err
    assert vtrain("models", "delete-version", "digits@2").code == 0
    assert "damaged" not in vtrain("models", "list").err


def test_secrets_of_the_container_are_not_shown(vtrain: Any, upload: Any) -> None:
    secret = "--container-env-vars=API_KEY=s3cr3t-value,COLOUR=blue"
    planned = upload("--model-id=digits", secret, "--dry-run")
    assert "blue" in planned.out and "s3cr3t" not in planned.out
    upload("--model-id=digits", secret)
    for ended in (vtrain("models", "describe", "digits"), vtrain("models", "list", "--format=yaml")):
        assert "blue" in ended.out and "s3cr3t" not in ended.out
