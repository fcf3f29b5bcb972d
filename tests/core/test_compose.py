from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from vtrain.core.compose import JobRequest, compose, make_source
from vtrain.core.job_layers import EVERY_POOL, FIRST_POOL, POOLS, Fold, Layer, at, named
from vtrain.errors import ConfigError, FieldError, UsageError
from vtrain.flags.job_options import SpecFlags, TrainerFlags
from vtrain.flags.request import JobLine
from vtrain.messages.codec import to_document
from vtrain.packaging.source import TrainerSource

CONFIG = """
workerPoolSpecs:
- machineSpec: {machineType: n1-standard-4}
  replicaCount: 1
  containerSpec:
    imageUri: gcr.io/p/i
    args: [--old]
    env: [{name: A, value: "1"}, {name: B, value: "2"}]
- machineSpec: {machineType: n1-standard-4}
  replicaCount: 2
  pythonPackageSpec: {executorImageUri: gcr.io/p/e, pythonModule: m, packageUris: [gs://bucket/a.tar.gz]}
scheduling: {timeout: 60s, restartJobOnWorkerRestart: true}
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "job.yaml"
    file.write_text(CONFIG)
    return str(file)


def asked(source: TrainerSource | None = None, **flags: Any) -> JobRequest:
    """What flags ask for; with a trainer that was found already."""
    request = JobLine(spec=SpecFlags(**flags), trainer=TrainerFlags()).request(None)
    return msgspec.structs.replace(request, source=source or request.source)


def composed(source: TrainerSource | None = None, **flags: Any) -> dict[str, Any]:
    draft = compose(asked(source, **flags), executor_required=True)
    return to_document(draft.finish("trainer.task", ["gs://bucket/trainer.tar.gz"]))


def test_a_config_file_alone_is_the_spec(config: str) -> None:
    job = composed(config=config, display_name="demo")
    assert job["displayName"] == "demo"
    assert job["jobSpec"]["scheduling"] == {"timeout": "60s", "restartJobOnWorkerRestart": True}
    assert job["jobSpec"]["workerPoolSpecs"][1]["replicaCount"] == "2"


def test_env_changes_variables_by_name_in_every_pool(config: str) -> None:
    pools = composed(config=config, env=["B=two", "C=3"])["jobSpec"]["workerPoolSpecs"]
    assert pools[0]["containerSpec"]["env"] == [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "two"},
        {"name": "C", "value": "3"},
    ]
    assert pools[1]["pythonPackageSpec"]["env"] == [
        {"name": "B", "value": "two"},
        {"name": "C", "value": "3"},
    ]


def test_args_go_to_every_pool_and_command_to_containers(config: str) -> None:
    pools = composed(config=config, args=["--new,1"], command=["sh"])["jobSpec"]["workerPoolSpecs"]
    assert pools[0]["containerSpec"]["args"] == ["--new", "1"]
    assert pools[0]["containerSpec"]["command"] == ["sh"]
    assert pools[1]["pythonPackageSpec"]["args"] == ["--new", "1"]
    assert "command" not in pools[1]["pythonPackageSpec"]


def test_pools_from_flags_take_the_place_of_those_in_the_file(config: str) -> None:
    pools = ["machine-type=n2,container-image-uri=gcr.io/p/j"]
    spec = composed(config=config, worker_pool_spec=pools, env=["A=9"])["jobSpec"]
    assert spec["workerPoolSpecs"] == [
        {
            "machineSpec": {"machineType": "n2"},
            "replicaCount": "1",
            "containerSpec": {"imageUri": "gcr.io/p/j", "env": [{"name": "A", "value": "9"}]},
        }
    ]
    assert spec["scheduling"]["timeout"] == "60s"


def test_a_request_can_be_composed_again() -> None:
    pools = ["machine-type=n1-standard-4,container-image-uri=gcr.io/p/i"]
    request = asked(worker_pool_spec=pools, args=["--x"], env=["A=1"], display_name="a")
    before = msgspec.json.encode([layer.document for layer in request.layers])
    compose(request)
    assert msgspec.json.encode([layer.document for layer in request.layers]) == before


def test_set_comes_last_and_reaches_over_flags_and_file(config: str) -> None:
    assignments = ["workerPoolSpecs[0].machineSpec.machineType=n1-standard-8", "scheduling.strategy=SPOT"]
    spec = composed(config=config, assignments=assignments)["jobSpec"]
    assert spec["workerPoolSpecs"][0]["machineSpec"] == {"machineType": "n1-standard-8"}
    assert spec["workerPoolSpecs"][0]["containerSpec"]["args"] == ["--old"]
    assert spec["scheduling"] == {"timeout": "60s", "restartJobOnWorkerRestart": True, "strategy": "SPOT"}


def test_a_whole_job_is_read_too_without_what_the_service_wrote(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    job = {
        "name": "projects/demo/locations/us-central1/customJobs/1",
        "displayName": "demo",
        "state": "JOB_STATE_FAILED",
        "error": {"code": 3, "message": "no"},
        "createTime": "2024-05-01T00:00:00Z",
        "labels": {"a": "1", "b": "2"},
        "jobSpec": {"workerPoolSpecs": [{"containerSpec": {"imageUri": "i"}, "replicaCount": "1"}]},
    }
    file.write_text(json.dumps(job))
    assert composed(config=str(file), labels=["b=3,aa=4"]) == {
        "displayName": "demo",
        "labels": {"a": "1", "aa": "4", "b": "3"},
        "jobSpec": job["jobSpec"],
    }


def test_a_local_package_is_filled_in_once_it_has_a_name(tmp_path: Path) -> None:
    first = "machine-type=n1,executor-image-uri=gcr.io/p/e,python-module=trainer.task"
    pools = [f"{first},local-package-path={tmp_path}", "machine-type=n2,replica-count=2"]
    draft = compose(asked(display_name="demo", worker_pool_spec=pools), executor_required=True)
    assert draft.source is not None and draft.source.folder == tmp_path
    assert draft.executor_image_uri == "gcr.io/p/e"
    specs = draft.finish("trainer.task", ["file:///p.tar.gz"]).job_spec.worker_pool_specs
    assert [pool.replica_count for pool in specs] == [1, 2]
    for pool in specs:
        assert pool.python_package_spec is not None
        assert pool.python_package_spec.package_uris == ("file:///p.tar.gz",)
        assert pool.python_package_spec.python_module == "trainer.task"
        assert pool.python_package_spec.executor_image_uri == "gcr.io/p/e"


def test_a_trainer_without_pools_runs_as_one_replica(tmp_path: Path) -> None:
    source = make_source(folder=str(tmp_path), python_module="trainer.task", script="")
    pools = composed(display_name="demo", source=source)["jobSpec"]["workerPoolSpecs"]
    assert pools[0]["replicaCount"] == "1"
    assert pools[0]["pythonPackageSpec"]["pythonModule"] == "trainer.task"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a\n", "expected the fields of a CustomJobSpec"),
        ("", "expected the fields of a CustomJobSpec"),
        ("workerPoolSpec: []\n", "workerPoolSpec: "),
        (
            "displayName: a\njobSpec: {workerPoolSpecs: [{machineSpec: {machineTyp: a}}]}\n",
            "jobSpec.workerPoolSpecs[0].machineSpec.machineTyp",
        ),
        (
            "displayName: a\nworkerPoolSpecs: []\nnetwork: n\n",
            "workerPoolSpecs: belongs under jobSpec",
        ),
        ("a: [\n", ":2"),
        ("a: \xff", "is not UTF-8"),
    ],
)
def test_a_bad_file_is_named_with_the_path_inside(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        composed(config=str(file))
    assert words in caught.value.message
    assert str(file) in caught.value.message


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none.yaml", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigError, match=reason):
            composed(config=str(path))


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        make_source(folder=str(tmp_path / "none"), python_module="m", script="")


def test_a_single_file_is_its_folders_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    source = make_source(folder=str(tmp_path / "train.py"), python_module="", script="")
    assert (source.folder, source.script) == (tmp_path, "train.py")


def test_two_local_packages_are_refused(tmp_path: Path) -> None:
    pool = f"machine-type=n1,executor-image-uri=e,local-package-path={tmp_path},python-module=m"
    trainer = TrainerFlags(local_package_path=str(tmp_path), python_module="m")
    with pytest.raises(UsageError, match="twice"):
        JobLine(spec=SpecFlags(worker_pool_spec=[pool]), trainer=trainer).request(None)


def test_pools_of_a_file_run_one_thing_each_where_a_service_runs_them(tmp_path: Path) -> None:
    for pool in (
        "{}",
        "{containerSpec: {args: [a]}}",
        "{containerSpec: {imageUri: i}, pythonPackageSpec: {pythonModule: m}}",
    ):
        file = tmp_path / "job.yaml"
        file.write_text(f"workerPoolSpecs:\n- containerSpec: {{imageUri: i}}\n- {pool}\n")
        request = JobRequest(config=str(file))
        with pytest.raises(ConfigError, match=r"workerPoolSpecs\[1\]: runs an image or a Python package"):
            compose(request, executor_required=True)
        compose(request, executor_required=False)


def test_an_empty_config_is_a_file_that_says_nothing() -> None:
    assert composed(config="", display_name="d") == {"displayName": "d", "jobSpec": {}}


UNKNOWN = "network: n\nnewThing: {a: 1}\nworkerPoolSpecs:\n- {containerSpec: {imageUri: i, image_url: j}}\n"


def test_unknown_fields_are_kept_apart_where_they_are_allowed(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(UNKNOWN)
    with pytest.raises(ConfigError, match="newThing: CustomJobSpec has no field"):
        compose(JobRequest(config=str(file)), executor_required=True)
    draft = compose(JobRequest(config=str(file), allow_unknown_fields=True), executor_required=True)
    pools = [{"containerSpec": {"image_url": "j"}}]
    assert draft.unknown_fields == {"jobSpec": {"newThing": {"a": 1}, "workerPoolSpecs": pools}}
    assert draft.document["jobSpec"]["network"] == "n"


def test_pools_from_flags_leave_nothing_of_those_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(UNKNOWN)
    pools = ["machine-type=n2,container-image-uri=gcr.io/p/j"]
    request = asked(config=str(file), allow_unknown_fields=True, worker_pool_spec=pools)
    assert compose(request, executor_required=True).unknown_fields == {"jobSpec": {"newThing": {"a": 1}}}


@pytest.mark.parametrize(
    ("changed", "line", "said"),
    [
        (("machineType: n1-standard-4}\n  replicaCount: 2", "machineTyp: n1}"), 9, "no field 'machineTyp'"),
        (("replicaCount: 1", "replicaCount: x"), 4, "expected a whole number, found 'x'"),
        (("timeout: 60s", "timeout: 60"), 12, "expected a duration"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_line(
    tmp_path: Path, changed: tuple[str, str], line: int, said: str
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(CONFIG.replace(*changed))
    with pytest.raises(ConfigError) as refused:
        composed(config=str(file))
    assert refused.value.message.startswith(f"{file}:{line}: ") and said in refused.value.message


TYPE = "machineSpec.machineType"


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ([(f"{FIRST_POOL}.{TYPE}", "a"), (POOLS, [{}])], f"{FIRST_POOL}.{TYPE}"),
        ([("scheduling.strategy", "SPOT"), (POOLS, [{}, {}])], f"{POOLS}[1].{TYPE}"),
        ([(POOLS, [{}, {}]), (f"{EVERY_POOL}.image", "a b")], f"{POOLS}[1].containerSpec.imageUri"),
        ([(POOLS, [{}, {}]), (f"{EVERY_POOL}.args", [1])], f"{POOLS}[1].containerSpec.args[0]"),
    ],
)
def test_a_wrong_value_is_blamed_on_the_last_who_said_it(said: list[tuple[str, Any]], wrong: str) -> None:
    fold = Fold(Layer(named(f"--{n}"), at(f"jobSpec.{path}", value)) for n, (path, value) in enumerate(said))
    fold.say_spread(1, {"containerSpec": {}})
    assert fold.blame(FieldError(wrong, "is wrong.")).message == f"--1: {wrong}: is wrong."


def test_an_assignment_is_blamed_for_all_that_it_replaces() -> None:
    fold = Fold([Layer(named("--config"), at("jobSpec.scheduling.strategy", "SPOT"))])
    fold.say("jobSpec.scheduling", named("--set"))
    assert fold.blame(FieldError("scheduling.strategy", "is wrong.")).message.startswith("--set: ")
