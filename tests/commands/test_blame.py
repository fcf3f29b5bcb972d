"""A wrong value of a job is blamed on the layer that gave it, in its own words, before anything is made: on a
flag, on an argument of the library or, where layers lie over each other, on the one that counts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lib.tables import rows

import vtrain as library
from vtrain.errors import VtrainError

Blames = Callable[..., str]
BACKEND = "--backend=process"
CREATE = ("custom-jobs", "create", BACKEND)
NAMED = (*CREATE, "--display-name=a")
JOB = """\
displayName: a
jobSpec:
  workerPoolSpecs:
  - replicaCount: 1
    machineSpec: {machineType: n1-standard-4}
    pythonPackageSpec: {pythonModule: m, packageUris: ["file:///a.tar.gz"]}
  - replicaCount: 1
    machineSpec:
      machineType: n1-standard-4
      acceleratorType: NVIDIA_TESLA_T4
      acceleratorCount: 1
    pythonPackageSpec: {pythonModule: m, packageUris: ["file:///a.tar.gz"]}
  scheduling:
    strategy: SPOT
"""
SECOND = "workerPoolSpecs[1]"

# --worker-pool-spec

POOL = "--worker-pool-spec="
PACKAGE = f"{POOL}machine-type=n1-standard-4,script=t.py,local-package-path=."
PAIRS = rows(
    """
    2 | replica-count=two | replica-count: expected a whole number, found 'two'.
    2 | replica-cout=1 | there is no key 'replica-cout'. | Did you mean replica-count?
    2 | machine-type | expected KEY=VALUE, found 'machine-type'. | Write machine-type=VALUE.
    1 | machine-type=n1-standard-4,accelerator-type=NVIDIA_TESLA_T5 |
        pool 1 has an unknown accelerator-type, 'NVIDIA_TESLA_T5'. | Did you mean NVIDIA_TESLA_T4?
    1 | replica-count=1 | pool 1 needs machine-type. | Add machine-type=n1-standard-4.
    1 | machine-type=n1-standard-4,python-module=a |
        pool 1 has python-module, but every pool runs the first pool's local package.
    """,
    4,
)


@pytest.mark.parametrize(("code", "pool", "words", "hint"), PAIRS)
def test_a_pool_of_the_line(blames: Blames, code: str, pool: str, words: str, hint: str) -> None:
    place = POOL.removesuffix("=")
    blames(*NAMED, PACKAGE, f"{POOL}{pool}", place=place, words=words, hint=hint, code=int(code))


def test_a_folder_in_a_pool_of_the_line(blames: Blames) -> None:
    pool = f"{POOL}machine-type=n1-standard-4,script=t.py,local-package-path=none"
    blames(*NAMED, pool, place="--worker-pool-spec: local-package-path", words="none does not exist.")


# single flags

FLAGS = rows(
    """
    1 | --local-package-path=none | none does not exist.
    2 | --labels=A=b | A=b is not a label. | Keys begin with a letter; both hold at most 63
    2 | --labels=A | expected KEY=VALUE, found 'A'. | A value that holds ','
    2 | --timeout=soon | expected a duration such as 90s, 30m or 2h, found 'soon'.
    2 | --env=A B=c | expected NAME=VALUE or NAME, found 'A B=c'. | Repeat --env for each variable.
    2 | --service-account=x | 'x' is not an account. | Give its e-mail or its number.
    2 | --package-format=x | expected auto, sdist or image, found 'x'.
    2 | --memory=x | 'x' is not a size. | Write 512m or 2g.
    1 | --kms-key=x | the key is not fully named. | Add --kms-keyring, --kms-location and --kms-project.
    2 | --set=a | expected PATH=VALUE, found 'a'.
    """,
    4,
)


@pytest.mark.parametrize(("code", "flag", "words", "hint"), FLAGS)
def test_a_flag(blames: Blames, tmp_path: Path, code: str, flag: str, words: str, hint: str) -> None:
    (tmp_path / "t.py").touch()
    place = flag.partition("=")[0]
    blames(*NAMED, "--local-package-path=t.py", flag, place=place, words=words, hint=hint, code=int(code))


def test_an_unknown_flag(blames: Blames) -> None:
    words = "No such option: --display-nam (did you mean --display-name?)"
    blames(*CREATE, "--display-nam=a", words=words, code=2)


# --set

ASSIGNED = rows(
    """
    $2.machineSpec.acceleratorCount=one | acceleratorCount: expected a whole number, found 'one'.
    $2.machineSpec={acceleratorCount: one} |
        machineSpec.acceleratorCount: expected a whole number, found 'one'.
    $2.machineSpec.acceleratorCout=1 |
        acceleratorCout: MachineSpec has no field 'acceleratorCout'. | Did you mean acceleratorCount?
    schedulin.timeout=1s | schedulin: CustomJobSpec has no field 'schedulin'. | Did you mean scheduling?
    workerPoolSpecs[7].replicaCount=1 | workerPoolSpecs has 2 elements; the next index is 2.
    state=1 | state is written by the service alone.
    scheduling={a | not a YAML document: did not find expected ',' or '}'.
    """,
    3,
    **{"2": SECOND},
)


@pytest.mark.parametrize(("assignment", "words", "hint"), ASSIGNED)
def test_an_assignment(blames: Blames, tmp_path: Path, assignment: str, words: str, hint: str) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    place = f"--set {assignment.partition('=')[0]}"
    blames(*CREATE, "--config=job.yaml", f"--set={assignment}", place=place, words=words, hint=hint)


# layers over each other: the one that counts is blamed

TABLE = '[tool.vtrain.job]\nscript = "t.py"\nmachine-type = "n1-standard-4"\n'
TYPE, COUNT = f"{SECOND}.machineSpec.acceleratorType", f"{SECOND}.machineSpec.acceleratorCount"
NO_L4 = "machineSpec.acceleratorType: n1-standard-4 does not take NVIDIA_L4."


OVER_A_FILE = rows(
    """
    --set=$2.machineSpec.machineType=g2-standard-4 | job.yaml:10 |
        $2.machineSpec.acceleratorType: g2-standard-4 does not take NVIDIA_TESLA_T4.
    --set=scheduling.strategy=FLEX_START | --set |
        scheduling.strategy: FLEX_START is for L4, A100 and newer GPUs, found none.
    --set=$2.machineSpec.acceleratorType=NVIDIA_L4 | --set | $2.$NO_L4
    --set=$COUNT=3 | --set | $COUNT: n1-standard-4 does not take 3 NVIDIA_TESLA_T4.
    --set=$2.replicaCount=-1 | --set | $2.replicaCount: expected 1 or more, found -1.
    --display-name=$LONG | --display-name | --display-name: at most 128 characters, found 129.
    --worker-pool-spec=machine-type=n1-standard-4,script=t.py,local-package-path=.,replica-count=-1 |
        --worker-pool-spec | workerPoolSpecs[0].replicaCount: expected 1 or more, found -1.
    """,
    3,
    COUNT=COUNT,
    NO_L4=NO_L4,
    LONG="x" * 129,
    **{"2": SECOND},
)
"""Where a value of the file does not fit one of a flag its line is blamed, else the flag."""


@pytest.mark.parametrize(("flag", "place", "words"), OVER_A_FILE)
def test_flags_over_a_file(blames: Blames, cwd: Path, flag: str, place: str, words: str) -> None:
    (cwd / "job.yaml").write_text(JOB)
    told = blames(*CREATE, "--config=job.yaml", flag, place=place, words=words)
    assert ("job.yaml" in told) == place.startswith("job.yaml")


OVER_THE_TABLE = rows(
    """
    1 | --worker-pool-spec=accelerator-type=NVIDIA_L4 | --worker-pool-spec | $NO_L4
    1 | --gpus=L4 | --gpus | $NO_L4
    1 | --worker-pool-spec=accelerator-type=T4 | --worker-pool-spec |
        pool 0 has an unknown accelerator-type, 'T4'.
    1 | --worker-pool-spec=accelerator-count=1 | --worker-pool-spec |
        has accelerator-count without accelerator-type.
    1 | --worker-pool-spec=replica-count=-1 | --worker-pool-spec |
        workerPoolSpecs[0].replicaCount: expected 1 or more, found -1.
    1 | --set=workerPoolSpecs[0].machineSpec.acceleratorCount=one |
        --set workerPoolSpecs[0].machineSpec.acceleratorCount |
        acceleratorCount: expected a whole number, found 'one'.
    2 | --labels=A=b | --labels | A=b is not a label.
    2 | --service-account=x | --service-account | 'x' is not an account.
    """,
    4,
    NO_L4=NO_L4,
)


@pytest.mark.parametrize(("code", "flag", "place", "words"), OVER_THE_TABLE)
def test_flags_over_the_table(
    blames: Blames, cwd: Path, code: str, flag: str, place: str, words: str
) -> None:
    (cwd / "pyproject.toml").write_text(f'{TABLE}labels = {{ team = "red" }}\nservice-account = "1"\n')
    told = blames(*CREATE, flag, place=place, words=words, code=int(code))
    assert "pyproject.toml:" not in told


def test_a_key_that_does_not_fit_another_layer(blames: Blames, cwd: Path) -> None:
    wrong = ("pyproject.toml", f"{TABLE}LINE\n", "LINE", 'accelerator-type = "NVIDIA_L4"')
    words = f"accelerator-type of [tool.vtrain.job]: workerPoolSpecs[0].{NO_L4}"
    blames(*CREATE, wrong=wrong, words=words)
    blames(*CREATE, "--machine-type=n1-standard-4", wrong=wrong, words=words)


def test_a_file_that_the_table_names(blames: Blames, cwd: Path) -> None:
    (cwd / "pyproject.toml").write_text('[tool.vtrain.job]\nconfig = "job.yaml"\n')
    wrong = ("job.yaml", JOB, "acceleratorCount: 1", "acceleratorCount: 3")
    blames(*CREATE, wrong=wrong, words=f"{COUNT}: n1-standard-4 does not take 3 NVIDIA_TESLA_T4.")


@pytest.mark.parametrize(
    ("old", "new", "flag"),
    [
        ("acceleratorCount: 1", "acceleratorCount: 3", f"--set={COUNT}=2"),
        ("NVIDIA_TESLA_T4", "NVIDIA_L4", f"--set={TYPE}=NVIDIA_TESLA_T4"),
        ("displayName: a", f"displayName: {'x' * 129}", "--display-name=a"),
        ("acceleratorCount: 1", "acceleratorCount: 3", PACKAGE),
    ],
)
def test_a_value_that_does_not_count_is_not_blamed(
    vtrain: Any, cwd: Path, old: str, new: str, flag: str
) -> None:
    assert old in JOB
    (cwd / "job.yaml").write_text(JOB.replace(old, new))
    assert vtrain(*CREATE, "--dry-run", "--config=job.yaml", flag).code == 0
    (cwd / "job.yaml").unlink()
    (cwd / "pyproject.toml").write_text(f'{TABLE}accelerator-type = "NVIDIA_L4"\n')
    assert vtrain(*CREATE, "--dry-run", f"{POOL}accelerator-type=NVIDIA_TESLA_T4").code == 0


def test_each_layer_is_read_by_itself(blames: Blames, cwd: Path) -> None:
    wrong = ("job.yaml", JOB, "acceleratorCount: 1", "acceleratorCount: one")
    words = f"{COUNT}: expected a whole number, found 'one'."
    blames(*CREATE, "--config=job.yaml", f"--set={COUNT}=2", wrong=wrong, words=words)
    wrong = ("pyproject.toml", f"{TABLE}LINE\n", "LINE", 'replica-count = "two"')
    words = "replica-count of [tool.vtrain.job]: expected a whole number, found text."
    for argv in (
        ("submit", BACKEND, f"{POOL}replica-count=2"),
        (*NAMED, "--local-package-path=t.py"),
        ("ps",),
    ):
        blames(*argv, wrong=wrong, words=words)


@pytest.mark.parametrize(
    "command",
    ["custom-jobs create", "custom-jobs local-run", "custom-jobs environment", "submit", "run", "debug"],
)
@pytest.mark.usefixtures("debug_port")
def test_every_command_blames_the_same(blames: Blames, cwd: Path, command: str) -> None:
    argv = (*command.split(), BACKEND)
    wrong = ("job.yaml", JOB, "acceleratorCount: 1", "acceleratorCout: 1")
    words = f"{SECOND}.machineSpec.acceleratorCout: MachineSpec has no field 'acceleratorCout'."
    blames(*argv, "--config=job.yaml", wrong=wrong, words=words, hint="Did you mean acceleratorCount?")
    place, words = "--set workerPoolSpecs[0].replicaCount", "expected a whole number, found 'two'."
    (cwd / "pyproject.toml").write_text(TABLE)
    blames(*argv, f"{place.replace(' ', '=')}=two", place=place, words=f"replicaCount: {words}")
    place = "--worker-pool-spec"
    blames(*argv, f"{POOL}replica-count=two", place=place, words=f"replica-count: {words}", code=2)
    wrong = ("pyproject.toml", f"{TABLE}LINE\n", "LINE", 'accelerator-type = "T4"')
    words = "accelerator-type of [tool.vtrain.job]: 'T4' is not known."
    blames(*argv, wrong=wrong, words=words, hint="Did you mean NVIDIA_TESLA_T4?")


# the library

UNKNOWN, T4 = "which is not known.", "Did you mean NVIDIA_TESLA_T4?"
N1, POOL_0 = "n1-standard-4", "workerPoolSpecs[0]"
ARGUMENTS: list[tuple[dict[str, Any], str, str]] = [
    ({"trainer": 3}, "trainer is of type int: give a path, as text or as a Path.", ""),
    ({"trainer": "none.py"}, "There is no script or folder none.py.", ""),
    ({"module": "a"}, "trainer is a file, and module names what to run in a folder", ""),
    ({"script": "a.py"}, "trainer is a file, and script names what to run in a folder", ""),
    ({"trainer": ".", "module": "a", "script": "b"}, "module and script exclude each other.", ""),
    ({"machine_type": 4}, "machine_type is of type int: give text.", ""),
    ({"replica_count": "two"}, "replica_count is of type str: give a whole number from 1 on.", ""),
    ({"replica_count": 0}, "replica_count is 0: give a whole number from 1 on.", ""),
    ({"accelerator_count": -1}, "accelerator_count is -1: give a whole number from 0 on.", ""),
    ({"accelerator_count": 1}, "accelerator_count needs accelerator_type beside it.", ""),
    ({"accelerator_type": "NVIDIA_TESLA_T5"}, f"accelerator_type is 'NVIDIA_TESLA_T5', {UNKNOWN}", T4),
    ({"accelerator_type": "nvidia-tesla-t4"}, f"accelerator_type is 'nvidia-tesla-t4', {UNKNOWN}", T4),
    (
        {"machine_type": N1, "accelerator_type": "NVIDIA_L4"},
        f"accelerator_type: {POOL_0}.{NO_L4}",
        f"{N1} takes ",
    ),
    ({"name": "x" * 129}, "name: displayName: at most 128 characters, found 129.", ""),
    (
        {"trainer": None, "image": "python:3.12", "accelerator_type": "NVIDIA_TESLA_T5"},
        f"accelerator_type is 'NVIDIA_TESLA_T5', {UNKNOWN}",
        T4,
    ),
    ({"args": "--a"}, 'args is one text: give a list of texts, such as args=["TEXT"].', ""),
    ({"args": ["--a", 1]}, "args[1] is of type int: give text.", ""),
    ({"env": ["A=b"]}, "env is of type list: give a dictionary of texts", ""),
    ({"env": {"A": 1}}, "env['A'] is of type int: give text.", ""),
    ({"labels": {"a": 1}}, "labels['a'] is of type int: give text.", ""),
    ({"labels": {"A": "b"}}, "labels: A=b is not a label.", "Keys begin with a letter; "),
    ({"requirements": "a"}, "requirements is one text: give a list of texts", ""),
    ({"requirements": ["a b"]}, "requirements: `a b` is not a requirement: ", ""),
    ({"name": 3}, "name is of type int: give text.", ""),
    ({"output": 3}, "output is of type int: give text.", ""),
    ({"backend": "proces"}, "There is no backend called 'proces'.", "Did you mean process?"),
    (
        {"trainer": None, "machine_type": "x"},
        "What to run is not given.",
        "Give a trainer, an image or a config.",
    ),
]


@pytest.mark.parametrize(("given", "words", "hint"), ARGUMENTS, ids=[str(row[0]) for row in ARGUMENTS])
def test_an_argument(cwd: Path, vtrain_home: Path, given: dict[str, Any], words: str, hint: str) -> None:
    given = {"trainer": "t.py", "backend": "process"} | given
    with pytest.raises(VtrainError) as refused:
        library.submit(**given)
    assert refused.value.message.startswith(words)
    assert refused.value.hint.startswith(hint)
    assert not vtrain_home.exists()


CONFIG: dict[str, Any] = {"config": "job.yaml"}
WRONG: dict[str, Any] = {"labels": {"A": "b"}}


@pytest.mark.parametrize(
    ("file", "text", "given", "words"),
    [
        ("job.yaml", JOB.replace("Count: 1\n    py", "Count: one\n    py"), CONFIG, "job.yaml:11: "),
        ("job.yaml", JOB.replace("Count: 1\n    py", "Count: 3\n    py"), CONFIG, "job.yaml:11: "),
        ("job.yaml", JOB.replace("scheduling:", "schedulin:"), CONFIG, "job.yaml:13: "),
        ("job.yaml", "a: [\n", CONFIG, "job.yaml:2: not a YAML document: "),
        ("job.yaml", JOB, CONFIG | WRONG, "labels: A=b is not a label."),
        ("pyproject.toml", f"{TABLE}replica-count = 0\n", {}, "pyproject.toml:4: replica-count of "),
        ("pyproject.toml", f"{TABLE}replicas = 0\n", {}, "pyproject.toml:4: [tool.vtrain.job] has no key "),
        ("pyproject.toml", TABLE, WRONG, "labels: A=b is not a label."),
        ("pyproject.toml", TABLE, {"machine_type": "x"}, "machine_type, replica_count, "),
    ],
)
def test_an_argument_over_a_file(
    cwd: Path, vtrain_home: Path, file: str, text: str, given: dict[str, Any], words: str
) -> None:
    (cwd / file).write_text(text)
    with pytest.raises(VtrainError) as refused:
        library.submit(**given, backend="process")
    assert refused.value.message.removeprefix(f"{cwd}/").startswith(words)
    assert not vtrain_home.exists()


def test_a_trainer_that_nothing_would_run_is_refused(vtrain: Any, cwd: Path) -> None:
    """It was packaged, and the job SUCCEEDED without it; or its image was dropped."""
    pool = f"{POOL}machine-type=n1-standard-4,container-image-uri=img"
    dropped = "pool 0 has container-image-uri, and an image of its own does not run"
    for words, said in (
        (("t.py", pool), "A trainer is named, and no worker pool runs it"),
        ((f"{pool},local-package-path=.,script=t.py",), f"--worker-pool-spec: {dropped}"),
    ):
        ended = vtrain("submit", *words, "--display-name=x", BACKEND)
        assert (ended.code, ended.out) == (1, "") and said in ended.err
        assert "executor-image-uri" in ended.err
