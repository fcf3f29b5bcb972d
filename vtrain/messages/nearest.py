"""Suggestions for misspelled names."""

from __future__ import annotations

import re
from collections.abc import Iterable


def did_you_mean(word: str, names: Iterable[str], *, otherwise: str, cutoff: float = 0.6) -> str:
    """A hint with the nearest of the names; `otherwise` where all are too different."""
    near = nearest(word, names, cutoff=cutoff)
    return f"Did you mean {near}?" if near else otherwise


def nearest(word: str, names: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The name most similar to the word; empty below the similarity `cutoff`, as in difflib.

    Names with every part of the word come before all others: `NVIDIA_T4` is NVIDIA_TESLA_T4, although
    NVIDIA_L4 is more similar.
    """
    import difflib

    sorted_names = sorted(names)
    whole = [name for name in sorted_names if _parts(word) <= _parts(name)]
    found = difflib.get_close_matches(word, whole or sorted_names, n=1, cutoff=0.0 if whole else cutoff)
    return found[0] if found else ""


def _parts(name: str) -> frozenset[str]:
    return frozenset(re.split(r"[-_]", name))
