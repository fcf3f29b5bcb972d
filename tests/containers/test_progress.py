"""Progress in few lines: of pulls, of BuildKit, of the classic builder and of Podman's."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtrain.containers.progress import (
    LAST_LINES,
    LINE_LIMIT,
    BuildSteps,
    ClassicProgress,
    LayerProgress,
    follow_buildx,
    plain_text,
)


def _documents(*documents: dict[str, object], indent: int | None) -> list[bytes]:
    """Documents as lines of `--progress=rawjson`, whose older versions indent."""
    return (
        "".join(json.dumps(document, indent=indent) + "\n" for document in documents)
        .encode()
        .splitlines(True)
    )


@pytest.mark.parametrize("indent", [None, 2])
def test_buildkits_own_steps_are_not_told(lines: list[str], indent: int | None) -> None:
    steps = BuildSteps(lines.append)
    own = [
        {"digest": name, "name": name, "started": "2026"}
        for name in ("[internal] load .dockerignore", "copy /context /")
    ]
    step = {"digest": "s", "name": "[2/2] RUN make", "started": "2026"}
    documents = _documents(
        {"vertexes": [{"digest": "s", "name": step["name"]}]},
        {"vertexes": [*own, step, step], "logs": [_log("s", b"one\ntw")], "statuses": [{"id": "x"}]},
        {"logs": [_log("s", b"o"), _log(own[0]["digest"], b"x\n")]},
        {"vertexes": [{**step, "completed": "2026"}]},
        {"vertexes": [{**step, "digest": "c", "name": "[3/3] COPY", "completed": "2026", "cached": True}]},
        indent=indent,
    )
    said = follow_buildx([b"WARNING: old\n", *documents, b"ERROR: failed\n", b"  x\n"], steps)
    assert lines == ["[2/2] RUN make", "    one", "    two", "[3/3] COPY (cached)"]
    assert said == b"WARNING: old\nERROR: failed\n  x\n"


def _log(vertex: str, data: bytes) -> dict[str, str]:
    return {"vertex": vertex, "data": base64.b64encode(data).decode()}


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
