"""Your own labelled texts: CSV, TSV, JSONL or Parquet, one file or a folder of splits."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from trueneg.config.options import TaskConfig
from trueneg.errors import TaskError, TruenegWarning, unknown_name
from trueneg.tasks.base import Split
from trueneg.tasks.records import Records, folder_name, name_of, read_records, split_file, split_files
from trueneg.tasks.split import split_off
from trueneg.tasks.text import TextColumns, TextExample, TextTask, examples_of

EXTENSIONS = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
Kind = Literal["classification", "regression"]

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
_MOST_LABELS = 100
"""Beyond so many labels, each should at least come twice: otherwise they look like quantities or names."""
_FEW_LABELS = 5
"""So few labels are likely to be meant, however rare some are."""


class TabularTask(TextTask):
    """Texts or pairs of texts of which one column says the label, or a quantity.

    The labels are those of the training split, sorted by name (numbers by value). Without a validation file, a part
    of the training split is set aside. What was not said but found out is written down in ``notes``.

    Args:
        name: Of the task, for the result files.
        data: A file, or a folder with ``train.*``, ``dev.*`` (or ``valid``, ``validation``) and ``test.*``.
        text_column: Of the text, or the first of two.
        second_column: Of the second text.
        label_column: Of the label.
        key_column: Of the examples' names; by default ``id`` or the like where there is one, else the row's number.
        group_column: Of what examples that belong together share.
        kind: ``regression`` where the label is a quantity.
        labels: Names of the classes in order, where a model has them already; then no training split is needed.
        metrics: The primary one first; by default accuracy and macro F1, or Spearman's and Pearson's correlation.
        undecided: A label that says that annotators did not agree: its rows are left out, and counted.
        validation_fraction: Of the training split, set aside where there is no validation file.
        seed: Of that choice.
        is_quoted: Whether cells in quote characters are what is between them: see ``read_records``.

    Raises:
        TaskError: naming the file: if a column is missing or cannot be told, or the labels make no classes.
    """

    def __init__(
        self,
        name: str,
        data: str | Path,
        *,
        text_column: str | None = None,
        second_column: str | None = None,
        label_column: str | None = None,
        key_column: str | None = None,
        group_column: str | None = None,
        kind: Kind = "classification",
        labels: Sequence[str] | None = None,
        metrics: Sequence[str] | None = None,
        undecided: str | None = None,
        validation_fraction: float = 0.1,
        seed: int = 0,
        is_quoted: bool | None = None,
    ) -> None:
        self.data = data
        self.kind = kind
        self.undecided = undecided
        self.validation_fraction = validation_fraction
        self.seed = seed
        self.is_quoted = is_quoted
        self.splits = self._find_splits()
        given = TextColumns("", second_column, label_column, key_column, group_column)
        first = self._records(self.train_split if self.train_split in self.splits else next(iter(self.splits)))
        self.columns, notes = _resolve(first, text_column, given)
        is_quantity = kind == "regression"
        if labels is None and not is_quantity and self.train_split not in self.splits:
            raise TaskError(
                f"--data {data}: no training split to take the labels from, only {', '.join(self.splits)}: add train.*"
            )
        super().__init__(
            name,
            metrics=metrics or (("spearman", "pearson") if is_quantity else ("accuracy", "macro_f1")),
            labels=() if is_quantity else labels or _labels(first, self.columns, undecided),
            is_unordered=self.columns.second is not None,  # whoever asks for both orders of their own pairs knows
        )
        if first.delimiter not in (None, ",") and str(first.path).lower().endswith(".csv"):
            notes.append(f"columns are separated by {first.delimiter!r}")
        if self.is_split_off:
            notes.append(f"{validation_fraction:.0%} of the training split is set aside as 'dev' (seed {seed})")
        self.notes = tuple(notes)
        """What was found out, a line each, for the user to read."""

    @property
    def is_split_off(self) -> bool:
        """Whether the validation split is a part of the training file."""
        return "dev" not in self.splits and self.train_split in self.splits

    def ask_about_all(self) -> None:
        """See ``Task``."""
        if self.is_split_off:
            self.splits = {"dev": self.splits[self.train_split]}
            self.notes = ()

    def read(self, split: str) -> Split[TextExample]:
        """Read a split; ``dev`` is the part of ``train`` that was set aside, where it has no file.

        Of parts the other one is counted as ``in_other_part``; what else is counted is the file's.

        Raises:
            TaskError: as ``Task.read``; up to 1 % of malformed lines are left out and counted.
        """
        is_part = self.is_split_off and split in (self.train_split, "dev")
        source = self.train_split if is_part else split
        whole = examples_of(
            split,
            self._records(source),
            self.columns,
            self.labels,
            is_quantity=self.kind == "regression",
            undecided=self.undecided,
        )
        if not is_part:
            return whole
        if not whole.is_labelled:
            raise TaskError(f"--data {self.data}: no column {self.columns.label!r} with labels to train on")
        labels = [example.label if self.labels else None for example in whole.examples]
        if len(labels) < 2:
            raise TaskError(f"--data {self.data}: one example is too few to set a part aside: give a validation file")
        stays, aside = split_off(labels, self.validation_fraction, self.seed)
        kept = [whole.examples[number] for number in (aside if split == "dev" else stays)]
        return replace(whole, examples=kept, counts={**whole.counts, "in_other_part": len(labels) - len(kept)})

    def _find_splits(self) -> Mapping[str, Path | str]:
        return split_files(Path(self.data), EXTENSIONS)

    def _records(self, split: str) -> Records:
        files = {name: Path(file) for name, file in self.splits.items()}
        return read_records(split_file(files, split, Path(self.data)), is_quoted=self.is_quoted)


def from_config(options: TaskConfig, labels: Sequence[str] | None = None) -> TabularTask:
    """Make the task that ``classification`` or ``regression`` names, called after its data.

    ``hub:NAME`` and ``hub:NAME:CONFIGURATION`` are Hugging Face datasets; what they name may be a folder.

    Args:
        options: Names of the data and its columns.
        labels: Of a model that is there already, so that data without a training split will do.
    """
    from trueneg.tasks.hub import HubTask

    data, configuration = options.data, ""
    is_hub = data.startswith("hub:")
    if is_hub:
        data, _, configuration = data.removeprefix("hub:").partition(":")
    make: Callable[..., TabularTask] = partial(HubTask, configuration=configuration or None) if is_hub else TabularTask
    named = "-".join(filter(None, (Path(data).name, configuration)))
    name = folder_name(named, options.data) if is_hub else name_of(Path(data))
    return make(
        name,
        data,
        kind="regression" if options.name == "regression" else "classification",
        text_column=options.text_column or None,
        second_column=options.second_column or None,
        label_column=options.label_column or None,
        labels=labels or None,
    )


def _resolve(records: Records, text: str | None, given: TextColumns) -> tuple[TextColumns, list[str]]:
    """Columns as they were named, or as they can be told; and what was told."""
    names, notes = records.names, []
    for option, name in (("text", text), ("second", given.second), ("label", given.label)):
        if name is not None and name not in names:
            raise TaskError(f"{records.path}: --{option}-column: {unknown_name('column', name, names)}")
    second, label, key, group = given.second, given.label, given.key, given.group
    if key is None:
        key = next((name for name in names if name.lower() in _KEYS and name not in (text, second, label)), None)
        notes += [] if key is None else [f"examples are named by the column {key!r}"]
    if label is None:
        found = [name for name in names if name.lower() in _LABELS and name not in (text, second)]
        if len(found) > 1:
            raise TaskError(f"{records.path}: --label-column is needed: it may be {' or '.join(map(repr, found))}")
        label = found[0] if found else None
    if text is None:
        rest = [name for name in names if name not in (label, key, group, second)]
        text, second = _texts(records, rest, second)
        notes.append(
            f"the text is the column {text!r}" if second is None else f"the texts are the columns {text!r}, {second!r}"
        )
    if label is None:
        # What is left beside the text: only one thing can be meant.
        rest = [name for name in names if name not in (text, second, key, group)]
        if len(rest) != 1:
            raise TaskError(f"{records.path}: --label-column is needed: {_columns(records)}")
        label = rest[0]
    if given.label is None:
        notes.append(f"the label is the column {label!r}")
    columns = TextColumns(text, second, label, key, group)
    for name in (columns.key, columns.group):
        if name is not None:
            records.column(name)
    return columns, notes


def _texts(records: Records, rest: Sequence[str], second: str | None) -> tuple[str, str | None]:
    """The column of the text, or those of a pair, among those with no other meaning."""
    lower = {name.lower(): name for name in rest}
    pairs = [pair for pair in _PAIRS if second is None and lower.keys() >= {*pair}]
    in_pairs = {name for pair in pairs for name in pair}
    singles = [name for name in _TEXTS if name in lower and name not in in_pairs]
    if not pairs and not singles:
        singles = list(lower)  # what is left, whatever it is called
    if len(pairs) + len(singles) != 1:
        raise TaskError(f"{records.path}: --text-column is needed: {_columns(records)}")
    return (lower[pairs[0][0]], lower[pairs[0][1]]) if pairs else (lower[singles[0]], second)


def _columns(records: Records) -> str:
    names = ", ".join(name if len(name) < 40 else f"{name[:39]}…" for name in records.names)
    return f"the columns are {names} (the first line has to name them)"


def _labels(records: Records, columns: TextColumns, undecided: str | None) -> list[str]:
    """Labels of a training file, sorted."""
    at = records.column(columns.label or "")
    seen = Counter(row[at] for row in records.rows if row[at] and row[at] != undecided)
    if len(seen) < 2:
        there = f"only {next(iter(seen))!r}" if seen else "nothing"
        raise TaskError(f"{records.path}: two labels or more are wanted, and the column {columns.label!r} has {there}")
    rare = [label for label, num in seen.items() if num == 1]
    if len(seen) > _MOST_LABELS and len(seen) > seen.total() / 2:
        raise TaskError(
            f"{records.path}: the column {columns.label!r} has {len(seen)} different values in {seen.total()} rows: "
            "name another --label-column, or say that it is a quantity (regression)"
        )
    if len(seen) > _FEW_LABELS and len(rare) > len(seen) / 2:
        warnings.warn(
            f"{records.path}: {len(rare)} of the {len(seen)} labels in the column {columns.label!r} come once, such as "
            f"{rare[0]!r}: they cannot be learnt, nor told apart in validation if they are set aside: name another "
            f"--label-column, put labels together, or take --task regression if they are quantities",
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
