"""What a pre-built image would bring: the distributions that the trainer imports are installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
from lib.environment_packages import direct_sdist, sdist, wheel

from vtrain.packaging.prebuilt import DEFAULT, Distribution, ImageContents, contents, works_on
from vtrain.project_names import distribution_name
from vtrain.runtime.environments.environment import (
    EnvironmentFailed,
    EnvironmentSpec,
    make_environment,
    plan_environment,
)
from vtrain.runtime.environments.interpreters import PythonChoice, base_interpreter
from vtrain.runtime.environments.plan import DependencyPlan
from vtrain.runtime.environments.provisions import (
    constraints,
    imported_modules,
    pins,
    provisions,
)

SKLEARN = "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest"
XGBOOST = "us-docker.pkg.dev/vertex-ai/training/xgboost-cpu.1-6:latest"
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
    modules = imported_modules([Path(archive)])
    assert {"google.cloud.storage", "sklearn.svm"} <= modules
    assert "torch" not in modules


@pytest.mark.parametrize(
    ("code", "needs"),
    [
        ("import pandas as pd\npd.read_csv('gs://data/a.csv')", True),
        ("from pandas.io import parsers\nURI = f'gs://{1}'", True),
        ("import pandas\npandas.read_csv('a.csv')", False),
        ("import numpy\nprint('gs://data')", False),
    ],
)
def test_pandas_needs_gcsfs_for_a_uri(tmp_path: Path, code: str, needs: bool) -> None:
    contained = contents(SKLEARN)
    assert contained is not None
    modules = imported_modules([Path(direct_sdist(tmp_path, code))])
    assert ("gcsfs" in [one.name for one in provisions(contained, modules, frozenset())]) is needs


def test_only_what_is_imported_and_not_required_is_installed(tmp_path: Path) -> None:
    modules = imported_modules([Path(direct_sdist(tmp_path, "import hypertune, sklearn, numpy"))])
    small = [
        Distribution(name=n, import_names=(m,)) for n, m in (("scikit_learn", "sklearn"), ("numpy", "numpy"))
    ]
    found_in = image(*small, *DEFAULT.distributions)
    found = provisions(found_in, modules, frozenset({"scikit-learn"}))
    assert [d.name for d in found] == ["numpy", "cloudml-hypertune"]


@pytest.mark.child
@pytest.mark.parametrize(
    ("kind", "module", "required"),
    [("xgboost-cpu.2-1", "xgboost", "xgboost-cpu"), ("tf-cpu.2-17.py310", "tensorflow", "tensorflow-cpu")],
)
def test_another_build_of_a_framework_is_no_second_framework(
    kind: str, module: str, required: str, tmp_path: Path
) -> None:
    """The image's own would be installed beside it, and each has files of the other."""
    image_uri = f"us-docker.pkg.dev/vertex-ai/training/{kind}:latest"
    package = direct_sdist(tmp_path, f"import {module}", requirements=(f"{required}>=2.1",))
    planned = plan_environment(EnvironmentSpec(packages=(package,), image_uri=image_uri), tmp_path / "home")
    assert planned.dependencies is not None and planned.dependencies.image_pins == ()


@pytest.mark.child
def test_a_distribution_of_the_image_is_installed_at_its_version(tmp_path: Path, wheelhouse: Path) -> None:
    for number in ("1.6.1", "1.9.0"):
        shutil.move(renamed(tmp_path, number), wheelhouse)
    package = direct_sdist(tmp_path, "import sklearn")
    planned = plan_environment(EnvironmentSpec(packages=(package,), image_uri=SKLEARN), tmp_path / "home")
    made = make_environment(planned, [].append)
    show = "import importlib.metadata as m; print(m.version('scikit-learn'))"
    done = subprocess.run([made.python, "-c", show], check=True, capture_output=True, text=True)
    assert done.stdout == "1.6.1\n"


@pytest.mark.child
def test_a_version_that_the_index_does_not_have_is_an_error(tmp_path: Path, wheelhouse: Path) -> None:
    """Another version than the image's is never taken in passing: it would be told too late."""
    shutil.move(renamed(tmp_path, "1.9.0"), wheelhouse)
    spec = EnvironmentSpec(packages=(direct_sdist(tmp_path, "import sklearn"),), image_uri=SKLEARN)
    with pytest.raises(
        EnvironmentFailed, match=r"scikit-learn==1\.6\.\*, which the pre-built image"
    ) as failed:
        make_environment(plan_environment(spec, tmp_path / "home"), [].append)
    assert failed.value.hint.startswith("Name it in the trainer's requirements")


@pytest.mark.parametrize("field", ["requirements", "image_pins", "image_constraints"])
def test_all_that_decides_on_versions_makes_another_environment(field: str) -> None:
    plan = DependencyPlan(python=PythonChoice(interpreter=base_interpreter()))
    bound = msgspec.structs.replace(plan, **{field: (("numpy<2",) if "image" in field else (("numpy<2",),))})
    assert plan.identity != bound.identity


@pytest.mark.child
def test_what_belongs_together_is_installed_together(tmp_path: Path, wheelhouse: Path) -> None:
    for name, versions in {"numpy": ("1.26.0", "2.4.0"), "setuptools": ("80.9.0", "82.0.0")}.items():
        for number in versions:
            shutil.move(wheel(tmp_path / number, name, number), wheelhouse)
    shutil.move(wheel(tmp_path, "xgboost", "1.6.2", ("numpy",)), wheelhouse)
    package = direct_sdist(tmp_path, "import xgboost", requirements=("numpy",))
    planned = plan_environment(EnvironmentSpec(packages=(package,), image_uri=XGBOOST), tmp_path / "home")
    made = make_environment(planned, [].append)
    show = "from importlib.metadata import version as v; print(*map(v, ('xgboost', 'numpy', 'setuptools')))"
    done = subprocess.run([made.python, "-c", show], check=True, capture_output=True, text=True)
    numpy = "1.26.0" if works_on("3.12", base_interpreter().short_version) else "2.4.0"
    assert done.stdout == f"1.6.2 {numpy} 80.9.0\n"


@pytest.mark.parametrize(
    ("image", "python", "pinned", "bounds"),
    [
        ("xgboost-cpu.1-1", "3.11", ["xgboost==1.1.*"], {"numpy<2", "pandas<3", "scikit-learn<1.6"}),
        ("xgboost-cpu.1-1", "3.13", ["xgboost"], set()),
        (
            "xgboost-cpu.1-4",
            "3.11",
            ["xgboost==1.4.*", "setuptools<81"],
            {"numpy<2", "pandas<3", "scikit-learn<1.6"},
        ),
        (
            "xgboost-cpu.1-6",
            "3.10",
            ["xgboost==1.6.*", "setuptools<81"],
            {"numpy<2", "pandas<3", "scikit-learn<1.6"},
        ),
        ("xgboost-cpu.1-6", "3.13", ["xgboost==1.6.*", "setuptools<81"], {"pandas<3", "scikit-learn<1.6"}),
        ("xgboost-cpu.2-1", "3.14", ["xgboost==2.1.*"], {"pandas<3"}),
        ("scikit-learn-cpu.0-23", "3.10", ["scikit-learn"], set()),
        ("sklearn-cpu.1-0", "3.10", ["scikit-learn==1.0.*"], {"numpy<2", "pandas<3"}),
        ("sklearn-cpu.1-0", "3.11", ["scikit-learn"], set()),
        ("sklearn-cpu.1-6", "3.13", ["scikit-learn==1.6.*"], {"pandas<3"}),
        ("pytorch-gpu.2-4.py310", "3.12", ["torch==2.4.*"], {"pandas<3"}),
        ("pytorch-gpu.2-4.py310", "3.13", ["torch"], set()),
        ("tf-cpu.2-17.py310", "3.12", ["tensorflow==2.17.*"], {"numpy<2", "pandas<3"}),
        ("tf-cpu.2-17.py310", "3.13", ["tensorflow"], set()),
    ],
)
def test_versions_follow_from_the_image_and_python(
    image: str, python: str, pinned: list[str], bounds: set[str]
) -> None:
    found = contents(f"us-docker.pkg.dev/vertex-ai/training/{image}:latest")
    assert found is not None
    assert list(pins(found.distributions[:1], python)) == pinned
    assert {line for line in constraints(found, python) if "<" in line} == bounds


@pytest.mark.child
def test_a_framework_is_installed_as_any_other_distribution(tmp_path: Path, wheelhouse: Path) -> None:
    """From the index, whatever is installed beside vtrain; and not where only the image is named."""
    python = base_interpreter().short_version
    number = "2.4.1" if works_on("3.12", python) else "2.9.0"
    shutil.move(wheel(tmp_path, "torch", number), wheelhouse)
    package = direct_sdist(tmp_path, "import torch; print(torch.VERSION)")
    spec = EnvironmentSpec(packages=(package,), image_uri=TORCH)
    made = make_environment(plan_environment(spec, tmp_path / "home"), [].append)
    argv = [made.python, "-m", "trainer.task"]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == f"{number}\n"
    unused = EnvironmentSpec(packages=(direct_sdist(tmp_path, "import json"),), image_uri=TORCH)
    planned = plan_environment(unused, tmp_path / "home")
    assert planned.dependencies is not None and planned.dependencies.image_pins == ()


def renamed(folder: Path, number: str) -> str:
    return wheel(folder / number, "scikit_learn", number)


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
    assert distribution_name(requirement) == name
