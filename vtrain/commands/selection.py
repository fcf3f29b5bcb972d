"""The output of list commands: flattened, filtered, sorted, limited, in pages, as URIs. In this order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from vtrain.errors import VtrainError
from vtrain.flags.grammar import count_or_unlimited, split_list
from vtrain.flags.options import ListFlags
from vtrain.output.console import Console
from vtrain.output.language.expressions import parse_filter, parse_sort
from vtrain.output.language.format import PAGE, parse_format
from vtrain.output.language.keys import Key, get

LIST_TABLE = (
    "table(name.basename():label=ID, displayName:label=NAME, state:label=STATE, createTime:label=CREATED)"
)
"""A list of jobs for people, where it is not drawn for a terminal."""
Documents = Iterable[Any]
UriOf = Callable[[dict[str, Any]], str]


def show_list(
    console: Console,
    listing: ListFlags,
    documents: Documents,
    *,
    default: str,
    uri_of: UriOf,
    draw: Callable[[Documents], str] | None = None,
) -> None:
    """Print the documents that the flags choose, in `--format`, or as `draw` lays them out, or in `default`.

    Everything is read before the first document is asked for, and only as many are asked for as are shown.
    If they end in an error, what came before it is shown. Raises UsageError and ConfigError for bad flags.
    """
    selection = Selection(console, listing, default=default, uri_of=uri_of)
    if draw is not None and selection.text == default and not (selection.page_size or console.flatten):
        if console.user_output:
            console.write(draw(selection.apply(documents)).encode("utf-8", "replace"))
    else:
        console.print_list(selection.apply(documents), selection.format)
    if not selection.shown and selection.failure is None and console.format is None:
        console.status("Listed 0 items.")
    if selection.failure is not None:
        raise selection.failure


class Selection:
    """The flags of a list command, read, and what became of the documents: `shown` counts them."""

    def __init__(self, console: Console, listing: ListFlags, *, default: str, uri_of: UriOf) -> None:
        self.console = console
        self.listing = listing
        self.uri_of = uri_of
        self.limit = count_or_unlimited(listing.limit, "--limit")
        self.page_size = count_or_unlimited(listing.page_size, "--page-size")
        self.text = console.format_text or ("value(.)" if listing.uri else console.default_format or default)
        self.format = console.format or parse_format(self.text)
        if listing.sort_by:
            self.order = parse_sort(",".join(split_list(listing.sort_by, "--sort-by")))
            self.format = parse_format(self.text, self.order)
        if listing.filter:
            self.filter = parse_filter(listing.filter, aliases=self.format.aliases.get)
        self.shown = 0
        self.failure: VtrainError | None = None

    def apply(self, documents: Documents) -> Documents:
        """The documents that are wanted, as they are to be printed."""
        chosen = self.console.flattened(self._until_failure(documents))
        if self.listing.filter:
            chosen = filter(self.filter.matches, self._looked_for("--filter", self.filter.keys, chosen))
        if self.listing.sort_by:
            from vtrain.output.language.projection import sort_documents

            keys = tuple(each.key for each in self.order)
            chosen = sort_documents(self._looked_for("--sort-by", keys, chosen), self.order)
        chosen = self._paged(islice(chosen, self.limit))
        if self.listing.uri or "uri(" in self.text:
            return self._addressed(chosen)
        return chosen

    def _until_failure(self, documents: Documents) -> Iterator[Any]:
        try:
            yield from documents
        except VtrainError as error:
            self.failure = error

    def _looked_for(self, flag: str, absent: tuple[Key, ...], documents: Documents) -> Iterator[Any]:
        """The same documents. Warns at the end of a key of the flag that no document has."""
        seen = False
        for document in documents:
            seen = True
            absent = tuple(key for key in absent if get(document, key.path) is None)
            yield document
        if absent and seen:
            self.console.warn(f"{flag}: no resource has the key {', '.join(key.text for key in absent)}.")

    def _paged(self, documents: Documents) -> Iterator[Any]:
        """The documents, with the mark of a new page after every `page_size` of them."""
        for document in documents:
            if self.page_size and self.shown and self.shown % self.page_size == 0:
                yield PAGE
            self.shown += 1
            yield document

    def _addressed(self, documents: Documents) -> Iterator[Any]:
        """URIs in place of the documents, or documents that know theirs."""
        from vtrain.output.language.value_transforms import Addressed

        for document in documents:
            if document is PAGE or not isinstance(document, dict):
                yield document
            elif self.listing.uri:
                yield self.uri_of(document)
            else:
                known = Addressed(document)
                known.uri = self.uri_of(document)
                yield known
