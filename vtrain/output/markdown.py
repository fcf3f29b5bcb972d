"""A page of the documentation on a terminal: laid out, in colours, and behind a pager such as git's."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys

from vtrain.output.colours import has_colours
from vtrain.output.writing import print_text

MAX_WIDTH = 100
"""Columns; longer lines are hard to read."""
_UNSEEN = re.compile(r"<!--.*?-->\n?|!\[[^\]]*\]\([^)]*\)\n?", re.DOTALL)
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")


def show_markdown(text: str) -> None:
    """Print Markdown without comments and pictures: on a terminal laid out, by the pager that PAGER names.

    An empty PAGER, or one that does not start, leaves the text to the terminal.
    """
    text = _UNSEEN.sub("", text)
    if not sys.stdout.isatty():
        print_text(text.rstrip("\n"))
        return
    shown = _laid_out(text)
    pager = os.environ.get("PAGER", "less")
    variables = {"LESS": "FRX", "LV": "-c", **os.environ}
    if pager:
        try:
            ended = subprocess.run(["sh", "-c", pager], input=shown.encode(), env=variables, check=False)
        except OSError:
            ended = None
        if ended is not None and ended.returncode not in (126, 127):
            return
    print_text(shown.rstrip("\n"))


def _laid_out(text: str) -> str:
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.theme import Theme

    coloured = has_colours(sys.stdout)
    out = io.StringIO()
    console = Console(
        file=out,
        width=min(shutil.get_terminal_size().columns, MAX_WIDTH),
        force_terminal=True,
        color_system="standard" if coloured else None,
        no_color=not coloured,
        theme=Theme({"markdown.code": "cyan"}),
    )
    plain = _LINK.sub(r"\1", text)
    console.print(Markdown(plain, code_theme="ansi_dark" if coloured else "bw", hyperlinks=False))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())
