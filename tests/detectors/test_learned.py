"""The learned scorer: scikit-learn's logistic regression over features that are what they are called."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from test_encoder import by_hand
from tiny_encoders import TEXT, at, save_checkpoint, wordpiece

from trueneg.corpus.bigrams import Bigrams
from trueneg.detectors import make_scorer
from trueneg.detectors.scorers.base import Substitution
from trueneg.detectors.scorers.glosses import MAX_SENSES
from trueneg.detectors.scorers.learned import LearnedScorer, fit_logistic
from trueneg.detectors.scorers.prototypes import Prototypes
from trueneg.detectors.specification import Resources
from trueneg.errors import ConfigError
from trueneg.models.reading import TextEncoder

PAIRS = [("large", "big"), ("large", "small"), ("large", "city"), ("mouse", "animal"), ("mouse", "painter")]
ASKED = [at(TEXT[0], *pair) for pair in [*PAIRS, ("old", "zebra"), ("will", "is going to")]]
ASKED.append(at(TEXT[1], "film", "movie"))
SHARES = np.array([0.9, 0.1, 0.0, 0.5, 0.2, 0.0, 0.7, 1.0])


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 999), st.integers(1, 6), st.sampled_from([0.1, 1.0, 10.0]))
def test_the_fit_is_that_of_scikit_learn(seed: int, num_features: int, penalty: float) -> None:
    random = np.random.default_rng(seed)
    features = random.normal(size=(60, num_features)) * 10.0 ** random.integers(-3, 4, num_features) + 5
    is_accepted = features[:, 0] - 5 + random.normal(size=60) * features[:, 0].std() > 0
    if is_accepted.all() or not is_accepted.any():
        return
    mean, spread = features.mean(0), features.std(0)
    theirs = LogisticRegression(C=1 / penalty, tol=1e-10, max_iter=10_000).fit((features - mean) / spread, is_accepted)
    slopes = theirs.coef_[0] / spread
    wanted = np.array([theirs.intercept_[0] - slopes @ mean, *slopes])
    ours = fit_logistic(features, is_accepted, penalty)
    np.testing.assert_allclose(ours[1:] * spread, wanted[1:] * spread, atol=1e-4)
    np.testing.assert_allclose(ours[0] + ours[1:] @ mean, wanted[0] + wanted[1:] @ mean, atol=1e-4)


def test_a_feature_that_never_varies_has_no_weight() -> None:
    features = np.c_[np.array([0.0, 1, 2, 3]), np.full(4, 7.0)]
    weights = fit_logistic(features, np.array([False, False, True, True]))
    assert weights[2] == 0 and weights[1] > 0


def test_classes_that_a_line_parts_have_finite_weights() -> None:
    weights = fit_logistic(np.linspace(-1e6, 1e6, 50)[:, None], np.arange(50) >= 25)
    assert np.isfinite(weights).all() and weights[1] > 0


@pytest.fixture(scope="module")
def scorer(bert: str, tmp_path_factory: pytest.TempPathFactory, resources: Resources) -> LearnedScorer:
    file = tmp_path_factory.mktemp("vectors") / "v.txt"
    file.write_text("large 1 0\nbig 4 3\nmouse 0 1\nanimal 1 1\n")
    made = make_scorer(f"learned:{bert}[vectors={file},teacher={bert}]", resources)
    assert isinstance(made, LearnedScorer)
    return made


def test_features_are_what_they_are_called(scorer: LearnedScorer) -> None:
    features = scorer.features(ASKED)
    assert features.shape == (len(ASKED), len(scorer.names)) and len(set(scorer.names)) == len(scorer.names)
    columns = dict(zip(scorer.names, features.T, strict=True))
    for number, layer in enumerate(scorer.contextual.encoder.layers):
        np.testing.assert_allclose(
            columns[f"cosine at layer {layer}"], scorer.contextual.cosines(ASKED)[:, number], atol=0.03
        )
    assert columns["one word"].tolist() == [1, 1, 1, 1, 1, 1, 0, 1]
    assert columns["three words or more"].tolist() == [0, 0, 0, 0, 0, 0, 1, 0]
    assert columns["synonym"].tolist() == [1, 0, 0, 0, 0, 0, 0, 1]
    assert columns["antonym"].tolist() == [0, 1, 0, 0, 0, 0, 0, 0]
    assert columns["hypernym"].tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    assert columns["reverse hyponym"].tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    np.testing.assert_allclose(columns["cosine of word vectors"], [0.8, 0, 0, 0.5**0.5, 0, 0, 0, 0], atol=1e-6)
    assert scorer.teacher is not None
    np.testing.assert_allclose(columns["log ratio"], scorer.teacher.log_ratios(ASKED).clip(-20, 20), atol=0.2)


def test_it_must_learn_first(scorer: LearnedScorer) -> None:
    with pytest.raises(ConfigError, match="must be fitted first: 'trueneg detect calibrate'"):
        scorer.scores(ASKED)
    with pytest.raises(ConfigError, match="needs examples of both"):
        scorer.fit(ASKED, np.zeros(len(ASKED)))
    with pytest.raises(ConfigError, match="needs examples of both"):
        scorer.fit(ASKED, np.ones(len(ASKED)))
    assert scorer.parameters() == {}


def test_what_it_learned_is_a_logistic_regression_of_its_features(scorer: LearnedScorer) -> None:
    fitted = scorer.fit(ASKED, SHARES)
    assert scorer.weights is None
    parameters = fitted.parameters()
    assert set(parameters) == {"constant", *scorer.names}
    logits = parameters["constant"] + scorer.features(ASKED) @ np.array([parameters[name] for name in scorer.names])
    scores = fitted.scores(ASKED)
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(-logits)), atol=1e-9)
    assert ((scores >= 0.5) == (SHARES >= 0.5)).all()


def test_features_are_computed_once_for_all_fits(scorer: LearnedScorer, monkeypatch: pytest.MonkeyPatch) -> None:
    first = scorer.fit(ASKED[::2] + ASKED[1::2], np.concatenate([SHARES[::2], SHARES[1::2]])).scores(ASKED)
    monkeypatch.setattr(LearnedScorer, "_others", None)
    monkeypatch.setattr(scorer.contextual, "cosines", None)
    np.testing.assert_allclose(scorer.fit(ASKED, SHARES).scores(ASKED[::-1]), first[::-1], atol=1e-6)


def test_a_scorer_that_has_learned_keeps_nothing(scorer: LearnedScorer) -> None:
    """During training it is asked about new texts without end."""
    ready = scorer.with_parameters(scorer.fit(ASKED, SHARES).parameters(), "here")
    assert scorer.cache is not None
    before = len(scorer.cache.cosines), len(scorer.cache.others)
    ready.scores([Substitution("a new text", 2, 5, "old")])
    assert ready.cache is None and (len(scorer.cache.cosines), len(scorer.cache.others)) == before


def test_what_another_learned_is_refused(scorer: LearnedScorer) -> None:
    parameters = scorer.fit(ASKED, SHARES).parameters()
    del parameters["log ratio"]
    with pytest.raises(ConfigError, match=r"'det\.json' was learned from other features, now with log ratio: cal"):
        scorer.with_parameters(parameters, "det.json")


def test_parts_may_be_left_out(bert: str, tmp_path: Path) -> None:
    scorer = make_scorer(f"learned:{bert}[relations=no]", Resources(wordnet=str(tmp_path)))
    assert isinstance(scorer, LearnedScorer)
    assert scorer.names[-1] == "rarity of pieces" and "wordnet" not in scorer.provenance
    assert scorer.features([]).shape == (0, len(scorer.names)) and scorer.features(ASKED).shape == (
        8,
        len(scorer.names),
    )


def test_another_encoder_of_the_same_shape_is_refused(
    bert: str, tmp_path: Path, resources: Resources, scorer: LearnedScorer
) -> None:
    plain = make_scorer(f"learned:{bert}", resources)
    assert isinstance(plain, LearnedScorer)
    fitted = plain.fit(ASKED, SHARES)
    noted = fitted.provenance["features"]
    assert plain.with_parameters(fitted.parameters(), "det.json", noted).parameters() == fitted.parameters()
    torch.manual_seed(7)
    path = save_checkpoint("bert", wordpiece(), tmp_path / "other")
    other = make_scorer(f"learned:{path}", resources)
    assert isinstance(other, LearnedScorer) and other.names == plain.names
    with torch.no_grad():
        next(other.contextual.encoder.model.parameters()).add_(0.1)
    with pytest.raises(ConfigError, match=r"'det\.json' was learned with another encoder, lexicon or file of vectors"):
        other.with_parameters(fitted.parameters(), "det.json", noted)


def test_glosses_compare_a_word_here_with_its_definitions(bert: str, resources: Resources) -> None:
    scorer = make_scorer(f"learned:{bert}[glosses=yes,relations=no]", resources)
    assert isinstance(scorer, LearnedScorer)
    asked = [at(TEXT[0], "large", word) for word in ("big", "small", "zebrafish", "large")]
    columns = dict(zip(scorer.names, scorer.features(asked).T, strict=True))
    layer = TextEncoder(bert).layers[0]

    def unit(text: str, start: int, end: int) -> np.ndarray:
        vector = by_hand(bert, (text, start, end), layer, "mean", center=True)
        return np.asarray(vector / np.linalg.norm(vector))

    def senses(word: str) -> dict[tuple[str, int], np.ndarray]:
        found = list(resources.relations.wordnet.senses(word))[:MAX_SENSES]
        definitions = [resources.relations.wordnet.synset(pos, offset).definition for pos, offset, _ in found]
        return {
            (pos, offset): unit(f"{base}: {text}", 0, len(base))
            for (pos, offset, base), text in zip(found, definitions, strict=True)
        }

    here = unit(TEXT[0], TEXT[0].index("large"), TEXT[0].index("large") + 5)
    own, other = senses("large"), senses("big")
    near = max(float(vector @ here) for vector in other.values())
    np.testing.assert_allclose(columns["cosine with a gloss"][0], near, atol=0.05)
    likely = np.exp(10 * np.array([float(vector @ here) for vector in own.values()]))
    likely /= likely.sum()
    is_shared = [sense in other for sense in own]
    assert any(is_shared)
    np.testing.assert_allclose(columns["probability of shared senses"][0], likely @ is_shared, atol=0.1)
    assert columns["rank of the first shared sense"][0] == 1 / (1 + is_shared.index(True))
    assert columns["probability of shared senses"][3] == pytest.approx(1)
    assert columns["no sense"].tolist() == [0, 0, 1, 0]
    assert set(columns["log number of senses"]) == {np.log1p(len(own))}
    assert columns["greatest cosine of definitions"][3] == pytest.approx(1, abs=0.01)
    assert columns["cosine of definitions"][2] == columns["cosine with a gloss"][2] == 0


def test_collocations_are_counts_of_what_is_beside(bert: str, tmp_path: Path, resources: Resources) -> None:
    """Of "the large mouse …", where the corpus has "the big mouse" thrice, "the large" twice and "big" once more."""
    words, pairs = ("<s>", "the", "big", "large", "mouse"), {(1, 2): 3, (1, 3): 2, (2, 4): 3}
    numbers = np.array([(first << 32) | second for first, second in pairs], np.int64)
    counts = np.array([9, 9, 4, 5, 9])
    Bigrams(words, counts, numbers, np.array([*pairs.values()])).save(tmp_path / "b.safetensors")
    scorer = make_scorer(f'learned:{bert}[bigrams="{tmp_path / "b.safetensors"}"]', resources)
    assert isinstance(scorer, LearnedScorer)
    text = "The large mouse ."
    asked = [at(text, "large", word) for word in ("big", "large", "very big", "zebra")]
    columns = dict(zip(scorer.names, scorer.features(asked).T, strict=True))
    wanted = {
        "log count after what is before": np.log([3.5, 2.5, 0.5, 0.5]),
        "log count before what is after": np.log([3.5, 0.5, 3.5, 0.5]),
        "log count, less the word's after what is before": np.log([3.5, 2.5, 0.5, 0.5]) - np.log(2.5),
        "log count, less the word's before what is after": np.log([3.5, 0.5, 3.5, 0.5]) - np.log(0.5),
        "log count, less its own after what is before": np.log([3.5, 2.5, 0.5, 0.5]) - np.log([4.5, 5.5, 0.5, 0.5]),
        "log count, less its own before what is after": np.log([3.5, 0.5, 3.5, 0.5]) - np.log([4.5, 5.5, 4.5, 0.5]),
    }
    for name, column in wanted.items():
        np.testing.assert_allclose(columns[name], column, err_msg=name)
    # Of text without a word before it.
    assert make_scorer(f"learned:{bert}", resources).digest() != scorer.digest()
    alone = scorer.features([Substitution("large", 0, 5, "big")])[0, list(scorer.names).index(next(iter(wanted)))]
    assert alone == np.log(0.5)
    assert scorer.fit(ASKED, SHARES).features(asked).shape == (4, len(scorer.names))


@pytest.mark.parametrize("reading", ["apart", "together"])
def test_prototypes_are_compared_in_every_direction(
    bert: str, tmp_path: Path, resources: Resources, reading: str
) -> None:
    encoder = TextEncoder(bert)
    random = np.random.default_rng(0).normal(size=(2, encoder.model.config.hidden_size)).astype(np.float32)
    about = {"encoder": bert, "layer": str(encoder.layers[0])}
    Prototypes(("large", "big"), random, np.array([9, 9]), about).save(tmp_path / "p.safetensors")
    given = f"prototypes={tmp_path / 'p.safetensors'},directions=both,reading={reading}"
    scorer = make_scorer(f"learned:{bert}[{given}]", resources)
    assert isinstance(scorer, LearnedScorer)
    asked = [at(TEXT[0], "large", word) for word in ("big", "large", "animal")]
    columns = dict(zip(scorer.names, scorer.features(asked).T, strict=True))
    large = by_hand(bert, (TEXT[0], 4, 9), encoder.layers[0], "mean", center=True)
    wanted = large @ random[0] / np.linalg.norm(large) / np.linalg.norm(random[0])
    np.testing.assert_allclose(columns["word here with its prototype"], wanted, atol=0.03)
    np.testing.assert_allclose(columns["substitute here with the word's prototype"][1], wanted, atol=0.03)
    np.testing.assert_allclose(columns["substitute here with its prototype"][1], wanted, atol=0.03)
    assert columns["substitute here with its prototype"][2] == 0
    with pytest.raises(ConfigError, match="directions=both is of prototypes: add prototypes=FILE"):
        make_scorer(f"learned:{bert}[directions=both]", resources)
