"""Label smoothing: against torch's own, a distribution written out in numpy, and what a detector leaves of it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
import torch
from torch.nn import functional

import tiny
from trueneg.config.codec import decode
from trueneg.config.objective_options import ObjectiveConfig, SmoothingConfig
from trueneg.corruption.rows import MaskedRows
from trueneg.detectors.base import Detector
from trueneg.detectors.table import TableDetector
from trueneg.errors import ConfigError
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.models.logits import logits_of
from trueneg.objectives.correction import HardCorrection
from trueneg.objectives.mlm import MaskedLM
from trueneg.objectives.smoothing import Smoothing


def make_batch(objective: MaskedLM) -> MaskedRows:
    return objective.corrupt(tiny.make_rows([[14], [9], [11]], 16, seed=3))


def whole_logits(model: MaskedLanguageModel, batch: MaskedRows, ids: torch.Tensor) -> torch.Tensor:
    """Logits of all tokens at the slots, by the model's own forward pass."""
    full = model.model(input_ids=ids, attention_mask=(batch.rows.segments > 0).long()).logits
    return full.gather(1, batch.positions.unsqueeze(-1).expand(-1, -1, full.shape[-1]))


def table() -> TableDetector:
    return TableDetector(
        tiny.make_table((gold, other) for gold in range(5, 300) for other in range(5, 300, 2) if gold != other)
    )


def expected_loss(
    logits: torch.Tensor,
    distribution: torch.Tensor,
    batch: MaskedRows,
    share: float,
    top: int,
    detector: Detector | None,
) -> float:
    """The sum over slots of the cross-entropy of (1 - share) gold + share q, place by place."""
    log_p = scipy.special.log_softmax(logits.detach().double().numpy(), axis=-1)
    p = scipy.special.softmax(distribution.detach().double().numpy(), axis=-1)
    total = 0.0
    for row, slot in batch.is_masked.nonzero().tolist():
        gold = int(batch.gold[row, slot])
        kept = np.argsort(-p[row, slot], kind="stable")[:top]
        q = np.zeros(p.shape[-1])
        q[gold] = p[row, slot, gold]
        for token in kept:
            if token != gold:
                accepted = 1.0
                if detector is not None:
                    one = torch.full_like(batch.gold, int(token))
                    accepted = float(detector.credit(batch.gold, one, batch)[row, slot])
                q[token] = p[row, slot, token] * accepted
        target = share * q / q.sum()
        target[gold] += 1 - share
        total -= float(target @ log_p[row, slot])
    return total


@pytest.mark.parametrize("max_mb", [0.0, 0.002])
def test_uniform_is_torchs_label_smoothing(max_mb: float) -> None:
    """In value and gradient, with logits held whole and in chunks."""
    model, smoothed = tiny.make_masked_lm(), Smoothing("uniform", share=0.2)
    objective = MaskedLM(tiny.make_masking(rate=0.3), smoothing=smoothed, loss_temperature=2.0, max_logits_mb=max_mb)
    batch = make_batch(objective)
    loss = objective(model, batch).terms["mlm"]
    loss.backward()
    reference = copy.deepcopy(model)
    reference.zero_grad()
    logits = whole_logits(reference, batch, batch.input_ids)[batch.is_masked] / 2
    expected = functional.cross_entropy(logits, batch.gold[batch.is_masked], label_smoothing=0.2, reduction="sum")
    expected.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        if theirs.grad is not None:
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reads", ["original", "masked"])
@pytest.mark.parametrize("source", ["self", "average", "teacher"])
@pytest.mark.parametrize("is_restricted", [False, True])
def test_the_target_is_gold_mixed_with_a_distribution(source: str, reads: Any, is_restricted: bool) -> None:
    model = tiny.make_masked_lm()
    teacher = tiny.make_masked_lm(seed=7) if source == "teacher" else None
    smoothing = Smoothing(source, share=0.3, top=40, reads=reads, teacher=teacher)
    detector = table()
    correction = HardCorrection(detector, "restrict") if is_restricted else None
    objective = MaskedLM(tiny.make_masking(rate=0.3), correction, smoothing=smoothing)
    objective.attach(model)
    batch = make_batch(objective)
    if source == "average":
        assert smoothing.average is not None
        with torch.no_grad():
            model.embeddings.mul_(1.5)  # so that the average is another model
    source_model = {"self": model, "teacher": teacher, "average": getattr(smoothing.average, "teacher", None)}[source]
    assert isinstance(source_model, MaskedLanguageModel)
    ids = batch.rows.input_ids if reads == "original" else batch.input_ids
    logits, distribution = whole_logits(model, batch, batch.input_ids), whole_logits(source_model, batch, ids)
    expected = expected_loss(logits, distribution, batch, 0.3, 40, detector if is_restricted else None)
    plain = expected_loss(logits, distribution, batch, 0.0, 1, None)
    found = objective(model, batch)
    assert float(found.terms["mlm"].detach()) == pytest.approx(expected, rel=1e-4)
    assert abs(expected - plain) > 1e-2
    assert float(found.stats["gold_loss"]) == pytest.approx(plain, rel=1e-4)


def test_gradients_pass_the_model_and_no_distribution() -> None:
    model, teacher = tiny.make_masked_lm(), tiny.make_masked_lm(seed=7)
    objective = MaskedLM(tiny.make_masking(rate=0.3), smoothing=Smoothing("teacher", teacher=teacher))
    objective.attach(model)
    objective(model, make_batch(objective)).terms["mlm"].backward()
    assert model.embeddings.grad is not None
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in teacher.parameters())
    assert not [name for name in objective.state_dict() if "frozen" in name or "teacher" in name]


def test_the_average_is_in_checkpoints_and_moves() -> None:
    model = tiny.make_masked_lm()
    objective = MaskedLM(tiny.make_masking(), smoothing=Smoothing("average", momentum=0.75))
    objective.attach(model)
    name = next(name for name in objective.state_dict() if name.endswith("word_embeddings.weight"))
    before = objective.state_dict()[name].clone()
    with torch.no_grad():
        model.embeddings.add_(1.0)
    objective.after_step(model)
    torch.testing.assert_close(objective.state_dict()[name], before + 0.25)


def test_a_position_where_nothing_is_accepted_has_gold_for_its_target() -> None:
    model = tiny.make_masked_lm()
    nothing = TableDetector(tiny.make_table([]))
    restricted = MaskedLM(
        tiny.make_masking(rate=0.3), HardCorrection(nothing, "restrict"), smoothing=Smoothing("self", share=0.5)
    )
    plain, batch = MaskedLM(tiny.make_masking(rate=0.3)), make_batch(restricted)
    torch.testing.assert_close(restricted(model, batch).terms["mlm"], plain(model, batch).terms["mlm"])


def test_a_detector_that_restricts_is_asked_once_a_step() -> None:
    """Which costs a reading of an encoder; of the prediction and of what is listed alike."""

    class Counting(TableDetector):
        asked = 0

        def credit(self, gold: torch.Tensor, tokens: torch.Tensor, batch: MaskedRows) -> torch.Tensor:
            self.asked += 1
            return super().credit(gold, tokens, batch)

    pairs = tiny.make_table((gold, other) for gold in range(5, 299) for other in range(5, 299, 7))
    detector = Counting(pairs)
    objective = MaskedLM(tiny.make_masking(rate=0.3), HardCorrection(detector, "restrict"), smoothing=Smoothing("self"))
    batch = make_batch(objective)
    found = objective.predict(tiny.make_masked_lm(), batch)
    assert detector.asked == 1
    is_wrong = (found.predicted != batch.gold) & batch.is_masked
    expected = TableDetector(pairs).credit(batch.gold, found.predicted, batch) * is_wrong
    torch.testing.assert_close(found.credit, expected)
    assert found.credit.any()


def test_dropping_goes_with_smoothing() -> None:
    """Where a correction drops a position, nothing of its smoothed loss is left."""
    model, detector = tiny.make_masked_lm(), tiny.FractionalDetector()
    both = MaskedLM(tiny.make_masking(rate=0.3), HardCorrection(detector, "drop"), smoothing=Smoothing("uniform"))
    alone = MaskedLM(tiny.make_masking(rate=0.3), smoothing=Smoothing("uniform"))
    batch = make_batch(both)
    prediction = both.predict(model, batch)
    kept = batch.is_masked & (prediction.credit < 0.5)
    assert 0 < int(kept.sum()) < int(batch.is_masked.sum())
    logits = logits_of(
        model, model.encode(batch.input_ids, batch.rows).gather(1, batch.positions.unsqueeze(-1).expand(-1, -1, 32))
    ).whole()
    expected = functional.cross_entropy(logits[kept], batch.gold[kept], label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(both.outcome(model, prediction).terms["mlm"], expected, rtol=1e-5, atol=1e-5)
    assert float(alone(model, batch).terms["mlm"].detach()) > float(expected)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Smoothing("unifrom"), r"unknown value of objective\.smoothing\.source 'unifrom'.*uniform"),
        (lambda: Smoothing("teacher"), "is what a teacher is for"),
        (
            lambda: MaskedLM(tiny.make_masking(), HardCorrection(table(), "restrict")),
            r"use=restrict restricts the distribution of objective\.smoothing\.source",
        ),
        (
            lambda: MaskedLM(tiny.make_masking(), HardCorrection(table(), "restrict"), smoothing=Smoothing("uniform")),
            r"use=restrict restricts the distribution",
        ),
        (
            lambda: MaskedLM(tiny.make_masking(), HardCorrection(table(), "marginal"), smoothing=Smoothing("self")),
            r"use=marginal spreads the target itself: leave objective\.smoothing\.source=self out",
        ),
        (
            lambda: Smoothing.from_config(SmoothingConfig(source="teacher:"), tiny.make_tokenizer()),
            "names no checkpoint",
        ),
        (
            lambda: Smoothing.from_config(SmoothingConfig(source="self:x"), tiny.make_tokenizer()),
            "only teacher:CHECKPOINT has a checkpoint",
        ),
    ],
)
def test_bad_input(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_a_teacher_comes_from_a_folder(tmp_path: Path) -> None:
    tokenizer, teacher = tiny.make_tokenizer(), tiny.make_masked_lm(seed=7)
    teacher.model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    config = decode(ObjectiveConfig, {"name": "mlm", "smoothing": {"source": f"teacher:{tmp_path}", "share": 0.2}}, "x")
    objective = MaskedLM.from_config(config, tokenizer, tiny.VOCAB_SIZE)
    assert objective.smoothing is not None
    other = Smoothing("teacher", teacher=tiny.make_masked_lm(seed=8))
    assert objective.smoothing.digest() == Smoothing("teacher", teacher=teacher).digest() != other.digest()
