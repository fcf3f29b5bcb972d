"""`vtrain rerun`: the command line that made a job, once more; with `--watch` after every saved file."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from vtrain.backends import RepeatableBackend
from vtrain.command_log import masked_line, split_line
from vtrain.commands.session import open_named, vtrain_argv
from vtrain.errors import ConfigError, InterruptedByUser, PackagingError, UnavailableError
from vtrain.flags.options import CommonFlags, NewestFlag, PlaceFlags, WatchFlag
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.names import ANY_JOB, TRIAL_LABEL
from vtrain.output.console import Console
from vtrain.packaging.tree import belonging_files
from vtrain.runtime.job_order import TypedCommand

LOOK_SECONDS = 0.3
"""Between two looks at the files; longer where a look takes long."""
_NUMBER = re.compile(r"-[\d.][\d.e+-]*")
CREATES = ("create", "submit", "tune")
STAYS = ("--stream-logs", "--on-interrupt=cancel")
"""Flags with which such a command stays with its job, and stops it."""

Signature = Mapping[str, tuple[int, int]]
"""The time and the size of each file."""


def rerun(
    job: NewestFlag,
    watch: WatchFlag,
    place: PlaceFlags,
    common: CommonFlags,
    remainder: tuple[str, ...] | None,
) -> None:
    """Become the command that made the job, or run it again and again; with other trainer arguments.

    A trial is run as a job of its own, with the parameters that it had.
    """
    session, name = open_named(common, place, job.text, ANY_JOB)
    if not isinstance(session.jobs, RepeatableBackend):
        raise UnavailableError(
            f"The backend {session.backend.name} keeps no command lines.",
            hint="vtrain rerun is for jobs on this machine.",
        )
    command = session.jobs.command(name)
    if command is None:
        raise ConfigError(
            "The command line that made this job is not known.",
            hint="Another program made it. Run its line yourself once.",
        )
    words, made = command.words, session.jobs.get(name)
    if isinstance(made, CustomJob) and TRIAL_LABEL in made.labels:
        from vtrain.commands.tuning_trials import run_line
        from vtrain.output.compared import words_of

        line = run_line(words)
        if line is None:
            hint = f"Its arguments: {shlex.join(words_of(made))}"
            raise ConfigError("The line of its tuning job does not name what a trial runs.", hint=hint)
        words = (*split_line(line)[0], "--", *words_of(made))
    words = with_arguments(words, remainder or ())
    if common.notify:
        words = ("--notify", *words)
    if not Path(command.folder).is_dir():
        raise ConfigError(
            f"The folder {command.folder}, in which the line was typed, does not exist any more."
        )
    session.console.progress(f"As a new job, in {command.folder}:\n$ vtrain {masked_line(words)}")
    if watch.watch:
        _Watch(session.console, command, with_wait(words), session.settings.home).run()
    os.chdir(command.folder)
    # Not a child: signals, the terminal and the exit code are then the command's own.
    os.execv(sys.executable, vtrain_argv(words, is_repeated=True))


def with_arguments(words: tuple[str, ...], given: tuple[str, ...]) -> tuple[str, ...]:
    """The words of a line with other arguments of its trainer.

    An option takes the place of those of its name, and a new one is added. If the first word is no option,
    the words replace all arguments.
    """
    head, tail = split_line(words)
    if not given:
        return words
    if not _is_option(given[0]):
        return (*head, "--", *given)
    new: dict[str, list[str]] = {}
    for name, part in _parts(given):
        new.setdefault(name, []).extend(part)
    merged: list[str] = []
    waiting = dict(new)
    for name, part in _parts(tail[1:]):
        if not name or name not in new:
            merged += part
            continue
        merged += waiting.pop(name, ())
        if new[name] == [name]:  # a switch: the word behind the old one was no value
            merged += part[1:]
    return (*head, "--", *merged, *chain(*waiting.values()))


def _parts(words: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Options by their names, each with its value, and other words by an empty name."""
    place = 0
    while place < len(words):
        name, equals, _ = words[place].partition("=")
        has_value = not equals and place + 1 < len(words) and not _is_option(words[place + 1])
        end = place + 1 + (_is_option(name) and has_value)
        yield (name if _is_option(name) else ""), words[place:end]
        place = end


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-" and not _NUMBER.fullmatch(word)


def with_wait(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words with the flags that follow the job, and stop it when the command is interrupted."""
    head, tail = split_line(words)
    named = [word for word in head if not word.startswith("-")]
    return (*head, *STAYS, *tail) if any(word in CREATES for word in named[:3]) else words


class _Watch:
    """A command that begins again whenever a file of its trainer is saved."""

    def __init__(self, console: Console, command: TypedCommand, words: tuple[str, ...], home: Path) -> None:
        if not command.source_folder:
            raise ConfigError(
                "The job runs no files of yours that could be watched.", hint="Leave --watch out."
            )
        self._console = console
        self._folder = Path(command.source_folder)
        self._argv, self._cwd = vtrain_argv(words, is_repeated=True), command.folder
        self._home = home
        self._seen = signature(self._folder, home) or {}

    def run(self) -> None:
        """Go on until a signal ends it. Raises InterruptedByUser, TerminatedBySignal."""
        while True:
            with subprocess.Popen(self._argv, cwd=self._cwd) as child:
                try:
                    changed = self._wait_for_change(child)
                    self._console.progress(f"{changed} has changed: running again.")
                    child.terminate()
                    child.wait()
                except KeyboardInterrupt:
                    _see_off(child)
                    raise InterruptedByUser("Stopped watching.") from None
                except BaseException:
                    child.terminate()
                    raise

    def _wait_for_change(self, child: subprocess.Popen[bytes]) -> str:
        """The first of the files that were saved, once no more are being written."""
        has_told = False
        while True:
            began = time.monotonic()
            now = signature(self._folder, self._home) or self._seen
            if now != self._seen:
                break
            if child.poll() is not None and not has_told:
                has_told = True
                self._console.progress(f"Waiting for a change in {self._folder}. Ctrl-C ends this.")
            time.sleep(max(LOOK_SECONDS, 5 * (time.monotonic() - began)))
        time.sleep(LOOK_SECONDS / 3)
        while (later := signature(self._folder, self._home) or now) != now:
            now = later
            time.sleep(LOOK_SECONDS / 3)
        changed = min(path for path in {*now, *self._seen} if now.get(path) != self._seen.get(path))
        self._seen = now
        return changed


def signature(folder: Path, home: Path) -> Signature | None:
    """The files that belong to the trainer in a folder; None while they cannot be listed.

    vtrain's own home does not belong to it, where it lies in there.
    """
    try:
        paths = belonging_files(folder, excluded=(home,)).files
    except PackagingError:  # an editor, or a checkout, is at work
        return None
    found = {}
    for path in paths:
        with suppress(OSError):
            status = (folder / path).stat()
            found[path] = (status.st_mtime_ns, status.st_size)
    return found


def _see_off(child: subprocess.Popen[bytes]) -> None:
    """Wait for a child that was interrupted. A terminal sends Ctrl-C to both; another sender may not have."""
    try:
        child.wait(timeout=1.0)
    except subprocess.TimeoutExpired:
        if not sys.stdin.isatty():
            child.send_signal(signal.SIGINT)
    except KeyboardInterrupt:  # the child got that one too, and kills its job
        pass
    while child.poll() is None:
        with suppress(KeyboardInterrupt):
            child.wait()
