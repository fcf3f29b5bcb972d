"""Averages numbers over all replicas: workers send theirs to the chief, and get the mean back.

A message is a JSON list on a line of its own.
"""

import json
import socket
import time
from contextlib import ExitStack
from typing import IO

from trainer.cluster import Cluster

PATIENCE = 300.0
"""Seconds for which replicas wait for one another: machines do not come up at the same time."""


class Group:
    """The replicas of a job, connected."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.stack = ExitStack()
        if cluster.rank == 0:
            self.peers = _accept(cluster, self.stack)
        else:
            self.peers = [self.stack.enter_context(_connect(cluster))]

    def mean(self, numbers: list[float]) -> list[float]:
        """The mean of each number over all replicas; the same on every one of them."""
        if self.cluster.rank:
            _send(self.peers[0], numbers)
            return _receive(self.peers[0])
        rows = [numbers, *map(_receive, self.peers)]
        means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        for peer in self.peers:
            _send(peer, means)
        return means

    def leave(self) -> None:
        """Hang up. The chief waits until the workers have: the job ends when the chief does."""
        if self.cluster.rank == 0:
            for peer in self.peers:
                peer.readline()
        self.stack.close()


def _accept(cluster: Cluster, stack: ExitStack) -> list[IO[str]]:
    """A connection from each worker, as they come."""
    host, port = cluster.chief
    if cluster.size == 1:
        return []
    # On Vertex AI the chief's name may stand for an address that its container does not have.
    listener = stack.enter_context(socket.create_server((host if host == "127.0.0.1" else "", port)))
    listener.settimeout(PATIENCE)
    peers = []
    for _ in range(1, cluster.size):
        connection, _ = listener.accept()
        connection.settimeout(PATIENCE)
        peers.append(stack.enter_context(connection.makefile("rw")))
        connection.close()  # the file keeps it open
    return peers


def _connect(cluster: Cluster) -> IO[str]:
    """A connection to the chief, as soon as it listens."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with socket.create_connection(cluster.chief, timeout=PATIENCE) as connection:
                return connection.makefile("rw")
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _send(peer: IO[str], numbers: list[float]) -> None:
    peer.write(json.dumps(numbers) + "\n")
    peer.flush()


def _receive(peer: IO[str]) -> list[float]:
    line = peer.readline()
    if not line:
        raise ConnectionError("a replica hung up in the middle of the training")
    return json.loads(line)
