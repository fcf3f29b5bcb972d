"""The cursor that reads formats, filters and sort orders, and marks the position of a mistake."""

from __future__ import annotations

from vtrain.errors import ConfigError

OPERATORS = ":=!<>~()"
RESERVED = OPERATORS + "[].{},+*/%&|^#;?"
"""Characters that a name may hold only in quotes."""

MOST = 9999
"""The largest number of columns, digits or levels."""

_QUOTES = "'\""


def is_count(text: str) -> bool:
    """Whether a text is a whole number from 0 to `MOST`, in ASCII digits."""
    return text.isascii() and text.isdecimal() and len(text) <= len(str(MOST))


class Scanner:
    """A cursor over an expression; its errors mark the position where reading stopped."""

    def __init__(self, text: str, *, kind: str) -> None:
        self.text = text
        self.kind = kind
        self.position = 0

    def error(self, problem: str, at: int | None = None) -> ConfigError:
        """The error to raise for `problem`, found at `at` (default: here)."""
        place = self.position if at is None else at
        before, after = self.text[:place].rstrip(), self.text[place:].lstrip()
        marked = " ".join(part for part in (before, "*HERE*", after) if part)
        hint = f"Correct the {self.kind} at the place marked *HERE*."
        return ConfigError(f"{problem} [{marked}].", hint=hint)

    @property
    def at_end(self) -> bool:
        return self.position >= len(self.text)

    def peek(self) -> str:
        """The next character, or '' at the end."""
        return self.text[self.position : self.position + 1]

    def skip_spaces(self, keep: str = "") -> None:
        """Skip white space, except for the characters in `keep`."""
        while (char := self.peek()) and char.isspace() and char not in keep:
            self.position += 1

    def accept(self, characters: str) -> str:
        """The next character if it is one of `characters`, read; '' otherwise."""
        char = self.peek()
        if not char or char not in characters:
            return ""
        self.position += 1
        return char

    def demand(self, characters: str) -> str:
        """`accept`, where the expression must not end yet."""
        if self.at_end:
            raise self.error("More is expected")
        return self.accept(characters)

    def keyword(self, word: str, *, read: bool = True) -> bool:
        """Whether `word` comes next, after spaces and before a space, a parenthesis or the end."""
        self.skip_spaces()
        end = self.position + len(word)
        following = self.text[end : end + 1]
        found = self.text.startswith(word, self.position) and (not following or following in "( \t\n\r")
        self.position = end if found and read else self.position
        return found

    def token(self, stops: str = "", *, balanced: bool = False, spaces: bool = True) -> str | None:
        """The characters up to a space or one of `stops`; None if there are none, '' for empty quotes.

        Parts of it may be quoted; a backslash protects a quote or itself. With `balanced`, it may contain
        parentheses, and spaces do not end it. With `spaces`, white space behind it is skipped.
        """
        found: list[str] = []
        has_begun = False
        quote, depth = "", 0
        while not self.at_end:
            char = self.text[self.position]
            following = self.text[self.position + 1 : self.position + 2]
            if char == "\\" and following:
                protected = following == "\\" or (following == quote if quote else following in _QUOTES)
                found += [following] if protected else [char, following]
                has_begun = True
                self.position += 1
            elif char == quote:
                quote = ""
            elif not quote and char in _QUOTES:
                quote, has_begun = char, True
            elif not quote and not has_begun and char.isspace():
                pass
            elif not quote and not depth and char in stops:
                break
            elif quote or balanced or not char.isspace():
                if balanced and not quote:
                    depth += (char == "(") - (char == ")")
                found.append(char)
                has_begun = True
            else:
                break
            self.position += 1
        if quote:
            raise self.error(f"The quote {quote} is not closed")
        if spaces:
            self.skip_spaces(keep=stops)
        return "".join(found) if has_begun else None

    def arguments(self, separators: str = ",") -> list[str]:
        """The arguments up to the closing parenthesis, whose opening one has been read."""
        found: list[str] = []
        needed = False
        while True:
            start = self.position
            argument = self.token(separators + ")", balanced=True)
            end = self.demand(")")
            separator = end or self.accept(separators)
            if argument is None and (needed or not end):
                raise self.error("An argument is expected", start)
            if argument is not None and (argument or not separator.isspace()):
                found.append(argument)
            if end:
                return found
            needed = not separator.isspace()
