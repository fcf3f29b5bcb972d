"""A question at a terminal, and the line that is typed."""

from __future__ import annotations

import select
import sys

from vtrain.errors import ConfigError
from vtrain.output.console import Console

_SIGNAL_SECONDS = 0.2
"""How long a signal that Python has not noticed may wait."""


def answer_to(
    console: Console, question: str, *, otherwise: str = "Nothing was written.", hint: str = ""
) -> str:
    """The line that is typed, without blanks around it. Raises ConfigError, which says `otherwise`,
    at the end of the input.
    """
    console.ask(question)
    # Python would not notice a signal that arrives just before it reads; a wait that ends notices it.
    while not select.select([sys.stdin], [], [], _SIGNAL_SECONDS)[0]:
        continue
    answer = sys.stdin.readline()
    if not answer:
        raise ConfigError(otherwise, hint=hint)
    return answer.strip()
