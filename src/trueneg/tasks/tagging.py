"""Token classification: named entities, parts of speech."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from trueneg.config.finetune_options import TaskConfig
from trueneg.errors import ConfigError, ModelError, TaskError, unknown_name
from trueneg.objectives.labelled import LabelledObjective, Tagging
from trueneg.tasks.base import Encoded, Prediction, Split, Task
from trueneg.tasks.conll import EXTENSIONS, OUTSIDE, Sentence, entities, read_conll, scheme_of, to_iob2
from trueneg.tasks.hub import PREFIX
from trueneg.tasks.records import Files, name_of
from trueneg.tasks.split import ValidationPart, stratified_subset
from trueneg.tasks.tabular import sorted_labels
from trueneg.training.features import NO_TARGET, Features

_CHUNK = 1024
"""Rows tokenized at once."""


@dataclass(frozen=True, kw_only=True)
class TaggedRows(Encoded):
    """Rows of words; a sentence that is too long for one continues in another."""

    row_examples: NDArray[np.int64]
    """Index of each row's sentence, ``[rows]``."""
    words: NDArray[np.int32]
    """At a word's first token, the index of the word in its sentence; -1 at all other tokens, ``[tokens]``."""


class TaggingTask(Task[Sentence]):
    """Tagging of words, read from CoNLL files.

    Tags that mark entities (IOB1, IOB2, IOBES, detected in the training split) are converted to IOB2 and scored by
    ``span_f1`` of whole entities; other tags by ``token_accuracy``. The tags are those of the training split.

    Args:
        name: Name of the task, for the result files.
        data: A file, or a folder with ``train.*``, ``dev.*`` (or ``valid``, ``testa``) and ``test.*`` (``testb``).
        word_column: See ``read_conll``.
        tag_column: See ``read_conll``.
        labels: The tags in order, if a model already has them; then no training split is needed.
        validation_fraction: Share of the training split that is set aside if there is no validation file.
        seed: Seed of that choice.

    Raises:
        TaskError: naming the file, if it cannot be read or its tags follow no scheme.
    """

    kind = "tagging"
    auto_class = "AutoModelForTokenClassification"

    def __init__(
        self,
        name: str,
        data: str | Path,
        *,
        word_column: int | None = None,
        tag_column: int | None = None,
        labels: Sequence[str] | None = None,
        validation_fraction: float = 0.1,
        seed: int = 0,
    ) -> None:
        self.name = name
        self.data = Path(data)
        self.word_column, self.tag_column = word_column, tag_column
        self.validation_part = ValidationPart(validation_fraction, seed)
        if str(data).startswith(PREFIX):
            raise TaskError(f"--data {data}: tagging reads files in CoNLL's columns: write the data set out as such")
        self.source = Files(self.data, EXTENSIONS)
        splits = self.source.splits
        self.is_split_off = "dev" not in splits and self.train_split in splits
        frequency: Counter[str] = Counter()
        if self.train_split in splits:
            path = splits[self.train_split]
            tags = [s.tags for s in self._sentences(path)[0] if s.tags is not None]
            if not tags:
                raise TaskError(f"{path}: one column, so no tags to train on: give words and tags")
            try:
                self.scheme = scheme_of(tags)
            except TaskError as error:
                raise TaskError(f"{path}: {error}: fix it") from error
            frequency.update(tag for sentence in tags for tag in sentence)
        elif labels is None:
            raise TaskError(f"--data {data}: no training split to take the tags from, only {', '.join(splits)}")
        else:
            self.scheme = "IOB2" if any(label.startswith("B-") for label in labels) else "none"
        self.labels = tuple(labels or _labels(frequency, self.is_of_entities))
        self.metrics = ("span_f1", "token_accuracy") if self.is_of_entities else ("token_accuracy",)
        # For words that a tokenizer turns into no tokens.
        self.fallback = OUTSIDE if self.is_of_entities else max(self.labels, key=lambda tag: frequency[tag])
        notes = [f"tags mark entities as {self.scheme} does"] if self.is_of_entities else ["tags mark no entities"]
        if self.is_split_off:
            self.set_aside = ("dev",)
            notes.append(str(self.validation_part))
        self.notes = tuple(notes)

    @classmethod
    def from_config(cls, options: TaskConfig, labels: Sequence[str] | None = None) -> Self:
        """Make ``tagging``, named after its data; its columns are numbers, from 0 or from -1 backwards.

        Raises:
            ConfigError: for a column that is not a number.
        """
        return cls(
            name_of(options.data),
            options.data,
            word_column=_column("text-column", options.text_column),
            tag_column=_column("label-column", options.label_column),
            labels=labels or None,
        )

    @property
    def is_of_entities(self) -> bool:
        """Whether tags mark entities of one or more words."""
        return self.scheme != "none"

    def read(self, split: str, *, is_whole: bool = False) -> Split[Sentence]:
        """Read a split.

        Counts ``repaired_tags``, an I that begins an entity where the scheme requires a B, and ``in_other_part``,
        sentences in the other part of a file that is split.

        Raises:
            TaskError: as ``Task.read``.
        """
        is_of_train = self.is_split_off and split in (self.train_split, "dev")
        path = self.source.path(self.train_split if is_of_train else split)
        sentences, counts = self._sentences(path)
        is_labelled = sentences[0].tags is not None  # all lines of a file have the same number of columns
        if is_labelled:
            if self.scheme in ("IOB2", "IOBES"):
                counts["repaired_tags"] = sum(_num_repaired(sentence.tags or ()) for sentence in sentences)
            sentences = [self._checked(path, sentence) for sentence in sentences]
        counts = {what: number for what, number in counts.items() if number}
        whole = Split(split, sentences, is_labelled, counts)
        if not is_of_train or is_whole:
            return whole
        return self.validation_part.of(whole, _rarest(sentences), str(self.data))

    def encode(
        self, examples: Sequence[Sentence], tokenizer: PreTrainedTokenizerFast, length: int, *, is_training: bool
    ) -> TaggedRows:
        """Tokenize sentences into rows. One that is too long continues in further rows, from the start of a word.

        A word's tag is at its first token. ``split_sentences`` counts sentences of several rows,
        ``words_without_pieces`` words that the tokenizer turns into no tokens (their tag is then ``fallback``).

        Raises:
            ConfigError: for a length that leaves no room for text.
            TaskError: for training sentences without tags.
        """
        if length <= tokenizer.num_special_tokens_to_add():
            raise ConfigError(f"a length of {length} leaves no room for text: give more")
        rows = _rows(examples, tokenizer, length)
        rows.sort(key=lambda row: (row.example, row.first))
        types = [row.types for row in rows if row.types is not None]
        features = Features.of([row.ids for row in rows], types or None)
        words = np.concatenate([np.zeros(0, np.int32), *(np.array(row.words, np.int32) for row in rows)])
        owners = np.array([row.example for row in rows], dtype=np.int64)
        if is_training:
            targets = self._targets(examples, words, np.repeat(owners, features.lengths))
            features = replace(features, token_targets={"tags": targets})
        counts = {
            "split_sentences": int((np.bincount(owners, minlength=1) > 1).sum()),
            "words_without_pieces": sum(len(s.words) for s in examples) - int((words >= 0).sum()),
        }
        counts = {what: number for what, number in counts.items() if number}
        return TaggedRows(features, counts, row_examples=owners, words=words)

    def objective(self) -> LabelledObjective:
        """Make the cross-entropy of each word's tag."""
        return Tagging()

    def predictions(
        self, examples: Sequence[Sentence], encoded: Encoded, outputs: Sequence[NDArray[np.float32]]
    ) -> list[Prediction]:
        """Turn outputs into tags, and count right words and entities.

        Raises:
            ModelError: for outputs that are not finite.
        """
        assert isinstance(encoded, TaggedRows)
        predicted = [[self.fallback] * len(sentence.words) for sentence in examples]
        starts = encoded.features.starts
        for row, (owner, numbers) in enumerate(zip(encoded.row_examples, outputs, strict=True)):
            words = encoded.words[starts[row] : starts[row + 1]]
            numbers = numbers[words >= 0]
            if not np.isfinite(numbers).all():
                raise ModelError(
                    f"{self.name}: the model's output for '{examples[owner].key}' is not finite: it diverged, train it "
                    "again"
                )
            for word, tag in zip(words[words >= 0].tolist(), numbers.argmax(axis=-1).tolist(), strict=True):
                predicted[owner][word] = self.labels[tag]
        return [self._prediction(sentence, tags) for sentence, tags in zip(examples, predicted, strict=True)]

    def subset(self, examples: Sequence[Sentence], num: int, seed: int) -> list[Sentence]:
        """Choose ``num`` sentences: see ``stratified_subset``; a sentence's label is its rarest tag."""
        return [examples[number] for number in stratified_subset(_rarest(examples), num, seed)]

    def _sentences(self, path: Path) -> tuple[list[Sentence], dict[str, int]]:
        return read_conll(path, self.word_column, self.tag_column)

    def _checked(self, path: Path, sentence: Sentence) -> Sentence:
        """Return the sentence with tags in the form that the model predicts."""
        given = sentence.tags or ()
        tags = tuple(to_iob2(given)) if self.is_of_entities else given
        for word, tag, written in zip(sentence.words, tags, given, strict=True):
            if tag not in self.labels:
                fault = unknown_name("tag", written, self.labels)
                raise TaskError(f"{path}:{sentence.line}: {word!r} in the sentence from here has an {fault}")
        return replace(sentence, tags=tags)

    def _targets(
        self, examples: Sequence[Sentence], words: NDArray[np.int32], owners: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        if untagged := next((sentence.key for sentence in examples if sentence.tags is None), None):
            raise TaskError(f"{self.name}: sentence '{untagged}' has no tags to train on: train on a labelled split")
        numbers = {label: number for number, label in enumerate(self.labels)}
        targets = np.full(len(words), NO_TARGET, dtype=np.int64)
        for at in np.flatnonzero(words >= 0):
            targets[at] = numbers[(examples[owners[at]].tags or ())[words[at]]]
        return targets

    def _prediction(self, sentence: Sentence, predicted: list[str]) -> Prediction:
        prediction: Prediction = {"key": sentence.key, "predicted": predicted}
        if sentence.tags is None:
            return prediction
        gold = list(sentence.tags)
        right = sum(p == g for p, g in zip(predicted, gold, strict=True))
        prediction |= {"gold": gold, "num_tokens": len(gold), "num_tokens_right": right}
        if self.is_of_entities:
            there, found = entities(gold), entities(predicted)
            prediction |= {"num_gold": len(there), "num_predicted": len(found), "num_right": len(there & found)}
        return prediction


def _column(option: str, value: str) -> int | None:
    try:
        return int(value) if value else None
    except ValueError as error:
        raise ConfigError(f"--{option} {value}: must be the number of a column, from 0") from error


@dataclass(frozen=True, slots=True)
class _Row:
    example: int
    first: int
    ids: list[int]
    types: list[int] | None
    words: list[int]


def _rows(examples: Sequence[Sentence], tokenizer: PreTrainedTokenizerFast, length: int) -> list[_Row]:
    has_types = "token_type_ids" in tokenizer.model_input_names
    # A byte-level vocabulary has a different entry for a word after a space, as in running text.
    space = " " if tokenizer.tokenize("a") != tokenizer.tokenize(" a") else ""
    rows: list[_Row] = []
    waiting = [(number, 0) for number in range(len(examples))]
    while waiting:
        chunk, waiting = waiting[:_CHUNK], waiting[_CHUNK:]
        encoded = tokenizer(
            # Nearly every word has a token, so more words than ``length`` do not fit.
            [[space + word for word in examples[number].words[first : first + length]] for number, first in chunk],
            is_split_into_words=True,
            truncation=True,
            max_length=length,
            return_attention_mask=False,
            return_token_type_ids=has_types,
        )
        for at, (number, first) in enumerate(chunk):
            encoding = encoded.encodings[at]
            words, end = _first_pieces(encoding, first, min(first + length, len(examples[number].words)))
            types = encoded["token_type_ids"][at] if has_types else None
            rows.append(_Row(number, first, encoded["input_ids"][at], types, words))
            if end < len(examples[number].words):
                waiting.append((number, end))
    return rows


def _first_pieces(encoding: object, first: int, last: int) -> tuple[list[int], int]:
    """Return the index of the word that each token begins, else -1; and the word that the next row begins with."""
    word_ids: list[int | None] = encoding.word_ids  # type: ignore[attr-defined]
    overflowing = encoding.overflowing  # type: ignore[attr-defined]
    words, previous = [], None
    for word in word_ids:
        words.append(-1 if word is None or word == previous else first + word)
        previous = word
    if not overflowing:
        return words, last
    there = {word for word in word_ids if word is not None}
    reached = max(there)
    if reached in overflowing[0].word_ids and len(there) > 1:  # it is cut: the next row has it whole
        return [-1 if word == first + reached else word for word in words], first + reached
    return words, first + reached + 1


def _labels(frequency: Mapping[str, int], is_of_entities: bool) -> list[str]:
    """Order the tags; B and I of each type, even if only one occurs, as other splits may have the other."""
    if not is_of_entities:
        return sorted_labels(frequency)
    kinds = sorted({tag[2:] for tag in frequency if tag != OUTSIDE})
    return [OUTSIDE, *(f"{mark}-{kind}" for kind in kinds for mark in "BI")]


def _num_repaired(tags: Sequence[str]) -> int:
    return sum(new[0] == "B" and old[0] not in "BSU" for old, new in zip(tags, to_iob2(tags), strict=True))


def _rarest(examples: Sequence[Sentence]) -> list[str]:
    frequency = Counter(tag for sentence in examples for tag in sentence.tags or ())
    return [min(sentence.tags or ("",), key=lambda tag: (frequency[tag], tag)) for sentence in examples]
