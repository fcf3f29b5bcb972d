"""The workshop: `nox` runs what every change has to pass, `nox -s NAME` what takes longer."""

from __future__ import annotations

import functools
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["tests", "lint", "types", "docs"]
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"

RUFF = "ruff>=0.15,<0.18"
IMPORT_LINTER = "import-linter>=2.10"
CHECKED = ["vtrain", "tests", "benchmarks", "examples", "noxfile.py"]
REPORTS = os.environ.get("VTRAIN_CI_REPORTS")
"""The folder of the reports that `.ci/conclude` reads."""
if REPORTS:
    nox.options.report = str(Path(REPORTS, f"nox-{os.getpid()}.json"))
SEED = os.environ.get("VTRAIN_CI_SEED")
"""What decides the random examples and kills of a run of `.ci/run`."""

OWN_SESSION = (
    "readme",
    "pages",
    "build",
    "api",
    "end_to_end",
    "docker",
    "engine",
    "chaos",
    "torch",
    "examples",
    "gcloud",
    "sdk",
    "programs",
    "live",
    "gpu",
)
"""The markers of the tests that have a session of their own."""
USUAL = " and ".join(f"not {marker}" for marker in OWN_SESSION)
ELSEWHERE = " and ".join(
    f"not {marker}" for marker in OWN_SESSION if marker not in ("end_to_end", "docker", "engine")
)
QUICK = [
    f"tests/{folder}"
    for folder in (
        "ai_platform",
        "containers",
        "core",
        "differential",
        "flags",
        "messages",
        "output",
        "packaging",
        "properties",
        "runtime",
        "staging",
    )
]
"""The folders of the tests of which most start no program; those that do are marked child."""
ENVIRONMENT = (".[test,vertex,emulator,tuning]",)
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
TORCH = "torch==2.13.0+cpu" if sys.platform == "linux" else "torch==2.13.0"
"""On Linux PyPI has builds for GPUs, of gigabytes, and never a version +cpu: so none of them is fetched."""


def _find_python(version: str) -> str | None:
    """The path of a Python of this version: on PATH, or one that pyenv or uv keeps elsewhere."""
    folders = [each for each in os.get_exec_path() if Path(each).name != "shims"]  # dead ends
    if found := shutil.which(f"python{version}", path=os.pathsep.join(folders)):
        return found
    kept = (
        Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions").glob(f"{version}.*"),
        (Path.home() / ".local" / "share" / "uv" / "python").glob(f"cpython-{version}.*"),
    )
    pythons = (folder / "bin" / f"python{version}" for folders in kept for folder in sorted(folders))
    return next((str(python) for python in pythons if python.exists()), None)


@nox.session
def environment(session: nox.Session) -> None:
    """The environment that most sessions share: a second one like it would take a minute to install."""
    _install(session, *ENVIRONMENT)


def _tests_with(session: nox.Session, *words: str) -> list[str]:
    """The session's arguments, else the test files that have one of these words.

    To collect all tests for a few takes a minute of each worker.
    """
    if session.posargs:
        return session.posargs
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(Path("tests").rglob("test_*.py"))}
    return [str(path) for path, text in texts.items() if any(word in text for word in words)]


Run = Callable[[nox.Session], None]


def in_environment(run: Run) -> Run:
    """Make a session of this function, with the programs of the session `environment`."""

    @functools.wraps(run)
    def prepared(session: nox.Session) -> None:
        shared, path = Path(nox.options.envdir, "environment").resolve(), os.environ["PATH"]
        session.env["VIRTUAL_ENV"] = str(shared)
        os.environ["PATH"] = os.pathsep.join([str(shared / "bin"), path])  # where nox looks for programs
        try:
            run(session)
        finally:
            os.environ["PATH"] = path

    nox.session(prepared, venv_backend="none", requires=["environment"])
    return run


def on_each_python(run: Run) -> Run:
    """Make sessions of the same on each Python, with environments of their own."""
    for version in PYTHONS:

        @nox.session(name=f"{run.__name__}-{version}", python=_find_python(version))
        def run_on_it(session: nox.Session, version: str = version) -> None:
            """The same on this Python; skipped where this machine has none."""
            if session.python is None:
                session.skip(f"neither PATH nor pyenv nor uv has Python {version}")
            if version == f"{sys.version_info.major}.{sys.version_info.minor}":
                session.skip(f"the session {run.__name__} runs on this Python")
            _install(session, *ENVIRONMENT)
            run(session)

    return run


@on_each_python
@in_environment
def tests(session: nox.Session) -> None:
    """The tests, in parallel; arguments after -- go to pytest."""
    session.run("pytest", "-n", "2", "--dist=worksteal", "-m", USUAL, *session.posargs)


@on_each_python
@in_environment
def quick(session: nox.Session) -> None:
    """The half of the tests that starts no program, in two minutes; a test that starts one fails here."""
    chosen = ("--no-children", "-m", f"not child and {USUAL}")
    session.run("pytest", "-n", "2", "--dist=worksteal", *chosen, *(session.posargs or QUICK))


@nox.session
def lint(session: nox.Session) -> None:
    """Style: ruff's rules and its formatting, and who may import what."""
    session.install(RUFF, IMPORT_LINTER)
    session.run("ruff", "check", *CHECKED)
    session.run("ruff", "format", "--check", *CHECKED)
    session.run("lint-imports", "--no-cache", "--no-logo")


@nox.session
def types(session: nox.Session) -> None:
    """Types, strictly; and that each name is there which a test or an example takes from a module."""
    _install(session, ".[test,emulator]", "mypy>=1.15", "types-PyYAML")
    session.run("mypy", "--strict", "vtrain")
    session.run("mypy", "--config-file", "tests/mypy.ini", "tests")
    for project in sorted({path.parent for path in Path("examples").rglob("*.py")}):
        if not (project / "__init__.py").exists():  # several examples call their package trainer
            paths = {"MYPYPATH": str(project)}
            session.run("mypy", "--config-file", "tests/mypy.ini", str(project), env=paths, silent=True)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation, without a warning; an argument after -- is the folder for the pages."""
    # The last mkdocstrings for Python 3.10 calls the extensions of then, and does not say so.
    markdown = "pymdown-extensions<11; python_version < '3.11'"
    _install(session, ".", "mkdocs-material>=9.6", "mkdocstrings[python]>=0.30", markdown, RUFF)
    site = Path(session.posargs[0] if session.posargs else session.create_tmp()).resolve()
    quiet = {"NO_MKDOCS_2_WARNING": "1"}
    session.run("mkdocs", "build", "--strict", "-f", "docs/mkdocs.yml", "-d", str(site), env=quiet)


@in_environment
def readme(session: nox.Session) -> None:
    """The commands of the README as a newcomer pastes them: slow, and they install packages."""
    session.run("pytest", "-m", "readme", *_tests_with(session, "mark.readme"))


@in_environment
def pages(session: nox.Session) -> None:
    """What the README and the pages show, where it installs packages or trains for long."""
    session.run("pytest", "-n", "2", "-m", "pages", *_tests_with(session, "mark.pages"))


@nox.session
def build(session: nox.Session) -> None:
    """The sdist and the wheel: built, checked, compared, and used in fresh environments of each Python."""
    _install(session, ".[test]", "build>=1.2", "twine>=6.1")
    found = filter(None, map(_find_python, PYTHONS))
    env = {"PATH": os.pathsep.join([*(str(Path(python).parent) for python in found), os.environ["PATH"]])}
    tests = session.posargs or ["tests/test_distributions.py"]
    session.run("pytest", "-n", "2", "-m", "build", *tests, env=env)


@in_environment
def api(session: nox.Session) -> None:
    """Our messages against the API of the newest google-cloud-aiplatform."""
    session.run("pytest", "-m", "api", *_tests_with(session, "mark.api"), env={"VTRAIN_REQUIRE_API": "1"})


@in_environment
def end_to_end(session: nox.Session) -> None:
    """Jobs, builds and terminals from the command to the end of their processes, without Docker."""
    chosen = f"end_to_end and not docker and not engine and {ELSEWHERE}"
    # They wait half of their time: so twice as many as this machine is sure to have processors.
    tests = _tests_with(session, "mark.end_to_end")
    session.run("pytest", "-n", "4", "--dist=worksteal", "-m", chosen, *tests)


@in_environment
def engine(session: nox.Session) -> None:
    """All that needs a Docker engine; and, as root, engines that are stopped and killed while jobs run."""
    tests = _tests_with(session, "mark.docker", "mark.engine")
    session.run("pytest", "-n", "3", "-m", f"(docker or engine) and {ELSEWHERE}", *tests)


@in_environment
def chaos(session: nox.Session) -> None:
    """At least 100 kills on each local backend, at random; VTRAIN_CHAOS_SEED repeats a run.

    With VTRAIN_CHAOS_SECONDS only as many tests as begin within that time, in random order.
    """
    env = {} if os.environ.get("VTRAIN_CHAOS_SECONDS") else {"VTRAIN_CHAOS_KILLS": "100"}
    if SEED:
        env["VTRAIN_CHAOS_SEED"] = SEED
    session.run("pytest", "-n", "2", "-m", "chaos", *(session.posargs or ["tests/chaos"]), env=env)


@in_environment
def explore(session: nox.Session) -> None:
    """The property tests with examples that no run has seen before; the usual run always takes the same."""
    profile = {"VTRAIN_HYPOTHESIS": "explore"}
    seed, tests = [f"--hypothesis-seed={SEED}"] if SEED else [], _tests_with(session, "hypothesis")
    session.run("pytest", "-n", "2", "-m", f"hypothesis and {USUAL}", *seed, *tests, env=profile)


@in_environment
def mutants(session: nox.Session) -> None:
    """Small changes anywhere in vtrain, at random, and how many of them the tests notice, by package.

    By hand: it takes two hours. VTRAIN_CI_SEED repeats a run, and `-- ::10` takes every tenth change of it.
    """
    seed = SEED or str(random.randrange(1_000_000))
    markers = f"{ELSEWHERE} and not network"
    session.run("python", ".ci/mutate", seed, "300", markers, "45", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Which lines the tests run, in percent by package, programs that they start included; slow, by hand."""
    _install(session, *ENVIRONMENT, "coverage>=7.10")
    data = {"COVERAGE_FILE": str(Path(session.create_tmp()).resolve() / "data")}
    tests = session.posargs or ["-n", "2", "--dist=worksteal", "-m", USUAL]
    session.run("coverage", "erase", env=data)
    session.run("coverage", "run", "-m", "pytest", *tests, env=data, success_codes=[0, 1])
    session.run("coverage", "combine", "-q", env=data)
    session.run("sh", "-c", "coverage json -q -o - | .ci/coverage-table", external=True, env=data)


@nox.session
def news(session: nox.Session) -> None:
    """The changelog has a fragment of this change; `-- build --version=X.Y.Z` writes a release's section."""
    session.install("towncrier>=24.8")
    action, *options = session.posargs or ["check"]
    if action.startswith("-"):
        action, options = "check", session.posargs
    session.run("towncrier", action, *options)


@in_environment
def gcloud(session: nox.Session) -> None:
    """The same lines for the installed gcloud and for vtrain; skipped without gcloud, which no index has."""
    if shutil.which("gcloud") is None:
        _skip(session, "GCLOUD", "gcloud is not installed")
    session.run("pytest", "-n", "4", "-m", "gcloud", *_tests_with(session, "mark.gcloud"))


@in_environment
def sdk(session: nox.Session) -> None:
    """Programs of Google's Python library, and the contract tests on `vertex`, against the emulator."""
    session.run("pytest", "-n", "4", "-m", "sdk", *_tests_with(session, "mark.sdk"))


@in_environment
def programs(session: nox.Session) -> None:
    """Programs as other people write them: old libraries, Prefect and Kubeflow, against the emulator.

    After that, `-R -- offline` runs those without containers where loopback is all of the network.
    """
    if session.posargs[:1] == ["offline"]:
        alone = ("unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
        argv = (*alone, "pytest", "-n", "4", "-m", "programs and not docker", *session.posargs[1:])
        session.run(*argv, external=True)
        return
    # They wait most of the time.
    session.run("pytest", "-n", "4", "-m", "programs", *_tests_with(session, "mark.programs"))


@nox.session
def torch(session: nox.Session) -> None:
    """PyTorch on several replicas; skipped where pip finds no CPU build of it (see PIP_FIND_LINKS)."""
    _install(session, *ENVIRONMENT)
    if not _has_torch(session):
        where = "name its folder (PIP_FIND_LINKS) or index (PIP_EXTRA_INDEX_URL)"
        _skip(session, "TORCH", f"pip finds no {TORCH}: {where}")
    session.run(".ci/make-torch-image", "python", external=True, success_codes=range(256))
    session.run("pytest", "-n", "2", "-m", "torch", *_tests_with(session, "mark.torch"))


@in_environment
def examples(session: nox.Session) -> None:
    """What the examples' READMEs show; TensorFlow's and PyTorch's where pip finds CPU builds of them."""
    tests = _tests_with(session, "mark.examples")
    none_too = (0, 5) if session.posargs else (0,)  # 5: the named tests are in the other run
    session.run("pytest", "-n", "2", "-m", "examples and not frameworks", *tests, success_codes=none_too)
    folder = Path(session.create_tmp()).resolve()
    argv = ("pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--retries=1", f"--dest={folder}")
    wanted = (TORCH, "tensorflow-cpu" if sys.platform == "linux" else "tensorflow")
    session.run(*argv, *wanted, success_codes=range(256), silent=True)
    if len(list(folder.glob("*.whl"))) < len(wanted):
        _skip(session, "FRAMEWORKS", f"pip does not find {' and '.join(wanted)}: see the session torch")
    bounds = folder / "bounds.txt"
    bounds.write_text(TORCH + "\n", encoding="utf-8")
    variables = {"PIP_CONSTRAINT": str(bounds), "UV_CACHE_DIR": str(folder / "cache")}
    session.run("pytest", "-m", "frameworks", *tests, env=variables, success_codes=none_too)


@nox.session
def live(session: nox.Session) -> None:
    """A few jobs on Vertex AI itself, in the project and bucket that you name; they cost a few cents."""
    missing = [name for name in ("VTRAIN_LIVE_PROJECT", "VTRAIN_LIVE_BUCKET") if not os.environ.get(name)]
    if missing:
        session.skip(f"set {' and '.join(missing)} to your own (and VTRAIN_LIVE_REGION, if not us-central1)")
    _install(session, ".[test,vertex]")
    session.run("pytest", "-m", "live", *session.posargs)


@nox.session
def gpu(session: nox.Session) -> None:
    """Jobs that lease the GPUs of this machine: what the other tests show with a stand-in for nvidia-smi."""
    if shutil.which("nvidia-smi") is None:
        session.skip("no nvidia-smi is on PATH: this machine has no NVIDIA GPU, or no driver for it")
    _install(session, ".[test]")
    session.run("pytest", "-m", "gpu", *session.posargs)


def _skip(session: nox.Session, name: str, reason: str) -> None:
    """Skip a session for something that is missing; with VTRAIN_REQUIRE_NAME=1 that is a failure."""
    if os.environ.get(f"VTRAIN_REQUIRE_{name}") == "1":
        session.error(f"{reason}, and VTRAIN_REQUIRE_{name}=1 does not let this pass")
    session.skip(reason)


def _has_torch(session: nox.Session) -> bool:
    """Install it, with what the example needs beside it, unless that takes too long."""
    argv = [str(Path(session.bin) / "pip"), "install", "-q", "--only-binary=:all:", "--retries=1"]
    try:
        return subprocess.run([*argv, TORCH, "scikit-learn>=1.4", "torchserve"], timeout=600).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _install(session: nox.Session, *requirements: str) -> None:
    shutil.rmtree("build", ignore_errors=True)  # setuptools would pack what older builds left there
    session.install(*requirements)
