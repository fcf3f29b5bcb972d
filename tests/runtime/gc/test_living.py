"""What living jobs use, as their documents and their replicas' orders tell."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from vtrain.messages.codec import from_document
from vtrain.messages.custom_job import CustomJob
from vtrain.runtime.folder import write_struct
from vtrain.runtime.gc import living
from vtrain.runtime.gc.living import LivingJobs, images_used_since, living_jobs
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.store import Store


def order(home, number: int, replica: str, **document: object) -> None:
    folder = home.path / "jobs" / str(number)
    (folder / "replicas" / replica).mkdir(parents=True)
    (folder / "replicas" / replica / "spec.json").write_text(json.dumps(document))
    (folder / "replicas.json").write_text(json.dumps([replica]))


def test_a_home_without_jobs(tmp_path: Path, home) -> None:
    assert living_jobs(tmp_path / "nowhere") == LivingJobs()
    assert not (tmp_path / "nowhere").exists()
    home.job(1, "FAILED")
    assert living_jobs(home.path) == LivingJobs()
    assert not living_jobs(home.path).is_preparing


def test_what_its_replicas_run(home) -> None:
    home.job(1, "RUNNING", packages=("gs://bucket/hash/trainer.tar.gz", "http://elsewhere/x.tar.gz"))
    order(home, 1, "workerpool0-0", config={"Image": "vtrain/runtime:1"})
    home.job(2, "CANCELLING")
    order(home, 2, "workerpool0-0", env={"PATH": "/environment/bin:/usr/bin"})
    living = living_jobs(home.path)
    assert living.ids == {"1", "2"}
    assert "vtrain/runtime:1" in living.images
    assert living.programs == {Path("/environment/bin"), Path("/usr/bin")}
    assert living.packages == {(home.path / "buckets/bucket/hash").resolve()}
    assert not living.is_preparing


def test_images_that_were_used_lately(home) -> None:
    for number, days in ((1, 40), (2, 20)):
        home.job(number, "SUCCEEDED", days=days)
        order(home, number, "workerpool0-0", config={"Image": f"vtrain/runtime:{number}"})
    used = images_used_since(home.path, home.now - 30 * 86400)
    assert used - {""} == {"vtrain/runtime:2"}


def test_one_that_is_not_ordered_yet(home) -> None:
    home.job(1, "QUEUED", days=3)
    home.job(2, "PENDING", days=2)
    living = living_jobs(home.path)
    assert living.is_preparing
    assert living.preparing_since == pytest.approx(home.now - 3 * 86400, abs=1)


def test_an_order_that_is_half_written(home) -> None:
    folder = home.job(1, "PENDING").path / "replicas" / "workerpool0-0"
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text("{")
    assert living_jobs(home.path).ids == {"1"}


def test_a_job_whose_row_comes_between_two_looks(home, monkeypatch: pytest.MonkeyPatch) -> None:
    (home.path / "jobs" / "1").mkdir(parents=True)
    (home.path / "jobs" / "1" / "spec.json").touch()

    def before_the_row(look: Callable[..., Iterable[object]]) -> Callable[..., list[object]]:
        def looked(*args: object) -> list[object]:
            found = [*look(*args)]
            if not home.names():
                home.job(1, "PENDING")
            return found

        return looked

    monkeypatch.setattr(living, "folders_without_row", before_the_row(living.folders_without_row))
    monkeypatch.setattr(Store, "living", before_the_row(Store.living))
    assert living_jobs(home.path).ids == {"1"}


@pytest.mark.parametrize("has_store", [True, False])
def test_a_job_that_the_store_does_not_have(home, has_store: bool) -> None:
    """The store was moved away, and the job may run."""
    lost = home.job(7, "RUNNING", packages=("gs://bucket/hash/trainer.tar.gz",))
    order(home, 7, "workerpool0-0", env={"PATH": "/environment/bin"}, config={"Image": "vtrain/runtime:1"})
    (document,) = home.store.execute("SELECT document FROM resources")
    job = from_document(CustomJob, json.loads(document[0]))
    write_struct(
        lost.path / "spec.json",
        JobOrder(home=str(home.path), name=job.name, job=job, backend="process", grace_seconds=1),
    )
    expected = living_jobs(home.path)
    home.store.delete(home.name(7))
    if not has_store:
        home.store.close()
        (home.path / "store.db").unlink()
    assert expected.ids == {"7"} and living_jobs(home.path) == expected
    (lost.path / "spec.json").write_text("{")
    assert living_jobs(home.path).ids == {"7"}
    (lost.path / "replicas.json").unlink()
    assert living_jobs(home.path).preparing_since == (lost.path / "spec.json").stat().st_mtime
