"""Looked up at the very position: what is written of a corpus is what training sees of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import tiny
from trueneg.corpus.annotate import write_annotations
from trueneg.corpus.annotations import Annotations, AnnotationsInfo
from trueneg.corpus.build import build_corpus
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.corruption.rows import MaskedRows, Rows, Substitutes, read_rows
from trueneg.detectors.annotated import AnnotatedDetector, make_detector, without_folders
from trueneg.detectors.annotator import DetectorAnnotator
from trueneg.detectors.specification import Leaf, Resources
from trueneg.detectors.table import TableDetector
from trueneg.errors import ConfigError, CorpusError, ModelError
from trueneg.lexicon.table import LookupTable
from trueneg.objectives.correction import HardCorrection
from trueneg.objectives.mlm import MaskedLM
from trueneg.objectives.rtd import ReplacedTokenDetection

LENGTH, WIDTH = 16, 4


def annotated_rows(pieces: list[list[int]], seed: int = 0) -> Rows:
    """Random rows with random lists at ordinary tokens, none to all of ``WIDTH`` long, without repeats."""
    rows, random = tiny.make_rows(pieces, LENGTH, seed), np.random.default_rng(seed)
    shape = (*rows.input_ids.shape, WIDTH)
    tokens = random.permuted(np.tile(np.arange(tiny.VOCAB_SIZE), (*shape[:2], 1)), axis=2)[..., :WIDTH]
    listed = (np.arange(WIDTH) < random.integers(0, WIDTH + 1, (*shape[:2], 1))) & ~rows.is_special.numpy()[..., None]
    credit = -np.sort(-random.integers(1, 256, shape), axis=2) * listed
    lists = Substitutes(torch.from_numpy((tokens * listed).astype(np.int32)), torch.from_numpy(credit.astype(np.uint8)))
    return replace(rows, substitutes=lists)


PIECES = {"plain": [[14], [9], [4], [0], [1], [12]], "packed": [[5, 3, 2], [14], [2, 8], [1, 1, 1]]}


@pytest.mark.parametrize("kind", PIECES)
def test_credit_and_substitutes_are_those_of_a_plain_loop(kind: str) -> None:
    batch = tiny.make_masking(rate=0.5)(annotated_rows(PIECES[kind]))
    lists = batch.rows.substitutes
    assert lists is not None
    tokens, credit = AnnotatedDetector().propose(batch.gold, batch.gold, batch)[1:]
    assert (tokens.dtype, credit.dtype) == (torch.int64, torch.float32)
    num_listed = 0
    for row, slot in np.ndindex(*batch.gold.shape):
        at = (row, int(batch.positions[row, slot]))
        wanted = {int(t): int(c) / 255 for t, c in zip(lists.tokens[at], lists.credit[at], strict=True) if c >= 128}
        num_listed += len(wanted)
        own = zip(tokens[row, slot].tolist(), credit[row, slot].tolist(), strict=True)
        assert {t: c for t, c in own if c > 0} == pytest.approx(wanted)
        assert tokens[row, slot][lists.credit[at] == 0].eq(batch.gold[row, slot]).all()
    assert num_listed > 25
    for token in range(tiny.VOCAB_SIZE + 1):  # one beyond the tokenizer: a model's padded output row
        predicted = torch.full_like(batch.gold, token)
        found = AnnotatedDetector().credit(batch.gold, predicted, batch)
        assert found.dtype == torch.float32
        is_it = tokens == token
        # The token stands in for gold at an empty place of a list, where its credit is 0.
        assert torch.equal(found, (credit * is_it).amax(-1))


def test_full_credit_is_one_and_a_half_is_a_half() -> None:
    """Where a correction draws its line."""
    rows = tiny.make_rows([[LENGTH - 2]], LENGTH)
    credit = torch.zeros((1, LENGTH, 3), dtype=torch.uint8)
    credit[:] = torch.tensor([255, 128, 127])
    tokens = torch.tensor([290, 291, 292], dtype=torch.int32).expand(1, LENGTH, 3)
    batch = tiny.make_masking(rate=0.3)(replace(rows, substitutes=Substitutes(tokens, credit)))
    found = [
        AnnotatedDetector().credit(batch.gold, torch.full_like(batch.gold, token), batch) for token in (290, 291, 292)
    ]
    assert (found[0] == 1).all()
    assert (found[1] >= 0.5).all()
    assert (found[2] == 0).all()


@pytest.mark.parametrize("kind", PIECES)
def test_compiled_without_a_break(kind: str) -> None:
    detector = AnnotatedDetector()
    batch = tiny.make_masking(rate=0.5)(annotated_rows(PIECES[kind]))
    predicted = batch.gold.roll(1, dims=1)

    def both(gold: Tensor, predicted: Tensor, batch: MaskedRows) -> tuple[Tensor, Tensor, Tensor]:
        return detector.credit(gold, predicted, batch), *detector.propose(gold, predicted, batch)[1:]

    compiled = torch.compile(both, backend="eager", fullgraph=True)
    for ours, theirs in zip(compiled(batch.gold, predicted, batch), both(batch.gold, predicted, batch), strict=True):
        assert torch.equal(ours, theirs)


def test_a_threshold_moves_to_a_half_and_what_is_below_has_no_credit() -> None:
    batch = tiny.make_masking(rate=0.5)(annotated_rows(PIECES["plain"]))
    lists = batch.rows.substitutes
    assert lists is not None
    tokens = AnnotatedDetector().propose(batch.gold, batch.gold, batch).tokens
    row = torch.arange(len(batch.positions)).unsqueeze(1)
    stored = lists.credit[row, batch.positions].float() / 255
    for threshold in (0.0, 0.25, 0.8, 1.0):
        others, credit = AnnotatedDetector(threshold=threshold).propose(batch.gold, batch.gold, batch)[1:]
        assert torch.equal(others, tokens)
        assert torch.equal(credit > 0, (stored > 0) & (stored >= threshold))
        assert (credit[credit > 0] >= 0.5).all()
        assert ((credit >= 0) & (credit <= 1)).all()


def test_rows_without_annotations() -> None:
    batch = tiny.padded_batch()
    for ask in (AnnotatedDetector().credit, AnnotatedDetector().propose):
        with pytest.raises(ConfigError, match="the detector 'annotated' needs rows of an annotated corpus"):
            ask(batch.gold, batch.gold, batch)


def test_lists_go_where_their_rows_go() -> None:
    rows = annotated_rows(PIECES["plain"])
    lists = tiny.select(rows, [3, 1]).to("meta").substitutes
    assert lists is not None
    assert {t.device.type for t in (lists.tokens, lists.credit)} == {"meta"}
    assert lists.tokens.shape == lists.credit.shape == (2, LENGTH, WIDTH)


WORDS = [f"word{number}" for number in range(60)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty words at random, several documents a shard."""
    folder, random = tmp_path_factory.mktemp("corpus"), np.random.default_rng(3)
    documents = [" ".join(random.choice(WORDS, random.integers(1, 60))) for _ in range(60)]
    (folder / "text.txt").write_text("\n\n".join(documents))
    tiny.make_tokenizer().save_pretrained(str(folder / "tok"))
    build_corpus([str(folder / "text.txt")], folder / "tok", folder / "corpus", shard_tokens=500)
    return folder / "corpus"


@pytest.fixture(scope="module")
def table() -> LookupTable:
    random = np.random.default_rng(4)
    pairs = random.integers(5, 65, (400, 2)).tolist()
    return tiny.make_table((gold, other) for gold, other in pairs if gold != other)


@pytest.fixture(scope="module")
def written(corpus: Path, table: LookupTable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("annotations") / "out"
    detector = TableDetector(table)
    info = write_annotations(
        corpus, DetectorAnnotator(detector, "lexical"), folder, most=detector.max_substitutes, length=32
    )
    assert info.splits["train"].num_left_out == 0
    assert info.splits["train"].most_found == detector.max_substitutes
    return folder


def made(folder: Path | str, threshold: float | None = None, vocab_size: int = tiny.VOCAB_SIZE) -> AnnotatedDetector:
    leaf = Leaf("annotated", str(folder), threshold=threshold, text=f"annotated:{folder}")
    return make_detector(leaf, tiny.make_tokenizer(vocab_size), Resources())


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("length", [10, 32, 64])
def test_a_table_written_down_is_the_table(
    corpus: Path, table: LookupTable, written: Path, length: int, pack: bool
) -> None:
    """Credit, substitutes and losses are bit for bit those of the lexical detector, in rows of any length."""
    opened = Corpus.open(corpus)
    rows = RowIndex(opened, length, pack=pack, annotations=Annotations.open(written, opened))
    numbers = np.arange(len(rows))
    lexical, annotated = TableDetector(table), made(written)
    num_credited = 0
    for seed in range(3):
        batch = tiny.make_masking(rate=0.3)(read_rows(rows, numbers, seed, numbers))
        predicted = torch.from_numpy(np.random.default_rng(seed).integers(5, 65, batch.gold.shape))
        credit = lexical.credit(batch.gold, predicted, batch)
        assert torch.equal(annotated.credit(batch.gold, predicted, batch)[batch.is_masked], credit[batch.is_masked])
        num_credited += int(credit[batch.is_masked].sum())
        for ours, theirs in zip(
            annotated.propose(batch.gold, predicted, batch)[1:],
            lexical.propose(batch.gold, predicted, batch)[1:],
            strict=True,
        ):
            assert torch.equal(ours[batch.is_masked], theirs[batch.is_masked])
    assert num_credited > 50
    for use in ("drop", "soft_targets", "marginal"):
        outcomes = []
        for detector in (lexical, annotated):
            generator = MaskedLM(tiny.make_masking(), HardCorrection(detector, use), prediction="sampled")
            batch = generator.corrupt(read_rows(rows, numbers[:8], 0, numbers[:8]))
            outcomes.append(ReplacedTokenDetection(generator)(tiny.make_electra(), batch))
        assert outcomes[0].terms == outcomes[1].terms
        assert outcomes[0].stats == outcomes[1].stats


def test_what_it_says_of_itself(written: Path, table: LookupTable) -> None:
    detector = made(written)
    assert detector.provenance == {
        "threshold": "0.5",
        "annotations": AnnotationsInfo.read(written).fingerprint,
        "annotator": "lexical",
        **table.provenance,
    }
    assert not detector.state_dict()


def test_where_annotations_lie_is_no_part_of_a_detector() -> None:
    for first, second in (("notes", "notes-books"), ("notes-books", "notes"), ("/a/notes", '"/b/R & D"')):
        assert without_folders(f"annotated:{first}@0.6 | annotated: {second}@0.6") == "annotated:@0.6 | annotated:@0.6"


def test_annotations_that_cannot_be_used(written: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"are of tokenizer .*: annotate a corpus of this tokenizer"):
        made(written, vocab_size=200)
    with pytest.raises(CorpusError, match="no annotations at"):
        made(tmp_path)
    with pytest.raises(ConfigError, match="say what it is made from, as annotated:FOLDER"):
        made("")
