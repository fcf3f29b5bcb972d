"""Services that drip, flood and repeat: every request ends, with one sentence."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("requests", reason="needs an extra")

import requests
from lib.dripping import DRIPS, FLOODS, answering

from vtrain import http_limits
from vtrain.errors import UnusableAnswerError
from vtrain.http_session import BoundedAdapter


@pytest.fixture
def session() -> Any:
    made = requests.Session()
    made.trust_env = False
    made.mount("http://", BoundedAdapter())
    yield made
    made.close()


@pytest.mark.parametrize("drip", DRIPS)
def test_an_answer_that_drips_ends_at_the_deadline(session: requests.Session, drip: str) -> None:
    with answering(*DRIPS[drip]) as address, pytest.raises(requests.ReadTimeout, match=r"within 0\.5 s"):
        session.get(f"http://{address}/", timeout=0.5)


def test_a_service_that_says_nothing_ends_at_the_deadline(session: requests.Session) -> None:
    with answering(b"", b"") as address, pytest.raises(requests.Timeout):
        session.get(f"http://{address}/", timeout=(5, 0.2))


@pytest.mark.parametrize("flood", FLOODS)
def test_an_answer_has_a_largest_size(
    session: requests.Session, flood: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_limits, "LARGEST_ANSWER", 1 << 20)
    too_large = pytest.raises(UnusableAnswerError, match="more than 1048576 bytes")
    with answering(*FLOODS[flood], pause=0) as address, too_large as error:
        session.get(f"http://{address}/x?token=secret", timeout=30)
    assert "secret" not in error.value.message


def test_a_large_body_has_more_time(session: requests.Session) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    with answering(answer, b"x", pause=0.2) as address:
        assert session.post(f"http://{address}/", data=bytes(1 << 20), timeout=0.5).text == "xxxxx"
    assert http_limits.LARGEST_ANSWER == 64 << 20
