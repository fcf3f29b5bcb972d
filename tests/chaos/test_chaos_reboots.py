"""A machine that loses its power: every process is gone, and the boot id is another one."""

from __future__ import annotations

import msgspec
import pytest
from aftermath import check, check_all
from lib.local_jobs import processes_of
from lib.waiting import wait_until
from places import Place
from victims import kill, phase, replicas, supervisors, until_running

from vtrain.messages import states
from vtrain.runtime.folder import JobFolder, write_struct

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]


def test_power_cut_at_any_moment(place: Place) -> None:
    jobs = [place.job(pools=pools) for pools in ((1,), (1, 2), (1, 1))]
    names = [place.submit(job) for job in jobs]
    until_running(place, names)
    late = [place.submit(place.job()) for _ in range(2)]  # which have only begun to begin
    cut_power(place)
    for name in names + late:
        boot_anew(place.folder(name))
    for name in names + late:
        job = check(place, name, states.FAILED)
        assert job.error is not None and job.error.details[0]["reason"] == "MACHINE_RESTARTED", job.error
    check_all(place)


def test_a_verdict_that_was_reached_before_counts(place: Place) -> None:
    job = place.job({"code": 4})
    name = place.submit(job)
    until_running(place, [name])
    for pid in supervisors(place.home):
        place.tally.kill("supervisor", phase(place, name))
        kill(pid)
    place.enough(job.display_name)
    if place.kind == "process":
        wait_until(lambda: all(replica.exit() is not None for replica in replicas(place.folder(name))))
    else:
        wait_until(lambda: not running_containers(place))
    boot_anew(place.folder(name))
    ended = check(place, name, states.FAILED)
    assert ended.error is not None and ended.error.details[0]["reason"] == "REPLICA_FAILED", ended.error
    check_all(place)


def cut_power(place: Place) -> None:
    """End every process of the home's jobs at once."""
    for pid in (*supervisors(place.home), *processes_of(place.home)):
        if kill(pid):
            place.tally.kill("everything", "power cut")
    for container in running_containers(place):
        with place.engine() as engine:
            engine.client.kill(container, "SIGKILL")
        place.tally.kill("everything", "power cut")
    place.tally.event("power cuts")


def running_containers(place: Place) -> list[str]:
    """The ids of this home's containers that run."""
    if place.address is None:
        return []
    from vtrain.containers.engine import HOME_LABEL
    from vtrain.privacy import home_label

    filters = {"label": f"{HOME_LABEL}={home_label(place.home)}"}
    with place.engine() as engine:
        return [str(found["Id"]) for found in engine.client.containers(filters=filters)]


def boot_anew(folder: JobFolder) -> None:
    """The job remembers another start of the machine than this one."""
    order = folder.order()
    write_struct(folder.path / "spec.json", msgspec.structs.replace(order, boot_id="another"))
