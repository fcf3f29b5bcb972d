"""Sentences with their labels, made on the spot: a download would need a network."""

import random

LABELS = ("negative", "positive")
THINGS = ("hotel", "museum", "garden", "film", "concert", "meal", "course", "train ride", "book", "game")
GOOD = ("lovely", "excellent", "delightful", "superb", "charming", "brilliant")
BAD = ("awful", "boring", "dreadful", "poor", "weak", "annoying")
ENDS = ("this time", "in every way", "for what it costs", "from the first minute to the last")


def sentences(number: int, seed: int) -> list[tuple[str, int]]:
    """That many sentences, each with the index of its label."""
    source = random.Random(seed)
    made = []
    for _ in range(number):
        label, is_denied = source.randrange(2), source.random() < 0.3
        word = source.choice(GOOD if label != is_denied else BAD)
        verb = "was not" if is_denied else "was"
        made.append((f"The {source.choice(THINGS)} {verb} {word} {source.choice(ENDS)}.", label))
    return made
