"""Masked language modelling with correction of false negatives (Zhang et al. 2023, Eq. 1 and 2)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from trueneg.config.objective_options import ObjectiveConfig
from trueneg.config.presets import MASKED_LM
from trueneg.corruption.masking import Masking
from trueneg.corruption.rows import MaskedRows, Rows
from trueneg.detectors import make_detector
from trueneg.errors import ConfigError, TruenegWarning
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.models.logits import AUTO, limit_logits, logits_at
from trueneg.objectives.base import Objective, Outcome, Sums
from trueneg.objectives.correction import HardCorrection
from trueneg.objectives.hard_tokens import HardTokens
from trueneg.objectives.kinds import ObjectiveKind
from trueneg.objectives.prediction import PredictedTokens, predict, prediction_stats
from trueneg.objectives.regularization import Regularizer, regularizers_from_config
from trueneg.objectives.smoothing import Smoothing, check_together
from trueneg.tokenizer import special_ids


class MaskedLM(Objective[Rows, MaskedRows]):
    """Predict the tokens that were masked.

    Zhang et al. 2023, Eq. 1: the negative log-likelihood of gold at masked positions, over the number of masked
    positions. A correction (Eq. 2) removes false negatives; regularizers add terms of their own. The same
    class is used on its own, for ELECTRA's generator, and within CLINE.

    Args:
        masking: Chooses and hides positions.
        correction: Correction of false negatives; None for plain masked LM.
        regularizers: Further terms, computed from the same predictions.
        prediction: How the predicted token is chosen: ``argmax`` (default) or ``sampled``.
        temperature: Temperature of sampled predictions.
        loss_temperature: Divides the logits in the loss, with or without correction (Zhang et al. 2023, footnote 13);
            it does not affect predictions and the reported ``gold_loss``.
        judged: Token that correction and regularizers use: the ``predicted`` one, or always the ``argmax``.
        max_logits_mb: Largest size of logits held in memory, in float32 MiB: see ``models.logits.logits_of``.
        smoothing: Spreads a share of the target.
        hard_tokens: Chooses the tokens that are masked first; None to choose at random.

    Raises:
        ConfigError: for a temperature that is not positive, or a correction that is incompatible with the smoothing.

    Terms: ``mlm`` (nats) over masked positions, and one per regularizer.
    """

    def __init__(
        self,
        masking: Masking,
        correction: HardCorrection | None = None,
        regularizers: Sequence[Regularizer] = (),
        prediction: Literal["argmax", "sampled"] = "argmax",
        temperature: float = 1.0,
        loss_temperature: float = 1.0,
        judged: Literal["predicted", "argmax"] = "predicted",
        max_logits_mb: float = AUTO,
        smoothing: Smoothing | None = None,
        hard_tokens: HardTokens | None = None,
    ) -> None:
        super().__init__()
        for name, value in {"temperature": temperature, "loss_temperature": loss_temperature}.items():
            if value <= 0:
                raise ConfigError(f"objective.{name} must be above 0, got {value}")
        check_together(None if correction is None else correction.use, "" if smoothing is None else smoothing.source)
        if hard_tokens is not None and masking.config.unit != "token":
            raise ConfigError(
                f"objective.masking.hard_for chooses single tokens, and objective.masking.unit={masking.config.unit}: "
                f"set it to token, or leave hard_for out"
            )
        self.masking = masking
        self.correction = correction
        self.smoothing = smoothing
        self.hard_tokens = hard_tokens
        self.regularizers = nn.ModuleList(regularizers)
        self.prediction: Literal["argmax", "sampled"] = prediction
        self.temperature = temperature
        self.loss_temperature = loss_temperature
        self.judged: Literal["predicted", "argmax"] = judged
        self.max_logits_mb = max_logits_mb
        limit_logits(self, max_logits_mb)
        self.weights = {"mlm": 1.0} | {regularizer.term: regularizer.weight for regularizer in regularizers}

    @classmethod
    def from_config(cls, config: ObjectiveConfig, tokenizer: PreTrainedTokenizerFast, vocab_size: int) -> Self:
        """Make the objective that a configuration describes: see ``ObjectiveKind.make_objective``."""
        mask_id = special_ids(tokenizer)["mask"]
        if mask_id is None:
            raise AssertionError("load_tokenizer lets no tokenizer without a mask token pass")
        # Ids that pad the model's vocabulary beyond the tokenizer's are never drawn.
        special = [*tokenizer.all_special_ids, *range(len(tokenizer), vocab_size)]
        correction = config.correction
        return cls(
            Masking(config.masking, mask_id, vocab_size, special),
            correction=HardCorrection(
                make_detector(correction, tokenizer),
                correction.use,
                correction.denominator,
                correction.discriminator,
            )
            if correction.detector
            else None,
            regularizers=regularizers_from_config(config.regularization),
            prediction=config.prediction,
            temperature=config.temperature,
            loss_temperature=config.loss_temperature,
            judged=config.judged,
            max_logits_mb=config.max_logits_mb,
            smoothing=Smoothing.from_config(config.smoothing, tokenizer),
            hard_tokens=HardTokens.from_config(config.masking, tokenizer, config.max_logits_mb),
        )

    @property
    def depends_on_micro_batch(self) -> bool:
        """True if the loss is a mean over the positions that a correction keeps, which is taken per micro-batch."""
        return self.correction is not None and self.correction.denominator == "kept"

    def corrupt(self, rows: Rows) -> MaskedRows:
        """Mask the rows; hard tokens first in training only, so that held-out losses of all runs use the same masks."""
        is_hard = self.hard_tokens(rows) if self.hard_tokens is not None and self.training else None
        masked: MaskedRows = self.masking(rows, is_hard)
        return masked

    def counts(self, batch: MaskedRows) -> Sums:
        """Masked positions, and each regularizer's own denominator."""
        counts = {"mlm": batch.is_masked.sum().to(torch.float32)}
        return counts | {regularizer.term: regularizer.count(batch) for regularizer in self._regularizers()}

    def predict(self, model: MaskedLanguageModel, batch: MaskedRows, hidden: Tensor | None = None) -> PredictedTokens:
        """Run the encoder, and its head at the masked positions only.

        Args:
            model: Encoder and head.
            batch: The masked rows.
            hidden: ``model.encode`` of the masked text, if already computed.
        """
        hidden = model.encode(batch.input_ids, batch.rows) if hidden is None else hidden
        logits = logits_at(model, hidden, batch.positions, self.max_logits_mb, (1.0, self.loss_temperature))
        found = logits.read(self._predict, batch.draws)
        # Padding of the vocabulary has probability 0, but may be picked if logits are not finite.
        predicted, *drawn = (tokens.clamp(max=logits.vocab_size - 1) for tokens in found)
        spread = None if self.smoothing is None else self.smoothing.distribution(model, batch, logits)
        if self.correction is None:
            credit, proposals = torch.zeros_like(batch.gold, dtype=torch.float32), None
        else:
            credit, proposals = self.correction.assess(predicted, batch, None if spread is None else spread.tokens)
        soft_target = None
        if self.smoothing is not None and spread is not None:
            acceptance = None if proposals is None else proposals.acceptance
            soft_target = self.smoothing.target(spread, batch.gold, acceptance)
        return PredictedTokens(batch, logits, predicted, credit, proposals, soft_target, *drawn)

    def forward(self, model: MaskedLanguageModel, batch: MaskedRows) -> Outcome:
        """Sums over the batch."""
        return self.outcome(model, self.predict(model, batch))

    def outcome(self, model: Any, prediction: PredictedTokens, filled_hidden: Tensor | None = None) -> Outcome:
        """Sums of the loss and of the regularizers' terms for a prediction.

        Args:
            model: Model that regularizers use, with ``embeddings`` and ``encode``.
            prediction: From ``predict``.
            filled_hidden: ``model.encode`` of the filled-in text, if already computed.
        """
        batch, logits, proposals = prediction.batch, prediction.logits, prediction.proposals
        soft_target = prediction.soft_target
        listed = proposals.tokens if proposals is not None else soft_target.tokens if soft_target is not None else None
        token_loss, few_logits = logits.losses(batch.gold, listed, self.loss_temperature)
        gold_loss = token_loss
        if self.loss_temperature != 1:
            with torch.no_grad():
                gold_loss, _ = logits.losses(batch.gold)
        if self.smoothing is not None and soft_target is not None and few_logits is not None:
            token_loss = self.smoothing.loss(token_loss, logits, few_logits, soft_target, self.loss_temperature)
        if self.correction is None:
            loss = (token_loss * batch.is_masked).sum()
        else:
            loss = self.correction.masked_lm_loss(token_loss, few_logits, prediction.credit, proposals, batch)
        terms = {"mlm": loss}
        for regularizer in self._regularizers():
            terms[regularizer.term] = regularizer(model, prediction, filled_hidden)
        return Outcome(terms, prediction_stats(prediction, gold_loss))

    def attach(self, model: MaskedLanguageModel) -> None:
        """Pass the model to the objective's parts, and warn if ``max_logits_mb`` has no effect on its head."""
        if self.correction is not None:
            self.correction.detector.attach(model)
        if self.smoothing is not None:
            self.smoothing.attach(model)
        if self.max_logits_mb > 0 and not model.has_linear_head:
            name = model.model.config.model_type
            warnings.warn(
                f"the logits of '{name}' are no product with a table, so they are held whole: "
                f"objective.max_logits_mb={self.max_logits_mb:g} does nothing",
                TruenegWarning,
                stacklevel=2,
            )

    def after_step(self, model: MaskedLanguageModel) -> None:
        """Pass the updated model to the detector and the smoothing."""
        if self.correction is not None:
            self.correction.detector.after_step(model)
        if self.smoothing is not None:
            self.smoothing.after_step(model)

    def expensive_metrics(self, model: Any) -> dict[str, float]:
        """Metrics of the regularizers that are too expensive for every step."""
        readings: dict[str, float] = {}
        for regularizer in self._regularizers():
            readings |= regularizer.expensive_metrics(model)
        return readings

    def warning_for(self, readings: Mapping[str, float]) -> str:
        """Warnings of the regularizers."""
        return "; ".join(filter(None, (regularizer.warning_for(readings) for regularizer in self._regularizers())))

    def _predict(self, logits: Tensor, draws: Tensor) -> tuple[Tensor, ...]:
        """Predicted tokens; with ``judged="argmax"`` and sampling, the argmax and the drawn tokens."""
        predicted = predict(logits, draws, self.prediction, self.temperature)
        if self.judged == "argmax" and self.prediction != "argmax":
            return predict(logits, draws, "argmax"), predicted
        return (predicted,)

    def _regularizers(self) -> list[Regularizer]:
        return [module for module in self.regularizers if isinstance(module, Regularizer)]


class MaskedLMKind(ObjectiveKind):
    """Masked language modelling over plain rows."""

    defaults = MASKED_LM
    card = "by masked language modelling"
    is_baseline = True

    def make_objective(self, config: ObjectiveConfig, tokenizer: PreTrainedTokenizerFast, vocab_size: int) -> MaskedLM:
        """Make the objective that a configuration describes."""
        return MaskedLM.from_config(config, tokenizer, vocab_size)
