"""The data: 1797 scans of handwritten digits, 8 by 8 pixels each, that come with scikit-learn."""

from __future__ import annotations

from typing import NamedTuple

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

BRIGHTEST_PIXEL = 16.0


class Scans(NamedTuple):
    """Pixels from 0 to 1, a row per scan, with the digit that it shows."""

    pixels: torch.Tensor
    digits: torch.Tensor


def load(seed: int) -> tuple[Scans, Scans]:
    """The scans to learn from, and a fifth that is held out; every digit keeps its share."""
    pixels, digits = load_digits(return_X_y=True)
    parts = train_test_split(pixels, digits, test_size=0.2, stratify=digits, random_state=seed)
    train_pixels, held_out_pixels = (torch.from_numpy(part).float() / BRIGHTEST_PIXEL for part in parts[:2])
    train_digits, held_out_digits = (torch.from_numpy(part).long() for part in parts[2:])
    return Scans(train_pixels, train_digits), Scans(held_out_pixels, held_out_digits)


def batches(scans: Scans, size: int, *, rank: int, replicas: int, seed: int) -> list[Scans]:
    """This replica's share of an epoch, as large as everybody's, in an order that the seed decides."""
    order = torch.randperm(len(scans.digits), generator=torch.Generator().manual_seed(seed))
    even = len(order) - len(order) % replicas
    share = order[:even][rank::replicas]
    return [Scans(scans.pixels[chosen], scans.digits[chosen]) for chosen in share.split(size)]
