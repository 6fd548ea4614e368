"""The contextual scorer: a cosine that transformers alone computes alike."""

from __future__ import annotations

import numpy as np
import pytest
from test_encoder import TOLERANCE, by_hand
from tiny_encoders import MAX_LENGTH, TEXT, at

from trueneg.detectors import make_scorer
from trueneg.detectors.scorers import contextual
from trueneg.detectors.scorers.base import Substitution
from trueneg.detectors.scorers.contextual import THRESHOLD, ContextualScorer
from trueneg.detectors.specification import Resources
from trueneg.models.reading import Span, TextEncoder

ASKED = [
    at(TEXT[0], "large", "big"),
    at(TEXT[0], "large", "primary"),
    at(TEXT[0], "the", "a"),
    at(TEXT[0], "city", "river"),
    at(TEXT[0], "mouse", "zebra"),
    at("the zebra sat", "zebra", "mouse"),
    at("the zebra sat", "zebra", "large mouse"),
]


def cosine(path: str, s: Substitution, layer: int, pooling: str, center: bool) -> float:
    spans: list[Span] = [(s.text, s.start, s.end), (s.substituted, s.start, s.start + len(s.substitute))]
    first, second = (by_hand(path, where, layer, pooling, center).astype(np.float64) for where in spans)
    return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))


@pytest.mark.parametrize(
    ("options", "layers", "pooling", "center"),
    [
        ("", [1], "mean", True),
        ("layer=2", [2], "mean", True),
        ("layer=0,center=none", [0], "mean", False),
        ("layer=1-2,pooling=first", [1, 2], "first", True),
        ("pooling=first,center=none", [1], "first", False),
    ],
)
def test_scores_are_cosines(
    checkpoint: str, options: str, layers: list[int], pooling: str, center: bool, resources: Resources
) -> None:
    scorer = make_scorer(f"contextual:{checkpoint}[{options}]", resources)
    wanted = [np.mean([cosine(checkpoint, s, layer, pooling, center) for layer in layers]) for s in ASKED]
    found = scorer.scores(ASKED)
    assert found.shape == (len(ASKED),) and found.dtype == np.float64
    np.testing.assert_allclose(found, np.clip(wanted, 0, 1), atol=TOLERANCE)
    assert np.ptp(found) > 0.1  # they do differ
    assert scorer.threshold == THRESHOLD


def test_what_it_says_of_itself(bert: str, resources: Resources) -> None:
    scorer = make_scorer(f"contextual:{bert}[layer=1-2,window=32]@0.7", resources)
    assert scorer.threshold == 0.7
    assert dict(scorer.provenance) | {"encoder": ""} == {
        "encoder": "",
        "layers": "1 2",
        "pooling": "mean",
        "window": "32",
        "center": "sentence",
    }


def test_the_word_itself_scores_1(checkpoint: str, resources: Resources) -> None:
    asked = [Substitution(s.text, s.start, s.end, s.target) for s in ASKED]
    np.testing.assert_allclose(make_scorer(f"contextual:{checkpoint}", resources).scores(asked), 1, atol=1e-6)


def test_a_negative_cosine_scores_0(bert: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = ContextualScorer(TextEncoder(bert))
    directions = {"large": [1.0, 0.0], "small": [-3.0, 1.0], "big": [2.0, 0.0]}
    monkeypatch.setattr(
        scorer.encoder, "vectors", lambda spans: np.array([[directions[t[s:e]]] for t, s, e in spans], np.float32)
    )
    asked = [at("a large one", "large", word) for word in ("small", "big")]
    np.testing.assert_allclose(scorer.cosines(asked)[:, 0], [-3 / np.sqrt(10), 1], atol=1e-6)
    np.testing.assert_allclose(scorer.scores(asked), [0, 1], atol=1e-6)


@pytest.mark.parametrize("odd", ["\x07", "\x00", "\ufffd", "\u200b"])
def test_what_the_encoder_does_not_see_scores_0(bert: str, odd: str, resources: Resources) -> None:
    scorer = make_scorer(f"contextual:{bert}", resources)
    assert isinstance(scorer, ContextualScorer)
    asked = [at(f"the {odd} sat", odd, "mouse"), at("a mouse sat", "mouse", odd), at(f"a {odd} sat", odd, odd)]
    assert scorer.scores(asked).tolist() == [0, 0, 0]
    assert scorer.counts["words_without_tokens"] == 2  # texts, each read once


def test_long_texts_are_scored_as_the_text_around_the_word(checkpoint: str, resources: Resources) -> None:
    scorer = make_scorer(f"contextual:{checkpoint}[window=24]", resources)
    assert isinstance(scorer, ContextualScorer)
    text = " ".join([*TEXT * 3, "the large animal went", *TEXT * 3])
    long = at(text, "animal went", "movie went")
    units = []
    for where in ((long.text, long.start, long.end), (long.substituted, long.start, long.start + len(long.substitute))):
        cut = scorer.encoder.reader.cut(where)
        assert len(cut[0]) < len(text) / 3
        (vector,) = scorer.encoder.vectors([cut])[0]
        units.append(vector / np.linalg.norm(vector))
    np.testing.assert_allclose(scorer.scores([long]), max(0.0, float(units[0] @ units[1])), atol=TOLERANCE)
    assert scorer.encoder.reader.window <= MAX_LENGTH


@pytest.mark.parametrize("options", ["window=24", "window=24,reading=together"])
@pytest.mark.parametrize("combined", ["{}", "!({} & lexical)"])
def test_texts_and_words_that_are_cut_are_counted(bert: str, options: str, combined: str, resources: Resources) -> None:
    scorer = make_scorer(combined.format(f"contextual:{bert}[{options}]"), resources)
    scorer.scores([at(TEXT[0], "large", "big")])
    assert sum(scorer.counts.values()) == 0
    long = " ".join([*TEXT * 3, "the quizzical animal went", *TEXT * 3])
    scorer.scores([at(long, "quizzical", "odd"), at(long, "animal", "movie")])
    texts = 2 if "together" in options else 4
    assert tuple(scorer.counts.get(what, 0) for what in ("texts_cut", "words_cut")) == (texts, 0)
    word = "q" * 100
    scorer.scores([at(f"the {word} sat", word, "mouse")])
    assert tuple(scorer.counts.get(what, 0) for what in ("texts_cut", "words_cut")) == (texts + 1, 1)


@pytest.mark.parametrize("together", [False, True])
def test_some_pairs_at_a_time_are_scored_as_all_are(bert: str, together: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A word always with all of its substitutes."""
    scorer = ContextualScorer(TextEncoder(bert), together=together)
    asked = [*ASKED, *(at(TEXT[0], "large", word) for word in ("old", "small", "film")), *ASKED[:1]]
    expected, parts, vectors = scorer.cosines(asked), [], scorer.vectors
    monkeypatch.setattr(contextual, "PAIRS_AT_ONCE", 2)
    monkeypatch.setattr(scorer, "vectors", lambda pairs: parts.append(pairs) or vectors(pairs))
    np.testing.assert_allclose(scorer.cosines(asked), expected, atol=TOLERANCE)
    words = [{(s.text, s.start) for s in part} for part in parts]
    assert len(parts) > 1 and sum(map(len, parts)) == len(asked)
    assert sum(map(len, words)) == len(set().union(*words))
    assert scorer.cosines([]).shape == (0, 1)


def test_every_text_is_read_once(bert: str) -> None:
    scorer = ContextualScorer(TextEncoder(bert))
    read: list[Span] = []
    original = scorer.encoder.vectors
    scorer.encoder.vectors = lambda spans: read.extend(spans) or original(spans)  # type: ignore[method-assign,func-returns-value]
    scorer.scores([*ASKED, *ASKED])
    assert len(read) == len(set(read)) == len({(s.text, s.start) for s in ASKED}) + len(ASKED)
