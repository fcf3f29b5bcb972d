"""The recorded runs of gcloud, and one of them played again: vtrain in this process, a server on loopback."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from differential.capture import CaptureServer, Recorded

CASES = Path(__file__).parent / "cases.jsonl"
NOBODY = "http://127.0.0.1:1/"
"""An endpoint where nobody listens."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One run of gcloud: what it was given, what it sent, what it was answered, and how it ended.

    `tty` holds pairs of a text to wait for on the terminal and what is typed then; `refused` says that
    nobody listened at the endpoint; `docker` are the calls of its stand-in for docker.
    """

    id: str
    group: str
    argv: tuple[str, ...]
    exit_code: int
    requests: tuple[dict[str, Any], ...] = ()
    responses: tuple[dict[str, Any], ...] = ()
    stdout: str = ""
    files: dict[str, str] = {}
    env: dict[str, str] = {}
    unset_env: tuple[str, ...] = ()
    stdin: str = ""
    tty: tuple[tuple[str, str], ...] | None = None
    killed: str = ""
    refused: bool = False
    docker: tuple[Any, ...] = ()
    docker_conf: dict[str, Any] | None = None

    @property
    def packages(self) -> bool:
        """Whether docker had a part in it."""
        return self.docker_conf is not None

    @property
    def is_interactive(self) -> bool:
        """Whether a terminal or a signal belongs to it, so that it needs a process of its own."""
        return self.tty is not None or bool(self.killed)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What vtrain made of a case."""

    exit_code: int
    stdout: str
    stderr: str
    requests: tuple[Recorded, ...]


@cache
def all_cases() -> tuple[Case, ...]:
    """Every recorded run, in the order of the file."""
    return tuple(msgspec.json.decode(line, type=Case) for line in CASES.read_bytes().splitlines())


def cases_of(*, packaging: bool) -> tuple[Case, ...]:
    """The cases that package a trainer, or all others."""
    return tuple(case for case in all_cases() if case.packages == packaging)


def write_files(case: Case, folder: Path) -> None:
    """The files of a case below a folder."""
    for name, content in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def environment(case: Case, url: str) -> dict[str, str]:
    """gcloud's environment in the recorded runs, with the endpoints at `url`."""
    variables = {
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "80",
        "TERM": "dumb",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_PROJECT": "demo",
    }
    for api in ("AIPLATFORM", "LOGGING", "STORAGE"):
        variables[f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api}"] = url
    kept = {name: value for name, value in variables.items() if name not in case.unset_env}
    return kept | case.env


def play(
    case: Case,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    extra: tuple[str, ...] = (),
    variables: Mapping[str, str] | None = None,
    answers: Mapping[str, Any] | None = None,
) -> Outcome:
    """Run vtrain with a case's command line in `folder`.

    `extra` words stand at the end of the line, `variables` in the environment. `answers` are bodies that the
    server gives, by `METHOD path`, to requests that gcloud did not send.
    """
    write_files(case, folder)
    asked = [dict(zip(("method", "path"), kind.split(" ", 1), strict=True)) for kind in answers or {}]
    replies = [{"status": 200, "body": body} for body in (answers or {}).values()]
    with CaptureServer((*case.requests, *asked), (*case.responses, *replies)) as server:
        url = NOBODY if case.refused else server.url
        _enter(folder, environment(case, url) | dict(variables or {}), monkeypatch)
        argv = [_filled(word, folder, server.port) for word in (*case.argv, *extra)]
        with _streams(case, folder) as (out, err):
            code = _run(argv)
        stdout = out.read_bytes().decode("utf-8", "replace").replace(f":{server.port}/", ":PORT/")
        return Outcome(
            exit_code=code,
            stdout=stdout.replace(str(folder), "$WORK"),
            stderr=err.read_text("utf-8", "replace").replace(str(folder), "$WORK"),
            requests=tuple(server.requests),
        )


def _filled(word: str, folder: Path, port: int) -> str:
    return word.replace("{WORK}", str(folder)).replace("{PORT}", str(port))


def _enter(folder: Path, variables: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    time.tzset()


@contextmanager
def _streams(case: Case, folder: Path) -> Iterator[tuple[Path, Path]]:
    """Files in place of stdout and stderr, and the case's text as stdin."""
    out, err = folder.with_name(f"{folder.name}.out"), folder.with_name(f"{folder.name}.err")
    kept = sys.stdin, sys.stdout, sys.stderr
    with out.open("w", encoding="utf-8") as stdout, err.open("w", encoding="utf-8") as stderr:
        sys.stdin = io.TextIOWrapper(io.BytesIO(case.stdin.encode()), "utf-8")
        sys.stdout, sys.stderr = stdout, stderr
        try:
            yield out, err
        finally:
            sys.stdin, sys.stdout, sys.stderr = kept


def _run(argv: list[str]) -> int:
    from vtrain.cli import main

    return main(argv)


def shell_code(exit_code: int) -> int:
    """An exit code as a shell tells it: 128 and the signal's number for a death by signal."""
    return 128 - exit_code if exit_code < 0 else exit_code
