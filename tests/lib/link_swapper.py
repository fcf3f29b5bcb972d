"""A process that puts a link in the place of a folder or a file, and takes it away, as fast as it can."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PROGRAM = """
import os, sys
own, target = sys.argv[1:]
link, kept = own + ".link", own + ".kept"
os.symlink(target, link)
print(flush=True)
parent = os.getppid()
while os.getppid() == parent:
    for source, place in ((own, kept), (link, own), (own, link), (kept, own)):
        try:
            os.rename(source, place)
        except OSError:
            pass
"""


@contextmanager
def swapped_with_link(own: Path, target: Path) -> Iterator[None]:
    """As long as the block lasts, `own` is by turns itself, nothing, and a link to `target`."""
    argv = [sys.executable, "-c", _PROGRAM, str(own), str(target)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
