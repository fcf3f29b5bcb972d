"""DistributedDataParallel by torchrun on every GPU of every machine; on one CPU where there is none."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def launch() -> int:
    """Start a process for each GPU of this machine. Vertex AI's variables name the machines."""
    env = os.environ
    argv = [
        *(sys.executable, "-m", "torch.distributed.run"),
        f"--nnodes={env.get('WORLD_SIZE', '1')}",
        f"--node-rank={env.get('RANK', '0')}",
        f"--master-addr={env.get('MASTER_ADDR', '127.0.0.1')}",
        f"--master-port={env.get('MASTER_PORT', '29500')}",
        f"--nproc-per-node={torch.cuda.device_count() or 1}",
        *sys.argv,
    ]
    return subprocess.call(argv)


def train(epochs: int) -> None:
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}" if torch.cuda.is_available() else "cpu")
    pixels, digits = load_digits(return_X_y=True)
    scans = TensorDataset(torch.from_numpy(pixels).float() / 16, torch.from_numpy(digits))
    sampler = DistributedSampler(scans)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)).to(device)
    # Reduction Server is fastest with large buckets.
    together = DistributedDataParallel(model, bucket_cap_mb=64)
    optimizer = torch.optim.Adam(together.parameters())
    for epoch in range(1, epochs + 1):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(scans, batch_size=64, sampler=sampler):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(together(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            print(f"epoch {epoch}/{epochs}  loss {loss.item():.4f}", flush=True)
    if dist.get_rank() == 0:
        # On Vertex AI the bucket gs://NAME is also the folder /gcs/NAME.
        folder = Path(os.environ.get("AIP_MODEL_DIR", "model").replace("gs://", "/gcs/", 1))
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(model.state_dict(), folder / "model.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "LOCAL_RANK" not in os.environ:
        sys.exit(launch())
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    train(parser.parse_args().epochs)
