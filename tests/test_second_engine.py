"""The engines that tests start for themselves: their containers outlive them as the real ones' do."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from lib.docker_engines import connected
from lib.second_engine import SecondEngine, second_engine
from lib.waiting import wait_until

from vtrain.containers.engine import Engine

pytestmark = pytest.mark.engine


@pytest.fixture
def sleeper(own_engine: SecondEngine, base_image: str) -> str:
    """A container that runs."""
    with connected(own_engine.address) as engine:
        config = engine.client.create_host_config(init=True)
        container: dict[str, Any] = engine.client.create_container(
            base_image, ["sleep", "600"], host_config=config
        )
        engine.client.start(container["Id"])
        # Until its init has begun, Linux throws a SIGTERM for process 1 away.
        wait_until(
            lambda: "sleep" in str(engine.client.top(container["Id"], ps_args="-o pid,comm")["Processes"])
        )
    return str(container["Id"])


def state(own_engine: SecondEngine, container: str) -> dict[str, Any]:
    with connected(own_engine.address) as engine:
        found: dict[str, Any] = engine.client.inspect_container(container)["State"]
    return found


def test_a_stopped_engine_stops_its_containers(own_engine: SecondEngine, sleeper: str) -> None:
    own_engine.stop()
    own_engine.start()
    assert state(own_engine, sleeper)["ExitCode"] == 128 + signal.SIGTERM


@pytest.mark.parametrize("own_engine", [{"live_restore": True}], indirect=True)
@pytest.mark.parametrize("end", [SecondEngine.stop, SecondEngine.kill])
def test_with_live_restore_containers_outlive_the_engine(
    own_engine: SecondEngine, sleeper: str, end: Any
) -> None:
    before = state(own_engine, sleeper)
    end(own_engine)
    own_engine.start()
    after = state(own_engine, sleeper)
    assert after["Running"] and (after["Pid"], after["StartedAt"]) == (before["Pid"], before["StartedAt"])


def test_without_it_a_killed_engine_ends_them_when_it_is_back(own_engine: SecondEngine, sleeper: str) -> None:
    pid = state(own_engine, sleeper)["Pid"]
    own_engine.kill()
    assert Path(f"/proc/{pid}").exists()
    own_engine.start()
    assert not state(own_engine, sleeper)["Running"]


def test_nothing_is_left_of_a_killed_engine_and_its_container(base_image_file: Path, base_image: str) -> None:
    with second_engine() as second:
        with connected(second.address) as engine, base_image_file.open("rb") as image:
            list(engine.client.load_image(image))
            container = engine.client.create_container(base_image, ["sleep", "600"])
            engine.client.start(container["Id"])
        pid = state(second, container["Id"])["Pid"]
        folder = second.host.removeprefix("unix://").removesuffix("/docker.sock")
        second.kill()
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    assert not Path(folder).exists()
    assert folder not in Path("/proc/self/mountinfo").read_text()


def test_it_does_not_meet_the_other_engine(
    own_engine: SecondEngine, sleeper: str, engine_address: Any
) -> None:
    with connected(engine_address) as other:
        assert sleeper not in [found["Id"] for found in _containers(other)]
    with connected(own_engine.address) as engine:
        network = engine.client.create_network("vtrain-test")["Id"]
    assert not Path("/sys/class/net", f"br-{network[:12]}").exists()


def _containers(engine: Engine) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = engine.client.containers(all=True)
    return found
