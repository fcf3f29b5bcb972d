"""The only writer: results on stdout, words on stderr, colour and a status line on a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vtrain.errors import ClosedPipeError, OutputError, VtrainError
from vtrain.output.controls import visible
from vtrain.output.format import Format
from vtrain.output.printers import render, render_list
from vtrain.output.projection import parse_format

if TYPE_CHECKING:
    from vtrain.output.keys import Path
    from vtrain.output.terminal import StatusLine

_WORTH_WRITING = 32_768  # characters
VERBOSITIES = ("debug", "info", "warning", "error", "critical", "none")


class Console:
    """Writes what one command has to say.

    `format_text` is the user's `--format` and `flatten` the keys of `--flatten`, both parsed at once so that
    a bad one is refused before anything happens. `default_format` is the one that the user has chosen for
    good, in place of YAML. `user_output` false silences stdout and status words, as in gcloud.
    """

    def __init__(
        self,
        *,
        format_text: str = "",
        flatten: Sequence[str] = (),
        default_format: str = "",
        verbosity: str = "warning",
        quiet: bool = False,
        user_output: bool = True,
    ) -> None:
        self.default_format = default_format
        self.format_text = (default_format if format_text.endswith("default") else "") or format_text
        self.format: Format | None = parse_format(self.format_text) if self.format_text else None
        self._flatten = [_flatten_path(key) for key in flatten if key]
        self.verbosity = verbosity
        self.quiet = quiet
        self.user_output = user_output
        self._status: StatusLine | None = None
        self._unended: set[int] = set()

    # results

    def result(self, document: Any, default: str = "") -> None:
        """One resource on stdout in `--format`, else in `default` (empty: nothing)."""
        chosen = self._chosen(default)
        if chosen is None or not self.user_output:
            return
        if self._flatten:
            self.print_list(self.flattened([document]), chosen)
        else:
            self._print([render(document, chosen)])

    def results(self, documents: Iterable[Any], default: str) -> None:
        """Several resources on stdout."""
        self.print_list(self.flattened(documents), self._chosen(default) or parse_format("yaml"))

    def print_list(self, documents: Iterable[Any], chosen: Format) -> None:
        """Several resources on stdout, in a format that the caller has chosen."""
        if self.user_output:
            self._print(render_list(documents, chosen))

    def flattened(self, documents: Iterable[Any]) -> Iterable[Any]:
        """The documents as `--flatten` takes them apart."""
        if not self._flatten:
            return documents
        from vtrain.output.tree import flatten_documents

        return flatten_documents(documents, self._flatten)

    def _chosen(self, default: str) -> Format | None:
        text = (self.default_format if default == "yaml" else "") or default
        return self.format or (parse_format(text) if text else None)

    def _print(self, texts: Iterable[str]) -> None:
        """Texts that belong together, in pieces large enough to be worth a call of the system."""
        waiting: list[str] = []
        size = 0
        for text in map(self.printable, texts):
            waiting.append(text)
            size += len(text)
            if size > _WORTH_WRITING:
                self.write("".join(waiting).encode("utf-8", "replace"))
                waiting, size = [], 0
        self.write("".join(waiting).encode("utf-8", "replace"))

    def printable(self, text: str) -> str:
        """A text for stdout: on a terminal without control characters, elsewhere as it is."""
        return visible(text) if self._shows_results else text

    def write(self, data: bytes, *, stderr: bool = False) -> None:
        """Bytes as they are, at once."""
        self._clear_status()
        stream = sys.stderr if stderr else sys.stdout
        stream.flush()
        _write_all(stream.fileno(), data)
        if data:
            place = self._place(stderr=stderr)
            (self._unended.discard if data.endswith(b"\n") else self._unended.add)(place)

    # words

    def status(self, text: str) -> None:
        """Words about what was done."""
        if self.user_output:
            self._words(text)

    def progress(self, text: str) -> None:
        """Words about what is going on; `--quiet` leaves them out."""
        if self.user_output and not self.quiet:
            self._words(text)

    def ask(self, text: str) -> None:
        """A question; the answer is typed behind it. Who asks makes sure that somebody is there."""
        self.write(visible(text).encode("utf-8", "backslashreplace"), stderr=True)

    def warn(self, text: str) -> None:
        """Something that the user should know."""
        self._message("warning", f"WARNING: {text}")

    def debug(self, text: str) -> None:
        """What only somebody who looks for a fault wants to read."""
        self._message("debug", f"DEBUG: {text}")

    def error(self, error: VtrainError) -> None:
        """One clear sentence, and below it what to do next."""
        lines = [f"{error.prefix}{error.message}"] if error.message else []
        lines += [f"  {line}" for line in error.hint.splitlines()]
        if lines:
            self._message("error", "\n".join(lines))

    def _message(self, level: str, text: str) -> None:
        if VERBOSITIES.index(level) >= VERBOSITIES.index(self.verbosity):
            self._words(text)

    def _words(self, text: str) -> None:
        """Words on lines of their own: a trainer's last line may have no newline."""
        start = "\n" if self._place(stderr=True) in self._unended else ""
        self.write(f"{start}{visible(text)}\n".encode("utf-8", "backslashreplace"), stderr=True)

    @cached_property
    def _shows_results(self) -> bool:
        return sys.stdout.isatty()

    def _place(self, *, stderr: bool) -> int:
        """A number for where a stream leads, the same for both where they lead to the same."""
        return 2 if stderr or self._is_shared else 1

    @cached_property
    def _is_shared(self) -> bool:
        return os.path.samestat(os.fstat(sys.stdout.fileno()), os.fstat(sys.stderr.fileno()))

    # the status line

    def show_state(self, text: str) -> None:
        """On a terminal: the line at the bottom that tells state and elapsed time."""
        if self._status is None and not self.quiet and self.user_output and sys.stderr.isatty():
            from vtrain.output.terminal import StatusLine

            self._status = StatusLine()
        if self._status is not None:
            self._status.show(text)

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._clear_status()
        self._status = None

    def _clear_status(self) -> None:
        if self._status is not None:
            self._status.clear()

    @property
    def has_status_line(self) -> bool:
        """Whether state and time are shown already, so that no line needs to tell them."""
        return self._status is not None


def _flatten_path(key: str) -> Path:
    from vtrain.output.keys import parse_key

    return parse_key(key, "--flatten").path


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:  # a pipe that somebody else made non-blocking, and that is full
            time.sleep(0.01)
        except BrokenPipeError:
            raise ClosedPipeError("") from None
        except OSError as error:
            raise OutputError(f"Cannot write the output: {error.strerror}.") from error
