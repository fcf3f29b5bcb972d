"""The folders of a job: the model's, and that of the checkpoint, which outlives restarts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch


def model_folder() -> Path:
    """Where the model goes; by hand, ./model."""
    return _made(os.environ.get("AIP_MODEL_DIR", "model"))


def read_checkpoint() -> dict[str, Any] | None:
    """What an earlier attempt of this job has saved, if there was one."""
    file = _checkpoint_file()
    return torch.load(file, weights_only=True) if file and file.exists() else None


def write_checkpoint(state: dict[str, Any]) -> None:
    """Put a new checkpoint in the place of the old one: a reader finds one of the two, whole."""
    file = _checkpoint_file()
    if file:
        unfinished = file.with_suffix(".part")
        torch.save(state, unfinished)
        unfinished.replace(file)


def _checkpoint_file() -> Path | None:
    """The same file in every attempt; None where a job has no folder for checkpoints."""
    uri = os.environ.get("AIP_CHECKPOINT_DIR")
    return _made(uri) / "checkpoint.pt" if uri else None


def _made(uri: str) -> Path:
    """A folder, made if need be. On Vertex AI a bucket, gs://NAME/…, is mounted at /gcs/NAME/…"""
    path = Path("/gcs/" + uri.removeprefix("gs://") if uri.startswith("gs://") else uri)
    path.mkdir(parents=True, exist_ok=True)
    return path
