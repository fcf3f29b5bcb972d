"""`vtrain package image`, from the command line."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.tables import rows

from vtrain.containers.engine import Engine
from vtrain.containers.images import find_image, remove_image

BASE = "vtrain-test/python:3.11"


@pytest.fixture
def trainer(tmp_path: Path) -> Path:
    """A folder with a trainer unlike any other."""
    folder = tmp_path / "project"
    (folder / "trainer").mkdir(parents=True)
    (folder / "trainer" / "__init__.py").write_text("")
    (folder / "trainer" / "task.py").write_text(f"print('trained')  # {uuid.uuid4().hex}\n")
    return folder


def image_flags(folder: Path, base: str = BASE) -> list[str]:
    return [
        *("package", "image", f"--local-package-path={folder}"),
        *("--python-module=trainer.task", f"--executor-image-uri={base}"),
    ]


# without an engine


def test_the_dockerfile_is_printed_without_an_engine(vtrain, trainer: Path) -> None:
    ended = vtrain(*image_flags(trainer, "python:3.11"), "--print-dockerfile")
    assert ended.code == 0
    assert "FROM python:3.11\n" in ended.out
    assert ended.out.endswith('ENTRYPOINT ["python", "-m", "trainer.task"]\n')
    assert ended.err == ""
    ended = vtrain(*image_flags(trainer))
    assert (ended.code, "DOCKER_HOST" in ended.err) == (1, True), "nothing is built without one"


def test_a_dry_run_tells_what_would_be_built_and_pushed(vtrain, trainer: Path) -> None:
    ended = vtrain(*image_flags(trainer), "--dry-run")
    assert ended.code == 0
    assert re.fullmatch(r"vtrain/trainer:[0-9a-f]{16}\n", ended.out)
    assert ended.err.startswith(f"Would build {ended.out.strip()} on {BASE}: 2 files")
    named = ("--dry-run", "--output-image-uri=gcr.io/p/t:1")
    ended = vtrain(*image_flags(trainer), *named, "--push")
    assert (ended.code, ended.err.endswith("\nWould push gcr.io/p/t:1.\n")) == (0, True)
    printed = json.loads(vtrain(*image_flags(trainer), *named, "--format=json").out)
    assert printed == {"image": "gcr.io/p/t:1", "id": "", "digest": "", "built": False}


@pytest.mark.parametrize("text", ["FROM a AS\n", "FROM scratch\n"])
def test_what_an_image_is_built_on_is_left_out_where_nothing_is_known(
    vtrain, trainer: Path, text: str
) -> None:
    (trainer / "Dockerfile").write_text(text)
    flags = (f"--local-package-path={trainer}", f"--dockerfile={trainer / 'Dockerfile'}", "--dry-run")
    ended = vtrain("package", "image", *flags)
    assert ended.code == 0, ended.err
    assert re.match(r"Would build vtrain/project:[0-9a-f]{16}: 3 files", ended.err)


REFUSED = rows(
    """
    2 | --push | --push needs --output-image-uri
    1 | --push --output-image-uri=user/name | names no registry
    1 | '--output-image-uri=Not A Name' | is not the name of an image
    2 | --pull=perhaps | expected missing, always or never
    2 | --platform=amd64 | --platform: 'amd64' is not a platform
    2 | --platform= | --platform: '' is not a platform
    2 | --package-format=sdist | makes no sdist
    2 | --dockerfile=Dockerfile | exclude each other
    1 | '--executor-image-uri=a b' | is not the name of an image
    1 | --executor-image-uri=UPPER/x | --executor-image-uri: 'UPPER/x' is not the name of an image
    1 | --executor-image-uri= | no base image is named
    1 | --python-module=trainer.tusk | the nearest is trainer.task
    2 | --python-module= | vtrain package image . -m MODULE. Or give --dockerfile
    """,
    3,
)


@pytest.mark.parametrize(("code", "flags", "message"), REFUSED)
def test_what_is_wrong_is_refused_first(vtrain, trainer: Path, code: str, flags: str, message: str) -> None:
    ended = vtrain(*image_flags(trainer), *shlex.split(flags))
    assert (ended.code, ended.out) == (int(code), "")
    assert message in ended.err


def test_the_trainer_is_named_as_for_run(vtrain, trainer: Path) -> None:
    flags = vtrain(*image_flags(trainer), "--print-dockerfile")
    short = (str(trainer), "-m", "trainer.task", f"--executor-image-uri={BASE}", "--print-dockerfile")
    named = vtrain("package", "image", *short)
    assert (named.code, named.out) == (0, flags.out)
    by_flags = vtrain("package", "sdist", f"--local-package-path={trainer}", "--python-module=trainer.task")
    by_name = vtrain("package", "sdist", str(trainer), "-m", "trainer.task")
    assert (by_name.code, by_name.out) == (0, by_flags.out)


def test_a_hint_names_the_command_that_was_typed(vtrain, trainer: Path) -> None:
    for command in ("package sdist", "package image", "submit", "run"):
        ended = vtrain(*command.split(), str(trainer))
        assert ended.code == 2
        assert f"vtrain {command} {trainer} -m MODULE" in ended.err


def test_a_folder_with_a_dockerfile_needs_no_program(vtrain, trainer: Path) -> None:
    (trainer / "Dockerfile").write_text("FROM scratch\nCOPY . /\n")
    flags = (f"--dockerfile={trainer / 'Dockerfile'}", "--print-dockerfile")
    ended = vtrain("package", "image", str(trainer), *flags)
    assert (ended.code, ended.out) == (0, "FROM scratch\nCOPY . /\n")


def test_package_sdist_makes_no_image(vtrain, trainer: Path) -> None:
    flags = ["--python-module=trainer.task", f"--local-package-path={trainer}", "--package-format=image"]
    ended = vtrain("package", "sdist", *flags)
    assert ended.code == 2
    assert "vtrain package image" in ended.err


# with an engine


@pytest.fixture
def names(docker_engine: Engine, base_image: str) -> Iterator[list[str]]:
    """Names of images to remove after the test."""
    names: list[str] = []
    yield names
    for name in names:
        remove_image(docker_engine, name)


def output_of(image: str) -> str:
    """What a container of the image prints."""
    argv = ["docker", "run", "--rm", "--network=none", image]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


@pytest.mark.docker
def test_the_second_run_builds_nothing(vtrain, trainer: Path, names: list[str]) -> None:
    first = vtrain(*image_flags(trainer))
    names.append(first.out.strip())
    assert first.code == 0, first.err
    assert first.out.startswith("vtrain/trainer:")
    assert "built in" in first.err
    assert output_of(names[0]) == "trained\n"
    second = vtrain(*image_flags(trainer), "--format=json")
    document = json.loads(second.out)
    assert (document["image"], document["built"], document["digest"]) == (names[0], False, "")
    assert ": cached.\n" in second.err


@pytest.mark.docker
def test_a_name_of_its_own(vtrain, trainer: Path, names: list[str], docker_engine: Engine) -> None:
    name = f"vtrain-test/{uuid.uuid4().hex}:x"
    ended = vtrain(*image_flags(trainer), f"--output-image-uri={name}", "--format=json")
    names.append(name)
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    image = find_image(docker_engine, name)
    assert document["image"] == name
    assert image is not None
    assert image.id == document["id"]
    names += image.tags


@pytest.mark.docker
def test_an_own_dockerfile(vtrain, trainer: Path, names: list[str]) -> None:
    (trainer / "Dockerfile").write_text(f'FROM {BASE}\nCOPY . /srv\nENTRYPOINT ["ls", "-A", "/srv"]\n')
    flags = (f"--local-package-path={trainer}", f"--dockerfile={trainer / 'Dockerfile'}")
    ended = vtrain("package", "image", *flags)
    names.append(ended.out.strip())
    assert ended.code == 0, ended.err
    assert output_of(names[0]).split() == ["Dockerfile", "trainer"]


@pytest.mark.docker
def test_the_image_is_pushed_and_its_digest_told(
    vtrain, trainer: Path, names: list[str], loopback_registry: str, docker_engine: Engine
) -> None:
    name = f"{loopback_registry}/demo/{uuid.uuid4().hex}:1"
    ended = vtrain(*image_flags(trainer), f"--output-image-uri={name}", "--push", "--format=json")
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert document["image"] == name
    assert document["digest"].startswith("sha256:")
    image = find_image(docker_engine, name)
    assert image is not None
    names += image.tags
    pulled = f"{name.rpartition(':')[0]}@{document['digest']}"
    for tag in image.tags:
        remove_image(docker_engine, tag)
    for line in docker_engine.client.pull(pulled, stream=True, decode=True):
        assert "error" not in line
    names.append(pulled)


@pytest.mark.docker
def test_an_unchanged_tree_of_2000_files_needs_no_sdk(vtrain, trainer: Path, names: list[str]) -> None:
    for number in range(2000):
        folder = trainer / "trainer" / f"part{number % 40}"
        folder.mkdir(exist_ok=True)
        (folder / f"module{number}.py").write_text(f"X = {number}\n")
    first = vtrain(*image_flags(trainer))
    names.append(first.out.strip())
    assert first.code == 0, first.err
    argv = [sys.executable, "-X", "importtime", "-m", "vtrain", *image_flags(trainer)]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.stdout == first.out, done.stderr
    assert ": cached.\n" in done.stderr
    assert "vtrain.containers" in done.stderr and "docker.api" not in done.stderr


@pytest.mark.docker
@pytest.mark.parametrize("buildkit", ["1", "0"])
def test_an_interrupted_build_says_so_in_one_line(
    trainer: Path, docker_engine: Engine, base_image: str, buildkit: str
) -> None:
    (trainer / "Dockerfile").write_text(f"FROM {base_image}\nRUN : {uuid.uuid4().hex}; echo up; sleep 30\n")
    flags = [f"--local-package-path={trainer}", f"--dockerfile={trainer / 'Dockerfile'}"]
    argv = [sys.executable, "-m", "vtrain", "package", "image", *flags]
    environ = {**os.environ, "DOCKER_BUILDKIT": buildkit}
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
    ) as run:
        assert run.stdout is not None and run.stderr is not None
        until_up = iter(run.stderr.readline, "    up\n")
        assert all(until_up)
        run.send_signal(signal.SIGINT)
        assert (run.stderr.read(), run.stdout.read(), run.wait(30)) == ("Interrupted.\n", "", 130)


@pytest.mark.docker
def test_a_dockerfile_whose_first_line_does_not_parse(vtrain, trainer: Path, docker_engine: Engine) -> None:
    (trainer / "Dockerfile").write_text(f"FROM {BASE} AS\n")
    flags = (f"--local-package-path={trainer}", f"--dockerfile={trainer / 'Dockerfile'}")
    ended = vtrain("package", "image", *flags)
    assert ended.code == 1
    assert re.search("parse error (on )?line 1", ended.err)
    assert re.match(r"Building vtrain/project:[0-9a-f]{16} …\n", ended.err)


@pytest.mark.docker
def test_bake_runs_the_very_image(vtrain, trainer: Path, names: list[str]) -> None:
    made = vtrain(*image_flags(trainer))
    names.append(made.out.strip())
    flags = [flag for flag in image_flags(trainer) if flag.startswith("--")]
    ran = vtrain("custom-jobs", "local-run", "--bake", *flags)
    assert ran.code == 0, ran.err
    assert f"Image {made.out.strip()}: cached." in ran.err
    listed = vtrain(
        "custom-jobs", "list", "--format=value(jobSpec.workerPoolSpecs[0].containerSpec.imageUri)"
    )
    assert listed.out == made.out
