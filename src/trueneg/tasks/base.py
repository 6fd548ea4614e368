"""Interface of a task: labelled examples, how a model reads them, and how its predictions are scored."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from trueneg.config.finetune_options import TaskConfig
from trueneg.errors import ConfigError
from trueneg.objectives.labelled import LabelledObjective
from trueneg.training.features import Features

E = TypeVar("E")
"""A task's example: a frozen dataclass."""

Prediction = dict[str, Any]
"""Prediction for one example, as JSON: ``key`` (the example's name), ``gold`` and ``predicted`` if there is one label,
``group`` if examples belong together (a SQuAD paragraph), and the columns that its metrics read."""


@dataclass(frozen=True)
class Split(Generic[E]):
    """Examples of one split, and counts from reading them."""

    name: str
    examples: Sequence[E]
    is_labelled: bool
    """False for a test split whose labels are withheld."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Number of examples left out by reason, of labels that do not fit their text, of empty texts; no zeros."""


@dataclass(frozen=True)
class Encoded:
    """A tokenized split. A family may add what it needs to turn outputs into predictions."""

    features: Features
    counts: Mapping[str, int] = field(default_factory=dict)
    """Counts such as ``truncated``."""


def digest_of(examples: Iterable[Any]) -> str:
    """Return a digest of 16 hexadecimal digits of examples in order: their texts, labels and keys.

    Example:
        >>> digest_of(["a", "b"]) == digest_of(iter(["a", "b"])) != digest_of(["b", "a"])
        True
    """
    digest = hashlib.sha256()
    for example in examples:
        digest.update(f"{example!r}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


class Task(ABC, Generic[E]):
    """A family of tasks on labelled text, with its files, labels and metrics.

    ``read`` handles file formats, ``encode`` tokenization, ``predictions`` the meaning of outputs; none of them depends
    on the training loop. A family is added by a line in ``trueneg.tasks.FAMILIES``, or by a plugin; its class has
    all that other code needs.
    """

    kind: ClassVar[str]
    """Type of its examples, for attacks: ``text`` (``TextExample``), ``squad`` (``SquadExample``), …"""
    preset_family: ClassVar[str] = "text"
    """Which of the published fine-tuning settings fit: ``text``, or ``squad`` for long contexts."""
    auto_class: ClassVar[str]
    """Transformers class that has the head: ``AutoModelForSequenceClassification``, …"""

    name: str
    """Name as on the command line: ``glue/mrpc``."""
    metrics: tuple[str, ...]
    """Names in ``trueneg.tasks.metrics.METRICS``; models are chosen and compared by the first."""
    labels: tuple[str, ...]
    """Names of the class ids in ``gold`` and ``predicted``; empty for a regression task."""
    train_split: str = "train"
    dev_splits: tuple[str, ...] = ("dev",)
    """Labelled splits that results are reported on."""
    is_split_off: bool = False
    """Whether the validation split is a part of the user's training file, which ``read`` can also read as a whole."""
    set_aside: tuple[str, ...] = ()
    """Splits that are parts of the training file, and change with it."""
    left_out: frozenset[str] = frozenset()
    """``fingerprint``s of training examples that are not trained on, because they are in a contrast set."""
    notes: tuple[str, ...] = ()
    """Notes for the user, one line each: guessed columns, a part that was set aside."""

    @classmethod
    def from_config(cls, options: TaskConfig, labels: Sequence[str] | None = None) -> Self:
        """Make the task that a configuration names.

        Args:
            options: Name, data and columns.
            labels: Labels of an existing model; then your own data needs no training split.
        """
        raise NotImplementedError(f"{cls.__name__} is made by its constructor only")

    @property
    def num_outputs(self) -> int:
        """Number of outputs of the model's head per row or token."""
        return max(1, len(self.labels))

    @abstractmethod
    def read(self, split: str, *, is_whole: bool = False) -> Split[E]:
        """Read a split's files.

        Args:
            split: Name of the split.
            is_whole: Read a whole training file, even if a part of it is set aside (``is_split_off``): for evaluating
                a model that was not trained on the rest.

        Raises:
            TaskError: naming file, line and remedy: for a missing file or column, a malformed line, an unknown label.
        """

    def released(self, split: str) -> Sequence[E]:
        """Read all examples of a split as it was released, including those of ``left_out``."""
        return self.read(split).examples

    @abstractmethod
    def encode(
        self, examples: Sequence[E], tokenizer: PreTrainedTokenizerFast, length: int, *, is_training: bool
    ) -> Encoded:
        """Tokenize examples into rows of at most ``length`` tokens, with targets if ``is_training``."""

    @abstractmethod
    def objective(self) -> LabelledObjective:
        """Make the objective that fine-tuning minimises."""

    @abstractmethod
    def predictions(
        self, examples: Sequence[E], encoded: Encoded, outputs: Sequence[NDArray[np.float32]]
    ) -> list[Prediction]:
        """Turn outputs into predictions, one per example, in order.

        Args:
            examples: Examples of one split.
            encoded: Output of ``encode`` for them with ``is_training=False``.
            outputs: ``objective().outputs`` of each row: ``[num_outputs]`` or ``[tokens of the row, num_outputs]``.
        """

    def swapped(self, examples: Sequence[E]) -> list[E]:
        """Return the examples, and each again with its two texts swapped.

        Raises:
            ConfigError: for a task that has no pairs.
        """
        raise ConfigError(f"task.swap_pairs: '{self.name}' has no pairs of texts: leave it out")

    def groups(self, examples: Sequence[E]) -> list[str | None]:
        """Return the group of each example, of those that share a text or belong together; None for none."""
        return [None] * len(examples)

    @abstractmethod
    def subset(self, examples: Sequence[E], num: int, seed: int) -> list[E]:
        """Choose ``num`` examples, the same for the same seed, preserving the labels' shares if there are labels."""
