"""The special tokens of tokenizers that tests make, and the wrapping of a backend that has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROLES = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))


def numbered(tokens: Iterable[str]) -> dict[str, int]:
    """Give tokens ids in their order."""
    return {token: number for number, token in enumerate(dict.fromkeys(tokens))}


def wrapped(backend: Tokenizer, **options: Any) -> PreTrainedTokenizerFast:
    """Wrap a backend as transformers does, with the special tokens of BERT or, by ``options``, others."""
    return PreTrainedTokenizerFast(tokenizer_object=backend, **(ROLES | options))
