"""`--filter` and `--sort-by` of the list commands; imported when one of them is given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vtrain.flags.options import ListFlags
from vtrain.output.console import Console
from vtrain.output.expression import parse_filter, parse_sort, sort_documents

Documents = Iterable[dict[str, Any]]


class Selection:
    """What a list command shows, and in which order. Parsed at once: a bad one asks for nothing."""

    def __init__(self, listing: ListFlags) -> None:
        self.filter = parse_filter(listing.filter) if listing.filter else None
        self.keys = parse_sort(listing.sort_by) if listing.sort_by else None

    def apply(self, documents: Documents, console: Console) -> Documents:
        """The documents that are wanted, sorted; warns of a key that none of them has."""
        everything = list(documents)
        chosen = everything
        if self.filter is not None:
            chosen = [document for document in everything if self.filter.matches(document)]
            absent = self.filter.absent_keys(everything) if everything else ()
            if absent:
                console.warn(f"--filter: no resource has the key {', '.join(absent)}.")
        if self.keys is None:
            return chosen
        numeric = console.format is not None and console.format.name == "table"
        return sort_documents(chosen, self.keys, numeric=numeric)
