"""Whole commands: a trainer's package to Cloud Storage, and the job that names it to Vertex AI."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lib.storage_relay import StorageRelay
from lib.vertex_service import VertexService

POOL = "machine-type=e2,local-package-path={},python-module=trainer.task,executor-image-uri=gcr.io/p/i"


@pytest.fixture
def bucket(relay: StorageRelay, make_bucket: Callable[..., None]) -> str:
    make_bucket("stage")
    relay.requests.clear()
    return "gs://stage/jobs"


@pytest.fixture
def create(tmp_path: Path) -> tuple[str, ...]:
    """The command line that stages a trainer and starts a job of it."""
    folder = tmp_path / "code" / "trainer"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "task.py").write_text('print("trained")\n')
    pool = POOL.format(folder.parent)
    return ("custom-jobs", "create", "--display-name=demo", f"--worker-pool-spec={pool}")


def package_uris(document: dict[str, Any]) -> list[str]:
    found: list[str] = document["jobSpec"]["workerPoolSpecs"][0]["pythonPackageSpec"]["packageUris"]
    return found


def test_a_trainer_is_staged_once_and_named_by_its_jobs(
    vtrain: Any, vertex: VertexService, relay: StorageRelay, bucket: str, create: tuple[str, ...]
) -> None:
    first = vtrain(*create, f"--staging-bucket={bucket}")
    assert first.code == 0, first.err
    sent = relay.bytes_up
    second = vtrain(*create, f"--staging-bucket={bucket}")
    assert "Package: cached. Staged files: cached." in second.err
    assert relay.bytes_up == sent > 0
    bodies = [request.body for request in vertex.requests]
    assert len(bodies) == 2 and bodies[0] == bodies[1]
    (uri,) = package_uris(bodies[0])
    assert uri.startswith(f"{bucket}/") and f"Staged {uri}" in first.err


def test_a_dry_run_asks_nobody_and_shows_what_is_sent(
    vtrain: Any, vertex: VertexService, relay: StorageRelay, bucket: str, create: tuple[str, ...]
) -> None:
    shown = vtrain(*create, f"--staging-bucket={bucket}", "--dry-run", "--format=json")
    assert shown.code == 0, shown.err
    assert relay.requests == [] and vertex.requests == []
    vtrain(*create, f"--staging-bucket={bucket}")
    assert package_uris(json.loads(shown.out)) == package_uris(vertex.requests[0].body)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--staging-bucket=gs://absent"], "gs://absent does not exist."),
        (
            ["--staging-bucket=gs://abroad"],
            "gs://abroad lies in europe-west4, and the job runs in us-central1",
        ),
        (["--staging-bucket=gs://stage", "--base-output-dir=gs://absent/out"], "gs://absent does not exist."),
        (["--staging-bucket=file:///srv/staging"], "Vertex AI cannot read file:///srv/staging/"),
        (["--package-format=sdist"], "Give --staging-bucket=gs://NAME."),
    ],
)
def test_what_is_wrong_with_a_bucket_is_said_before_anything_is_sent(
    vtrain: Any,
    vertex: VertexService,
    relay: StorageRelay,
    bucket: str,
    make_bucket: Callable[..., None],
    create: tuple[str, ...],
    vtrain_home: Path,
    flags: list[str],
    sentence: str,
) -> None:
    make_bucket("abroad", "europe-west4")
    ended = vtrain(*create, *flags)
    assert ended.code == 1
    assert sentence in ended.err
    assert relay.bytes_up == 0 and vertex.requests == []
    assert not (vtrain_home / "packages").exists()


def test_a_job_without_a_package_asks_nothing_of_storage(
    vtrain: Any, vertex: VertexService, relay: StorageRelay, bucket: str
) -> None:
    pool = "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/p/i"
    flags = (f"--staging-bucket={bucket}", "--base-output-dir=gs://elsewhere/out")
    ended = vtrain("custom-jobs", "create", "--display-name=demo", pool, *flags)
    assert ended.code == 0, ended.err
    assert relay.requests == []


def test_a_package_alone_goes_where_a_job_would_read_it(
    vtrain: Any,
    vertex: VertexService,
    relay: StorageRelay,
    bucket: str,
    create: tuple[str, ...],
    tmp_path: Path,
) -> None:
    flags = (f"--local-package-path={tmp_path / 'code'}", "--python-module=trainer.task", "--output-dir")
    ended = vtrain("package", "sdist", *flags, bucket)
    assert ended.code == 0, ended.err
    assert len(relay.uploads) == 1
    assert ended.out.startswith(f"{bucket}/trainer-")


def test_a_package_alone_stays_here_without_a_project(
    vtrain: Any, relay: StorageRelay, bucket: str, create: tuple[str, ...], tmp_path: Path, vtrain_home: Path
) -> None:
    flags = (f"--local-package-path={tmp_path / 'code'}", "--python-module=trainer.task", "--output-dir")
    ended = vtrain("package", "sdist", *flags, bucket)
    assert ended.code == 0, ended.err
    assert relay.requests == []
    assert (vtrain_home / "buckets" / ended.out.strip().removeprefix("gs://")).is_file()


def test_an_empty_folder_for_a_package_is_not_the_current_one(
    vtrain: Any, create: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable of a script that is not set."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    line = ("package", "sdist", "-m", "trainer.task", f"--local-package-path={tmp_path / 'code'}")
    refused = vtrain(*line, "--output-dir=")
    assert (refused.code, refused.out, list(Path().iterdir())) == (2, "", [])
    assert refused.err == "ERROR: --output-dir: the value is empty.\n  For the current folder, write a dot.\n"
