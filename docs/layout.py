"""Hooks of mkdocs: the pages lie beside mkdocs.yml, and the program fills in what they have from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vtrain.cli import command_alone
from vtrain.commands.reference import filled


def on_config(config: Any) -> Any:
    """Read pages from the folder in which mkdocs.yml lies.

    mkdocs refuses the folder of its own configuration as `docs_dir`, for fear of publishing the
    configuration; `exclude_docs` keeps that out.
    """
    config.docs_dir = str(Path(config.config_file_path).parent)
    return config


def on_page_markdown(markdown: str, **_others: Any) -> str:
    """A page as `vtrain help PAGE` prints it."""
    return filled(markdown, command_alone("help").fixed["make_root"]())
