from __future__ import annotations

import os
import string

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from image_trees import BASE, PREBUILT, contents, entrypoint, instructions, plan, wheel

from vtrain.errors import ConfigError, PackagingError
from vtrain.packaging.prebuilt import HOST

PYPROJECT = '[build-system]\nrequires = ["setuptools>=70"]\nbuild-backend = "setuptools.build_meta"\n'
PROJECT = '[project]\nname = "tr"\nversion = "1"\ndependencies = ["six>=1.16"]\n'
TRAINER = {"trainer/__init__.py": "", "trainer/task.py": "print('trained')\n"}
NASTY = "\n\r\t \"'\\$`{}[]*?#;&|<>%!~=,éß中"
NAMES = st.text(string.ascii_lowercase + NASTY, min_size=1, max_size=12).filter(
    lambda name: name not in (".", "..")
)


def words(dockerfile: str) -> list[str]:
    return [word for word, _ in instructions(dockerfile)]


def test_layers_come_in_the_order_of_how_seldom_they_change(make_tree) -> None:
    tree = {"setup.py": "from setuptools import setup\nsetup(name='t', install_requires=['a'])\n"}
    tree |= {"requirements.txt": "b\n", "dist/p-1-py3-none-any.whl": wheel("p"), "data/d.txt": "d", **TRAINER}
    made = plan(
        make_tree(tree),
        requirements=("c",),
        extra_packages=("dist/p-1-py3-none-any.whl",),
        extra_dirs=("data",),
    )
    copied = [rest.split('"')[1] for word, rest in instructions(made.dockerfile) if word == "COPY"]
    assert copied == [
        "build-requirements/",
        "dependencies/",
        "requirements/",
        "more-requirements/",
        "packages/",
        "extra-dirs/",
        "code/",
    ]
    assert words(made.dockerfile)[0] == "FROM"
    assert words(made.dockerfile)[-1] == "ENTRYPOINT"
    files = contents(made)
    assert files["dependencies/requirements.txt"] == "a\n"
    assert files["requirements/requirements.txt"] == "b\n"
    assert files["more-requirements/requirements.txt"] == "c\n"
    assert {"packages/p-1-py3-none-any.whl", "extra-dirs/data/d.txt", "code/trainer/task.py"} < files.keys()
    assert "code/data/d.txt" not in files
    assert "code/dist/p-1-py3-none-any.whl" not in files


def test_the_plain_dockerfile_has_no_cache_mount(make_tree) -> None:
    made = plan(make_tree(TRAINER), requirements=("six",))
    assert "--mount=type=cache" in made.dockerfile
    assert "--no-cache-dir" not in made.dockerfile
    assert "--mount" not in made.plain_dockerfile
    assert "--no-cache-dir" in made.plain_dockerfile
    copied = words(made.plain_dockerfile)
    copied.remove("COPY")  # pip's configuration, which BuildKit mounts
    assert words(made.dockerfile) == copied


@pytest.mark.parametrize(
    ("base", "expected"),
    [(BASE, ["python", "-m", "trainer.task"]), (PREBUILT, ["python3", "-m", "trainer.task"])],
)
def test_prebuilt_images_have_python3_and_no_logging_hook(make_tree, base: str, expected: list[str]) -> None:
    made = plan(make_tree(TRAINER), base, requirements=("six",))
    assert entrypoint(made.dockerfile) == list(made.entrypoint) == expected
    assert ("rm -rf /var/sitecustomize" in made.dockerfile) == (base == PREBUILT)
    assert ("pip3 install" in made.dockerfile) == (base == PREBUILT)
    assert made.module_command("trainer.other") == (expected[0], "-m", "trainer.other")
    assert made.module_command("trainer.task") == ()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("sub/train.py", ["python", "sub/train.py"]),
        ("./sub/train.py", ["python", "sub/train.py"]),
        ("sub/train.sh", ["/bin/bash", "sub/train.sh"]),
        ("-x.py", ["python", "./-x.py"]),
        ("go", ["/usr/bin/env", "-S perl -w", "go"]),
    ],
)
def test_a_script_runs_by_its_suffix(make_tree, script: str, expected: list[str]) -> None:
    program = "#! /usr/bin/env -S perl -w \nprint 1;\n"
    folder = make_tree({"sub/train.py": "", "sub/train.sh": "", "-x.py": "", "go": program})
    assert entrypoint(plan(folder, script=script).dockerfile) == expected


def test_the_name_is_that_of_the_content(make_tree) -> None:
    tree = TRAINER | {"trainer/__main__.py": ""}
    folder = make_tree(tree)
    first = plan(folder)
    assert first.name == f"vtrain/trainer:{first.content_hash[:16]}"
    assert plan(folder) == first
    os.utime(folder / "trainer/task.py", (0, 0))
    assert plan(folder).name == first.name
    changed = {
        plan(folder, platform="linux/arm64").name,
        plan(folder, "python:3.12").name,
        plan(folder, requirements=("six",)).name,
        plan(folder, python_module="trainer").name,
    }
    (folder / "trainer/task.py").chmod(0o755)
    changed.add(plan(folder).name)
    (folder / "trainer/task.py").write_text("print('edited')\n")
    changed.add(plan(folder).name)
    assert first.name not in changed
    assert len(changed) == 6
    assert plan(make_tree(tree, name="elsewhere")).name == first.name


def test_a_project_is_installed_after_its_dependencies(make_tree) -> None:
    made = plan(
        make_tree({"pyproject.toml": PYPROJECT + PROJECT, "src/tr/__init__.py": "", "src/tr/task.py": ""}),
        python_module="tr.task",
    )
    assert contents(made)["dependencies/requirements.txt"] == "six>=1.16\n"
    assert "setuptools>=70" in contents(made)["build-requirements/requirements.txt"]
    last = instructions(made.dockerfile)[-4][1]
    assert "--no-deps" in last
    assert "/tmp/project" in last
    assert entrypoint(made.dockerfile) == ["python", "-m", "tr.task"]


def test_pip_resolves_dependencies_that_only_the_back_end_knows(make_tree) -> None:
    dynamic = PYPROJECT + '[project]\nname = "tr"\nversion = "1"\ndynamic = ["dependencies"]\n'
    setup = "import os\nfrom setuptools import setup\nsetup(install_requires=os.listdir('.'))\n"
    made = plan(make_tree({"pyproject.toml": dynamic, "setup.py": setup, **TRAINER}))
    assert "dependencies/requirements.txt" not in contents(made)
    assert "--no-deps" not in made.dockerfile


def test_a_back_end_that_may_ask_for_more_builds_in_isolation(make_tree) -> None:
    system = '[build-system]\nrequires = ["scikit-build-core"]\nbuild-backend = "scikit_build_core.build"\n'
    made = plan(make_tree({"pyproject.toml": system + PROJECT, **TRAINER}))
    assert "build-requirements/requirements.txt" not in contents(made)
    assert "--no-build-isolation" not in made.dockerfile


def test_a_version_from_version_control_is_given(make_tree) -> None:
    system = PYPROJECT.replace('"setuptools>=70"', '"setuptools", "setuptools-scm"')
    made = plan(make_tree({"pyproject.toml": system + PROJECT, **TRAINER}))
    assert "SETUPTOOLS_SCM_PRETEND_VERSION=0+vtrain" in made.dockerfile


def test_a_pyproject_that_only_lists_dependencies_is_not_installed(make_tree) -> None:
    made = plan(make_tree({"pyproject.toml": PROJECT, "other/__init__.py": "", **TRAINER}))
    assert contents(made)["dependencies/requirements.txt"] == "six>=1.16\n"
    assert "/tmp/project" not in made.dockerfile


def test_options_hashes_and_constraints_of_requirements_reach_pip(make_tree) -> None:
    tree = {
        "requirements.txt": "--extra-index-url https://h.invalid/cpu\n"
        "-r more/base.txt\nb==1 --hash=sha256:00\n",
        "more/base.txt": "-c limits.txt\na ; python_version > '3'  # comment\n-e .\n",
        "more/limits.txt": "a<9\n",
    }
    made = plan(make_tree({**tree, **TRAINER}))
    assert contents(made)["requirements/requirements.txt"].splitlines() == [
        "--extra-index-url https://h.invalid/cpu",
        "-c constraints-1.txt",
        "a ; python_version > '3'",
        "b==1 --hash=sha256:00",
    ]
    assert contents(made)["requirements/constraints-1.txt"] == "a<9\n"
    assert made.warnings == ()


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        ("six\nRUN evil", "not one line"),
        ("x @ https://example.invalid/\nRUN", "not one line"),
        ("six\x0bevil", "not one line"),
        ("./local.whl", "path on this machine"),
        ("--find-links=wheels", "path on this machine"),
        ("-cfile.txt", "path on this machine"),
        ("six; rm -rf /", "not a requirement"),
    ],
)
def test_a_requirement_that_pip_could_not_read_is_refused(make_tree, requirement: str, message: str) -> None:
    with pytest.raises(PackagingError, match=message):
        plan(make_tree(TRAINER), requirements=(requirement,))


def test_pyc_files_are_neither_copied_nor_deleted(make_tree) -> None:
    folder = make_tree({**TRAINER, "trainer/old.pyc": "x", "trainer/__pycache__/task.cpython-311.pyc": "x"})
    made = plan(folder)
    assert [name for name in contents(made) if name.endswith(".pyc")] == []
    assert len(list(folder.rglob("*.pyc"))) == 2


def test_the_ignore_file_decides_what_goes_in(make_tree) -> None:
    made = plan(make_tree({**TRAINER, ".gitignore": "data/\n", "data/big.bin": "x"}))
    assert not any("big.bin" in name for name in contents(made))
    assert "data/" in made.left_out


def test_missing_imports_are_told_and_refused_when_strict(make_tree) -> None:
    folder = make_tree({"trainer/__init__.py": "", "trainer/task.py": "import nowhere_at_all\n"})
    assert "nowhere_at_all" in plan(folder).warnings[0]
    assert plan(folder, requirements=("nowhere-at-all",)).warnings == ()
    with pytest.raises(PackagingError, match="nowhere_at_all"):
        plan(folder, strict=True)


def test_a_syntax_error_is_refused_before_anything_is_built(make_tree) -> None:
    with pytest.raises(PackagingError, match=r"trainer/task\.py:1"):
        plan(make_tree({"trainer/__init__.py": "", "trainer/task.py": "def ("}))


def test_a_base_is_needed_and_has_to_be_a_name(make_tree) -> None:
    folder = make_tree(TRAINER)
    with pytest.raises(ConfigError, match="no base image is named") as refused:
        plan(folder, "")
    image = f"--executor-image-uri={HOST}/sklearn-cpu.1-6:latest"
    assert refused.value.hint.startswith(f"For a trainer without a framework: {image}\n")
    for base in ("python\nRUN evil", "python 3", "$BASE", "--platform=x python"):
        with pytest.raises(ConfigError, match="is not the name of an image"):
            plan(folder, base)


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        ("import sklearn", f"For scikit-learn: --executor-image-uri={HOST}/sklearn-cpu.1-6:latest"),
        ("from torch import nn", f"For PyTorch: --executor-image-uri={HOST}/pytorch-xla.2-4.py310:latest"),
        ("import sklearn, xgboost as x", f"For XGBoost: --executor-image-uri={HOST}/xgboost-cpu.2-1:latest"),
    ],
)
def test_the_imports_suggest_a_base(make_tree, statement: str, hint: str) -> None:
    folder = make_tree({"trainer/task.py": "import trainer.model", "trainer/model.py": statement})
    with pytest.raises(ConfigError) as refused:
        plan(folder, "")
    assert hint in refused.value.hint


# names and requirements cannot write instructions

SHAPE = ["FROM", "USER", "RUN", "WORKDIR", "ENV", "ENV", "COPY", "ARG", "USER", "ENTRYPOINT"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=75)
@given(parts=st.lists(NAMES, min_size=1, max_size=3), suffix=st.sampled_from([".py", ".sh", ""]))
def test_no_file_name_writes_an_instruction(tmp_path_factory, parts: list[str], suffix: str) -> None:
    folder = tmp_path_factory.mktemp("tree")
    script = "/".join(parts) + suffix
    path = folder / script
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("" if suffix else "#!/bin/sh\n")
    try:
        made = plan(folder, script=script)
    except (PackagingError, ConfigError):
        assume(False)
    for text in (made.dockerfile, made.plain_dockerfile):
        assert words(text) == SHAPE
        assert (folder / entrypoint(text)[-1]).samefile(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=75)
@given(requirement=st.text(string.ascii_letters + NASTY + "@:/.-=\\\n", max_size=20))
def test_no_requirement_writes_an_instruction(make_tree, requirement: str) -> None:
    folder = make_tree(TRAINER)
    for given_requirement in (requirement, f"six{requirement}", f"x @ https://h.invalid/{requirement}"):
        try:
            made = plan(folder, requirements=(given_requirement,))
        except PackagingError:
            continue
        pip = contents(made).get("more-requirements/requirements.txt", "")
        assert len(pip.splitlines()) <= 1
        assert words(made.dockerfile) in (SHAPE, [*SHAPE[:6], "ARG", "COPY", "RUN", *SHAPE[6:]])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=30)
@given(name=NAMES)
def test_no_folder_or_package_name_writes_an_instruction(tmp_path_factory, name: str) -> None:
    folder = tmp_path_factory.mktemp("tree")
    assume("/" not in name)
    for path in ("task.py", f"{name}/data.txt", f"dist/{name}.tar.gz"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("")
    try:
        made = plan(folder, python_module="task", extra_dirs=(name,), extra_packages=(f"dist/{name}.tar.gz",))
    except (PackagingError, ConfigError):
        assume(False)
    assert words(made.dockerfile) == [*SHAPE[:6], "ARG", "COPY", "RUN", "COPY", *SHAPE[6:]]
    assert f"extra-dirs/{name}/data.txt" in contents(made)


# the user's own Dockerfile

OWN = """ARG V=1
FROM python:3.11 AS build
RUN x
FROM --platform=linux/amd64 debian:12
COPY --from=build /a /a
"""


def test_an_own_dockerfile_gets_the_folder_as_docker_would_send_it(make_tree) -> None:
    tree = {"Dockerfile": OWN, ".dockerignore": "*.log\nsecret\n!keep.log\n", "a.log": "", "keep.log": ""}
    tree |= {"secret/key": "", "sub/.gitignore": "*", "sub/b.pyc": "", ".git/HEAD": "x", "run.sh": ""}
    folder = make_tree(tree)
    made = plan(folder, "", dockerfile=folder / "Dockerfile")
    assert made.dockerfile == made.plain_dockerfile == OWN
    assert contents(made).keys() == {
        "Dockerfile",
        ".dockerignore",
        "keep.log",
        "sub/.gitignore",
        "sub/b.pyc",
        ".git/HEAD",
        "run.sh",
    }
    assert made.bases == ("python:3.11", "debian:12")
    assert made.entrypoint == made.module_command("other") == ()
    assert made.name.startswith("vtrain/project:")


def test_an_ignore_file_of_the_dockerfile_itself_comes_first(make_tree) -> None:
    folder = make_tree(
        {"gpu.Dockerfile": OWN, "gpu.Dockerfile.dockerignore": "a", ".dockerignore": "b", "a": "", "b": ""}
    )
    names = contents(plan(folder, "", dockerfile=folder / "gpu.Dockerfile")).keys()
    assert "a" not in names
    assert "b" in names


@pytest.mark.parametrize(
    ("content", "message"), [(None, "there is no file"), ("\n", "is empty"), (b"\xff", "UTF-8")]
)
def test_a_dockerfile_that_cannot_be_read_is_refused(make_tree, content, message: str) -> None:
    folder = make_tree(TRAINER if content is None else {"Dockerfile": content})
    with pytest.raises(ConfigError, match=message):
        plan(folder, "", dockerfile=folder / "Dockerfile")


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ("ENV API_TOKEN abc123def", "API_TOKEN"),
        ("ENV A=1 \\\n# the token\n  API_TOKEN=abc123def", "API_TOKEN"),
        ("ARG API_TOKEN=abc123def", "API_TOKEN"),
        ("ARG API_TOKEN", ""),
        ("ARG API_TOKEN\nENV API_TOKEN=$API_TOKEN", ""),
        ('ENV API_TOKEN="${API_TOKEN}"', ""),
        ("ENV TOKENIZERS_PARALLELISM=false", ""),
    ],
)
def test_a_secret_that_anybody_can_read_in_the_image_is_told(make_tree, lines: str, named: str) -> None:
    folder = make_tree({"Dockerfile": f"FROM scratch\n{lines}\nCOPY . /\n"})
    warnings = plan(folder, "", dockerfile=folder / "Dockerfile").warnings
    assert [f"sets {named}, which looks like a secret" in warning for warning in warnings] == [True] * bool(
        named
    )
