"""Vetoes of names and of words of one family: as text and on tensors the same verdicts, over a whole vocabulary."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch
from tiny_encoders import TEXT, TOKENIZERS, WORDNET, at, encode_rows, masked_at

from trueneg.config.objective_options import CorrectionConfig
from trueneg.detectors import make_detector, make_scorer
from trueneg.detectors.specification import Resources
from trueneg.lexicon.surface import surfaces


@pytest.fixture(scope="module")
def wordnet(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The hand-made WordNet where "painter" is derived, "chief" is of "bigwig", and a river and a city are names."""
    module = runpy.run_path(str(WORDNET / "make.py"))
    module["SYNSETS"] |= {
        "painter": ("n", "painter", [("+", "picture", "0101")], "who paints"),
        "picture": ("n", "picture", [("+", "painter", "0101")], "what is painted"),
        "River": ("n", "River City", [("@i", "town", "0000")], "a place"),
        "town": ("n", "City metropolis", [("@", "thing", "0000")], "another"),
        "bigwig": ("n", "bigwig", [], "who leads"),
        "wig": ("n", "wig", [], "what a judge wears"),
    }
    module["EXCEPTIONS"]["noun"] += "chief bigwig\n"
    folder: Path = tmp_path_factory.mktemp("wordnet")
    for name, text in module["build"]().items():
        (folder / name).write_text(text)
    return str(folder)


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize(
    ("name", "yes", "no"),
    [
        (
            "derived",
            [("picture", "painter"), ("painter", "picture"), ("chief", "big")],
            [("animals", "animal"), ("film", "movie")],
        ),
        ("proper", [("river", "film"), ("city", "mouse")], [("river", "city"), ("film", "mouse")]),
    ],
)
def test_the_detector_agrees_with_the_scorer_on_every_pair_of_words(
    kind: str, name: str, yes: list[tuple[str, str]], no: list[tuple[str, str]], wordnet: str
) -> None:
    tokenizer = TOKENIZERS[kind]()
    entries = surfaces(tokenizer)
    words = [token for token, entry in enumerate(entries) if entry.starts_word and len(entry.word) > 2]
    scorer = make_scorer(name, Resources(wordnet=wordnet))
    for pairs, wanted in ((yes, 1.0), (no, 0.0)):
        assert scorer.scores([at(word, word, other) for word, other in pairs]).tolist() == [wanted] * len(pairs)
    detector = make_detector(CorrectionConfig(detector=name, wordnet=wordnet), tokenizer)
    asked = torch.cartesian_prod(torch.tensor(words), torch.tensor(words))
    asked = asked[asked[:, 0] != asked[:, 1]]
    batch = masked_at(encode_rows(tokenizer, [[TEXT[0]]]), [[1]])
    credit = detector.credit(asked[None, :, 0], asked[None, :, 1], batch)[0].tolist()
    shown = [(entries[a].word, entries[b].word) for a, b in asked.tolist()]
    assert credit == scorer.scores([at(word, word, other) for word, other in shown]).tolist()
    assert 0 < sum(credit) < len(credit)


@pytest.mark.parametrize("name", ["derived", "proper"])
def test_no_credit_beyond_the_vocabulary_or_for_a_word_of_pieces(name: str, wordnet: str) -> None:
    tokenizer = TOKENIZERS["wordpiece"]()
    detector = make_detector(CorrectionConfig(detector=name, wordnet=wordnet), tokenizer)
    batch = masked_at(encode_rows(tokenizer, [["the river boat city"]]), [[2, 3]])
    ids = tokenizer.get_vocab()
    assert batch.gold[0, 0] == ids["river"] and not batch.is_whole_word[0, 1]
    assert detector.credit(batch.gold, torch.full_like(batch.gold, 10**6), batch).tolist() == [[0.0, 0.0]]
    assert detector.credit(batch.gold, torch.full_like(batch.gold, ids["river"]), batch)[0, 1] == 0


@pytest.mark.parametrize("name", ["derived", "proper"])
def test_another_wordnet_has_another_digest(name: str, wordnet: str) -> None:
    digests = {make_scorer(name, Resources(wordnet=folder)).digest() for folder in (wordnet, str(WORDNET))}
    assert len(digests) == 2
