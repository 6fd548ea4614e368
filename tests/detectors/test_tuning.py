"""An encoder fine-tuned to human judgements: it learns, what it began from stays, and its file brings it back."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sklearn.metrics import log_loss
from test_calibrated import ITEMS
from test_learned import ASKED, SHARES
from tiny_encoders import WORDNET, at, wordpiece
from torch.nn import functional

from trueneg.config.objective_options import CorrectionConfig
from trueneg.detectors import make_detector, make_scorer
from trueneg.detectors.online import OnlineDetector
from trueneg.detectors.scorers.learned import LearnedScorer
from trueneg.detectors.scorers.tuning import tune
from trueneg.detectors.specification import Resources
from trueneg.errors import ConfigError
from trueneg.evaluation.detectors.calibration import Calibration, calibrate
from trueneg.models.reading import TextEncoder
from trueneg.models.together import read_rows, row_batches

IS_ACCEPTED = SHARES >= 0.5
OPTIONS = "reading=together,glosses=yes,tune=6"


@pytest.fixture(scope="module")
def fresh(specification: str, resources: Resources) -> LearnedScorer:
    return learned(specification, resources)


@pytest.fixture(scope="module")
def fitted(fresh: LearnedScorer) -> LearnedScorer:
    return fresh.fit(ASKED, SHARES)


@pytest.fixture(scope="module")
def specification(bert: str) -> str:
    return f"learned:{bert}[{OPTIONS}]"


@pytest.fixture(scope="module")
def calibration(specification: str, resources: Resources) -> Calibration:
    return calibrate(ITEMS, learned(specification, resources), precision=None, folds=2, detector=specification)


@pytest.fixture
def file(calibration: Calibration, tmp_path: Path) -> Path:
    calibration.save(tmp_path / "det.json")
    return tmp_path / "det.json"


def learned(specification: str, resources: Resources) -> LearnedScorer:
    made = make_scorer(specification, resources)
    assert isinstance(made, LearnedScorer)
    return made


def encoder_of(scorer: LearnedScorer) -> TextEncoder:
    assert scorer.tuned_encoder is not None
    return scorer.tuned_encoder


def test_gradients_are_those_of_the_sentence_with_the_substitute_in_it(bert: str) -> None:
    """At the first layer, where substitutes that are read together are as if read apart."""
    together, apart = (TextEncoder(bert, (1,), center=False) for _ in range(2))
    for encoder in (together, apart):
        encoder.model.requires_grad_(True)
    s = at("the large mouse will stay near the old city", "large", "big")
    (batch,) = row_batches(together, [(s.text, s.start, s.end)], [["chief", s.substitute, "zebra"]])
    (vectors,) = read_rows(together, batch)
    functional.cosine_similarity(vectors[2, 0], vectors[0, 0], dim=-1).backward()
    places = {}
    for text in (s.text, s.substituted):
        states = apart.model(**apart.tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states
        places[text] = states[1][0, 1 + text.split().index("large" if text == s.text else "big")]
    functional.cosine_similarity(places[s.substituted], places[s.text], dim=-1).backward()
    ours, theirs = (dict(encoder.model.named_parameters()) for encoder in (together, apart))
    compared = [name for name, parameter in theirs.items() if "layer.0." in name and parameter.grad is not None]
    assert len(compared) > 10
    for name in compared:
        torch.testing.assert_close(ours[name].grad, theirs[name].grad, atol=1e-6, rtol=1e-4)


def test_without_a_step_it_is_the_logistic_regression(bert: str) -> None:
    encoder = TextEncoder(bert, "all")
    random = np.random.default_rng(3)
    others = np.c_[random.normal(2, 5, (len(ASKED), 2)), np.full(len(ASKED), 7.0)]
    weights = np.array([0.3, *np.linspace(-1, 1, len(encoder.layers)), 0.5, -2.0, 0.0])
    tuned, same = tune(encoder, ASKED, IS_ACCEPTED, others, weights, epochs=0)
    np.testing.assert_allclose(same, weights, atol=1e-5)
    assert tuned.model is not encoder.model and tuned.digest() == encoder.digest()


def test_it_learns_and_what_it_began_from_stays(bert: str, fresh: LearnedScorer, fitted: LearnedScorer) -> None:
    plain = fresh.contextual.encoder
    assert plain.digest() == TextEncoder(bert, "all").digest() != encoder_of(fitted).digest()
    assert fresh.tuned_encoder is None and fresh.parameters() == {}
    before = plain.model.get_input_embeddings().weight
    assert torch.equal(encoder_of(fitted).model.get_input_embeddings().weight, before)
    assert not any(parameter.requires_grad for parameter in encoder_of(fitted).model.parameters())
    assert not encoder_of(fitted).model.training


def test_more_epochs_fit_better(bert: str, resources: Resources) -> None:
    asked, is_accepted = ASKED * 2, np.tile(IS_ACCEPTED, 2)
    losses = []
    for epochs in (0, 4, 40):
        scorer = learned(f"learned:{bert}[reading=together,relations=no,tune={epochs}]", resources)
        losses.append(log_loss(is_accepted, scorer.fit(asked, is_accepted.astype(float)).scores(asked)))
    assert losses[0] > losses[1] > losses[2]


def test_it_can_be_repeated_and_draws_nothing_of_others(fresh: LearnedScorer, fitted: LearnedScorer) -> None:
    torch.manual_seed(1)
    state = torch.get_rng_state()
    again = fresh.fit(ASKED, SHARES)
    assert torch.equal(torch.get_rng_state(), state)
    assert again.parameters() == fitted.parameters() and again.digest() == fitted.digest()


def test_only_the_cosines_are_of_the_tuned_encoder(fresh: LearnedScorer, fitted: LearnedScorer) -> None:
    before, after = fresh.features(ASKED), fitted.features(ASKED)
    num_layers = len(fresh.contextual.encoder.layers)
    np.testing.assert_array_equal(before[:, num_layers:], after[:, num_layers:])
    assert np.abs(before[:, 2:num_layers] - after[:, 2:num_layers]).max() > 0.01
    logits = fitted.parameters()["constant"] + after @ np.array([fitted.parameters()[name] for name in fitted.names])
    np.testing.assert_allclose(fitted.scores(ASKED), 1 / (1 + np.exp(-logits)), atol=1e-9)


def test_repeated_judgements_all_count(bert: str) -> None:
    """Of one substitute in one place: two that accept it and one that does not are not one that accepts it."""
    encoder, s = TextEncoder(bert, "all"), ASKED[0]
    weights, others = np.zeros(1 + len(encoder.layers)), np.zeros((4, 0))
    constants = [
        tune(encoder, [s, s, s, ASKED[1]], np.array(verdicts), others, weights, epochs=1)[1][0]
        for verdicts in ([True, True, False, True], [True, False, False, True], [False, False, False, True])
    ]
    assert constants[0] > constants[1] > constants[2]


def test_its_file_brings_it_back(
    file: Path, calibration: Calibration, specification: str, fresh: LearnedScorer, resources: Resources
) -> None:
    scorer, wanted = learned(str(file), resources), calibration.tuned_encoder
    assert wanted is not None and Calibration.load(file) == calibration
    assert encoder_of(scorer).digest() == wanted.digest() == calibration.encoder
    assert scorer.provenance["tuned"] == "6 epochs" and scorer.parameters() == calibration.parameters
    here = fresh.with_tuned(wanted).with_parameters(calibration.parameters, "here")
    np.testing.assert_allclose(scorer.scores(ASKED), here.scores(ASKED), atol=1e-6)
    moved = shutil.copytree(file.parent, file.parent.with_name("moved"))
    assert learned(str(moved / "det.json"), resources).digest() == scorer.digest()
    again = calibrate(ITEMS, learned(specification, resources), precision=None, folds=2, detector=specification)
    assert again == calibration


def test_saving_is_quiet(calibration: Calibration, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    calibration.save(tmp_path / "det.json")
    assert capfd.readouterr() == ("", "")


def test_it_serves_training(file: Path) -> None:
    detector = make_detector(CorrectionConfig(detector=str(file), wordnet=str(WORDNET)), wordpiece())
    assert isinstance(detector, OnlineDetector) and detector.provenance["tuned"] == "6 epochs"


def test_an_encoder_that_is_not_there_or_another(file: Path, resources: Resources) -> None:
    folder = file.with_name("det-encoder")
    weights = load_file(folder / "model.safetensors")
    name = next(name for name, tensor in sorted(weights.items()) if "layer.0" in name and tensor.ndim > 1)
    save_file(weights | {name: weights[name] + 1e-3}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ConfigError, match=r"det-encoder' is not the encoder that '.*det\.json' was fitted with: cal"):
        make_scorer(str(file), resources)
    shutil.rmtree(folder)
    with pytest.raises(ConfigError, match=r"there is no '.*det-encoder': keep the two together, or calibrate it"):
        make_scorer(str(file), resources)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("tune=3", "tune=3 reads substitutes together: add reading=together"),
        ("reading=together,tune=-1", "tune=-1"),
        ("reading=together,tune=1.5", "tune=1.5: expected a whole number"),
    ],
)
def test_options_that_make_no_sense(options: str, message: str, bert: str, resources: Resources) -> None:
    with pytest.raises(ConfigError, match=message):
        make_scorer(f"learned:{bert}[{options}]", resources)
