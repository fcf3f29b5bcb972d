"""A folder of wheels named as what the pre-built image of scikit-learn has, and a model of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lib.emulator_service import emulator_service
from lib.environment_packages import wheel
from vtrain.runtime.process.process_tree import offspring

SKLEARN = "us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-6:latest"
NUMPY = """
class Array(list):
    def tolist(self):
        return list(self)

asarray = Array
"""
FRAMEWORK = """
import warnings

class Sum:
    def predict(self, instances):
        if any(len(each) != 2 for each in instances):
            raise ValueError("expected 2 features")
        return [sum(each) for each in instances]

class Newer(Sum):
    def __init__(self):
        for estimator in ("Sum", "Scaler"):
            warnings.warn(
                f"Trying to unpickle estimator {estimator} from version 1.9.0 when using version 1.6.1. This "
                "might lead to breaking code or invalid results. Use at your own risk."
            )

class Where(Sum):
    def predict(self, instances):
        import os, socket, sys
        listener = socket.socket(fileno=os.dup(int(sys.argv[2])))
        return [listener.family.name, oct(os.stat(".").st_mode & 0o777)]

class Slow(Sum):
    def predict(self, instances):
        import time
        open(instances[0], "w").close()
        time.sleep(2)
        return ["late"]

class Old(Sum):
    def __init__(self):
        warnings.warn("This model is of another version")
"""
SUM = b"csklearn\nSum\n(tR."
"""A pickled model, whose prediction is the sum of two numbers."""


@contextmanager
def framework_emulator(home: Path) -> Iterator[str]:
    """An emulator of a home whose servers of models are made of that folder; its address."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(framework_index(home.parent / "wheels")))
        with emulator_service(home) as served:
            yield served


def framework_index(folder: Path) -> Path:
    """Fill a folder, for PIP_FIND_LINKS."""
    wheel(folder, "numpy", "2.4.0", code=NUMPY)
    wheel(folder, "pandas", "2.3.0")
    wheel(folder, "scikit_learn", "1.6.1", module="sklearn", code=FRAMEWORK)
    wheel(folder, "scikit_learn", "1.7.0", module="sklearn")
    return folder


def servers() -> list[int]:
    """The servers of models that this process has started."""
    return [pid for pid, _ in offspring(os.getpid()) if "vtrain_model_server" in command_of(pid)]


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode()
    except OSError:
        return ""
