"""gcloud's output language: ``NAME[attributes](projection):(order)``.

json                                          the whole document
value(name.basename(), state)                 columns, a tab between
table[box](name:label=ID, createTime:sort=1)  a table, by time
table(name, state):(createTime:sort=1)        the order apart from the columns

Formats may follow one another: the last name counts, and may use the labels of those before it as keys.
"""

from __future__ import annotations

from vtrain.errors import ConfigError
from vtrain.messages.nearest import did_you_mean
from vtrain.output.format import Format
from vtrain.output.scanner import Scanner

_WITH_COLUMNS = ("csv", "get", "table", "value")
_NUMBERS = ("margin", "pad", "width")
FORMATS = (
    "config", "csv", "default", "disable", "flattened", "get", "json", "list", "multi", "none", "table",
    "text", "value", "yaml",
)  # fmt: skip


def parse_format(text: str) -> Format:
    """Read the value of ``--format``.

    Raises ConfigError for an unknown format, a missing projection, or, with the position marked, for bad
    syntax, an unknown transform or an unknown key attribute. Unknown format attributes are ignored.
    """
    if text in FORMATS and text not in _WITH_COLUMNS and text != "multi":
        return Format(name=text)  # the most frequent ones are not worth a grammar
    from vtrain.output.projection_parser import ProjectionParser

    return _checked(ProjectionParser(Scanner(text, kind="--format")).parse())


def _checked(fmt: Format) -> Format:
    if fmt.name not in FORMATS:
        hint = did_you_mean(fmt.name, FORMATS, otherwise=f"Use one of {', '.join(FORMATS)}.")
        raise ConfigError(f"Unknown format [{fmt.name}].", hint=hint)
    if fmt.name in _WITH_COLUMNS and not fmt.columns:
        raise ConfigError(
            f"Format [{fmt.name}] requires a non-empty projection.",
            hint=f"Name the columns: {fmt.name}(name, state).",
        )
    for name in _NUMBERS:
        if not (fmt.attributes.get(name) or "0").isdecimal():
            raise ConfigError(
                f"Attribute {name} of {fmt.name} must be a whole number.", hint=f"Write {name}=1."
            )
    for column in fmt.columns:
        if column.format:
            parse_format(column.format)
        elif fmt.name == "multi":
            raise ConfigError(
                f"Format [multi] needs a format for {column.key.text}.",
                hint=f"Write {column.key.text}:format=json.",
            )
    return fmt
