"""Detectors of planted synonyms: the oracle, ones that err at a chosen rate, and a placebo."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trueneg.corruption import keyed
from trueneg.corruption.rows import MaskedRows
from trueneg.detectors.base import Detector, Proposals
from trueneg.recipes.planted_corpus import Planting


class PlantedDetector(Detector):
    """Knows the planted synonyms, and errs as told: a fixed list for each planted word, as real detectors have.

    *Recall*: each true pair (gold, other spelling) is in the list with this probability.

    *Precision*: the share of a list's tokens that is right, on average over words. What is wrongly accepted are whole
    words in all their spellings, those that look most like gold by the company they keep: not junk that no model
    would predict, but ``large`` for ``small``, the kind of error that detectors make on real text.

    How much of what is *credited* in training is right is another matter, since that depends on what the model
    predicts: a model may never predict a wrong entry, or, being rewarded for it, soon predict nothing else.
    ``readings`` says what came of it.

    Args:
        planting: The truth.
        precision: In (0, 1].
        recall: In [0, 1].
        seed: Draws which pairs.
        credit: What an accepted pair is given.
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
        # As many false words that the list, with its (n - 1) * recall right tokens, has the precision on average.
        num_false = (num_spellings - 1) / num_spellings * recall * (1 - precision) / precision
        order = keyed.bits(keys, keyed.RANDOM_TOKEN, 1).argsort(0).argsort(0)
        draws = (order + 0.5) / num_words  # in steps, so that few words have no more or less than they should
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
        """Credit of what its lists have; right and wrong are counted."""
        word, other = self._word(gold, place), self._words[predicted]
        is_candidate = (word >= 0) & (other >= 0) & (predicted != gold) & place.is_masked
        is_true = is_candidate & (word == other)
        is_right = is_true & self._known[word, self._spelling[gold], self._spelling[predicted]]
        is_wrong = is_candidate & (self._false_words[word] == other.unsqueeze(-1)).any(-1)
        self._counts = self._counts + torch.stack([is_true.sum(), is_right.sum(), is_wrong.sum()])
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
        """What its judgements so far amount to; a share of nothing is left out.

        Returns:
            ``precision``: right ones among credited mispredictions. ``recall``: credited ones among mispredictions
            that are true synonyms. ``num_credited``.
        """
        num_true, num_right, num_wrong = self._counts.tolist()
        shares = {"precision": (num_right, num_right + num_wrong), "recall": (num_right, num_true)}
        found = {name: part / whole for name, (part, whole) in shares.items() if whole}
        return found | {"num_credited": num_right + num_wrong}

    def _word(self, gold: Tensor, place: MaskedRows) -> Tensor:
        """Gold's planted word, or -1; a word's own id is also the beginning of longer words, which are not split."""
        return torch.where(place.is_whole_word, self._words[gold], -1)


class Placebo(Detector):
    """Credits as many mispredictions as another detector would, drawn at random from all of them.

    Args:
        likened: Says how many.
    """

    def __init__(self, likened: Detector) -> None:
        super().__init__()
        self.likened = likened

    def credit(self, gold: Tensor, predicted: Tensor, place: MaskedRows) -> Tensor:
        """Credit 1 at random mispredictions of the batch."""
        is_mispredicted = (predicted != gold) & place.is_masked
        num_wanted = ((self.likened.credit(gold, predicted, place) >= 0.5) & is_mispredicted).sum()
        # An argmax leaves the draws for sampled predictions unused.
        order = torch.where(is_mispredicted, place.draws, 2.0).flatten().argsort(stable=True)
        rank = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
        return (rank < num_wanted).to(torch.float32).reshape(gold.shape)
