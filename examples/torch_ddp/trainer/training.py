"""The model, and the steps of its training; a checkpoint tells after which step to go on."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from trainer.data import Scans, batches

BATCH_SIZE = 32


class Training:
    """One model on all replicas: each learns from its own share, and all take the same steps."""

    def __init__(self, scans: Scans, *, learning_rate: float, seed: int) -> None:
        torch.manual_seed(seed)
        torch.set_num_threads(1)  # so small a model is slower with more
        self.scans, self.seed = scans, seed
        self.epoch = self.step = 0  # whole epochs, and steps of the one that has begun
        self.model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
        self.together = DistributedDataParallel(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=learning_rate, momentum=0.9)

    def state(self) -> dict[str, Any]:
        """All that it takes to go on from here."""
        return {
            "epoch": self.epoch,
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def resume(self, state: dict[str, Any] | None) -> bool:
        """Go on from the first replica's state on all of them; False where there is none."""
        shared = [state]
        dist.broadcast_object_list(shared)
        (found,) = shared
        if found is None:
            return False
        self.epoch, self.step = found["epoch"], found["step"]
        self.model.load_state_dict(found["model"])
        self.optimizer.load_state_dict(found["optimizer"])
        return True

    def run_epoch(self, seconds: float) -> Iterator[float]:
        """Take the epoch's steps that are left, in no less than some seconds; yields the loss of each."""
        todo = batches(
            self.scans,
            BATCH_SIZE,
            rank=dist.get_rank(),
            replicas=dist.get_world_size(),
            seed=self.seed + self.epoch,
        )
        for batch in todo[self.step :]:
            yield self._take_step(batch)
            time.sleep(seconds / len(todo))
        self.epoch, self.step = self.epoch + 1, 0

    def accuracy(self, scans: Scans) -> float:
        """The share of scans that the model reads right."""
        with torch.no_grad():
            read = self.model(scans.pixels).argmax(dim=1)
        return float((read == scans.digits).float().mean())

    def fingerprint(self) -> str:
        """A hash of the weights, to the last bit."""
        digest = hashlib.sha256()
        for weights in self.model.state_dict().values():
            digest.update(weights.numpy().tobytes())
        return digest.hexdigest()[:16]

    def _take_step(self, batch: Scans) -> float:
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.together(batch.pixels), batch.digits)
        loss.backward()  # here the replicas add up their gradients
        self.optimizer.step()
        self.step += 1
        return float(loss.detach())
