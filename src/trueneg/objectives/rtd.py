"""Replaced-token detection: tell a generator's tokens from the original ones (Clark et al. 2020)."""

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
    """The discriminator's input and targets."""

    rows: Rows
    input_ids: Tensor
    """int64 ``[batch, length]``."""
    targets: Tensor
    """Probability of "replaced", float32 ``[batch, length]``."""
    weights: Tensor
    """Weight of each token in the loss, float32 ``[batch, length]``."""


class ReplacedTokenDetection(Objective[Rows, MaskedRows]):
    """ELECTRA: a masked-LM generator fills in the text, a discriminator finds the tokens that it replaced.

    The discriminator's loss is the binary cross-entropy of "replaced", summed over all tokens but padding and
    divided by their number; a token is replaced if it differs from the original. Sampling has no gradient, so
    the generator learns from its own term only. Where the generator's objective corrects a false negative, the
    inserted synonym stays in the text and the correction changes its label (Zhang et al. 2023, App. A). The
    discriminator reads the generator's predicted token; if the generator's ``judged`` is ``argmax``, it reads the
    drawn token, and the judged prediction r_k is the argmax. A label refers to the token that is read: where r_k was
    accepted, it changes only if r_k itself was drawn; another token drawn there counts as replaced unless it is gold,
    or the correction's ``discriminator`` is ``position``.

    Args:
        generator: The generator's objective, with its correction and regularizers.
        generator_weight: Weight of its ``mlm`` term.
        discriminator_weight: Weight of ``rtd`` (ELECTRA: 50; DeBERTaV3's code: 10).
        updates: ``joint``, or ``alternating`` as in DeBERTaV3: first the generator is updated from ``mlm``, then the
            discriminator, with the generator's new embeddings, on the text that was filled in before. Only for models
            whose parts share no parameters.

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
        """True if the generator's does."""
        return self.generator.depends_on_micro_batch

    def corrupt(self, rows: Rows) -> MaskedRows:
        """Mask the rows for the generator."""
        return self.generator.corrupt(rows)

    def counts(self, batch: MaskedRows) -> Sums:
        """The generator's counts, and the tokens that are not padding."""
        return self.generator.counts(batch) | {"rtd": (batch.rows.segments > 0).sum().to(torch.float32)}

    def forward(self, model: ElectraPair, batch: MaskedRows | FilledText) -> Outcome:
        """Sums over the batch: of both parts, or in alternating training of the part that is updated next."""
        if isinstance(batch, FilledText):
            return self._detect(model, batch)[0]
        prediction = self.generator.predict(model.generator, batch)
        filled = FilledText(batch.rows, prediction.inserted_ids, *self.labels(prediction))
        if self.alternates and self.training:
            return replace(self.generator.outcome(model, prediction), then=filled)
        detected, hidden = self._detect(model, filled)
        # A sentence regularizer compares the text with predicted tokens, which the discriminator may not have read.
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
        if how != "position":  # a label refers to the inserted token; App. A's "the position" may mean any
            credit = credit * (inserted == prediction.predicted)
        at_slots, kept = corrected_labels(is_replaced, credit, how)
        targets = targets.scatter(1, batch.positions, at_slots)
        weights = weights.scatter(1, batch.positions, kept * weights.gather(1, batch.positions))
        return targets, weights

    def attach(self, model: ElectraPair) -> None:
        """Pass the generator to its objective."""
        self.generator.attach(model.generator)

    def after_step(self, model: ElectraPair) -> None:
        """Pass the updated generator to its objective."""
        self.generator.after_step(model.generator)

    def expensive_metrics(self, model: ElectraPair) -> dict[str, float]:
        """Metrics of the generator's objective, over the shared embeddings."""
        return self.generator.expensive_metrics(model)

    def warning_for(self, readings: Mapping[str, float]) -> str:
        """Warnings of the generator's objective."""
        return self.generator.warning_for(readings)


@torch.no_grad()
def detection_stats(logits: Tensor, targets: Tensor, weights: Tensor) -> Sums:
    """Statistics of a discriminator, as sums over tokens with a weight above 0."""
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

    # Clark et al. 2020: 85 % of the chosen positions are masked, the rest unchanged; the generator's token is sampled.
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
            ConfigError: for ``correction.discriminator=position`` if the discriminator reads the judged token.
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
        """Refuse alternating updates of parts that are not independent."""
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
