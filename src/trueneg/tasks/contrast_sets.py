"""Contrast sets: test examples with revisions that change little of the text but, mostly, the answer.

Accuracy is reported on the *originals* and on the *revised* examples, and how often a model is right throughout: on
*pairs* (an original and one revision: this fits CLINE's figures for BoolQ and SNLI, Wang et al. 2021, Table 4) and on
*groups* (an original and all its revisions: contrast consistency as defined by Gardner et al. 2020, §2.4).

============  ==============================================  ======================================================
task          looked for in the data folder                   groups of the test set as released
============  ==============================================  ======================================================
imdb          ``contrast-sets/IMDb/data/``, then              488, each a review and a revision
              ``counterfactually-augmented-data/sentiment/``
boolq         ``contrast-sets/BoolQ/``                        69 questions, 335 revisions (none for one question)
perspectrum   ``contrast-sets/perspectrum/``                  217 claims with a perspective that takes a stance
snli          ``counterfactually-augmented-data/NLI/``        400, each a pair of sentences and 4 revisions
============  ==============================================  ======================================================

Sources: Gardner et al. 2020 (contrast-sets), Kaushik et al. 2020 (counterfactually-augmented-data).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from trueneg.errors import ConfigError, TaskError, unknown_name
from trueneg.tasks.base import Split
from trueneg.tasks.records import MALFORMED_SHARE, Records, listing, read_json, read_records
from trueneg.tasks.text import TextExample, fingerprint, plain_review

LABELS: Mapping[str, tuple[str, ...]] = {
    "imdb": ("negative", "positive"),
    "boolq": ("false", "true"),
    "perspectrum": ("undermine", "support"),
    "snli": ("contradiction", "entailment", "neutral"),
}
"""Task to its labels: class ``i`` is the ``i``-th, as in the task."""


@dataclass(frozen=True)
class ContrastSet:
    """Original examples and their revisions; an original and its revisions have the same ``group``."""

    task: str
    """The task it belongs to."""
    source: Path
    """Folder of the files."""
    original: Split[TextExample]
    revised: Split[TextExample]
    clusters: Mapping[str, str] = field(default_factory=dict)
    """Group to the larger cluster that a bootstrap draws as a whole, if there is one: a claim with several
    perspectives."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels in the order of their numbers."""
        return LABELS[self.task]

    @property
    def counts(self) -> dict[str, int]:
        """Sum of both splits' counts."""
        return dict(Counter(self.original.counts) + Counter(self.revised.counts))


@dataclass(frozen=True)
class _Row:
    """An original and its revisions, as texts with labels."""

    group: str
    texts: tuple[str, str | None]
    label: str
    revisions: Sequence[tuple[tuple[str, str | None], str]]
    cluster: str | None = None


_Rows = tuple[list[_Row], dict[str, int]]


def read_contrast_set(task: str, data: str | Path, split: str = "test") -> ContrastSet:
    """Read a task's contrast set.

    Args:
        task: One of ``CONTRAST_SETS``.
        data: The set's folder, or one that contains it. If it contains several of the task's sets, the first in the
            table above is read.
        split: ``test``; for imdb and snli also ``dev``, and ``train`` for the counterfactual data.

    Returns:
        All originals, and revisions with a label. Counts: ``unusable`` rows, left out (BoolQ's template and empty
        revisions; perspectives without a stance); ``without_revision`` originals; revisions whose text differs
        from the original's at most in case and punctuation (``unchanged_texts``), that have the original's label
        (``same_labels``), or that occur twice (``repeated``), all kept.

    Raises:
        ConfigError: for an unknown task.
        TaskError: naming the file: if there is no set, or it is not as released.
    """
    if task not in CONTRAST_SETS:
        raise ConfigError(unknown_name("contrast set", task, CONTRAST_SETS))
    data = Path(data)
    if not data.exists():
        raise TaskError(f"--contrast-set {data}: no such file or folder")
    for place, file, read in CONTRAST_SETS[task]:
        folder = _find(data, place, file.format(split=split))
        if folder is not None and split in _splits(file):
            rows, counts = read(folder, split)
            return _contrast_set(task, folder, split, rows, counts)
    files = [f"{place}/{file.format(split=split)}" for place, file, _ in CONTRAST_SETS[task] if split in _splits(file)]
    if not files:
        raise TaskError(f"the contrast set of {task} has no '{split}', only 'test'")
    there = f": it holds {listing(data)}" if data.is_dir() else ""
    raise TaskError(f"--contrast-set {data}: no {' or '.join(files)} for {task}{there}")


def originals_next_to(task: str, place: Path) -> frozenset[str]:
    """Collect ``fingerprint``s of the originals in a task's validation and test contrast sets next to its files."""
    found: set[str] = set()
    for source, file, read in CONTRAST_SETS.get(task, ()):
        folder = place.parent / source
        for split in ("dev", "test"):
            if split in _splits(file) and (folder / file.format(split=split)).is_file():
                rows, _ = read(folder, split)
                found |= {fingerprint(TextExample(row.group, *row.texts)) for row in rows}
    return frozenset(found)


def _contrast_set(task: str, source: Path, split: str, rows: Sequence[_Row], counts: dict[str, int]) -> ContrastSet:
    number_of = {label: number for number, label in enumerate(LABELS[task])}
    originals: list[TextExample] = []
    revised: list[TextExample] = []
    met = Counter(counts)
    for row in rows:
        example = TextExample(row.group, *row.texts, number_of[row.label], row.group)
        seen: set[tuple[str, str | None]] = set()
        for number, (texts, label) in enumerate(row.revisions, start=1):
            revision = TextExample(f"{row.group}/{number}", *texts, number_of[label], row.group)
            met["unchanged_texts"] += fingerprint(revision) == fingerprint(example)
            met["same_labels"] += label == row.label
            met["repeated"] += texts in seen
            seen.add(texts)
            revised.append(revision)
        met["without_revision"] += not row.revisions
        originals.append(example)
    if not revised:
        raise TaskError(f"--contrast-set {source}: no usable rows: get the files again")
    of_original = {name: met.pop(name) for name in ("without_revision",) if met[name]}
    return ContrastSet(
        task,
        source,
        Split(split, originals, True, of_original),
        Split(split, revised, True, dict(+met)),
        {row.group: row.cluster for row in rows if row.cluster is not None},
    )


def _splits(file: str) -> tuple[str, ...]:
    """List the splits that a file name pattern covers."""
    return ("train", "dev", "test") if "{split}" in file else ("test",)


def _find(data: Path, place: str, file: str) -> Path | None:
    """Find the folder of a set's file; ``data`` may be any of the folders on the way to it."""
    if data.is_file():
        return data.parent if data.name == file else None
    parts = PurePath(place).parts
    folders = [data.joinpath(*parts[start:]) for start in range(len(parts) + 1)]
    return next((folder for folder in folders if (folder / file).is_file()), None)


def _label(records: Records, row: int, text: str, labels: Mapping[str, str]) -> str:
    if text not in labels:
        raise TaskError(f"{records.where(row)}: {unknown_name('label', text, labels)}")
    return labels[text]


_SENTIMENT = {"Negative": "negative", "Positive": "positive"}


def _imdb(folder: Path, split: str) -> _Rows:
    """Read two files with corresponding rows."""
    files = [read_records(folder / f"{split}_{kind}.tsv", is_quoted=True) for kind in ("original", "contrast")]
    _same_rows(*files)
    sides = [_reviews(records) for records in files]
    rows = [
        _Row(str(number), (text, None), label, [((revised, None), revised_label)])
        for number, ((text, label), (revised, revised_label)) in enumerate(zip(*sides, strict=True))
    ]
    return rows, _both_counts(*files)


def _paired_imdb(folder: Path, split: str) -> _Rows:
    """Read one file in which an original and its revision share a number, the original first.

    (The files of originals and of revisions are not in the same order.)
    """
    records = read_records(folder / f"{split}_paired.tsv", is_quoted=True)
    at = records.column("batch_id")
    groups: dict[str, list[tuple[str, str]]] = {}
    for row, review in zip(records.rows, _reviews(records), strict=True):
        groups.setdefault(row[at], []).append(review)
    rows = [
        _Row(group, (pair[0][0], None), pair[0][1], [((pair[1][0], None), pair[1][1])])
        for group, pair in groups.items()
        if len(pair) == 2
    ]
    return rows, {**records.counts, "unusable": sum(len(pair) for pair in groups.values() if len(pair) != 2)}


def _reviews(records: Records) -> list[tuple[str, str]]:
    text, label = records.column("Text"), records.column("Sentiment")
    return [
        (plain_review(row[text]), _label(records, number, row[label], _SENTIMENT))
        for number, row in enumerate(records.rows)
    ]


def _boolq(folder: Path, split: str) -> _Rows:
    path = folder / "boolq_perturbed.json"
    data = read_json(path)
    answers = {"TRUE": "true", "FALSE": "false"}
    rows: list[_Row] = []
    num_unusable = 0
    try:
        for number, entry in enumerate(data["data"]):
            # The first entry names the fields ("Title", "Gold Answer").
            if entry["answer"] not in answers:
                num_unusable += 1
                continue
            usable = [q for q in entry["perturbed_questions"] if q["answer"] in answers and q["perturbed_q"].strip()]
            num_unusable += len(entry["perturbed_questions"]) - len(usable)
            passage = entry["paragraph"]
            if not all(isinstance(text, str) for text in (passage, entry["question"])):
                raise TypeError(f"entry {number} has a text that is not text")
            revisions = [((q["perturbed_q"], passage), answers[q["answer"]]) for q in usable]
            rows.append(_Row(str(number), (entry["question"], passage), answers[entry["answer"]], revisions))
    except (KeyError, TypeError, AttributeError) as error:
        raise TaskError(f"{path}: not as the contrast set of BoolQ is written ({error!r}): get it again") from error
    return rows, {"unusable": num_unusable}


def _perspectrum(folder: Path, split: str) -> _Rows:
    """Read negated claims with unchanged perspectives. Perspectives on one claim form a cluster."""
    records = read_records(folder / "perspectrum_contrast_sets.csv")
    names = ("original_claim", "contrast_claim", "perspective", "original_stance_label", "contrast_stance_label")
    claim, other, perspective, stance, turned = (records.column(name) for name in names)
    stances = {"pos": "support", "neg": "undermine"}
    rows = [
        _Row(
            str(number),
            (row[claim], row[perspective]),
            _label(records, number, row[stance], stances),
            [((row[other], row[perspective]), _label(records, number, row[turned], stances))],
            row[claim],
        )
        for number, row in enumerate(records.rows)
        if "unk" not in (row[stance], row[turned])
    ]
    return rows, {**records.counts, "unusable": len(records.rows) - len(rows)}


def _snli(folder: Path, split: str) -> _Rows:
    """Read three files: row ``i`` of the originals has rows ``2 i`` and ``2 i + 1`` of either kind of revision."""
    files = [
        read_records(folder / kind / f"{split}.tsv", is_quoted=True)
        for kind in ("original", "revised_premise", "revised_hypothesis")
    ]
    original, premise, hypothesis = (_inferences(records) for records in files)
    if not len(premise) == len(hypothesis) == 2 * len(original):
        raise TaskError(
            f"{folder}: {len(original)} originals with {len(premise)} and {len(hypothesis)} revisions in {split}.tsv, "
            "and each original has two of either: get the files again"
        )
    rows = []
    num_both = 0
    for number, (texts, label) in enumerate(original):
        pair = slice(2 * number, 2 * number + 2)
        for revisions, kept in ((premise[pair], 1), (hypothesis[pair], 0)):
            num_both += sum(int(_letters(revision[kept]) != _letters(texts[kept])) for revision, _ in revisions)
        rows.append(_Row(str(number), texts, label, [*premise[pair], *hypothesis[pair]]))
    if num_both > MALFORMED_SHARE * 4 * len(rows):
        raise TaskError(f"{folder}: {num_both} revisions in {split}.tsv are not of the original in their place")
    return rows, {**_both_counts(*files), "revised_in_both": num_both}


def _inferences(records: Records) -> list[tuple[tuple[str, str], str]]:
    labels = {label: label for label in LABELS["snli"]}
    first, second, label = (records.column(name) for name in ("sentence1", "sentence2", "gold_label"))
    return [
        ((row[first], row[second]), _label(records, number, row[label], labels))
        for number, row in enumerate(records.rows)
    ]


def _letters(text: str) -> str:
    return fingerprint(TextExample("", text))


def _same_rows(*files: Records) -> None:
    """Check that rows at the same index belong together, which fails if a row was left out of one file."""
    if len({tuple(records.lines) for records in files}) > 1:
        sizes = " and ".join(f"{records.path} {len(records.rows)}" for records in files)
        raise TaskError(f"{sizes} rows, which have to be the same ones: get the files again")


def _both_counts(*files: Records) -> dict[str, int]:
    return dict(sum((Counter(records.counts) for records in files), Counter()))


CONTRAST_SETS: Mapping[str, Sequence[tuple[str, str, Callable[[Path, str], _Rows]]]] = {
    "imdb": (
        ("contrast-sets/IMDb/data", "{split}_original.tsv", _imdb),
        ("counterfactually-augmented-data/sentiment/combined/paired", "{split}_paired.tsv", _paired_imdb),
    ),
    "boolq": (("contrast-sets/BoolQ", "boolq_perturbed.json", _boolq),),
    "perspectrum": (("contrast-sets/perspectrum", "perspectrum_contrast_sets.csv", _perspectrum),),
    "snli": (("counterfactually-augmented-data/NLI", "original/{split}.tsv", _snli),),
}
"""Task to its sets: a folder, a file in it, and the function that reads it."""
