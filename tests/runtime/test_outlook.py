"""What an environment will lack: known from the trainer and the image, before anything is made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from environment_packages import direct_sdist, sdist, wheel

from vtrain.packaging.sdist import plan_sdist
from vtrain.packaging.source import TrainerSource
from vtrain.runtime.environments import frameworks
from vtrain.runtime.environments.interpreters import base_interpreter
from vtrain.runtime.environments.outlook import Outlook, folder_trainer, outlook, packaged_trainer

HOST = "us-docker.pkg.dev/vertex-ai/training/"
TORCH = HOST + "pytorch-gpu.2-4.py310:latest"
OLD = HOST + "scikit-learn-cpu.0-23:latest"
HERE = base_interpreter().short_version


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No framework is installed beside vtrain."""
    monkeypatch.setattr(frameworks, "find_framework", lambda name, import_names: None)


def in_folder(folder: Path, code: str, image: str = TORCH, **files: str) -> Outlook:
    for name, text in {"trainer/task.py": code, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    plan = plan_sdist(TrainerSource(folder=folder, python_module="trainer.task"))
    return outlook(image, folder_trainer(plan), plan.source.folder)


def packaged(*packages: str, image: str = TORCH) -> Outlook:
    return outlook(image, packaged_trainer(map(Path, packages), "trainer.task"), Path("nowhere"))


def test_a_missing_framework_is_said_once_with_both_ways_out(tmp_path: Path, bare: None) -> None:
    for found in (
        in_folder(tmp_path / "f", "import torch"),
        packaged(direct_sdist(tmp_path, "import torch")),
    ):
        (line,) = found.missing
        assert line.endswith(
            "install 'torch==2.4.*'), or run in an environment that has it (--environment=current)."
        )
        assert (
            "trainer/task.py:1: torch is imported and not installed here; the image brings torch==2.4.*"
            in line
        )
        assert "pip --python" in line and "requirements" in line
        assert not any("torch" in notice for notice in found.notices)


def test_an_import_that_may_not_run_is_a_notice(tmp_path: Path, bare: None) -> None:
    code = "try:\n    import torch\nexcept ImportError:\n    torch = None\n"
    for found in (in_folder(tmp_path / "f", code), packaged(direct_sdist(tmp_path, code))):
        assert found.missing == ()
        assert "torch is imported and not installed here" in found.notices[-1]


@pytest.mark.parametrize("requirement", ["torch>=2", "torchvision", "pytorch_lightning==2.1", "accelerate"])
def test_a_requirement_that_brings_the_framework_is_enough(
    tmp_path: Path, bare: None, requirement: str
) -> None:
    found = packaged(direct_sdist(tmp_path, "import torch", (requirement,)))
    assert not any("torch" in line for line in (*found.missing, *found.notices))
    other = in_folder(tmp_path / "f", "import torch", **{"requirements.txt": requirement})
    assert other == found


def test_a_framework_among_the_packages_is_enough(tmp_path: Path, bare: None) -> None:
    given = wheel(tmp_path, "torch", "2.4.0")
    assert packaged(given, direct_sdist(tmp_path, "import torch")).missing == ()


def test_another_framework_than_the_images_is_a_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frameworks, "find_framework", lambda name, _: ("torch", "2.9.1"))
    found = packaged(direct_sdist(tmp_path, "import torch"))
    assert (found.missing, found.notices[-1]) == (
        (),
        "torch 2.9.1 is used, as installed beside vtrain; the image has torch==2.4.*.",
    )


def test_another_version_than_the_images_is_a_notice(tmp_path: Path) -> None:
    package = direct_sdist(tmp_path, "import sklearn")
    python, version = packaged(package, image=OLD).notices
    assert python == f"Python {HERE} is used here; the image has Python 3.7."
    assert version.startswith(
        f"The image has scikit-learn==0.23.*, which Python {HERE} cannot have: the newest"
    )
    decided = direct_sdist(tmp_path, "import sklearn", ("scikit-learn==1.5.2",))
    assert packaged(decided, image=OLD).notices == (python,)


def test_nothing_is_guessed_where_only_a_build_tells_the_requirements(tmp_path: Path, bare: None) -> None:
    assert packaged(sdist(tmp_path, "import torch"), image=HOST + "pytorch-gpu.2-4:latest").missing == ()
    setup = "import os\nfrom setuptools import setup\nsetup(name='t', install_requires=os.listdir('.'))\n"
    found = in_folder(tmp_path / "f", "import torch", **{"setup.py": setup, "trainer/__init__.py": ""})
    assert found == Outlook(
        notices=(f"Python {HERE} is used here; the image has Python 3.10.",) * (HERE != "3.10")
    )


@pytest.mark.parametrize(("requires", "missing"), [("", 1), ("install_requires=['torch']", 0)])
def test_a_tarred_folder_tells_its_requirements(
    tmp_path: Path, bare: None, requires: str, missing: int
) -> None:
    (tmp_path / "package" / "trainer").mkdir(parents=True)
    (tmp_path / "package" / "trainer" / "task.py").write_text("import torch")
    (tmp_path / "package" / "setup.py").write_text(
        f"from setuptools import setup\nsetup(name='t', packages=['trainer'], {requires})\n"
    )
    subprocess.run(["tar", "czf", "t.tar.gz", "package"], cwd=tmp_path, check=True)
    assert len(packaged(str(tmp_path / "t.tar.gz")).missing) == missing


def test_an_image_that_is_not_known_is_said(tmp_path: Path) -> None:
    (notice,) = packaged(direct_sdist(tmp_path, "print(1)"), image="example.test/mine:1").notices
    assert notice.startswith("vtrain does not know what the image example.test/mine:1 contains")


def test_without_an_image_everything_that_is_missing_here_is_told(tmp_path: Path, bare: None) -> None:
    code = "import os, numpy, numpy.random, yaml, requests\nfrom torch import nn\nimport pandas\n"
    found = in_folder(tmp_path / "f", code, image="")
    assert [line.split(";")[0] for line in found.missing] == [
        f"{tmp_path}/f/trainer/task.py:1: nothing provides the import `numpy`",
        f"{tmp_path}/f/trainer/task.py:1: nothing provides the import `yaml`",
        f"{tmp_path}/f/trainer/task.py:1: nothing provides the import `requests`",
        f"{tmp_path}/f/trainer/task.py:2: {ABSENT.format('torch')}",
    ]  # packaging itself warns of pandas, which no image has by default
    assert found.notices == ()
    packed = packaged(direct_sdist(tmp_path, code), image="")
    assert len(packed.missing) == 5
    assert packed.missing[-1].endswith("nothing provides the import `pandas`; add pandas to requirements")


ABSENT = (
    "{0} is imported and not installed here. Add it to requirements, install it beside vtrain "
    f"(pip --python {sys.executable} install '{{0}}'), or run in an environment that has it "
    "(--environment=current)."
)


def test_what_comes_with_a_requirement_is_there(tmp_path: Path, bare: None) -> None:
    code = "import numpy, yaml, requests, torch"
    files = {"requirements.txt": "transformers\ntorch\n"}
    assert in_folder(tmp_path / "f", code, image="", **files) == Outlook()


def test_a_file_that_the_entry_does_not_reach_is_no_matter(tmp_path: Path, bare: None) -> None:
    files = {"trainer/other.py": "import torch, numpy\n", "tools/plot.py": "import keras"}
    assert in_folder(tmp_path / "f", "import os", image="", **files) == Outlook()
    assert "import torch" in (tmp_path / "f" / "trainer/other.py").read_text()


def test_a_function_leads_to_imports_that_may_run(tmp_path: Path, bare: None) -> None:
    code = "def late():\n    from trainer import model\n"
    found = in_folder(tmp_path / "f", code, image="", **{"trainer/model.py": "import torch, numpy"})
    assert found == Outlook(notices=(ABSENT.format("torch"),))


def test_an_import_that_only_the_image_provides_is_told(tmp_path: Path, bare: None) -> None:
    """Vertex AI's image has it by way of torchvision, which nobody installs here."""
    found = in_folder(tmp_path / "f", "from PIL import Image")
    assert found.missing == (
        f"{tmp_path}/f/trainer/task.py:1: the image brings `PIL`, and nothing does here; add pillow to "
        "requirements",
    )


@pytest.mark.parametrize("image", ["", HOST + "pytorch-gpu.2-4:latest"])
def test_a_requirement_that_is_not_known_may_bring_a_framework(
    tmp_path: Path, bare: None, image: str
) -> None:
    code = "import torch, yaml\ndef late():\n    import tensorflow\n"
    packed = packaged(direct_sdist(tmp_path, code, ("stable-baselines3",)), image=image)
    assert packed.missing == ()
    assert "/task.py:1: no requirement is known to bring the import `torch`; if none does, add" in "\n".join(
        packed.notices
    )
    assert not any("not installed here" in line for line in packed.notices)
    found = in_folder(tmp_path / "f", code, image=image, **{"requirements.txt": "stable-baselines3\n"})
    assert found.missing == ()
    known = packaged(direct_sdist(tmp_path, code, ("numpy",)), image=image)
    assert len(known.missing) == 2
