"""Planted synonyms: a real corpus in which frequent words have several interchangeable spellings.

Nothing on disk is rewritten: a word's spelling at a position is a function of (seed, row, column), drawn when the
row is read. Which tokens are interchangeable is then known exactly, as it never is in real text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from trueneg.corpus.permutation import rows_at
from trueneg.corpus.rows import RowBatch, RowIndex
from trueneg.corpus.store import Corpus
from trueneg.corruption import keyed
from trueneg.corruption.rows import MaskedRows
from trueneg.detectors.base import Detector, Proposals, of_slots
from trueneg.errors import ConfigError
from trueneg.lexicon.surface import is_candidate, surfaces

SHARES = (0.4, 0.3, 0.2, 0.1)
"""How often a planted word has each of its spellings."""

UNSPLIT = (1.0, 0.0, 0.0, 0.0)
"""Shares that leave the text unchanged."""

_COUNTED_ROWS, _NEIGHBOURS = 8192, 512


@dataclass(frozen=True)
class Planting:
    """Which words are split, and into which token ids.

    Attributes:
        spellings: int64 ``[words, 4]``: the ids of each word's spellings, its own id first. The others lie beyond
            the tokenizer's vocabulary.
        lookalikes: int64 ``[words, words - 1]``: for each word all others, sorted by how similar their neighbours in
            the text are to its own, such as ``large`` for ``small``: what real detectors mistake for synonyms.
        vocab_size: size of that vocabulary.
        share: share of the corpus's tokens that are planted words.
    """

    spellings: npt.NDArray[np.int64]
    lookalikes: npt.NDArray[np.int64]
    vocab_size: int
    share: float

    @classmethod
    def of_most_frequent(
        cls, index: RowIndex, tokenizer: PreTrainedTokenizerFast, num_words: int, kind: Literal["content", "any"]
    ) -> Planting:
        """Split the words that are most frequent in a sample of a corpus, the most frequent first.

        Args:
            index: The corpus.
            tokenizer: Its tokenizer.
            num_words: Number of words to split.
            kind: Words are single tokens made of letters; ``content`` words have three or more letters, and are not
                stop words.

        Raises:
            ConfigError: if the sample has fewer such words.
        """
        numbers = rows_at(0, np.arange(min(_COUNTED_ROWS, len(index)), dtype=np.int64), len(index))
        rows = index.read(numbers)
        counts = np.bincount(rows.input_ids[rows.is_whole_word], minlength=len(tokenizer))
        can_be_split = is_candidate if kind == "content" else str.isalpha
        is_word = np.array([can_be_split(surface.word) for surface in surfaces(tokenizer)])
        counts = np.where(is_word, counts[: len(is_word)], 0)
        if num_words > (available := int((counts > 0).sum())):
            raise ConfigError(f"num_words={num_words}: the corpus has only {available} words that can be split")
        chosen = np.argsort(-counts, kind="stable")[:num_words]
        added = len(tokenizer) + np.arange(num_words * (len(SHARES) - 1)).reshape(num_words, -1)
        share = counts[chosen].sum() / (~rows.is_special).sum()
        lookalikes = _lookalikes(rows, chosen, len(tokenizer))
        return cls(np.column_stack([chosen, added]), lookalikes, len(tokenizer), float(share))

    @property
    def num_words(self) -> int:
        """Number of words that are split."""
        return len(self.spellings)

    def words(self) -> npt.NDArray[np.int64]:
        """Index of the planted word that each id spells, -1 for other ids: int64 ``[vocab]``."""
        found = np.full(self.vocab_size + self.spellings[:, 1:].size, -1)
        found[self.spellings] = np.arange(self.num_words)[:, None]
        return found

    def classes(self) -> Tensor:
        """Id that represents each id's class, its first spelling or itself: int64 ``[vocab]``."""
        words = self.words()
        return torch.from_numpy(np.where(words < 0, np.arange(len(words)), self.spellings[words, 0]))

    def class_logits(self, logits: Tensor) -> Tensor:
        """Logits over classes: a class's probability is the sum of its spellings'.

        Args:
            logits: ``[*, vocab]``.

        Returns:
            ``[*, vocab_size]``, indexed by the ids of ``classes``.
        """
        spellings = torch.from_numpy(self.spellings).to(logits.device)
        merged = logits[..., : self.vocab_size].clone()
        merged[..., spellings[:, 0]] = logits[..., spellings].logsumexp(-1)
        return merged

    def extend(self, tokenizer: PreTrainedTokenizerFast) -> None:
        """Add an entry for every spelling to the tokenizer: ``city``, ``city~2``, ``city~3``, ``city~4``."""
        words: Sequence[str] = tokenizer.convert_ids_to_tokens(self.spellings[:, 0].tolist())
        spellings = range(2, len(SHARES) + 1)
        num_added = tokenizer.add_tokens([f"{word}~{number}" for word in words for number in spellings])
        if num_added != self.spellings[:, 1:].size:
            raise ConfigError("the tokenizer has entries such as 'city~2' already: take the corpus's own tokenizer")


class PlantedRows(RowIndex):
    """Rows of a corpus in which planted words are replaced by their spellings.

    Args:
        corpus: An open corpus.
        length: Tokens per row.
        planting: The planted words.
        seed: Seed of the spellings, which also depend on row and column.
        shares: How often a word has each spelling.
    """

    def __init__(
        self, corpus: Corpus, length: int, planting: Planting, seed: int, shares: Sequence[float] = SHARES
    ) -> None:
        super().__init__(corpus, length)
        self._planting, self._words, self._seed = planting, planting.words(), seed
        self._borders = np.cumsum(shares[:-1])

    def read(self, indices: npt.NDArray[np.integer[Any]]) -> RowBatch:
        """Read rows, in the order asked for."""
        batch = super().read(indices)
        keys = keyed.example_keys(self._seed, torch.from_numpy(np.asarray(indices, dtype=np.int64)))
        draws = keyed.uniform(keys, keyed.REPLACE, self.length).numpy()
        spelling = np.searchsorted(self._borders, draws, side="right")
        words = np.where(batch.is_whole_word, self._words[batch.input_ids], -1)
        spelt = np.where(words < 0, batch.input_ids, self._planting.spellings[words, spelling])
        return replace(batch, input_ids=spelt)


def _lookalikes(rows: RowBatch, words: npt.NDArray[np.int64], vocab_size: int) -> npt.NDArray[np.int64]:
    """See ``Planting``: ranked by the Bhattacharyya coefficient of the distributions of left and right neighbours."""
    frequent = np.argsort(-np.bincount(rows.input_ids.ravel(), minlength=vocab_size), kind="stable")[:_NEIGHBOURS]
    number, neighbour = np.full(vocab_size, -1), np.full(vocab_size, -1)
    number[words], neighbour[frequent] = np.arange(len(words)), np.arange(len(frequent))
    word = np.where(rows.is_whole_word, number[rows.input_ids], -1)[:, 1:-1]
    sides = (neighbour[rows.input_ids][:, :-2], neighbour[rows.input_ids][:, 2:])
    counts = np.zeros((2, len(words), len(frequent)))
    for side, beside in zip(counts, sides, strict=True):
        is_counted = (word >= 0) & (beside >= 0)
        np.add.at(side, (word[is_counted], beside[is_counted]), 1)
    roots = np.sqrt(counts / counts.sum(-1, keepdims=True).clip(min=1))
    likeness = (roots @ roots.transpose(0, 2, 1)).sum(0)
    np.fill_diagonal(likeness, -1)
    return np.argsort(-likeness, axis=1, kind="stable")[:, :-1]


class PlantedDetector(Detector):
    """Detector that knows the planted synonyms, with given error rates: a fixed list per word, as real ones have.

    *Recall*: each true pair (gold, other spelling) is in the list with this probability.

    *Precision*: the share of a list's tokens that are right, on average over words. Wrongly accepted tokens are whole
    words in all their spellings, those whose neighbours are most similar to gold's: not junk that no model would
    predict, but ``large`` for ``small``, the kind of error that detectors make on real text.

    The precision of what is *credited* in training may differ, since it depends on what the model predicts: it may
    never predict a wrong entry, or, being rewarded for it, soon predict nothing else. ``readings`` reports the rates
    in training.

    Args:
        planting: The planted synonyms.
        precision: In (0, 1].
        recall: In [0, 1].
        seed: Seed for drawing the pairs.
        credit: Credit of an accepted pair.
    """

    def __init__(
        self, planting: Planting, precision: float = 1.0, recall: float = 1.0, seed: int = 0, credit: float = 1.0
    ) -> None:
        super().__init__()
        self.given = credit
        num_words, num_spellings = planting.spellings.shape
        keys = keyed.example_keys(seed, torch.arange(num_words))
        words, spellings = torch.from_numpy(planting.words()), torch.from_numpy(planting.spellings)
        spelling = torch.zeros_like(words).index_put_((spellings,), torch.arange(num_spellings))
        known = (keyed.uniform(keys, keyed.CHOOSE, num_spellings**2) < recall).unflatten(1, (num_spellings, -1))
        # The number of false words with which a list of (n - 1) * recall right tokens has this precision on average.
        num_false = (num_spellings - 1) / num_spellings * recall * (1 - precision) / precision
        order = keyed.bits(keys, keyed.RANDOM_TOKEN, 1).argsort(0).argsort(0)
        draws = (order + 0.5) / num_words  # stratified, so that the total is right even for few words
        most = min(math.ceil(num_false), num_words - 1)
        is_false = torch.arange(most) < (num_false + draws).floor()
        lookalikes = torch.from_numpy(planting.lookalikes[:, :most].copy())
        self._words: Tensor
        self._spelling: Tensor
        self._spellings: Tensor
        self._known: Tensor
        self._false_words: Tensor
        self._counts: Tensor
        for name, value in {
            "_words": words,
            "_spelling": spelling,
            "_spellings": spellings,
            "_known": known,  # word, spelling of gold, spelling of the substitute
            "_false_words": torch.where(is_false, lookalikes, -1),  # word, its false ones
            "_counts": torch.zeros(3),
        }.items():
            self.register_buffer(name, value, persistent=False)

    def credit(self, gold: Tensor, predicted: Tensor, place: MaskedRows) -> Tensor:
        """Credit the entries of its lists, and count right and wrong predictions."""
        word, other = self._word(gold, place), self._words[predicted]
        is_candidate = (word >= 0) & (other >= 0) & (predicted != gold) & of_slots(place.is_masked, predicted)
        is_true = is_candidate & (word == other)
        is_right = is_true & self._known[word, self._spelling[gold], self._spelling[predicted]]
        is_wrong = is_candidate & (self._false_words[word] == other.unsqueeze(-1)).any(-1)
        verdicts = torch.stack([is_true, is_right, is_wrong])
        if predicted.dim() > place.gold.dim():  # use=restrict: the prediction, followed by a distribution's tokens
            verdicts = verdicts[..., 0]
        self._counts = self._counts + verdicts.flatten(1).sum(1)
        credit: Tensor = (is_right | is_wrong).to(torch.float32) * self.given
        return credit

    def propose(self, gold: Tensor, predicted: Tensor, place: MaskedRows) -> Proposals:
        """List gold's entries: its own spellings that are known, and all of its false words."""
        word = self._word(gold, place)
        is_planted = (word >= 0).unsqueeze(-1)
        false_words = self._false_words[word]
        others, is_false = self._spellings[false_words], (false_words >= 0).unsqueeze(-1)
        accepted = torch.cat([self._known[word, self._spelling[gold]], is_false.expand_as(others).flatten(-2)], dim=-1)
        tokens = torch.cat([self._spellings[word], others.flatten(-2)], dim=-1)
        acceptance = (accepted & is_planted).to(torch.float32) * self.given
        return Proposals(self.credit(gold, predicted, place), tokens, acceptance)

    def readings(self) -> dict[str, float]:
        """Rates of its judgements so far, without those whose denominator is 0.

        Returns:
            ``precision``: share of credited mispredictions that are right. ``recall``: share of true-synonym
            mispredictions that are credited. ``num_credited``.
        """
        num_true, num_right, num_wrong = self._counts.tolist()
        shares = {"precision": (num_right, num_right + num_wrong), "recall": (num_right, num_true)}
        found = {name: part / whole for name, (part, whole) in shares.items() if whole}
        return found | {"num_credited": num_right + num_wrong}

    def _word(self, gold: Tensor, place: MaskedRows) -> Tensor:
        """Index of gold's planted word, or -1; a word's id may also begin a longer word, which is not split."""
        return torch.where(of_slots(place.is_whole_word, gold), self._words[gold], -1)


class Placebo(Detector):
    """Credits as many mispredictions as another detector would, drawn at random from all of them.

    Args:
        likened: Detector that determines how many.
    """

    def __init__(self, likened: Detector) -> None:
        super().__init__()
        self.likened = likened

    def credit(self, gold: Tensor, predicted: Tensor, place: MaskedRows) -> Tensor:
        """Credit 1 at random mispredictions of the batch."""
        is_mispredicted = (predicted != gold) & place.is_masked
        num_wanted = ((self.likened.credit(gold, predicted, place) >= 0.5) & is_mispredicted).sum()
        # With argmax, the draws for sampled predictions are unused.
        order = torch.where(is_mispredicted, place.draws, 2.0).flatten().argsort(stable=True)
        rank = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
        return (rank < num_wanted).to(torch.float32).reshape(gold.shape)
