"""Detectors of English say so where the text is in another language."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from trueneg.corpus.build import build_corpus
from trueneg.corpus.store import Corpus
from trueneg.corpus.tokenizer_training import train_tokenizer
from trueneg.detectors import language
from trueneg.detectors.language import share_known, warn_of_another_language
from trueneg.detectors.scorers.calibrated import KIND
from trueneg.errors import TruenegWarning
from trueneg.lexicon.wordnet import WordNet

ENGLISH = ["big", "cat", "cats", "cold", "film", "large", "mice", "mouse", "movie", "movies"]
OTHER = ["grosse", "katze", "katzen", "kalt", "streifen", "weit", "maeuse", "maus", "kino", "filme"]


def made(folder: Path, words: list[str]) -> Corpus:
    text = folder / "text.txt"
    draw = random.Random(0)
    text.write_text("\n\n".join(" ".join(draw.choices(words, k=20)) for _ in range(50)))
    train_tokenizer([str(text)], folder / "tok", vocab_size=100)
    build_corpus([str(text)], folder / "tok", folder / "corpus")
    return Corpus.open(folder / "corpus")


@pytest.mark.filterwarnings("ignore:the tokenizer has")
def test_a_detector_of_english_tells_text_that_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("english", "other"):
        (tmp_path / name).mkdir()
    wordnet = WordNet.load()
    english = made(tmp_path / "english", [word for word in ENGLISH if word in wordnet])
    other = made(tmp_path / "other", OTHER)
    assert share_known(other, other.load_tokenizer(), wordnet) is None  # too few words to say
    monkeypatch.setattr(language, "_MIN_WORDS", 3)
    assert share_known(english, english.load_tokenizer(), wordnet) == 1
    assert share_known(other, other.load_tokenizer(), wordnet) == 0
    warn_of_another_language("lexical", english, english.load_tokenizer())
    warn_of_another_language("contextual:encoder@0.5", other, other.load_tokenizer())
    calibrated = tmp_path / "det.json"
    calibrated.write_text(json.dumps({"kind": KIND, "detector": "prototypes:FILE & fits", "threshold": 0.5}))
    for detector in ("lexical", "contextual:encoder@0.5 & !antonym", "prototypes:FILE & fits", str(calibrated)):
        with pytest.warns(TruenegWarning, match="is of English, and WordNet knows 0% of the words of"):
            warn_of_another_language(detector, other, other.load_tokenizer())
