"""The help of commands: groups of flags, examples that parse, the width of the terminal."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vtrain import cli, commands
from vtrain.flags.command import CommandInfo, Invocation, build_command, common_flags
from vtrain.flags.help_page import common_page, page_text
from vtrain.flags.options import CommonFlags
from vtrain.flags.topics import topic_of, topics

ROOT = str(commands.__path__[0]).rpartition("/vtrain/")[0]


def every_command() -> dict[str, CommandInfo]:
    """All commands by their names as they are typed."""
    found = {
        f"{group} {info.name}": info for group, listed in cli.GROUPS.items() for info in listed.commands()
    }
    return found | {name: cli.command_alone(name) for name in cli.COMMANDS}


COMMANDS = every_command()
EXAMPLES = [
    command
    for examples in (cli.EXAMPLES, *(info.examples for info in COMMANDS.values()))
    for _, command in examples
]


@pytest.mark.parametrize("argv", [(), ("custom-jobs",), ("custom-jobs", "create"), ("package", "sdist")])
def test_all_ways_to_ask_give_the_same_help(vtrain: Any, argv: tuple[str, ...]) -> None:
    ended = vtrain(*argv, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(" ".join(["Usage: vtrain", *argv]))
    assert vtrain(*argv, "-h") == ended
    assert vtrain("help", *argv) == ended


def test_the_root_lists_every_command_once(vtrain: Any) -> None:
    listed = re.findall(r"^  ([a-z-]+) +[A-Z]", vtrain("--help").out, re.MULTILINE)
    assert sorted(listed) == sorted([*cli.GROUPS, *cli.COMMANDS])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_flag_is_listed(vtrain: Any, name: str) -> None:
    shown = vtrain(*name.split(), "--help").out
    own, _, _ = shown.partition("Common flags:")
    for param in build_command(COMMANDS[name]).params:
        is_own = param.param_type_name == "option" and param.name not in CommonFlags.__struct_fields__
        if is_own and not param.hidden:
            flag = max(param.opts, key=len).removeprefix("--")
            assert re.search(rf"(^|, | )--(\[no-\])?{flag}\b", own, re.MULTILINE), flag


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example(name: str) -> None:
    assert COMMANDS[name].examples or name == "version"


def test_the_longest_help_is_three_screens(vtrain: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert len(vtrain("custom-jobs", "create", "--help").out.splitlines()) <= 98


def test_every_flag_that_must_be_given_is_marked(vtrain: Any) -> None:
    for name, info in COMMANDS.items():
        shown = " ".join(vtrain(*name.split(), "--help").out.split())
        assert shown.count("(required)") == len(info.required)
        for flag in info.required:
            assert f"{flag}=" in shown.partition(info.summary)[0]


def test_the_common_flags_have_a_page(vtrain: Any) -> None:
    shown = vtrain("help", "flags").out
    for name in CommonFlags.__struct_fields__:
        flag = "user-output-enabled" if name == "user_output" else name.replace("_", "-")
        assert re.search(rf"--(\[no-\])?{flag}\b", shown), flag


@pytest.mark.parametrize("line", EXAMPLES)
def test_every_example_parses(line: str) -> None:
    assert subprocess.run(["sh", "-n", "-c", line], check=False, timeout=60).returncode == 0
    program, *words = shlex.split(line)
    assert program == "vtrain"
    end = next((place for place, word in enumerate(words) if word in ("--", ">", "|")), len(words))
    words = words[:end]
    found: Any = cli._group(cli.RootGroup, "vtrain", cli.HELP)
    context = found.context_class(found, info_name="vtrain", obj=Invocation())
    while hasattr(found, "resolve_command"):
        _, found, words = found.resolve_command(context, words)
    found.make_context("example", words)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(vtrain: Any, monkeypatch: Any, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for name in COMMANDS:
        shown = vtrain(*name.split(), "--help").out
        assert [line for line in shown.splitlines() if len(line) > width and " " in line.strip()] == []


def test_a_very_wide_terminal_is_not_filled(vtrain: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    assert max(map(len, vtrain("custom-jobs", "create", "--help").out.splitlines())) <= 120


def test_headings_can_be_bold() -> None:
    assert "<Common flags:>" in page_text(common_page(common_flags()), width=80, bold="<{}>".format)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("custom", "Did you mean custom-jobs?"),
        ("custom-jobs creat", "Did you mean create?"),
        ("kill", "Did you mean vtrain stop?"),
        ("sbmit", "Did you mean submit?"),
        ("local-run", "Did you mean vtrain custom-jobs local-run?"),
        ("''", "There is no command ''."),
        ("gc now", "vtrain gc has no commands."),
        ("how-to/tun", "ERROR: There is no page 'how-to/tun'.\n  Did you mean how-to/tune?"),
        ("how-to/predict", "ERROR: There is no page 'how-to/predict'.\n  Did you mean how-to/models?"),
        ("x/xyzzy", "ERROR: There is no page 'x/xyzzy'.\n  Run vtrain help topics, which lists all."),
        ("xyzzy", "There is no command 'xyzzy', and no page about it.\n  Run vtrain help topics"),
    ],
)
def test_help_of_no_command_names_the_nearest(vtrain: Any, line: str, message: str) -> None:
    ended = vtrain("help", *shlex.split(line))
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err


def test_the_manual_has_every_command_and_every_flag(vtrain: Any) -> None:
    manual = vtrain("help", "--man").out.replace("\\-", "-")
    for name, info in COMMANDS.items():
        page = manual.partition(f'.SS "vtrain {name}"\n')[2].partition("\n.SS ")[0]
        assert info.summary.replace('"', "\\(dq") in page, name
        for param in build_command(info).params:
            if param.param_type_name == "option" and not param.hidden:
                flag = max(param.opts, key=len).removeprefix("--")
                text = manual if param.name in CommonFlags.__struct_fields__ else page
                assert re.search(rf"--(\[no-\])?{flag}\b", text), (name, flag)


@pytest.mark.parametrize("words", [(), ("custom-jobs", "create")])
def test_groff_reads_the_manual_without_a_warning(vtrain: Any, words: tuple[str, ...]) -> None:
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("groff is not installed")
    manual = vtrain("help", *words, "--man").out
    argv = [groff, "-man", "-Tutf8", "-ww"]
    ended = subprocess.run(argv, input=manual, capture_output=True, text=True, timeout=120, check=True)
    assert ended.stderr == ""
    plain = re.sub(r".\x08|\x1b\[[0-9;]*m", "", ended.stdout)
    assert plain.startswith("-".join(["VTRAIN", *words]).upper())
    assert "  --display-name=NAME\n" in plain
    assert "       VTRAIN_MEMORY\n" in plain


def test_each_help_names_a_page_that_there_is() -> None:
    names = [*cli.GROUPS, *cli.COMMANDS]
    names += [f"{group} {info.name}" for group, listed in cli.GROUPS.items() for info in listed.commands()]
    assert {topic_of(f"vtrain {name}") for name in names} <= {*topics()}


def test_a_page_of_the_documentation_is_plain_in_a_pipe(vtrain: Any) -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "keep-secrets.md"
    for name in ("how-to/keep-secrets", "keep-secrets"):
        assert vtrain("help", name).out == page.read_text(encoding="utf-8")
    assert "<!--" not in vtrain("help", "run-in-docker").out
    assert vtrain("help", "tune").out.startswith("Usage: ")  # there is a command of this name
    assert "how-to/tune\n" in vtrain("help", "topics").out


def test_the_version_is_a_command_too(vtrain: Any) -> None:
    assert vtrain("version") == vtrain("--version")


def test_help_through_a_pipe_imports_no_rich() -> None:
    program = "import sys; from vtrain.cli import main; main(sys.argv[1:]); print('rich' in sys.modules)"
    argv = [sys.executable, "-c", program, "custom-jobs", "create", "--help"]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=120, env={"PYTHONPATH": ROOT})
    assert ended.stdout.splitlines()[-1] == "False", ended.stderr


def test_help_of_a_word_shows_the_only_page_about_it(vtrain: Any) -> None:
    pages = {"data": "Data and buckets", "secret": "Keep secrets", "docker": "Run in Docker"}
    pages |= {"jupyter": "Package a trainer"} | dict.fromkeys(("gpu", "gpus", "Spot"), "Machines: GPUs")
    for word, title in pages.items():
        ended = vtrain("help", word)
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.startswith(f"# {title}")


def test_help_of_a_word_lists_the_pages_that_have_it(vtrain: Any) -> None:
    package = "how-to/package-a-trainer — Package a trainer, and its environment"
    for word, first in (
        ("memory", "how-to/run-in-docker — Run in Docker, and build images"),
        ("notebook", package),
        ("requirements", package),
        ("resume", "how-to/replicas-and-restarts — Several replicas, restarts and crashes"),
    ):
        lines = vtrain("help", word).out.splitlines()
        assert lines[0] == f"vtrain help {first}"
        assert 2 <= len(lines) <= 5
        for line in lines:
            shown = vtrain(*line.partition(" — ")[0].split()[1:]).out
            assert word.removesuffix("s") in shown.lower()
