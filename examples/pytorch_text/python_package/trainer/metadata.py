"""The fixed facts of data and model."""

from pathlib import Path

SENTENCES = Path(__file__).with_name("sentences.tsv")
"""A label and a sentence per line."""
LABELS = ("negative", "positive")
METRIC = "accuracy"
MAX_WORDS = 24
HELD_OUT = 5
"""Every fifth sentence is held out."""
MODEL_FILE = "model.pt"
