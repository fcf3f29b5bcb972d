"""`vtrain gc`: removes caches and jobs that are not used any more, and leftovers of killed commands."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import Any

from vtrain.backends.registry import every_backend, plugin_faults
from vtrain.commands.session import confirm, open_console
from vtrain.errors import EngineError, StorageError, UnavailableError, UsageError
from vtrain.flags.grammar import duration_seconds, join_lists
from vtrain.flags.options import CommonFlags, DryRunFlag, PruneFlags
from vtrain.messages.nearest import did_you_mean
from vtrain.output.console import Console
from vtrain.runtime.gc.candidate import (
    ELSEWHERE,
    FRESH_SECONDS,
    KINDS,
    NO_FAULT,
    ON_ENGINE,
    ON_MACHINE,
    OUTPUT,
    Candidate,
    Search,
)
from vtrain.runtime.gc.sweep import on_machine, usage_of_home
from vtrain.settings import home_folder
from vtrain.sizes import size_in_words
from vtrain.uv_program import find_uv

TABLE = "table(name, kind, sizeText:label=SIZE, created, status)"
NARROW_TABLE = "table(name, kind, sizeText:label=SIZE, created.date('%Y-%m-%d'), status)"
"""The table on a terminal, which is too narrow for TABLE."""
AGE_FLAG, OLDER_THAN = "--older-than", "30d"
RECENT = "used within the last hour"
"""Why things of any age stay that are no jobs, unless all go."""
_NO_UNIT = re.compile(r"[0-9.]\s*\Z")


def gc(prune: PruneFlags, run: DryRunFlag, common: CommonFlags) -> None:
    """Remove what is unused, and list it with what became of it.

    Raises StorageError where something could not be removed, and the rest is removed all the same;
    ConfigError where the user does not consent to `--all`.
    """
    console = open_console(common)
    search = _search(prune)
    if prune.all and not run.dry_run:
        question = "Remove all ended jobs, their output, and what is cached?"
        confirm(console, question, otherwise="Nothing was removed.")
    documents: list[dict[str, Any]] = []
    failed = 0
    is_table = console.format is None and sys.stdout.isatty()
    console.show_state("Looking for what is unused …")
    backends = _of_backends(console, search) if search.wants(*ON_ENGINE) else ()
    for candidate in chain(backends, on_machine(search)):
        if search.kinds and candidate.kind not in search.kinds:
            continue
        console.show_state(f"{len(documents)} found: {candidate.label or candidate.name}")
        kept = candidate.kept or ("" if run.dry_run else candidate.discard())
        failed += not candidate.kept and kept not in NO_FAULT
        document = _document(candidate, kept, dry_run=run.dry_run)
        documents.append(document | {"name": candidate.label or candidate.name} if is_table else document)
    console.close()
    if documents or console.format is not None:
        console.results(documents, NARROW_TABLE if is_table else TABLE)
    if not failed or not all(map(_stays, documents)):
        _sum_up(console, documents, search, dry_run=run.dry_run)
    if run.dry_run:
        _tell_usage(console, search, documents, age=prune.older_than or OLDER_THAN)
    if failed:
        items = "1 item" if failed == 1 else f"{failed} items"
        raise StorageError(f"{items} could not be removed.", hint="STATUS says why.")


def _search(prune: PruneFlags) -> Search:
    return Search(
        home=home_folder(),
        older_than=_age("0s" if prune.all and prune.older_than is None else prune.older_than),
        now=time.time(),
        kinds=_kinds(prune),
        all_homes=prune.all_homes,
        images_of_any_age=(prune.images or prune.all) and prune.older_than is None,
        is_for_all=prune.all,
    )


def _kinds(prune: PruneFlags) -> frozenset[str]:
    """The kinds to look for; empty for the usual ones. Raises UsageError for one that does not exist."""
    kinds = join_lists(prune.kind, "--kind")
    if prune.all:
        if kinds or prune.images:
            raise UsageError("--all is for every kind: leave --kind and --images out.")
        return frozenset(KINDS)
    if kinds and prune.images:
        hint = f"Instead of --images: --kind={','.join(ON_ENGINE)}"
        raise UsageError("--images and --kind exclude each other.", hint=hint)
    for kind in kinds:
        if kind not in KINDS:
            hint = did_you_mean(kind, KINDS, otherwise=f"The kinds are {', '.join(KINDS)}.")
            raise UsageError(f"--kind: there is no kind {kind!r}.", hint=hint)
    return frozenset(ON_ENGINE if prune.images else kinds)


def _age(text: str | None) -> float:
    """Seconds. A number without a unit is refused: 30 means days to most, and seconds remove everything."""
    text = OLDER_THAN if text is None else text
    if _NO_UNIT.search(text):
        raise UsageError(f"{AGE_FLAG}: {text!r} has no unit.", hint="Write days or hours, such as 7d or 12h.")
    return duration_seconds(text, AGE_FLAG)


def _of_backends(console: Console, search: Search) -> Iterator[Candidate]:
    for backend in every_backend():
        try:
            with plugin_faults(backend.name):
                yield from backend.garbage(search)
        except (EngineError, UnavailableError) as error:
            if search.kinds and not search.is_for_all:
                raise
            console.status(f"Images and containers are left as they are: {error.message}")


def _document(candidate: Candidate, kept: str, *, dry_run: bool) -> dict[str, Any]:
    status = "would be removed" if dry_run else "removed"
    if kept:
        status = kept if kept == ELSEWHERE else f"kept: {kept}"
    return {
        "name": candidate.name,
        "id": candidate.id,
        "kind": candidate.kind,
        "size": candidate.size,
        "sizeText": size_in_words(candidate.size) if candidate.size else "",
        "created": candidate.created,
        "status": status,
    }


def _tell_usage(console: Console, search: Search, documents: list[dict[str, Any]], *, age: str) -> None:
    """A line for each kind: what is there, and how much of it would go."""
    found = [*usage_of_home(search.home)] if search.wants(*ON_MACHINE) else []
    for backend in every_backend() if search.wants(*ON_ENGINE) else ():
        with suppress(EngineError, UnavailableError), plugin_faults(backend.name):
            found += backend.usage(search.home)
    for usage in found:
        going = [entry for entry in documents if entry["kind"] in usage.kinds and not _stays(entry)]
        noun = usage.noun if usage.count == 1 else f"{usage.noun}s"
        words = f"{usage.count} {noun}, {size_in_words(usage.size)}"
        if search.wants(*usage.kinds):
            is_listed = any(entry["kind"] in usage.kinds for entry in documents)
            is_recent = usage.count and not is_listed and usage.noun in ("environment", "package")
            why = f": {RECENT}" if is_recent and search.older_than < FRESH_SECONDS else ""
            size = size_in_words(sum(entry["size"] for entry in going))
            console.status(f"{words}; {len(going)} would go, {size}{why}.")
        elif usage.size and not search.kinds:
            console.status(f"{words}; only --kind={OUTPUT} removes those older than {age}.")


def _stays(document: dict[str, Any]) -> bool:
    """Whether this command removes nothing of it."""
    return document["status"] not in ("removed", "would be removed")


def _sum_up(console: Console, documents: list[dict[str, Any]], search: Search, *, dry_run: bool) -> None:
    going = [document for document in documents if not _stays(document)]
    if not going:
        nothing = "Nothing is removed: STATUS says why." if documents else "There is nothing to remove."
        console.status(nothing)
        if not documents and not search.kinds and search.home.exists():
            reasons = ["is newer"] * bool(search.older_than)
            reasons += [f"was {RECENT}"] * (search.older_than < FRESH_SECONDS)
            newer = " or ".join(reasons)
            console.progress(f"What {newer} stays. To remove that too:\n\n$ vtrain gc --all\n")
        return
    kept: dict[str, list[int]] = {}
    for document in documents if search.is_for_all else ():
        if document["status"].startswith("kept: "):
            kept.setdefault(document["status"].removeprefix("kept: "), []).append(document["size"])
    whys = (f"{len(sizes)} ({size_in_words(sum(sizes))}): {why}" for why, sizes in kept.items())
    more = f" Kept {'; '.join(whys)}."
    items = "1 item" if len(going) == 1 else f"{len(going)} items"
    size = size_in_words(sum(document["size"] for document in going))
    console.status(f"{'Would remove' if dry_run else 'Removed'} {items}, {size}.{more if kept else ''}")
    if search.is_for_all and any(document["kind"] == "environment" for document in going):
        with suppress(UnavailableError):
            clean = f"$ {find_uv()} cache clean"
            console.progress(f"uv's own cache keeps what it downloaded. To empty it:\n\n{clean}\n")
