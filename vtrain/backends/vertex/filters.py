"""Filters of lists, as Vertex AI and Cloud Logging read them."""

from __future__ import annotations


def quoted(text: str) -> str:
    """A text as a string of a filter."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
