"""Annotations say of every token what the annotator said, wherever it stands; and what is not whole is refused."""

from __future__ import annotations

import io
import itertools
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from folders import MadeUpAnnotator, contents, judged
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_up_text import change_number, documents

from trueneg.corpus import annotate as writing
from trueneg.corpus.annotate import Accepted, write_annotations
from trueneg.corpus.annotations import Annotations, AnnotationsInfo, part_path, quantised
from trueneg.corpus.build import build_corpus
from trueneg.corpus.finish import finish
from trueneg.corpus.rows import RowBatch, RowIndex
from trueneg.corpus.store import Corpus
from trueneg.errors import CorpusError, Interrupted

LENGTH = 20


@pytest.fixture(scope="session")
def corpus(wordpiece: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both splits, in several shards."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("\n\n".join(documents(25, seed=1, longest=40)))
    build_corpus([str(folder / "text.txt")], wordpiece, folder / "corpus", shard_tokens=400, valid=0.2)
    return folder / "corpus"


@pytest.fixture(scope="session")
def train(corpus: Path) -> Corpus:
    return Corpus.open(corpus)


@pytest.fixture(scope="session")
def annotator(train: Corpus) -> MadeUpAnnotator:
    return MadeUpAnnotator(train.info.vocab_size)


@pytest.fixture(scope="session")
def written(corpus: Path, annotator: MadeUpAnnotator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("annotations") / "all"
    write_annotations(corpus, annotator, folder, length=LENGTH, batch_size=7)
    return folder


@pytest.fixture
def copy(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "copy"))


def expected_lists(corpus: Corpus, most: int = 255) -> list[list[tuple[int, int]]]:
    """For each token of a split the ids and stored credits it must have, worked out document by document."""
    lists = []
    for number in range(corpus.num_documents):
        for place, token in enumerate(corpus.document(number).tolist()):
            column = 1 + place % (LENGTH - 2)
            stored = [(-int(quantised(c)), i) for i, c in judged(token, column, corpus.info.vocab_size) if c > 0]
            lists.append([(i, -c) for c, i in sorted(stored)[:most]])
    return lists


def as_lists(ids: np.ndarray, credit: np.ndarray) -> list[list[tuple[int, int]]]:
    """Lists of each token out of [tokens, width], which end where there is no credit."""
    lists = []
    for tokens, credits in zip(ids.tolist(), credit.tolist(), strict=True):
        num = sum(c > 0 for c in credits)
        assert not any(credits[num:]) and not any(tokens[num:])
        lists.append(list(zip(tokens[:num], credits[:num], strict=True)))
    return lists


@pytest.fixture(scope="session")
def expected(train: Corpus) -> list[list[tuple[int, int]]]:
    return expected_lists(train)


@pytest.mark.parametrize("split", ["train", "valid"])
def test_every_token_has_what_the_annotator_accepted(corpus: Path, written: Path, split: str) -> None:
    opened = Corpus.open(corpus, split)
    annotations = Annotations.open(written, opened)
    annotations.verify()
    ids, credit = annotations.windows(np.arange(opened.num_tokens), 1)
    assert (ids.dtype, credit.dtype) == (np.int32, np.uint8)
    assert ids.shape == (opened.num_tokens, 1, annotations.width)
    lists = expected_lists(opened)
    assert as_lists(ids[:, 0], credit[:, 0]) == lists
    counts = annotations.counts
    assert len(opened.shards) > 1 or split == "valid"
    assert counts.num_annotated == counts.num_tokens == opened.num_tokens
    assert counts.num_pairs == sum(map(len, lists))
    assert counts.num_with_substitutes == sum(map(bool, lists))
    assert counts.num_left_out == 0
    assert annotations.width == max(split.most_found for split in annotations.info.splits.values()) == 7


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), width=st.integers(1, 300))
def test_windows_are_what_a_plain_loop_reads(
    data: st.DataObject, width: int, train: Corpus, written: Path, expected: list[list[tuple[int, int]]]
) -> None:
    starts = data.draw(st.lists(st.integers(0, train.num_tokens + 200), min_size=1, max_size=5))
    ids, credit = Annotations.open(written, train).windows(np.array(starts), width)
    for row, start in enumerate(starts):
        wanted = expected[start : start + width]
        assert as_lists(ids[row], credit[row]) == wanted + [[]] * (width - len(wanted))


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("length", [3, 10, LENGTH, 128])
def test_rows_carry_the_lists_of_their_tokens(
    train: Corpus, written: Path, expected: list[list[tuple[int, int]]], length: int, pack: bool
) -> None:
    """Rows in order hold the split's tokens in order, once each."""
    plain = RowIndex(train, length, pack=pack)
    rows = RowIndex(train, length, pack=pack, annotations=Annotations.open(written, train))
    batch = rows.read(np.arange(len(rows)))
    assert batch.substitutes is not None and batch.credits is not None
    assert batch.substitutes.shape == batch.credits.shape == (len(rows), length, 7)
    ordinary = ~batch.is_special
    assert as_lists(batch.substitutes[ordinary], batch.credits[ordinary]) == expected
    assert not batch.substitutes[batch.is_special].any() and not batch.credits[batch.is_special].any()
    without = plain.read(np.arange(len(rows)))
    assert without.substitutes is None and without.credits is None
    for name in ("input_ids", "segments", "is_word_start", "is_whole_word", "is_special"):
        np.testing.assert_array_equal(getattr(batch, name), getattr(without, name))
    shuffled = np.random.default_rng(0).permutation(len(rows))
    again = rows.read(shuffled)
    np.testing.assert_array_equal(again.substitutes, batch.substitutes[shuffled])
    np.testing.assert_array_equal(again.credits, batch.credits[shuffled])


def test_the_best_are_kept_and_the_rest_counted(corpus: Path, annotator: MadeUpAnnotator, tmp_path: Path) -> None:
    info = write_annotations(corpus, annotator, tmp_path / "out", length=LENGTH, most=3)
    for name, split in info.splits.items():
        opened = Corpus.open(corpus, name)
        annotations = Annotations.open(tmp_path / "out", opened)
        assert annotations.width == 3
        assert as_lists(*(part[0] for part in annotations.windows(np.zeros(1, int), opened.num_tokens))) == (
            expected_lists(opened, most=3)
        )
        assert split.num_left_out == sum(len(every) - len(every[:3]) for every in expected_lists(opened)) > 0


@given(st.lists(st.floats(0, 1, allow_nan=False), min_size=1))
def test_stored_credit_stays_on_its_side_of_a_half(credit: list[float]) -> None:
    stored = quantised(credit)
    exact, read = np.array(credit), stored / 255
    np.testing.assert_array_equal(read >= 0.5, exact >= 0.5)
    np.testing.assert_array_equal(read > 0, exact > 0)
    np.testing.assert_array_equal(read[exact == 1], 1)
    large = exact > 1 / 510
    assert (np.abs(read - exact)[large] <= 1 / 510 + 1e-12).all()
    assert (stored[~large & (exact > 0)] == 1).all()


def test_files_do_not_depend_on_the_batch(
    corpus: Path, annotator: MadeUpAnnotator, written: Path, tmp_path: Path
) -> None:
    told: list[int] = []
    write_annotations(corpus, annotator, tmp_path / "out", length=LENGTH, batch_size=1000, progress=told.append)
    assert contents(tmp_path / "out") == contents(written)
    assert sum(told) == Corpus.open(corpus).info.num_tokens


class Stop(Exception):
    """The end of a process, as far as its files can tell."""


@dataclass
class Breaking:
    """An annotator that fails at a batch."""

    annotator: MadeUpAnnotator
    at: int
    error: type[BaseException]
    calls: int = 0

    def __post_init__(self) -> None:
        self.detector, self.provenance = self.annotator.detector, self.annotator.provenance

    def __call__(self, batch: RowBatch) -> Accepted:
        self.calls += 1
        if self.calls > self.at:
            raise self.error
        return self.annotator(batch)


@pytest.mark.parametrize("at", [0, 1, 13, 40])
@pytest.mark.parametrize("error", [KeyboardInterrupt, Stop])
def test_a_broken_run_goes_on_where_it_was(
    corpus: Path,
    annotator: MadeUpAnnotator,
    written: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    at: int,
) -> None:
    out, breaking = tmp_path / "out", Breaking(annotator, at, error)
    if error is Stop:
        monkeypatch.setattr(writing, "_SAVE_SECONDS", -1.0 if at % 2 else 1e9)  # after each batch, or never
    with pytest.raises(Interrupted if error is KeyboardInterrupt else Stop):
        write_annotations(corpus, breaking, out, length=LENGTH, batch_size=3)
    with pytest.raises(CorpusError, match="is unfinished: run the same 'trueneg corpus annotate' again"):
        Annotations.open(out, Corpus.open(corpus))
    for path in out.rglob("*.bin"):  # what a process writes after its journal, it may have written in part
        path.write_bytes(path.read_bytes() + b"\x07")
    rest = Breaking(annotator, 1 << 30, Stop)
    write_annotations(corpus, rest, out, length=LENGTH, batch_size=3)
    assert contents(out) == contents(written)
    if error is KeyboardInterrupt or at % 2:
        total = Breaking(annotator, 1 << 30, Stop)
        write_annotations(corpus, total, tmp_path / "whole", length=LENGTH, batch_size=3)
        assert rest.calls == total.calls - at


@pytest.mark.parametrize("number", range(7))
def test_an_interruption_between_files_leaves_what_was_done_before(
    number: int,
    corpus: Path,
    annotator: MadeUpAnnotator,
    written: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Wherever in a batch: after one file is written and before the next one is."""
    calls, opened = itertools.count(), Path.open

    class Torn(io.FileIO):
        def write(self, data: Any) -> int:
            if next(calls) == number:
                raise KeyboardInterrupt
            return super().write(data)

    def torn(path: Path, mode: str = "r", *others: Any, **options: Any) -> Any:
        return Torn(path, "r+") if path.suffix == ".bin" and mode == "r+b" else opened(path, mode, *others, **options)

    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(Path, "open", torn)
        write_annotations(corpus, annotator, tmp_path / "out", length=LENGTH, batch_size=3)
    write_annotations(corpus, annotator, tmp_path / "out", length=LENGTH, batch_size=3)
    assert contents(tmp_path / "out") == contents(written)


def test_parts_are_not_put_into_the_folder_of_something_else(
    corpus: Path, annotator: MadeUpAnnotator, tmp_path: Path
) -> None:
    before = contents(corpus)
    with pytest.raises(CorpusError, match="holds a finished corpus: choose another --out"):
        write_annotations(corpus, annotator, corpus, length=LENGTH, part="1/2")
    assert contents(corpus) == before


@pytest.mark.parametrize("part", ["counts", "substitutes", "credits"])
def test_a_journal_of_files_that_are_gone_is_not_trusted(
    corpus: Path, annotator: MadeUpAnnotator, written: Path, tmp_path: Path, part: str
) -> None:
    out = tmp_path / "out"
    with pytest.raises(Interrupted):
        write_annotations(corpus, Breaking(annotator, 5, KeyboardInterrupt), out, length=LENGTH, batch_size=7)
    path = part_path(out, "train", part)
    path.write_bytes(path.read_bytes()[:-1])
    before = contents(out)
    with pytest.raises(CorpusError, match=rf"train/{part}\.bin' is damaged .*--overwrite"):
        write_annotations(corpus, annotator, out, length=LENGTH)
    assert contents(out) == before
    write_annotations(corpus, annotator, out, length=LENGTH, overwrite=True)
    assert contents(out) == contents(written)


@pytest.mark.parametrize("part", ["counts", "substitutes", "credits"])
def test_a_damaged_file_of_an_unfinished_run_is_refused(
    corpus: Path, annotator: MadeUpAnnotator, written: Path, tmp_path: Path, part: str
) -> None:
    out = tmp_path / "out"
    with pytest.raises(Interrupted):
        write_annotations(corpus, Breaking(annotator, 5, KeyboardInterrupt), out, length=LENGTH, batch_size=7)
    path = part_path(out, "train", part)
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
    with pytest.raises(CorpusError, match=rf"train/{part}\.bin' is damaged .*--overwrite"):
        write_annotations(corpus, annotator, out, length=LENGTH)
    write_annotations(corpus, annotator, out, length=LENGTH, overwrite=True)
    assert contents(out) == contents(written)


@pytest.mark.parametrize("field", ["num_rows", "num_annotated", "num_with_substitutes", "num_left_out", "most_found"])
def test_a_changed_count_of_the_journal_is_not_believed(
    corpus: Path, annotator: MadeUpAnnotator, tmp_path: Path, field: str
) -> None:
    out = tmp_path / "out"
    with pytest.raises(Interrupted):
        write_annotations(corpus, Breaking(annotator, 5, KeyboardInterrupt), out, length=LENGTH, batch_size=7)
    change_number(out / "annotating.json", field)
    with pytest.raises(CorpusError, match=r"annotating\.json' was changed after it was written: .*--overwrite"):
        write_annotations(corpus, annotator, out, length=LENGTH)


def test_a_kill_in_the_first_write_blocks_nothing(
    corpus: Path, annotator: MadeUpAnnotator, written: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "annotating.json.part").write_text("{")
    write_annotations(corpus, annotator, tmp_path / "out", length=LENGTH)
    assert contents(tmp_path / "out") == contents(written)


@pytest.mark.parametrize(
    ("begun", "told"),
    [
        ({"most": 16}, r"unfinished annotations of other inputs \(most: 16 -> 32\): .*--out"),
        ({"length": 12}, r"other inputs \(length: 12 -> 20\)"),
        ({"splits": ["valid"]}, r"other inputs \(splits\.train\.num_tokens: None -> \d+; "),
        ({"detector": "other"}, r"other inputs \(detector: other -> made-up\)"),
        ({"torn": True}, r"annotating\.json' is damaged: it is no JSON"),
    ],
)
def test_unfinished_work_of_another_kind_is_kept_unless_it_may_be_overwritten(
    corpus: Path,
    annotator: MadeUpAnnotator,
    written: Path,
    tmp_path: Path,
    begun: dict[str, object],
    told: str,
) -> None:
    out, options = tmp_path / "out", {"length": LENGTH, "detector": annotator.detector, "torn": False} | begun
    other, torn = replace(annotator, detector=str(options.pop("detector"))), options.pop("torn")
    with pytest.raises(Interrupted):
        write_annotations(corpus, Breaking(other, 3, KeyboardInterrupt), out, batch_size=7, **options)  # type: ignore[arg-type]
    if torn:
        (out / "annotating.json").write_text('{"corpus": ')
    before = contents(out)
    with pytest.raises(CorpusError, match=rf"{told}.*--overwrite"):
        write_annotations(corpus, annotator, out, length=LENGTH)
    assert contents(out) == before
    write_annotations(corpus, annotator, out, length=LENGTH, overwrite=True)
    assert contents(out) == contents(written)


def test_finished_annotations_are_replaced_only_when_asked(
    corpus: Path, annotator: MadeUpAnnotator, copy: Path
) -> None:
    before = contents(copy)
    with pytest.raises(CorpusError, match=r"holds the finished annotations: choose another --out, or pass --overwrite"):
        write_annotations(corpus, annotator, copy, length=LENGTH)
    assert contents(copy) == before
    (copy / "mine").mkdir()
    (copy / "mine" / "thesis.tex").write_text("dear")
    write_annotations(corpus, annotator, copy, length=LENGTH, most=1, overwrite=True)
    assert AnnotationsInfo.read(copy).most == 1
    assert (copy / "mine" / "thesis.tex").exists()


def test_a_folder_that_holds_something_else_is_left_alone(
    corpus: Path, annotator: MadeUpAnnotator, tmp_path: Path
) -> None:
    (tmp_path / "thesis.tex").write_text("dear")
    with pytest.raises(CorpusError, match="is not empty and holds no annotations"):
        write_annotations(corpus, annotator, tmp_path)
    assert contents(tmp_path) == {"thesis.tex": b"dear"}


def test_a_part_of_the_corpus(corpus: Path, train: Corpus, annotator: MadeUpAnnotator, tmp_path: Path) -> None:
    info = write_annotations(corpus, annotator, tmp_path / "out", length=LENGTH, batch_size=4, max_rows=10)
    rows = RowIndex(train, LENGTH)
    num_tokens = int((~rows.read(np.arange(10)).is_special).sum())
    split = info.splits["train"]
    assert (split.num_rows, split.num_annotated) == (10, num_tokens)
    assert split.share == num_tokens / train.num_tokens
    assert info.share == sum(s.num_annotated for s in info.splits.values()) / train.info.num_tokens
    annotations = Annotations.open(tmp_path / "out", train)
    ids, credit = annotations.windows(np.zeros(1, dtype=np.int64), train.num_tokens)
    wanted = expected_lists(train)[:num_tokens]
    assert as_lists(ids[0], credit[0]) == wanted + [[]] * (train.num_tokens - num_tokens)


def test_one_split_only(corpus: Path, annotator: MadeUpAnnotator, tmp_path: Path) -> None:
    write_annotations(corpus, annotator, tmp_path / "out", splits=["valid"])
    Annotations.open(tmp_path / "out", Corpus.open(corpus, "valid"))
    with pytest.raises(CorpusError, match="does not annotate the split 'train' of its corpus, only valid"):
        Annotations.open(tmp_path / "out", Corpus.open(corpus, "train"))
    with pytest.raises(CorpusError, match="has no split 'test'"):
        write_annotations(corpus, annotator, tmp_path / "other", splits=["test"])


@dataclass(frozen=True)
class Saying:
    """An annotator that answers as it is told."""

    answer: Callable[[RowBatch], Accepted]
    detector: str = "saying"
    provenance: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, batch: RowBatch) -> Accepted:
        return self.answer(batch)


def pair(row: int, column: int, substitute: int, credit: float, times: int = 1) -> Accepted:
    return Accepted(*(np.full(times, value) for value in (row, column, substitute)), np.full(times, credit))


def test_an_annotator_that_accepts_nothing(corpus: Path, train: Corpus, tmp_path: Path) -> None:
    """Credit 0 is no more than not being listed."""
    write_annotations(corpus, Saying(lambda batch: pair(0, 1, 9, 0.0, times=2)), tmp_path / "out")
    annotations = Annotations.open(tmp_path / "out", train)
    annotations.verify()
    assert annotations.counts.num_pairs == annotations.counts.num_with_substitutes == 0
    ids, credit = annotations.windows(np.arange(0, train.num_tokens, 50), 60)
    assert ids.shape[-1] == 1 and not ids.any() and not credit.any()


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (lambda batch: pair(0, 0, 9, 1.0), "of a special token"),
        (lambda batch: pair(0, 1, int(batch.input_ids[0, 1]), 1.0), "a substitute of itself"),
        (lambda batch: pair(0, 1, (int(batch.input_ids[0, 1]) + 1) % 100, 1.0, times=2), "twice"),
        (lambda batch: pair(0, 1, 9, 1.01), "outside"),
        (lambda batch: pair(0, 1, 9, -0.01), "outside"),
        (lambda batch: pair(0, 1, 9, float("nan")), "outside"),
        (lambda batch: pair(0, 1, 70_000, 1.0), "vocabulary"),
        (lambda batch: pair(0, 1, -1, 1.0), "vocabulary"),
    ],
)
def test_an_annotator_that_says_what_it_must_not(
    corpus: Path, tmp_path: Path, answer: Callable[[RowBatch], Accepted], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        write_annotations(corpus, Saying(answer), tmp_path / "out")


@pytest.mark.parametrize("options", [{"most": 0}, {"most": 256}, {"batch_size": 0}, {"max_rows": 0}, {"length": 2}])
def test_limits(corpus: Path, annotator: MadeUpAnnotator, tmp_path: Path, options: dict[str, int]) -> None:
    with pytest.raises(CorpusError, match=r"between 1 and 255|at least 1|at least 3"):
        write_annotations(corpus, annotator, tmp_path / "out", **options)  # type: ignore[arg-type]


def test_a_split_that_fills_no_row(wordpiece: Path, annotator: MadeUpAnnotator, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the river walked")
    build_corpus([str(tmp_path / "text.txt")], wordpiece, tmp_path / "corpus")
    info = write_annotations(tmp_path / "corpus", annotator, tmp_path / "out")
    assert info.splits["train"].share == 1


def test_annotations_of_another_corpus(text_file: Path, wordpiece: Path, written: Path, tmp_path: Path) -> None:
    build_corpus([str(text_file)], wordpiece, tmp_path / "corpus", valid=0.3)
    other = Corpus.open(tmp_path / "corpus")
    with pytest.raises(CorpusError, match=rf"annotates another corpus .*{other.info.fingerprint}"):
        Annotations.open(written, other)


def test_rows_of_another_split_or_corpus(corpus: Path, train: Corpus, written: Path) -> None:
    annotations = Annotations.open(written, train)
    with pytest.raises(CorpusError, match="was opened for the split 'train', not for 'valid'"):
        RowIndex(Corpus.open(corpus, "valid"), 20, annotations=annotations)
    foreign = replace(annotations, info=replace(annotations.info, corpus="0" * 16))
    with pytest.raises(CorpusError, match="annotates another corpus"):
        RowIndex(train, 20, annotations=foreign)


def test_no_annotations(train: Corpus, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"no annotations at .*: make them with 'trueneg corpus annotate'"):
        Annotations.open(tmp_path, train)


@pytest.mark.parametrize("count", [1, 3, 60])
def test_parts_give_the_files_of_one_run(
    corpus: Path, annotator: MadeUpAnnotator, written: Path, tmp_path: Path, count: int
) -> None:
    """Of 60 parts some have few rows, or none."""
    out = tmp_path / "out"
    for number in reversed(range(1, count + 1)):
        write_annotations(corpus, annotator, out, length=LENGTH, batch_size=5, part=f"{number}/{count}", verify=False)
    with pytest.raises(CorpusError, match="is in parts: run 'trueneg corpus finish"):
        Annotations.open(out, Corpus.open(corpus))
    info = finish(out)
    assert contents(out) == contents(written)
    assert finish(out) == info
    with pytest.raises(CorpusError, match="holds the finished annotations"):
        write_annotations(corpus, annotator, out, length=LENGTH, part="1/2")


def test_a_broken_part_goes_on_where_it_was(
    corpus: Path, annotator: MadeUpAnnotator, written: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(Interrupted):
        write_annotations(
            corpus, Breaking(annotator, 5, KeyboardInterrupt), out, length=LENGTH, batch_size=3, part="2/2"
        )
    write_annotations(corpus, annotator, out, length=LENGTH, part="1/2")
    with pytest.raises(CorpusError, match=r"1 of 2 pieces are missing .* the first is that of '2/2'"):
        finish(out)
    rest, total = Breaking(annotator, 1 << 30, Stop), Breaking(annotator, 1 << 30, Stop)
    write_annotations(corpus, rest, out, length=LENGTH, batch_size=3, part="2/2")
    write_annotations(corpus, total, tmp_path / "other", length=LENGTH, batch_size=3, part="2/2")
    assert rest.calls == total.calls - 5
    write_annotations(corpus, Breaking(annotator, 0, Stop), out, length=LENGTH, part="1/2")  # done: not called
    finish(out)
    assert contents(out) == contents(written)


def test_parts_of_other_annotations_are_refused(corpus: Path, annotator: MadeUpAnnotator, tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    write_annotations(corpus, annotator, out, length=LENGTH, part="1/2")
    for options in ({"part": "2/3"}, {"part": "2/2", "most": 3}, {"part": "2/2", "max_rows": 4}):
        with pytest.raises(CorpusError, match="holds parts made otherwise"):
            write_annotations(corpus, annotator, out, length=LENGTH, **options)  # type: ignore[arg-type]
    write_annotations(corpus, annotator, other, length=LENGTH, most=3, part="2/2")
    shutil.copytree(other / "parts" / "00002", out / "parts" / "00002")
    with pytest.raises(CorpusError, match=r"00002' was made otherwise \(most: 32 -> 3\)"):
        finish(out)
    shutil.rmtree(out / "parts" / "00002")
    write_annotations(corpus, annotator, out, length=LENGTH, part="2/2")
    path = out / "parts" / "00002" / "train" / "credits.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorpusError, match=r"credits\.bin' is missing or damaged: remove"):
        finish(out)
    with pytest.raises(CorpusError, match="--overwrite with --part"):
        write_annotations(corpus, annotator, out, length=LENGTH, part="2/2", overwrite=True)
