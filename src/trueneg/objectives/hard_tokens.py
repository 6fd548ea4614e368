"""Tokens that a masked language model has not learned yet, to be masked first."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from trueneg.config.objective_options import MaskingConfig
from trueneg.corruption.rows import Rows
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.models.loading import load_trained_masked_lm
from trueneg.models.logits import AUTO, logits_at
from trueneg.models.reading import weights_digest


class HardTokens(nn.Module):
    """Finds the tokens that a frozen model gets wrong, or is unsure of, when it reads the unmasked text.

    The self-questioning of Self-Evolution (Zhong et al. 2023): the model that a run continues reads each sentence
    without masks; a token that it does not predict (by correctness), or whose probability is below a bound (by
    confidence), is not learned yet. If a row has fewer of them than are to be masked, others are masked too.

    Args:
        judge: The frozen model.
        below: Probability below which a token is hard; 0 for tokens that are not the most probable ones.
        max_logits_mb: See ``logits_of``; logits are computed at every token.
    """

    def __init__(self, judge: MaskedLanguageModel, below: float = 0.0, max_logits_mb: float = AUTO) -> None:
        super().__init__()
        self.below, self.max_logits_mb = below, max_logits_mb
        # Not a submodule: it is neither trained nor saved in checkpoints.
        self._judge = [judge.requires_grad_(False).eval()]

    @classmethod
    def from_config(
        cls, config: MaskingConfig, tokenizer: PreTrainedTokenizerFast, max_logits_mb: float = AUTO
    ) -> HardTokens | None:
        """Make the judge of hard tokens that a configuration describes; None without one.

        Raises:
            ModelError: if the model is missing, or its vocabulary is not the tokenizer's.
        """
        if not config.hard_for:
            return None
        judge = load_trained_masked_lm(config.hard_for, tokenizer)
        return cls(judge, config.hard_below, max_logits_mb)

    @property
    def frozen(self) -> list[MaskedLanguageModel]:
        """The frozen model."""
        return self._judge

    def digest(self) -> str:
        """Digest of the model's weights, without which a run does not resume."""
        return weights_digest(self._judge[0])

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # a separate pass before the step's
    @torch.no_grad()
    def forward(self, rows: Rows) -> Tensor:
        """Whether each token is hard, bool ``[batch, length]``."""
        (judge,), ids = self._judge, rows.input_ids
        judge.follow(ids)
        everywhere = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        logits = logits_at(judge, judge.encode(ids, rows), everywhere, self.max_logits_mb)
        if self.below:
            token_loss, _ = logits.losses(ids)
            return (-token_loss).exp() < self.below
        (predicted,) = logits.read(lambda part, _: (part.argmax(-1),), ids)
        return predicted != ids
