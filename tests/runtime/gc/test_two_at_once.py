"""Two garbage collections at once: each thing is removed, and one of them says so."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import pytest

from vtrain.atomic import GONE
from vtrain.backends.docker.garbage import orphans
from vtrain.containers.engine import HOME_LABEL, JOB_LABEL, Engine
from vtrain.privacy import home_label
from vtrain.runtime.gc.candidate import ELSEWHERE, Search
from vtrain.runtime.gc.sweep import on_machine

ROUNDS = 5


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def furnish(home) -> int:
    """Things of every kind on the disk that may go; how many."""
    for number in range(1, 6):
        (home.job(number).path / "content").write_bytes(b"x" * 1000)
    for number in range(3):
        folder = home.path / "packages" / f"{number:064x}"
        folder.mkdir(parents=True)
        (folder / "package").write_bytes(b"x")
        home.age(folder, days=40)
        begun = home.path / "packages" / f"{GONE}{number + 10:064x}"
        begun.mkdir()
        for file in range(50):
            (begun / str(file)).touch()
        lost = home.path / "jobs" / f"{number + 100}"
        lost.mkdir()
        (lost / "content").touch()
        home.age(lost, days=40)
    return 5 + 9


def test_each_thing_is_removed_once(home) -> None:
    for _ in range(ROUNDS):
        count = furnish(home)
        barrier, answers = threading.Barrier(2), []

        def collect(search: Search, barrier: threading.Barrier, answers: list[tuple[str, str]]) -> None:
            found = list(on_machine(search))
            barrier.wait()
            answers += [(one.name, one.discard()) for one in found]

        threads = [threading.Thread(target=collect, args=(home.search(), barrier, answers)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        claims = Counter(name for name, kept in answers if not kept)
        assert len(claims) == count and set(claims.values()) == {1}, claims
        assert list(on_machine(home.search())) == []


def test_what_another_command_has_removed_is_not_claimed(home) -> None:
    furnish(home)
    first, second = list(on_machine(home.search())), list(on_machine(home.search()))
    assert {one.discard() for one in first} == {""}
    assert {one.discard() for one in second} == {ELSEWHERE}


def test_a_named_pipe_in_the_cache_stops_nobody(home) -> None:
    (home.path / "packages").mkdir()
    pipe = home.path / "packages" / f"{GONE}pipe"
    os.mkfifo(pipe)
    (one,) = list(on_machine(home.search()))
    assert one.discard() == "" and not pipe.exists()


@pytest.mark.engine
def test_each_container_is_removed_by_one_of_two(
    docker_engine: Engine, base_image: str, tmp_path: Path
) -> None:
    labels = {JOB_LABEL: "1", HOME_LABEL: home_label(tmp_path)}
    for _ in range(12):
        docker_engine.client.create_container(base_image, "true", labels=labels)
    search = Search(home=tmp_path, older_than=0.0, now=time.time())
    found = [list(orphans(docker_engine, search)) for _ in range(2)]
    with ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda one: one.discard(), chain(*zip(*found, strict=True))))
    assert set(answers) <= {"", ELSEWHERE} and len(answers) == 24
