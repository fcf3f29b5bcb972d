"""What processes that were killed had begun, on the disk and alive."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from lib.waiting import wait_until

from vtrain.atomic import UNPUBLISHED, holding, publishing_file, publishing_folder, scratch_folder
from vtrain.messages.custom_job import MachineSpec
from vtrain.messages.names import PERSISTENT_RESOURCES, ResourceName
from vtrain.messages.persistent_resource import PersistentResource, ResourcePool
from vtrain.privacy import home_label
from vtrain.runtime.gc.sweep import orphaned_processes
from vtrain.runtime.home import Home
from vtrain.runtime.job_order import WarmSlot
from vtrain.runtime.locks import lock_holder
from vtrain.runtime.resource_registry import ResourceRegistry
from vtrain.runtime.warm_slots import keep_warm


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def half_made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "content").write_bytes(b"x" * 10)
    return folder


def test_what_nobody_writes_to_any_more_goes(home, own_temporary_folder: Path) -> None:
    label = home_label(home.path)
    places = [home.path / "packages" / UNPUBLISHED, own_temporary_folder / f"vtrain-build-{label}-"]
    for place in places:
        home.age(half_made(place.with_name(f"{place.name}stale")), days=0.1)
        half_made(place.with_name(f"{place.name}fresh"))
        written_to = half_made(place.with_name(f"{place.name}written-to"))
        os.utime(written_to, (0, 0))
    other = home.age(half_made(own_temporary_folder / "somebody-elses"))
    found = home.found("temporary")
    assert [one.name for one in found] == [f"packages/{UNPUBLISHED}stale", f"{places[1]}stale"]
    assert [(one.kind, one.size) for one in found] == [("temporary", 10)] * 2
    assert [one.discard() for one in found] == ["", ""]
    assert home.found("temporary") == []
    assert other.exists() and len(list(own_temporary_folder.iterdir())) == 3


def test_what_another_home_has_begun_stays(home, own_temporary_folder: Path) -> None:
    for name in (f"vtrain-build-{home_label(own_temporary_folder)}-x", "vtrain-build-older"):
        home.age(half_made(own_temporary_folder / name))
    assert home.found("temporary") == []


def test_where_a_process_works_nothing_goes(home) -> None:
    home.path.joinpath("packages").mkdir()
    with (
        scratch_folder(home.path) as scratch,
        publishing_folder(home.path / "packages" / "a") as folder,
        publishing_file(home.path / "packages" / "b") as file,
    ):
        for path in (scratch, folder, file):
            os.utime(path, (0, 0))
        assert home.found("temporary") == []
    left = [path.name for path in (home.path / "packages").iterdir()]
    assert (sorted(left), scratch.exists()) == (["a", "b"], False)


def test_what_was_written_before_the_clock_was_set_back_goes(home) -> None:
    home.age(half_made(home.path / "packages" / f"{UNPUBLISHED}1-a"), days=-2)
    assert [one.discard() for one in home.found("temporary")] == [""]


@pytest.mark.parametrize("place", ["packages", "packages/0123", "logs"])
def test_files_that_were_never_published_go(home, place: str) -> None:
    begun = home.path / place / f"{UNPUBLISHED}1-a"
    begun.parent.mkdir(parents=True)
    begun.write_bytes(b"x")
    assert home.found("temporary") == []
    home.age(begun)
    assert [one.discard() for one in home.found("temporary")] == [""]
    assert not begun.exists() and begun.parent.exists()


def test_a_removal_under_way_is_left_to_who_began_it(home) -> None:
    gone = half_made(home.path / "packages" / ".gone-1")
    (found,) = home.found("temporary")
    with holding(gone):
        assert found.discard() == "another command is removing it"
    assert found.discard() == ""


def test_removals_that_were_begun_go_at_once(home) -> None:
    for place in ("jobs", "packages", "environments/wheels"):
        half_made(home.path / place / ".gone-1")
    assert [one.discard() for one in home.found("temporary")] == [""] * 3
    assert not any(home.path.rglob(".gone-*"))


@pytest.mark.child
@pytest.mark.parametrize("state", ["RUNNING", "FAILED", ""])
def test_processes_go_when_their_job_does_not_live(home, state: str) -> None:
    if state:
        home.job(1, state)
    tmp = home.path / "jobs" / "1" / "replicas" / "workerpool0-0" / "tmp"
    with subprocess.Popen(["sleep", "600"], env={"PATH": os.environ["PATH"], "TMPDIR": str(tmp)}) as stray:
        try:
            found = list(orphaned_processes(home.search()))
            assert [one.id for one in found] == ([] if state == "RUNNING" else [str(stray.pid)])
            assert [one.discard() for one in found] == [""] * len(found)
            assert stray.wait(60) == -9 if found else stray.poll() is None
        finally:
            stray.kill()


@pytest.mark.child
def test_slots_go_whose_resource_is_not_in_the_store(home) -> None:
    place = ResourceName(project="local", location="us-central1", collection=PERSISTENT_RESOURCES, id="")
    resource = PersistentResource(
        resource_pools=(
            ResourcePool(machine_spec=MachineSpec(machine_type="n1-standard-4"), replica_count=1),
        )
    )
    registry = ResourceRegistry(home.path, place, lambda _, lock: os.close(lock))
    registry.create_resource("team", resource, {})
    names = {
        which: f"projects/local/locations/us-central1/{PERSISTENT_RESOURCES}/{which}"
        for which in ("team", "gone")
    }
    folders = {which: Home(home.path).slots_of(name) for which, name in names.items()}
    for folder in folders.values():
        slot = WarmSlot(
            folder=str(folder),
            key="a",
            python=sys.executable,
            modules=("json",),
            env=dict(os.environ),
            most=1,
        )
        keep_warm(slot)
    wait_until(lambda: all((folder / "a.socket").exists() for folder in folders.values()))
    assert home.found("temporary") == []  # they were made just now
    kept, gone = [lock_holder(folders[which] / "a.lock") for which in ("team", "gone")]
    for folder in folders.values():
        home.age(folder)
    try:
        assert [one.discard() for one in home.found("temporary")] == [""]
        assert not folders["gone"].exists() and folders["team"].exists()
        assert (
            not Path(f"/proc/{gone}/stat").exists()
            or Path(f"/proc/{gone}/stat").read_text().split()[2] == "Z"
        )
        assert Path(f"/proc/{kept}").exists()
    finally:
        registry.delete_resource(names["team"])
