"""The reader of TOML: numbers that Python cannot print."""

from __future__ import annotations

import pytest

from vtrain.toml_reader import load_toml


def test_an_integer_that_python_does_not_read_is_refused_with_its_line() -> None:
    with pytest.raises(ValueError, match=r"^an integer has more than 4300 digits \(at line 2, column 1\)$"):
        load_toml(f"a = 1\nb = [{'1' * 5000}]\n")


def test_long_strings_and_long_integers_are_read() -> None:
    number = int("1" * 310)
    assert load_toml(f'a = "{"1" * 5000}"\nb = {number}\n') == {"a": "1" * 5000, "b": number}
