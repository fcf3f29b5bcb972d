"""Words of other programs: each is answered with something that vtrain has."""

from __future__ import annotations

from typing import Any

import pytest

from vtrain import cli
from vtrain.flags import synonyms
from vtrain.flags.command import CommandInfo
from vtrain.flags.row import flag_name, rows_of


def flags_of(info: CommandInfo) -> set[str]:
    names = {flag_name(field, row) for group in info.groups for field, row in rows_of(group).items()}
    return names | {row.short for group in info.groups for row in rows_of(group).values()}


ALONE = {name: flags_of(cli.command_alone(name)) for name in cli.COMMANDS}
GROUPED = {
    f"{group} {info.name}": flags_of(info)
    for group, listed in cli.GROUPS.items()
    for info in listed.commands()
}
WITH_GROUPS = [(), ("custom-jobs",), ("hp-tuning-jobs",)]


def test_there_are_forty_words() -> None:
    assert len(synonyms.COMMANDS) + len(synonyms.FLAGS) >= 40


@pytest.mark.parametrize("word", sorted(synonyms.COMMANDS))
def test_a_command_of_another_program_is_answered_with_one_that_exists(vtrain: Any, word: str) -> None:
    answered = 0
    for group in WITH_GROUPS:
        if word in (ALONE if not group else ()) or " ".join((*group, word)) in GROUPED:
            continue
        ended = vtrain(*group, word, "x")
        assert (ended.code, ended.out) == (2, "")
        if f"\n  Did you mean vtrain {' '.join(group)}" not in ended.err:
            continue
        words = ended.err.partition("Did you mean vtrain ")[2].strip().removesuffix("?").split()
        names = [each for each in words if not each.startswith("-")]
        flags = {each.partition("=")[0] for each in words if each.startswith("-")}
        assert flags <= (ALONE | GROUPED)[" ".join(names)], f"{word} is answered with what is not there"
        answered += 1
    assert answered


@pytest.mark.parametrize("word", sorted(synonyms.FLAGS))
def test_a_flag_of_another_program_is_answered_with_one_of_the_command(vtrain: Any, word: str) -> None:
    answered = 0
    for command, flags in (ALONE | GROUPED).items():
        if word in flags:
            continue
        meant = synonyms.meant(
            word, synonyms.FLAGS, lambda target, has=flags: target.partition("=")[0] in has
        )
        if meant and not answered:
            ended = vtrain(*command.split(), word)
            assert (ended.code, ended.out) == (2, "")
            assert f"No such option: {word} (did you mean {meant}?)" in ended.err
        answered += bool(meant)
    assert answered


def test_one_that_is_near_is_still_named(vtrain: Any) -> None:
    assert "No such option: --fromat (did you mean --format?)" in vtrain("ps", "--fromat=json").err
    assert "did you mean" not in vtrain("ps", "--foo").err


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("compare --metrics", "'vtrain ps' has --metrics. See 'vtrain compare --help'."),
        ("top --watch", "'vtrain ps' and 'vtrain rerun' have --watch. See 'vtrain top --help'."),
        ("ps --foo", "\n  See 'vtrain ps --help'."),
        ("compare --replicas=2", "\n  See 'vtrain compare --help'."),
    ],
)
def test_a_flag_of_a_few_other_commands_names_them(vtrain: Any, line: str, hint: str) -> None:
    ended = vtrain(*line.split())
    assert (ended.code, ended.out) == (2, "")
    assert hint in ended.err
