"""What the tests of the lexicon share: the hand-made WordNet's folder and how tiny tokenizers are made."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

TINY_WORDNET = Path(__file__).parents[1] / "data" / "wordnet"

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = """
    movie movies film films picture pictures pic thing show mouse mice animal animals primary main chief stay stays
    stayed remain remains remained rest rested the will he helium saw see notice cut large larger big bigger happy
    glad cheerful testament 1990 mcmxc father dad pa axes paris quickly rapidly
""".split()  # noqa: SIM905


def fast(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    roles = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **roles)


def numbered(tokens: list[str]) -> dict[str, int]:
    return {token: number for number, token in enumerate(tokens)}
