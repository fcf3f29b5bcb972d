"""Any command line at all ends with an exit code and a sentence: never with a traceback, never with a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from vtrain import cli
from vtrain.flags.command import CommandInfo, build_command

EXIT_CODES = {0, 1, 2, 125}
LEFT_OUT = {
    "dashboard": "it serves until somebody ends it",
    "emulator start": "it serves until somebody ends it",
    "emulator exec": "it runs whatever it is given",
    "emulator storage": "it serves until somebody ends it",
    "package image": "it builds with an engine",
}
BASES = {
    "custom-jobs create": (
        "--display-name=a",
        "--worker-pool-spec=machine-type=n1-standard-4,python-module=m",
    ),
    "custom-jobs local-run": ("--executor-image-uri=i", "--python-module=m"),
    "persistent-resources create": (
        "--persistent-resource-id=a",
        "--resource-pool-spec=machine-type=n1-standard-4,replica-count=1",
    ),
    "models upload": ("--display-name=a", "--container-image-uri=i"),
    "models copy": ("--source-model=a",),
    "models predict": ("--json-request=/dev/null",),
    "custom-jobs environment": ("--worker-pool-spec=machine-type=n1-standard-4,python-module=m",),
}
"""What makes a command line of some commands whole, so that the rest of it is read, too."""
NASTY = (
    *("", " ", "-", "--", "^", "^^", "^;^", "^;^a=1;b=2", "=", "a=", "=b", "a=b", "a=b,c", ",", ",,", "a,b"),
    *(
        "~nosuchuser/x",
        "/nonexistent/x",
        ".",
        "/",
        "//",
        "..",
        "~",
        "/dev/null",
        "x" * 300,
        "é€😀",
        "\x1b[31m",
    ),
    *("0", "-1", "1", "9" * 30, "9" * 5000, "1e400", "nan", "inf", "0x1", "1_0", "٣", "1.5", "1.5.5s", "9d"),
    *("9" * 400 + "d", "3600s", "PT1H", "{", "}", "[", "]", "[]", "{}", "(", ")", '"', "'", "\\", "%", "\n"),
    *(
        "a.b",
        "a[0].b=1",
        "displayName=x",
        "labels.a=b",
        "scheduling.timeout=1",
        "workerPoolSpecs[0]={",
        "a:b",
    ),
    *(
        "name=a AND",
        "NOT",
        "name~[",
        "createTime>-P1Y",
        "state:(a b",
        "json(name",
        "table(a:sort=1)",
        "value[](",
    ),
    *(
        "~name,state",
        "gs://",
        "gs://b/x",
        "file:///x",
        "http://",
        "projects/p/locations/l/customJobs/1",
        "true",
    ),
    *(
        "type=bind,source=/,target=/x",
        "nofile=1:2",
        "a:1.2.3.4",
        "linux/amd64",
        "2g",
        "us-central1",
        "default",
    ),
)
VALUES = st.sampled_from(NASTY) | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def all_commands() -> dict[str, CommandInfo]:
    found = {
        f"{group} {info.name}": info for group, listed in cli.GROUPS.items() for info in listed.commands()
    }
    found |= {name: cli.command_alone(name) for name in cli.COMMANDS}
    return {line: info for line, info in found.items() if line not in LEFT_OUT}


def command_lines(line: str, info: CommandInfo) -> st.SearchStrategy[tuple[str, ...]]:
    """Command lines of one command, that do nothing: with --dry-run, or as there is no such job."""
    command = build_command(info)
    flags = [p for p in command.params if p.param_type_name == "option" and "--help" not in p.opts]
    places = [VALUES for p in command.params if p.param_type_name == "argument"]
    words = st.lists(st.sampled_from(flags).flatmap(written), max_size=5).map(tuple)
    base = st.sampled_from([(), BASES[line]]) if line in BASES else st.just(())
    dry = ("--dry-run",) if any("--dry-run" in p.opts for p in flags) else ()
    return st.builds(
        lambda base, words, places: (*line.split(), *base, *words, *dry, *places),
        base,
        words,
        st.tuples(*places),
    )


def written(flag: Any) -> st.SearchStrategy[str]:
    name = flag.opts[0]
    if name == "--backend":
        return st.sampled_from(["--backend=process", "--backend=docker", "--backend=local", "--backend=x"])
    return st.just(name) if flag.is_flag else VALUES.map(lambda value: f"{name}={value}")


@pytest.mark.child
@pytest.mark.parametrize("line", sorted(all_commands()))
@settings(
    max_examples=settings.default.max_examples // 2,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_every_command_line_has_an_answer(
    line: str, data: st.DataObject, vtrain: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VTRAIN_BACKEND", "process")  # no service is asked
    monkeypatch.setenv("UV_OFFLINE", "1")  # nor a package index
    monkeypatch.chdir(tmp_path)
    argv = data.draw(command_lines(line, all_commands()[line]))
    expect_an_answer(vtrain, *argv)


DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(NASTY) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "jobSpec workerPoolSpecs containerSpec imageUri args env name value machineSpec machineType "
                "replicaCount scheduling timeout displayName pythonPackageSpec packageUris pythonModule "
                "studySpec labels trialJobSpec metrics metricId parameters resourcePools diskSpec".split()
            )
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "line",
    [
        "custom-jobs create --display-name=a --config=- --dry-run",
        "custom-jobs create --config=- --allow-unknown-fields --dry-run",
        "hp-tuning-jobs create --display-name=a --config=/dev/stdin --dry-run",
        "persistent-resources create --persistent-resource-id=a --config=- --dry-run",
        "--flags-file=- custom-jobs list",
        "models predict a --json-request=- --backend=process",
        "models upload --display-name=a --container-image-uri=i --explanation-method=xrai "
        "--explanation-metadata-file=- --dry-run",
    ],
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(document=DOCUMENTS)
@example(
    document={"jobSpec": {"workerPoolSpecs": [{"pythonPackageSpec": {"packageUris": ["file:///a\0b"]}}]}}
)
def test_every_config_file_has_an_answer(
    line: str, document: object, vtrain: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from vtrain.output.language.yaml_writer import dump_yaml

    monkeypatch.setenv("VTRAIN_BACKEND", "process")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_text("")
    expect_an_answer(vtrain, *line.split(), stdin=dump_yaml(document))


@pytest.mark.parametrize(
    "line", ["custom-jobs create --display-name=a --config=- --dry-run", "--flags-file=- gc"]
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(text=st.binary(max_size=60) | st.text("{}[]:-,&*!|>'\"%@`#? \n\tab1~<=").map(str.encode))
def test_a_file_of_any_bytes_has_an_answer(
    line: str, text: bytes, vtrain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VTRAIN_BACKEND", "process")
    expect_an_answer(vtrain, *line.split(), stdin=text)


def expect_an_answer(vtrain: Any, *argv: str, stdin: str | bytes = b"") -> None:
    code, out, err = vtrain(*argv, stdin=stdin)
    assert "failed unexpectedly" not in err, err
    assert "Traceback" not in err, err
    assert code in EXIT_CODES, err
    asks_for_silence = not {"--verbosity=none", "--verbosity=critical"}.isdisjoint(argv)
    assert code == 0 or err or "Usage:" in out or asks_for_silence, "not a word of what is wrong"
