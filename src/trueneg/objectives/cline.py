"""Learning from semantic negatives: masked LM, replaced-token detection and contrast (Wang et al. 2021)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedTokenizerFast

from trueneg.config import ClineConfig, ObjectiveConfig
from trueneg.corruption.masking import MaskedRows
from trueneg.corruption.views import ANTONYM, KEPT, SYNONYM, Stack, View, Views
from trueneg.errors import ConfigError
from trueneg.models.semantic import SemanticEncoder
from trueneg.objectives import mlm
from trueneg.objectives.base import Objective, Outcome, Sums
from trueneg.objectives.contrast import contrast_loss, others_of_batch, released_loss, similarities
from trueneg.objectives.mlm import MaskedLM
from trueneg.objectives.rtd import detection_stats

TERMS = ("mlm", "rtd", "contrast")


@dataclass(frozen=True)
class ClineBatch:
    """Masked rows, and the views that are read beside them."""

    masked: MaskedRows
    views: tuple[View, ...]
    """The synonym view and, unless negatives are other rows, the antonym view."""


class Cline(Objective[Views, ClineBatch]):
    """Predict masked words, find replaced ones, and keep the original near the view that means the same.

    ``paper``: Eq. 4 over all tokens of both views with a sigmoid, Eq. 6 over raw vectors of the first token.
    ``released``: three classes over the words that might have been replaced, and a binary cross-entropy of pooled
    vectors, as the authors' code has it (see ``contrast.released_loss``). In both the original is read masked, as the
    authors' code does: three rows a row, not four.

    Args:
        masked_lm: Masking, with its correction and regularizers.
        config: Variant, what is left out, similarity, negatives, weights.

    Terms: ``mlm`` (nats) over masked positions; ``rtd`` over tokens of the views that are not padding (``released``: of
    candidate words); ``contrast`` over rows. With learned weights each is multiplied by ``exp(-s)`` (Eq. 7), and
    ``balance`` adds the ``s`` up (``released``: those above 0), a row's share for each row.
    """

    def __init__(self, masked_lm: MaskedLM, config: ClineConfig) -> None:
        super().__init__()
        self.masked_lm = masked_lm
        self.config = config
        self.terms = tuple(
            name for name, is_on in zip(TERMS, (True, config.rtd, config.contrast), strict=True) if is_on
        )
        self.log_scales = nn.Parameter(torch.zeros(len(self.terms)), requires_grad=config.weights == "learned")
        self.weights = dict(masked_lm.weights)

    def corrupt(self, rows: Views) -> ClineBatch:
        """Mask the original; take the views that are read."""
        needs_antonym = self.config.negatives == "antonyms"
        return ClineBatch(
            self.masked_lm.corrupt(rows.rows), (rows.synonym, rows.antonym) if needs_antonym else (rows.synonym,)
        )

    def counts(self, batch: ClineBatch) -> Sums:
        """Masked positions, tokens of the views, and rows."""
        counts = self.masked_lm.counts(batch.masked)
        num_rows = torch.tensor(float(len(batch.masked.input_ids)), device=batch.masked.input_ids.device)
        if "rtd" in self.terms:
            counts["rtd"] = torch.stack([self._is_judged(view).sum() for view in batch.views]).sum().float()
        if "contrast" in self.terms:
            counts["contrast"] = num_rows
        if self.log_scales.requires_grad:
            counts["balance"] = num_rows
        return counts

    def forward(self, model: SemanticEncoder, batch: ClineBatch) -> Outcome:
        """Sums over the batch: original and views are read in one pass."""
        masked, num_rows = batch.masked, len(batch.masked.input_ids)
        ids = torch.cat([masked.input_ids, *(view.input_ids for view in batch.views)])
        hidden = model.encode(ids, Stack.of([masked.rows, *batch.views]))
        prediction = self.masked_lm.read(model, hidden[:num_rows], masked)
        outcome = self.masked_lm.outcome(model, prediction)
        terms, stats = dict(outcome.terms), dict(outcome.stats)
        if "rtd" in self.terms:
            terms["rtd"], found = self._detect(model, hidden[num_rows:], batch.views)
            stats |= found
        if "contrast" in self.terms:
            vectors = model.sentence_vectors(hidden).unflatten(0, (-1, num_rows))
            terms["contrast"], found = self._contrast(vectors)
            stats |= found
        stats |= {f"raw_{name}": terms[name] for name in self.terms} | _replaced(batch.views)
        return Outcome(self._weighed(terms, num_rows), stats)

    def attach(self, model: SemanticEncoder) -> None:
        """Show the model to the detector of false negatives."""
        self.masked_lm.attach(model)

    def after_step(self, model: SemanticEncoder) -> None:
        """Show the changed model to the detector of false negatives."""
        self.masked_lm.after_step(model)

    def monitor(self, model: SemanticEncoder) -> dict[str, float]:
        """The masked LM's readings, and the learned weights."""
        scales = self.log_scales.detach().exp().reciprocal().tolist() if self.log_scales.requires_grad else ()
        return self.masked_lm.monitor(model) | {
            f"weight_{name}": scale for name, scale in zip(self.terms, scales, strict=False)
        }

    def alarm(self, readings: Mapping[str, float]) -> str:
        """The masked LM's."""
        return self.masked_lm.alarm(readings)

    def _weighed(self, terms: Sums, num_rows: int) -> Sums:
        if not self.log_scales.requires_grad:
            return terms
        factors = torch.exp(-self.log_scales)
        weighed = {name: factors[number] * terms[name] for number, name in enumerate(self.terms)}
        scales = self.log_scales.clamp(min=0) if self.config.variant == "released" else self.log_scales
        return {**terms, **weighed, "balance": scales.sum() * num_rows}

    def _is_judged(self, view: View) -> Tensor:
        is_text = view.segments > 0
        return is_text & view.is_candidate if self.config.variant == "released" else is_text

    def _detect(self, model: SemanticEncoder, hidden: Tensor, views: tuple[View, ...]) -> tuple[Tensor, Sums]:
        """Sum of Eq. 4 over the views, and what is reported of it."""
        labels = torch.cat([view.labels for view in views])
        is_judged = torch.cat([self._is_judged(view) for view in views])
        logits = model.replaced_logits(hidden).float()
        is_replaced = (labels != KEPT).float()
        if self.config.variant == "released":
            losses = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
            loss = (losses.unflatten(0, labels.shape) * is_judged).sum()
            score = torch.logsumexp(logits[..., 1:], -1) - logits[..., 0]
        else:
            score = logits.squeeze(-1)
            losses = functional.binary_cross_entropy_with_logits(score, is_replaced, reduction="none")
            loss = (losses * is_judged).sum()
        return loss, detection_stats(score, is_replaced, is_judged.float())

    def _contrast(self, vectors: Tensor) -> tuple[Tensor, Sums]:
        """Sum of Eq. 6, and in how many rows the synonym view is nearer: ``vectors`` is ``[2 or 3, rows, hidden]``."""
        config, original, synonym = self.config, vectors[0], vectors[1]
        negative = vectors[2] if len(vectors) > 2 else original.roll(1, 0)
        if config.variant == "released":
            losses = released_loss(original, synonym, True) + released_loss(original, negative, False)
        positive, wrong = (
            similarities(original, other, config.similarity, config.temperature) for other in (synonym, negative)
        )
        if config.variant != "released":
            negatives = [wrong[:, None]]
            if config.in_batch_negatives:
                negatives += [
                    others_of_batch(original, others, config.similarity, config.temperature)
                    for others in (synonym, original)
                ]
            losses = contrast_loss(positive, torch.cat(negatives, 1))
        with torch.no_grad():
            stats = {
                "num_nearer": (positive > wrong).sum().float(),
                "num_pairs": torch.tensor(float(len(positive)), device=positive.device),
            }
        return losses.sum(), stats


@torch.no_grad()
def _replaced(views: tuple[View, ...]) -> Sums:
    """Tokens of each view, and how many of them were put there."""
    sums = {}
    for name, label, view in zip(("synonym", "antonym"), (SYNONYM, ANTONYM), views, strict=False):
        sums[f"num_{name}_tokens"] = (view.segments > 0).sum().float()
        sums[f"num_{name}_replaced"] = (view.labels == label).sum().float()
    return sums


def from_config(config: ObjectiveConfig, tokenizer: PreTrainedTokenizerFast, vocab_size: int) -> Cline:
    """Make the objective that a configuration describes.

    Raises:
        ConfigError: for options that the released variant does not have.
    """
    cline = config.cline
    if cline.variant == "released" and (cline.similarity != "dot" or cline.in_batch_negatives):
        raise ConfigError("cline.similarity and in_batch_negatives are of cline.variant=paper: leave them out")
    return Cline(mlm.from_config(config, tokenizer, vocab_size), config.cline)
