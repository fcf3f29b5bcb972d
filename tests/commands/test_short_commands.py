"""`vtrain run`, `submit`, `ps`, `logs`, `show`, `stop`, `rm`: the same as commands of custom jobs."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lib.experiment_files import add_run
from lib.stored_jobs import add_job
from lib.tables import rows

from vtrain.commands.short_commands import COMMANDS
from vtrain.messages import states
from vtrain.testing.memory import MemoryBackend
from vtrain.testing.script import Script, script_job


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a script that imports a module beside it, and a package."""
    place = tmp_path / "project"
    (place / "src").mkdir(parents=True)
    (place / "src" / "steps.py").write_text("COUNT = 3\n")
    (place / "src" / "train.py").write_text("import sys, steps\nsys.exit(steps.COUNT + len(sys.argv))\n")
    (place / "trainer").mkdir()
    (place / "trainer" / "__init__.py").touch()
    (place / "trainer" / "task.py").write_text("print('task')\n")
    monkeypatch.chdir(place)
    return place


def planned(ended: Any) -> dict[str, Any]:
    """The pool of a dry run."""
    assert ended.code == 0, ended.err
    job = json.loads(ended.out)
    return {"name": job["displayName"], **job["jobSpec"]["workerPoolSpecs"][0]["pythonPackageSpec"]}


DRY = ("--dry-run", "--format=json")


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (("src/train.py",), ("--script=src/train.py",)),
        (("src",), ("--local-package-path=src", "--script=train.py")),
        (("-m", "trainer.task"), ("--python-module=trainer.task",)),
        ((".", "-m", "trainer.task"), ("--local-package-path=.", "--python-module=trainer.task")),
    ],
)
def test_run_plans_what_local_run_does(vtrain: Any, folder: Path, words: Any, same: Any) -> None:
    rest = ("--", "--epochs=3")
    short, long = vtrain("run", *words, *DRY, *rest), vtrain("custom-jobs", "local-run", *same, *DRY, *rest)
    assert planned(short) == planned(long)
    assert planned(short)["args"] == ["--epochs=3"]
    create = vtrain("submit", *words, "--backend=process", *DRY, *rest)
    assert planned(create) == planned(long)


def test_run_ends_with_the_exit_code_of_a_script_elsewhere(vtrain: Any, folder: Path) -> None:
    os.chdir(folder / "trainer")
    ended = vtrain("run", "../src/train.py", "--", "a", "b")
    assert ended.code == 6, ended.err


def test_the_folder_above_gives_its_name_to_the_job(
    vtrain: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "deep").mkdir()
    monkeypatch.chdir(folder / "deep")
    for command in ("run", "submit"):
        planned = vtrain(command, "..", "-m", "trainer.task", "--dry-run")
        assert f"displayName: {folder.name}\n" in planned.out, planned.err


REFUSED = rows(
    r"""
    1 | run trian.py | There is no file or folder trian.py.\n
    1 | run src/trian.py | There is no file or folder src/trian.py.\n  Did you mean src/train.py?\n
    2 | run src/train.py --script=x | What to run is named twice: as src/train.py and by --script.
    2 | run trainer --local-package-path=. |
        What to run is named twice: as trainer and by --local-package-path.
    2 | run trainer -m x --script=y | What to run is named twice: as trainer and by --script.
    2 | run -m x --python-module=y | What to run is named twice: as -m and by --python-module.
    2 | run src/train.py -m x | -m names a module of a folder, and src/train.py is a file.
    2 | run . | vtrain run . -m MODULE
    2 | run '' -m trainer.task | The script or folder to run is empty.\n
    2 | run src/train.py 3 | The trainer's own arguments stand after --: vtrain run … -- 3
    2 | run src/train.py --epochs=3 | put it after --: vtrain run … -- --epochs=3
    2 | run --watch src/train.py | vtrain rerun JOB --watch runs a job again after each saved file.\n
    2 | run src/train.py --lr 0.1 |
        --lr\n  If it is for the trainer, put it after --: vtrain run … -- --lr 0.1\n
    2 | run src/train.py --lr=0.1 | vtrain run … -- --lr=0.1\n
    2 | run src/train.py --gpu=T4 | '--gpu' does not take a value.\n  Did you mean --gpus=T4?\n
    2 | run src/train.py --gpu T4 | does not take 'T4'.\n  Did you mean --gpus=T4?\n
    2 | run src/train.py --strict=yes | does not take a value.\n  Write --strict alone.\n
    2 | run src/train.py --lr -1e-3 --name 'a b' --quiet | vtrain run … -- --lr -1e-3 --name 'a b'\n
    2 | run --epochs 3 src/train.py | vtrain run … -- --epochs 3\n
    2 | run --fast src/train.py | vtrain run … -- --fast\n
    2 | run src/train.py --fast --slow -- --x | vtrain run … -- --fast --slow\n
    2 | run src/train.py -z 5 | vtrain run … -- -z 5\n
    2 | run src/train.py --stepz 5 | No such option: --stepz\n
    2 | run src/train.py --bakend=process | No such option: --bakend (did you mean --backend?)\n
    2 | src/train.py --epochs=3 | no command 'src/train.py'.\n  Did you mean vtrain run src/train.py?\n
    2 | custom-jobs local-run src/train.py | local-run does not take 'src/train.py'. |
        Write --script=src/train.py, or: vtrain run src/train.py
    2 | custom-jobs local-run trainer | local-run does not take 'trainer'. | or: vtrain run trainer -m MODULE
    2 | custom-jobs create src/train.py | create does not take 'src/train.py'. |
        --local-package-path=. --display-name=train, or: vtrain submit src/train.py
    2 | custom-jobs list src | list does not take 'src'. | See 'vtrain custom-jobs list --help'.
    2 | custom-jobs local-run --script=src/train.py --epochs=3 |
        put it after --: vtrain custom-jobs local-run … -- --epochs=3
    2 | emulator exec true | stands after --: vtrain emulator exec … -- true
    2 | emulator exec --fast | If it is for the command, put it after --: vtrain emulator exec
    2 | exec job ls src | stands after --: vtrain exec … -- ls src
    """,
    4,
)


@pytest.mark.parametrize(("code", "line", "said", "hint"), REFUSED, ids=[row[1] for row in REFUSED])
def test_a_line_that_names_no_entry_is_answered_with_the_one_to_type(
    vtrain: Any, folder: Path, code: str, line: str, said: str, hint: str
) -> None:
    ended = vtrain(*shlex.split(line))
    assert (ended.code, ended.out) == (int(code), ""), ended.err
    assert said in ended.err and hint in ended.err


def test_an_entry_that_is_no_file_is_named_as_what_it_is(vtrain: Any, folder: Path) -> None:
    (folder / "nowhere.py").symlink_to("gone.py")
    (folder / "loop.py").symlink_to("loop.py")
    os.mkfifo(folder / "pipe.py")
    for name, message in (
        ("nowhere.py", "nowhere.py is a link that leads nowhere.\n"),
        ("loop.py", "loop.py is a link that leads nowhere.\n"),
        ("pipe.py", "pipe.py is no script: it is a named pipe.\n"),
        ("/dev/zero", "/dev/zero is no script: it is a device.\n"),
    ):
        ended = vtrain("run", name)
        assert (ended.code, ended.out) == (1, ""), name
        assert message in ended.err and "Name a script or the folder of a trainer." in ended.err


def test_two_scripts_of_a_folder_are_not_guessed_between(vtrain: Any, folder: Path) -> None:
    (folder / "src" / "main.py").touch()
    ended = vtrain("run", "src")
    assert ended.code == 2 and "it has train.py and main.py." in ended.err


def test_the_one_script_of_this_folder_runs_where_nothing_is_named(
    vtrain: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / "src")
    for command in (("run",), ("submit", "--backend=process")):
        alone, named = (vtrain(*command, *entry, *DRY) for entry in ((), ("train.py",)))
        assert planned(alone) == planned(named)
        assert planned(alone)["name"] == "train"
    (folder / "src" / "task.py").touch()
    ended = vtrain("run")
    assert ended.code == 2 and "it has train.py and task.py." in ended.err
    monkeypatch.chdir(folder)
    ended = vtrain("run")
    assert ended.code == 2 and "What to run is not given." in ended.err
    (folder / "a b.py").touch()
    assert "Name the script, vtrain run 'a b.py', or" in vtrain("run").err


def test_a_saved_job_counts_more_than_the_one_script(
    vtrain: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / "src")
    (folder / "src" / "pyproject.toml").write_text('[tool.vtrain.job]\nscript = "steps.py"\n')
    ended = vtrain("run", *DRY)
    assert planned(ended)["name"] == "src"


def submitted(memory: MemoryBackend, *scripts: Script) -> str:
    return memory.submit(memory.plan(script_job(*scripts, display_name="demo job"))).name


@pytest.mark.parametrize(("short", "long"), [("show", "describe"), ("stop", "cancel"), ("rm", "delete")])
def test_a_short_command_answers_as_its_long_one(
    vtrain: Any, memory: MemoryBackend, short: str, long: str
) -> None:
    name = submitted(memory, Script().write("a\n"))
    vtrain("custom-jobs", "wait", name)
    answers = [vtrain(*command, name) for command in ((short,), ("custom-jobs", long))]
    if short == "rm":
        assert [answer.code for answer in answers] == [0, 1]
    else:
        assert answers[0] == answers[1] and answers[0].code == 0


def test_logs_prints_what_there_is_and_follows_to_the_end(vtrain: Any, memory: MemoryBackend) -> None:
    name = submitted(memory, Script().write("a\nb\n").hang())
    for _ in range(5):  # it advances whenever somebody asks
        memory.get(name)
    ended = vtrain("logs", name)
    assert ended.code == 0 and [line.split("\t")[-1] for line in ended.out.splitlines()] == ["a", "b"]
    assert memory.get(name).state == states.RUNNING
    as_json = vtrain("logs", name, "--format=json", "--task-name=workerpool0-0")
    assert [line["message"] for line in json.loads(as_json.out)] == ["a", "b"]
    memory.cancel(name)
    followed = vtrain("logs", name, "-f")
    assert (followed.code, followed.out) == (11, ended.out)
    assert vtrain("logs", name).code == 0


def test_every_short_command_has_an_example_of_its_own() -> None:
    for info in COMMANDS:
        assert all(f"{line} ".startswith(f"vtrain {info.name} ") for _, line in info.examples), info.name


@pytest.mark.parametrize("module", ["01-first.train", "01-first", "my trainer.2nd.train", "é-x.train"])
def test_any_module_that_python_runs_is_run(vtrain: Any, tmp_path: Path, module: str) -> None:
    place = tmp_path / "project"
    package = place.joinpath(*module.removesuffix(".train").split("."))
    package.mkdir(parents=True)
    for folder in (package, place / module.split(".")[0]):
        (folder / "__init__.py").touch()
    (package / "other.py").write_text("WORD = 'found'\n")
    name = "train.py" if module.endswith(".train") else "__main__.py"
    (package / name).write_text("from . import other\nprint(other.WORD, __name__)\n")
    os.chdir(place)
    pool = f"replica-count=1,machine-type=n1-standard-4,local-package-path={place},python-module={module}"
    legacy = (f"--module-name={module}", f"--package-path={place / module.split('.')[0]}")
    create = "custom-jobs create --backend=process --display-name=x --wait --stream-logs --worker-pool-spec"
    for words in (
        ("run", "-m", module),
        ("ai-platform", "local", "train", *legacy),
        (*create.split(), pool),
    ):
        ended = vtrain(*words)
        assert ended.code == 0, ended.err
        assert "found __main__" in ended.out + ended.err


@pytest.mark.parametrize("late", ["", "def main():\n    "])
def test_a_module_elsewhere_in_the_folder_is_named_by_the_card_too(
    vtrain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """No warning says so where the import is in a function."""
    for name in ("jobs", "utils"):
        (tmp_path / "project" / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    code = f"{late}from utils.a import A\n" + ("main()\n" if late else "")
    Path("jobs/train.py").write_text(code)
    Path("utils/a.py").write_text("A = 1\n")
    ended = vtrain("run", "jobs/train.py")
    advice = "`utils` is in this folder; run it as a module: vtrain run -m jobs.train"
    assert ended.code == 1
    assert f"  hint    {advice}." in " ".join(ended.err.split(" "))
    assert (f"WARNING: jobs/train.py:1: {advice}\n" in ended.err) == (not late)
    assert "requirements.txt" not in ended.err
    assert vtrain("run", "-m", "jobs.train").code == 0


def test_no_stranger_of_an_unknown_name_is_offered(vtrain: Any, folder: Path) -> None:
    (folder / "late.py").write_text("def main():\n    import fourier_of_mine\nmain()\n")
    ended = vtrain("run", "late.py", "--environment=new")
    assert "--requirements=fourier_of_mine" not in ended.err
    assert "Add the package that brings `fourier_of_mine` to requirements.txt" in ended.err


def test_a_shell_script_with_windows_line_ends_is_warned_of(vtrain: Any, folder: Path) -> None:
    (folder / "train.sh").write_bytes(b"if true\r\nthen\r\n  echo yes\r\nfi\r\n")
    ended = vtrain("run", "train.sh")
    assert ended.code == 2
    assert "WARNING: train.sh has Windows line ends" in ended.err
    assert "hint    The shell cannot read the script. Where that has Windows line ends" in ended.err
    assert "argparse" not in ended.err


SETUP = "from setuptools import setup\nsetup(name='trainer', packages=['trainer'])\n"
READS = "import pathlib\nprint(pathlib.Path(__file__).with_name('x.csv').read_text())\n"


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("setup.py", SETUP, "its own build leaves it out: name it among"),
        (".gitignore", "*.csv\n", "not in the package: .gitignore leaves it out"),
    ],
)
def test_the_card_comes_back_to_a_file_that_is_not_packed(
    vtrain: Any, folder: Path, name: str, text: str, reason: str
) -> None:
    for file, content in ((name, text), ("trainer/task.py", READS), ("trainer/x.csv", "1\n")):
        (folder / file).write_text(content)
    ended = vtrain("run", "-m", "trainer.task")
    assert ended.code == 1
    assert f"  hint    `trainer/x.csv` is in the folder, and {reason}" in ended.err
    assert ("WARNING: the folder's own build leaves out " in ended.err) == (name == "setup.py")


@pytest.mark.parametrize("name", ["data.csv", "./data.csv"])
def test_a_relative_file_that_is_not_packed_is_named(vtrain: Any, folder: Path, name: str) -> None:
    (folder / "late.py").write_text(f"open({name!r})\n")
    (folder / "data.csv").touch()
    (folder / ".vtrainignore").write_text("data.csv\n")
    ended = vtrain("run", "late.py")
    assert (
        "  hint    `data.csv` is in the folder, and not in the package: .vtrainignore leaves it" in ended.err
    )
    (folder / "data.csv").unlink()
    assert "is looked for in the working directory" in vtrain("run", "late.py").err


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (("run", "train.py"), "run"),
        (("debug", "train.py"), "debug"),
        (("custom-jobs", "local-run", "--script=train.py"), "local-run"),
        (("ai-platform", "local", "train", "--module-name=train"), "local train"),
    ],
)
@pytest.mark.usefixtures("debug_port")
def test_the_first_line_names_the_command_that_was_typed(
    vtrain: Any, cwd: Path, line: tuple[str, ...], name: str
) -> None:
    (cwd / "train.py").write_text("print(1)\n")
    (cwd / "__init__.py").touch()
    dry_run = () if name == "local train" else ("--dry-run",)
    ended = vtrain(*line, *dry_run)
    assert ended.err.startswith(f"Backend: process ({name} is always local"), ended.err
    refused = vtrain(*line, "--backend=vertex")
    elsewhere = "custom-jobs create" if name == "local-run" else "submit"
    assert f"ERROR: {name} runs a trainer on this machine, and --backend=vertex does not.\n" in refused.err
    assert f"take: vtrain {elsewhere} --backend=vertex --stream-logs" in refused.err


def test_a_file_whose_name_begins_with_a_dash_is_told_how_it_is_written(vtrain: Any, cwd: Path) -> None:
    (cwd / "-a b.py").write_text("print(1)\n")
    refused = vtrain("run", "-a b.py", "--dry-run")
    assert refused.code == 2 and refused.err.endswith("If it is the file, write './-a b.py'\n")
    assert "after --" not in vtrain("custom-jobs", "list", "--epochs=3").err, "a list has no trainer"


@pytest.mark.parametrize("line", [("run",), ("submit", "--backend=process")])
def test_a_folder_is_no_second_name_of_what_runs_in_it(
    vtrain: Any, folder: Path, line: tuple[str, ...]
) -> None:
    script = vtrain(*line, "src", "--script=train.py", "--dry-run")
    assert (script.code, "pythonModule: vtrain_script" in script.out) == (0, True), script.err
    module = vtrain(*line, ".", "--python-module=trainer.task", "--dry-run")
    assert (module.code, "pythonModule: trainer.task" in module.out) == (0, True), module.err
    assert vtrain("package", "sdist", "src", "--script=train.py").code == 0


def test_the_output_may_go_to_a_file_beside_the_trainer(tmp_path: Path) -> None:
    """It grows while the folder is packed, so it is left out."""
    (tmp_path / "train.py").write_text("print('trained')\n")
    with (tmp_path / "out.log").open("w") as log:
        argv = [sys.executable, "-m", "vtrain", "run", "train.py"]
        code = subprocess.run(argv, cwd=tmp_path, stdout=log, stderr=log, check=False).returncode
    said = (tmp_path / "out.log").read_text()
    assert code == 0, said
    assert "trained\n" in said and "left out out.log" in said


def add_measured(home: Path, job_id: str, accuracy: float, *, created: str) -> None:
    output = home / "buckets" / "runs" / job_id
    output.mkdir(parents=True)
    (output / "metrics.json").write_text(json.dumps({"accuracy": accuracy, "test": {"loss": 1 - accuracy}}))
    pool = {"pythonPackageSpec": {"args": [f"--seed={job_id}"]}}
    spec = {"workerPoolSpecs": [pool], "baseOutputDirectory": {"outputUriPrefix": f"gs://runs/{job_id}"}}
    add_job(home, job_id, f"job-{job_id}", created=created, fields={"jobSpec": spec})


@pytest.fixture
def measured(vtrain_home: Path) -> Path:
    """A home with two jobs and, between them, a run of an experiment."""
    add_measured(vtrain_home, "1001", 0.75, created="2026-11-01T10:00:00Z")
    measured = {"_params": {"seed": 5}, "_metrics": {"accuracy": 1}}
    add_run(vtrain_home, "digits", "a", created="2026-11-01T11:00:00Z", **measured)
    add_measured(vtrain_home, "1002", 0.5, created="2026-11-01T12:00:00Z")
    return vtrain_home


def test_ps_shows_jobs_and_runs_with_what_they_measured(vtrain: Any, measured: Path) -> None:
    shown = json.loads(vtrain("ps", "--metrics", "--format=json").out)
    assert [(one["displayName"], one["args"]) for one in shown] == [
        ("job-1002", {"seed": 1002}),
        ("a", {"seed": 5}),
        ("job-1001", {"seed": 1001}),
    ]
    assert shown[0]["metrics"] == {"accuracy": 0.5, "test.loss": 0.5}
    assert (shown[1]["experiment"], shown[1]["metrics"]) == ("digits", {"accuracy": 1})
    best = vtrain("ps", "--sort=~metrics.accuracy", "--limit=2", "--format=value(displayName)")
    assert best.out.split() == ["a", "job-1001"]
    assert vtrain("ps", "--sort-by=~metrics.accuracy", "-n2", "--format=value(displayName)").out == best.out
    found = vtrain("ps", "--metrics", "--filter=metrics.accuracy>0.6 AND args.seed>5", "--format=value(name)")
    assert found.out.split() == ["projects/local/locations/us-central1/customJobs/1001"]


def test_a_script_reads_the_metrics_of_a_job(vtrain: Any, measured: Path) -> None:
    assert vtrain("show", "job-1001", "--format=value(metrics.accuracy, args.seed)").out == "0.75\t1001\n"


def test_ps_shows_the_columns_that_are_wanted(vtrain: Any, measured: Path) -> None:
    """By their paths, or as their headings are; what nothing has is said."""
    table = vtrain("ps", "--columns=metrics.accuracy,args.seed", "--sort=metrics.accuracy").out.splitlines()
    assert [" ".join(line.split()[-2:]) for line in table] == [
        "accuracy seed",
        "0.5 1002",
        "0.75 1001",
        "1 5",
    ]
    table = vtrain("ps", "--columns=accuracy,seed", "--sort=~accuracy").out.splitlines()
    assert [line.split()[-2:] for line in table][:2] == [["accuracy", "seed"], ["1", "5"]]
    ended = vtrain("ps", "--columns=other")
    assert ended.code == 0 and "nothing here has other. There is metrics.accuracy" in ended.err
    assert vtrain("ps", "--columns=args.seed", "--flatten=args.seed").code == 0
    for words in ((), ("--metrics",), ("--columns=seed",)):
        assert vtrain("ps", *words).out.startswith("ID "), "a table in a pipe too"


def test_ps_sorts_by_what_jobs_have(vtrain: Any, measured: Path) -> None:
    for column in ("~other", "metrics.accuracy,args.seed"):
        said = vtrain("ps", f"--sort={column}", "--format=json").err
        assert f"nothing here has {column.lstrip('~')}. There is metrics.accuracy" in said
    for column in ("metrics.accuracy", "~args.seed", "createTime"):
        assert "nothing here" not in vtrain("ps", f"--sort={column}").err
    sorted_ = vtrain("ps", "--metrics", "--sort-by=accuracy")
    assert sorted_ == vtrain("ps", "--metrics", "--sort=accuracy") != vtrain("ps", "--metrics")
    assert "--sort: nothing here has other." in vtrain("ps", "--metrics", "--sort-by=other").err


def test_ps_knows_the_columns_that_every_table_has(vtrain: Any, measured: Path) -> None:
    by_time = vtrain("ps", "--sort=~createTime")
    assert vtrain("ps", "--sort=~created") == by_time and "nothing here" not in by_time.err
    by_name = vtrain("ps", "--sort=name", "--format=value(displayName)")
    assert by_name.out.split() == ["a", "job-1001", "job-1002"]
    ended = vtrain("ps", "--columns=created,seed")
    assert "nothing here" not in ended.err
    assert ended.out == vtrain("ps", "--columns=seed").out
    assert vtrain("ps", "--columns=State").out.split("\n")[0].split() == ["ID", "NAME", "STATE", "CREATED"]
    assert "--columns: nothing here has took. There is metrics.accuracy" in vtrain("ps", "--columns=took").err


def test_ps_cuts_no_names_in_a_pipe(vtrain: Any, vtrain_home: Path) -> None:
    name = "job" * 40
    add_job(vtrain_home, "1001", name, created="2026-11-01T10:00:00Z", fields={"jobSpec": {}})
    assert name in vtrain("ps", "--columns=args.seed").out


def test_ps_reads_only_the_newest(vtrain: Any, measured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtrain.commands.comparison.MOST_READ", 2)
    ended = vtrain("ps", "--sort=metrics.accuracy", "--format=value(displayName)")
    assert ended.out.split() == ["job-1002", "a"] and "Only the 2 newest were read" in ended.err


def test_ps_says_that_it_left_out_runs(
    vtrain: Any, vtrain_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vtrain.commands.comparison.MOST_READ", 2)
    for number in range(3):
        add_run(vtrain_home, "digits", str(number), created=f"2026-11-01T1{number}:00:00Z")
        said = vtrain("ps", "--metrics", "--format=value(displayName)").err
        assert ("Only the 2 newest were read" in said) == (number == 2)


def test_ps_reads_no_metrics_that_nobody_wants(vtrain: Any, measured: Path) -> None:
    shown = json.loads(vtrain("ps", "--format=json").out)
    assert [one["displayName"] for one in shown] == ["job-1002", "job-1001"]
    assert not any("metrics" in one or "args" in one for one in shown)
