from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tiny import ConstantDetector, padded_batch
from trueneg.errors import ConfigError, DivergedError
from trueneg.recipes.planted_arms import ARMS, Arm, ArmResult, LabelsOnly, PlantedConfig, run_arm

CONFIG = PlantedConfig(
    num_words=12,
    length=20,
    hidden_size=32,
    num_heads=2,
    intermediate_size=64,
    steps=60,
    warmup_steps=5,
    learning_rate=1e-2,
    eval_rows=32,
)


@pytest.fixture(scope="module")
def results(ring_corpus: Path) -> dict[str, ArmResult]:
    """Every arm, trained until the ring is half learnt."""
    return {use: run_arm(Arm(use), 1, CONFIG, ring_corpus) for use in ARMS}


def test_an_arm_is_written_as_it_is_read() -> None:
    for text in ("drop", "marginal@0.5/0.25", "relabel@1/0.5", "ceiling"):
        assert str(Arm.parse(text)) == text
    assert Arm.parse("marginal@1.0/1") == Arm("marginal")
    assert str(Arm.parse("relabel@0.5/1").yardstick) == "electra"
    assert str(Arm.parse("marginal@0.5/1").yardstick) == "baseline"


@pytest.mark.parametrize(
    "text, message",
    [
        ("marginl", "did you mean 'marginal'"),
        ("marginal@0.5", "such as marginal@0.5/0.25"),
        ("marginal@half/1", "such as marginal@0.5/0.25"),
        ("baseline@0.5/1", "'baseline' has no detector"),
        ("marginal@0/1", "precision and recall"),
        ("marginal@0.5/1.5", "precision and recall"),
    ],
)
def test_what_is_no_arm_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Arm.parse(text)


@pytest.mark.parametrize("name", ["num_words", "steps", "batch_size", "eval_rows"])
def test_an_experiment_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        replace(CONFIG, **{name: 0})


def test_using_the_known_synonyms_pays_and_dropping_them_does_not(results: dict[str, ArmResult]) -> None:
    nll = {use: result.metrics["planted_nll"] for use, result in results.items() if "auc" not in result.metrics}
    assert nll["ceiling"] < nll["marginal"] < nll["baseline"] < nll["drop"]
    assert nll["soft_targets"] < nll["baseline"]
    assert nll["restricted"] < nll["self"], "what the detector leaves out was wrong"
    assert len(set(nll.values())) == len(nll), "every arm does something else"


def test_the_model_learns(results: dict[str, ArmResult]) -> None:
    assert results["baseline"].metrics["accuracy"] > 0.5
    assert results["electra"].metrics["auc"] > 0.6


def test_an_oracle_is_always_right(results: dict[str, ArmResult]) -> None:
    for use in ("drop", "down_weight", "marginal", "soft_targets", "restricted", "relabel"):
        detector = results[use].detector
        assert (detector["precision"], detector["recall"]) == (1.0, 1.0)
        assert detector["num_credited"] > 100
    assert results["baseline"].detector == results["placebo"].detector == {}


def test_a_run_can_be_done_again_to_the_bit(results: dict[str, ArmResult], ring_corpus: Path) -> None:
    for use in ("marginal", "relabel"):
        torch.manual_seed(0)
        again = run_arm(Arm(use), 1, CONFIG, ring_corpus)
        assert replace(again, seconds=0) == replace(results[use], seconds=0)
    other = run_arm(Arm("marginal"), 2, CONFIG, ring_corpus)
    assert other.metrics != results["marginal"].metrics


def test_a_poor_detector_gains_less(results: dict[str, ArmResult], ring_corpus: Path) -> None:
    poor = run_arm(Arm("marginal", precision=0.5, recall=0.25), 1, CONFIG, ring_corpus)
    assert poor.metrics["planted_nll"] > results["marginal"].metrics["planted_nll"]
    assert poor.detector["recall"] < 0.7
    assert poor.detector["precision"] < 1


def test_relabelling_leaves_the_generator_its_plain_loss() -> None:
    place = padded_batch()
    token_loss, credit = torch.rand(place.gold.shape), torch.ones(place.gold.shape)
    labels_only = LabelsOnly(ConstantDetector(1.0))
    loss = labels_only.masked_lm_loss(token_loss, None, place.gold, credit, place)
    assert loss == (token_loss * place.is_masked).sum()
    assert labels_only.discriminator == "original"


def test_a_loss_that_explodes_is_told(ring_corpus: Path) -> None:
    with pytest.raises(DivergedError, match=r"arm baseline, seed 1: .* at step \d+: lower learning_rate"):
        run_arm(Arm("baseline"), 1, replace(CONFIG, learning_rate=1e38, steps=4), ring_corpus)


def test_what_cannot_be_measured_is_left_out(ring_corpus: Path) -> None:
    few = replace(CONFIG, steps=1, eval_rows=1, masking_rate=0.05)
    assert run_arm(Arm("electra"), 1, few, ring_corpus).metrics.keys() <= {
        "nll",
        "accuracy",
        "planted_nll",
        "planted_accuracy",
        "auc",
    }


def test_threads_are_given_back(ring_corpus: Path) -> None:
    before = torch.get_num_threads()
    run_arm(Arm("baseline"), 1, replace(CONFIG, steps=1), ring_corpus)
    assert torch.get_num_threads() == before
