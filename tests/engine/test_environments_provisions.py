"""What a pre-built image would bring: small distributions installed, frameworks linked from beside vtrain."""

from __future__ import annotations

import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

import msgspec
import pytest
from environment_packages import direct_sdist, sdist, wheel

from vtrain.engine.environments.environment import EnvironmentSpec, make_environment, plan_environment
from vtrain.engine.environments.frameworks import bridge_to, find_framework, write_bridge
from vtrain.engine.environments.installers import Installer
from vtrain.engine.environments.layers import base_interpreter, make_once, site_packages
from vtrain.engine.environments.plan import DependencyPlan, Memo
from vtrain.engine.environments.provisions import imported_modules, normalised, provisions
from vtrain.packaging.prebuilt import DEFAULT, Distribution, ImageContents

SKLEARN = "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest"
TORCH = "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest"


@pytest.fixture
def wheelhouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "wheelhouse"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def image(*distributions: Distribution) -> ImageContents:
    return ImageContents(family="", version="", python_version="3.10", distributions=distributions)


@pytest.mark.parametrize("package", [direct_sdist, sdist])
def test_imports_are_found_wherever_they_stand(tmp_path: Path, package: object) -> None:
    code = "from google.cloud import (\n  storage,\n)\ndef late():\n    import sklearn.svm\n# import torch\n"
    archive = package(tmp_path, code)  # type: ignore[operator]
    modules = imported_modules([Path(archive)], {"google.cloud.storage", "sklearn", "torch"})
    assert {"google.cloud.storage", "sklearn.svm"} <= modules
    assert "torch" not in modules


def test_only_what_is_imported_and_not_required_is_installed(tmp_path: Path) -> None:
    package = Path(direct_sdist(tmp_path, "import hypertune, sklearn, numpy"))
    small = [
        Distribution(name=n, import_names=(m,)) for n, m in (("scikit_learn", "sklearn"), ("numpy", "numpy"))
    ]
    contents = image(*small, *DEFAULT.distributions)
    found = provisions(contents, [package], frozenset({"scikit-learn"}), named=True)
    assert [d.name for d in found.installed] == ["numpy", "cloudml-hypertune"]


def test_a_distribution_of_the_image_is_installed_at_its_version(tmp_path: Path, wheelhouse: Path) -> None:
    for number in ("1.6.1", "1.9.0"):
        shutil.move(renamed(tmp_path, number), wheelhouse)
    package = direct_sdist(tmp_path, "import sklearn")
    planned = plan_environment(EnvironmentSpec(packages=(package,), image_uri=SKLEARN), tmp_path / "home")
    made = make_environment(planned, [].append)
    show = "import importlib.metadata as m; print(m.version('scikit-learn'))"
    done = subprocess.run([made.python, "-c", show], check=True, capture_output=True, text=True)
    assert done.stdout == "1.6.1\n"


def test_a_version_that_cannot_be_had_is_said(tmp_path: Path, wheelhouse: Path) -> None:
    shutil.move(renamed(tmp_path, "1.9.0"), wheelhouse)
    spec = EnvironmentSpec(packages=(direct_sdist(tmp_path, "import sklearn"),), image_uri=SKLEARN)
    lines: list[bytes] = []
    make_environment(plan_environment(spec, tmp_path / "home"), lines.append)
    notice = "The image's scikit-learn==1.6.* cannot be had for this Python; the newest version is used."
    assert f"{notice}\n".encode() in lines
    again = plan_environment(spec, tmp_path / "home")
    assert again.cached
    assert notice in again.notices


def renamed(folder: Path, number: str) -> str:
    return wheel(folder / number, "scikit_learn", number)


def test_a_framework_that_is_not_here_is_said_once_with_both_ways_out(tmp_path: Path) -> None:
    if find_framework("torch", ("torch",)) is not None:
        pytest.skip("torch is installed beside vtrain")
    spec = EnvironmentSpec(packages=(direct_sdist(tmp_path, "import torch"),), image_uri=TORCH)
    notices = [line for line in plan_environment(spec, tmp_path / "home").notices if "torch" in line]
    assert len(notices) == 1
    assert "torch==2.4.*" in notices[0]
    assert "pip --python" in notices[0]
    assert "requirements" in notices[0]


def test_an_image_that_is_not_known_is_said(tmp_path: Path) -> None:
    spec = EnvironmentSpec(packages=(direct_sdist(tmp_path, "print(1)"),), image_uri="example.test/mine:1")
    (notice,) = plan_environment(spec, tmp_path / "home").notices
    assert notice.startswith("example.test/mine:1 is not a pre-built image")


def test_a_bridge_shows_a_distribution_with_what_it_requires_and_nothing_else(tmp_path: Path) -> None:
    """pytest stands for a framework: it has modules, packages, commands and requirements."""
    bridge = bridge_to(["pytest"])
    write_bridge(tmp_path, bridge)
    show = (
        "import sys, importlib.util as u; sys.path.append(sys.argv[1])\n"
        "import pytest, pluggy, importlib.metadata as m\n"
        "print(m.version('pytest'), u.find_spec('msgspec'), u.find_spec('hypothesis'))"
    )
    argv = [base_interpreter().path, "-I", "-S", "-c", show, str(tmp_path / "site")]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    assert done.stdout == f"{version('pytest')} None None\n"
    assert (tmp_path / "bin" / "pytest").is_symlink()


def test_what_is_bridged_counts_and_is_never_replaced(tmp_path: Path, wheelhouse: Path) -> None:
    from vtrain.engine.environments import construction

    wheel(wheelhouse, "iniconfig", "1.0")
    bridge_path, folder = tmp_path / "bridge", tmp_path / "environment"
    bridge = bridge_to(["pytest"])
    make_once(bridge_path, lambda _: write_bridge(bridge_path, bridge), [].append)
    wanted = DependencyPlan(
        requirements=(("pytest",), ("iniconfig==1.0",)), bridge=bridge, bridge_path=bridge_path
    )
    lines: list[bytes] = []

    def build(lock: int) -> None:
        installer = Installer(tmp_path, lines.append)
        construction._install_dependencies(folder, wanted, installer, lines.append, lock)

    make_once(folder, build, [].append)
    assert b"Requirement already satisfied: pytest" in b"".join(lines)
    assert (site_packages(folder) / "iniconfig.py").exists()
    assert not list(site_packages(folder).glob("pytest*"))
    assert version("iniconfig") != "1.0"


def test_a_framework_installed_later_changes_the_plan(tmp_path: Path) -> None:
    package = direct_sdist(tmp_path, "import torch")
    spec = EnvironmentSpec(packages=(package,), image_uri=TORCH)
    planned = plan_environment(spec, tmp_path / "home")
    make_environment(planned, [].append)
    assert plan_environment(spec, tmp_path / "home").dependencies is None
    memo = msgspec.json.decode(planned.memo_path.read_bytes().partition(b"\n")[2], type=Memo)
    assert memo.site_state is not None
    (folder, moment), *others = memo.site_state
    later = msgspec.structs.replace(memo, site_state=((folder, moment + 1), *others))
    planned.memo_path.write_bytes(later.encoded())
    assert plan_environment(spec, tmp_path / "home").dependencies is not None


@pytest.mark.parametrize(
    ("requirement", "name"),
    [
        ("Scikit_Learn>=1", "scikit-learn"),
        ("a.b [x] ; python_version>'3'", "a-b"),
        ("x@ file:///y", "x"),
        ("", ""),
    ],
)
def test_names_are_those_of_the_index(requirement: str, name: str) -> None:
    assert normalised(requirement) == name
