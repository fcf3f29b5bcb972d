"""What gcloud 528 printed for the documents and flags in `gcloud/`: vtrain prints the same bytes.

`gcloud/documents.json` has the documents, `gcloud/answers.jsonl` flags, exit codes and outputs.
Recorded in UTC with a terminal of 80 columns.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vtrain.commands.selection import Selection
from vtrain.errors import VtrainError
from vtrain.flags.options import ListFlags
from vtrain.output.console import Console
from vtrain.output.language.format import parse_format
from vtrain.output.language.printers import render, render_list

FOLDER = Path(__file__).parent / "gcloud"
DOCUMENTS = json.loads((FOLDER / "documents.json").read_text(encoding="utf-8"))
ANSWERS = [json.loads(line) for line in (FOLDER / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
KINDS = ("filter", "sort_by", "flatten", "page_size", "uri", "limit", "format", "")


@pytest.fixture(autouse=True)
def recorded_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("COLUMNS", "80")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def kind_of(flags: dict[str, Any]) -> str:
    return next((kind for kind in KINDS if kind in flags), "")


def printed(flags: dict[str, Any], documents: list[Any], *, is_list: bool) -> tuple[int, str]:
    try:
        console = Console(format_text=flags.get("format", ""), flatten=flags.get("flatten", []))
        if not is_list and "flatten" not in flags:
            return 0, render(documents[0], console.format or parse_format("yaml"))
        listing = ListFlags(
            filter=flags.get("filter", ""),
            sort_by=",".join(flags.get("sort_by", [])),
            limit=str(flags.get("limit", "unlimited")),
            page_size=str(flags.get("page_size", "unlimited")),
            uri=flags.get("uri", False),
        )
        selection = Selection(
            console, listing, default="yaml", uri_of=lambda resource: f"https://x/v1/{resource['name']}"
        )
        return 0, "".join(render_list(selection.apply(iter(documents)), selection.format))
    except VtrainError as error:
        return error.exit_code, ""


@pytest.mark.parametrize("kind", KINDS)
def test_same_output(kind: str) -> None:
    answers = [answer for answer in ANSWERS if kind_of(answer["flags"]) == kind]
    assert answers
    different = []
    for answer in answers:
        given = DOCUMENTS[answer["set"]]
        found = printed(answer["flags"], given["documents"], is_list=given["is_list"])
        if found != (answer["exit_code"], answer["stdout"]):
            different.append((answer["flags"], found, answer["stdout"]))
    assert different == []
