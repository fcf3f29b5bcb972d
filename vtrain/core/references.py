"""Names of jobs on this machine: the id, its first digits, the display name, `@last`, `@last-1`."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from vtrain.backends.interface import Backend, RuntimeBackend
from vtrain.command_log import current_command
from vtrain.errors import ConfigError, NotFoundError, StorageError
from vtrain.messages.names import (
    ANY_JOB,
    CUSTOM_JOB,
    CUSTOM_JOBS,
    HYPERPARAMETER_TUNING_JOBS,
    JOB_KINDS,
    LOCAL_PROJECT,
    MODEL,
    PERSISTENT_RESOURCE,
    TRAINING_PIPELINES,
    TUNING_JOB,
    ResourceKind,
    kind_of,
    parse_name,
)
from vtrain.messages.nearest import did_you_mean
from vtrain.messages.states import has_ended, short
from vtrain.runtime.database import has_store
from vtrain.settings import home_folder
from vtrain.times import ago

if TYPE_CHECKING:
    from vtrain.runtime.store import Named

Columns = Callable[[Sequence[Sequence[str]]], list[str]]
"""Lays the rows of a table out as lines."""
# Every command imports these patterns: they are compiled at their first use.
_LOCAL_NAME = rf"projects/{LOCAL_PROJECT}/locations/[a-z0-9-]+/[A-Za-z]+/\d+"
_COMMAND = rf"vtrain [a-z]+(?:-[a-z]+)* ([a-z-]+) ({_LOCAL_NAME})"
LAST = "@last"
"""The newest job of this machine."""
_NEWEST = rf"{LAST}(?:-([0-9]{{1,3}}))?"
"""The newest one, or that many before it."""
_TRIAL = r".+@(?:best|[0-9]+)"
"""A trial of a tuning job, which is a job itself."""
MOST_CANDIDATES = 5
"""The jobs that the answer to an ambiguous name lists."""
MOST_NAMESAKES = 1000
"""The jobs of one name that are read from the store."""


_SHORT_VERBS = {
    "describe": "show {}",
    "stream-logs": "logs {} -f",
    "wait": "logs {} -f",
    "cancel": "stop {}",
    "delete": "rm {}",
    "trials": "trials {}",
    "report": "report {}",
    "cp": "cp {}@best:model .",
}
_SHORT_COMMANDS = frozenset(
    "run debug submit tune trials best report ps compare logs wait stop show rm rerun exec shell cp top "
    "tensorboard dashboard".split()
)
_OTHER_KINDS = {
    CUSTOM_JOBS: ("no tuning job", "See what it is:\n$ vtrain show {0}"),
    HYPERPARAMETER_TUNING_JOBS: (
        "a tuning job: its trials are jobs of their own",
        "Name one by its number, or the best as {0}@best:\n$ vtrain trials {0}",
    ),
    TRAINING_PIPELINES: (
        "a training pipeline: its task is a job of its own",
        "See which:\n$ vtrain show {0}",
    ),
}
"""What a job is that a command does not take, and what to type instead."""
_TAKEN_FOR = {
    CUSTOM_JOB: (HYPERPARAMETER_TUNING_JOBS, TRAINING_PIPELINES),
    TUNING_JOB: (CUSTOM_JOBS, TRAINING_PIPELINES),
}
"""The collections where a word is sought that means no job of a kind."""
FEWEST_DIGITS = 6
"""The fewest digits of a short id: with fewer, new jobs would soon make it ambiguous."""


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A word of the command line, and the jobs of this machine that it may mean, the newest first.

    `jobs` is None where the store was not asked, because the word is a full name, or could not be. Where the
    word means none, `others` are the display names that it could have been, and `instead` is the job
    of another kind that it means.
    """

    text: str
    jobs: tuple[Named, ...] | None = None
    others: tuple[str, ...] = ()
    instead: str = ""

    def about_running(self) -> Reference:
        """The same word for a command about running jobs: a name of theirs means no job that has ended."""
        if self.text.isdecimal():  # digits that fit a running job may begin the id that the user meant
            return self
        going = tuple(job for job in self.jobs or () if not has_ended(job.state))
        return msgspec.structs.replace(self, jobs=going or self.jobs)

    @property
    def name(self) -> str:
        """The full name of what the word means; of the newest, where only people would be unsure.

        A number that several ids, or one of another kind, begin with may be the id of a job elsewhere.
        """
        if self.text.isdecimal() and len(self.jobs or ()) != 1:
            return ""
        if not self.jobs:
            return self.instead
        return self.jobs[0].name

    def meant_on(
        self, backend: Backend, kind: ResourceKind, columns: Columns, *, newest: bool = False
    ) -> str:
        """The full name that the word means to a backend; the word itself, where the backend has to know.

        Raises ConfigError for a word that means several jobs, unless the `newest` is meant, or none to this
        backend; NotFoundError for one that can only be a display name and is none.
        """
        is_word = not self.text.isdecimal() and "/" not in self.text
        if not isinstance(backend, RuntimeBackend):
            if self.text.startswith("@"):
                raise ConfigError(
                    f"{self.text} names a job of this machine, and the backend is {backend.name}.",
                    hint=f"The newest job there:\n$ {list_command(kind.group)} --limit=1",
                )
            return self.text
        if self.instead:
            what, command = _OTHER_KINDS[self.instead.split("/")[-2]]
            raise ConfigError(f"{self.text} is {what}.", hint=command.format(shlex.quote(self.text)))
        if self.jobs is None or (not self.jobs and not is_word):
            return self.text
        if not self.jobs:
            listed = f"See what there is:\n$ {list_command(kind.group)}"
            others = {*self.others, LAST} - {self.text}
            hint = did_you_mean(self.text, others, otherwise=listed)
            raise NotFoundError(self._nothing(kind), hint=hint)
        if len(self.jobs) > 1 and not newest:
            raise ConfigError(f"{self.text!r} may mean several jobs.", hint=self._candidates(columns))
        return self.jobs[0].name

    @property
    def note(self) -> str:
        """A sentence about the newest job where the word names no other one; empty where it does."""
        if not self.jobs or (len(self.jobs) == 1 and self.text != LAST):
            return ""
        job = self.jobs[0]
        called = shown_name(job.name) if sys.stderr.isatty() else job_id(job.name)
        about = ", ".join(filter(None, (called, short(job.state), ago(job.create_time))))
        if self.text == LAST:
            return f"The newest job is {' '.join(job.display_name.split())} ({about})."
        return f"The newest of {len(self.jobs)} jobs called {self.text} is meant ({about})."

    def _nothing(self, kind: ResourceKind) -> str:
        if newest := re.fullmatch(_NEWEST, self.text):
            noun = "tuning job" if kind.collection == HYPERPARAMETER_TUNING_JOBS else "job"
            here = f"There is no {noun} on this machine yet."
            return f"There are not so many jobs: {self.text}." if newest[1] else here
        return f"No job on this machine has the name {self.text!r}."

    def _candidates(self, columns: Columns) -> str:
        jobs = self.jobs or ()
        called = shown_name if sys.stderr.isatty() else job_id
        cells = [
            (called(job.name), short(job.state), ago(job.create_time), job.display_name)
            for job in jobs[:MOST_CANDIDATES]
        ]
        others = ["… and others"] if len(jobs) > MOST_CANDIDATES else []
        return "\n".join(["Name it by its id, or by the first digits of that:", *columns(cells), *others])


def job_id(name: str) -> str:
    """The last part of a full name."""
    return name.rpartition("/")[2]


def find_reference(text: str, kind: ResourceKind, region: str) -> Reference:
    """The jobs of this machine that a word may mean, in a region if one is given; only the store is asked."""
    if not text or parse_name(text) is not None or kind in (PERSISTENT_RESOURCE, MODEL):
        return Reference(text=text)
    try:
        home = home_folder()
        if not has_store(home):
            return Reference(text=text, jobs=())
        from vtrain.runtime.store import Store

        newest = re.fullmatch(_NEWEST, text)
        before = int(newest[1] or 0) if newest else 0
        word, limit = ("", before + 1) if newest else (text, MOST_NAMESAKES)
        location = region.rpartition("/")[2]
        store = Store.open(home)
        found = store.named(kind.collections, word, location=location, limit=limit)[before:]
        if not found and kind in _TAKEN_FOR and not (newest and (before or kind == TUNING_JOB)):
            for other in store.named(_TAKEN_FOR[kind], word, location=location, limit=1):
                return Reference(text=text, jobs=(), instead=other.name)
        near = () if found else store.named(kind.collections, "", location=location, limit=MOST_NAMESAKES)
    except StorageError:  # a backend of this machine will say so, and another needs no store
        return Reference(text=text)
    exact = tuple(job for job in found if job_id(job.name) == text)
    others = tuple({job.display_name: None for job in near if job.display_name})
    return Reference(text=text, jobs=exact or tuple(found), others=others)


def names_trial(text: str) -> bool:
    """Whether a word is `JOB@3` or `JOB@best`, and not the name of a job on this machine."""
    return re.fullmatch(_TRIAL, text) is not None and not find_reference(text, ANY_JOB, "").jobs


def jobs_here(*collections: str) -> dict[str, str]:
    """The backends of this machine's jobs, by their full names; without a collection those of every kind.

    Raises StorageError where the store cannot be read.
    """
    home = home_folder()
    if not has_store(home):
        return {}
    from vtrain.runtime.store import Store

    return Store.open(home).backends(collections or ANY_JOB.collections)


def short_ids(names: Iterable[str]) -> dict[str, str]:
    """The first digits of each job's id that no other job's id begins with, by the full names."""
    ordered = sorted(names, key=job_id)
    ids = ["", *map(job_id, ordered), ""]
    shared = [len(os.path.commonprefix(pair)) for pair in pairwise(ids)]  # noqa: RUF071 - ids are no paths
    return {
        name: job_id(name)[: max(FEWEST_DIGITS, shared[place] + 1, shared[place + 1] + 1)]
        for place, name in enumerate(ordered)
    }


def shown_name(name: str) -> str:
    """A resource's name in a message: for people on a terminal a job of this machine has a short one."""
    full = parse_name(name)
    if full is None or full.project != LOCAL_PROJECT or not sys.stderr.isatty():
        return name
    with suppress(StorageError):
        return short_ids(jobs_here()).get(name, full.id)
    return full.id


def with_shown_names(text: str) -> str:
    """A message with names of this machine's jobs, and commands about them, as people on a terminal see them.

    After a short command its hints are short through a pipe too.
    """
    text = re.sub(_COMMAND, lambda match: command_about(match[2], match[1]), text)
    text = text.replace(f"vtrain {CUSTOM_JOB.group} list", list_command(CUSTOM_JOB.group))
    return re.sub(_LOCAL_NAME, lambda match: shown_name(match[0]), text)


def command_about(name: str, verb: str) -> str:
    """The command line of a verb about a resource; a short one for people, and after a short one."""
    full, kind = parse_name(name), kind_of(name)
    if kind in JOB_KINDS and verb in _SHORT_VERBS and _speaks_short():
        is_here = full is not None and full.project == LOCAL_PROJECT
        called = shown_name(name) if sys.stderr.isatty() or not is_here else job_id(name)
        return f"vtrain {_SHORT_VERBS[verb].format(called)}"
    return f"vtrain {kind.group} {verb} {shown_name(name)}"


def ended_log_command(name: str) -> str:
    """The command line that prints the log of an ended job, which nobody has to follow."""
    return command_about(name, "stream-logs").removesuffix(" -f")


def _speaks_short() -> bool:
    """Whether people see this on a terminal, or the command that was typed is a short one itself."""
    typed = next((word for word in current_command() if not word.startswith("-")), "")
    return sys.stderr.isatty() or typed in _SHORT_COMMANDS


def list_command(group: str) -> str:
    """The command line that lists the jobs of a group; for custom jobs short as in `command_about`."""
    is_short = group == CUSTOM_JOB.group and _speaks_short()
    return "vtrain ps" if is_short else f"vtrain {group} list"
