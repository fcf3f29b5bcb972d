"""`--simulate-preemption`: a time, and perhaps a replica. `--debugpy`: a port."""

from __future__ import annotations

import socket

import pytest

from vtrain.errors import ConfigError, UsageError
from vtrain.flags.local_options import LocalFlags, debugger_of, simulated_preemption
from vtrain.runtime.debugging import Debugger


@pytest.mark.parametrize(
    ("text", "seconds", "replica"),
    [("30s", 30, ""), ("1h30m", 5400, ""), ("0s", 0, ""), ("5s,workerpool1-0", 5, "workerpool1-0")],
)
def test_a_time_and_perhaps_a_replica(text: str, seconds: float, replica: str) -> None:
    asked = simulated_preemption(LocalFlags(simulate_preemption=text))
    assert asked is not None and (asked.after_seconds, asked.replica) == (seconds, replica)


def test_without_the_flag_nothing_is_preempted() -> None:
    assert simulated_preemption(LocalFlags()) is None


@pytest.mark.parametrize("text", ["", "soon", "-5s", ",workerpool0-0", ",chief"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--simulate-preemption: expected a duration"):
        simulated_preemption(LocalFlags(simulate_preemption=text))


@pytest.mark.parametrize("text", ["5s,", "5s,chief", "5s,workerpool0", "5s,workerpool0-0,workerpool1-0"])
def test_what_is_no_name_of_a_replica_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not the name of a replica") as caught:
        simulated_preemption(LocalFlags(simulate_preemption=text))
    assert "workerpool1-0" in caught.value.hint


@pytest.mark.parametrize("text", ["x", "0", "65536", "99999999999999999999", "-1", "5678,nowait", "٣٤٥٦"])
def test_what_is_no_port_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--debugpy: expected a port such as 5678"):
        debugger_of(LocalFlags(debugpy=text))


def test_a_port_that_somebody_uses_is_refused_before_anything_starts() -> None:
    assert debugger_of(LocalFlags()) is None
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"Port {port} cannot be used"):
            debugger_of(LocalFlags(debugpy=str(port)))
    assert debugger_of(LocalFlags(debugpy=str(port), debugpy_wait=False)) == Debugger(port=port, waits=False)
