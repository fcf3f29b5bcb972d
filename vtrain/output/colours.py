"""The colours of what people read: when a stream has them, and which role has which.

The conventions are those of no-color.org, force-color.org and bixense.com/clicolors. The order, first match
wins: `NO_COLOR` turns colours off; `FORCE_COLOR` and `CLICOLOR_FORCE` turn them on, also through a pipe;
`TERM=dumb` and `CLICOLOR=0` turn them off; a terminal has colours. An empty variable counts as absent.

Documents on stdout are for machines, and have no colours whatever the variables say.
"""

from __future__ import annotations

import os
from enum import Enum
from typing import NamedTuple, TextIO

from vtrain.messages import states
from vtrain.output.terminal import visible


class Role(Enum):
    """The meaning of a piece of text; the value is its SGR parameter."""

    GOOD = "32"
    ERROR = "1;31"
    WARNING = "33"
    ACTIVE = "36"
    NAME = "1"
    DIM = "2"
    """Bookkeeping: what explains, and is not what one looks for."""


class Piece(NamedTuple):
    """A part of a message, with its role."""

    text: str
    role: Role


_STATES = {
    states.SUCCEEDED: Role.GOOD,
    states.PARTIALLY_SUCCEEDED: Role.WARNING,
    states.FAILED: Role.ERROR,
    states.CANCELLING: Role.WARNING,
    states.CANCELLED: Role.WARNING,
    states.EXPIRED: Role.WARNING,
    states.RUNNING: Role.ACTIVE,
}


def has_colours(stream: TextIO) -> bool:
    """Whether text for people on this stream is coloured."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR") or os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    if os.environ.get("TERM") == "dumb" or os.environ.get("CLICOLOR") == "0":
        return False
    return stream.isatty()


def paint(text: str, role: Role) -> str:
    """The text in the colour of its role, for a stream that has colours."""
    return f"\x1b[{role.value}m{text}\x1b[0m" if text else ""


def painted(pieces: tuple[str | Piece, ...], *, coloured: bool) -> str:
    """A message made of plain text and pieces with a role. Control characters in either are made visible."""
    return "".join(
        paint(visible(piece.text), piece.role)
        if coloured and isinstance(piece, Piece)
        else visible(piece.text if isinstance(piece, Piece) else piece)
        for piece in pieces
    )


def name(text: str) -> Piece:
    """The name of a job or another resource."""
    return Piece(text, Role.NAME)


def dim(text: str) -> Piece:
    """Bookkeeping."""
    return Piece(text, Role.DIM)


def state(text: str) -> Piece:
    """A job's state without its prefix, in the colour that belongs to it."""
    return Piece(states.short(text), state_role(text))


def state_role(text: str) -> Role:
    """The role of a state, with or without its prefix; a state that waits is bookkeeping."""
    return _STATES.get(f"JOB_STATE_{states.short(text)}", Role.DIM)
