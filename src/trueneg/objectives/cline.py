"""Learning from semantic negatives: masked LM, replaced-token detection and contrast (Wang et al. 2021)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedTokenizerFast

from trueneg.config.objective_options import ClineConfig, ObjectiveConfig
from trueneg.config.options import PretrainConfig
from trueneg.config.presets import MASKED_LM
from trueneg.corpus.rows import NumberedRows
from trueneg.corruption.rows import MaskedRows, ReadRows
from trueneg.corruption.views.batch import ANTONYM, KEPT, SYNONYM, Stack, View, Views
from trueneg.corruption.views.rows import ViewReader, make_substitution
from trueneg.errors import ConfigError
from trueneg.models.loading import load_semantic, masked_lm_of_shapes
from trueneg.models.logits import limit_logits
from trueneg.models.semantic import SemanticEncoder
from trueneg.objectives.base import Objective, Outcome, Sums
from trueneg.objectives.contrast import contrast_loss, others_of_batch, released_loss, similarities
from trueneg.objectives.guard import Guard, Trust, make_guard
from trueneg.objectives.kinds import ObjectiveKind
from trueneg.objectives.mlm import MaskedLM
from trueneg.objectives.rtd import detection_stats

TERMS = ("mlm", "rtd", "contrast")


@dataclass(frozen=True)
class ClineBatch:
    """Masked rows and their views."""

    masked: MaskedRows
    views: tuple[View, ...]
    """The synonym view and, unless negatives are other rows, the antonym view."""
    trust: Trust | None = None
    """The guard's trust in them; None without a guard."""


class Cline(Objective[Views, ClineBatch]):
    """Predict masked words, find replaced ones, and keep the original close to the view with the same meaning.

    ``paper``: Eq. 4 with a sigmoid over all tokens of both views, Eq. 6 over raw vectors of the first token.
    ``released``: three classes over the words that could have been replaced, and a binary cross-entropy of pooled
    vectors, as in the authors' code (see ``contrast.released_loss``). By default the contrast uses the masked original,
    as the authors' code does: three rows per row of text. ``original="clean"`` uses the text itself, x_ori of Eq. 5 and
    6, which is one more row to encode: up to a third more time per step.

    Args:
        masked_lm: The masked-LM objective, with its correction and regularizers.
        config: Variant, ablations, similarity, negatives, weights.
        guard: Weighs each row's ``contrast`` by the trust in its views. With ``released``, words whose class it doubts
            are left out of ``rtd``; in ``paper``, a replaced word counts as replaced whatever it means.

    Terms: ``mlm`` (nats) over masked positions; ``rtd`` over tokens of the views that are not padding (``released``: of
    candidate words); ``contrast`` over rows that have a negative, or over their weights. With learned weights, each
    term is multiplied by ``exp(-s)`` (Eq. 7), and ``balance`` is the sum of the ``s`` (``released``: of those above 0)
    for each row. The ``s`` are saved in checkpoints; a new run that continues the model starts them at 0 again.
    """

    needs_reader = True

    def __init__(self, masked_lm: MaskedLM, config: ClineConfig, guard: Guard | None = None) -> None:
        super().__init__()
        self.masked_lm = masked_lm
        self.config = config
        self.guard = guard
        limit_logits(self, masked_lm.max_logits_mb)
        self.terms = tuple(
            name for name, is_on in zip(TERMS, (True, config.rtd, config.contrast), strict=True) if is_on
        )
        self.log_scales = nn.Parameter(torch.zeros(len(self.terms)), requires_grad=config.weights == "learned")
        factors = {"mlm": config.mlm_weight, "rtd": config.rtd_weight, "contrast": config.contrast_weight}
        self.weights = {**masked_lm.weights, **{name: factors[name] for name in self.terms}}

    @property
    def _reads_clean(self) -> bool:
        return self.config.original == "clean" and "contrast" in self.terms

    @property
    def depends_on_micro_batch(self) -> bool:
        """True if the masked LM's does, or if a row is contrasted with the others of its micro-batch."""
        has_others = self.config.in_batch_negatives or self.config.negatives == "random"
        return self.masked_lm.depends_on_micro_batch or ("contrast" in self.terms and has_others)

    def corrupt(self, rows: Views) -> ClineBatch:
        """Mask the original, select the views that are used, and let the guard judge them."""
        needs_antonym = self.config.negatives == "antonyms"
        views = (rows.synonym, rows.antonym) if needs_antonym else (rows.synonym,)
        trust = None if self.guard is None else self.guard(rows.rows, views)
        return ClineBatch(self.masked_lm.corrupt(rows.rows), views, trust)

    def counts(self, batch: ClineBatch) -> Sums:
        """Masked positions, tokens of the views, and rows."""
        counts = self.masked_lm.counts(batch.masked)
        num_rows = torch.full((), float(len(batch.masked.input_ids)), device=batch.masked.input_ids.device)
        if "rtd" in self.terms:
            counts["rtd"] = self._is_judged(batch).sum().float()
        if "contrast" in self.terms:
            counts["contrast"] = self._pair_weights(batch).sum()
        if self.log_scales.requires_grad:
            counts["balance"] = num_rows
        return counts

    def forward(self, model: SemanticEncoder, batch: ClineBatch) -> Outcome:
        """Sums over the batch; original and views are encoded in one pass."""
        masked, num_rows = batch.masked, len(batch.masked.input_ids)
        clean = [masked.rows] if self._reads_clean else []
        ids = [masked.input_ids, *(view.input_ids for view in batch.views), *(rows.input_ids for rows in clean)]
        stack = Stack.of([masked.rows, *batch.views, *clean])
        is_view = slice(num_rows, num_rows * (1 + len(batch.views)))
        hidden = model.encode(torch.cat(ids), stack)
        prediction = self.masked_lm.predict(model, masked, hidden[:num_rows])
        outcome = self.masked_lm.outcome(model, prediction)
        terms, stats = dict(outcome.terms), dict(outcome.stats)
        if "rtd" in self.terms:
            terms["rtd"], found = self._detect(model, hidden[is_view], batch)
            stats |= found
        if "contrast" in self.terms:
            vectors = model.sentence_vectors(hidden, stack.segments > 0, self.config.pooling).unflatten(
                0, (-1, num_rows)
            )
            if clean:
                vectors = torch.cat([vectors[-1:], vectors[1:-1]])
            terms["contrast"], found = self._contrast(vectors, self._has_negative(batch), self._pair_weights(batch))
            stats |= found
        stats = {f"raw_{name}": terms[name] for name in self.terms} | stats | _replaced(batch.views) | _trusted(batch)
        return Outcome(self._weighed(terms, num_rows), stats)

    def attach(self, model: SemanticEncoder) -> None:
        """Pass the model to the detectors."""
        self.masked_lm.attach(model)
        if self.guard is not None:
            self.guard.detector.attach(model)

    def after_step(self, model: SemanticEncoder) -> None:
        """Pass the updated model to the detectors."""
        self.masked_lm.after_step(model)
        if self.guard is not None:
            self.guard.detector.after_step(model)

    def expensive_metrics(self, model: SemanticEncoder) -> dict[str, float]:
        """Metrics of the masked LM, and the learned weights."""
        scales = self.log_scales.detach().exp().reciprocal().tolist() if self.log_scales.requires_grad else ()
        return self.masked_lm.expensive_metrics(model) | {
            f"weight_{name}": scale for name, scale in zip(self.terms, scales, strict=False)
        }

    def warning_for(self, readings: Mapping[str, float]) -> str:
        """Warnings of the masked LM."""
        return self.masked_lm.warning_for(readings)

    def _weighed(self, terms: Sums, num_rows: int) -> Sums:
        if not self.log_scales.requires_grad:
            return terms
        factors = torch.exp(-self.log_scales)
        weighed = {name: factors[number] * terms[name] for number, name in enumerate(self.terms)}
        scales = self.log_scales.clamp(min=0) if self.config.variant == "released" else self.log_scales
        return {**terms, **weighed, "balance": scales.sum() * num_rows}

    def _is_judged(self, batch: ClineBatch) -> Tensor:
        """Whether ``rtd`` covers each token of the views, which are concatenated along the batch."""
        is_judged = torch.cat([view.segments > 0 for view in batch.views])
        if self.config.variant == "released":
            is_judged = is_judged & torch.cat([view.is_candidate for view in batch.views])
            if batch.trust is not None:
                is_judged = is_judged & ~batch.trust.is_doubted
        return is_judged

    def _detect(self, model: SemanticEncoder, hidden: Tensor, batch: ClineBatch) -> tuple[Tensor, Sums]:
        """Sum of Eq. 4 over the views, and its statistics."""
        labels = torch.cat([view.labels for view in batch.views])
        is_judged = self._is_judged(batch)
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

    def _has_negative(self, batch: ClineBatch) -> Tensor:
        """Whether each row's negative differs from its text, bool ``[rows]``: by a replaced word or as another row."""
        if self.config.negatives == "antonyms":
            return (batch.views[1].labels != KEPT).any(1)
        ids = batch.masked.input_ids
        return torch.full(ids.shape[:1], len(ids) > 1, device=ids.device)

    def _pair_weights(self, batch: ClineBatch) -> Tensor:
        """Weight of each row's contrast, float32 ``[rows]``: its trust, and 0 without a negative."""
        weights = self._has_negative(batch).float()
        return weights if batch.trust is None else weights * batch.trust.rows

    def _contrast(self, vectors: Tensor, has_negative: Tensor, weights: Tensor) -> tuple[Tensor, Sums]:
        """Sum of Eq. 6, and the number of rows whose synonym view is closer, for vectors ``[2 or 3, rows, hidden]``."""
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
                # The loss without the guard's weights, so that runs can be compared.
                "raw_contrast": (losses * has_negative).sum(),
                "num_triplets_right": ((positive > wrong) & has_negative).sum().float(),
                "num_pairs": has_negative.sum().float(),
                "num_without_negative": (~has_negative).sum().float(),
            }
        return (losses * weights).sum(), stats


@torch.no_grad()
def _replaced(views: tuple[View, ...]) -> Sums:
    """Number of tokens of each view, of those in replaced words, and of those cut at the row's end."""
    sums = {}
    for name, label, view in zip(("synonym", "antonym"), (SYNONYM, ANTONYM), views, strict=False):
        sums[f"num_{name}_tokens"] = (view.segments > 0).sum().float()
        sums[f"num_{name}_replaced"] = (view.labels == label).sum().float()
        if view.num_cut is not None:
            sums[f"num_{name}_cut"] = view.num_cut.sum().float()
    return sums


@torch.no_grad()
def _trusted(batch: ClineBatch) -> Sums:
    """Trust in each kind of view, and the numbers of judged words and of replaced tokens."""
    if batch.trust is None:
        return {}
    sums = {
        f"trust_{name}": total for name, total in zip(("synonym", "antonym"), batch.trust.views.sum(0), strict=False)
    }
    num_put = torch.stack([(view.labels != KEPT).sum() for view in batch.views]).sum().float()
    return {**sums, "num_judged": batch.trust.num_judged, "num_put": num_put}


class ClineKind(ObjectiveKind):
    """CLINE's encoder over rows with their views."""

    # Wang et al. 2021, section 3.2: masked as in BERT.
    defaults = replace(MASKED_LM, name="cline")
    needs_tags = True
    card = "by contrastive learning with semantic negatives (CLINE)"

    def make_objective(self, config: ObjectiveConfig, tokenizer: PreTrainedTokenizerFast, vocab_size: int) -> Cline:
        """Make the objective that a configuration describes.

        Raises:
            ConfigError: for options that the released variant does not have, or an invalid guard.
        """
        cline = config.cline
        if cline.variant == "released" and (cline.similarity != "dot" or cline.in_batch_negatives):
            raise ConfigError("cline.similarity and in_batch_negatives are of cline.variant=paper: leave them out")
        guard = make_guard(config, tokenizer) if cline.guard else None
        return Cline(MaskedLM.from_config(config, tokenizer, vocab_size), cline, guard)

    def make_model(self, config: PretrainConfig, tokenizer: PreTrainedTokenizerFast) -> SemanticEncoder:
        """Make or load the encoder with its heads."""
        return load_semantic(config.model, tokenizer, *_shape(config.objective.cline))

    def model_of_shapes(self, config: PretrainConfig, folder: Path) -> SemanticEncoder:
        """Make the encoder with random weights."""
        return SemanticEncoder(masked_lm_of_shapes(config.model, folder), *_shape(config.objective.cline))

    def make_reader(self, config: PretrainConfig, rows: NumberedRows, tokenizer: PreTrainedTokenizerFast) -> ReadRows:
        """Make the reader of rows with their views, from the words of the training split."""
        assert rows.tags is not None, "rows for views are opened with their tags"
        objective = config.objective
        return ViewReader(make_substitution(objective.cline.views, rows.tags, tokenizer, objective.correction.wordnet))

    def check(self, config: PretrainConfig, micro_batch: int) -> None:
        """Refuse to contrast a row with the others of its micro-batch if there are none."""
        cline = config.objective.cline
        if (cline.negatives == "random" or cline.in_batch_negatives) and micro_batch < 2:
            raise ConfigError(
                "objective.cline.negatives=random and in_batch_negatives contrast a row with the others of its "
                "micro-batch, which has one row: raise train.batch_size, or lower train.accumulation"
            )


def _shape(config: ClineConfig) -> tuple[int, bool]:
    """Return the number of classes of the replaced-token head, and whether there is a pooler."""
    is_released = config.variant == "released"
    return (3 if is_released else 1) if config.rtd else 0, is_released and config.contrast
