from __future__ import annotations

from pathlib import Path

import pytest

from trueneg.corpus.glosses import build_gloss_corpus, write_glosses
from trueneg.corpus.store import CorpusInfo
from trueneg.lexicon.wordnet import WordNet

WORDNET = Path(__file__).parents[1] / "data" / "wordnet"


@pytest.mark.parametrize("synsets_per_document", [1, 5])
def test_every_definition_and_example_is_a_line(tmp_path: Path, synsets_per_document: int) -> None:
    wordnet = WordNet.load(WORDNET)
    num = write_glosses(wordnet, tmp_path / "text", synsets_per_document)
    glosses = list(wordnet.glosses())
    assert num == len(glosses)
    text = (tmp_path / "text").read_text()
    expected = [f"{sentence}." for gloss in glosses for sentence in (gloss.definition, *gloss.examples)]
    assert [line for line in text.splitlines() if line] == expected
    assert len(text.strip().split("\n\n")) == -(-num // synsets_per_document)


def test_a_gloss_corpus_is_made_once(tmp_path: Path) -> None:
    made = build_gloss_corpus(tmp_path, vocab_size=80, wordnet=str(WORDNET), valid=0.3, synsets_per_document=2)
    info = CorpusInfo.read(made)
    assert info.splits.keys() == {"train", "valid"}
    (tmp_path / "glosses.txt").unlink()
    assert build_gloss_corpus(tmp_path, vocab_size=80, wordnet="nowhere", valid=0.3) == made
