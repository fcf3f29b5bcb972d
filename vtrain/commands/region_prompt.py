"""Asks for a region at a terminal, as gcloud does, where none is set."""

from __future__ import annotations

import sys

from vtrain.errors import ConfigError
from vtrain.output.console import Console
from vtrain.properties import property_flag, property_value
from vtrain.settings import TRAINING_REGIONS

MENU = tuple(region for region in TRAINING_REGIONS if region != "asia-south2")
"""gcloud's own menu, so that who types a number gets the same region."""
NO_REGION, GIVE_REGION = "No region was chosen.", "Give --region=REGION."


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
    from vtrain.commands.asking import answer_to

    while True:
        word = answer_to(console, "Number or name: ", otherwise=NO_REGION, hint=GIVE_REGION)
        if word == str(len(MENU) + 1):
            raise ConfigError(NO_REGION, hint=GIVE_REGION)
        if word in TRAINING_REGIONS:
            return word
        if word.isdecimal() and 1 <= int(word) <= len(MENU):
            return MENU[int(word) - 1]
        console.status(f"Please type a number from 1 to {len(MENU) + 1}, or a region.")
