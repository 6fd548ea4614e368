"""A Hugging Face dataset as a source of labelled texts: a hub name, or a folder that ``datasets`` loads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from trueneg.errors import TaskError, unknown_name
from trueneg.tasks.records import SPLIT_NAMES, WITHHELD, Records, as_records, column_cells

PREFIX = "hub:"


class Hub:
    """A Hugging Face dataset that any text task can read: ``--data hub:NAME`` or ``hub:NAME:CONFIGURATION``.

    Splits are named as for files: ``validation`` is ``dev``, MNLI's ``validation_matched`` ``dev_matched``.

    Args:
        data: Value of ``--data``. The name may be a local folder, of files or written by ``save_to_disk``.
        configuration: Configuration to read if ``data`` names none; in a local folder, the sub-folder of this name, if
            there is one.

    Attributes:
        splits: Name of each split to the dataset's name for it.

    Raises:
        TaskError: if the dataset cannot be loaded, or two of its splits mean the same.
    """

    def __init__(self, data: str, configuration: str = "") -> None:
        self.data = data
        dataset, _, named = data.removeprefix(PREFIX).partition(":")
        self._dataset = _load(dataset, named, configuration)
        known = {stem: split for split, stems in SPLIT_NAMES.items() for stem in stems}
        self.splits: dict[str, str] = {}
        for given in self._dataset:
            split = re.sub(r"^(validation|valid)_", "dev_", known.get(given, given))
            if split in self.splits:
                raise TaskError(f"{data}: both {self.splits[split]!r} and {given!r} are '{split}': rename a split")
            self.splits[split] = given

    def rows(self, split: str) -> Any:
        """Return a split's rows, as ``datasets`` returns them.

        Raises:
            TaskError: naming the available splits.
        """
        if split not in self.splits:
            raise TaskError(f"{self.data}: {unknown_name('split', split, self.splits)}")
        return self._dataset[self.splits[split]]

    def records(self, split: str) -> Records:
        """Read a split's rows as text; columns other than text, numbers or booleans are left out.

        Classes are given by the dataset's names for them. A class of -1 is ``WITHHELD``; a column with nothing but -1
        is empty, such as the labels of a test split.

        Raises:
            TaskError: naming the available splits.
        """
        from datasets import ClassLabel, Value

        rows = self.rows(split)
        values: dict[str, list[str | None]] = {}
        for name, feature in rows.features.items():
            if isinstance(feature, ClassLabel):
                classes = feature.names
                values[name] = ["" if n is None else classes[n] if n >= 0 else WITHHELD for n in rows[name]]
            elif isinstance(feature, Value):
                values[name] = column_cells(rows[name], feature.dtype)
            if name in values and set(values[name]) <= {"", WITHHELD, "-1", "-1.0"}:
                values[name] = [""] * len(rows)
        names = [name for name, column in values.items() if None not in column]
        cells = zip(*([value or "" for value in values[name]] for name in names), strict=True)
        return as_records(f"{self.data}[{self.splits[split]}]", names, list(enumerate(cells)))


def open_hub(data: str | Path, configuration: str = "") -> Hub | None:
    """Load the dataset that ``--data`` names; None if it names files."""
    return Hub(str(data), configuration) if str(data).startswith(PREFIX) else None


def as_articles(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Nest SQuAD's flat rows on the hub (a question with its context) as in SQuAD's files.

    Example:
        >>> question = {"id": "q", "question": "Who?", "answers": {"text": ["I"], "answer_start": [0]}}
        >>> (article,) = as_articles([{"title": "T", "context": "I am.", **question}])["data"]
        >>> article["paragraphs"][0]["qas"][0]["answers"]
        [{'text': 'I', 'answer_start': 0}]
    """
    articles: dict[Any, dict[Any, list[dict[str, Any]]]] = {}
    for row in rows:
        question = {name: row[name] for name in ("id", "question") if name in row}
        answers = row.get("answers")
        if isinstance(answers, Mapping):  # a list of texts, and one of offsets
            names = list(answers)
            answers = [dict(zip(names, values, strict=True)) for values in zip(*answers.values(), strict=True)]
        if answers is not None:
            question["answers"] = answers
        articles.setdefault(row.get("title"), {}).setdefault(row.get("context"), []).append(question)
    return {
        "data": [
            ({} if title is None else {"title": title})
            | {"paragraphs": [{"context": context, "qas": qas} for context, qas in paragraphs.items()]}
            for title, paragraphs in articles.items()
        ]
    }


def _load(dataset: str, named: str, configuration: str) -> Any:
    from datasets import DatasetDict, load_dataset, load_from_disk

    folder, chosen = Path(dataset), named or configuration
    if chosen and (folder / chosen).is_dir():
        folder, chosen = folder / chosen, ""
    elif folder.is_dir():  # a folder has no configurations but those that its files declare
        chosen = named
    is_saved = folder.is_dir() and ((folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file())
    try:
        loaded = load_from_disk(str(folder)) if is_saved else load_dataset(str(folder), chosen or None)
    except Exception as error:  # datasets raises whatever its loaders, pyarrow and the network raise
        reason = (str(error).strip().splitlines() or [""])[0]
        raise TaskError(
            f"cannot load the dataset '{folder}': {type(error).__name__}: {reason}: check hub:NAME:CONFIGURATION and "
            "the network, or give hub:FOLDER, a copy made by save_to_disk"
        ) from error
    return loaded if isinstance(loaded, DatasetDict) else DatasetDict({"train": loaded})
