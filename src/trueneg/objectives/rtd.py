"""Replaced-token detection: tell a generator's tokens from the text's (Clark et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedTokenizerFast

from trueneg.config.objective_options import ObjectiveConfig
from trueneg.config.options import PretrainConfig
from trueneg.corruption.rows import MaskedRows, Rows
from trueneg.errors import ConfigError
from trueneg.models.backbone import Encoder, MaskedLanguageModel
from trueneg.models.electra import ElectraPair
from trueneg.models.loading import electra_of_shapes, load_electra
from trueneg.objectives.base import Objective, Outcome, Sums
from trueneg.objectives.correction import corrected_labels
from trueneg.objectives.kinds import ObjectiveKind
from trueneg.objectives.mlm import MaskedLM
from trueneg.objectives.prediction import PredictedTokens


@dataclass(frozen=True)
class FilledText:
    """What the discriminator reads, and what it is to say."""

    rows: Rows
    input_ids: Tensor
    """int64 ``[batch, length]``."""
    targets: Tensor
    """Of "replaced", float32 ``[batch, length]``."""
    weights: Tensor
    """Of each token in the loss, float32 ``[batch, length]``."""


class ReplacedTokenDetection(Objective[Rows, MaskedRows]):
    """ELECTRA: a masked-LM generator fills the text, a discriminator finds what it replaced.

    The discriminator's loss is the binary cross-entropy of "replaced", summed over all tokens but padding and
    divided by their number; a token is replaced if it differs from the original. The draw has no gradient, so
    the generator learns from its own term only. Where the generator's objective corrects a false negative, the
    inserted synonym stays in the text and its label changes as the correction says (Zhang et al. 2023, App. A).
    The discriminator reads the generator's predicted token; if the generator's ``judged`` is ``argmax``, it reads the
    drawn token and the prediction r_k that is judged is the argmax. A label is of the token that is read: so at a
    position whose r_k was accepted it changes if r_k itself was drawn, and any other token drawn there is replaced.

    Args:
        generator: The generator's objective, with its correction and regularizers.
        generator_weight: Weight of its ``mlm`` term.
        discriminator_weight: Weight of ``rtd`` (ELECTRA: 50; DeBERTaV3's code: 10).
        updates: ``joint``, or ``alternating`` as in DeBERTaV3: the generator learns from ``mlm``, and then the
            discriminator, over the generator's changed embeddings, from the text that was filled in before. For
            models whose parts share no parameters.

    Terms: those of ``generator``; ``rtd`` (nats) over tokens that are not padding.
    """

    def __init__(
        self,
        generator: MaskedLM,
        generator_weight: float = 1.0,
        discriminator_weight: float = 50.0,
        updates: Literal["joint", "alternating"] = "joint",
    ) -> None:
        super().__init__()
        self.generator = generator
        self.alternates = updates == "alternating"
        self.weights = {**generator.weights, "mlm": generator_weight, "rtd": discriminator_weight}

    @property
    def depends_on_micro_batch(self) -> bool:
        """If the generator's does."""
        return self.generator.depends_on_micro_batch

    def corrupt(self, rows: Rows) -> MaskedRows:
        """Mask the rows for the generator."""
        return self.generator.corrupt(rows)

    def counts(self, batch: MaskedRows) -> Sums:
        """The generator's counts, and the tokens that are not padding."""
        return self.generator.counts(batch) | {"rtd": (batch.rows.segments > 0).sum().to(torch.float32)}

    def forward(self, model: ElectraPair, batch: MaskedRows | FilledText) -> Outcome:
        """Sums over the batch: of both parts, or in training that alternates of the one whose turn it is."""
        if isinstance(batch, FilledText):
            return self._detect(model, batch)[0]
        prediction = self.generator.predict(model.generator, batch)
        filled = FilledText(batch.rows, prediction.inserted_ids, *self.labels(prediction))
        if self.alternates and self.training:
            return replace(self.generator.outcome(model, prediction), then=filled)
        detected, hidden = self._detect(model, filled)
        # A sentence regularizer compares the text with predicted tokens, which the discriminator need not have read.
        generated = self.generator.outcome(model, prediction, hidden if prediction.drawn is None else None)
        return Outcome(generated.terms | detected.terms, generated.stats | detected.stats)

    def _detect(self, model: ElectraPair, text: FilledText) -> tuple[Outcome, Tensor]:
        """The discriminator's sums, and its hidden states."""
        hidden = model.discriminator.encode(text.input_ids, text.rows)
        logits = model.discriminator.replaced_logits(hidden).float()
        loss = functional.binary_cross_entropy_with_logits(logits, text.targets, text.weights, reduction="sum")
        return Outcome({"rtd": loss}, detection_stats(logits, text.targets, text.weights)), hidden

    def labels(self, prediction: PredictedTokens) -> tuple[Tensor, Tensor]:
        """Targets of "replaced" and weights of each token: float32 ``[batch, length]``."""
        batch, inserted = prediction.batch, prediction.inserted
        weights = (batch.rows.segments > 0).to(torch.float32)
        targets = torch.zeros_like(weights)
        correction = self.generator.correction
        how = "original" if correction is None else correction.discriminator
        is_replaced = (inserted != batch.gold) & batch.is_masked
        credit = prediction.credit
        if how != "position":  # a label is of the token that stands there; App. A's "the position" may be of any
            credit = credit * (inserted == prediction.predicted)
        at_slots, kept = corrected_labels(is_replaced, credit, how)
        targets = targets.scatter(1, batch.positions, at_slots)
        weights = weights.scatter(1, batch.positions, kept * weights.gather(1, batch.positions))
        return targets, weights

    def attach(self, model: ElectraPair) -> None:
        """Show the generator to its detector."""
        self.generator.attach(model.generator)

    def after_step(self, model: ElectraPair) -> None:
        """Show the changed generator to its detector."""
        self.generator.after_step(model.generator)

    def expensive_metrics(self, model: ElectraPair) -> dict[str, float]:
        """The generator's readings, over the shared embeddings."""
        return self.generator.expensive_metrics(model)

    def warning_for(self, readings: Mapping[str, float]) -> str:
        """The generator's."""
        return self.generator.warning_for(readings)


@torch.no_grad()
def detection_stats(logits: Tensor, targets: Tensor, weights: Tensor) -> Sums:
    """What is reported of a discriminator, as sums over tokens that have a weight."""
    counted = weights > 0
    says_replaced, is_replaced = (logits > 0) & counted, (targets >= 0.5) & counted
    sums = {
        "num_tokens": counted,
        "num_replaced": is_replaced,
        "num_called_replaced": says_replaced,
        "num_replaced_found": says_replaced & is_replaced,
        "num_detected_right": (says_replaced == is_replaced) & counted,
    }
    return {name: values.sum().to(torch.float32) for name, values in sums.items()}


class ElectraKind(ObjectiveKind):
    """ELECTRA's generator and discriminator over plain rows."""

    # Clark et al. 2020: 85 % of the chosen positions show the mask, the rest stay; the generator's token is drawn.
    defaults = ObjectiveConfig(name="electra")
    card = "by replaced token detection (ELECTRA)"
    is_baseline = True
    auto_class = "AutoModelForPreTraining"
    masked_lm_folder = "generator"
    tag = "replaced-token-detection"

    def make_objective(
        self, config: ObjectiveConfig, tokenizer: PreTrainedTokenizerFast, vocab_size: int
    ) -> ReplacedTokenDetection:
        """Make the objective that a configuration describes.

        Raises:
            ConfigError: for ``correction.discriminator=position`` where the judged token is the one that is read.
        """
        if config.correction.detector and config.correction.discriminator == "position" and config.judged != "argmax":
            raise ConfigError(
                "objective.correction.discriminator=position is the same as original unless the generator's best guess "
                "is judged and another token may be read: add objective.judged=argmax, or leave it out"
            )
        generator = MaskedLM.from_config(config, tokenizer, vocab_size)
        return ReplacedTokenDetection(generator, config.generator_weight, config.discriminator_weight, config.updates)

    def make_model(self, config: PretrainConfig, tokenizer: PreTrainedTokenizerFast) -> ElectraPair:
        """Make or load the pair."""
        return load_electra(config.model, tokenizer)

    def check(self, config: PretrainConfig, micro_batch: int) -> None:
        """Refuse updates in turn of parts that are not apart."""
        if config.objective.updates == "joint":
            return
        refused = {
            "model.embedding_sharing=shared: both parts change the embeddings": config.model.embedding_sharing
            == "shared",
            "objective.regularization, whose terms are of both parts": bool(config.objective.regularization.level),
            "train.cuda_graphs, which hold one pass": config.train.cuda_graphs,
        }
        if why := next((what for what, is_so in refused.items() if is_so), ""):
            raise ConfigError(f"objective.updates=alternating does not go with {why}: change that, or leave it out")

    def model_of_shapes(self, config: PretrainConfig, folder: Path) -> ElectraPair:
        """Make the pair with random weights."""
        return electra_of_shapes(config.model, folder)

    def encoders(self, model: nn.Module) -> list[Encoder]:
        """Return the discriminator, then the generator."""
        pair = cast(ElectraPair, model)
        return [pair.discriminator, pair.generator]

    def masked_lm(self, model: nn.Module) -> MaskedLanguageModel:
        """Return the generator."""
        return cast(ElectraPair, model).generator
