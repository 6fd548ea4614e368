"""Tokenizers of two kinds over the same words, checkpoints of two layers of 32, and made-up scorers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor
from transformers import PreTrainedTokenizerFast

import tiny
from tiny_tokenizers import numbered, wrapped
from trueneg.corpus.build import build_corpus
from trueneg.corpus.store import Corpus
from trueneg.corruption.rows import MaskedRows, Rows
from trueneg.detectors.base import Detector, Proposals
from trueneg.detectors.scorers.base import Scores, Substitution, SubstitutionScorer
from trueneg.tokenizer import save_tokenizer

WORDNET = Path(__file__).parents[1] / "data" / "wordnet"
TEXT = (
    "the large mouse will stay near the old city",
    "we quickly see a big film about the river",
    "a happy animal remains in the main picture",
    "the movie made the primary painter glad and the animals slowly went",
    "The Large Mouse was chief",
)
WORDS = sorted({word.lower() for text in TEXT for word in text.split()})
MAX_LENGTH = 64
LENGTH = 14
"""Tokens in a row of ``make_corpus``."""


def wordpiece() -> PreTrainedTokenizerFast:
    """Lower-case words whole, anything else in letters."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    entries = [*tiny.SPECIAL, *letters, *(f"##{letter}" for letter in letters), *".,()'-", *WORDS]
    tokenizer = Tokenizer(models.WordPiece(numbered(entries), unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", tiny.START), ("[SEP]", tiny.END)]
    )
    return _fast(tokenizer)


def byte_level() -> PreTrainedTokenizerFast:
    """Words with the space before them whole, those at the start of a text or in capitals in pieces, maybe."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=tiny.SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([f" {text}" for text in TEXT for _ in range(3)], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", tiny.START), ("[SEP]", tiny.END)]
    )
    return _fast(tokenizer)


TOKENIZERS = {"wordpiece": wordpiece, "byte-level": byte_level}


def _fast(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    # As RoBERTa's, a mask takes the space before it.
    tokenizer.add_special_tokens([AddedToken("[MASK]", lstrip=True, special=True)])
    return wrapped(tokenizer)


def save_checkpoint(architecture: str, tokenizer: PreTrainedTokenizerFast, folder: Path, **changes: Any) -> str:
    """A Hugging Face folder with random weights, which differ from word to word and from place to place."""
    model = tiny.make_hf_masked_lm(architecture, vocab_size=len(tokenizer), initializer_range=0.3, **changes).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(str(folder))
    return str(folder)


def make_corpus(folder: Path, tokenizer: PreTrainedTokenizerFast, times: int = 1) -> Corpus:
    """A corpus of ``TEXT``, begun at each of its sentences and repeated."""
    save_tokenizer(tokenizer, folder / "tok")
    text = folder / "text.txt"
    text.write_text("\n\n".join(" ".join((TEXT[first:] + TEXT[:first]) * times) for first in range(len(TEXT))))
    build_corpus([str(text)], folder / "tok", folder / "corpus")
    return Corpus.open(folder / "corpus")


def at(text: str, word: str, substitute: str) -> Substitution:
    """A substitute for the first occurrence of a word in a text."""
    start = text.index(word)
    return Substitution(text, start, start + len(word), substitute)


class WrittenScorer(SubstitutionScorer):
    """Scores from a table of pairs; it keeps what it was asked."""

    def __init__(self, scores: Mapping[tuple[str, str], float], threshold: float = 0.5) -> None:
        self.known = dict(scores)
        self.threshold = threshold
        self.provenance = {"written": "by hand"}
        self.asked: list[Substitution] = []

    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        self.asked += substitutions
        return np.array([self.known.get((s.target, s.substitute), 0.0) for s in substitutions], np.float64)


class WrittenDetector(Detector):
    """Credit of tokens whatever gold is; it lists those, with the same credit, or the prediction only."""

    def __init__(self, credit: Mapping[int, float], lists: bool = True) -> None:
        super().__init__()
        self.known, self.has_list, self.seen = dict(credit), lists, []

    def credit(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> Tensor:
        known = [self.known.get(token, 0.0) for token in predicted.flatten().tolist()]
        return torch.tensor(known).reshape(predicted.shape)

    @property
    def lists(self) -> bool:
        return self.has_list

    def propose(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> Proposals:
        if not self.lists:
            return super().propose(gold, predicted, batch)
        tokens = torch.tensor(list(self.known)).expand(*gold.shape, -1)
        credit = torch.tensor(list(self.known.values())).expand(*gold.shape, -1)
        return Proposals(self.credit(gold, predicted, batch), tokens, credit)

    def attach(self, model: object) -> None:
        self.seen.append(("attach", model))

    def after_step(self, model: object) -> None:
        self.seen.append(("after_step", model))


def encode_rows(tokenizer: PreTrainedTokenizerFast, documents: Sequence[Sequence[str]], length: int = 48) -> Rows:
    """Rows of one or more texts, each between a start and an end token, as a corpus has them."""
    shape = (len(documents), length)
    ids = torch.full(shape, tiny.PAD)
    segments, special = torch.zeros(shape, dtype=torch.int64), torch.ones(shape, dtype=torch.bool)
    starts, whole = torch.zeros(shape, dtype=torch.bool), torch.zeros(shape, dtype=torch.bool)
    for row, texts in enumerate(documents):
        column = 0
        for number, text in enumerate(texts, 1):
            encoded = tokenizer(text, add_special_tokens=False)
            words, size = encoded.word_ids(), len(encoded.input_ids)
            inside = slice(column + 1, column + 1 + size)
            ids[row, column], ids[row, column + size + 1] = tiny.START, tiny.END
            ids[row, inside] = torch.tensor(encoded.input_ids)
            segments[row, column : column + size + 2] = number
            special[row, inside] = False
            starts[row, inside] = torch.tensor([n == 0 or words[n] != words[n - 1] for n in range(size)])
            whole[row, inside] = torch.tensor([words.count(word) == 1 for word in words])
            column += size + 2
    is_packed = any(len(texts) > 1 for texts in documents)
    return Rows(ids, segments, special, starts, whole, torch.arange(len(documents)), is_packed=is_packed)


def masked_at(rows: Rows, columns: Sequence[Sequence[int]]) -> MaskedRows:
    """Rows with these columns masked; as many in every row."""
    positions = torch.tensor(columns)
    gold = rows.input_ids.gather(1, positions)
    used = torch.ones_like(gold, dtype=torch.bool)
    masked = rows.input_ids.scatter(1, positions, tiny.MASK)
    draws = torch.full(gold.shape, 0.5)
    return MaskedRows(rows, masked, positions, gold, used, rows.is_whole_word.gather(1, positions), draws)
