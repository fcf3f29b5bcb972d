"""Sentences as tensors, and models on disk."""

import json
import os
import re
from pathlib import Path

import torch

from trainer import metadata

PADDING, UNKNOWN = 0, 1


def read_sentences() -> list[tuple[int, str]]:
    """The label and the text of each sentence."""
    lines = metadata.SENTENCES.read_text(encoding="utf-8").splitlines()
    pairs = (line.split("\t", 1) for line in lines)
    return [(metadata.LABELS.index(label), text) for label, text in pairs]


def split(sentences: list) -> tuple[list, list]:
    """Sentences to learn from, and those held out."""
    held_out = sentences[:: metadata.HELD_OUT]
    return [one for place, one in enumerate(sentences) if place % metadata.HELD_OUT], held_out


def words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


def make_vocabulary(sentences: list[tuple[int, str]]) -> dict[str, int]:
    """A number for each word."""
    known = sorted({word for _, text in sentences for word in words(text)})
    return {word: number for number, word in enumerate(known, UNKNOWN + 1)}


def encode(texts: list[str], vocabulary: dict[str, int]) -> torch.Tensor:
    """A row of word numbers for each text, of equal length."""
    rows = [[vocabulary.get(word, UNKNOWN) for word in words(text)][: metadata.MAX_WORDS] for text in texts]
    return torch.tensor([row + [PADDING] * (metadata.MAX_WORDS - len(row)) for row in rows])


def model_folder() -> Path:
    """Where the model goes. On Vertex AI a bucket, gs://NAME/…, is mounted at /gcs/NAME/…"""
    uri = os.environ.get("AIP_MODEL_DIR", "model")
    return Path("/gcs/" + uri.removeprefix("gs://") if uri.startswith("gs://") else uri)


def save(state: dict, accuracy: float, folder: Path) -> None:
    """Write a model with all that is needed to use it, and how good it is."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(state, folder / metadata.MODEL_FILE)
    (folder / "metrics.json").write_text(json.dumps({metadata.METRIC: accuracy}) + "\n")
