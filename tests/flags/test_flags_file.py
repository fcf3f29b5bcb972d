"""--flags-file: files become words, and the words' values are what the file holds."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vtrain.flags
from vtrain.commands.job_groups import CUSTOM_JOBS
from vtrain.errors import ConfigError, UsageError
from vtrain.flags.command import Invocation, build_command
from vtrain.flags.flags_file import ONE_EACH, expand_flags_files
from vtrain.flags.grammar import join_items, split_dict, split_list
from vtrain.flags.row import FlagGroup, flag_name, rows_of


def expand(folder: Path, text: str) -> list[str]:
    path = folder / "f.yaml"
    path.write_text(text)
    return expand_flags_files([f"--flags-file={path}"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--display-name: 5", ["--display-name=5"]),
        ("--polling-interval: 1.50", ["--polling-interval=1.50"]),
        ("--quiet:", ["--quiet"]),
        ("--quiet: true", ["--quiet"]),
        ("--quiet: false", ["--no-quiet"]),
        ("--no-quiet: false", ["--quiet"]),
        ("--args: [a, b]", ["--args=a,b"]),
        ('--args: ["a,b", c]', ["--args=^;^a,b;c"]),
        ("--args: []", ["--args="]),
        ("--labels: {a: b, c: d}", ["--labels=a=b,c=d"]),
        ("--env: {A: 'b,c', D: 1}", ["--env=A=b,c", "--env=D=1"]),
        ("--set: [a.b=1, c=2]", ["--set=a.b=1", "--set=c=2"]),
        ("- --args: [a]\n- --args: [b]", ["--args=a", "--args=b"]),
        (
            "--worker-pool-spec: [{machine-type: a}, {}]",
            ["--worker-pool-spec=machine-type=a", "--worker-pool-spec="],
        ),
        ("--worker-pool-spec: {requirements: [a, 'b;c']}", ["--worker-pool-spec=^|^requirements=^,^a,b;c"]),
        ('{"--args": ["x"]}', ["--args=x"]),
    ],
)
def test_each_kind_of_value(tmp_path: Path, text: str, words: list[str]) -> None:
    assert expand(tmp_path, text) == words


def test_flags_that_are_repeated_are_not_joined() -> None:
    """Their metavar has no `…`, as each of them takes one item; --mount has Docker's commas."""
    repeated = {
        flag_name(field, row)
        for module in iter_modules(vtrain.flags.__path__, "vtrain.flags.")
        for group in vars(import_module(module.name)).values()
        if isinstance(group, type) and issubclass(group, FlagGroup)
        for field, row in rows_of(group).items()
        if row.default == [] and not row.is_argument and "…" not in row.metavar
    }
    assert repeated | {"--mount"} == ONE_EACH


def test_flags_stand_where_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("--a: 1\n--b: 2\n")
    assert expand_flags_files(["x", "--flags-file", str(path), "--a=3"]) == ["x", "--a=1", "--b=2", "--a=3"]


def test_a_file_may_name_others(tmp_path: Path) -> None:
    for name in ("g", "h"):
        (tmp_path / name).write_text(f"--{name}: 1\n")
    words = expand(tmp_path, f"--flags-file: [{tmp_path}/g, {tmp_path}/h]\n--z: 2\n")
    assert words == ["--g=1", "--h=1", "--z=2"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("# only words\n", "expected a mapping"),
        ("--a: [", "not a YAML document"),
        ("- 1\n", "f.yaml:1: expected a mapping"),
        ("--a: 1\n--a: 2\n", "stands here twice"),
        ("--a: [[b]]\n", "too deep"),
    ],
)
def test_files_that_hold_no_flags(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        expand(tmp_path, text)


def test_a_missing_file_and_one_that_names_itself(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        expand_flags_files(["--flags-file=missing.yaml"])
    with pytest.raises(ConfigError, match="name of the file is empty"):
        expand_flags_files(["--flags-file="])
    with pytest.raises(ConfigError, match="names itself"):
        expand(tmp_path, f"--flags-file: {tmp_path}/f.yaml")


def test_a_key_without_dashes_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"f\.yaml:2: 'region' is not a flag"):
        expand(tmp_path, "--a: 1\nregion: x\n")


def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "stdin"
    path.write_text("--a: b\n")
    with path.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert expand_flags_files(["--flags-file", "-"]) == ["--a=b"]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["^", "^^", ",", "a,", ";"]
)


@given(st.lists(TEXTS), st.sampled_from([",", ";"]))
def test_joined_items_split_into_the_same(items: list[str], delimiter: str) -> None:
    assert split_list(join_items(items, delimiter), "--args", delimiter) == tuple(items)


@given(st.dictionaries(TEXTS.filter(lambda key: key and "=" not in key), TEXTS))
def test_joined_dictionaries_split_into_the_same(items: dict[str, str]) -> None:
    text = join_items([f"{key}={value}" for key, value in items.items()])
    assert split_dict(text, "--labels") == items


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["--no-dry-run"], False),
        (["--no-dry-run", "--dry-run"], True),
        (["--dry-run", "--no-dry-run"], False),
    ],
)
def test_every_switch_has_its_opposite_and_the_later_counts(words: list[str], given: bool) -> None:
    info = next(command for command in CUSTOM_JOBS if command.name == "create")
    command = build_command(info)
    context = command.make_context("create", list(words), obj=Invocation())
    assert context.params["dry_run"] is given
