"""Packages of trainers go when nobody has used them for long; what is not vtrain's in a bucket stays."""

from __future__ import annotations

from pathlib import Path

from vtrain.packaging.sdist import build_sdist, plan_sdist
from vtrain.packaging.source import TrainerSource
from vtrain.staging import LocalBuckets

CONTENT = "0123456789abcdef" * 4
BUCKET = "gs://demo/staging"


def package(home, place: str, days: float = 40) -> Path:
    folder = home.path / place / CONTENT
    folder.mkdir(parents=True)
    (folder / f"trainer-{CONTENT[:16]}.tar.gz").write_bytes(b"x" * 100)
    return home.age(folder, days)


def discarded(candidates) -> dict[str, str]:
    return {candidate.name: candidate.kept or candidate.discard() for candidate in candidates}


def test_what_nobody_has_used_for_long_goes(home) -> None:
    folder = package(home, "packages")
    (candidate,) = home.found("package")
    assert (candidate.name, candidate.kind, candidate.size) == (f"packages/{CONTENT}", "package", 100)
    assert home.found("package", days=50) == []
    assert candidate.discard() == ""
    assert not folder.exists() and list(folder.parent.iterdir()) == []


def test_what_a_living_job_was_submitted_with_stays(home) -> None:
    folder = package(home, "packages")
    home.job(1, "QUEUED", packages=((folder / "trainer.tar.gz").as_uri(),))
    assert discarded(home.found("package")) == {f"packages/{CONTENT}": "a job uses it"}


def test_what_is_used_again_before_it_goes_stays(home, tmp_path: Path) -> None:
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "task.py").write_text("print(1)\n")
    plan = plan_sdist(TrainerSource(folder=tmp_path, python_module="trainer.task"))
    built = build_sdist(plan, home.path / "packages")
    home.age(built.sdist.parent)
    (candidate,) = home.found("package")
    assert not build_sdist(plan, home.path / "packages").built
    assert candidate.discard() == "it was used just now"
    assert built.sdist.is_file()
    assert home.found("package") == []


def test_staged_packages_of_ended_jobs_go(home) -> None:
    place = "buckets/demo/staging"
    folder = package(home, place)
    own = home.path / place / "data" / "mine.tar.gz"
    own.parent.mkdir()
    own.write_bytes(b"")
    home.age(own.parent)
    home.job(1, packages=(f"{BUCKET}/{CONTENT}/trainer.tar.gz", f"{BUCKET}/data/mine.tar.gz"))
    assert discarded(home.found("package")) == {f"{place}/{CONTENT}": ""}
    assert not folder.exists() and own.exists()


def test_packages_in_the_bucket_of_another_home_stay(home, tmp_path: Path) -> None:
    folder = package(home, f"{tmp_path}/other/buckets/demo")
    home.job(1, packages=((folder / "trainer.tar.gz").as_uri(),))
    assert home.found("package") == []


def test_staged_packages_of_living_jobs_stay(home) -> None:
    folder = package(home, "buckets/demo/staging")
    for number, state in ((1, "FAILED"), (2, "RUNNING")):
        home.job(number, state, packages=(f"{BUCKET}/{CONTENT}/trainer.tar.gz",))
    (kept,) = discarded(home.found("package")).values()
    assert kept == "a job uses it"
    assert folder.exists()


def test_staged_packages_that_were_staged_again_stay(home, tmp_path: Path) -> None:
    folder = package(home, "buckets/demo/staging")
    home.job(1, packages=(f"{BUCKET}/{CONTENT}/trainer.tar.gz",))
    file = folder / f"trainer-{CONTENT[:16]}.tar.gz"
    (tmp_path / file.name).write_bytes(file.read_bytes())
    staged = LocalBuckets(home.path).stage(tmp_path / file.name, f"{BUCKET}/{CONTENT}/{file.name}")
    assert not staged.written
    assert home.found("package") == []


def test_a_removal_that_was_killed_is_finished_by_the_next(home) -> None:
    folder = package(home, "buckets/demo/staging")
    folder.rename(folder.with_name(f".gone-{CONTENT}"))
    home.job(1, packages=(f"{BUCKET}/{CONTENT}/trainer.tar.gz",))
    assert [*discarded(home.found("package")).values()] == [""]
    assert list(folder.parent.iterdir()) == []
