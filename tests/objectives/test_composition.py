"""Every objective with every correction and every regularizer: finite, counted, weighed, and learning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import tiny
from trueneg.config.codec import decode
from trueneg.config.objective_options import ObjectiveConfig
from trueneg.detectors.table import TableDetector
from trueneg.errors import ConfigError
from trueneg.objectives import OBJECTIVES, objective_kind
from trueneg.objectives.base import TrainingModule
from trueneg.objectives.correction import HardCorrection
from trueneg.objectives.mlm import MaskedLM
from trueneg.objectives.regularization import Regularizer, SentenceRegularization, SoftRegularization
from trueneg.objectives.rtd import ReplacedTokenDetection

TINY_WORDNET = Path(__file__).parents[1] / "data" / "wordnet"
REGULARIZERS = {
    "none": lambda: [],
    "token": lambda: [SoftRegularization(weight=0.5)],
    "token-soft": lambda: [SoftRegularization("soft", weight=0.5)],
    "sentence": lambda: [SentenceRegularization(weight=0.25)],
    "both": lambda: [SoftRegularization(weight=0.5), SentenceRegularization(weight=0.25)],
}
DETECTORS = {
    "lexical": lambda: TableDetector(
        tiny.make_table(
            (gold, other) for gold in range(5, 300) for other in range(5 + gold % 2, 300, 2) if gold != other
        )
    ),
    "fractional": tiny.FractionalDetector,
}
CORRECTIONS = ["none", "drop-masked", "drop-kept", "soft_targets-masked", "marginal-masked"]


def make_correction(name: str, detector: str) -> HardCorrection | None:
    if name == "none":
        return None
    use, denominator = name.split("-")
    return HardCorrection(DETECTORS[detector](), use, denominator)


def make(objective: str, correction: HardCorrection | None, regularizers: list[Regularizer]) -> Any:
    masking = tiny.make_masking(rate=0.3)
    if objective == "mlm":
        return tiny.make_masked_lm(), MaskedLM(masking, correction, regularizers)
    generator = MaskedLM(masking, correction, regularizers, prediction="sampled")
    return tiny.make_electra(), ReplacedTokenDetection(generator)


@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("objective", ["mlm", "electra"])
@pytest.mark.parametrize("detector", DETECTORS)
def test_every_pairing(objective: str, correction: str, regularizer: str, detector: str) -> None:
    model, built = make(objective, make_correction(correction, detector), REGULARIZERS[regularizer]())
    batch = built.corrupt(tiny.make_rows([[14], [9], [0], [1]], 16, seed=3))
    counts = built.counts(batch)
    loss, outcome = TrainingModule(model, built)(batch, counts)

    assert set(outcome.terms) == set(counts) == set(built.weights)
    assert all(value.isfinite() and value >= 0 for value in outcome.terms.values())
    assert all(count > 0 for count in counts.values())
    expected = sum(built.weights[name] * outcome.terms[name] / counts[name] for name in counts)
    torch.testing.assert_close(loss, expected)
    for value in (*outcome.terms.values(), *outcome.stats.values(), *counts.values()):
        assert value.dtype == torch.float32 and value.shape == () and not value.requires_grad
    loss.backward()
    gradients = tiny.gradients(model)
    assert all(gradient.isfinite().all() for gradient in gradients.values())
    assert sum(bool(gradient.any()) for gradient in gradients.values()) > 0.8 * len(gradients)


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("objective", ["mlm", "electra"])
def test_nothing_masked_is_no_loss(objective: str, correction: str) -> None:
    """Rows without an ordinary token: every masked-LM term is 0 and everything stays finite."""
    model, built = make(objective, make_correction(correction, "fractional"), REGULARIZERS["both"]())
    batch = built.corrupt(tiny.make_rows([[0], [0]], 6))
    loss, outcome = TrainingModule(model, built)(batch, built.counts(batch))
    loss.backward()
    assert outcome.terms["mlm"] == outcome.terms["sr"] == outcome.terms["sr_sentence"] == 0
    assert loss.isfinite()
    assert all(gradient.isfinite().all() for gradient in tiny.gradients(model).values())


@pytest.mark.parametrize("correction", ["none", "drop-masked", "soft_targets-masked", "marginal-masked"])
@pytest.mark.parametrize("objective", ["mlm", "electra"])
def test_sums_add_up_over_micro_batches(objective: str, correction: str) -> None:
    """A batch cut in two gives the same terms, counts and statistics: nothing is a mean inside."""
    model, built = make(objective, make_correction(correction, "fractional"), REGULARIZERS["both"]())
    rows = tiny.make_rows([[14], [9], [4], [11]], 16, seed=5)
    whole = built.corrupt(rows)
    parts = [built.corrupt(tiny.select(rows, numbers)) for numbers in ([0], [1, 2, 3])]
    outcomes = [built(model, part) for part in parts]
    expected = built(model, whole)
    for name, value in expected.terms.items():
        torch.testing.assert_close(sum(o.terms[name] for o in outcomes), value, rtol=2e-5, atol=1e-5)
    for name, value in expected.stats.items():
        torch.testing.assert_close(sum(o.stats[name] for o in outcomes), value, rtol=1e-5, atol=1e-5)
    for name, value in built.counts(whole).items():
        assert sum(built.counts(part)[name] for part in parts) == value


def test_statistics_by_hand() -> None:
    model, built = make("electra", HardCorrection(tiny.FractionalDetector(), discriminator="ignore"), [])
    batch = built.corrupt(tiny.make_rows([[14], [13], [9], [1]], 16, seed=1))
    outcome = built(model, batch)
    prediction = built.generator.predict(model.generator, batch)
    stats = dict.fromkeys(("num_masked", "num_mispredicted", "num_corrected", "credit", "gold_loss"), 0.0)
    num_replaced = num_rows = 0
    for row in range(4):
        corrected = 0
        for slot in range(batch.gold.shape[1]):
            if not batch.is_masked[row, slot]:
                continue
            gold, found = int(batch.gold[row, slot]), int(prediction.predicted[row, slot])
            credit = (7 * gold + 3 * found + int(batch.positions[row, slot])) % 11 / 10 if gold != found else 0
            stats["num_masked"] += 1
            stats["num_mispredicted"] += gold != found
            stats["num_corrected"] += credit >= 0.5
            stats["credit"] += credit
            stats["gold_loss"] -= prediction.logits.whole()[row, slot].log_softmax(-1)[gold].item()
            corrected += credit >= 0.5
            num_replaced += gold != found and credit < 0.5  # what is ignored is no token to be found
        num_rows += corrected > 0
    assert 0 < num_rows < 4, "some rows have a correction, some have none"
    assert num_rows < stats["num_corrected"] < stats["num_mispredicted"], "some rows have several"
    found_stats = {name: value.item() for name, value in outcome.stats.items()}
    assert {name: found_stats[name] for name in stats} == pytest.approx(stats, rel=1e-6)
    assert found_stats["num_rows"] == 4
    assert found_stats["num_rows_corrected"] == num_rows
    assert found_stats["num_replaced"] == num_replaced
    assert found_stats["num_tokens"] == (batch.rows.segments > 0).sum() - stats["num_corrected"]


def test_weights_are_those_asked_for() -> None:
    generator = MaskedLM(tiny.make_masking(), regularizers=REGULARIZERS["both"]())
    weights = ReplacedTokenDetection(generator, generator_weight=0.5, discriminator_weight=10.0).weights
    assert weights == {"mlm": 0.5, "rtd": 10.0, "sr": 0.5, "sr_sentence": 0.25}


@pytest.mark.parametrize(
    ("use", "denominator"), [("down_weight", "masked"), ("soft_targets", "masked"), ("drop", "kept")]
)
@pytest.mark.parametrize("name", OBJECTIVES.builtin)
def test_every_option_reaches_its_place(
    name: str, use: str, denominator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An option that silently did nothing would cost days."""
    monkeypatch.setenv("TRUENEG_CACHE", str(tmp_path))
    options = {
        "name": name,
        "prediction": "sampled",
        "temperature": 0.5,
        "generator_weight": 0.7,
        "discriminator_weight": 11.0,
        "masking": {"rate": 0.2, "unit": "word"},
        "cline": {"mlm_weight": 0.6, "rtd_weight": 0.2, "contrast_weight": 2.0},
        "correction": {
            "detector": "lexical",
            "forms": "lemma",
            "wordnet": str(TINY_WORDNET),
            "use": use,
            "denominator": denominator,
            "discriminator": "ignore",
        },
        "regularization": {
            "level": "token+sentence",
            "weight": 0.3,
            "variant": "soft",
            "stop_gradient": "gold",
            "direction": "original-predicted",
            "sentence_stop_gradient": "none",
        },
    }
    tokenizer = tiny.make_tokenizer()
    built = objective_kind(name).make_objective(decode(ObjectiveConfig, options), tokenizer, tiny.VOCAB_SIZE)
    masked = {"mlm": built, "electra": getattr(built, "generator", None), "cline": getattr(built, "masked_lm", None)}[
        name
    ]
    assert isinstance(masked, MaskedLM)
    own = {
        "mlm": {"mlm": 1.0},
        "electra": {"mlm": 0.7, "rtd": 11.0},
        "cline": {"mlm": 0.6, "rtd": 0.2, "contrast": 2.0},
    }
    assert built.weights == own[name] | {"sr": 0.3, "sr_sentence": 0.3}
    assert (masked.prediction, masked.temperature) == ("sampled", 0.5)
    assert (masked.masking.config.rate, masked.masking.config.unit) == (0.2, "word")
    assert masked.masking.mask_id == tiny.MASK
    correction = masked.correction
    assert correction is not None
    assert (correction.use, correction.denominator, correction.discriminator) == (use, denominator, "ignore")
    assert correction.detector.provenance["forms"] == "lemma"
    assert correction.detector.provenance["wordnet_path"] == str(TINY_WORDNET)
    token, sentence = masked.regularizers
    assert (token.variant, token.stop_gradient, token.weight) == ("soft", "gold", 0.3)
    assert (sentence.direction, sentence.stop_gradient) == ("original-predicted", "none")


def test_nothing_is_corrected_or_regularized_unless_asked_for() -> None:
    built = MaskedLM.from_config(ObjectiveConfig(), tiny.make_tokenizer(), tiny.VOCAB_SIZE)
    assert built.correction is None
    assert len(built.regularizers) == 0


def test_vocabulary_beyond_the_tokenizer_is_never_drawn() -> None:
    """A model's padded rows (a vocabulary rounded up for speed) mean nothing."""
    config = decode(ObjectiveConfig, {"masking": {"mask_share": 0.0, "random_share": 1.0, "rate": 0.9}})
    objective = MaskedLM.from_config(config, tiny.make_tokenizer(vocab_size=50), 384)
    batch = objective.corrupt(tiny.make_rows([[62]] * 50, 64))
    shown = batch.input_ids.gather(1, batch.positions)
    assert set(shown.flatten().tolist()) == set(range(5, 50))


def test_unknown_names_are_refused_with_a_suggestion() -> None:
    config = decode(ObjectiveConfig, {"correction": {"detector": "lexcial"}})
    with pytest.raises(ConfigError, match="did you mean 'lexical'"):
        MaskedLM.from_config(config, tiny.make_tokenizer(), tiny.VOCAB_SIZE)


def test_a_position_that_is_judged_by_the_token_that_is_read_is_no_other_reading() -> None:
    correction = {"detector": "lexical", "wordnet": str(TINY_WORDNET), "discriminator": "position"}
    config = decode(ObjectiveConfig, {"name": "electra", "prediction": "sampled", "correction": correction})
    make = objective_kind("electra").make_objective
    with pytest.raises(ConfigError, match=r"discriminator=position is the same as original .* add objective\.judged"):
        make(config, tiny.make_tokenizer(), tiny.VOCAB_SIZE)
    made = make(replace(config, judged="argmax"), tiny.make_tokenizer(), tiny.VOCAB_SIZE)
    assert made.generator.correction.discriminator == "position"
