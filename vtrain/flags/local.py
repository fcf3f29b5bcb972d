"""Flags of what only this machine can do with a job. The annotations are evaluated at every start."""

import re
from typing import Annotated

from typer import Option

from vtrain.engine.container_options import SimulatedPreemption
from vtrain.errors import UsageError
from vtrain.flags.grammar import duration_seconds
from vtrain.flags.options import FlagGroup

AIP_DIRS_FLAG = "--aip-dirs"
AIP_DIRS = ("gs", "local")
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
    aip_dirs: Annotated[
        str | None,
        Option(
            AIP_DIRS_FLAG,
            metavar="FORM",
            help="Local backends: AIP_MODEL_DIR and its relatives as gs (URIs, with Cloud Storage on this "
            "machine behind them) or local (paths).",
        ),
    ] = None


def aip_dirs_form(flags: LocalFlags) -> str:
    """`--aip-dirs`, empty where it is not given. Raises UsageError for another word."""
    if flags.aip_dirs is not None and flags.aip_dirs not in AIP_DIRS:
        raise UsageError(f"{AIP_DIRS_FLAG}: expected gs or local, found {flags.aip_dirs!r}.")
    return flags.aip_dirs or ""


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
