"""Builds on a real engine, by both of its builders."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from lib.engine_relay import path_with, relay
from lib.second_engine import SecondEngine
from lib.stand_in_engine import stand_in_engine
from lib.waiting import wait_until_gone

from vtrain.containers import build
from vtrain.containers.build import BuildRequest, ContextFile, base_images, build_image, has_buildx
from vtrain.containers.discovery import EngineAddress
from vtrain.containers.engine import Engine, connect
from vtrain.containers.images import find_image
from vtrain.errors import EngineAwayError, ImageError

pytestmark = pytest.mark.docker
BUILDKIT = pytest.param(
    "buildkit", marks=pytest.mark.skipif(not has_buildx(), reason='no "docker buildx" (.ci/install-buildx)')
)
BUILDERS = (BUILDKIT, "classic")
NAMES = (
    "plain.txt",
    "--dash.txt",
    "a b/c d.txt",
    "ümlaut/日本.txt",
    "new\nline.txt",
    "l" * 200 + "/" + "m" * 200,
)


@pytest.fixture(params=BUILDERS)
def builder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The builder that builds from now on."""
    if request.param == "classic":
        monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    else:
        monkeypatch.delenv("DOCKER_BUILDKIT", raising=False)
    name: str = request.param
    return name


class Bench:
    """Builds images for one test, and keeps what was told."""

    def __init__(
        self, engine: Engine, base: str, new_name: Callable[[], str], discard: Callable[[str], None]
    ) -> None:
        self.engine = engine
        self.base = base
        self.lines: list[str] = []
        self.name = new_name()
        self._discard = discard

    def build(self, instructions: str, *files: ContextFile, **more: object) -> str:
        """Build `instructions` on the base image."""
        text = f"FROM {self.base}\n{instructions}\n"
        request = BuildRequest(tags=(self.name,), dockerfile=text, files=files, **more)  # type: ignore[arg-type]
        built = build_image(self.engine, request, self.lines.append)
        self._discard(built)
        return built

    def output(self, *argv: str) -> str:
        """What a command prints in a container of the image."""
        client = self.engine.client
        made = client.create_container(self.name, list(argv))["Id"]
        try:
            client.start(made)
            client.wait(made)
            return str(client.logs(made).decode())
        finally:
            client.remove_container(made, force=True)


@pytest.fixture
def bench(
    docker_engine: Engine, base_image: str, new_name: Callable[[], str], discard: Callable[[str], None]
) -> Bench:
    """A place to build one image."""
    return Bench(docker_engine, base_image, new_name, discard)


@pytest.mark.usefixtures("builder")
def test_steps_and_their_lines_are_told(bench: Bench) -> None:
    built = bench.build(
        f"ARG WORD\nRUN echo hello $WORD {bench.name}\nCOPY a.txt /a\n",
        ContextFile(name="a.txt", content=b"abc"),
        labels={"vtrain.kind": "test", "quote": '"\n'},
        build_args={"WORD": "big $HOME"},
    )
    image = find_image(bench.engine, bench.name)
    assert image is not None
    assert image.id == built
    assert image.labels == {"vtrain.test-base": "1", "vtrain.kind": "test", "quote": '"\n'}
    assert f"    hello big $HOME {bench.name}" in bench.lines
    step = next(line for line in bench.lines if "RUN echo" in line)
    assert step.startswith("[")
    assert not step.endswith("(cached)")
    assert bench.output("cat", "/a") == "abc"


@pytest.mark.usefixtures("builder")
def test_a_second_build_is_cached(bench: Bench) -> None:
    file = ContextFile(name="a.txt", content=b"abc")
    first = bench.build(f"COPY a.txt /a\nRUN echo {bench.name}\n", file)
    bench.lines.clear()
    assert bench.build(f"COPY a.txt /a\nRUN echo {bench.name}\n", file) == first
    assert sum(line.endswith("(cached)") for line in bench.lines) >= 2
    assert f"    {bench.name}" not in bench.lines


@pytest.mark.usefixtures("builder")
def test_a_step_that_fails_is_named_with_its_last_lines(bench: Bench) -> None:
    with pytest.raises(ImageError) as failed:
        bench.build("RUN echo 'error: no libfoo'; : shutting down; seq 1 30; echo last; exit 7")
    sentence, *last = failed.value.message.split("\n")
    assert sentence.endswith("seq 1 30; echo last; exit 7 ended with exit code 7.")
    assert "  error: no libfoo" in last
    assert "  last" in last
    assert "  30" in last
    assert "  20" not in last
    assert find_image(bench.engine, bench.name) is None


@pytest.mark.usefixtures("builder")
def test_a_full_disk_has_its_own_sentence(bench: Bench) -> None:
    with pytest.raises(ImageError, match="no space left on the Docker engine's disk in RUN") as failed:
        bench.build("RUN echo 'cp: error writing: No space left on device'; exit 1")
    assert "docker system prune" in failed.value.hint


@pytest.mark.usefixtures("builder")
def test_a_file_that_is_not_in_the_context(bench: Bench) -> None:
    with pytest.raises(ImageError, match="COPY nowhere /x") as failed:
        bench.build("COPY nowhere /x")
    assert "not found" in failed.value.message
    assert "ignore file" in failed.value.hint


@pytest.mark.usefixtures("builder")
def test_a_dockerfile_that_does_not_parse(bench: Bench) -> None:
    with pytest.raises(ImageError) as failed:
        bench.build("FETCH x")
    assert re.fullmatch(  # engines since 25 say "on line"
        r"The image cannot be built: dockerfile parse error (on )?line 2: unknown instruction: FETCH\.",
        failed.value.message,
    )


@pytest.mark.usefixtures("builder")
def test_a_base_that_cannot_be_had(docker_engine: Engine, loopback_registry: str) -> None:
    request = BuildRequest(tags=(), dockerfile=f"FROM {loopback_registry}/none/base:1\nRUN true\n")
    with pytest.raises(ImageError, match=f"{loopback_registry}/none/base:1.* not found"):
        build_image(docker_engine, request, print)


@pytest.mark.usefixtures("builder")
def test_names_of_files_survive(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"content")
    files = [ContextFile(name=f"in/{name}", content=tmp_path / "source") for name in NAMES]
    program = ContextFile(name="in/run.sh", content=b"#!/bin/sh\necho ran", executable=True)
    bench.build('COPY ["in", "/in/"]\nRUN /in/run.sh', *files, program)
    listing = (
        "import json, os; os.chdir('/in'); "
        "print(json.dumps([os.path.join(d, f) for d, _, fs in os.walk('.') for f in fs]))"
    )
    found = json.loads(bench.output("python3", "-c", listing))
    assert set(found) == {f"./{name}" for name in (*NAMES, "run.sh")}


@pytest.mark.usefixtures("builder")
def test_a_dockerfile_of_the_context_is_not_sent_twice(bench: Bench) -> None:
    text = f"FROM {bench.base}\nCOPY . /all/\n"
    file = ContextFile(name="how/Dockerfile", content=text.encode())
    request = BuildRequest(tags=(bench.name,), dockerfile=text, files=(file,), dockerfile_name=file.name)
    build_image(bench.engine, request, bench.lines.append)
    assert bench.output("find", "/all", "-type", "f") == "/all/how/Dockerfile\n"


@pytest.mark.usefixtures("builder")
def test_an_ignore_file_in_the_context_is_a_file_like_others(bench: Bench) -> None:
    ignore = ContextFile(name=".dockerignore", content=b"*\n")
    bench.build("COPY a.txt /a", ignore, ContextFile(name="a.txt", content=b"abc"))
    assert bench.output("cat", "/a") == "abc"


@pytest.mark.usefixtures("builder")
def test_long_lines_and_odd_bytes_come_whole(bench: Bench) -> None:
    odd = r"b'x'*20000 + b'\xff\n' + b'10%\r100%\n\033[31mred\033[0m\nend'"
    bench.build(f'RUN : {bench.name}; python3 -c "import sys; sys.stdout.buffer.write({odd})"')
    told = [line.strip() for line in bench.lines]
    assert "x" * 20000 + "\ufffd" in told
    assert [line for line in told if line in ("10%", "100%", "red", "end")] == ["100%", "red", "end"]


def test_buildkit_has_cache_mounts_and_classic_its_own_dockerfile(bench: Bench, builder: str) -> None:
    mounted = "RUN --mount=type=cache,target=/cache touch /cache/x && echo buildkit > /how"
    plain = f"FROM {bench.base}\nRUN echo classic > /how\n"
    bench.build(mounted, plain_dockerfile=plain)
    assert bench.output("cat", "/how") == f"{builder}\n"


@pytest.fixture
def no_buildx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A PATH with a docker command that has no plugins."""
    program = tmp_path / "docker"
    program.write_text("#!/bin/sh\necho \"docker: 'buildx' is not a docker command.\" >&2\nexit 1\n")
    program.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", path_with(tmp_path))
        patch.setattr(build, "PLUGIN_FOLDERS", ())
        has_buildx.cache_clear()
        yield
    has_buildx.cache_clear()


@pytest.mark.usefixtures("no_buildx")
def test_without_buildx_the_classic_builder_builds(bench: Bench) -> None:
    plain = f"FROM {bench.base}\nRUN echo classic > /how\n"
    bench.build("RUN echo buildkit > /how", plain_dockerfile=plain)
    assert bench.output("cat", "/how") == "classic\n"


def test_podman_builds_without_buildx(monkeypatch: pytest.MonkeyPatch) -> None:
    with stand_in_engine() as podman, monkeypatch.context() as patch:
        patch.setattr(build, "has_buildx", lambda: True)
        patch.delenv("DOCKER_BUILDKIT")
        podman.version = {"Version": "5.4.2", "Components": [{"Name": "Podman Engine"}]}
        address = EngineAddress(host=podman.host, origin="test")
        request = BuildRequest(tags=("a/b:1",), dockerfile="FROM python\n")
        with closing(connect(address)) as engine:
            build_image(engine, request, print)
        assert [made.name for made in podman.builds] == ["a/b:1"]


@pytest.mark.skipif(not has_buildx(), reason='no "docker buildx" (.ci/install-buildx)')
def test_docker_itself_finds_a_plugin_that_lies_elsewhere(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "PLUGIN_FOLDERS", ())
    bench.build("RUN --mount=type=cache,target=/cache echo buildkit > /how")
    assert bench.output("cat", "/how") == "buildkit\n"


@pytest.mark.usefixtures("no_buildx")
def test_the_classic_builder_takes_no_secrets(bench: Bench) -> None:
    with pytest.raises(ImageError, match="The classic builder would keep a login in a layer") as refused:
        bench.build("COPY . /x", secret="a login")
    assert "Install Docker's plugin buildx" in refused.value.hint


@pytest.mark.usefixtures("builder")
@pytest.mark.parametrize("builder", [BUILDKIT], indirect=True)
def test_ctrl_c_ends_the_build(bench: Bench) -> None:
    """The step that runs is ended on the engine too."""

    def interrupt(line: str) -> None:
        if line.strip() == "begun":
            raise KeyboardInterrupt

    text = f"FROM {bench.base}\nRUN : {bench.name}; echo begun; sleep 600\n"
    with pytest.raises(KeyboardInterrupt):
        build_image(bench.engine, BuildRequest(tags=(), dockerfile=text), interrupt)
    wait_until_gone(lambda: [line for line in _command_lines() if bench.name in line])


def _command_lines() -> Iterator[str]:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield file.read_text(errors="replace")


def test_docker_buildkit_0_takes_the_classic_builder(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    bench.build("RUN echo buildkit > /how", plain_dockerfile=f"FROM {bench.base}\nRUN echo plain > /how\n")
    assert bench.output("cat", "/how") == "plain\n"


def test_another_platform_needs_no_emulation_to_copy(
    docker_engine: Engine, new_name: Callable[[], str]
) -> None:
    request = BuildRequest(
        tags=(new_name(), new_name()),
        dockerfile="FROM scratch\nCOPY a /a\n",
        files=(ContextFile(name="a", content=b"a"),),
        platform="linux/arm64",
    )
    built = build_image(docker_engine, request, print)
    image = find_image(docker_engine, built)
    assert image is not None
    assert image.platform == "linux/arm64"
    assert set(image.tags) == set(request.tags)


@pytest.mark.usefixtures("builder")
def test_a_file_that_cannot_be_read_stops_the_build(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"gone\.txt cannot be read"):
        bench.build("COPY . /x", ContextFile(name="gone.txt", content=tmp_path / "gone.txt"))


@pytest.mark.usefixtures("builder")
def test_an_engine_that_goes_away_while_building(engine_address: EngineAddress, bench: Bench) -> None:
    if not engine_address.host.startswith("unix://"):
        pytest.skip("the engine is not on a socket of this machine")
    with relay(engine_address.host.removeprefix("unix://"), limit=1500) as port:
        engine = connect(EngineAddress(host=f"tcp://127.0.0.1:{port}", origin="test"))
        text = "FROM scratch\nCOPY a /a\n" + "ENV A=b\n" * 30
        files = (ContextFile(name="a", content=b"a"),)
        request = BuildRequest(tags=(bench.name,), dockerfile=text, files=files)
        with closing(engine), pytest.raises(EngineAwayError, match="went away; it cannot build the image"):
            build_image(engine, request, print)


@pytest.mark.engine
@pytest.mark.usefixtures("builder")
def test_an_engine_that_is_killed_while_a_step_runs(own_engine: SecondEngine, base_image: str) -> None:
    def kill(line: str) -> None:
        if line.strip() == "begun":
            own_engine.kill()

    request = BuildRequest(tags=(), dockerfile=f"FROM {base_image}\nRUN echo begun; sleep 5\n")
    with closing(connect(own_engine.address)) as engine, pytest.raises(EngineAwayError, match="went away"):
        build_image(engine, request, kill)


def test_bases_are_read_from_the_dockerfile() -> None:
    text = (
        "ARG V=1\nFROM --platform=linux/amd64 a/b:1 AS one\nFROM one\nfrom c \\\n  as two\n"
        "RUN <<EOF cat\nFROM table\nEOF\nFROM $V\nFROM scratch\nCOPY --from=x / /\nFROM a/b:1\n"
    )
    assert base_images(text) == ("a/b:1", "c")


@pytest.mark.usefixtures("builder")
@pytest.mark.parametrize(
    ("instruction", "program"),
    [
        ('RUN ["python9", "-m", "x"]', "python9"),
        ("RUN pip9 install x", "pip9"),
        ('RUN ["/bin/sh9"]', "/bin/sh9"),
    ],
)
def test_a_program_that_the_image_does_not_have(bench: Bench, instruction: str, program: str) -> None:
    with pytest.raises(ImageError) as failed:
        bench.build(instruction)
    sentence = failed.value.message.split("\n")[0]
    assert sentence in (
        f"The image cannot be built: it has no {program}, which {instruction} runs.",
        f"The image cannot be built: it has no {program}, which {instruction.replace(', ', ',')} runs.",
    )
    wanted = "/bin/sh9" if program == "/bin/sh9" else "Python and pip"
    assert f"Take a base image with {wanted}" in failed.value.hint


@pytest.mark.usefixtures("builder")
@pytest.mark.parametrize("instruction", ["RUN /etc/passwd", 'RUN ["/etc/passwd"]'])
def test_a_program_that_cannot_be_executed(bench: Bench, instruction: str) -> None:
    with pytest.raises(ImageError) as failed:
        bench.build(instruction)
    sentence = failed.value.message.split("\n")[0]
    assert sentence == f"The image cannot be built: {instruction} cannot be executed."
    assert "executable" in failed.value.hint
