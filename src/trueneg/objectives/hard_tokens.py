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
    """Finds what a frozen model gets wrong, or is unsure of, when it reads the text as it is.

    The self-questioning of Self-Evolution (Zhong et al. 2023): the model that a run continues reads each sentence
    without masks; a token that it does not predict (by correctness), or whose probability is below a bound (by
    confidence), is one that it has not learned. Where a row has fewer than are to be masked, others are masked, too.

    Args:
        judge: The model that reads; it is not trained.
        below: Probability under which a token is hard; 0 for tokens that are not the most probable ones.
        max_logits_mb: See ``logits_of``: there are logits at every token.
    """

    def __init__(self, judge: MaskedLanguageModel, below: float = 0.0, max_logits_mb: float = AUTO) -> None:
        super().__init__()
        self.below, self.max_logits_mb = below, max_logits_mb
        # No submodule: it is neither trained nor written into checkpoints.
        self._judge = [judge.requires_grad_(False).eval()]

    @classmethod
    def from_config(
        cls, config: MaskingConfig, tokenizer: PreTrainedTokenizerFast, max_logits_mb: float = AUTO
    ) -> HardTokens | None:
        """Make what a configuration describes; None for nothing.

        Raises:
            ModelError: if the model is not there, or its vocabulary is not the tokenizer's.
        """
        if not config.hard_for:
            return None
        judge = load_trained_masked_lm(config.hard_for, tokenizer)
        return cls(judge, config.hard_below, max_logits_mb)

    @property
    def frozen(self) -> list[MaskedLanguageModel]:
        """The model that reads."""
        return self._judge

    def digest(self) -> str:
        """Name the model's weights, under which alone a run goes on."""
        return weights_digest(self._judge[0])

    def attach(self, model: MaskedLanguageModel) -> None:
        """Go where the model that is about to be trained is."""
        self._judge[0].to(model.embeddings.device)

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # a reading of its own, before the step's
    @torch.no_grad()
    def forward(self, rows: Rows) -> Tensor:
        """Tell which tokens are hard: bool ``[batch, length]``."""
        (judge,), ids = self._judge, rows.input_ids
        everywhere = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        logits = logits_at(judge, judge.encode(ids, rows), everywhere, self.max_logits_mb)
        if self.below:
            token_loss, _ = logits.losses(ids)
            return (-token_loss).exp() < self.below
        (predicted,) = logits.read(lambda part, _: (part.argmax(-1),), ids)
        return predicted != ids
