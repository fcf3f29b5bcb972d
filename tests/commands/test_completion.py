"""What a shell offers behind a TAB, asked as the installed scripts ask."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from lib.pseudo_terminal import PseudoTerminal
from lib.vertex_service import VertexService
from lib.waiting import wait_until

from vtrain import cli
from vtrain.flags.options import REGION_HELP
from vtrain.messages.codec import to_document
from vtrain.messages.custom_job import (
    CustomJob,
    CustomJobSpec,
    PythonPackageSpec,
    WorkerPoolSpec,
)
from vtrain.messages.model import Model, ModelTarget
from vtrain.messages.structs import GcsDestination
from vtrain.runtime.model_registry import ModelRegistry
from vtrain.runtime.store import Record, Store
from vtrain.settings import home_folder
from vtrain.times import timestamp

COMPLETE = """
source ~/.bash_completions/vtrain.sh
COMP_LINE={line}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_vtrain_completion {program} "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
SPEC = ("custom-jobs", "create", "--worker-pool-spec", "=")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory with the completion script installed, and a `vtrain` to call."""
    program = tmp_path / "vtrain"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m vtrain "$@"\n')
    program.chmod(0o755)
    ended = run(tmp_path, program, "--install-completion=bash")
    assert ended.returncode == 0, ended.stderr
    return tmp_path


def run(home: Path, *argv: str | Path) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parents[2])
    env = {name: value for name, value in os.environ.items() if name.startswith("CLOUDSDK_")} | {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "VTRAIN_HOME": f"{home}/.vtrain",
        "PYTHONPATH": root,
    }
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, cwd=home)


def offered(home: Path, *words: str) -> list[str]:
    """What bash would offer for the last of the words, which are split at `=`, `:` and `@` as bash does."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    line = re.sub(" ([=:]) ?", r"\1", " ".join(words)).replace("@ ", "@")
    script = COMPLETE.format(program=home / "vtrain", line=shlex.quote(f"vtrain {line}"))
    ended = run(home, bash, "--norc", "-c", script, "bash", "vtrain", *words)
    assert ended.stderr == ""
    return ended.stdout.split()


def offered_at_last(home: Path, *words: str) -> list[str]:
    """TAB again and again while nothing is offered: on a busy machine an answer may come too late."""
    return wait_until(lambda: offered(home, *words), "nothing was offered")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("custom",), "custom-jobs"),
        (("custom-jobs", "stream"), "stream-logs"),
        (("beta", "ai", "custom-jobs", "descr"), "describe"),
        (("custom-jobs", "create", "--worker"), "--worker-pool-spec"),
        (("custom-jobs", "list", "--region", "us-cen"), "us-central1"),
        (("custom-jobs", "list", "--region", "=", "us-cen"), "us-central1"),
        ((*SPEC, "machine-t"), "machine-type="),
        ((*SPEC, "machine-type", "=", "a2-ultragpu-8"), "a2-ultragpu-8g"),
        ((*SPEC, "machine-type", "=", "x,accelerator-c"), "x,accelerator-count="),
        (("custom-jobs", "list", "--format", "=", "j"), "json"),
        (("custom-jobs", "list", "--filter", "=", "state", "=", "JOB_STATE_FA"), "JOB_STATE_FAILED"),
    ],
)
def test_bash_offers(home: Path, words: tuple[str, ...], expected: str) -> None:
    assert offered(home, *words) == [expected]


Asked = Callable[..., list[tuple[str, str]]]


@pytest.fixture
def asked(vtrain: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Asked:
    """Asks as the scripts of zsh and fish do, in a folder of its own; the answer is words and their texts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("_VTRAIN_COMPLETE", "zsh")

    def ask(*words: str) -> list[tuple[str, str]]:
        monkeypatch.setenv("COMP_WORDS", "\n".join(["vtrain", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        kind, *lines = vtrain().out.splitlines()
        assert kind == "words"
        return [(value, text) for value, _, text in (line.partition("\t") for line in lines)]

    return ask


LINES = {
    "vtrain cust": "vtrain custom-jobs",
    "vtrain custom-jobs list --region=us-cen": "vtrain custom-jobs list --region=us-central1",
    "vtrain custom-jobs list --region us-cen": "vtrain custom-jobs list --region us-central1",
    "vtrain custom-jobs create --config=jo": "vtrain custom-jobs create --config=job.yaml",
    "vtrain custom-jobs create --config jo": "vtrain custom-jobs create --config job.yaml",
    "vtrain custom-jobs create --worker-pool-spec=machine-t": "…--worker-pool-spec=machine-type=",
    "vtrain custom-jobs create --worker-pool-spec=machine-type=x,accelerator-c": "…=x,accelerator-count=",
    "vtrain custom-jobs local-run --script=a.py -- jo": "…--script=a.py -- job.yaml",
    "vtrain custom-jobs create --display-name=jo": "",
    "vtrain show @last-": "vtrain show @last-1",
    "vtrain cp digits:model/m": "…:model/model.txt",
    "vtrain cp @last:mo": "…:model/",
}
"""What is typed, and the line after TAB; `…` stands for any beginning, nothing for no completion."""


def put_files(home: Path) -> None:
    """Put a job into the store of the home, with a model below its output folder."""
    name = "projects/local/locations/us-central1/customJobs/1000000000000000000"
    spec = CustomJobSpec(base_output_directory=GcsDestination(output_uri_prefix="gs://out/1"))
    job = CustomJob(name=name, display_name="digits", job_spec=spec, state="JOB_STATE_SUCCEEDED")
    (home / ".vtrain" / "buckets" / "out" / "1" / "model").mkdir(parents=True)
    for file in ("model.txt", "semi;rm", "semi$HOME", "semi", *(f"n{number:04}" for number in range(1100))):
        (home / ".vtrain" / "buckets" / "out" / "1" / "model" / file).touch()
    document = msgspec.json.encode(to_document(job)).decode()
    fields = {"name": name, "collection": "customJobs", "state": job.state, "create_time": timestamp()}
    Store.open(home / ".vtrain").insert(Record(backend="process", document=document, **fields))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("show", "@", "last-"), ["@last-1"]),
        (("cp", "digits", ":"), ["model/"]),
        (("cp", "@", "last", ":", "model/m"), ["model/model.txt"]),
        (("cp", "@", "last", ":", "model/n101"), [f"model/n101{number}" for number in range(10)]),
        (("cp", "@", "last", ":", "model/s"), ["model/semi"]),  # a shell would run what follows `;`
    ],
)
def test_bash_offers_newest_jobs_and_their_files(
    home: Path, words: tuple[str, ...], expected: list[str]
) -> None:
    put_files(home)
    assert offered_at_last(home, *words) == expected


def test_fish_completes(home: Path) -> None:
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("fish is not installed")
    run(home, home / "vtrain", "--install-completion=fish")
    (home / "job.yaml").touch()
    put_files(home)
    asks = "".join(f"; echo '? {typed}'; complete -C '{typed}'" for typed in LINES)
    ended = run(home, fish, "-c", f"set -gx PATH {home} $PATH{asks}")
    answers = dict(part.split("\n", 1) for part in ended.stdout.split("? ")[1:])
    assert list(answers) == list(LINES), ended.stderr
    for typed, whole in LINES.items():
        found = [line.partition("\t")[0] for line in answers[typed].splitlines()]
        last = whole.lstrip("…").rpartition(" ")[2]
        assert len(found) == (1 if last else 0) and all(word.endswith(last) for word in found), typed


def test_fish_offers_what_comes_after_a_space(home: Path) -> None:
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("fish is not installed")
    run(home, home / "vtrain", "--install-completion=fish")
    asks = "; complete -C 'vtrain custom-jobs '; echo '?'; complete -C 'vtrain schema '"
    ended = run(home, fish, "-c", f"set -gx PATH {home} $PATH{asks}")
    commands, schemas = (part.splitlines() for part in ended.stdout.split("?\n"))
    assert {"create", "list"} <= {line.partition("\t")[0] for line in commands}
    assert "pyproject" in {line.partition("\t")[0] for line in schemas}


def test_zsh_completes(home: Path) -> None:
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("zsh is not installed")
    run(home, home / "vtrain", "--install-completion=zsh")
    (home / "job.yaml").touch()
    put_files(home)
    (home / ".zshrc").write_text("PS1='READY '\n" + (home / ".zshrc").read_text())
    environment = {
        "PATH": f"{home}:{os.environ['PATH']}",
        "HOME": str(home),
        "TERM": "xterm",
        "ZDOTDIR": str(home),
    }
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    shell = PseudoTerminal([zsh, "-i"], columns=120, env=environment, cwd=home)
    try:
        shell.wait_for("READY")
        for typed, whole in LINES.items():
            if whole:
                shell.press(f"{typed}\t")
                shell.wait_for(whole.lstrip("…"))
                shell.press("\x15")  # Ctrl-U
    finally:
        shell.close()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("custom-jobs create --on-interrupt=", "detach cancel"),
        ("custom-jobs create --pull=", "missing always never"),
        ("custom-jobs create --package-format=", "auto sdist image"),
        ("custom-jobs list --verbosity=e", "error"),
        ("custom-jobs create --credentials=", "none adc"),
        ("custom-jobs create --aip-dirs=", "gs local"),
        ("submit --machine-type=a2-ultragpu-8", "a2-ultragpu-8g"),
        ("run --gpus=A100", "A100 A100-80"),
        ("debug --accelerator=NVIDIA_B", "NVIDIA_B200"),
        ("custom-jobs create --python-module=", "pack.deep.leaf pack.task"),
        ("custom-jobs create --local-package-path=pack --python-module=", "deep.leaf task"),
        ("custom-jobs list --filter=st", "state="),
        ("hp-tuning-jobs create --algorithm=r", "random-search"),
        ("help custom-jobs desc", "describe"),
        ("help fl", "flags"),
        ("gc --kind=job,pa", "job,package"),
        ("run . -m pack.t", "pack.task"),
        ("help custom-jobs describe x", ""),
        ("custom-jobs list --format=j", "json"),
        ("schema p", "persistent-resource pyproject"),
    ],
)
def test_values_are_offered(asked: Asked, tmp_path: Path, words: str, expected: str) -> None:
    for name in ("__init__", "task", "deep/leaf", "no.module/x"):
        (tmp_path / "pack" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pack" / f"{name}.py").touch()
    assert [value for value, _ in asked(*words.split(" "))] == expected.split()


def test_commands_are_offered_with_their_summaries(asked: Asked) -> None:
    assert asked("custom-jobs", "desc") == [("describe", "Print one custom job.")]
    assert dict(asked("")).keys() == {*cli.GROUPS, *cli.COMMANDS}
    assert ("--region", REGION_HELP) in asked("custom-jobs", "list", "--reg")


def put_job(number: int, state: str, *pools: WorkerPoolSpec, called: str = "dig\tits") -> None:
    """Put a job into the store as the backend does; it is not started."""
    name, moment = f"projects/local/locations/us-central1/customJobs/{number}", timestamp()
    spec = CustomJobSpec(worker_pool_specs=pools)
    job = CustomJob(name=name, display_name=called, job_spec=spec, state=state, create_time=moment)
    document = msgspec.json.encode(to_document(job)).decode()
    fields = {"name": name, "collection": "customJobs", "state": state, "create_time": moment}
    Store.open(home_folder()).insert(Record(backend="process", document=document, **fields))


def test_jobs_are_offered_where_their_state_allows_the_command(asked: Asked) -> None:
    put_job(10**18, "JOB_STATE_RUNNING")
    put_job(10**18 + 1, "JOB_STATE_SUCCEEDED")
    assert [name for name, _ in asked("custom-jobs", "cancel", "")] == [str(10**18)]
    newest, other = asked("custom-jobs", "describe", "")
    assert (newest[0], other[0]) == (str(10**18 + 1), str(10**18))
    assert re.fullmatch(r"SUCCEEDED, \d+ s ago, dig its", newest[1])
    assert newest[0] in [name for name, _ in asked("custom-jobs", "delete", "")]


def test_jobs_are_offered_by_their_names(asked: Asked) -> None:
    for number, called in enumerate(("mnist-2", "mnist-2", "mn ist", "other")):
        put_job(10**18 + number, "JOB_STATE_SUCCEEDED", called=called)
    for line in (("logs", "mn"), ("show", "mn"), ("compare", "other", "mn"), ("cp", "mn")):
        assert [name for name, _ in asked(*line)] == ["mnist-2"]
    assert [name for name, _ in asked("rerun", "")][-2:] == ["other", "mnist-2"]


def test_bash_lists_several_jobs_with_their_state(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    put_job(10**18, "JOB_STATE_FAILED")
    put_job(10**18 + 1, "JOB_STATE_SUCCEEDED")
    monkeypatch.setenv("_VTRAIN_COMPLETE", "bash")
    words = [word for word, _ in asked("custom-jobs", "describe", "")]
    assert [word.partition("  (")[0] for word in words] == [str(10**18 + 1), str(10**18)]
    assert re.fullmatch(r"\d+  \(FAILED, \d+ s ago, dig its\)", words[1])
    monkeypatch.setenv("COMP_TYPE", "37")  # menu-complete
    assert [word for word, _ in asked("custom-jobs", "describe", "")] == [str(10**18 + 1), str(10**18)]
    assert [word for word, _ in asked("custom-jobs", "describe", str(10**18 + 1))] == [str(10**18 + 1)]


def test_models_are_offered_with_their_names(asked: Asked) -> None:
    registry = ModelRegistry(home_folder(), "us-central1")
    for model in ("digits", "letters"):
        registry.upload(Model(display_name=model.title()), ModelTarget(model_id=model))
    assert asked("models", "describe", "di") == [("digits", "Digits")]
    assert [name for name, _ in asked("models", "copy", "--source-model=l")] == ["letters"]


def test_replicas_of_the_named_job_are_offered(asked: Asked) -> None:
    pool = WorkerPoolSpec(replica_count=2, python_package_spec=PythonPackageSpec(python_module="task"))
    put_job(10**18, "JOB_STATE_SUCCEEDED", pool)
    found = asked("custom-jobs", "stream-logs", str(10**18), "--task-name=")
    assert [name for name, _ in found] == ["workerpool0-0", "workerpool0-1"]


def test_names_of_jobs_are_offered(home: Path) -> None:
    (home / "task.py").write_text("print(1)\n")
    flags = ["--backend=process", "--display-name=a", "--python-module=task", f"--local-package-path={home}"]
    create = ("custom-jobs", "create", "--wait", "--format=value(name.basename())", *flags)
    ended = run(home, home / "vtrain", *create)
    assert ended.returncode == 0, ended.stderr
    job = ended.stdout.strip()
    assert offered_at_last(home, "custom-jobs", "describe", job[:5]) == [job]


@pytest.mark.parametrize(
    ("group", "collection"),
    [("custom-jobs", "customJobs"), ("hp-tuning-jobs", "hyperparameterTuningJobs")],
)
def test_names_of_jobs_of_a_service_are_offered(
    home: Path, vertex: VertexService, group: str, collection: str
) -> None:
    vertex.put(f"projects/demo/locations/us-central1/{collection}/4711")
    assert offered_at_last(home, group, "describe", "47") == ["4711"]


def test_an_unknown_shell_is_refused(home: Path) -> None:
    ended = run(home, home / "vtrain", "--show-completion=tcsh")
    assert ended.returncode == 2
    assert "bash|zsh|fish" in ended.stderr


def test_pages_of_the_documentation_are_offered(home: Path) -> None:
    assert "how-to/tune" in offered_at_last(home, "help", "how-to/t")
    assert "flags" in offered_at_last(home, "help", "")


def test_a_silent_service_offers_nothing_soon(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("google.cloud.aiplatform_v1.gapic_version", reason="needs the extra vertex")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        override = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", override)
        started = time.monotonic()
        flags = ("--backend", "vertex", "--project", "demo", "--region", "us-central1")
        assert offered(home, "custom-jobs", "describe", *flags, "1") == []
        assert time.monotonic() - started < 45
