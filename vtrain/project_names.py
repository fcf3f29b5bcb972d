"""Names of Python projects, compared as PyPI and pip compare them."""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


def canonical(name: str) -> str:
    """The name in the form of PEP 503: small letters, and one dash for each run of `-`, `_` and `.`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def distribution_name(requirement: str) -> str:
    """The canonical name of the project that a requirement names; empty where it names none."""
    match = _NAME.match(requirement.strip())
    return canonical(match[0]) if match else ""
