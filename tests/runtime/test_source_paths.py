"""From the code that ran to the code that its author edits, and what to write there."""

from __future__ import annotations

from pathlib import Path

import pytest

from vtrain.failure import Traceback, last_traceback
from vtrain.runtime.job_error import in_source, sibling_hint

TEXT = """\
Traceback (most recent call last):
  File "<frozen runpy>", line 88, in _run_code
  File "{file}", line 1, in <module>
    import {module}
ModuleNotFoundError: No module named '{module}'
"""


def failing(file: str, module: str = "model") -> Traceback:
    trace = last_traceback(TEXT.format(file=file, module=module))
    assert trace is not None
    return trace


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name in (
        "trainer/task.py",
        "trainer/model.py",
        "trainer/nets/resnet.py",
        "src/inner/task.py",
        "src/inner/io.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    "site", ["/home/me/.vtrain/environments/packages/k/lib/python3.12/site-packages", "/opt/vtrain/site"]
)
def test_a_sibling_is_named(source: Path, site: str) -> None:
    trace = failing(f"{site}/trainer/task.py")
    assert (
        sibling_hint(trace, str(source))
        == "`model` is a module of trainer: write `from trainer import model`."
    )
    assert in_source(trace, str(source)).file == str(source / "trainer" / "task.py")
    assert "from trainer import nets" in sibling_hint(
        failing(f"{site}/trainer/task.py", "nets.resnet"), str(source)
    )
    assert "from inner import io" in sibling_hint(failing(f"{site}/inner/task.py", "io"), str(source))


def test_a_sibling_of_an_installed_package_is_named(source: Path) -> None:
    """A job of a package has no folder on this machine; the installed files are here."""
    site = source / "lib" / "site-packages"
    site.mkdir(parents=True)
    (source / "trainer").rename(site / "trainer")
    assert "write `from trainer import model`" in sibling_hint(failing(f"{site}/trainer/task.py"), "")


@pytest.mark.parametrize(
    ("file", "module"),
    [
        ("/opt/vtrain/site/trainer/task.py", "numpy"),
        ("/opt/vtrain/site/task.py", "model"),
        ("/opt/vtrain/site/vtrain_script/files/trainer/task.py", "model"),
        ("/usr/lib/python3.12/json/__init__.py", "model"),
    ],
)
def test_no_sibling_is_made_up(source: Path, file: str, module: str) -> None:
    assert sibling_hint(failing(file, module), str(source)) == ""
