"""Classification and regression of texts or pairs of texts."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from trueneg.errors import ConfigError, ModelError, TaskError, unknown_name
from trueneg.objectives.labelled import Classification, LabelledObjective, Regression
from trueneg.tasks.base import Encoded, Prediction, Split, Task
from trueneg.tasks.records import WITHHELD, Records
from trueneg.tasks.split import stratified_subset
from trueneg.training.features import Features

_CHUNK = 4096
"""Texts tokenized at once: enough to keep all cores busy, few enough to keep memory small."""


@dataclass(frozen=True, slots=True)
class TextExample:
    """A text or a pair of them."""

    key: str
    """Unique in its split: the file's own index, if it has one."""
    text: str
    second: str | None = None
    label: int | float | None = None
    """Class id, or the value of a regression task; None if it is withheld."""
    group: str | None = None
    """Shared by examples that belong together: the original of a contrast set."""


def plain_review(text: str) -> str:
    """Remove IMDb's only markup: each ``<br />`` is about eight tokens, and no word."""
    return re.sub(r"(?:<br />)+", " ", text)


def fingerprint(example: TextExample) -> str:
    """Return what identifies an example, ignoring whitespace, case and punctuation.

    Example:
        >>> fingerprint(TextExample("0", "A good  film.<br />Really!", "So?"))
        'agoodfilmreally|so'
    """
    return "|".join(
        re.sub(r"[\W_]+", "", plain_review(text).casefold()) for text in (example.text, example.second or "")
    )


@dataclass(frozen=True)
class TextColumns:
    """Names of the columns that an example is made of."""

    text: str
    second: str | None = None
    label: str | None = None
    key: str | None = None
    """If None or not in a file, an example's key is the index of its row, from 0."""
    group: str | None = None


class TextTask(Task[TextExample]):
    """Classification, or regression where there are no labels, of texts or pairs of texts.

    Args:
        name: Name on the command line.
        metrics: Metrics, the primary one first.
        labels: Names of the classes; none for regression.
        bounds: Minimum and maximum of a regression task's values: predictions are clipped to them (``value`` keeps the
            model's own).
        is_unordered: Whether the texts of a pair may be swapped, so that ``swapped`` adds pairs.
        shared_text: Which text several examples share (an inference task's premise). ``predictions`` groups examples by
            it that have no ``group`` of their own: they are not independent, and intervals draw whole groups.
    """

    kind = "text"
    auto_class = "AutoModelForSequenceClassification"

    def __init__(
        self,
        name: str,
        *,
        metrics: Sequence[str],
        labels: Sequence[str] = (),
        bounds: tuple[float, float] | None = None,
        is_unordered: bool = False,
        shared_text: Literal["text", "second"] | None = None,
    ) -> None:
        self.name = name
        self.metrics = tuple(metrics)
        self.labels = tuple(labels)
        self.bounds = bounds
        self.is_unordered = is_unordered
        self.shared_text = shared_text

    @abstractmethod
    def read(self, split: str, *, is_whole: bool = False) -> Split[TextExample]:
        """Read a split's files: see ``Task.read``."""

    def cleaned(self, example: TextExample) -> TextExample:
        """Return an example as ``read`` does, without markup; unchanged unless the task's texts have some."""
        return example

    def encode(
        self, examples: Sequence[TextExample], tokenizer: PreTrainedTokenizerFast, length: int, *, is_training: bool
    ) -> Encoded:
        """Tokenize each example into one row, truncating the longer text of a pair first.

        Returns:
            Rows with the target ``label`` if ``is_training``; ``truncated`` counts rows that lost tokens.

        Raises:
            ConfigError: for a length that leaves no room for text.
            TaskError: for training examples without labels.
        """
        if length <= tokenizer.num_special_tokens_to_add(pair=any(e.second is not None for e in examples)):
            raise ConfigError(f"a length of {length} leaves no room for text: give more")
        targets = self._targets(examples) if is_training else None
        ids, types, lengths, num_truncated = _tokenized(examples, tokenizer, length)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        features = Features(ids, types, starts, {} if targets is None else {"label": targets})
        return Encoded(features, {"truncated": num_truncated})

    def objective(self) -> LabelledObjective:
        """Make the cross-entropy of the label, or the squared error of a regression task."""
        return Classification() if self.labels else Regression()

    def predictions(
        self, examples: Sequence[TextExample], encoded: Encoded, outputs: Sequence[NDArray[np.float32]]
    ) -> list[Prediction]:
        """Turn outputs into a class id and all ``probabilities``, or into a value; with ``gold`` if known.

        Raises:
            ModelError: for outputs that are not finite.
        """
        numbers = np.stack(outputs).astype(np.float64) if len(outputs) else np.zeros((0, self.num_outputs))
        if len(numbers) != len(examples) or numbers.shape[1:] != (self.num_outputs,):
            raise AssertionError(f"outputs {numbers.shape} for {len(examples)} examples of {self.num_outputs} numbers")
        if not np.isfinite(numbers).all():
            key = examples[int(np.flatnonzero(~np.isfinite(numbers).all(axis=1))[0])].key
            raise ModelError(f"{self.name}: the model's output for '{key}' is not finite: it diverged, train it again")
        predicted = self._classes(numbers) if self.labels else self._values(numbers[:, 0])
        return [
            {"key": example.key}
            | ({} if group is None else {"group": group})
            | ({} if example.label is None else {"gold": example.label})
            | prediction
            for example, group, prediction in zip(examples, self.groups(examples), predicted, strict=True)
        ]

    def subset(self, examples: Sequence[TextExample], num: int, seed: int) -> list[TextExample]:
        """Choose ``num`` examples: see ``stratified_subset``. For regression, they are drawn uniformly."""
        labels: list[Hashable] = [example.label if self.labels else None for example in examples]
        return [examples[number] for number in stratified_subset(labels, num, seed)]

    def swapped(self, examples: Sequence[TextExample]) -> list[TextExample]:
        """Return pairs in both orders: ELECTRA's doubling of MRPC's and STS-B's training pairs (``double_unordered``).

        Raises:
            ConfigError: for a task whose pairs have an order, or that has no pairs.
        """
        if not self.is_unordered:
            raise ConfigError(f"task.swap_pairs: the order of texts in '{self.name}' has a meaning: leave it out")
        return list(examples) + [
            replace(example, key=f"{example.key}/swapped", text=example.second, second=example.text)
            for example in examples
            if example.second is not None
        ]

    def groups(self, examples: Sequence[TextExample]) -> list[str | None]:
        """Return each example's own group, or the key of the first example with the same ``shared_text``."""
        if self.shared_text is None:
            return [example.group for example in examples]
        first: dict[str | None, str] = {}
        return [
            first.setdefault(getattr(example, self.shared_text), example.key)
            if example.group is None
            else example.group
            for example in examples
        ]

    def _targets(self, examples: Sequence[TextExample]) -> NDArray[np.generic]:
        if unlabelled := next((example.key for example in examples if example.label is None), None):
            raise TaskError(f"{self.name}: '{unlabelled}' has no label to train on: train on a labelled split")
        values = [0 if example.label is None else example.label for example in examples]
        return np.array(values, dtype=np.int64 if self.labels else np.float32)

    @staticmethod
    def _classes(logits: NDArray[np.float64]) -> list[Prediction]:
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities = (weights / weights.sum(axis=1, keepdims=True)).round(6)
        # From the logits: the probabilities of two labels may be equal after rounding.
        predicted = logits.argmax(axis=1)
        return [
            {"predicted": number, "probabilities": row}
            for number, row in zip(predicted.tolist(), probabilities.tolist(), strict=True)
        ]

    def _values(self, values: NDArray[np.float64]) -> list[Prediction]:
        values = values.round(6)
        if self.bounds is None:
            return [{"predicted": value} for value in values.tolist()]
        clipped = values.clip(*self.bounds).tolist()
        return [{"predicted": p, "value": v} for p, v in zip(clipped, values.tolist(), strict=True)]


def examples_of(
    name: str,
    records: Records,
    columns: TextColumns,
    labels: Sequence[str],
    *,
    undecided: str | None = None,
) -> Split[TextExample]:
    """Make a split from a file's rows.

    Args:
        name: Name of the split.
        records: The rows.
        columns: The columns to read. A file without the label column, or with an empty one, is unlabelled.
        labels: Names of the classes; none for a regression task, whose labels are numbers.
        undecided: Label of rows on which annotators did not agree: these, and rows whose label is ``WITHHELD``, are
            left out and counted.

    Returns:
        The examples; counts of ``empty_texts`` (kept), ``undecided`` (left out), ``duplicate_keys`` (kept as
        ``key#2``) and what ``records`` counts.

    Raises:
        TaskError: naming file and line, for a missing column, a missing or unknown label, a missing group, or a value
            that is not a finite number.
    """
    text = records.column(columns.text)
    second = None if columns.second is None else records.column(columns.second)
    group = None if columns.group is None else records.column(columns.group)
    key, at = (records.names.index(c) if c in records.names else None for c in (columns.key, columns.label))
    is_labelled = at is not None and any(row[at] for row in records.rows)
    numbers = {label: number for number, label in enumerate(labels)}

    def label_of(number: int) -> int | float | None:
        if not is_labelled or at is None:
            return None
        cell = records.rows[number][at]
        if not labels:
            return _finite(records, number, cell)
        if cell not in numbers:
            fault = unknown_name("label", cell, labels) if cell else "no label, though other rows have one"
            raise TaskError(f"{records.where(number)}: {fault}: fix or remove the row")
        return numbers[cell]

    left_out = {undecided, WITHHELD} if is_labelled else set()
    kept = [number for number, row in enumerate(records.rows) if at is None or row[at] not in left_out]
    keys, num_repeated = unique_keys(str(n) if key is None else records.rows[n][key] for n in kept)
    examples = []
    for number, its_key in zip(kept, keys, strict=True):
        row = records.rows[number]
        pair = row[text], None if second is None else row[second]
        if group is not None and not row[group]:
            raise TaskError(
                f"{records.where(number)}: no {columns.group!r}, the group's column: fill it, or remove the row"
            )
        examples.append(TextExample(its_key, *pair, label_of(number), None if group is None else row[group]))
    counts = {
        **records.counts,
        "undecided": len(records.rows) - len(kept),
        "duplicate_keys": num_repeated,
        "empty_texts": sum(not e.text.strip() or (e.second is not None and not e.second.strip()) for e in examples),
    }
    return Split(name, examples, is_labelled, {count: number for count, number in counts.items() if number})


def unique_keys(keys: Iterable[str]) -> tuple[list[str], int]:
    """Make repeated keys unique, so that the predictions of two models can be paired by them.

    Returns:
        The keys, and how many of them had to be changed.

    Example:
        >>> unique_keys(["a", "b", "a", "a"])
        (['a', 'b', 'a#2', 'a#3'], 2)
    """
    given = list(keys)
    seen, taken = dict.fromkeys(given, 0), set(given)
    unique = []
    for key in given:
        seen[key] += 1
        name = key
        while seen[key] > 1 and (name := f"{key}#{seen[key]}") in taken:
            seen[key] += 1
        taken.add(name)
        unique.append(name)
    return unique, sum(name != key for name, key in zip(unique, given, strict=True))


def _finite(records: Records, number: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise TaskError(f"{records.where(number)}: {text!r} is no finite number: fix or remove the row")
    return value


def _tokenized(
    examples: Sequence[TextExample], tokenizer: PreTrainedTokenizerFast, length: int
) -> tuple[NDArray[np.int32], NDArray[np.int8] | None, NDArray[np.int64], int]:
    """Return concatenated ids and types, ``[tokens]``; each row's length, ``[rows]``; how many rows were truncated."""
    has_types = "token_type_ids" in tokenizer.model_input_names
    ids: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]
    types: list[NDArray[np.int8]] = [np.zeros(0, np.int8)]
    lengths: list[int] = []
    num_truncated = 0
    for chunk in _chunks(examples):
        encoded = tokenizer(
            [example.text for example in chunk],
            [example.second or "" for example in chunk] if chunk[0].second is not None else None,
            truncation="longest_first",
            max_length=length,
            return_attention_mask=False,
            return_token_type_ids=has_types,
        )
        sizes = [len(row) for row in encoded["input_ids"]]
        num_tokens = sum(sizes)
        ids.append(np.fromiter((token for row in encoded["input_ids"] for token in row), np.int32, num_tokens))
        if has_types:
            types.append(np.fromiter((kind for row in encoded["token_type_ids"] for kind in row), np.int8, num_tokens))
        # Only full rows can overflow, and accessing ``overflowing`` copies it.
        num_truncated += sum(
            size >= length and bool(encoding.overflowing)
            for size, encoding in zip(sizes, encoded.encodings, strict=True)
        )
        lengths += sizes
    return (
        np.concatenate(ids),
        np.concatenate(types) if has_types else None,
        np.array(lengths, dtype=np.int64),
        num_truncated,
    )


def _chunks(examples: Sequence[TextExample]) -> Iterable[Sequence[TextExample]]:
    """Yield chunks of at most ``_CHUNK``, of single texts only or of pairs only."""
    begin = 0
    for end in range(1, len(examples) + 1):
        is_last = end == len(examples)
        if is_last or end - begin == _CHUNK or (examples[end].second is None) != (examples[begin].second is None):
            yield examples[begin:end]
            begin = end
