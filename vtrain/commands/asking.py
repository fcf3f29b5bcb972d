"""Questions at a terminal: any, and the one for a region, which gcloud asks where none is set."""

from __future__ import annotations

import select
import sys

from vtrain.errors import ConfigError
from vtrain.output.console import Console
from vtrain.properties import property_flag, property_value
from vtrain.settings import TRAINING_REGIONS

MENU = tuple(region for region in TRAINING_REGIONS if region != "asia-south2")
"""gcloud's own menu, so that a number means the same region in both."""
NO_REGION, GIVE_REGION = "No region was chosen.", "Give --region=REGION."
_SIGNAL_SECONDS = 0.2
"""The longest wait of a signal that Python has not noticed."""


def answer_to(
    console: Console, question: str, *, otherwise: str = "Nothing was written.", hint: str = ""
) -> str:
    """Ask a question and return the typed line, stripped.

    Raises ConfigError at the end of the input; its message is `otherwise`.
    """
    console.ask(question)
    # Python would not notice a signal that arrives just before it reads; a wait that ends notices it.
    while not select.select([sys.stdin], [], [], _SIGNAL_SECONDS)[0]:
        continue
    answer = sys.stdin.readline()
    if not answer:
        raise ConfigError(otherwise, hint=hint)
    return answer.strip()


def prompted_region(console: Console) -> str:
    """The region that the user chooses; empty where one is set already, or nobody can be asked.

    Raises ConfigError when the choice is cancelled.
    """
    can_ask = sys.stdin.isatty() and sys.stderr.isatty() and not console.quiet
    if property_value("ai", "region") or not can_ask or property_flag("core", "disable_prompts"):
        return ""
    lines = [f" [{number}] {region}" for number, region in enumerate(MENU, start=1)]
    console.status("\n".join(["In which region?", *lines, f" [{len(lines) + 1}] none: cancel"]))
    region = _choose(console)
    console.status(f"To make it the default: gcloud config set ai/region {region}")
    return region


def _choose(console: Console) -> str:
    """The region of the number, or name, that is typed; asked until it is one."""
    numbers = [str(number) for number in range(1, len(MENU) + 1)]
    while True:
        word = answer_to(console, "Number or name: ", otherwise=NO_REGION, hint=GIVE_REGION)
        if word == str(len(MENU) + 1):
            raise ConfigError(NO_REGION, hint=GIVE_REGION)
        if word in TRAINING_REGIONS:
            return word
        if word in numbers:
            return MENU[numbers.index(word)]
        console.status(f"Please type a number from 1 to {len(MENU) + 1}, or a region.")
