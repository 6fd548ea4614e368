"""The model as its own teacher: a moving average of it reads the unmasked text and says what could stand there."""

from __future__ import annotations

import copy
from typing import Self

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from trueneg.corruption.rows import MaskedRows
from trueneg.detectors.base import Detector, Proposals, credit_of
from trueneg.detectors.specification import Leaf, Resources
from trueneg.errors import ConfigError
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.models.logits import Logits, logits_of

OPTIONS = ("momentum", "top")
THRESHOLD = 0.05


class EmaDetector(Detector):
    """Credit where a moving average of the model, which sees gold, gives the prediction enough probability next to it.

    The score is p(predicted) / (p(predicted) + p(gold)) under the average; credit is its acceptance. The average must
    see that gold is there, its most probable token being gold, else there is no credit: a young model finds
    everything equally likely. So masking must show some chosen tokens unchanged, as BERT's and ELECTRA's does.

    The average is part of the run: it is in checkpoints. It costs a forward pass without gradient a step, with logits
    at the masked positions, whether or not the correction needs substitutes.

    Args:
        momentum: What is kept of the average at each step.
        threshold: The acceptance threshold.
        top: How many of the average's most probable tokens are listed as substitutes.
    """

    def __init__(self, momentum: float = 0.999, threshold: float = THRESHOLD, top: int = 8) -> None:
        super().__init__()
        self.momentum = momentum
        self.threshold = threshold
        self.top = top
        self.teacher: nn.Module | None = None
        self._pairs: tuple[list[Tensor], list[Tensor]] = [], []
        """The average's parameters and the model's, listed once."""

    def attach(self, model: nn.Module) -> None:
        """Begin with a copy of the model."""
        if not isinstance(model, MaskedLanguageModel):
            raise ConfigError("detector 'ema' averages a masked language model, and this objective trains none")
        self.teacher = copy.deepcopy(model).requires_grad_(False).eval()
        self._pairs = list(self.teacher.parameters()), list(model.parameters())

    @torch.no_grad()
    def after_step(self, model: nn.Module) -> None:
        """Move the average towards the model."""
        if self.teacher is None:
            raise AssertionError("attach was not called")
        torch._foreach_lerp_(*self._pairs, 1 - self.momentum)

    def train(self, mode: bool = True) -> Self:
        """The average never trains: it has no dropout."""
        super().train(mode)
        if self.teacher is not None:
            self.teacher.eval()
        return self

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
        """What the average says at masked places of the unmasked text."""
        if not isinstance(self.teacher, MaskedLanguageModel):
            raise AssertionError("attach was not called")
        hidden = self.teacher.encode(batch.rows.input_ids, batch.rows)
        at_slots = hidden.gather(1, batch.positions.unsqueeze(-1).expand(-1, -1, hidden.shape[-1]))
        return logits_of(self.teacher, at_slots, temperatures=())

    def _credit(self, logits: Tensor, gold: Tensor, is_whole_word: Tensor, tokens: Tensor) -> tuple[Tensor]:
        """Acceptance of tokens ``[*, n]`` that is at least 1/2, else 0."""
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
