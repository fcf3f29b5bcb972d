"""List commands: what is asked for, and what is shown, of the documents that there are."""

from collections.abc import Iterator
from typing import Any

import pytest

from vtrain.commands.selection import show_list
from vtrain.errors import ConfigError, EngineError, UsageError, VtrainError
from vtrain.flags.options import ListFlags
from vtrain.output.console import Console


class Service:
    """Gives one document after the other, counts them, and may fail after some."""

    def __init__(self, size: int, *, fails_after: int | None = None) -> None:
        self.size = size
        self.fails_after = fails_after
        self.asked = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number in range(self.size):
            if number == self.fails_after:
                raise EngineError("The service is gone.")
            self.asked += 1
            yield {"name": f"j/{number}", "n": number}


def show(service: Service, *, format: str = "", flatten: tuple[str, ...] = (), **flags: Any) -> None:
    console = Console(format_text=format, flatten=flatten)
    show_list(console, ListFlags(**flags), service, default="yaml", uri_of=lambda found: f"u:{found['name']}")


def test_only_what_is_shown_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    cases: list[tuple[dict[str, Any], str, int]] = [
        ({"format": "value(n)", "limit": "9" * 30}, "0\n1\n2\n3\n4\n5\n6\n", 7),
        ({"format": "value(n)", "limit": "2", "filter": "n>3"}, "4\n5\n", 6),
        ({"format": "disable"}, "", 0),
        ({"format": "value(n)", "limit": "1", "sort_by": "~n"}, "6\n", 7),  # an order asks for everything
    ]
    for flags, shown, asked in cases:
        service = Service(7)
        show(service, **flags)
        assert (capfd.readouterr().out, service.asked) == (shown, asked)


@pytest.mark.parametrize("format", ["value(n)", "table[no-heading](n)"])
def test_what_came_before_a_failure_is_shown(format: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EngineError):
        show(Service(5, fails_after=2), format=format)
    assert capfd.readouterr().out == "0\n1\n"


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ({"filter": "n=="}, ConfigError),
        ({"sort_by": "a b"}, ConfigError),
        ({"limit": "0"}, UsageError),
        ({"page_size": "x"}, UsageError),
        ({"format": "value(n.nope())"}, ConfigError),
        ({"flatten": ("a[",)}, ConfigError),
    ],
)
def test_bad_flags_are_refused_before_anything_is_asked(
    flags: dict[str, Any], error: type[VtrainError]
) -> None:
    service = Service(3)
    with pytest.raises(error):
        show(service, **flags)
    assert service.asked == 0


def test_nothing_is_said_to_be_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    show(Service(0))
    show(Service(0), format="json")
    assert capfd.readouterr() == ("[]\n", "Listed 0 items.\n")


def test_a_key_that_nothing_has_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    show(Service(2), filter="nosuch=1 OR n=0", format="value(n)")
    found = capfd.readouterr()
    assert found.out == "0\n"
    assert "--filter: no resource has the key nosuch" in found.err
    show(Service(2), sort_by="~nosuch,n", format="value(n)")
    found = capfd.readouterr()
    assert found.out == "0\n1\n"
    assert "--sort-by: no resource has the key nosuch.\n" in found.err


def test_uris(capfd: pytest.CaptureFixture[str]) -> None:
    show(Service(3), uri=True, filter="n>0")
    show(Service(1), format="value(uri(),n)")
    assert capfd.readouterr().out == "u:j/1\nu:j/2\nu:j/0\t0\n"


def test_a_filter_may_name_a_column(capfd: pytest.CaptureFixture[str]) -> None:
    show(Service(3), format="table[no-heading](n:label=COUNT)", filter="COUNT=2")
    assert capfd.readouterr().out == "2\n"


def test_the_chosen_default_takes_the_place_of_yaml(capfd: pytest.CaptureFixture[str]) -> None:
    for text in ("", "default"):
        console = Console(default_format="json", format_text=text)
        show_list(console, ListFlags(), [{"a": 1}], default="yaml", uri_of=str)
        console.result({"a": 1}, "yaml")
    assert capfd.readouterr().out == '[\n  {\n    "a": 1\n  }\n]\n{\n  "a": 1\n}\n' * 2
