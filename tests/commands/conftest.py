"""The backend in memory as what it would be for anybody else: a plug-in, installed in this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from vtrain.testing.memory import MemoryBackend

PLUGIN = """
from vtrain.backends.interface import Backend
from vtrain.testing.memory import MemoryBackend

BACKEND = MemoryBackend()


class Memory(Backend):
    name = "memory"

    def open(self, settings):
        return BACKEND


class Future(Backend):
    name = "future"

    def open(self, settings):
        backend = MemoryBackend()
        backend.protocol_version = 99
        return backend


class CrashingMemory(MemoryBackend):
    def list(self, query):
        raise ZeroDivisionError("a bug of the plug-in")


class Crashing(Backend):
    name = "crashing"

    def open(self, settings):
        return CrashingMemory()
"""
ENTRY_POINTS = """
[vtrain.backends]
memory = memory_plugin:Memory
future = memory_plugin:Future
crashing = memory_plugin:Crashing
broken = no_such_module:Memory
"""


@pytest.fixture
def plugin(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """An installed distribution with four backends: `memory`, `future`, `crashing` and `broken`."""
    site = tmp_path_factory.mktemp("site")
    write_plugin(site)
    monkeypatch.syspath_prepend(str(site))
    import memory_plugin

    yield memory_plugin
    del sys.modules["memory_plugin"]


def write_plugin(site: Path) -> None:
    (site / "memory_plugin.py").write_text(PLUGIN)
    info = site / "memory_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: memory-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)


@pytest.fixture
def plugin_site(tmp_path: Path) -> Path:
    """A folder for PYTHONPATH that has the plug-in, for commands in a process of their own."""
    write_plugin(tmp_path)
    return tmp_path


@pytest.fixture
def memory(plugin: ModuleType, monkeypatch: pytest.MonkeyPatch) -> MemoryBackend:
    """The backend behind `vtrain` in this test."""
    monkeypatch.setenv("VTRAIN_BACKEND", "memory")
    monkeypatch.setenv("CLOUDSDK_CORE_PROJECT", "local")
    monkeypatch.setenv("CLOUDSDK_AI_REGION", "us-central1")
    backend: MemoryBackend = plugin.BACKEND
    return backend


@pytest.fixture
def blames(
    vtrain: Any, vtrain_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Runs a command line that has to be refused, and compares whom its error blames, and for what.

    The error begins with its `place`: a flag, or a line of a file. It ends with `words`; a path between them
    may begin further up. An empty place is not compared. `hint` begins what is said below. `wrong` is a file
    to write, its text, what is replaced in it, and by what: its place is the line where that begins. No job
    was made, and no file of the home. The answer is all that was said.
    """
    monkeypatch.chdir(tmp_path)

    def run(
        *argv: str,
        words: str,
        hint: str = "",
        code: int = 1,
        place: str = "",
        wrong: tuple[str, str, str, str] | None = None,
    ) -> str:
        if wrong is not None:
            name, text, old, new = wrong
            before, found, after = text.rpartition(old)
            assert found, old
            (tmp_path / name).write_text(f"{before}{new}{after}")
            place = place or f"{name}:{before.count(chr(10)) + 1}"
        ended = vtrain(*argv)
        assert (ended.code, ended.out) == (code, ""), ended.err
        assert not vtrain_home.exists()
        told = str(ended.err).replace(f"{tmp_path}{os.sep}", "")
        error, _, below = told.partition("ERROR: ")[2].partition("\n")
        assert error.startswith(f"{place}: " if place else ""), told
        assert error.endswith(words), told
        assert below.strip().startswith(hint), told
        return told

    return run
