"""Makes the pictures of a terminal, docs/terminal.svg among them: real commands on a real terminal.

usage: python docs/picture.py    (in a clone, with vtrain and its extras `test` and `tuning` installed)

It runs the commands in a pseudo terminal and an empty home, reads what a terminal would show with pyte, and
has Rich draw that.
"""

from __future__ import annotations

import io
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from fcntl import ioctl
from itertools import groupby
from pathlib import Path

import pyte
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
COLUMNS, LINES = 100, 200
PICTURES = {
    "terminal": (
        "vtrain run examples/script -- --steps=20",
        "vtrain run broken -- --steps=20",
    ),
    "pictures/replicas": ("vtrain run examples/distributed -m trainer.task --replicas=3 --environment=new",),
    "pictures/tuning": (
        "vtrain tune examples/tune/train.py --requirements=cloudml-hypertune --param degree=1..7 \\\n"
        "    --param learning-rate=0.001..0.3:log --metric loss:min -n 6 -j 2 --sampler=tpe --seed=1",
        "vtrain trials",
        "vtrain best",
    ),
}
"""The commands of each picture, by its path below docs/ without a suffix."""
LONGEST_SECONDS = 120


def main() -> None:
    """Run the commands, and write the pictures; the arguments choose some."""
    for name in sys.argv[1:] or PICTURES:
        with tempfile.TemporaryDirectory(prefix="vt") as folder:
            write(name, Path(folder))


def write(name: str, folder: Path) -> None:
    """Write one picture."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    shutil.copytree(ROOT / "examples" / "script", folder / "broken")
    with (folder / "broken" / "train.py").open("a", encoding="utf-8") as file:
        file.write("\n\nprint({'weight': 3.0}['wieght'])\n")
    (folder / ".venv").symlink_to(sys.prefix)  # so that no picture names a folder of this machine
    shown: list[Text] = []
    for command in PICTURES[name]:
        run(command, folder)  # the second run shows what is cached
        shown += [Text.assemble(("$ ", "bold green"), (command, "bold")), *run(command, folder), Text()]
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    for line in shown[:-1]:
        console.print(line, soft_wrap=True)
    picture = console.export_svg(title="vtrain", theme=DIMMED_MONOKAI, unique_id="vtrain")
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)  # a reader fetches nothing
    (ROOT / "docs" / f"{name}.svg").write_text(picture, encoding="utf-8")


def run(command: str, folder: Path) -> list[Text]:
    """The lines that a terminal shows once the command has ended."""
    environ = os.environ | {
        "HOME": str(folder),
        "VTRAIN_HOME": str(folder / ".vtrain"),
        "VTRAIN_BACKEND": "process",
        "TERM": "xterm-256color",
        "VIRTUAL_ENV": str(folder / ".venv"),
        "PATH": f"{folder / '.venv' / 'bin'}:{os.environ['PATH']}",
    }
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    process = subprocess.Popen(
        ["sh", "-c", command],
        cwd=folder,
        env=environ,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    screen = pyte.Screen(COLUMNS, LINES)
    feed(pyte.ByteStream(screen), master)
    ended = process.wait(timeout=LONGEST_SECONDS)
    if bool(ended) is not ("broken" in command):
        sys.exit(f"{command} ended with {ended}:\n" + "\n".join(screen.display).rstrip())
    return [text_of(screen, row, folder) for row in range(screen.cursor.y)]


def feed(stream: pyte.ByteStream, master: int) -> None:
    """Give the terminal all that is written until nobody has it open any more."""
    with open(master, "rb", buffering=0) as output:
        while select.select([output], [], [], LONGEST_SECONDS)[0]:
            try:
                block = output.read(65536)
            except OSError:  # Linux: the last program has closed it
                return
            if not block:
                return
            stream.feed(block)


def text_of(screen: pyte.Screen, row: int, folder: Path) -> Text:
    """One line of the screen with its colours, and `~` for the folder."""
    line = Text()
    cells = [screen.buffer[row][column] for column in range(COLUMNS)]
    for (colour, bold), alike in groupby(cells, key=lambda cell: (cell.fg, cell.bold)):
        parsed = (
            None
            if colour == "default"
            else Color.parse(colour.replace("brown", "yellow").replace("bright", "bright_"))
        )
        line.append("".join(cell.data for cell in alike), Style(color=parsed, bold=bold))
    line.rstrip()
    place = line.plain.find(str(folder))
    if place >= 0:
        line = Text.assemble(line[:place], "~", line[place + len(str(folder)) :])
    return line


if __name__ == "__main__":
    main()
