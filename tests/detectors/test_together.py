"""Substitutes read together: what must be as if each were read by itself is, and what cannot be read so is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_encoder import TOLERANCE, by_hand
from tiny_encoders import TEXT, at, save_checkpoint, wordpiece

from trueneg.detectors import make_scorer
from trueneg.detectors.scorers.base import Substitution
from trueneg.detectors.scorers.contextual import ContextualScorer
from trueneg.detectors.specification import Resources
from trueneg.errors import ModelError
from trueneg.models.reading import TextEncoder
from trueneg.models.together import MAX_PIECES, check_together, substitute_vectors

KINDS = ("bert", "roberta", "mpnet", "electra", "distilbert", "modernbert")


@pytest.fixture(scope="module", params=KINDS)
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TextEncoder:
    path = save_checkpoint(request.param, wordpiece(), tmp_path_factory.mktemp(request.param))
    made = TextEncoder(path, "all", center=False)
    check_together(made)
    return made


def span(text: str, word: str) -> tuple[str, int, int]:
    return text, text.index(word), text.index(word) + len(word)


def test_a_substitute_that_is_the_word_is_the_word(encoder: TextEncoder) -> None:
    """With others beside it, of one and of several pieces, and in a batch of texts of other lengths."""
    spans = [span(TEXT[0], "large"), span("the zebra sat", "zebra"), span(TEXT[3], "animals")]
    substitutes = [["big", "large", "zebra"], ["mouse", "zebra"], ["animals"]]
    found = substitute_vectors(encoder, spans, substitutes)
    expected = encoder.vectors(spans)
    for vectors, own, words, (text, start, end) in zip(found, expected, substitutes, spans, strict=True):
        assert vectors.shape == (1 + len(words), *own.shape)
        scale = TOLERANCE * float(np.linalg.norm(own, axis=-1).max())
        np.testing.assert_allclose(vectors[0], own, atol=scale)
        np.testing.assert_allclose(vectors[1 + words.index(text[start:end])], own, atol=scale)


def test_up_to_the_first_layer_they_are_read_as_if_apart(encoder: TextEncoder) -> None:
    """The rest of the sentence has seen the other word only after it: until then nothing differs for one piece."""
    where, words = span(TEXT[0], "large"), ["big", "primary", "happy"]
    (found,) = substitute_vectors(encoder, [where], [words])
    text, start, _ = where
    for word, vectors in zip(words, found[1:], strict=True):
        apart = (text[:start] + word + text[where[2] :], start, start + len(word))
        for layer in (0, 1):
            wanted = by_hand(_path(encoder), apart, layer, "mean", center=False)
            np.testing.assert_allclose(vectors[layer], wanted, atol=TOLERANCE * float(np.linalg.norm(wanted)))
    assert np.linalg.norm(found[1] - found[2]) > 0.1  # they do differ


def _path(encoder: TextEncoder) -> str:
    return str(encoder.model.config._name_or_path)


def test_substitutes_do_not_see_one_another(encoder: TextEncoder) -> None:
    where, words = span(TEXT[1], "big"), ["large", "old", "zebra", "happy animal"]
    (together,) = substitute_vectors(encoder, [where], [words])
    for number, word in enumerate(words):
        ((_, alone),) = substitute_vectors(encoder, [where], [[word]])
        np.testing.assert_allclose(together[1 + number], alone, atol=TOLERANCE * float(np.linalg.norm(alone)))


def test_more_substitutes_than_a_row_holds(bert: str) -> None:
    encoder = TextEncoder(bert)
    where, words = span(TEXT[0], "large"), ["zebra", "big"] * MAX_PIECES
    (found,) = substitute_vectors(encoder, [where], [words])
    assert found.shape[0] == 1 + 2 * MAX_PIECES
    np.testing.assert_allclose(found[1:3], found[-2:], atol=0.05)
    assert (np.linalg.norm(found, axis=-1) > 0).all()


def test_cosines_of_a_scorer_are_those_of_its_vectors(bert: str, resources: Resources) -> None:
    """Words that a window cuts, substitutes of several words, with apostrophes and hyphens, and none at all."""
    long = " ".join([TEXT[0]] * 30)
    asked = [
        at(TEXT[0], "large", "big"),
        at(TEXT[1], "film", "movie"),
        at(TEXT[0], "large", "well-known"),
        at(TEXT[0], "large", "o'clock"),
        at(TEXT[0], "large", "is going to"),
        at(TEXT[0], "large", "large"),
        Substitution(long, len(long) - 4, len(long), "river"),
    ]
    scorer = make_scorer(f"contextual:{bert}[reading=together,window=16]", resources)
    assert isinstance(scorer, ContextualScorer) and scorer.provenance["reading"] == "together"
    original, changed = scorer.vectors(asked)
    np.testing.assert_allclose(scorer.cosines(asked), (original * changed).sum(-1), atol=0.03)
    assert scorer.scores(asked)[5] == pytest.approx(1, abs=0.02)
    assert np.isfinite(scorer.scores(asked)).all() and scorer.scores([]).shape == (0,)
    apart = make_scorer(f"contextual:{bert}[window=16]", resources)
    assert apart.digest() != scorer.digest() and "reading" not in apart.provenance
    with pytest.raises(Exception, match="unknown reading 'both'"):
        make_scorer(f"contextual:{bert}[reading=both]", resources)


def test_an_encoder_that_cannot_is_refused(tmp_path: Path, resources: Resources) -> None:
    path = save_checkpoint("deberta-v2", wordpiece(), tmp_path / "deberta")
    with pytest.raises(ModelError, match=r"cannot read substitutes together: 'deberta-v2' .* take reading=apart"):
        make_scorer(f"contextual:{path}[reading=together]", resources)
    make_scorer(f"contextual:{path}", resources)
