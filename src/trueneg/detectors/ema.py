"""The model as its own teacher: its moving average reads the unmasked text and predicts substitutes."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from trueneg.corruption.rows import MaskedRows
from trueneg.detectors.base import Detector, Proposals, credit_of
from trueneg.detectors.specification import Leaf, Resources
from trueneg.errors import ConfigError
from trueneg.models.logits import Logits, MakesLogits, logits_at
from trueneg.models.moving_average import MovingAverage

OPTIONS = ("momentum", "top")
THRESHOLD = 0.05


class EmaDetector(MovingAverage, Detector, MakesLogits):
    """Credit where a moving average of the model, which sees gold, gives the prediction enough probability beside gold.

    The score is p(predicted) / (p(predicted) + p(gold)) under the average; credit is its acceptance. There is
    credit only where gold is the average's most probable token: early in training, everything is equally likely.
    Masking must therefore leave some chosen tokens unchanged, as BERT's and ELECTRA's does.

    The average is saved in checkpoints. It costs a forward pass without gradient per step, with logits at the masked
    positions, whether or not the correction needs substitutes.

    Args:
        momentum: Momentum of the average.
        threshold: The acceptance threshold.
        top: How many of the average's most probable tokens are listed as substitutes.
    """

    def __init__(self, momentum: float = 0.999, threshold: float = THRESHOLD, top: int = 8) -> None:
        super().__init__(momentum, "detector 'ema'")
        self.threshold = threshold
        self.top = top

    @torch.no_grad()
    def credit(self, gold: Tensor, tokens: Tensor, batch: MaskedRows) -> Tensor:
        """Give each token its acceptance."""
        several = tokens.reshape(*batch.gold.shape, -1)
        (credit,) = self._logits(batch).read(self._credit, batch.gold, batch.is_whole_word, several)
        return credit.reshape(tokens.shape)

    @torch.no_grad()
    def propose(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> Proposals:
        """List the average's most probable tokens."""
        logits = self._logits(batch)
        most = logits.vocab_size

        def propose(logits: Tensor, gold: Tensor, is_whole_word: Tensor, predicted: Tensor) -> tuple[Tensor, ...]:
            tokens = logits.topk(min(self.top + 1, most)).indices.clamp(max=most - 1)
            credit = self._credit(logits, gold, is_whole_word, torch.cat([predicted.unsqueeze(-1), tokens], -1))[0]
            return credit[..., 0], tokens, credit[..., 1:] * (tokens != gold.unsqueeze(-1))

        return Proposals(*logits.read(propose, batch.gold, batch.is_whole_word, predicted))

    def _logits(self, batch: MaskedRows) -> Logits:
        """Logits of the average at the masked positions of the unmasked text."""
        hidden = self.average.encode(batch.rows.input_ids, batch.rows)
        return logits_at(self.average, hidden, batch.positions, self.max_logits_mb, temperatures=())

    def _credit(self, logits: Tensor, gold: Tensor, is_whole_word: Tensor, tokens: Tensor) -> tuple[Tensor]:
        """Acceptance of tokens ``[*, n]`` if at least 1/2, else 0."""
        at_gold = gold.unsqueeze(-1)
        score = torch.sigmoid(logits.gather(-1, tokens) - logits.gather(-1, at_gold))
        sees_gold = logits.argmax(-1, keepdim=True) == at_gold
        return (credit_of(score, self.threshold) * sees_gold * is_whole_word.unsqueeze(-1),)


def make_detector(leaf: Leaf, tokenizer: PreTrainedTokenizerFast, resources: Resources) -> EmaDetector:
    """Accept what a moving average of the model in training finds likely: ema[momentum=0.999,top=8]@0.05."""
    leaf.check(argument=False, options=OPTIONS)
    momentum = leaf.number("momentum", 0.999)
    if momentum >= 1:
        raise ConfigError(f"detector '{leaf.text}': momentum={momentum}: below 1, or the average never moves")
    threshold = leaf.threshold_or(THRESHOLD)
    if not 0 < threshold < 1:
        raise ConfigError(f"detector '{leaf.text}': @{threshold} accepts everything or nothing: between 0 and 1")
    return EmaDetector(momentum, threshold, leaf.count("top", 8, min=1))
