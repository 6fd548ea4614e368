"""Annotators list what a detector accepts for the words of rows, each against plain code."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_encoders import (
    LENGTH,
    WORDNET,
    WrittenDetector,
    byte_level,
    make_corpus,
    masked_at,
    save_checkpoint,
    wordpiece,
)

from trueneg.config.objective_options import CorrectionConfig
from trueneg.corpus.annotate import Accepted, write_annotations
from trueneg.corpus.annotations import Annotations
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.corruption.rows import MaskedRows, read_rows
from trueneg.detectors import make_detector, make_scorer
from trueneg.detectors.annotator import DetectorAnnotator, make_annotator
from trueneg.detectors.online import OnlineDetector
from trueneg.detectors.prototype_detector import PrototypeDetector
from trueneg.detectors.scorers.prototypes import learn_prototypes
from trueneg.detectors.specification import Resources
from trueneg.errors import ConfigError
from trueneg.models.reading import WINDOW, TextEncoder
from trueneg.tokenizer import load_tokenizer

RESOURCES = Resources(wordnet=str(WORDNET))


def listed(accepted: Accepted) -> dict[tuple[int, int, int], float]:
    keys = zip(accepted.rows.tolist(), accepted.columns.tolist(), accepted.substitutes.tolist(), strict=True)
    return dict(zip(keys, accepted.credit.tolist(), strict=True))


@pytest.mark.parametrize("kind", ["wordpiece", "byte-level"])
def test_the_annotator_lists_what_the_scorer_accepts(
    kind: str, prototypes_file: str, corpus: Corpus, tmp_path: Path
) -> None:
    """Every word of every row against every word that has a prototype; the encoder's tokenizer or another."""
    here = corpus if kind == "wordpiece" else make_corpus(tmp_path, byte_level())
    tokenizer = load_tokenizer(here.path / "tokenizer")
    spec = f"prototypes:{prototypes_file}@0.4"
    annotator, scorer = make_annotator(spec, tokenizer, RESOURCES), make_scorer(spec, RESOURCES)
    index = RowIndex(here, LENGTH)
    batch = index.read(np.arange(min(6, len(index))))
    found = listed(annotator(batch))
    assert len(found) > 20
    online = OnlineDetector(scorer, tokenizer)
    numbers = np.arange(len(batch.input_ids))
    rows = read_rows(index, numbers, 0, numbers)
    batch = masked_at(rows, [list(range(LENGTH))] * len(numbers))
    candidates = {token for _, _, token in found}
    for token in candidates:
        credit = online.credit(batch.gold, torch.full_like(batch.gold, token), batch)
        for row, column in np.ndindex(credit.shape):
            expected, given = float(credit[row, column]), found.get((row, column, token), 0.0)
            if abs(max(expected, given) - 0.5) > 0.03:  # not on the edge
                assert given == pytest.approx(expected, abs=0.03)


def test_a_long_row_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not word by word, as it would be if its text were longer than the window."""
    corpus, length = make_corpus(tmp_path, wordpiece(), times=4), WINDOW + 20
    encoder = save_checkpoint("bert", wordpiece(), tmp_path / "encoder", max_position_embeddings=2 * WINDOW)
    learn_prototypes(encoder, corpus, layer=1, length=length, min_count=2).save(tmp_path / "p.safetensors")
    spec = f"prototypes:{tmp_path / 'p.safetensors'}@0.4"
    annotator = make_annotator(spec, load_tokenizer(corpus.path / "tokenizer"), RESOURCES)
    monkeypatch.setattr(TextEncoder, "vectors", lambda *_: pytest.fail("a word was read by itself"))
    batch = RowIndex(corpus, length).read(np.arange(1))
    assert batch.input_ids.shape[1] > WINDOW and not batch.is_special[0, WINDOW]
    assert len(listed(annotator(batch))) > 20


def test_a_filter_keeps_what_the_scorer_accepts(prototypes_file: str, corpus: Corpus) -> None:
    """Vetoes and verification: what lists, and what looks at each pair."""
    tokenizer = load_tokenizer(corpus.path / "tokenizer")
    batch = RowIndex(corpus, LENGTH).read(np.arange(5))
    everything = listed(make_annotator(f"prototypes:{prototypes_file}@0.2", tokenizer, RESOURCES)(batch))
    synonyms = listed(make_annotator("lexical", tokenizer, RESOURCES)(batch))
    both = listed(make_annotator(f"prototypes:{prototypes_file}@0.2 & lexical", tokenizer, RESOURCES)(batch))
    neither = listed(make_annotator(f"prototypes:{prototypes_file}@0.2 & !lexical", tokenizer, RESOURCES)(batch))
    assert set(both) | set(neither) == set(everything) and not set(both) & set(neither)
    assert all(both[key] == pytest.approx(everything[key]) for key in both)
    union = listed(make_annotator(f"lexical | prototypes:{prototypes_file}@0.2", tokenizer, RESOURCES)(batch))
    assert union == pytest.approx(
        {key: max(everything.get(key, 0), synonyms.get(key, 0)) for key in everything | synonyms}
    )


@pytest.mark.parametrize("spec", ["contextual:BERT", "!lexical", "antonym", "lexical | antonym", "nonsense", "ema"])
def test_what_lists_nothing_cannot_annotate(spec: str, bert: str) -> None:
    with pytest.raises(ConfigError, match=spec.partition(":")[0]):
        make_annotator(spec.replace("BERT", bert), wordpiece(), RESOURCES)


def test_whatever_lists_substitutes_annotates(corpus: Corpus) -> None:
    """All whole words and nothing else, what has credit, a token once, never the word itself."""
    batch = RowIndex(corpus, LENGTH).read(np.arange(5))
    batch.is_whole_word[:, 3:6] = False  # pieces
    gold = int(batch.input_ids[batch.is_whole_word][0])
    detector = WrittenDetector({gold: 1.0, 7: 0.75, 8: 0.25})
    found = listed(DetectorAnnotator(detector, "written")(batch))
    words = {(row, column): batch.input_ids[row, column] for row, column in np.argwhere(batch.is_whole_word).tolist()}
    wanted = {
        (*at, token): value for at, word in words.items() for token, value in ((gold, 1), (7, 0.75)) if token != word
    }
    assert found == wanted and 0 < len(words) < (~batch.is_special).sum()


def test_an_annotated_corpus_credits_as_the_detector_does(prototypes_file: str, corpus: Corpus, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(corpus.path / "tokenizer")
    spec = f"prototypes:{prototypes_file}[top=32]@0.3"
    write_annotations(corpus.path, make_annotator(spec, tokenizer, RESOURCES), tmp_path / "notes", length=LENGTH)
    index = RowIndex(corpus, LENGTH, annotations=Annotations.open(tmp_path / "notes", corpus))
    numbers = np.arange(6)
    batch = masked_at(read_rows(index, numbers, 0, numbers), [list(range(LENGTH))] * 6)
    annotated = make_detector(CorrectionConfig(detector=f"annotated:{tmp_path / 'notes'}"), tokenizer)
    online = make_detector(CorrectionConfig(detector=spec), tokenizer)
    num_accepted = 0
    for word in ("big", "large", "film", "movie", "main", "primary"):
        predicted = torch.full_like(batch.gold, tokenizer.convert_tokens_to_ids(word))
        is_other = predicted != batch.gold
        ours, theirs = (one.credit(batch.gold, predicted, batch) * is_other for one in (annotated, online))
        is_clear = torch.maximum(ours, theirs) > 0.53  # bfloat16 may decide what lies on the edge
        np.testing.assert_allclose(ours[is_clear], theirs[is_clear], atol=0.02)
        num_accepted += int(is_clear.sum())
    assert num_accepted > 5


@pytest.mark.parametrize("top", [4, 40])
def test_annotating_lists_what_the_search_among_all_tokens_lists(top: int) -> None:
    """Where a word was read, the accepted tokens with a prototype, best first; elsewhere nothing."""
    generator = torch.Generator().manual_seed(0)
    table = torch.nn.functional.normalize(torch.randn(40, 8, generator=generator), dim=-1)
    table[::3] = 0.0
    vectors = torch.nn.functional.normalize(torch.randn(3, 10, 8, generator=generator), dim=-1)
    vectors[:, ::4] = 0.0
    gold = torch.arange(30).view(3, 10) + 5
    batch: Any = SimpleNamespace(gold=gold, is_whole_word=torch.ones(gold.shape, dtype=torch.bool))

    def listed(annotates: bool) -> list[list[tuple[int, float]]]:
        kinds = torch.zeros(40, dtype=torch.int64)
        detector = PrototypeDetector(Given(vectors), table, kinds, 0.3, top, annotates=annotates)
        credit, tokens, acceptance = detector.propose(gold, gold, batch)
        assert credit.shape == gold.shape and tokens.shape == acceptance.shape and tokens.shape[-1] <= top
        slots = zip(tokens.flatten(0, 1).tolist(), acceptance.flatten(0, 1).tolist(), strict=True)
        return [[(t, round(c, 5)) for t, c in zip(*slot, strict=True) if c > 0] for slot in slots]

    found = listed(annotates=True)
    assert found == listed(annotates=False)
    assert sum(map(len, found)) > 30 and max(map(len, found)) == (top if top == 4 else 11)
    assert not any(found[row * 10 + slot] for row in range(3) for slot in range(0, 10, 4))
    assert not any(own == token for own, slot in zip(gold.flatten().tolist(), found, strict=True) for token, _ in slot)


@pytest.mark.parametrize("annotates", [False, True])
@pytest.mark.parametrize("num_spellings", [1, 4])
def test_a_list_is_as_long_in_a_vocabulary_with_several_spellings(num_spellings: int, annotates: bool) -> None:
    """Each word has entries with and without a space before it, and with capitals, with the same prototype."""
    words = torch.nn.functional.normalize(torch.rand(12, 8, generator=torch.Generator().manual_seed(0)), dim=-1)
    table, kinds = words.repeat_interleave(num_spellings, 0), torch.arange(12 * num_spellings) % num_spellings
    gold = torch.arange(0, 12 * num_spellings, num_spellings).unsqueeze(0)
    batch: Any = SimpleNamespace(gold=gold, is_whole_word=torch.ones(gold.shape, dtype=torch.bool))
    detector = PrototypeDetector(Given(words.unsqueeze(0)), table, kinds, 0.1, 8, annotates=annotates)
    _, tokens, acceptance = detector.propose(gold, gold, batch)
    assert (acceptance >= 0.5).sum(-1).tolist() == [[8] * 12]
    cosines = (words @ words.T).fill_diagonal_(-1)
    assert torch.equal(tokens // num_spellings, cosines.topk(8).indices.unsqueeze(0))


def test_nothing_is_listed_where_nothing_is_accepted() -> None:
    gold = torch.zeros(2, 3, dtype=torch.int64)
    batch: Any = SimpleNamespace(gold=gold, is_whole_word=torch.ones(2, 3, dtype=torch.bool))
    reader, kinds = Given(torch.zeros(2, 3, 8)), torch.zeros(40, dtype=torch.int64)
    found = PrototypeDetector(reader, torch.ones(40, 8), kinds, annotates=True).propose(gold, gold, batch)
    assert not found.acceptance.any()


class Given:
    """A reader that returns the vectors it was made with."""

    def __init__(self, vectors: torch.Tensor) -> None:
        self._vectors = vectors

    def __call__(self, batch: MaskedRows) -> torch.Tensor:
        return self._vectors

    def digest(self) -> str:
        return ""
