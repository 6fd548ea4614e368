"""Labelled texts of a Hugging Face dataset: a hub name, or a folder that ``datasets`` loads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trueneg.errors import TaskError, unknown_name
from trueneg.tasks.records import SPLIT_NAMES, Records, as_records, cell
from trueneg.tasks.tabular import Kind, TabularTask

_WITHHELD = "(no label)"
"""In place of a label that is not known: -1 among classes that have names."""


class HubTask(TabularTask):
    """Texts or pairs of texts of a Hugging Face dataset: see ``TabularTask`` for the options that are the same.

    Labels that the dataset names (``ClassLabel``) keep its names, sorted, not its numbers; ``-1`` is none of them, and
    an example without a label in a labelled split is left out and counted as ``undecided``. Numbers without names are
    labels, -1 too, unless a split has nothing else.

    Args:
        name: Of the task, for the result files.
        dataset: A hub name (``stanfordnlp/imdb``), or a folder.
        configuration: Of datasets that come in several.
        revision: Of the dataset, for results that can be had again.
        text_column: Of the text, or the first of two.
        second_column: Of the second text.
        label_column: Of the label.
        kind: ``regression`` where the label is a quantity.
        labels: Names of the classes in order, where a model has them already.
        metrics: The primary one first.
        validation_fraction: Of the training split, set aside where there is no validation split.
        seed: Of that choice.

    Raises:
        TaskError: if the dataset cannot be had, or as ``TabularTask``.
    """

    def __init__(
        self,
        name: str,
        dataset: str | Path,
        *,
        configuration: str | None = None,
        revision: str | None = None,
        text_column: str | None = None,
        second_column: str | None = None,
        label_column: str | None = None,
        kind: Kind = "classification",
        labels: Sequence[str] | None = None,
        metrics: Sequence[str] | None = None,
        validation_fraction: float = 0.1,
        seed: int = 0,
    ) -> None:
        self._dataset = _load(str(dataset), configuration, revision)
        super().__init__(
            name,
            dataset,
            text_column=text_column,
            second_column=second_column,
            label_column=label_column,
            kind=kind,
            labels=labels,
            metrics=metrics,
            undecided=_WITHHELD if kind == "classification" else None,
            validation_fraction=validation_fraction,
            seed=seed,
        )

    def _find_splits(self) -> Mapping[str, Path | str]:
        known = {stem: split for split, stems in SPLIT_NAMES.items() for stem in stems}
        found: dict[str, str] = {}
        for given in self._dataset:
            split = known.get(given, given)
            # MNLI's 'validation_matched' is a split of its own: dev_matched.
            split = re.sub(r"^(validation|valid)_", "dev_", split)
            if split in found:
                raise TaskError(f"{self.data}: both {found[split]!r} and {given!r} are '{split}': rename a split")
            found[split] = given
        return found

    def _records(self, split: str) -> Records:
        if split not in self.splits:
            raise TaskError(f"{self.data}: {unknown_name('split', split, self.splits)}")
        return _records(self._dataset[self.splits[split]], f"{self.data}[{self.splits[split]}]")


def _load(dataset: str, configuration: str | None, revision: str | None) -> Any:
    from datasets import DatasetDict, load_dataset, load_from_disk

    folder = Path(dataset)
    is_saved = folder.is_dir() and ((folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file())
    try:
        loaded = load_from_disk(dataset) if is_saved else load_dataset(dataset, configuration, revision=revision)
    except Exception as error:  # datasets raises whatever its loaders, pyarrow and the network raise
        reason = (str(error).strip().splitlines() or [""])[0]
        raise TaskError(f"cannot load the dataset '{dataset}': {type(error).__name__}: {reason}") from error
    return loaded if isinstance(loaded, DatasetDict) else DatasetDict({"train": loaded})


def _records(dataset: Any, path: str) -> Records:
    """Rows of one split, its class numbers as names; columns that are no cells are left out."""
    from datasets import ClassLabel, Value

    values: dict[str, list[str | None]] = {}
    for name, feature in dataset.features.items():
        if isinstance(feature, ClassLabel):
            classes = feature.names
            values[name] = ["" if n is None else classes[n] if n >= 0 else _WITHHELD for n in dataset[name]]
        elif isinstance(feature, Value):
            values[name] = [cell(value) for value in dataset[name]]
        if name in values and set(values[name]) <= {"", _WITHHELD, "-1", "-1.0"}:  # of a test split
            values[name] = [""] * len(dataset)
    names = [name for name, column in values.items() if None not in column]
    rows = zip(*([value or "" for value in values[name]] for name in names), strict=True)
    return as_records(path, names, list(enumerate(rows)))
