"""Your own labelled texts: CSV, TSV, JSONL or Parquet, one file or a folder of splits; or a hub dataset."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from trueneg.config.finetune_options import TaskConfig
from trueneg.errors import TaskError, TruenegWarning, unknown_name
from trueneg.tasks.base import Split
from trueneg.tasks.hub import open_hub
from trueneg.tasks.records import WITHHELD, Files, Records, name_of
from trueneg.tasks.split import ValidationPart
from trueneg.tasks.text import TextColumns, TextExample, TextTask, examples_of

EXTENSIONS = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")

_PAIRS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("text1", "text2"),
    ("text_a", "text_b"),
)
_TEXTS = ("text", "sentence", "content", "review", "document", "comment", "body")
_LABELS = ("label", "labels", "gold_label", "class", "target", "category", "score", "sentiment", "is_duplicate")
_KEYS = ("id", "idx", "index", "key", "guid", "")
_MAX_RARE_LABELS = 100
"""Above this many labels, each should occur twice or more on average: otherwise they look like numbers or names."""
_FEW_LABELS = 5
"""Up to this many labels are assumed to be intended, however rare some are."""


class TabularTask(TextTask):
    """Texts or pairs of texts with one column for the label, or for the value of a regression task.

    The labels are those of the training split, sorted by name (numbers by value). Without a validation split, a part
    of the training split is set aside. Guesses are recorded in ``notes``.

    Args:
        name: Name of the task, for the result files.
        data: A file, a folder with ``train.*``, ``dev.*`` (or ``valid``, ``validation``) and ``test.*``, or
            ``hub:NAME``.
        text_column: Column of the text, or of the first of two.
        second_column: Column of the second text.
        label_column: Column of the label.
        group_column: Column shared by examples that belong together (one author's, one document's): intervals are over
            groups, and the part that is set aside has whole groups.
        is_regression: Whether labels are numbers to predict.
        labels: Names of the classes in order, if a model already has them; then no training split is needed.
        validation_fraction: Share of the training split that is set aside if there is no validation split.
        seed: Seed of that choice.

    Raises:
        TaskError: naming the file: if a column is missing or cannot be guessed, or the labels do not form classes.
    """

    def __init__(
        self,
        name: str,
        data: str | Path,
        *,
        text_column: str | None = None,
        second_column: str | None = None,
        label_column: str | None = None,
        group_column: str | None = None,
        is_regression: bool = False,
        labels: Sequence[str] | None = None,
        validation_fraction: float = 0.1,
        seed: int = 0,
    ) -> None:
        self.data = data
        self.validation_part = ValidationPart(validation_fraction, seed)
        self.source = open_hub(data) or Files(Path(data), EXTENSIONS)
        splits = self.source.splits
        first = self.source.records(self.train_split if self.train_split in splits else next(iter(splits)))
        given = TextColumns(text_column or "", second_column, label_column, group=group_column)
        self.columns, notes = _resolve(first, given, labels)
        if labels is None and not is_regression:
            if self.train_split not in splits:
                raise TaskError(
                    f"--data {data}: no training split to take the labels from, only {', '.join(splits)}: add train.*"
                )
            labels = _labels(first, self.columns)
        super().__init__(
            name,
            metrics=("spearman", "pearson") if is_regression else ("accuracy", "macro_f1"),
            labels=() if is_regression else labels or (),
            is_unordered=self.columns.second is not None,  # users decide by setting swap_pairs
        )
        if first.delimiter not in (None, ",") and str(first.path).lower().endswith(".csv"):
            notes.append(f"columns are separated by {first.delimiter!r}")
        self.is_split_off = "dev" not in splits and self.train_split in splits
        if self.is_split_off:
            self.set_aside = ("dev",)
            notes.append(str(self.validation_part))
        self.notes = tuple(notes)

    @classmethod
    def from_config(cls, options: TaskConfig, labels: Sequence[str] | None = None) -> Self:
        """Make ``classification`` or ``regression``, named after its data; see ``Task.from_config``."""
        return cls(
            name_of(options.data),
            options.data,
            text_column=options.text_column or None,
            second_column=options.second_column or None,
            label_column=options.label_column or None,
            group_column=options.group_column or None,
            is_regression=options.name == "regression",
            labels=labels or None,
        )

    def read(self, split: str, *, is_whole: bool = False) -> Split[TextExample]:
        """Read a split; without a file of its own, ``dev`` is the part of ``train`` that was set aside.

        ``in_other_part`` counts the examples of the other part; the other counts are of the whole file.

        Raises:
            TaskError: as ``Task.read``; up to 1 % of malformed lines are left out and counted.
        """
        is_of_train = self.is_split_off and split in (self.train_split, "dev")
        whole = examples_of(
            split, self.source.records(self.train_split if is_of_train else split), self.columns, self.labels
        )
        if is_whole or not is_of_train:
            return whole
        if not whole.is_labelled:
            raise TaskError(f"--data {self.data}: no column {self.columns.label!r} with labels to train on")
        labels = [example.label if self.labels else None for example in whole.examples]
        groups = None if self.columns.group is None else [example.group for example in whole.examples]
        return self.validation_part.of(whole, labels, str(self.data), groups)


def _resolve(records: Records, given: TextColumns, labels: Sequence[str] | None) -> tuple[TextColumns, list[str]]:
    """Find the columns that were not named (``text`` is then empty), and note which were guessed.

    Args:
        records: The rows.
        given: The columns that were named.
        labels: Labels of a trained model, which needs none in the file; None to train.
    """
    names, notes = records.names, []
    named = {"text": given.text, "second": given.second, "label": given.label, "group": given.group}
    if labels is not None and given.label not in (None, *names):
        notes.append(f"there is no column {given.label!r}: nothing is labelled")
        named["label"] = None
    for option, name in named.items():
        if name and name not in names:
            raise TaskError(f"{records.path}: --{option}-column: {unknown_name('column', name, names)}")
    text, second, label, group = given.text, given.second, named["label"], given.group
    # A column without a name, as pandas writes its index, is not the text that was not named, though both are "".
    taken = (text or None, second, label, group)
    key = next((name for name in names if name.lower() in _KEYS and name not in taken), None)
    notes += [] if key is None else [f"examples are named by the column {key!r}"]
    if label is None and given.label is None:
        found = [name for name in names if name.lower() in _LABELS and name not in (text, second, group)]
        if len(found) > 1:
            raise TaskError(f"{records.path}: --label-column is needed: it may be {' or '.join(map(repr, found))}")
        label = found[0] if found else None
    if not text:
        text, second = _texts(records, [name for name in names if name not in (label, key, second, group)], second)
        notes.append(
            f"the text is the column {text!r}" if second is None else f"the texts are the columns {text!r}, {second!r}"
        )
    if label is None and given.label is None:
        rest = [name for name in names if name not in (text, second, key, group)]
        values = {row[names.index(name)] for name in rest for row in records.rows}
        if len(rest) == 1 and (labels is None or values <= {*labels, "", WITHHELD}):
            label = rest[0]
        elif labels is None:
            raise TaskError(f"{records.path}: --label-column is needed: {_columns(records)}")
        else:
            notes.append("there is no column of labels: nothing is labelled")
    if given.label is None and label is not None:
        notes.append(f"the label is the column {label!r}")
    return TextColumns(text, second, label, key, group), notes


def _texts(records: Records, rest: Sequence[str], second: str | None) -> tuple[str, str | None]:
    """Find the column of the text, or those of a pair, among those with no other role."""
    lower = {name.lower(): name for name in rest}
    pairs = [pair for pair in _PAIRS if second is None and lower.keys() >= {*pair}]
    in_pairs = {name for pair in pairs for name in pair}
    singles = [name for name in _TEXTS if name in lower and name not in in_pairs]
    if not pairs and not singles:
        singles = list(lower)  # the remaining columns, whatever their names
    if len(pairs) + len(singles) != 1:
        raise TaskError(f"{records.path}: --text-column is needed: {_columns(records)}")
    return (lower[pairs[0][0]], lower[pairs[0][1]]) if pairs else (lower[singles[0]], second)


def _columns(records: Records) -> str:
    names = ", ".join(name if len(name) < 40 else f"{name[:39]}…" for name in records.names)
    return f"the columns are {names} (the first line has to name them)"


def _labels(records: Records, columns: TextColumns) -> list[str]:
    """Find the labels of a training file, sorted."""
    at = records.column(columns.label or "")
    seen = Counter(row[at] for row in records.rows if row[at] not in ("", WITHHELD))
    if len(seen) < 2:
        there = f"only {next(iter(seen))!r}" if seen else "nothing"
        raise TaskError(f"{records.path}: at least two labels are needed, the column {columns.label!r} has {there}")
    rare = [label for label, num in seen.items() if num == 1]
    if len(seen) > _MAX_RARE_LABELS and len(seen) > seen.total() / 2:
        raise TaskError(
            f"{records.path}: the column {columns.label!r} has {len(seen)} different values in {seen.total()} rows: "
            "name another --label-column, or take --task regression if they are numbers to predict"
        )
    if len(seen) > _FEW_LABELS and len(rare) > len(seen) / 2:
        warnings.warn(
            f"{records.path}: {len(rare)} of the {len(seen)} labels in the column {columns.label!r} occur once, such "
            f"as {rare[0]!r}: they cannot be learnt: name another "
            f"--label-column, merge labels, or take --task regression if they are numbers to predict",
            TruenegWarning,
            stacklevel=3,
        )
    return sorted_labels(seen)


def sorted_labels(labels: Sequence[str] | Mapping[str, int]) -> list[str]:
    """Sort labels by name, or by value where all are numbers.

    Example:
        >>> sorted_labels(["10", "9", "1"]), sorted_labels(["no", "maybe", "10"])
        (['1', '9', '10'], ['10', 'maybe', 'no'])
    """
    names = sorted(labels)
    try:
        return sorted(names, key=float)
    except ValueError:
        return names
