from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtrain.errors import UsageError
from vtrain.flags.grammar import (
    count_or_unlimited,
    duration_seconds,
    join_dicts,
    join_lists,
    proto_duration,
    split_dict,
    split_env,
    split_list,
    whole_number,
)

PLAIN = st.text(st.characters(exclude_characters=",^", exclude_categories=["Cs"]), min_size=1, max_size=6)


@given(st.lists(PLAIN, max_size=5))
def test_a_list_comes_back_as_it_was_joined(items: list[str]) -> None:
    assert split_list(",".join(items), "--args") == tuple(items)


@given(
    st.lists(
        st.text(st.characters(exclude_characters=";", exclude_categories=["Cs"]), min_size=1), min_size=1
    )
)
def test_another_delimiter_carries_anything_else(items: list[str]) -> None:
    assert split_list("^;^" + ";".join(items), "--args") == tuple(items)


@given(st.dictionaries(PLAIN.filter(lambda key: "=" not in key), PLAIN, max_size=4))
def test_a_dictionary_comes_back_as_it_was_joined(items: dict[str, str]) -> None:
    assert split_dict(",".join(f"{key}={value}" for key, value in items.items()), "--labels") == items


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("", ()),
        ("a", ("a",)),
        ("a,b", ("a", "b")),
        ("a,", ("a",)),
        ("a,b,,", ("a", "b", "")),
        ("a,,b", ("a", "", "b")),
        (",a", ("", "a")),
        (",", ("",)),
        (" a , b ", (" a ", " b ")),
        ('"a,b"', ('"a', 'b"')),
        ("a\\,b", ("a\\", "b")),
        ("^;^a,b;c", ("a,b", "c")),
        ("^;^a;", ("a",)),
        ("^::^a::b:c", ("a", "b:c")),
        ("^;^", ()),
        ("^a,b", ("^a", "b")),
        ("a^;^b,c", ("a^;^b", "c")),
        ("--lr=0.1,--epochs=3", ("--lr=0.1", "--epochs=3")),
    ],
)
def test_lists_as_gcloud_reads_them(text: str, items: tuple[str, ...]) -> None:
    assert split_list(text, "--args") == items


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("", {}),
        ("a=1,b=2", {"a": "1", "b": "2"}),
        ("a=1=2", {"a": "1=2"}),
        ("a=", {"a": ""}),
        ("a=1,a=2", {"a": "2"}),
        ("^;^a=1,2;b=3", {"a": "1,2", "b": "3"}),
    ],
)
def test_dictionaries_as_gcloud_reads_them(text: str, items: dict[str, str]) -> None:
    assert split_dict(text, "--labels") == items


def test_repeated_flags_accumulate_and_may_repeat_their_items() -> None:
    assert join_lists(["--a,1", "--b,1"], "--args") == ("--a", "1", "--b", "1")
    assert join_dicts(["a=1", "b=2"], "--labels") == {"a": "1", "b": "2"}


def test_environment_values_hold_anything_and_the_last_counts() -> None:
    assert split_env(["A=1,2=3", "B=", "C", "A=^x^"]) == ({"A": "^x^", "B": ""}, ("C",))
    assert split_env(["A=1", "A", "B", "B=2"]) == ({"B": "2"}, ("A",))


@pytest.mark.parametrize(
    ("text", "seconds", "proto"),
    [
        ("90", 90, "90s"),
        ("90s", 90, "90s"),
        ("30m", 1800, "1800s"),
        ("2h", 7200, "7200s"),
        ("1h30m", 5400, "5400s"),
        ("7d", 604800, "604800s"),
        ("0", 0, "0s"),
        ("1.5s", 1.5, "1.5s"),
        ("100m", 6000, "6000s"),
    ],
)
def test_durations(text: str, seconds: float, proto: str) -> None:
    assert duration_seconds(text, "--timeout") == seconds
    assert proto_duration(text, "--timeout") == proto


def test_counts() -> None:
    assert whole_number(" -3 ", "--limit") == -3
    assert count_or_unlimited("unlimited", "--limit") is None
    assert count_or_unlimited("5", "--limit") == 5


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: split_list("^^a", "--args"), "--args: the delimiter between the two '^' is empty"),
        (lambda: split_dict("a", "--labels"), "--labels: expected KEY=VALUE, found 'a'"),
        (lambda: split_dict("=a", "--labels"), "found '=a'"),
        (lambda: split_dict("a=1, b=2", "--pool", {"a", "b"}), "there is no key ' b'"),
        (lambda: split_dict("machine_type=x", "--pool", {"machine-type"}), "machine_type"),
        (lambda: join_dicts(["a=1", "a=2"], "--labels"), "'a' is given more than once: 1, 2"),
        (lambda: split_env(["A b"]), "--env: expected NAME=VALUE or NAME"),
        (lambda: split_env(["1A=2"]), "--env: expected NAME=VALUE"),
        (lambda: whole_number("1.5", "--limit"), "--limit: expected a whole number, found '1.5'"),
        (lambda: count_or_unlimited("0", "--limit"), "expected 1 or more"),
        *(
            (lambda text=text: duration_seconds(text, "--timeout"), "expected a duration")
            for text in ("", "h", "1x", "1h 30m", "-5s", "5 m", "1e3s", "1hs", "٣s")
        ),
    ],
)
def test_what_does_not_parse_names_the_flag(call: Callable[[], object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert words in caught.value.message
    assert caught.value.exit_code == 2


def test_a_key_that_is_nearly_right_is_suggested() -> None:
    with pytest.raises(UsageError) as caught:
        split_dict("machine_type=x", "--worker-pool-spec", {"machine-type", "replica-count"})
    assert "machine-type" in caught.value.hint
