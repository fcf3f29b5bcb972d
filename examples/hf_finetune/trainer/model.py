"""A tiny BERT that knows nothing yet, in a folder as the hub has it: a tokenizer and weights."""

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}


def make_tiny_bert(texts: Iterable[str], folder: Path) -> str:
    """Make one whose vocabulary are the words of the texts; answers the folder."""
    words = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    words.normalizer = normalizers.Lowercase()
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=list(SPECIAL.values())))
    ends = [(token, words.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    words.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    PreTrainedTokenizerFast(tokenizer_object=words, model_max_length=64, **SPECIAL).save_pretrained(folder)
    config = BertConfig(
        vocab_size=words.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.2,
        num_labels=2,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    return str(folder)
