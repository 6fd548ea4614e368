"""A detector of one's own: credit in between, and nothing but ``credit`` written."""

from __future__ import annotations

import pytest
import torch

import tiny
from trueneg.detectors.base import Detector
from trueneg.objectives.base import TrainingModule
from trueneg.objectives.correction import HardCorrection
from trueneg.objectives.mlm import MaskedLM
from trueneg.objectives.rtd import ReplacedTokenDetection


def test_default_substitutes_are_the_prediction_and_its_credit() -> None:
    batch, detector = tiny.padded_batch(), tiny.FractionalDetector()
    predicted = batch.gold.roll(1, dims=1)
    tokens, credit = detector.propose(batch.gold, predicted, batch)[1:]
    assert torch.equal(tokens, predicted.unsqueeze(-1))
    assert torch.equal(credit.squeeze(-1), detector.credit(batch.gold, predicted, batch))


@pytest.mark.parametrize(
    ("use", "denominator"),
    [
        ("drop", "masked"),
        ("drop", "kept"),
        ("down_weight", "masked"),
        ("soft_targets", "masked"),
        ("marginal", "masked"),
    ],
)
@pytest.mark.parametrize("how", ["original", "ignore", "soft"])
def test_fractional_credit_in_every_mode(use: str, denominator: str, how: str) -> None:
    batch, pair = tiny.padded_batch(), tiny.make_electra()
    plain = ReplacedTokenDetection(MaskedLM(tiny.make_masking(), prediction="sampled"))
    correction = HardCorrection(tiny.FractionalDetector(), use, denominator, how)
    objective = ReplacedTokenDetection(MaskedLM(tiny.make_masking(), correction, prediction="sampled"))
    loss, outcome = TrainingModule(pair, objective)(batch, objective.counts(batch))
    loss.backward()
    assert loss.isfinite()
    expected = plain(pair, batch)
    assert outcome.stats["gold_loss"] == expected.stats["gold_loss"]
    assert 0 < outcome.stats["num_corrected"] < outcome.stats["num_mispredicted"]
    assert outcome.terms["rtd"] != expected.terms["rtd"]
    assert outcome.terms["mlm"] != expected.terms["mlm"]
    if denominator == "masked":
        assert outcome.terms["mlm"] < expected.terms["mlm"]


def test_credit_has_no_gradient() -> None:
    class Learned(Detector):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.tensor(0.5))

        def credit(self, gold: torch.Tensor, predicted: torch.Tensor, batch: object) -> torch.Tensor:
            return self.scale.expand(gold.shape)

    detector = Learned()
    for use in ("drop", "down_weight", "soft_targets", "marginal"):
        objective = MaskedLM(tiny.make_masking(), HardCorrection(detector, use))
        objective(tiny.make_masked_lm(), tiny.padded_batch()).terms["mlm"].backward()
    assert detector.scale.grad is None
