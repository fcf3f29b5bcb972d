"""Transforms: what each makes of a value, of a list and of nothing."""

import re

import pytest

from vtrain.errors import ConfigError
from vtrain.output.language.expressions import evaluate, parse_key
from vtrain.output.language.format import parse_format
from vtrain.output.language.printers import render

DOCUMENT = {
    "name": "projects/p/jobs/j1",
    "url": "https://example.com/v1/projects/p/zones/z1/disks/d",
    "begin": "2026-01-03T10:00:00.123456Z",
    "finish": "2026-01-03T13:30:05+02:00",
    "timeout": "3600s",
    "list": ["b", "a", "b"],
    "paths": ["x/1", "y/2"],
    "map": {"k": "v", "a": 1},
    "yes": True,
    "no": False,
    "seconds": 93784,
    "ratio": "0.123456789",
    "empty": "",
    "text": "été",
}


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("name.basename()", "j1"),
        ("paths.basename()", "1;2"),
        ("paths.*basename()", "1;2"),
        ("paths.map().upper()", "X/1;Y/2"),
        ("nosuch.basename(undefined=none)", "none"),
        ("name.segment(1)", "p"),
        ("name.segment(-2)", "jobs"),
        ("name.segment(9,undefined=u)", "u"),
        ("url.scope()", "z1/disks/d"),
        ("url.scope(projects)", "p/zones/z1/disks/d"),
        ("url.scope(nosuch)", "d"),
        ("name.upper()", "PROJECTS/P/JOBS/J1"),
        ("name.upper().lower()", "projects/p/jobs/j1"),
        ("begin.date()", "2026-01-03T10:00:00"),
        ('begin.date("%Y/%m")', "2026/01"),
        ('begin.date("%s")', "1767434400.123456"),
        ("finish.date(tz=UTC)", "2026-01-03T11:30:05"),
        ("seconds.date()", "1970-01-02T02:03:04"),
        ("name.date(undefined=-)", "-"),
        ("nosuch.date(undefined=-)", "-"),
        ("begin.iso()", "2026-01-03T10:00:00.123+00:00"),
        ("duration(start=begin,end=finish)", "PT1H30M4.877S"),
        ("duration(start=begin,end=finish,precision=0)", "PT1H30M5S"),
        ("duration(start=begin,end=finish,parts=1)", "PT1H"),
        ("duration(start=finish,end=begin,precision=0,parts=2)", "-PT1H30M"),
        ("timeout.duration()", "PT1H"),
        ("seconds.duration()", "P1DT2H3M"),
        ("nosuch.duration(undefined=-)", "-"),
        ("list.len()", "3"),
        ("text.len()", "3"),
        ("nosuch.len()", "0"),
        ("list.list()", "b,a,b"),
        ('map.list(separator="; ")', "a=1; k=v"),
        ("map.list(show=keys)", "a,k"),
        ("map.list(show=values)", "1,v"),
        ("nosuch.list(undefined=none)", "none"),
        ("list.join()", "b/a/b"),
        ("list.sort().join(|)", "a|b|b"),
        ("list.slice(:2)", "b;a"),
        ("list.slice(-1)", "b"),
        ("list.count()", "a=1;b=2"),
        ('name.split("/").join("-")', "projects-p-jobs-j1"),
        ("yes.yesno()", "True"),
        ('yes.yesno(yes="Y",no="N")', "Y"),
        ("no.yesno()", "No"),
        ("nosuch.yesno(no=never)", "never"),
        ("firstof(nosuch,name,empty)", "projects/p/jobs/j1"),
        ("map.extract(k,nosuch,a)", "v;1"),
        ('format("{0}:{1}",timeout,map.k)', "3600s:v"),
        ('timeout.format("in {0}")', "in 3600s"),
        ("ratio.float(2)", "0.12"),
        ("name.float(undefined=x)", "x"),
        ("name.sub(j,J)", "proJects/p/Jobs/J1"),
        ("text.encode(base64)", "6XTp"),
        ("text.encode(base64).decode(base64)", "été"),
        ("text.encode(nosuch,undefined=x)", "x"),
        ("name.always()", "projects/p/jobs/j1"),
    ],
)
def test_transform(key: str, expected: str) -> None:
    assert render(DOCUMENT, parse_format(f"value({key})")) == expected + "\n"


def test_time_without_end_counts_to_now() -> None:
    text = render({"start": "2020-01-01T00:00:00Z"}, parse_format("value(start.duration(parts=1))"))
    assert re.fullmatch(r"P\d{4,}D\n", text)


@pytest.mark.parametrize("key", ['format("{1}",name)', "begin.date(tz=No/Where)"])
def test_arguments_that_fail_late_are_refused(key: str) -> None:
    with pytest.raises(ConfigError):
        render(DOCUMENT, parse_format(f"value({key})"))


@pytest.mark.parametrize("call", ["size()", "duration()", "float()", "date()", "segment()", "iso()"])
def test_a_number_without_end_is_no_failure(call: str) -> None:
    for value in ("inf", "-inf", "nan", 10**400, float("inf"), "1" * 5000):
        assert isinstance(evaluate(parse_key(f"a.{call}"), {"a": value}), str)


@pytest.mark.parametrize(
    "call", ["size(precision={})", "duration(precision={})", "sub(a, b, {})", "trailoff({})", "segment({})"]
)
def test_an_argument_of_many_digits_is_no_failure(call: str) -> None:
    for number in ("-1", "1000000000000", "1" * 5000):
        for value in ("a" * 50, 1234567.5):
            evaluate(parse_key(f"a.{call.format(number)}"), {"a": value})
