"""The data: 1797 scans of handwritten digits, 8 by 8 pixels each, that come with scikit-learn."""

from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

BRIGHTEST_PIXEL = 16.0


class Split(NamedTuple):
    """Pixels from 0 to 1, a row per scan, with the digit that it shows."""

    train_pixels: np.ndarray
    held_out_pixels: np.ndarray
    train_digits: np.ndarray
    held_out_digits: np.ndarray


def load(seed: int) -> Split:
    """Hold out a fifth of the scans; every digit keeps its share."""
    pixels, digits = load_digits(return_X_y=True)
    return Split(
        *train_test_split(pixels / BRIGHTEST_PIXEL, digits, test_size=0.2, stratify=digits, random_state=seed)
    )
