"""The commands that every kind of job has."""

from __future__ import annotations

import msgspec

from vtrain.flags.command import CommandInfo
from vtrain.flags.options import (
    CommonFlags,
    InterruptFlag,
    ListFlags,
    NameFlag,
    PlaceFlags,
    StreamFlags,
    TimeoutFlag,
)
from vtrain.messages.names import ResourceKind


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """The help of a group's commands: what people call its jobs, and the summaries that are its own."""

    job: str
    describe: str
    cancel: str
    stream_logs: str
    delete: str
    stream_details: str = ""


_EXAMPLES = {
    "list": (
        ("List the ten newest failed jobs", "--filter=state=JOB_STATE_FAILED --limit=10"),
        ("Print the ids of all jobs, one per line", "--format='value(name.basename())'"),
    ),
    "describe": (
        ("Print a job as YAML", "1234567890"),
        ("Print its state", "1234567890 --format='value(state)'"),
    ),
    "cancel": (
        ("Cancel a job", "1234567890"),
        ("Cancel a job on Vertex AI", "1234567890 --region=europe-west4"),
    ),
    "stream-logs": (
        ("Print the log until the job ends", "1234567890"),
        ("Print only the lines of one replica", "1234567890 --task-name=workerpool0-0"),
    ),
    "wait": (("Wait for a job", "1234567890"), ("Wait for at most an hour", "1234567890 --wait-timeout=1h")),
    "delete": (
        ("Delete a job", "1234567890"),
        ("Delete a job on Vertex AI", "1234567890 --region=europe-west4"),
    ),
}
"""A sentence and the end of a command line, for each command that every kind of job has."""


def job_commands(
    kind: ResourceKind, name: type[NameFlag], words: Words, *, watched: ResourceKind | None = None
) -> tuple[CommandInfo, ...]:
    """The commands about jobs that are there. `watched` is what `stream-logs` takes, where that is more."""
    jobs, watching, where = "vtrain.commands.jobs", "vtrain.commands.watching", (PlaceFlags, CommonFlags)
    about = {"kind": kind}
    return (
        CommandInfo(
            name="list",
            handler=f"{jobs}:list_jobs",
            summary=f"List {words.job}s, newest first: as a table on a terminal, as YAML elsewhere.",
            examples=_examples(kind, "list"),
            flags=(ListFlags, *where),
            fixed=about,
        ),
        CommandInfo(
            name="describe",
            handler=f"{jobs}:describe",
            summary=words.describe,
            examples=_examples(kind, "describe"),
            flags=(name, *where),
            fixed=about,
        ),
        CommandInfo(
            name="cancel",
            handler=f"{jobs}:cancel",
            summary=words.cancel,
            examples=_examples(kind, "cancel"),
            flags=(name, *where),
            fixed=about,
        ),
        CommandInfo(
            name="stream-logs",
            handler=f"{watching}:stream_logs",
            summary=words.stream_logs,
            details=words.stream_details,
            examples=_examples(kind, "stream-logs"),
            flags=(name, StreamFlags, *where),
            fixed={"kind": watched or kind},
        ),
        CommandInfo(
            name="wait",
            handler=f"{watching}:wait",
            summary=f"Wait until a {words.job} ends, and exit with a code for its state.",
            details="The exit code is 0 if it succeeded, 10 if it failed, and 11 if it was cancelled.",
            examples=_examples(kind, "wait"),
            flags=(name, TimeoutFlag, InterruptFlag, *where),
            fixed=about,
        ),
        CommandInfo(
            name="delete",
            handler=f"{jobs}:delete",
            summary=words.delete,
            examples=_examples(kind, "delete"),
            flags=(name, *where),
            fixed=about,
        ),
    )


def _examples(kind: ResourceKind, command: str) -> tuple[tuple[str, str], ...]:
    return tuple((text, f"vtrain {kind.group} {command} {rest}") for text, rest in _EXAMPLES[command])
