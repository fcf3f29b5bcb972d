"""What containers wrote as root can be deleted by the user who started them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from vtrain.backends.docker.ownership import give_back
from vtrain.containers.engine import Engine, connect

USER = 4321

pytestmark = pytest.mark.docker


def as_user(groups: list[int], act: Callable[[], object]) -> int:
    """The exit code of a child that acts as another user: 0, or 1 after an exception."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups(groups)
            os.setgid(USER)
            os.setuid(USER)
            act()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_files_of_another_user_are_given_back(docker_engine: Engine, base_image: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        check(docker_engine, base_image, Path(name))


def check(engine_here: Engine, image: str, top: Path) -> None:
    folder = top / "bucket"
    (folder / "model" / "deep").mkdir(parents=True)
    (folder / "model" / "deep" / "weights").write_text("x")
    (folder / "link").symlink_to("/etc/passwd")
    for path in (top, folder):
        path.chmod(0o777)
    (top / "kept").write_text("not below the folder")
    socket = engine_here.address.host.removeprefix("unix://")

    def act() -> None:
        engine = connect(engine_here.address)
        assert give_back(engine, image, folder, {}) == ""
        assert give_back(engine, image, folder, {}) == ""
        shutil.rmtree(folder / "model")

    assert as_user([Path(socket).stat().st_gid], act) == 0
    assert not (folder / "model").exists()
    assert (folder / "link").lstat().st_uid == USER
    assert Path("/etc/passwd").stat().st_uid == 0
    assert (top / "kept").stat().st_uid == 0
