"""Engines that drip or flood: each call ends."""

from __future__ import annotations

from contextlib import closing

import pytest
from lib.dripping import DRIPS, FLOODS, answering

from vtrain.containers import client as engine_client
from vtrain.containers.client import EngineCalls
from vtrain.containers.discovery import EngineAddress
from vtrain.containers.engine import engine_errors
from vtrain.errors import EngineAwayError


@pytest.mark.parametrize("drip", DRIPS)
def test_a_call_that_drips_ends_at_the_deadline(drip: str) -> None:
    with answering(*DRIPS[drip]) as address:
        calls = EngineCalls(EngineAddress(host=f"tcp://{address}", origin="a test"), seconds=0.5)
        with closing(calls), pytest.raises(EngineAwayError) as told, engine_errors("start the container"):
            calls.get("/containers/json")
    assert "no whole answer within 0.5 s" in str(told.value.__cause__)


@pytest.mark.parametrize("flood", FLOODS)
def test_an_answer_has_a_largest_size(flood: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_client, "LARGEST_ANSWER", 1 << 20)
    with answering(*FLOODS[flood], pause=0) as address:
        calls = EngineCalls(EngineAddress(host=f"tcp://{address}", origin="a test"), seconds=30)
        with closing(calls), pytest.raises(ConnectionError, match="more than 1048576 bytes"):
            calls.get("/containers/json")
