"""Word pieces small enough to count by hand: every letter is a piece, and so are a few whole words."""

from __future__ import annotations

import string

from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from tiny_tokenizers import SPECIAL, numbered, wrapped

WORDS = ["the", "cat", "sat", "on", "mat", "good", "bad"]


def wordpiece(*, has_types: bool = True) -> PreTrainedTokenizerFast:
    """As BERT's: [CLS] a [SEP] b [SEP]; a letter is a piece of an unknown word."""
    pieces = [*SPECIAL, *WORDS, *string.printable.strip(), *(f"##{c}" for c in string.printable.strip())]
    backend = Tokenizer(models.WordPiece(numbered(pieces), unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return _wrapped(backend, has_types)


def byte_level() -> PreTrainedTokenizerFast:
    """As RoBERTa's: a word after a space is another piece than the same word without."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = numbered([*SPECIAL, *alphabet, "Ġc", "Ġca", "Ġcat"])
    backend = Tokenizer(models.BPE(vocabulary, [("Ġ", "c"), ("Ġc", "a"), ("Ġca", "t")], unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return _wrapped(backend, has_types=False)


def _wrapped(backend: Tokenizer, has_types: bool) -> PreTrainedTokenizerFast:
    names = ["input_ids", "token_type_ids", "attention_mask"] if has_types else ["input_ids", "attention_mask"]
    return wrapped(backend, model_input_names=names)
