"""Persistent resources of this machine: slots that jobs of several shells take in turn."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lib.docker_engines import remaining
from lib.waiting import wait_until

from vtrain.containers.engine import Engine

pytestmark = pytest.mark.end_to_end

TRAINER = """
import os, sys, time
from pathlib import Path

log, name = Path(sys.argv[1]), sys.argv[2]
with log.open("a") as file:
    file.write(f"+{name}\\n")
Path("left-behind").write_text(name)
os.environ["LEFT"] = name
print("SEEN", sorted(path.name for path in Path(".").iterdir() if path.name.startswith("left")))
while not Path(f"{log}.{name}").exists():
    time.sleep(0.01)
with log.open("a") as file:
    file.write(f"-{name}\\n")
"""
POOL = "--resource-pool-spec=machine-type=n1-standard-4,replica-count={count}"


@pytest.fixture
def team(vtrain: Any) -> str:
    """A resource of two slots."""
    made = vtrain(
        *("persistent-resources", "create", "--persistent-resource-id=team", POOL.format(count=2)),
        "--format=json",
    )
    assert made.code == 0, made.err
    operation = json.loads(made.out)
    assert operation["done"] is True
    return str(operation["response"]["name"])


@pytest.fixture
def words(tmp_path: Path) -> Any:
    """The words that create a job on the resource, which runs until its file is there."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(TRAINER)

    def line(name: str, *flags: str, machine: str = "n1-standard-4", replicas: int = 1) -> list[str]:
        pool = f"machine-type={machine},replica-count={replicas},script=train.py"
        return [
            *("custom-jobs", "create", "--backend=process", f"--display-name={name}"),
            f"--worker-pool-spec={pool},local-package-path={tmp_path / 'code'}",
            *("--persistent-resource-id=team", "--format=json"),
            *flags,
            *("--", str(tmp_path / "log"), name),
        ]

    return line


def states(vtrain: Any) -> dict[str, str]:
    listed = vtrain("custom-jobs", "list", "--format=json")
    return {job["displayName"]: job["state"].removeprefix("JOB_STATE_") for job in json.loads(listed.out)}


def used(vtrain: Any) -> int:
    described = vtrain("persistent-resources", "describe", "team", "--format=json")
    (pool,) = json.loads(described.out)["resourcePools"]
    return int(pool.get("usedReplicaCount", 0))


def test_five_jobs_of_two_shells_take_two_slots_in_order(
    vtrain: Any, team: str, words: Any, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.touch()
    for number in range(1, 6):
        created = subprocess.run(  # another shell each time
            [sys.executable, "-m", "vtrain", *words(f"job-{number}")],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "LEFT": ""},
        )
        assert created.returncode == 0, created.stderr
    for number in range(1, 6):
        begun = [f"+job-{each}" for each in range(1, min(number + 1, 5) + 1)]
        wait_until(lambda: sorted(starts(log)) == begun, lambda: (begun, log.read_text()))  # noqa: B023
        assert used(vtrain) <= 2
        Path(f"{log}.job-{number}").touch()
        assert vtrain("custom-jobs", "wait", f"job-{number}").code == 0
    assert set(states(vtrain).values()) == {"SUCCEEDED"}
    running = most = 0
    for line in log.read_text().splitlines():
        running += 1 if line.startswith("+") else -1
        most = max(most, running)
    assert most == 2
    for number in range(1, 6):
        seen = vtrain("custom-jobs", "stream-logs", f"job-{number}").out
        assert "SEEN ['left-behind']" in seen
    assert used(vtrain) == 0


def starts(log: Path) -> list[str]:
    return [line for line in log.read_text().splitlines() if line.startswith("+")]


def test_a_job_that_fits_no_pool_is_refused(vtrain: Any, team: str, words: Any, tmp_path: Path) -> None:
    refused = vtrain(*words("x", machine="n1-standard-8"))
    assert (refused.code, "does not fit the persistent resource team" in refused.err) == (1, True)
    assert vtrain(*words("x", "--dry-run", machine="n1-standard-8")).code == 1
    refused = vtrain(*words("x", "--set=scheduling.strategy=SPOT"))
    assert (refused.code, "SPOT" in refused.err) == (1, True)
    machine = {"machineSpec": {"machineType": "n1-standard-4"}}
    task = {"pythonPackageSpec": {"pythonModule": "m", "packageUris": ["file:///x.tar.gz"]}}
    pools = [machine | task | {"replicaCount": count} for count in ("1", "2")]
    (job := tmp_path / "job.json").write_text(
        json.dumps({"workerPoolSpecs": pools, "persistentResourceId": "team"})
    )
    refused = vtrain("custom-jobs", "create", "--display-name=x", f"--config={job}", "--backend=process")
    assert (refused.code, "needs 3 replicas of n1-standard-4" in refused.err) == (1, True)
    assert states(vtrain) == {}


def test_a_resource_may_require_an_account_of_each_job(vtrain: Any, words: Any) -> None:
    own = ("--persistent-resource-id=own", "--enable-custom-service-account", POOL.format(count=1))
    created = vtrain("persistent-resources", "create", *own)
    assert created.code == 0, created.err
    on_it = words("x", "--persistent-resource-id=own", "--dry-run")
    refused = vtrain(*on_it)
    assert (refused.code, "serviceAccount: own requires that each job names its own." in refused.err) == (
        1,
        True,
    )
    accepted = vtrain(*words("x", "--persistent-resource-id=own", "--dry-run", "--service-account=1"))
    assert accepted.code == 0, accepted.err


def test_a_resource_that_is_not_there(vtrain: Any, words: Any) -> None:
    refused = vtrain(*words("x"))
    assert (refused.code, "Persistent resource team not found" in refused.err) == (1, True)
    for verb in ("describe", "delete", "reboot"):
        assert vtrain("persistent-resources", verb, "team").code == 1
    assert vtrain("persistent-resources", "list", "--format=json").out.strip() == "[]"


def test_delete_refuses_or_cancels_what_runs(vtrain: Any, team: str, words: Any, tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    for name in ("one", "two", "three"):
        assert vtrain(*words(name)).code == 0
    wait_until(lambda: len(starts(tmp_path / "log")) == 2)
    refused = vtrain("persistent-resources", "delete", "team")
    assert (refused.code, "--force" in refused.err) == (1, True)
    refused = vtrain("persistent-resources", "reboot", "team")
    assert (refused.code, "Jobs run on team" in refused.err) == (1, True)
    assert vtrain("persistent-resources", "delete", "team", "--force").code == 0
    assert set(states(vtrain).values()) == {"CANCELLED"}
    assert vtrain("persistent-resources", "describe", "team").code == 1


def test_other_jobs_do_not_wait_for_a_resource(vtrain: Any, team: str, words: Any, tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    for name in ("one", "two", "three"):
        assert vtrain(*words(name)).code == 0
    wait_until(lambda: len(starts(tmp_path / "log")) == 2)
    line = [word for word in words("other") if not word.startswith("--persistent")]
    assert vtrain(*line).code == 0
    wait_until(lambda: "+other" in starts(tmp_path / "log"))
    assert states(vtrain)["three"] == "QUEUED"
    for name in ("one", "two", "three", "other"):
        Path(f"{tmp_path / 'log'}.{name}").touch()
        assert vtrain("custom-jobs", "wait", name).code == 0


def test_trials_take_slots_too(vtrain: Any, team: str, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(
        "import json, os, sys\n"
        "line = {'timestamp': 1, 'trial': '1', 'a': '1', 'global_step': '1'}\n"
        "open(os.environ['CLOUD_ML_HP_METRIC_FILE'], 'w').write(json.dumps(line))\n"
    )
    study = {
        "algorithm": "GRID_SEARCH",
        "metrics": [{"metricId": "a", "goal": "MAXIMIZE"}],
        "parameters": [{"parameterId": "n", "integerValueSpec": {"minValue": 1, "maxValue": 3}}],
    }
    pool = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "1"}
    job = {"persistentResourceId": "team", "workerPoolSpecs": [pool]}
    config = tmp_path / "study.json"
    counts = {"maxTrialCount": 3, "parallelTrialCount": 3}
    config.write_text(json.dumps({"studySpec": study, "trialJobSpec": job} | counts))
    ended = vtrain(
        *("hp-tuning-jobs", "create", "--backend=process", "--display-name=t", f"--config={config}"),
        *(f"--local-package-path={tmp_path / 'code'}", "--script=train.py", "--wait"),
    )
    assert ended.code == 0, ended.err


@pytest.mark.docker
@pytest.mark.engine
@pytest.mark.usefixtures("team")
def test_jobs_on_docker_find_nothing_of_the_job_before(
    vtrain: Any, vtrain_home: Path, tmp_path: Path, docker_engine: Engine, base_image: str
) -> None:
    (tmp_path / "train.py").write_text(
        "import os, sys\n"
        "print('SEEN', [path for path in ('left', '/tmp/left') if os.path.exists(path)], sys.argv[1])\n"
        "open('left', 'w').close(), open('/tmp/left', 'w').close()\n"
    )
    pool = f"machine-type=n1-standard-4,local-package-path={tmp_path},script=train.py"
    for name in ("first", "second"):
        ended = vtrain(
            *("custom-jobs", "create", "--backend=docker", "--persistent-resource-id=team"),
            *(f"--worker-pool-spec={pool},executor-image-uri={base_image}", f"--display-name={name}"),
            *("--wait", "--stream-logs", "--", name),
        )
        assert ended.code == 0, ended.err
        assert f"\tSEEN [] {name}\n" in ended.err
    assert remaining(docker_engine, vtrain_home) == []
    assert vtrain("persistent-resources", "delete", "team").code == 0


def test_create_twice_list_and_autoscaling(vtrain: Any, team: str) -> None:
    again = vtrain("persistent-resources", "create", "--persistent-resource-id=team", POOL.format(count=1))
    assert (again.code, "already" in again.err) == (1, True)
    spec = "--resource-pool-spec=machine-type=n1-standard-4,min-replica-count=1,max-replica-count=3"
    second = "--resource-pool-spec=machine-type=n1-standard-4,replica-count=2"
    made = vtrain("persistent-resources", "create", "--persistent-resource-id=grow", spec, second)
    assert made.code == 0, made.err
    listed = json.loads(vtrain("persistent-resources", "list", "--format=json").out)
    assert [each["name"].rpartition("/")[2] for each in listed] == ["grow", "team"]
    assert [(pool["id"], pool["replicaCount"]) for pool in listed[0]["resourcePools"]] == [
        ("n1-standard-4", "1"),
        ("n1-standard-4-2", "2"),
    ]
    assert vtrain("persistent-resources", "reboot", "grow").code == 0
    assert vtrain("persistent-resources", "delete", "grow").code == 0


def test_ids_and_counts_that_are_refused(vtrain: Any) -> None:
    create = ("persistent-resources", "create")
    for name in ("Team", "1a", "a-", "a" * 64, "a/b", ".."):
        assert vtrain(*create, f"--persistent-resource-id={name}", POOL.format(count=1)).code == 1
    for count in (-1, 2**63, "9" * 310):
        made = vtrain(*create, "--persistent-resource-id=far", POOL.format(count=count))
        assert made.code == 1 and "ERROR: resourcePools[0].replicaCount: expected a" in made.err
    assert json.loads(vtrain("persistent-resources", "list", "--format=json").out) == []


def test_a_damaged_resource_hides_no_other_and_can_be_removed(vtrain: Any, team: str) -> None:
    other = ("persistent-resources", "create", "--persistent-resource-id=other", POOL.format(count=1))
    assert vtrain(*other).code == 0
    with sqlite3.connect(Path(os.environ["VTRAIN_HOME"], "store.db")) as store:
        store.execute("UPDATE persistent_resources SET document = '{' WHERE name = ?", (team,))
    store.close()
    listed = vtrain("persistent-resources", "list", "--format=value(name)")
    assert (listed.code, listed.out.strip().rpartition("/")[2]) == (0, "other")
    assert f"damaged, and not listed: {team}" in listed.err
    described = vtrain("persistent-resources", "describe", "team")
    assert described.code == 1
    assert f"vtrain persistent-resources delete {team}" in described.err
    assert vtrain("persistent-resources", "delete", "team", "--quiet").code == 0
    assert "damaged" not in vtrain("persistent-resources", "list").err
