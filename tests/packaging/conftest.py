from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

MakeTree = Callable[..., Path]


@pytest.fixture
def make_tree(tmp_path: Path) -> MakeTree:
    """Write a folder of files: `make_tree({"trainer/task.py": "print(1)"})`."""

    def make(files: dict[str, str | bytes], name: str = "project") -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)
        return folder

    return make
