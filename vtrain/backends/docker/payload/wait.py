"""Runs in a container that waits for a job; becomes the program that it is sent: `python3 -c CODE SOCKET`.

A request is a JSON object, {"argv": [...], "env": {...}}, and the end of what is sent. SOCKET is removed
before the answer; when somebody else removes it, nobody will ask any more. Standard library only, and for
every Python that training images have (3.7 and later).
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import sys
from typing import Any

TICK_SECONDS = 2.0
"""How soon it notices that its socket was removed."""
NOT_FOUND, NOT_EXECUTABLE = 127, 126


def main(path: str) -> None:
    """Wait, then become the program; end where nobody will ask any more."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + ".new")
    os.chmod(path + ".new", 0o777)
    listener.listen(8)
    os.rename(path + ".new", path)
    listener.settimeout(TICK_SECONDS)
    while os.path.exists(path):
        try:
            connection, _ = listener.accept()
        except socket.timeout:  # noqa: UP041 - no TimeoutError before Python 3.10
            continue
        request = receive(connection)
        if request is not None:
            os.unlink(path)
            answer(connection)
            become(request["argv"], request["env"])
        connection.close()


def receive(connection: socket.socket) -> Any:
    """The request; None where the connection ended before it was whole."""
    connection.settimeout(None)
    blocks = []
    try:
        for block in iter(lambda: connection.recv(65536), b""):
            blocks.append(block)
        return json.loads(b"".join(blocks).decode("utf-8"))
    except (OSError, ValueError):
        return None


def answer(connection: socket.socket) -> None:
    """Say that the request is taken; whoever has asked may have ended meanwhile."""
    try:
        connection.sendall(b"+")
    except OSError:
        return


def become(argv: list[str], more: dict[str, str]) -> None:
    """Run the program in this process's place, with the image's variables and those of the request."""
    with open("/proc/self/environ", "rb") as file:  # as the engine set them, before Python did anything
        entries = [entry.partition(b"=") for entry in file.read().split(b"\0") if entry]
    env = {name: value for name, _, value in entries}
    env.update({encoded(name): encoded(value) for name, value in more.items()})
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and hands on
        signal.signal(number, signal.SIG_DFL)
    try:
        words = [encoded(word) for word in argv]
        os.execvpe(words[0], words, env)
    except OSError as error:
        # In the words of the container's init, where the program of the container itself cannot be run.
        reason = os.strerror(error.errno or 0)
        os.write(2, encoded(f"[FATAL tini ({os.getpid()})] exec {argv[0]} failed: {reason}\n"))
        os._exit(NOT_FOUND if error.errno in (errno.ENOENT, errno.ENOTDIR) else NOT_EXECUTABLE)


def encoded(text: str) -> bytes:
    """The bytes of a word, whatever the image's locale."""
    return text.encode("utf-8", "surrogateescape")


main(sys.argv[1])
