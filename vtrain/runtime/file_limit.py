"""The open files of a supervisor: how many its job needs, and how many this user may have (`ulimit -n`)."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from vtrain.errors import UnavailableError

OWN_FILES = 64
"""Of a supervisor beside those of its replicas: its store, its log, and what it opens for a moment."""

_raised: list[tuple[int, int]] = []
"""The limits of this process's user, once they were raised."""


def files_needed(replicas: int, each: int) -> int:
    """How many files a supervisor has open at a time whose replicas need `each`."""
    return OWN_FILES + replicas * each


def check_files(needed: int) -> None:
    """Raise UnavailableError where this user may not have that many files open."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most != resource.RLIM_INFINITY and needed > most:
        raise UnavailableError(
            f"The job needs up to {needed} open files, and this user may have {most}.",
            hint="Lower replicaCount, or have the limit raised (ulimit -Hn).",
        )


def allow_files(needed: int) -> None:
    """Let this process have that many files open, as far as its user may."""
    soft, most = limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft not in (most, resource.RLIM_INFINITY) and soft < needed:
        wanted = needed if most == resource.RLIM_INFINITY else min(needed, most)
        with suppress(ValueError, OSError):  # macOS allows fewer than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
            _raised.append(limits)


@contextmanager
def limit_of_user() -> Iterator[None]:
    """Start a program meanwhile: a trainer has the limit that its user has set."""
    own = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _raised:
        resource.setrlimit(resource.RLIMIT_NOFILE, _raised[0])
    try:
        yield
    finally:
        if _raised:
            resource.setrlimit(resource.RLIMIT_NOFILE, own)
