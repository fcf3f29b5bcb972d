"""A small transformer encoder that tells positive sentences from negative ones."""

import torch
from torch import nn

from trainer import metadata
from trainer.utils import PADDING


class SentimentModel(nn.Module):
    """Words and their places, one layer of attention, and the mean over the words."""

    def __init__(self, vocabulary_size: int, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, width, padding_idx=PADDING)
        self.places = nn.Parameter(0.02 * torch.randn(metadata.MAX_WORDS, width))
        self.encoder = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.1, batch_first=True)
        self.head = nn.Linear(width, len(metadata.LABELS))

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        is_padding = numbers == PADDING
        found = self.encoder(self.words(numbers) + self.places, src_key_padding_mask=is_padding)
        kept = (~is_padding).unsqueeze(-1)
        return self.head((found * kept).sum(1) / kept.sum(1).clamp(min=1))
