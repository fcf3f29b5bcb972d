"""A slot that keeps PyTorch imported (`nox -s torch`): what a fork of it computes, and draws."""

from __future__ import annotations

import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from lib.waiting import wait_until

pytestmark = [
    pytest.mark.torch,
    pytest.mark.network,
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_spec("torch") is None, reason="no PyTorch beside vtrain: run nox -s torch"),
    pytest.mark.skipif(sys.platform != "linux", reason="slots are warm on Linux only"),
]
TRAINER = """
import sys
before = "torch" in sys.modules
import torch
product = torch.ones(300, 300) @ torch.ones(300, 300)
layer = torch.nn.Linear(10, 1)
layer(torch.ones(4, 10)).sum().backward()
assert float(product.sum()) == 300**3 and layer.weight.grad is not None
print("TOLD", before, torch.rand(1).item(), torch.get_num_threads())
"""


def test_forks_of_pytorch_compute_and_draw_numbers_of_their_own(
    vtrain: Any, vtrain_home: Path, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(TRAINER)
    pool = "machine-type=n1-standard-4"
    made = vtrain(
        *("persistent-resources", "create", "--persistent-resource-id=team", "--backend=local"),
        *(f"--resource-pool-spec={pool},replica-count=1", "--preload=torch"),
    )
    assert made.code == 0, made.err
    told = []
    here = f"torch=={version('torch')}"  # its wheel is known to be there, and is no build of gigabytes
    for _ in range(3):
        task = f"{pool},requirements={here},local-package-path={tmp_path},script=train.py"
        ended = vtrain(
            *("custom-jobs", "create", "--backend=process", "--display-name=torch", "--wait"),
            *(f"--worker-pool-spec={task}", "--persistent-resource-id=team"),
        )
        assert ended.code == 0, ended.err
        log = vtrain("custom-jobs", "stream-logs", "@last", "--format=value(message)").out
        told.append(next(line.split() for line in log.splitlines() if line.startswith("TOLD ")))
        wait_until(lambda: any(vtrain_home.glob("slots/*/*.socket")), log)
    assert [line[1] for line in told] == ["False", "True", "True"]
    assert len({line[2] for line in told}) == 3
    assert len({line[3] for line in told}) == 1
    assert vtrain("persistent-resources", "delete", "team", "--backend=local").code == 0
