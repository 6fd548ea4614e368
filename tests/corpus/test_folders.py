"""A corpus, its tags and its annotations are whole and what was written, or refused by file and remedy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from folders import KINDS, Change, Kind, MadeUpAnnotator, Record
from made_up_text import documents

from trueneg.corpus.annotate import write_annotations
from trueneg.corpus.build import build_corpus
from trueneg.errors import CorpusError

REMEDY = {
    "corpus": r"build.* the corpus again",
    "tags": "build it again with --tag --overwrite",
    "annotations": "annotate the corpus again",
}
PARTS = [(name, part) for name, kind in KINDS.items() for part in kind.files]


@pytest.fixture(scope="module")
def written(wordpiece: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagged corpus and annotations of it."""
    folder = tmp_path_factory.mktemp("written")
    (folder / "text.txt").write_text("\n\n".join(documents(25, seed=1, longest=40)))
    info = build_corpus(
        [str(folder / "text.txt")], wordpiece, folder / "corpus", shard_tokens=400, valid=0.2, tagger="pattern-fast"
    )
    write_annotations(folder / "corpus", MadeUpAnnotator(info.vocab_size), folder / "annotations", length=20)
    return folder


class Copy:
    """A copy of one of the folders, to be damaged."""

    def __init__(self, name: str, written: Path, to: Path) -> None:
        self.kind: Kind = KINDS[name]
        self.remedy, self.corpus = REMEDY[name], written / "corpus"
        self.folder = Path(shutil.copytree(written / ("corpus" if name == "tags" else name), to / "copy"))

    def open(self, *, verify: bool = True) -> None:
        """Open it; what is not verified then is verified right after."""
        opened = self.kind.open(self.folder, self.corpus, verify)
        if not verify:
            opened.verify()

    def refused(self, message: str, *, verify: bool = True) -> None:
        with pytest.raises(CorpusError, match=rf"{message}.*{self.remedy}"):
            self.open(verify=verify)


@pytest.fixture
def copy(request: pytest.FixtureRequest, written: Path, tmp_path: Path) -> Copy:
    return Copy(request.getfixturevalue("name"), written, tmp_path)


@pytest.mark.parametrize(("name", "part"), PARTS)
def test_short_missing_and_changed_files_are_refused(copy: Copy, name: str, part: str) -> None:
    copy.open()
    file = copy.folder / "train" / copy.kind.files[part]
    whole = file.read_bytes()
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 1
    file.write_bytes(changed)
    for verify in (True, False):  # as it is opened, or when verify() is called
        copy.refused(rf"train/{file.name}' is damaged", verify=verify)
    file.write_bytes(whole[:-1])
    copy.refused(rf"train/{file.name}' has {len(whole) - 1:,} bytes, not {len(whole):,}", verify=False)
    file.unlink()
    copy.refused(rf"train/{file.name}' is missing", verify=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 99}, "format version 99, not 1"),
        ({"fingerprint": "0" * 16}, "changed after it was written"),
        ({"splits": 3}, "damaged"),
        ({"surprise": 3}, "damaged"),
        *((text, "damaged") for text in ("", "[]", '{"format_version": 1}', "{")),
    ],
)
@pytest.mark.parametrize("name", KINDS)
def test_torn_changed_and_other_descriptions_are_refused(
    copy: Copy, name: str, change: Record | str, message: str
) -> None:
    path = copy.folder / copy.kind.info
    path.write_text(change if isinstance(change, str) else json.dumps(json.loads(path.read_text()) | change))
    copy.refused(message)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("corpus", "vocab_size", 7),
        ("tags", "tagger", "better"),
        ("annotations", "detector", "better"),
        ("annotations", "corpus", "0" * 16),
    ],
)
def test_any_field_that_was_changed_is_noticed(copy: Copy, name: str, field: str, value: object) -> None:
    path = copy.folder / copy.kind.info
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    copy.refused("changed after it was written")


IMPOSSIBLE: dict[str, list[tuple[Change, str]]] = {
    "corpus": [
        (lambda r: r.update(dtype="O"), "dtype"),
        (lambda r: r.update(dtype="float64"), "dtype"),
        (lambda r: r.update(dtype=None), "dtype"),
        (lambda r: r["splits"].update({"../../out": r["splits"]["train"]}), "splits"),
        (lambda r: r["splits"].pop("train"), "train"),
        (lambda r: r["splits"]["train"].update(shards={}), "splits.train.shards"),
        (lambda r: r["splits"]["train"].update(num_documents="9"), "splits.train.num_documents"),
        (lambda r: r["splits"]["train"]["shards"][0].pop("num_tokens"), "num_tokens"),
        (lambda r: r["splits"]["train"]["shards"][0].update(num_tokens=-1), "tokens"),
        (lambda r: r["splits"]["train"].update(num_tokens=r["splits"]["train"]["num_tokens"] + 1), "num_tokens"),
        (lambda r: r["splits"]["train"]["shards"][0]["checksums"].pop("words"), "checksums"),
        (lambda r: r["splits"]["train"]["shards"][0]["checksums"].update({"../words": ""}), "checksums"),
        (lambda r: r.update(vocab_size=2), "vocabulary"),
        (lambda r: r.update(special_ids={}), "special token"),
        (lambda r: r.update(special_ids=[]), "special_ids"),
        (lambda r: r.update(sources=[{"name": 3, "num_bytes": None}]), "sources.0.name"),
    ],
    "tags": [
        (lambda r: r["splits"].update({"../out": r["splits"]["train"]}), "splits"),
        (lambda r: r["splits"].update(train=[]), "lacks shards"),
        (lambda r: r.update(splits={}), "lacks shards"),
        (lambda r: r["splits"]["train"][0].update(num_words="9"), "splits.train.0.num_words"),
        (lambda r: r["splits"]["train"][0]["checksums"].pop("tags"), "checksums"),
        (lambda r: r.update(provenance=["textblob"]), "provenance"),
        (lambda r: r.update(is_uncased=1), "is_uncased"),
    ],
    "annotations": [
        (lambda r: r.update(dtype="O"), "dtype"),
        (lambda r: r["splits"].update({"../out": r["splits"]["train"]}), "splits"),
        (lambda r: r.update(splits={}), "split"),
        (lambda r: r.update(most="32"), "most"),
        (lambda r: r.update(most=10**9), "at most 1000000000"),
        (lambda r: r["splits"]["train"].update(most_found=10**9), "1000000000 substitutes"),
        (lambda r: r["splits"]["train"].update(num_annotated=-1), "-1 of"),
        (lambda r: r["splits"]["train"].update(num_tokens=10**9), "1,000,000,000 tokens"),
        (lambda r: r["splits"]["train"]["checksums"].pop("blocks"), "checksums"),
    ],
}


@pytest.mark.parametrize(
    ("name", "change", "named"), [(name, *case) for name, cases in IMPOSSIBLE.items() for case in cases]
)
def test_descriptions_that_cannot_be_true_are_refused(copy: Copy, name: str, change: Change, named: str) -> None:
    copy.kind.describe(copy.folder)
    copy.open()
    copy.kind.describe(copy.folder, change)
    copy.refused(rf"{copy.kind.info}' is damaged.*{named}", verify=False)


@pytest.mark.parametrize(
    ("name", "part", "dtype", "value", "named"),
    [
        ("corpus", "tokens", np.uint16, 60_000, "the id 60000"),
        ("tags", "tags", np.uint8, 200, "there is no tag 200"),
        ("annotations", "counts", np.uint8, 255, "more than"),
        ("annotations", "counts", np.uint8, 0, "follow from the counts"),
        ("annotations", "blocks", np.int64, 10**9, "follow from the counts"),
        ("annotations", "substitutes", np.uint16, 60_000, "the id 60000"),
    ],
)
def test_numbers_that_cannot_be_true_are_refused(
    copy: Copy, name: str, part: str, dtype: type, value: int, named: str
) -> None:
    file = copy.folder / "train" / copy.kind.files[part]
    values = np.fromfile(file, dtype=dtype)
    values[np.flatnonzero(values)[3]] = value
    values.tofile(file)
    copy.kind.describe(copy.folder)
    copy.refused(rf"\.bin' is damaged \(.*{named}")
