"""The model: a network with one hidden layer, trained an epoch at a time."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from sklearn.neural_network import MLPClassifier

from trainer.data import Split


class Epoch(NamedTuple):
    """What an epoch came to: the model, and its accuracy on the held-out scans."""

    model: MLPClassifier
    accuracy: float


def train(
    split: Split, *, epochs: int, learning_rate: float, alpha: float, hidden: int, seed: int
) -> Iterator[Epoch]:
    """Train, and tell after every epoch how it went."""
    model = MLPClassifier(
        hidden_layer_sizes=(hidden,),
        batch_size=32,
        learning_rate_init=learning_rate,
        alpha=alpha,
        random_state=seed,
    )
    digits = np.unique(split.train_digits)
    for _ in range(epochs):
        model.partial_fit(split.train_pixels, split.train_digits, classes=digits)
        yield Epoch(model, float(model.score(split.held_out_pixels, split.held_out_digits)))
