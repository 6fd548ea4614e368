"""Hard correction: predictions that a detector credits are not penalised (Zhang et al. 2023, Eq. 2, App. A)."""

from __future__ import annotations

from typing import Literal, get_args, get_type_hints

import torch
from torch import Tensor, nn

from trueneg.config.fields import current_value, own_rules
from trueneg.config.objective_options import CorrectionConfig
from trueneg.corruption.rows import MaskedRows
from trueneg.detectors.base import Detector, Proposals
from trueneg.errors import ConfigError, unknown_name


class HardCorrection(nn.Module):
    """Removes false negatives from the masked-LM loss and from ELECTRA's labels.

    With gold token w, prediction r and credit c(w, r) of a masked position, the loss there is

    - ``drop``, the paper's Eq. 2: ``-log p(w)`` if c < 1/2, else 0;
    - ``down_weight``: ``-(1 - c) log p(w)``;
    - ``marginal``: ``-log sum_v a(v) p(v)`` over gold (a = 1) and the substitutes that the detector accepts
      (a = credit): the probability mass may lie on any of them, and there is still a loss to learn from;
    - ``soft_targets``: ``-sum_v a(v) log p(v) / sum_v a(v)`` over the same: the target is spread over them;
    - ``restrict``: ``-log p(w)``; credit restricts the tokens that label smoothing spreads the target over
      (``Smoothing``).

    A position without loss has no gradient, but still counts in the denominator: it was judged correct.
    ``marginal`` and ``soft_targets`` ask the detector for substitutes regardless of the prediction, and use the logits
    of these only. ``denominator="kept"`` divides by the remaining positions instead (an ignore-index mean, as App. A's
    "convert the labels … into -100" implies). Their number is only known after the forward pass, so that mean is taken
    per micro-batch, and gradient accumulation changes it.

    Args:
        detector: Gives the credit.
        use: ``drop``, ``down_weight``, ``marginal``, ``soft_targets`` or ``restrict``.
        denominator: ``masked`` or ``kept``.
        discriminator: Effect of credit on ELECTRA's label of a replaced token: it becomes ``original`` (App. A), is
            left out of the loss (``ignore``), or becomes ``1 - credit`` (``soft``). ``position`` is ``original`` also
            where another token was inserted than the credited one.

    Example: credit 1 removes the second position.
        >>> import torch
        >>> from trueneg.objectives.correction import weigh
        >>> weigh(torch.tensor([2.0, 3.0]), credit=torch.tensor([0.0, 1.0]), use="drop")
        tensor([2., 0.])
    """

    def __init__(
        self,
        detector: Detector,
        use: Literal["drop", "down_weight", "marginal", "soft_targets", "restrict"] = "drop",
        denominator: Literal["masked", "kept"] = "masked",
        discriminator: Literal["original", "position", "ignore", "soft"] = "original",
    ) -> None:
        super().__init__()
        use = current_value(own_rules(CorrectionConfig)["use"], use, "objective.correction.use")
        if use not in (uses := get_args(get_type_hints(CorrectionConfig)["use"])):
            raise ConfigError(unknown_name("value of objective.correction.use", use, uses))
        if denominator == "kept" and use != "drop":
            raise ConfigError(
                f"objective.correction.denominator=kept divides by the positions that use=drop leaves; with "
                f"use={use} every position is left: use denominator=masked"
            )
        self.detector = detector
        self.use = use
        self.denominator = denominator
        self.discriminator = discriminator

    def assess(
        self, predicted: Tensor, batch: MaskedRows, listed: Tensor | None = None
    ) -> tuple[Tensor, Proposals | None]:
        """Query the detector once for all that the loss and the labels need, without gradient.

        Args:
            predicted: int64 ``[batch, slots]``.
            batch: The masked rows.
            listed: Tokens of a distribution that ``restrict`` restricts, int64 ``[batch, slots, n]``.

        Returns:
            Credit of mispredicted positions, 0 elsewhere, float32 ``[batch, slots]``; and substitutes: for ``marginal``
            and ``soft_targets`` those that the detector lists, for ``restrict`` those ``listed``, else None.
        """
        with torch.no_grad():
            is_mispredicted = (predicted != batch.gold) & batch.is_masked
            if self.use == "marginal" or self.use == "soft_targets":
                proposals = self.detector.propose(batch.gold, predicted, batch)
                return proposals.credit * is_mispredicted, proposals
            if self.use != "restrict" or listed is None:
                return self.detector.credit(batch.gold, predicted, batch) * is_mispredicted, None
            asked = torch.cat([predicted.unsqueeze(-1), listed], dim=-1)
            credit, acceptance = self.detector.credit(batch.gold.unsqueeze(-1), asked, batch).split(
                [1, listed.shape[-1]], -1
            )
            return credit.squeeze(-1) * is_mispredicted, Proposals(credit.squeeze(-1), listed, acceptance)

    def masked_lm_loss(
        self,
        token_loss: Tensor,
        logits: Tensor | None,
        credit: Tensor,
        proposals: Proposals | None,
        batch: MaskedRows,
    ) -> Tensor:
        """Sum of the corrected loss over masked positions.

        Args:
            token_loss: ``-log p(gold)``, float32 ``[batch, slots]``.
            logits: Logits of gold and the proposed tokens, float32 ``[batch, slots, 1 + n]``; None without proposals.
            credit: From ``assess``.
            proposals: From ``assess``.
            batch: The masked rows.

        Returns:
            float32 scalar, in nats.
        """
        if self.use == "marginal" or self.use == "soft_targets":
            assert proposals is not None and logits is not None, "assess lists substitutes for this use"
            loss = self._loss_over_substitutes(token_loss, logits, proposals, batch)
        elif self.use == "restrict":
            loss = token_loss
        else:
            loss = weigh(token_loss, credit, self.use)
        total = (loss * batch.is_masked).sum()
        if self.denominator == "masked":
            return total
        num_masked = batch.is_masked.sum()
        num_kept = (batch.is_masked & (credit < 0.5)).sum()
        return total * (num_masked / num_kept.clamp(min=1))

    def _loss_over_substitutes(
        self, token_loss: Tensor, logits: Tensor, proposals: Proposals, batch: MaskedRows
    ) -> Tensor:
        """Loss of ``marginal`` or ``soft_targets`` at each slot, float32 ``[batch, slots]``."""
        acceptance = proposals.acceptance * (proposals.tokens != batch.gold.unsqueeze(-1))
        gold_logit, others = logits[..., :1], logits[..., 1:]
        log_normaliser = token_loss.unsqueeze(-1) + gold_logit
        if self.use == "soft_targets":
            spread = token_loss + (acceptance * (log_normaliser - others)).sum(-1)
            return spread / (1 + acceptance.sum(-1))
        # log 0 = -inf drops tokens that are not accepted; gold is always included, so the sum is never empty.
        accepted = torch.cat([gold_logit, others + acceptance.log()], dim=2)
        return log_normaliser.squeeze(-1) - accepted.logsumexp(2)


def weigh(loss: Tensor, credit: Tensor, use: Literal["drop", "down_weight"]) -> Tensor:
    """Loss times (1 - credit), with credit rounded to 0 or 1 for ``drop``."""
    forgiven = (credit >= 0.5).to(loss.dtype) if use == "drop" else credit
    return loss * (1 - forgiven)


def corrected_labels(
    is_replaced: Tensor, credit: Tensor, how: Literal["original", "position", "ignore", "soft"]
) -> tuple[Tensor, Tensor]:
    """Discriminator's targets and weights at masked positions (App. A).

    Args:
        is_replaced: The inserted token differs from gold, bool ``[batch, slots]``.
        credit: float32 ``[batch, slots]``.
        how: ``original`` and ``position`` label an accepted replacement original, ``ignore`` leaves it out, ``soft``
            gives it the target 1 - credit.

    Returns:
        Targets and weights, float32 ``[batch, slots]``.
    """
    target = is_replaced.to(torch.float32)
    is_forgiven = credit >= 0.5
    if how == "soft":
        return target * (1 - credit), torch.ones_like(target)
    if how == "ignore":
        return target, (~is_forgiven).to(torch.float32)
    return target * ~is_forgiven, torch.ones_like(target)
