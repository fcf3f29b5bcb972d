"""Text files in another encoding than UTF-8: read as pip reads them, or refused with what they are."""

from __future__ import annotations

import codecs

import pytest

from vtrain.core.config_file import read_config
from vtrain.errors import ConfigError, PackagingError
from vtrain.flags.flags_file import expand_flags_files
from vtrain.packaging.image_plan import plan_image
from vtrain.packaging.project import read_project
from vtrain.packaging.requirements import read_requirements
from vtrain.packaging.sdist import plan_sdist
from vtrain.packaging.source import TrainerSource
from vtrain.packaging.tree import belonging_files
from vtrain.pyproject import nearest_pyproject

POWERSHELL = "is UTF-16, as PowerShell writes it"


@pytest.mark.parametrize(
    "content",
    [
        "six==1.0  # für uns\r\n".encode("utf-16"),
        codecs.BOM_UTF16_BE + "six==1.0\r\n".encode("utf-16-be"),
        "six==1.0\n".encode("utf-32"),
        "six==1.0\n".encode("utf-8-sig"),
    ],
)
def test_requirements_are_read_as_pip_reads_them(make_tree, content):
    assert read_requirements((), make_tree({"requirements.txt": content})).lines == ("six==1.0",)
    nested = make_tree(
        {"requirements.txt": "-r more.txt\n-c bounds.txt\n", "more.txt": content, "bounds.txt": content}
    )
    found = read_requirements((), nested)
    assert found.lines == ("six==1.0",)
    ((_, constraints),) = found.constraints
    assert constraints == "six==1.0\n"  # in UTF-8, which no line of it gives another name


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("six  # für uns\n".encode("latin-1"), "it is not UTF-8 text"),
        ("six\n".encode("utf-16")[:-1], "it is not UTF-16 text"),
    ],
)
def test_requirements_that_pip_cannot_read_either(make_tree, content, words):
    folder = make_tree({"requirements.txt": content})
    with pytest.raises(PackagingError) as refused:
        read_requirements((), folder)
    assert refused.value.message == f"Cannot read the requirements in {folder}/requirements.txt: {words}."
    assert refused.value.hint == "Save it as UTF-8."


@pytest.mark.parametrize("name", [".vtrainignore", ".gcloudignore", ".dockerignore", ".gitignore"])
def test_an_ignore_file_of_powershell_leaves_out_what_it_names(make_tree, name):
    folder = make_tree({"a.py": "", "data/x.csv": "1", name: "data/\r\n".encode("utf-16")})
    assert "data/x.csv" not in belonging_files(folder).files


def test_files_that_flags_name(make_tree):
    folder = make_tree(
        {
            "job.yaml": "displayName: für uns\n".encode("utf-16"),
            "job.json": '{"displayName": "für uns"}'.encode("utf-8-sig"),
            "flags.yaml": "--name: für uns\n".encode("utf-16"),
        }
    )
    for name in ("job.yaml", "job.json"):
        assert read_config(str(folder / name), "a job").content == {"displayName": "für uns"}
    assert expand_flags_files([f"--flags-file={folder / 'flags.yaml'}"]) == ["--name=für uns"]
    (folder / "job.yaml").write_bytes("a: b\n".encode("utf-16")[:-1])
    with pytest.raises(ConfigError, match="is not UTF-16 text"):
        read_config(str(folder / "job.yaml"), "a job")


def test_files_that_their_tools_read_in_utf_8_alone(make_tree):
    toml, cfg = '[project]\nname = "a"\n', "[metadata]\nname = a\n"
    folder = make_tree({"pyproject.toml": toml.encode("utf-16")})
    with pytest.raises(PackagingError, match=POWERSHELL):
        read_project(folder)
    with pytest.raises(ConfigError, match=POWERSHELL) as refused:
        nearest_pyproject(folder)
    assert "Save it as UTF-8" in refused.value.hint
    (folder / "pyproject.toml").write_bytes(toml.encode("utf-8-sig"))
    with pytest.raises(PackagingError, match="it begins with a byte-order mark, which TOML does not have"):
        read_project(folder)
    (folder / "pyproject.toml").write_bytes("# für\n[tool.x]\n".encode("latin-1"))
    with pytest.raises(PackagingError, match="it is not UTF-8 text"):
        read_project(folder)
    (folder / "pyproject.toml").unlink()
    (folder / "setup.cfg").write_bytes(cfg.encode("utf-16"))
    with pytest.raises(PackagingError, match=POWERSHELL):
        read_project(folder)
    (folder / "Dockerfile").write_bytes("FROM x\n".encode("utf-16"))
    with pytest.raises(ConfigError, match=POWERSHELL):
        plan_image(TrainerSource(folder=folder), "", dockerfile=folder / "Dockerfile")


def test_a_vtrain_table_below_a_mark_is_read(make_tree):
    text = '[tool.vtrain.job]\nmodule = "trainer.task"\n'
    assert nearest_pyproject(make_tree({"pyproject.toml": text.encode("utf-8-sig")})).settings.job


@pytest.mark.parametrize(
    ("content", "words"),
    [("print(1)\r\n".encode("utf-16"), POWERSHELL), (b"# f\xfcr\n", "missing encoding declaration")],
)
def test_a_trainer_that_python_cannot_read(make_tree, content, words):
    with pytest.raises(PackagingError, match=words):
        plan_sdist(TrainerSource(folder=make_tree({"a.py": content}), script="a.py"))


def test_imports_are_found_in_any_encoding(make_tree):
    code = "# coding: latin-1\nimport nothing_of_that_name  # für\n".encode("latin-1")
    folder = make_tree({"a.py": code, "b.py": b"\xef\xbb\xbfimport neither\n"})
    (warning,) = plan_sdist(TrainerSource(folder=folder, script="a.py")).warnings
    assert "nothing_of_that_name" in warning
    (warning,) = plan_sdist(TrainerSource(folder=folder, script="b.py")).warnings
    assert "neither" in warning
