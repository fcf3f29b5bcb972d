"""What commands import: on a local backend nothing of Google's, and nothing that only other commands need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
before = set(sys.modules)
import json, shlex
from vtrain.cli import main
heavy = tuple(sys.argv[2:])
for line in json.loads(sys.argv[1]):
    main(shlex.split(line))
    found = [name for name in {*sys.modules} - before if name.startswith(heavy)]
    assert "vtrain.cli" in sys.modules and found == [], (line, found)
print("none", file=sys.stderr)
"""
ID = "1000000000000000000"
HEAVY = ("google.", "grpc", "starlette", "uvicorn", "jinja2", "aiohttp", "pydantic")


LINES = (
    "--help",
    "custom-jobs create --help",
    "hp-tuning-jobs create --help",
    "persistent-resources --help",
    "custom-jobs list",
    "custom-jobs list --filter=state:FAILED --sort-by=createTime --format=json",
    *(f"custom-jobs {verb} {ID}" for verb in ("describe", "cancel", "stream-logs", "wait", "delete")),
    "hp-tuning-jobs list",
    "persistent-resources list",
    "models list",
    "models describe digits",
    "models upload --display-name=a --container-image-uri=i --artifact-uri=.",
    "models predict digits --json-request=request.json",
    "custom-jobs create --dry-run --display-name=a --config=job.yaml",
    "custom-jobs create --wait --display-name=a --config=job.yaml",
    "custom-jobs local-run --script=task.py",
    "package sdist --script=task.py --local-package-path=.",
    "gc --images",
)


def test_no_command_on_a_local_backend_imports_anything_of_google(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text("print(1)\n")
    (tmp_path / "job.yaml").write_text(
        "workerPoolSpecs: [{replicaCount: 1, pythonPackageSpec: {pythonModule: this}}]"
    )
    (tmp_path / "request.json").write_text('{"instances": [1]}')
    root = str(Path(__file__).parents[2])
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "VTRAIN_BACKEND": "process", "PYTHONPATH": root}
    argv = [sys.executable, "-c", PROGRAM, json.dumps(LINES), *HEAVY]
    ended = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert ended.stderr.endswith("none\n"), ended.stderr


@pytest.mark.parametrize(("options", "shown"), [((), False), (("-W", "default"), True)])
def test_warnings_of_libraries_are_for_those_who_ask(
    plugin_site: Path, options: tuple[str, ...], shown: bool
) -> None:
    with (plugin_site / "memory_plugin.py").open("a") as module:
        module.write('import warnings\nwarnings.warn("soon too old", FutureWarning)\n')
    paths = os.pathsep.join([str(Path(__file__).parents[2]), str(plugin_site)])
    env = {"PATH": os.environ["PATH"], "HOME": str(plugin_site), "PYTHONPATH": paths}
    argv = [sys.executable, *options, "-m", "vtrain", "custom-jobs", "list", "--backend=memory"]
    ended = subprocess.run(argv, env=env, cwd=plugin_site, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ("soon too old" in ended.stderr) is shown


WITHOUT = """
import contextlib, runpy, sys
sys.argv = ["vtrain", "custom-jobs", "list"]
with contextlib.suppress(SystemExit, IndexError):
    runpy.{run}
assert "msgspec" in sys.modules and "typing_extensions" not in sys.modules, sorted(sys.modules)
"""


@pytest.mark.parametrize(
    "run",
    ["run_module('vtrain', run_name='__main__')", "run_path({root!r} + '/vtrain/backends/supervise.py')"],
    ids=["command", "supervisor"],
)
def test_programs_leave_typing_extensions_out(run: str, tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "VTRAIN_BACKEND": "process", "PYTHONPATH": root}
    code = WITHOUT.replace("{run}", run.format(root=root))
    ended = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr


def test_a_library_finds_typing_extensions_as_before() -> None:
    root = str(Path(__file__).parents[2])
    code = "import vtrain.lean_msgspec, msgspec, typing_extensions as t; t.Required; msgspec.Struct"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": root})


SERVED = """
import sys
from pathlib import Path
from vtrain.emulator.server import EmulatorOrder, serving
from vtrain.emulator.storage.guard import Admission
from urllib.request import ProxyHandler, build_opener
order = EmulatorOrder(home=Path("home"), backend="process", project="p", host="127.0.0.1", port=0,
                      admission=Admission())
with serving(order, lambda _: None) as (running, _):
    ask = lambda path: build_opener(ProxyHandler({})).open(running.url + path).read()
    ask("/v1/projects/p/locations/us-central1/customJobs")
    lean = set(sys.modules)
    for path in ("/", "/v1/projects/p/locations/us-central1/endpoints"):
        ask(path)
    late = set(sys.modules) - lean
print(*sorted(lean))
print(*sorted(late))
"""
LATE = {
    "jinja2",
    *(f"vtrain.emulator.{name}" for name in ("dashboard.handlers", "vertex.endpoints")),
    *(f"vtrain.{name}" for name in ("emulator.vertex.model_servers", "messages.endpoint")),
}


def test_an_emulator_loads_what_it_serves_when_it_is_asked(tmp_path: Path) -> None:
    pytest.importorskip("starlette", reason="needs the extra emulator")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    ended = subprocess.run(
        [sys.executable, "-c", SERVED], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    lean, late = (set(line.split()) for line in ended.stdout.splitlines())
    parts = {"ml_metadata", "tensorboards", "datasets", "batch_predictions"}
    unused = {f"vtrain.emulator.vertex.{name}" for name in parts} | {"cryptography"}
    assert late >= LATE and not (lean | late) & unused
