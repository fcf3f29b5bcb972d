"""The ports of replicas on this machine: nobody else gets them between their choice and their use."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from vtrain.backends.process import process_launcher
from vtrain.backends.process.process_launcher import HIGHEST_PORT, HOST, LOWEST_PORT, free_ports
from vtrain.runtime.process.process_tree import LINUX


@pytest.mark.skipif(not LINUX, reason="reads Linux's range of ports")
def test_the_kernel_gives_them_to_nobody() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    if first < HIGHEST_PORT:
        pytest.skip("this kernel is set to give away these ports, too")
    ports = free_ports(100)
    assert len(set(ports)) == 100
    assert all(LOWEST_PORT <= port < HIGHEST_PORT for port in ports)


def test_those_in_use_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as held:
        (taken,) = free_ports(1)
        held.enter_context(socket.create_server((HOST, taken)))
        monkeypatch.setattr(process_launcher, "LOWEST_PORT", taken)
        monkeypatch.setattr(process_launcher, "HIGHEST_PORT", taken + 1)
        ports = free_ports(3)
        assert len({*ports, taken}) == 4
        for port in ports:
            held.enter_context(socket.create_server((HOST, port)))


def test_where_none_is_left_the_kernel_gives_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_launcher, "HIGHEST_PORT", LOWEST_PORT)
    assert len(set(free_ports(20))) == 20
