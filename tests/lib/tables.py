"""Tables of cases as text: one row a line, ` | ` between its cells."""

from __future__ import annotations


def rows(text: str, columns: int, **names: str) -> list[tuple[str, ...]]:
    r"""The rows of a table; cells that a row leaves out at its end are empty.

    `\n` in a cell is the end of a line, and `$NAME` stands for that text. A row that ends with `|` goes on in
    the line below it.
    """
    for name, value in names.items():
        text = text.replace(f"${name}", value.replace("\n", r"\n"))
    lines = text.replace("|\n", "| ").strip().splitlines()
    found = [tuple(cell.strip(" ").replace(r"\n", "\n") for cell in line.split(" | ")) for line in lines]
    assert all(len(row) <= columns for row in found), text
    return [row + ("",) * (columns - len(row)) for row in found]
