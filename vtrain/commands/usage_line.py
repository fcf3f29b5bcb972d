"""The resources that a followed job uses, as text for the status line."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from vtrain.backends import HostBackend
from vtrain.commands.top import Meter, Watched, watched_replicas
from vtrain.errors import VtrainError
from vtrain.sizes import memory_in_words

PAUSE_SECONDS = 2.0


class UsageLine:
    """The use of all replicas of a job, measured now and then.

    A thread does it: nvidia-smi can take a second.
    """

    def __init__(self, backend: HostBackend, name: str) -> None:
        self._backend = backend
        self._name = name
        self._meter = Meter()
        self._text = ""
        self._thread: threading.Thread | None = None
        self._due = 0.0

    def text(self) -> str:
        """The last measurement, such as `cpu 187%  mem 1.2 GB  gpu 87%`; empty before the first."""
        is_busy = self._thread is not None and self._thread.is_alive()
        if not is_busy and time.monotonic() >= self._due:
            self._due = time.monotonic() + PAUSE_SECONDS
            with suppress(VtrainError, OSError):  # the job's end says what is wrong
                watched = watched_replicas(self._backend, self._name)
                self._thread = threading.Thread(target=self._measure, args=(watched,), daemon=True)
                self._thread.start()
        return self._text

    def _measure(self, watched: list[Watched]) -> None:
        with suppress(VtrainError, OSError):  # it has just ended
            documents = self._meter.documents(watched)
            if documents:
                self._text = _in_words(documents)


def _in_words(documents: list[dict[str, float]]) -> str:
    percent = sum(document["cpuPercent"] for document in documents)
    memory = sum(document["memoryBytes"] for document in documents)
    gpus = [document["gpuPercent"] for document in documents if document["gpu"]]
    words = [f"cpu {percent:.0f}%", f"mem {memory_in_words(int(memory))}"]
    return "  ".join([*words, *([f"gpu {sum(gpus):.0f}%"] if gpus else [])])
