"""Label smoothing: part of the target is spread over a distribution, instead of a detector or restricted by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from trueneg.config.objective_options import SmoothingConfig
from trueneg.corruption.rows import MaskedRows
from trueneg.errors import ConfigError, unknown_name
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.models.loading import load_trained_masked_lm
from trueneg.models.logits import Logits, MakesLogits, logits_at
from trueneg.models.modes import eval_mode
from trueneg.models.moving_average import MovingAverage
from trueneg.models.reading import weights_digest

SOURCES = ("uniform", "self", "average", "teacher")


@dataclass(frozen=True)
class Distribution:
    """The most probable tokens at each slot."""

    tokens: Tensor
    """int64 ``[batch, slots, n]``."""
    log_ratios: Tensor
    """``log p(token) - log p(gold)``, float32 ``[batch, slots, n]``, without gradient."""


@dataclass(frozen=True)
class SoftTarget:
    """Shares of the target for tokens other than gold; gold has the rest."""

    tokens: Tensor
    """int64 ``[batch, slots, n]``."""
    shares: Tensor
    """float32 ``[batch, slots, n]``, without gradient."""


class Smoothing(nn.Module, MakesLogits):
    """Mixes the target with a distribution: (1 - share) gold + share q.

    - ``uniform``: q is uniform over the vocabulary: plain label smoothing (Szegedy et al. 2016);
    - ``self``: q is the model's own prediction, without gradient, and in evaluation mode unless ``reads="masked"``:
      token-specific label smoothing (Zhong et al. 2023, Self-Evolution). Their released code uses a share of 0.1
      throughout, as does the default;
    - ``average``: the prediction of the model's moving average;
    - ``teacher``: the prediction of another masked language model with the same vocabulary.

    Only the ``top`` most probable tokens of a distribution and gold are kept, with renormalised probabilities. A
    detector may restrict it further, to substitutes for gold: each probability is then multiplied by the token's
    acceptance, gold's by 1. Where no token is accepted, the target is gold.

    Args:
        source: ``uniform``, ``self``, ``average`` or ``teacher``.
        share: Share of the target that is spread, in (0, 1).
        top: Number of tokens of a distribution that are kept.
        reads: Text that the distribution is computed on: ``original``, which contains gold, or ``masked``.
        momentum: Momentum of the moving average.
        teacher: The other model.

    Raises:
        ConfigError: for an unknown source, or a teacher that is missing or unused.
    """

    def __init__(
        self,
        source: str,
        share: float = 0.1,
        top: int = 16,
        reads: Literal["original", "masked"] = "original",
        momentum: float = 0.999,
        teacher: MaskedLanguageModel | None = None,
    ) -> None:
        super().__init__()
        if source not in SOURCES:
            raise ConfigError(unknown_name("value of objective.smoothing.source", source, SOURCES))
        if (source == "teacher") is not (teacher is not None):
            raise ConfigError("objective.smoothing.source=teacher:CHECKPOINT is what a teacher is for")
        self.source, self.share, self.top, self.reads = source, share, top, reads
        self.average = MovingAverage(momentum, "objective.smoothing.source=average") if source == "average" else None
        # Not a submodule: it is neither trained nor saved in checkpoints.
        self._frozen = [] if teacher is None else [teacher.requires_grad_(False).eval()]

    @classmethod
    def from_config(cls, config: SmoothingConfig, tokenizer: PreTrainedTokenizerFast) -> Smoothing | None:
        """Make the smoothing that a configuration describes; None without one.

        Raises:
            ModelError: if the teacher is missing, or its vocabulary is not the tokenizer's.
        """
        if not config.source:
            return None
        source, has_teacher, checkpoint = config.source.partition(":")
        if source == "teacher" and not checkpoint:
            raise ConfigError("objective.smoothing.source=teacher names no checkpoint: teacher:CHECKPOINT")
        if source != "teacher" and has_teacher:
            raise ConfigError(f"objective.smoothing.source={config.source}: only teacher:CHECKPOINT has a checkpoint")
        teacher = load_trained_masked_lm(checkpoint, tokenizer) if checkpoint else None
        return cls(source, config.share, config.top, config.reads, config.momentum, teacher)

    @property
    def frozen(self) -> list[MaskedLanguageModel]:
        """The teacher, if there is one."""
        return self._frozen

    def digest(self) -> str:
        """Digest of the teacher's weights, without which a run does not resume; empty without a teacher."""
        return weights_digest(self._frozen[0]) if self._frozen else ""

    def attach(self, model: MaskedLanguageModel) -> None:
        """Receive the model to be trained."""
        if self.average is not None:
            self.average.attach(model)

    def after_step(self, model: nn.Module) -> None:
        """Receive the model after each optimizer step."""
        if self.average is not None:
            self.average.after_step(model)

    @torch.no_grad()
    def distribution(self, model: MaskedLanguageModel, batch: MaskedRows, logits: Logits) -> Distribution:
        """List the most probable tokens at each slot; ``uniform`` lists none.

        Args:
            model: The model in training.
            batch: The masked rows.
            logits: The model's logits for the masked text.
        """
        if self.source == "uniform":
            none = batch.gold.unsqueeze(-1)[..., :0]
            return Distribution(none, none.to(torch.float32))
        if self.source != "self" or self.reads == "original":
            logits = self._reference(model, batch)
        most = logits.vocab_size

        def listed(logits: Tensor, gold: Tensor) -> tuple[Tensor, ...]:
            values, tokens = logits.topk(min(self.top, most))
            return tokens.clamp(max=most - 1), values - logits.gather(-1, gold.unsqueeze(-1))

        return Distribution(*logits.read(listed, batch.gold))

    def target(self, found: Distribution, gold: Tensor, acceptance: Tensor | None = None) -> SoftTarget:
        """Spread the target of each slot.

        Args:
            found: From ``distribution``.
            gold: int64 ``[batch, slots]``.
            acceptance: Acceptance of the tokens in gold's place, which restricts the distribution.
        """
        is_other = (found.tokens != gold.unsqueeze(-1)).to(torch.float32)
        accepted = is_other if acceptance is None else is_other * acceptance
        if not found.tokens.shape[-1]:
            return SoftTarget(found.tokens, accepted)
        return SoftTarget(found.tokens, self.share * _relative(found.log_ratios, accepted))

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # it changes the mode of modules
    def _reference(self, model: MaskedLanguageModel, batch: MaskedRows) -> Logits:
        """Logits of the distribution's source at the slots."""
        source = self._frozen[0] if self._frozen else model if self.average is None else self.average.average
        ids = batch.rows.input_ids if self.reads == "original" else batch.input_ids
        for teacher in self._frozen:
            teacher.follow(ids)
        with eval_mode(source):
            return logits_at(
                source, source.encode(ids, batch.rows), batch.positions, self.max_logits_mb, temperatures=()
            )

    def loss(
        self, token_loss: Tensor, logits: Logits, few: Tensor, target: SoftTarget, temperature: float = 1.0
    ) -> Tensor:
        """Give the cross-entropy of the mixed target, float32 ``[batch, slots]``.

        Args:
            token_loss: ``-log p(gold)``.
            logits: The model's logits.
            few: Logits of gold and of the target's tokens, ``[batch, slots, 1 + n]``.
            target: From ``target``.
            temperature: Temperature that ``token_loss`` and ``few`` were computed with.
        """
        if self.source == "uniform":
            return token_loss + self.share * (few[..., 0] - logits.mean(temperature))
        gold_logit, others = few[..., :1], few[..., 1:]
        # -log p(v) = -log p(gold) + logit(gold) - logit(v)
        return token_loss + (target.shares * (gold_logit - others)).sum(-1)


def _relative(ratios: Tensor, acceptance: Tensor) -> Tensor:
    """Share of each token in the total probability of gold and all accepted tokens.

    Args:
        ratios: ``log p(token) - log p(gold)``, ``[*, n]``.
        acceptance: Factor of each probability; gold's is 1.

    Example:
        >>> _relative(torch.tensor([0.0, 0.0, 50.0]), torch.tensor([1.0, 0.5, 0.0]))
        tensor([0.4000, 0.2000, 0.0000])
    """
    largest = torch.where(acceptance > 0, ratios, 0.0).amax(-1, keepdim=True).clamp(min=0)
    weights = (torch.where(acceptance > 0, ratios, 0.0) - largest).exp() * acceptance
    return weights / ((-largest).exp() + weights.sum(-1, keepdim=True))


def check_together(use: str | None, source: str) -> None:
    """Refuse a correction and a smoothing that are incompatible.

    Args:
        use: ``use`` of the correction; None without one.
        source: ``source`` of the smoothing; empty without one.

    Raises:
        ConfigError: naming both.
    """
    if use == "restrict" and source in ("", "uniform"):
        raise ConfigError(
            "objective.correction.use=restrict restricts the distribution of objective.smoothing.source=self, average "
            "or teacher:CHECKPOINT: set one of these, or another use"
        )
    if use in ("marginal", "soft_targets") and source:
        raise ConfigError(
            f"objective.correction.use={use} spreads the target itself: leave objective.smoothing.source={source} "
            f"out, or set use=restrict"
        )
