"""GLUE's tasks (Wang et al. 2019), read from their official TSV files or from the hub (``hub:nyu-mll/glue``)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Self

from trueneg.config.finetune_options import TaskConfig
from trueneg.errors import ConfigError, TaskError, unknown_name
from trueneg.tasks.base import Split
from trueneg.tasks.hub import open_hub
from trueneg.tasks.records import Records, as_records, listing, read_tsv
from trueneg.tasks.text import TextColumns, TextExample, TextTask, examples_of

_ENTAILMENT = ("entailment", "not_entailment")
_INFERENCE = ("contradiction", "entailment", "neutral")
_BINARY = ("0", "1")
_MRPC_ORIGINAL = "msr_paraphrase_train.txt"


@dataclass(frozen=True)
class GlueDataset:
    """Where a task's files are and what they hold. Quote characters in them are text."""

    folders: tuple[str, ...]
    """Possible names of its folder below the data folder, ignoring case and hyphens."""
    header: tuple[str, ...]
    """Header of the official training file, also used for files without a header."""
    columns: TextColumns
    hub: TextColumns
    """The columns on the hub."""
    labels: tuple[str, ...] = _BINARY
    """Class ``i`` is ``labels[i]``: in alphabetical order, which is the order of the official code (``MnliProcessor``
    and others), not that of the Hugging Face dataset (entailment, neutral, contradiction)."""
    hub_labels: tuple[str, ...] = ()
    """The names of the same classes on the hub, if they differ."""
    metrics: tuple[str, ...] = ("accuracy",)
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Split to the possible names of its file, if not only ``<split>.tsv``."""
    dev_splits: tuple[str, ...] = ("dev",)
    bounds: tuple[float, float] | None = None
    shared_text: Literal["text", "second"] | None = None
    """The text that several examples share: premise or question (see ``TextTask``)."""
    is_unordered: bool = False
    """Whether the order of the two texts does not matter. ELECTRA trains on MRPC's and STS-B's pairs in both orders."""


def _pair(first: str, second: str, label: str = "label", key: str = "index") -> TextColumns:
    return TextColumns(first, second, label, key)


_SENTENCE = TextColumns("sentence", None, "label", "index")
_HUB_SENTENCE = TextColumns("sentence", None, "label", "idx")
_HUB_PAIR = _pair("sentence1", "sentence2", key="idx")
_HUB_NLI = _pair("premise", "hypothesis", key="idx")
_NLI_HEADER = ("index", "sentence1", "sentence2", "label")
_NLI = _pair("sentence1", "sentence2")

GLUE: Mapping[str, GlueDataset] = {
    "cola": GlueDataset(
        ("CoLA",), ("source", "label", "original", "sentence"), _SENTENCE, _HUB_SENTENCE,
        hub_labels=("unacceptable", "acceptable"), metrics=("matthews",),
    ),
    "sst2": GlueDataset(
        ("SST-2",), ("sentence", "label"), _SENTENCE, _HUB_SENTENCE, hub_labels=("negative", "positive"),
    ),
    "mrpc": GlueDataset(
        ("MRPC",), ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"),
        _pair("#1 String", "#2 String", "Quality"), _HUB_PAIR,
        hub_labels=("not_equivalent", "equivalent"), metrics=("accuracy", "f1"), is_unordered=True,
        # The msr files are the originals: train includes dev, and test has labels.
        files={"train": ("train.tsv", _MRPC_ORIGINAL), "test": ("test.tsv", "msr_paraphrase_test.txt")},
    ),
    "stsb": GlueDataset(
        ("STS-B",),
        (
            "index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2", "score",
        ),
        _pair("sentence1", "sentence2", "score"), _HUB_PAIR,
        labels=(), metrics=("spearman", "pearson"), bounds=(0.0, 5.0), is_unordered=True,
    ),
    "qqp": GlueDataset(
        ("QQP",), ("id", "qid1", "qid2", "question1", "question2", "is_duplicate"),
        _pair("question1", "question2", "is_duplicate", "id"), _pair("question1", "question2", key="idx"),
        hub_labels=("not_duplicate", "duplicate"), metrics=("accuracy", "f1"), is_unordered=True,
    ),
    "mnli": GlueDataset(
        ("MNLI",),
        (
            "index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse",
            "sentence1_parse", "sentence2_parse", "sentence1", "sentence2", "label1", "gold_label",
        ),
        _pair("sentence1", "sentence2", "gold_label"), _HUB_NLI,
        labels=_INFERENCE, dev_splits=("dev_matched", "dev_mismatched"), shared_text="text",
    ),
    "qnli": GlueDataset(
        ("QNLI",), ("index", "question", "sentence", "label"),
        _pair("question", "sentence"), _pair("question", "sentence", key="idx"), labels=_ENTAILMENT,
        shared_text="text",
    ),
    "rte": GlueDataset(("RTE",), _NLI_HEADER, _NLI, _HUB_PAIR, labels=_ENTAILMENT),
    "wnli": GlueDataset(("WNLI",), _NLI_HEADER, _NLI, _HUB_PAIR, hub_labels=("not_entailment", "entailment")),
    "ax": GlueDataset(
        ("AX", "diagnostic", "MNLI"), _NLI_HEADER, _NLI, _HUB_NLI,
        labels=_INFERENCE, metrics=("matthews", "accuracy"), dev_splits=(), shared_text="text",
        files={"train": (), "test": ("diagnostic.tsv", "AX.tsv", "test.tsv")},
    ),
}  # fmt: skip
"""Name to task; ``ax`` is the diagnostic set, to be predicted by an MNLI model. Test splits have no labels."""

_UNDECIDED = "-"
"""Gold label of MNLI pairs that annotators did not agree on."""


class GlueTask(TextTask):
    """One of GLUE's tasks.

    Args:
        dataset: Name of the task in ``GLUE``.
        data: The folder that holds ``CoLA/``, ``SST-2/``, …, or the task's files; or ``hub:nyu-mll/glue``, whose
            configuration is the task's name.

    Raises:
        ConfigError: for an unknown name.
        TaskError: if there is no such folder in ``data``.

    Example:
        >>> GlueTask("mprc", "data/glue")
        Traceback (most recent call last):
        trueneg.errors.ConfigError: unknown GLUE task 'mprc': did you mean 'mrpc'? Known: ax, cola, ...
    """

    def __init__(self, dataset: str, data: str | Path) -> None:
        if dataset not in GLUE:
            raise ConfigError(unknown_name("GLUE task", dataset, GLUE))
        self.dataset = GLUE[dataset]
        super().__init__(
            f"glue/{dataset}",
            metrics=self.dataset.metrics,
            labels=self.dataset.labels,
            bounds=self.dataset.bounds,
            is_unordered=self.dataset.is_unordered,
            shared_text=self.dataset.shared_text,
        )
        self.dev_splits = self.dataset.dev_splits
        self.hub = open_hub(data, dataset)
        self.folder = _folder(self.dataset, Path(data)) if self.hub is None else Path()

    @classmethod
    def from_config(cls, options: TaskConfig, labels: Sequence[str] | None = None) -> Self:
        """Make the task named ``glue/<name>``; its labels are fixed."""
        return cls(options.name.removeprefix("glue/"), options.data)

    def read(self, split: str, *, is_whole: bool = False) -> Split[TextExample]:
        """Read a split; any ``<split>.tsv`` with the same columns can be read.

        Raises:
            TaskError: as ``Task.read``; up to 1 % of malformed lines are left out and counted.
        """
        known = self.dataset
        if self.hub is not None:
            return examples_of(split, self.hub.records(split), known.hub, known.hub_labels or self.labels)
        records = self._without_dev(self._records(self._file(split)))
        undecided = _UNDECIDED if self.labels == _INFERENCE else None
        return examples_of(split, records, known.columns, self.labels, undecided=undecided)

    def _file(self, split: str) -> Path:
        names = self.dataset.files.get(split, (f"{split}.tsv",))
        if not names:
            raise TaskError(f"{self.name} has no '{split}': predict it with a model fine-tuned on glue/mnli")
        found = next((self.folder / name for name in names if (self.folder / name).is_file()), None)
        if found is None:
            raise TaskError(f"{self.name}: no {' or '.join(names)} in {self.folder}: it holds {listing(self.folder)}")
        return found

    def _without_dev(self, records: Records) -> Records:
        """Leave out the pairs of MRPC's dev.tsv, which the original training file also contains."""
        dev = self.folder / "dev.tsv"
        if Path(records.path).name != _MRPC_ORIGINAL or not dev.is_file():
            return records
        held_out = self._records(dev)
        pairs = [tuple(of.column(name) for name in ("#1 ID", "#2 ID")) for of in (records, held_out)]
        dev_pairs = {tuple(row[at] for at in pairs[1]) for row in held_out.rows}
        kept = [n for n, row in enumerate(records.rows) if tuple(row[at] for at in pairs[0]) not in dev_pairs]
        return replace(
            records,
            rows=[records.rows[n] for n in kept],
            lines=[records.lines[n] for n in kept],
            counts={**records.counts, "in_dev": len(records.rows) - len(kept)},
        )

    def _records(self, path: Path) -> Records:
        """Read a file, whose first line is a header if any of its cells is an official column's name."""
        cells = read_tsv(path)
        if not cells:
            raise TaskError(f"{path}: the file is empty: download it again")
        official = {*self.dataset.header, "index"}
        first = tuple(name.strip() for name in cells[0][1])
        return (
            as_records(path, first, cells[1:]) if official & {*first} else as_records(path, self.dataset.header, cells)
        )


def _folder(dataset: GlueDataset, data: Path) -> Path:
    if not data.is_dir():
        raise TaskError(f"--data {data}: no such folder: give one that holds {dataset.folders[0]}/, or its files")
    known = [_letters(name) for name in dataset.folders]
    below = {_letters(entry.name): entry for entry in data.iterdir() if entry.is_dir()}
    splits = ("train", "test", *dataset.dev_splits)
    files = {name for split in splits for name in dataset.files.get(split, (f"{split}.tsv",))}
    found = [folder for name in known if (folder := below.get(name))]
    if not found and not any((data / name).is_file() for name in files):
        raise TaskError(f"--data {data}: neither {dataset.folders[0]}/ nor its files in it: it holds {listing(data)}")
    # The first that holds any of the files: the diagnostic set may be in MNLI's folder.
    return next((folder for folder in found if any((folder / name).is_file() for name in files)), [*found, data][0])


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
