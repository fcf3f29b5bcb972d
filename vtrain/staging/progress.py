"""How far a transfer is: files and bytes, as one line."""

from __future__ import annotations

from threading import Lock

BAR = 24
"""Width of the bar in letters."""


class Progress:
    """Counts what several threads send."""

    def __init__(self, files: int, size: int) -> None:
        self.files = files
        self.size = size
        self._lock = Lock()
        self._files = 0
        self._bytes = 0

    def add(self, *, files: int = 0, size: int = 0) -> None:
        """So much more has arrived, or was there."""
        with self._lock:
            self._files += files
            self._bytes += size

    def __str__(self) -> str:
        full = BAR * self._bytes // self.size if self.size else BAR
        bar = "#" * full + "." * (BAR - full)
        sent, size = (f"{count / 1_000_000:.1f}" for count in (self._bytes, self.size))
        return f"Staging {self._files} of {self.files} files  {bar}  {sent} of {size} MB"
