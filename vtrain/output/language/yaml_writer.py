"""YAML in gcloud's style.

Keys are sorted, lists are not indented under their key, text of several lines is a literal block, and a
string is quoted only where YAML 1.2 would read another value: ``yes`` stays plain, ``true`` and ``10``
become ``'true'`` and ``'10'``. Text of one long line is folded at the first space after column 80.

No YAML library is used: its import, and its walk through a list of jobs, would take longer than the rest.
"""

from __future__ import annotations

import re
from functools import lru_cache

from vtrain.output.language.value_transforms import float_

_WIDTH = 80  # characters, after which a line is folded
_LONGEST_SIMPLE_KEY = 800  # characters; YAML readers may refuse an unmarked key over 1024

_PLAIN = re.compile(
    r"(?!---|\.\.\.|[-?:](?:\s|$))"  # not a document mark, not an indicator followed by a space
    r"[^\s,\[\]{}#&*!|>'\"%@`]"  # no indicator first
    r"(?:[^\s:#]|:(?=\S)|(?<=\S)#| +(?=[^\s#]))*"
)
_SIMPLE = re.compile(r"[A-Za-z][A-Za-z0-9_/.=+-]*")
"""Text that is plain unless it is one of `_WORDS`: names of fields, states, resource names."""
_WORDS = frozenset(
    spelling
    for word in ("null", "true", "false", "~", "=", "<<")
    for spelling in (word, word.capitalize(), word.upper())
)
_NUMERIC_FIRST = frozenset("+-.0123456789")
_NOT_TEXT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?0[xobXOB][0-9a-fA-F_]+|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt\s].*)?"
)
_LONE_SPACE = re.compile(r"(?<=[^ ]) (?=[^ ])")
_ESCAPES = {
    "\\": "\\\\", '"': '\\"', "\0": "\\0", "\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v",
    "\f": "\\f", "\r": "\\r", "\x1b": "\\e", "\x85": "\\N", "\u2028": "\\L", "\u2029": "\\P",
}  # fmt: skip


def dump_yaml(document: object) -> str:
    """One YAML document for a JSON-shaped value, ending in a newline, without ``---``."""
    lines: list[str] = []
    if document and isinstance(document, dict):
        _mapping(document, "", "", lines)
    elif document and isinstance(document, list):
        _sequence(document, "", "", lines)
    else:
        lines.append(_scalar(document, "", 0))
    return "\n".join(lines) + "\n"


def _mapping(mapping: dict[str, object], pad: str, first: str, lines: list[str]) -> None:
    """Add a mapping's lines. `first` starts the first line (it may hold a list's dash), `pad` the others."""
    start = first
    for name in sorted(mapping):
        value = mapping[name]
        key = _one_line(name)
        if len(key) > _LONGEST_SIMPLE_KEY:
            key = f"? {key}\n{pad}"
        head = f"{start}{key}:"
        if value and isinstance(value, dict):
            lines.append(head)
            _mapping(value, pad + "  ", pad + "  ", lines)
        elif value and isinstance(value, list):
            lines.append(head)
            _sequence(value, pad, pad, lines)
        else:
            lines.append(f"{head} {_scalar(value, pad, len(head) + 1)}")
        start = pad


def _sequence(sequence: list[object], pad: str, first: str, lines: list[str]) -> None:
    start = first
    for value in sequence:
        if value and isinstance(value, dict):
            _mapping(value, pad + "  ", start + "- ", lines)
        elif value and isinstance(value, list):
            _sequence(value, pad + "  ", start + "- ", lines)
        else:
            lines.append(f"{start}- {_scalar(value, pad, len(start) + 2)}")
        start = pad


def _scalar(value: object, pad: str, column: int) -> str:
    """A value that begins at `column`; its further lines are indented two spaces deeper than `pad`."""
    if isinstance(value, str):
        if "\n" in value and _fits_literal(value):
            return _literal(value, pad)
        text = _one_line(value)
        return text if column + len(text) <= _WIDTH else _folded(value, text, column, pad + "  ")
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        # As many digits as gcloud shows; `1e+20` is a number in YAML 1.2.
        return float_(value).replace("inf", ".inf").replace("nan", ".nan")
    return str(value) if isinstance(value, int) else ("[]" if isinstance(value, list) else "{}")


@lru_cache(maxsize=1024)
def _one_line(text: str) -> str:
    # Most texts are names or times. For these, two short patterns save the slower ones below.
    if _SIMPLE.fullmatch(text) and text not in _WORDS:
        return text
    is_number = text[:1] in _NUMERIC_FIRST and bool(_NOT_TEXT.fullmatch(text))
    if is_number and text.isascii() and text.isprintable() and "'" not in text:
        return f"'{text}'"
    if ("'" in text and _PLAIN.fullmatch(text) is None) or not _is_printable(text):
        return '"' + "".join(map(_escaped, text)) + '"'
    if _PLAIN.fullmatch(text) and text not in _WORDS and not is_number:
        return text
    return f"'{text}'"


_UNPRINTABLE = "[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
"""Characters that YAML wants escaped; compiled late, for plain ASCII never needs it."""


def _is_printable(text: str) -> bool:
    return text.isprintable() if text.isascii() else not re.search(_UNPRINTABLE, text)


def _escaped(char: str) -> str:
    """A character between double quotes."""
    if char not in _ESCAPES and _is_printable(char):
        return char
    code = ord(char)
    return _ESCAPES.get(char) or (f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}")


def _folded(text: str, shown: str, column: int, pad: str) -> str:
    """A text over several lines; `shown` is its form in one line, from `column` on."""
    if shown.startswith('"'):
        return _folded_in_quotes(text, column, pad)
    first, *words = _LONE_SPACE.split(shown)
    folded, column = first, column + len(first)
    for word in words:
        gap = f"\n{pad}" if column > _WIDTH else " "
        folded += gap + word
        column = len(word) + (len(pad) if column > _WIDTH else column + 1)
    return folded


def _folded_in_quotes(text: str, column: int, pad: str) -> str:
    """Double quotes allow a break before a space and beside an escaped character, marked with a backslash."""
    lines, line, follows_escape = "", '"', False
    for place, char in enumerate(text):
        shown = _escaped(char)
        is_escape = shown != char
        line += shown if is_escape else ""
        width = column + len(line) - is_escape
        may_break = (is_escape or follows_escape or char == " ") and 0 < place < len(text) - 1
        if may_break and width > _WIDTH:
            lines += f"{line}\\\n{pad}"
            line, column = "\\" if text[place + is_escape] == " " else "", len(pad)
        line += "" if is_escape else char
        follows_escape = is_escape
    return f'{lines}{line}"'


def _fits_literal(text: str) -> bool:
    """Whether a literal block can hold `text`: several printable lines, not all of them empty."""
    return bool(text.strip("\n")) and _is_printable(text.replace("\n", "").replace("\t", ""))


def _literal(text: str, pad: str) -> str:
    body = text.rstrip("\n")
    ends = len(text) - len(body)
    indicator = "2" if text[0] in " \n\t" else ""  # else the first line would set a wrong indentation
    mark = "|" + indicator + ("-" if ends == 0 else "" if ends == 1 else "+")
    inner = pad + "  "
    lines = [inner + line if line else "" for line in body.split("\n")]
    return "\n".join([mark, *lines, *[""] * (ends - 1)])
