"""Flags of what only this machine can do with a job. The annotations are evaluated at every start."""

import re
from typing import Annotated

from typer import Option

from vtrain.engine.container_options import SimulatedPreemption
from vtrain.errors import UsageError
from vtrain.flags.grammar import duration_seconds
from vtrain.flags.options import FlagGroup

PREEMPTION_FLAG = "--simulate-preemption"
_REPLICA = re.compile(r"workerpool\d+-\d+")


class LocalFlags(FlagGroup, frozen=True):
    """What only local backends take."""

    simulate_preemption: Annotated[
        str | None,
        Option(
            PREEMPTION_FLAG,
            metavar="DURATION[,REPLICA]",
            help="Local backends: after that time send a replica (by default the last) SIGTERM, and bring "
            "it back by Vertex AI's rules.",
        ),
    ] = None


def simulated_preemption(flags: LocalFlags) -> SimulatedPreemption | None:
    """What `--simulate-preemption` asks for. Raises UsageError for what is no such thing."""
    text = flags.simulate_preemption
    if text is None:
        return None
    duration, comma, replica = text.partition(",")
    after_seconds = duration_seconds(duration, PREEMPTION_FLAG)
    if comma and not _REPLICA.fullmatch(replica):
        raise UsageError(
            f"{PREEMPTION_FLAG}: {replica!r} is not the name of a replica.", hint="Write 30s,workerpool1-0."
        )
    return SimulatedPreemption(after_seconds=after_seconds, replica=replica)
