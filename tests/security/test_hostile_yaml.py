"""Documents that a loader of YAML would follow until the process ends, or its memory."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vtrain.errors import ConfigError
from vtrain.messages.yaml_reader import DEEPEST, load_entries, load_yaml

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)
"""Ten billion values in ten lines."""
TOO_DEEP = f"it is nested deeper than {DEEPEST} levels"
DEEPER_YET = f"({TOO_DEEP}|exceeded maximum nesting depth)"
"""libyaml looks ahead, and has a limit of its own since the version of PyYAML 6.0.4."""
HOSTILE = [
    pytest.param("[" * 100_000, DEEPER_YET, id="lists"),
    pytest.param('{"a":' * 100_000, DEEPER_YET, id="mappings"),
    pytest.param("- " * 100_000, DEEPER_YET, id="block lists"),
    pytest.param("? " * 100_000, DEEPER_YET, id="keys"),
    pytest.param(LAUGHS, "it has more than 100,000 values", id="aliases of aliases"),
]


@pytest.mark.parametrize("flag", ["--config", "--flags-file"])
@pytest.mark.parametrize(("text", "reason"), HOSTILE)
def test_a_file_of_hostile_yaml_is_refused_by_name(tmp_path: Path, flag: str, text: str, reason: str) -> None:
    """In a process of its own, which libyaml would end by a signal."""
    file = tmp_path / "c.yaml"
    file.write_text(text)
    argv = [sys.executable, "-m", "vtrain", "custom-jobs", "create", "--display-name=x", "--backend=process"]
    ended = subprocess.run([*argv, f"{flag}={file}"], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode in (1, 2), ended.stderr[-500:]
    assert re.search(rf"not a YAML document: {reason}\.", ended.stderr), ended.stderr[-500:]
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("read", [load_yaml, load_entries])
def test_a_document_is_read_up_to_the_limit(read: Callable[[str, str], object]) -> None:
    flat = "- {a: 1}\n" * 50
    assert len(list(read(flat, "f"))) == 50  # type: ignore[call-overload]
    deep = "{a: " * DEEPEST + "1" + "}" * DEEPEST
    assert read(deep, "f")
    with pytest.raises(ConfigError, match=TOO_DEEP):
        read("{a: " + deep + "}", "f")


def test_an_alias_of_itself_is_refused() -> None:
    padding = "# " + "x" * DEEPEST + "\n"
    with pytest.raises(ConfigError):
        load_yaml(padding + "a: &a {b: *a}\n", "f")
