"""Keys: how a format, a filter and a sort order name a value inside a document.

    key    := path ["." call]... | call ["." call]...
    path   := "." | name ["." name | "[" [N | M:N] "]"]...
    call   := ["*"] name "(" [argument ["," argument]...] ")"

Names may be quoted; ``worker_pool_specs`` and ``workerPoolSpecs`` name the same field. A name applied to
a list applies to each of its elements. Where nothing is found the value is None: an unknown key is no
error, since the documents come from a service that may omit any field.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from vtrain.errors import ConfigError

_NAME = re.compile(r"""[^\s.\[\]()=:<>~!,"'*]+""")
_INDEX = re.compile(r"(-?\d*)(:?)(-?\d*)\]")
_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

Step = str | int | slice
Path = tuple[Step, ...]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One transform in a key, such as ``basename()`` or ``date("%Y", tz=UTC)``."""

    name: str
    arguments: tuple[str, ...] = ()
    options: dict[str, str] = msgspec.field(default_factory=dict)
    mapped: bool = False


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """Where a value is, what is done to it, and how its column is shown."""

    path: Path
    calls: tuple[Call, ...] = ()
    attributes: dict[str, str | bool] = msgspec.field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The field names on the path; for a key without any, the name of its first transform."""
        names = tuple(step for step in self.path if isinstance(step, str))
        return names or tuple(call.name for call in self.calls[:1])


class Scanner:
    """A cursor over an expression; its errors mark the place where reading stopped."""

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

    def skip_spaces(self) -> None:
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1

    def peek(self) -> str:
        """The next character after any spaces, or '' at the end."""
        self.skip_spaces()
        return self.text[self.position : self.position + 1]

    def accept(self, token: str) -> bool:
        self.skip_spaces()
        found = self.text.startswith(token, self.position)
        self.position += len(token) if found else 0
        return found

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self.error(f"Expected {token}" if self.peek() else "More tokens expected")

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.position)
        if found:
            self.position = found.end()
        return found

    def quoted(self) -> str:
        """The content of the quoted string that starts here; a backslash protects a quote or itself."""
        start, quote = self.position, self.text[self.position]
        self.position += 1
        content: list[str] = []
        while self.position < len(self.text):
            char = self.text[self.position]
            following = self.text[self.position + 1 : self.position + 2]
            self.position += 1
            if char == quote:
                return "".join(content)
            if char == "\\" and following in ("\\", '"', "'"):
                char = following
                self.position += 1
            content.append(char)
        raise self.error("Unterminated string", start)

    def until(self, stops: str) -> str:
        """A quoted string, or the characters up to the first of `stops`, without spaces around them."""
        if self.peek() in ("'", '"'):
            return self.quoted()
        start = self.position
        while self.position < len(self.text) and self.text[self.position] not in stops:
            self.position += 1
        return self.text[start : self.position].strip()


def scan_key(scanner: Scanner) -> Key:
    """Read one key, without the attributes that may follow it.

    Raises ConfigError for bad syntax, an unknown transform or an argument that the transform does not take.
    """
    path: list[Step] = []
    calls: list[Call] = []
    if scanner.accept("."):
        return Key(path=())
    while True:
        _scan_step(scanner, path, calls)
        while scanner.text.startswith("[", scanner.position) and not calls:
            path.append(_scan_index(scanner))
        if not scanner.text.startswith(".", scanner.position):
            return Key(path=tuple(path), calls=tuple(call for call in calls if call.name != "map"))
        scanner.position += 1


def _scan_step(scanner: Scanner, path: list[Step], calls: list[Call]) -> None:
    start = scanner.position
    star = scanner.accept("*")
    quoted = scanner.peek() in ("'", '"')
    name = scanner.quoted() if quoted else _scan_name(scanner)
    if not quoted and scanner.text.startswith("(", scanner.position):
        mapped = star or bool(calls and calls[-1].name == "map")
        calls.append(_scan_call(scanner, name, mapped=mapped))
    elif calls or star:
        raise scanner.error("A transform must be followed by transforms only", start)
    else:
        path.append(name)


def _scan_name(scanner: Scanner) -> str:
    found = scanner.match(_NAME)
    if not found:
        raise scanner.error("Non-empty key name expected")
    return found[0]


def _scan_index(scanner: Scanner) -> Step:
    start = scanner.position
    scanner.position += 1
    found = scanner.match(_INDEX)
    if not found:
        raise scanner.error("Expected an index such as [0], [1:3] or []", start)
    first, colon, last = found.groups()
    if first and not colon:
        return int(first)
    return slice(int(first) if first else None, int(last) if last else None)


def _scan_call(scanner: Scanner, name: str, *, mapped: bool) -> Call:
    scanner.position += 1
    start = scanner.position
    arguments: list[str] = []
    options: dict[str, str] = {}
    while scanner.peek() != ")":
        word = scanner.until(",)=")
        if scanner.accept("="):
            options[word] = scanner.until(",)")
        else:
            arguments.append(word)
        if not scanner.accept(",") and scanner.peek() != ")":
            raise scanner.error("More tokens expected")
    scanner.position += 1
    call = Call(name=name, arguments=tuple(arguments), options=options, mapped=mapped)
    from vtrain.output.transforms import problem_with

    if problem := problem_with(call):
        raise scanner.error(problem, start)
    return call


def get(value: object, path: Path) -> object:
    """What `path` names inside `value`: None if nothing, a list if the path passes through a list."""
    for place, step in enumerate(path):
        if isinstance(step, str) and isinstance(value, dict):
            value = field(value, step)
        elif isinstance(step, int) and isinstance(value, list):
            value = value[step] if -len(value) <= step < len(value) else None
        elif isinstance(step, slice) and isinstance(value, list):
            return _from_each(value[step], path[place + 1 :])
        elif isinstance(step, str) and isinstance(value, list):
            return _from_each(value, path[place:])
        elif not isinstance(step, slice):
            return None
    return value


def _from_each(elements: list[object], path: Path) -> object:
    if not path:
        return elements
    found = [value for value in (get(element, path) for element in elements) if value is not None]
    return found or None


def field(document: dict[str, object], name: str) -> object:
    """The field called `name`, in the spelling given or in the other one."""
    found = document.get(name)
    return document.get(other_spelling(name)) if found is None else found


@lru_cache(maxsize=256)
def other_spelling(name: str) -> str:
    """camelCase for snake_case and the reverse."""
    if "_" in name:
        first, *rest = name.split("_")
        return first + "".join(part[:1].upper() + part[1:] for part in rest)
    return snake_case(name)


def snake_case(name: str) -> str:
    """``createTime`` as ``create_time``."""
    return _BREAK.sub("_", name).lower()


def evaluate(key: Key, document: object) -> object:
    """The value of `key` in `document`, after its transforms; None if there is none."""
    value = get(document, key.path)
    if key.calls:
        from vtrain.output.transforms import apply

        for call in key.calls:
            value = apply(call, value, document)
    return value
