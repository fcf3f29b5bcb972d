"""Secrets in jobs and command lines, recognized by the names of variables and options, and masked."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from vtrain.messages.names import LOCAL_PROJECT

if TYPE_CHECKING:
    from vtrain.messages.structs import Resource

MASK = "***"
SHORTEST_SOUGHT = 6
"""Characters of a secret that is masked everywhere; shorter ones may be parts of other words."""
LONGEST_NAME = 256
"""Characters of the name of a variable or an option; longer text is data."""
MOST_SOUGHT = 200
"""Spellings of secrets that are searched for; with more, a text that may hold one is masked as a whole."""
PLACES = frozenset(["GOOGLE_APPLICATION_CREDENTIALS"])
"""Names of variables that hold the path of a secret, and not the secret."""

# Every command imports these patterns; those that few need are compiled at their first use.
_STEMS = "SECRET PASS CREDENTIAL KEY TOKEN PWD".split()
_STEM = re.compile("|".join(_STEMS), re.IGNORECASE)
"""Every secret's name contains one of these; the check is quick, and rules out most names."""
_STEMS_IN_JSON = tuple(stem.lower().encode() for stem in _STEMS)
_LOGIN = rb"://[^/]+@"
"""The runs between two slashes do not overlap, so that a text of any length is read once."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ALWAYS = frozenset("SECRET SECRETS PASSWORD PASSWORDS PASSWD PASSPHRASE CREDENTIAL CREDENTIALS".split())
_ENDINGS = tuple("PASSWORD PASSWD PASSPHRASE APIKEY SECRETKEY ACCESSKEY AUTHTOKEN ACCESSTOKEN".split())
_AT_THE_END = frozenset("KEY TOKEN PASS PWD".split())
_OPENERS = frozenset(
    "API ACCESS ACCOUNT AUTH BEARER DEPLOY ENCRYPTION PRIVATE REFRESH SECRET SIGNING SSH".split()
)
"""Words that make a following key or token secret anywhere in a name, in the plural too."""
_HARMLESS = frozenset(
    "BEGIN BLANK BOS CACHE CLS COLUMN DICT EACH END EOS FEATURE FIRST FOREIGN GROUP IDEMPOTENCY IGNORE "
    "IMAGE INDEX INPUT JOIN KMS LABEL LAST MAP MASK MAX METRIC MIN MONITOR N NEXT NUM OUTPUT PAD PAGE "
    "PARTITION PER PRIMARY PUBLIC ROUTING ROW SEP SHUFFLE SINGLE SORT SPECIAL START STOP SUB TARGET TEXT "
    "UNK USE".split()
)
"""Words before the keys of data and the tokens of text: `SORT_KEY`, `PAD_TOKEN`."""
_ABOUT = frozenset(
    "COLUMN COUNT DIR ENABLED ENDPOINT EXPIRY FIELD FILE FOLDER ID IDS LEN LENGTH LIMIT LOCATION MANAGER "
    "NAME PATH POLICY PREFIX PROJECT PROVIDER REGION REQUIRED RESOURCE SIZE TIMEOUT TTL TYPE URI URL "
    "VERSION".split()
)
"""Last words of names about a secret, such as its file, its region or its lifetime."""
_REFERENCE = r"projects/[^/]+/secrets/[^/]+(/versions/[^/]+)?|\$\([A-Za-z_][A-Za-z0-9_]*\)"
_OPTION = r"-{0,2}[A-Za-z_][\w.-]*"
_ASSIGNED_NAME = re.compile(r"(?<![\w-])([\w-]{1,256})=")
"""Bounded, and matched at the start of a word only, so that a long text of letters is read once."""
_PART_OF_VALUE = re.compile(r""""[^"]*"|'[^']*'|[^\s;&|"']+|["']""")
"""A shell joins a value from parts with and without quotation marks."""
_TOKEN = r"(?a)(?=.*\d)[\w-]{16,}"
"""A token in the place of a user, as GitHub and GitLab take it. A name is shorter, or has no digit."""
_OVER_HTTP = re.compile(r"https?://\Z", re.IGNORECASE)
_AUTHORITY = re.compile(r"""(?<=://)[^\s/?#"'<>\\]+""")
"""The part of a URL between its scheme and its path: `USER:PASSWORD@HOST:PORT`."""
_OWN_TOKEN = re.compile(r"(?<=/)token-[\w-]{32}(?![\w-])", re.ASCII)
"""The token in an address of vtrain's own servers."""
_Found = tuple[int, int, str]
"""The start and end of a secret in a text, and the secret."""
_COMMAND_LINES = ("args", "command")
_SEARCHED = ("env", "error", "infeasibleReason", "replicas", *_COMMAND_LINES)
"""Fields whose texts may quote a secret of another field."""


def names_secret(name: str) -> bool:
    """Whether a variable or an option of that name holds a key, a token, a secret or a password.

    The words of the name decide: `WANDB_API_KEY`, `hfToken` and `--db-password` do; `MONKEY`, `MAX_TOKENS`,
    `TOKENIZERS_PARALLELISM`, `SORT_KEY` and `API_KEY_FILE` do not, nor does a bare `KEY`, which may be any.
    """
    if len(name) > LONGEST_NAME or not _STEM.search(name):
        return False
    words = [word.upper() for word in _WORD.findall(name)]
    if name in PLACES or not words or words[-1] in _ABOUT:
        return False
    if any(word in _ALWAYS or word.endswith(_ENDINGS) for word in words):
        return True
    if any(one in _OPENERS and two.removesuffix("S") in ("KEY", "TOKEN") for one, two in pairwise(words)):
        return True
    if words == ["TOKEN"]:
        return True
    return len(words) > 1 and words[-1] in _AT_THE_END and words[-2] not in _HARMLESS


def is_secret(name: str, value: str) -> bool:
    """Whether the value is a secret: not if it is empty, or only a reference to the secret.

    A reference is a name in Secret Manager (`projects/P/secrets/S`), or another variable (`$(NAME)`).
    """
    return bool(value) and names_secret(name) and not re.fullmatch(_REFERENCE, value)


def is_made_here(resource: Resource) -> bool:
    """Whether the resource is on this machine, or has not been sent to a service yet."""
    own = f"projects/{LOCAL_PROJECT}/"
    return resource.answer is None or str(resource.answer.get("name", "")).startswith(own)


def masked_document(document: dict[str, Any]) -> dict[str, Any]:
    """A job's document with a mask in place of each secret in its variables, arguments and errors."""
    secrets = set(_secrets_in(document, searched=False)) if _may_hold_secret(document) else None
    if not secrets:
        return document
    masked: dict[str, Any] = _masked(document, _spellings(secrets), searched=False)
    return masked


def _may_hold_secret(document: dict[str, Any]) -> bool:
    """Whether the names of a secret, or a URL with a login, stand anywhere in a document's JSON.

    Most documents have neither, and a look through the text takes a tenth of the time of a walk.
    """
    try:
        text = msgspec.json.encode(document).lower()
    except (ValueError, TypeError, OverflowError, RecursionError):  # a value that JSON does not hold
        return True
    return any(map(text.__contains__, _STEMS_IN_JSON)) or (b"://" in text and bool(re.search(_LOGIN, text)))


def masked_replica(env: Mapping[str, str], argv: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """A replica's variables and command line, masked."""
    secrets = _spellings([*secrets_of(env), *_secret_words(argv)])
    shown = {name: MASK if is_secret(name, value) else _shown(value, secrets) for name, value in env.items()}
    return shown, tuple(_without(word, secrets) for word in masked_words(argv))


def masked_text(text: str, words: Sequence[str], env: Mapping[str, str]) -> str:
    """A text for a report: without the secrets of a command line and of an environment, nor those in URLs."""
    return _shown(text, _spellings([*secrets_of(env), *_secret_words(words)]))


def masked_words(words: Sequence[str]) -> tuple[str, ...]:
    """A command line, masked: `--api-key=***`, `--password ***`, `TOKEN=***`."""
    return tuple(shown for shown, _ in _read_words(words))


def plain_secrets(document: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """The secrets among a job's variables: path of the list, name of the variable, and the secret."""
    if isinstance(document, dict):
        for key, item in document.items():
            yield from plain_secrets(item, f"{path}.{key}" if path else key)
        return
    for index, item in enumerate(document if isinstance(document, list) else ()):
        if _is_variable(item):
            yield from ((path, item["name"], secret) for secret in secrets_of({item["name"]: item["value"]}))
        else:
            yield from plain_secrets(item, f"{path}[{index}]")


def _is_variable(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"name", "value"} and isinstance(value["value"], str)


def secrets_of(env: Mapping[str, str]) -> Iterator[str]:
    """The secrets among variables: whole values, and passwords in the URLs of others."""
    for name, value in env.items():
        if is_secret(name, value):
            yield value
        else:
            yield from (secret for _, _, secret in _passwords(value))


def _secrets_in(value: Any, *, searched: bool) -> Iterator[str]:
    if _is_variable(value):
        yield from secrets_of({value["name"]: value["value"]})
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in _COMMAND_LINES and isinstance(item, list):
                yield from _secret_words(item)
            else:
                yield from _secrets_in(item, searched=searched or key in _SEARCHED)
    elif isinstance(value, list):
        for item in value:
            yield from _secrets_in(item, searched=searched)
    elif searched and isinstance(value, str):
        yield from (secret for _, _, secret in _passwords(value))


def _masked(value: Any, secrets: Sequence[str], *, searched: bool) -> Any:
    if isinstance(value, dict):
        if _is_variable(value) and is_secret(value["name"], value["value"]):
            return value | {"value": MASK}
        return {key: _masked_field(key, item, secrets, searched) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, secrets, searched=searched) for item in value]
    return _shown(value, secrets) if searched and isinstance(value, str) else value


def _masked_field(key: str, item: Any, secrets: Sequence[str], searched: bool) -> Any:
    if key in _COMMAND_LINES and isinstance(item, list):
        return [_without(word, secrets) for word in masked_words(item)]
    return _masked(item, secrets, searched=searched or key in _SEARCHED)


def _secret_words(words: Sequence[str]) -> Iterator[str]:
    return (secret for _, secrets in _read_words(words) for secret in secrets)


def _read_words(words: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each word, masked, and the secrets in it."""
    follows = False
    for word in words:
        name, equals, value = word.partition("=")
        if follows and word and not word.startswith("-"):
            yield MASK, (word,)
        elif equals and re.fullmatch(_OPTION, name) and is_secret(name, value):
            yield f"{name}={MASK}", (value,)
        else:  # the word may be a shell script with assignments
            yield _read([*_assigned(word), *_passwords(word)], word)
        follows = word.startswith("-") and not equals and names_secret(word)


def _assigned(text: str) -> Iterator[_Found]:
    """The secrets that a script assigns: `export TOKEN=…; DB_PASSWORD="…" python train.py`."""
    end = 0
    for match in _ASSIGNED_NAME.finditer(text):
        if match.start() < end or not names_secret(match[1]):
            continue
        start = end = match.end()
        parts = []
        while part := _PART_OF_VALUE.match(text, end):
            parts.append(part[0].strip("'\""))
            end = part.end()
        secret = "".join(parts)
        if is_secret(match[1], secret):
            yield start, end, secret


def _passwords(text: str) -> Iterator[_Found]:
    """The passwords in URLs: `scheme://USER:PASSWORD@HOST`, and tokens: `https://TOKEN@HOST`, `/token-…`."""
    yield from ((match.start(), match.end(), match[0]) for match in _OWN_TOKEN.finditer(text))
    for match in _AUTHORITY.finditer(text):
        login = match[0].rpartition("@")[0]
        user, _, password = login.partition(":")
        start = match.start()
        if password and not re.fullmatch(_REFERENCE, password):
            yield start + len(user) + 1, start + len(login), password
        elif (
            not password and re.fullmatch(_TOKEN, user) and _OVER_HTTP.search(text, max(start - 8, 0), start)
        ):
            yield start, start + len(user), user


def _read(found: Iterable[_Found], text: str) -> tuple[str, tuple[str, ...]]:
    """A text with a mask in each place where a secret was found, and the secrets."""
    pieces, secrets, end = [], [], 0
    for start, stop, secret in sorted(found):
        secrets.append(secret)
        if start >= end:  # else it is a part of the previous one
            pieces += [text[end:start], MASK]
        end = max(end, stop)
    return "".join([*pieces, text[end:]]), tuple(secrets)


def _spellings(secrets: Collection[str]) -> tuple[str, ...]:
    """The spellings to search for, the longest first: plain, in JSON, and in JSON within JSON."""
    if not secrets:
        return ()
    import json  # late: most command lines have no secret

    found = set()
    for secret in secrets:
        for ascii_only in (True, False):
            once = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
            found |= {secret, once, json.dumps(once, ensure_ascii=ascii_only)[1:-1]}
    searched = (text for text in found if len(text) >= SHORTEST_SOUGHT)
    return tuple(sorted(searched, key=lambda text: (-len(text), text)))


def _shown(text: str, secrets: Sequence[str]) -> str:
    return _without(_read(_passwords(text), text)[0], secrets)


def _without(text: str, secrets: Sequence[str]) -> str:
    if len(secrets) > MOST_SOUGHT:  # each is one pass over the whole text
        return MASK if len(text) >= SHORTEST_SOUGHT else text
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text
