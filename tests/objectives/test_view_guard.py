"""Views that a detector does not trust count less: the weights against plain loops, and what they do to the loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tiny import VOCAB_SIZE, make_hf_masked_lm, make_masking, make_rows, make_tokenizer
from trueneg.config.objective_options import ClineConfig, CorrectionConfig, ObjectiveConfig
from trueneg.corruption.rows import MaskedRows
from trueneg.corruption.views.batch import ANTONYM, KEPT, SYNONYM, View, Views
from trueneg.detectors.base import Detector
from trueneg.errors import ConfigError
from trueneg.models.semantic import SemanticEncoder
from trueneg.objectives.base import TrainingModule
from trueneg.objectives.cline import Cline
from trueneg.objectives.guard import Guard, make_guard
from trueneg.objectives.mlm import MaskedLM

SIZES, LENGTH = [[14], [9], [4], [12]], 16
NO_WORDS = 57
"""Ids from here on are no words that a detector could judge."""


class Arithmetic(Detector):
    """Credit is a function of the pair; it remembers the places it was asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.num_asked = 0

    @staticmethod
    def of(gold: int, predicted: int) -> float:
        return 0.5 + (gold + predicted) % 5 / 10 if (gold + predicted) % 2 else 0.0

    def credit(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> Tensor:
        assert gold.equal(batch.rows.input_ids.gather(1, batch.positions))
        self.num_asked += int(batch.is_masked.sum())
        total = gold + predicted
        return torch.where(total % 2 == 1, 0.5 + total % 5 / 10, 0.0)


def make_views(seed: int = 0) -> Views:
    """Rows whose views replace some tokens, some of them by two."""
    rows = make_rows(SIZES, LENGTH, seed)
    ids = torch.where(rows.is_special, rows.input_ids, rows.input_ids % 60 + 5)
    rows = replace(rows, input_ids=ids, is_whole_word=~rows.is_special & (rows.input_ids % 4 > 0))
    random = np.random.default_rng(seed)
    return Views(rows, *(view_of(rows.input_ids, label, random) for label in (SYNONYM, ANTONYM)))


def view_of(ids: Tensor, label: int, random: np.random.Generator) -> View:
    shown, labels, source = (np.zeros(ids.shape, np.int64) for _ in range(3))
    source -= 1
    for row, line in enumerate(ids.tolist()):
        column = 0
        for at, token in enumerate(line[: SIZES[row][0] + 1]):
            is_put = at > 0 and random.random() < 0.6
            for _ in range(1 + (is_put and random.random() < 0.3)):
                if column < LENGTH - 1:
                    shown[row, column] = random.integers(5, 60) if is_put else token
                    labels[row, column], source[row, column] = label if is_put else KEPT, at
                    column += 1
        shown[row, column], source[row, column] = 3, SIZES[row][0] + 1
    tensors = map(torch.from_numpy, (shown, (source >= 0).astype(np.int64), labels, labels != KEPT))
    return View(*tensors, source=torch.from_numpy(source))


def make_guard_of(floor: float = 0.0) -> Guard:
    kinds = torch.where(torch.arange(VOCAB_SIZE) < NO_WORDS, torch.arange(VOCAB_SIZE) % 3 // 2, -1)
    return Guard(Arithmetic(), kinds, floor)


def expected_credit(views: Views, view: View, row: int) -> dict[int, float]:
    """Credit by column of what a detector can judge."""
    found = {}
    assert view.source is not None
    sources = view.source[row].tolist()
    for column, at in enumerate(sources):
        if view.labels[row, column] == KEPT or sources.count(at) > 1 or not views.rows.is_whole_word[row, at]:
            continue
        gold, put = int(views.rows.input_ids[row, at]), int(view.input_ids[row, column])
        if gold != put and max(gold, put) < NO_WORDS and gold % 3 // 2 == put % 3 // 2:
            found[column] = Arithmetic.of(gold, put)
    return found


def both(views: Views) -> Sequence[View]:
    return views.synonym, views.antonym


@pytest.mark.parametrize("floor", [0.0, 0.3])
def test_trust_is_the_mean_credit_or_what_it_misses_of_one(floor: float) -> None:
    guard, seen = make_guard_of(floor), 0
    for seed in range(30):
        views = make_views(seed)
        trust = guard(views.rows, both(views))
        for number, view in enumerate(both(views)):
            for row in range(len(SIZES)):
                credits = list(expected_credit(views, view, row).values())
                mean = np.mean([c if number == 0 else 1 - c for c in credits]) if credits else 1.0
                assert float(trust.views[row, number]) == pytest.approx(max(mean, floor), abs=1e-6)
                seen += len(credits)
        assert trust.rows.tolist() == pytest.approx(trust.views.numpy().prod(1).tolist())
    assert guard.detector.num_asked == seen > 100


def test_doubted_is_what_the_detector_contradicts() -> None:
    guard, num = make_guard_of(), 0
    for seed in range(30):
        views = make_views(seed)
        trust = guard(views.rows, both(views))
        for number, view in enumerate(both(views)):
            for row in range(len(SIZES)):
                credits = expected_credit(views, view, row)
                wrong = [c for c, credit in sorted(credits.items()) if (credit < 0.5) == (number == 0)]
                assert trust.is_doubted[number * len(SIZES) + row].nonzero().flatten().tolist() == wrong
                num += len(wrong)
    assert num > 20


def make(**options: Any) -> tuple[SemanticEncoder, Cline]:
    config = ClineConfig(**options)
    is_released = config.variant == "released"
    torch.manual_seed(0)
    model = SemanticEncoder(make_hf_masked_lm(), 3 if is_released else 1, is_released).eval()
    return model, Cline(MaskedLM(make_masking(rate=0.3)), config, make_guard_of(0.05))


@pytest.mark.parametrize("options", [{}, {"variant": "released"}, {"negatives": "random"}])
def test_contrast_is_the_weighted_mean_over_rows(options: dict[str, Any]) -> None:
    model, guarded = make(weights="fixed", **options)
    views = make_views()
    batch = guarded.corrupt(views)
    weights = guard_weights(views, num=1 if options.get("negatives") else 2)
    with torch.no_grad():
        outcome, counts = guarded(model, batch), guarded.counts(batch)
        alone = []
        for row in range(len(SIZES)):
            one = replace(batch.trust, views=torch.eye(len(SIZES))[row][:, None])  # type: ignore[type-var]
            alone.append(float(guarded(model, replace(batch, trust=one)).terms["contrast"]))
    assert float(outcome.terms["contrast"]) == pytest.approx(float(np.dot(weights, alone)), rel=1e-5)
    assert float(counts["contrast"]) == pytest.approx(sum(weights), rel=1e-6)
    assert float(outcome.stats["raw_contrast"]) == pytest.approx(sum(alone), rel=1e-5), "the plain loss stays readable"
    assert float(outcome.stats["trust_synonym"]) == pytest.approx(float(batch.trust.views[:, 0].sum()))  # type: ignore[union-attr]
    assert 0 < float(outcome.stats["num_judged"]) < float(outcome.stats["num_put"])


def guard_weights(views: Views, num: int) -> list[float]:
    trust = make_guard_of(0.05)(views.rows, both(views)[:num])
    return [float(weight) for weight in trust.rows]


def test_classes_that_are_doubted_leave_the_released_detection_only() -> None:
    views = make_views(3)
    trust = make_guard_of()(views.rows, both(views))
    num_doubted = int(trust.is_doubted.sum())
    assert num_doubted >= 3
    num_candidates = sum(int(view.is_candidate.sum()) for view in both(views))
    num_tokens = sum(int((view.segments > 0).sum()) for view in both(views))
    for variant, expected in (("released", num_candidates - num_doubted), ("paper", num_tokens)):
        model, objective = make(variant=variant)
        batch = objective.corrupt(views)
        assert float(objective.counts(batch)["rtd"]) == expected
        with torch.no_grad():
            assert float(objective(model, batch).stats["num_tokens"]) == expected


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_micro_batches_add_up_to_the_step(variant: str) -> None:
    model, objective = make(variant=variant)
    module, views = TrainingModule(model, objective), make_views()

    def part(chosen: slice) -> Views:
        cut = lambda tensor: tensor[chosen]  # noqa: E731
        return Views(views.rows._map(cut), views.synonym._map(cut), views.antonym._map(cut))

    counts = objective.counts(objective.corrupt(views))
    with torch.no_grad():
        whole, *parts = (
            float(module(objective.corrupt(part(chosen)), counts)[0])
            for chosen in (slice(0, 4), slice(0, 1), slice(1, 4))
        )
    assert sum(parts) == pytest.approx(whole, rel=1e-5)


def test_annotations_cannot_guard() -> None:
    config = ObjectiveConfig(name="cline", cline=ClineConfig(guard="annotated:notes & !antonym"))
    with pytest.raises(ConfigError, match=r"annotations list what a model may predict.*such as prototypes:FILE"):
        make_guard(config, make_tokenizer())


def test_a_guard_is_any_detector_with_the_corrections_lexicon() -> None:
    from pathlib import Path

    wordnet = str(Path(__file__).parents[1] / "data" / "wordnet")
    config = ObjectiveConfig(correction=CorrectionConfig(wordnet=wordnet), cline=ClineConfig(guard="lexical"))
    guard = make_guard(config, make_tokenizer())
    assert "wordnet_version" in guard.detector.provenance and not list(guard.parameters())  # type: ignore[operator]
