"""The label of each sentence, by a trained model: `python -m trainer.predict FOLDER SENTENCE...`."""

import sys
from pathlib import Path

import torch

from trainer import metadata, utils
from trainer.model import SentimentModel


def main(folder: str, *sentences: str) -> None:
    state = torch.load(Path(folder) / metadata.MODEL_FILE, weights_only=True)
    model = SentimentModel(len(state["vocabulary"]) + 2)
    model.load_state_dict(state["weights"])
    model.eval()
    with torch.no_grad():
        shares = model(utils.encode(list(sentences), state["vocabulary"])).softmax(1)
    for sentence, share in zip(sentences, shares, strict=True):
        label = int(share.argmax())
        print(f"{metadata.LABELS[label]} ({share[label]:.2f})  {sentence}")


if __name__ == "__main__":
    if len(sys.argv) < 3 or not all(map(str.strip, sys.argv[2:])):
        sys.exit("usage: python -m trainer.predict FOLDER SENTENCE...")
    main(*sys.argv[1:])
