"""Files of a container's user: the caller gets those of the job, and can delete them; others stay."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from vtrain.backends.docker.container import ContainerOrder
from vtrain.backends.docker.docker_launcher import mend_ownership
from vtrain.containers.discovery import EngineAddress
from vtrain.containers.engine import Engine, connect
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob, CustomJobSpec, GcsDestination
from vtrain.runtime.capacity.leases import Claim
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.store import Record, Store

USER = 4321
STRANGER = 4322

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


def as_user(groups: list[int], act: Callable[[], object]) -> int:
    """The exit code of a child that acts as another user: 0, or 1 after an exception."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups(groups)
            os.setgid(USER)
            os.setuid(USER)
            act()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def users_home() -> Iterator[Path]:
    """A home of that user's; pytest's own folders are closed to others."""
    with tempfile.TemporaryDirectory(prefix="vtrain-test-", dir="/tmp") as name:
        folder = Path(name)
        for path in (folder, folder / "jobs", folder / "buckets"):
            path.mkdir(exist_ok=True)
            os.chown(path, USER, USER)
        yield folder


def order_of(home: Path, job_id: str, output: str) -> JobOrder:
    spec = CustomJobSpec(base_output_directory=GcsDestination(output_uri_prefix=output))
    name = f"projects/local/locations/us-central1/customJobs/{job_id}"
    job = CustomJob(name=name, display_name="x", job_spec=spec, state=states.RUNNING)
    return JobOrder(home=str(home), name=name, job=job, backend="docker", grace_seconds=1, claim=Claim())


def make_job(home: Path, job_id: str, output: str, image: str) -> JobOrder:
    """A running job in that home, one replica of which was ordered. Called as its user."""
    order = order_of(home, job_id, output)
    folder = JobFolder(home / "jobs" / job_id)
    folder.make(order)
    replica = ContainerOrder(
        engine=EngineAddress(host="unix:///x", origin="test"),
        name="x",
        network="x",
        labels={},
        config={"Image": image},
        log="x",
        grace_seconds=1,
    )
    folder.replica("workerpool0-0").order(replica)
    record = Record(
        name=order.name,
        collection="customJobs",
        state=states.RUNNING,
        create_time="2026-01-01T00:00:00Z",
        backend="docker",
        document="{}",
    )
    Store.open(home).insert(record)
    return order


def written(path: Path, user: int = 0) -> Path:
    """A file as a container leaves it that runs as that user; so are the folders that it needed."""
    missing = [folder for folder in path.parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    for made in (path, *missing):
        os.chown(made, user, user)
    return path


@as_root
@pytest.mark.docker
def test_only_what_the_job_made_is_given_back(
    docker_engine: Engine, base_image: str, users_home: Path
) -> None:
    groups = [Path(docker_engine.address.host.removeprefix("unix://")).stat().st_gid]
    older = written(users_home / "buckets" / "bucket" / "mine" / "older", STRANGER)
    neighbour = written(users_home / "buckets" / "bucket" / "theirs" / "weights")
    os.chown(users_home / "buckets" / "bucket" / "mine", USER, USER)
    time.sleep(0.05)  # the clock of file systems ticks every few milliseconds

    def submit() -> None:
        make_job(users_home, "1", "gs://bucket/mine", base_image)
        make_job(users_home, "2", "gs://bucket/theirs", base_image)

    assert as_user(groups, submit) == 0
    model = written(users_home / "buckets" / "bucket" / "mine" / "model" / "deep" / "weights")
    model.parent.chmod(0o700)
    (model.parent / "link").symlink_to("/etc/passwd")
    left = written(users_home / "jobs" / "1" / "replicas" / "workerpool0-0" / "work" / "data" / "cache.csv")

    def mend() -> None:
        order = order_of(users_home, "1", "gs://bucket/mine")
        engine = connect(docker_engine.address)
        assert mend_ownership(engine, order, JobFolder(users_home / "jobs" / "1"), {}) == ""
        shutil.rmtree(model.parents[1])
        shutil.rmtree(left.parent)

    assert as_user(groups, mend) == 0
    assert not model.parent.exists() and not left.parent.exists()
    assert (older.stat().st_uid, neighbour.stat().st_uid) == (STRANGER, 0)
    assert Path("/etc/passwd").stat().st_uid == 0


@as_root
@pytest.mark.docker
def test_a_folder_that_another_job_writes_to_is_left_alone(
    docker_engine: Engine, base_image: str, users_home: Path
) -> None:
    groups = [Path(docker_engine.address.host.removeprefix("unix://")).stat().st_gid]

    def submit() -> None:
        make_job(users_home, "1", "gs://bucket/shared", base_image)
        make_job(users_home, "2", "gs://bucket/shared/trial", base_image)

    def mend() -> None:
        order = order_of(users_home, "1", "gs://bucket/shared")
        assert (
            mend_ownership(connect(docker_engine.address), order, JobFolder(users_home / "jobs" / "1"), {})
            == ""
        )

    assert as_user(groups, submit) == 0
    shared = written(users_home / "buckets" / "bucket" / "shared" / "trial" / "checkpoint")
    assert as_user(groups, mend) == 0
    assert shared.stat().st_uid == 0


@as_root
def test_a_link_out_of_the_bucket_is_not_followed(users_home: Path, tmp_path: Path) -> None:
    """A container may put a link in the place of its output directory."""
    (users_home / "buckets" / "bucket").mkdir()
    (users_home / "buckets" / "bucket" / "out").symlink_to(tmp_path)
    outside = written(tmp_path / "file")

    def mend() -> None:
        order = make_job(users_home, "1", "gs://bucket/out", "no-image")
        unreachable = Engine(EngineAddress(host="unix:///nonexistent", origin="test"), "1.41")
        assert mend_ownership(unreachable, order, JobFolder(users_home / "jobs" / "1"), {}) == ""

    assert as_user([], mend) == 0
    assert outside.stat().st_uid == 0
    assert msgspec.json.decode((users_home / "jobs" / "1" / "spec.json").read_bytes())["name"]
