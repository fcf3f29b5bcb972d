"""Progress in few lines: of pulls, of BuildKit, of the classic builder and of Podman's."""

from __future__ import annotations

import base64

from hypothesis import given
from hypothesis import strategies as st

from vtrain.containers.progress import (
    LAST_LINES,
    LINE_LIMIT,
    BuildSteps,
    ClassicProgress,
    LayerProgress,
    Vertex,
    VertexLog,
    follow_trace,
    plain_text,
    read_trace,
)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _encoded(vertexes: list[Vertex], logs: list[VertexLog]) -> str:
    """A trace message, with fields that we do not read between those that we do."""
    message = b""
    for vertex in vertexes:
        body = _field(1, vertex.digest.encode()) + _field(2, b"input") + _field(3, vertex.name.encode())
        body += _field(4, 1) if vertex.cached else b""
        body += _field(5, b"\x08\x01") if vertex.started else b""
        body += _field(6, b"\x08\x02") if vertex.completed else b""
        body += _field(7, vertex.error.encode()) if vertex.error else b""
        message += _field(1, body + _varint(99 << 3 | 1) + bytes(8) + _varint(98 << 3 | 5) + bytes(4))
    message += _field(2, b"")
    for log in logs:
        message += _field(3, _field(1, log.digest.encode()) + _field(3, 2) + _field(4, log.text))
    return base64.b64encode(message).decode()


VERTEXES = st.builds(
    Vertex,
    digest=st.text(max_size=80),
    name=st.text(max_size=300),
    cached=st.booleans(),
    started=st.booleans(),
    completed=st.booleans(),
    error=st.text(max_size=40),
)
LOGS = st.builds(VertexLog, digest=st.text(max_size=80), text=st.binary(max_size=400))


@given(st.lists(VERTEXES, max_size=4), st.lists(LOGS, max_size=4))
def test_a_trace_is_read_as_it_was_written(vertexes: list[Vertex], logs: list[VertexLog]) -> None:
    assert read_trace(_encoded(vertexes, logs)) == (tuple(vertexes), tuple(logs))


@given(st.binary(max_size=200))
def test_what_is_no_trace_is_a_value_error(data: bytes) -> None:
    try:
        vertexes, logs = read_trace(base64.b64encode(data).decode())
    except ValueError:
        return
    assert all(isinstance(vertex, Vertex) for vertex in vertexes)
    assert all(isinstance(log, VertexLog) for log in logs)


def test_buildkits_own_steps_are_not_told(lines: list[str]) -> None:
    steps = BuildSteps(lines.append)
    own = [
        Vertex(digest=name, name=name, started=True)
        for name in ("[internal] load .dockerignore", "copy /context /")
    ]
    step = Vertex(digest="s", name="[2/2] RUN make", started=True)
    follow_trace(_encoded([*own, step, step], [VertexLog(digest="s", text=b"one\ntw")]), steps)
    follow_trace(
        _encoded([], [VertexLog(digest="s", text=b"o"), VertexLog(digest=own[0].digest, text=b"x\n")]), steps
    )
    follow_trace(_encoded([Vertex(digest="s", name=step.name, started=True, completed=True)], []), steps)
    assert lines == ["[2/2] RUN make", "    one", "    two"]


def test_the_first_failure_counts_and_not_those_it_causes(lines: list[str]) -> None:
    steps = BuildSteps(lines.append)
    for key in "ab":
        steps.begin(key, f"[{key}] RUN x")
    steps.write("b", b"".join(b"%d\n" % number for number in range(LAST_LINES + 20)))
    steps.fail("a", "[a] RUN x", "context canceled")
    steps.fail("b", "[b] RUN x", "exit code: 1")
    steps.fail("a", "[a] RUN x", "exit code: 2")
    assert steps.failed is not None
    assert steps.failed.name == "[b] RUN x"
    assert list(steps.failed.last) == [str(number) for number in range(20, LAST_LINES + 20)]


def test_a_line_without_an_end_is_told_in_pieces(lines: list[str]) -> None:
    steps = BuildSteps(lines.append)
    steps.begin("a", "a")
    for _ in range(3):
        steps.write("a", b"x" * LINE_LIMIT)
    steps.finish("a")
    assert [len(line) for line in lines] == [1, 2 * LINE_LIMIT + 4, LINE_LIMIT + 4]


@given(st.text())
def test_control_sequences_are_taken_out(text: str) -> None:
    plain = plain_text(f"\x1b[31m{text}\x1b]0;x\x07")
    assert "\x1b" not in plain
    assert "\x07" not in plain


def _classic(texts: list[str], failure: str, lines: list[str]) -> BuildSteps:
    steps = BuildSteps(lines.append)
    builder = ClassicProgress(steps)
    for text in texts:
        builder.take(text)
    if failure:
        builder.fail(failure)
    else:
        builder.end()
    return steps


def test_the_classic_builders_text(lines: list[str]) -> None:
    texts = [
        "Step 1/3 : FROM a",
        "\n",
        " ---> 0123456789ab\n",
        "Step 2/3 : RUN b",
        "\n",
        " ---> Using cache\n",
    ]
    texts += [
        " ---> 0123456789ab\n",
        "Step 3/3 : RUN c",
        "\n",
        " ---> Running in 0123\n",
        "\x1b[91mw",
        "ord\n\x1b[0m",
    ]
    texts += ["end", "Removing intermediate container 0123\n", " ---> 456\n", "Successfully built 456\n"]
    _classic(texts, "", lines)
    assert lines == ["[1/3] FROM a", "[2/3] RUN b (cached)", "[3/3] RUN c", "    word", "    end"]


def test_podmans_text(lines: list[str]) -> None:
    texts = ["STEP 1/2: FROM a\n", "STEP 2/2: RUN b\n", "word\n"]
    steps = _classic(texts, 'building at STEP "RUN b": while running runtime: exit status 3', lines)
    assert lines == ["[1/2] FROM a", "[2/2] RUN b", "    word"]
    assert steps.failed is not None
    assert list(steps.failed.last) == ["word"]


def test_a_pull_takes_few_lines(lines: list[str]) -> None:
    clock = [0.0]
    pull = LayerProgress("Pulling", "a:1", lines.append, lambda: clock[0])
    pull.take({"status": "Pulling from a", "id": "1"})
    for layer in ("x", "y"):
        pull.take({"status": "Pulling fs layer", "id": layer, "progressDetail": {}})
    pull.take({"status": "Already exists", "id": "z", "progressDetail": {}})
    for step in range(1000):
        clock[0] = step * 0.005
        pull.take(
            {
                "status": "Downloading",
                "id": "x",
                "progressDetail": {"current": step * 1000, "total": 2_000_000},
            }
        )
    pull.take({"status": "Pull complete", "id": "x", "progressDetail": {}})
    pull.end()
    assert len(lines) == 4
    assert lines[0] == "Pulling a:1"
    assert lines[1].startswith("Pulling a:1: 1 of 3 layers, 0.4 of 2.0 MB")
    assert lines[-1] == "Pulled a:1 (5.0 s, 1 of 3 layers were there)"


def test_a_layer_that_has_not_moved_yet(lines: list[str]) -> None:
    """Docker's JSON leaves out a `current` of 0, as it does with images in containerd's store."""
    clock = [0.0]
    pull = LayerProgress("Pulling", "a:1", lines.append, lambda: clock[0])
    clock[0] = 3.0
    pull.take({"status": "Downloading", "id": "x", "progressDetail": {"total": 2_000_000}})
    assert lines == ["Pulling a:1", "Pulling a:1: 0 of 1 layers, 0.0 of 2.0 MB"]
