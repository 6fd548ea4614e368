"""What a task is: labelled examples, how a model reads them, and how its predictions are scored."""

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
"""What was predicted for one example, as JSON: ``key`` (the example's name), ``gold`` and ``predicted`` where there is
one label, a ``group`` where examples belong together (a SQuAD paragraph), and the columns its metrics read."""


@dataclass(frozen=True)
class Split(Generic[E]):
    """One split's examples, and what was counted while they were read."""

    name: str
    examples: Sequence[E]
    is_labelled: bool
    """False for a test split whose labels are withheld."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Examples left out and why, labels that do not fit their text, empty texts: only what is not 0."""


@dataclass(frozen=True)
class Encoded:
    """A split as a model reads it. A family may add what it needs to turn outputs into predictions."""

    features: Features
    counts: Mapping[str, int] = field(default_factory=dict)
    """``truncated`` and the like."""


def digest_of(examples: Iterable[Any]) -> str:
    """Return 16 hexadecimal digits of examples, in order: their texts, labels and keys.

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

    ``read`` knows file formats, ``encode`` tokenizers, ``predictions`` what outputs mean. None of them knows the loop.
    A family is added by a line in ``trueneg.tasks.FAMILIES``, or by a plugin: what others need to know of it is in
    the class.
    """

    kind: ClassVar[str]
    """What its examples are, for attacks: ``text`` (``TextExample``), ``squad`` (``SquadExample``), …"""
    preset_family: ClassVar[str] = "text"
    """Which of the published fine-tuning settings fit: ``text``, or ``squad`` for long contexts."""
    auto_class: ClassVar[str]
    """Class of transformers that has the head: ``AutoModelForSequenceClassification``, …"""

    name: str
    """As on the command line: ``glue/mrpc``."""
    metrics: tuple[str, ...]
    """Names in ``trueneg.tasks.metrics.METRICS``; models are chosen and compared by the first."""
    labels: tuple[str, ...]
    """What the numbers of ``gold`` and ``predicted`` stand for; empty for a regression task."""
    train_split: str = "train"
    dev_splits: tuple[str, ...] = ("dev",)
    """Splits with labels that results are reported on."""
    is_split_off: bool = False
    """Whether the validation split is a part of one's own training file, which ``read`` can also read as a whole."""
    left_out: frozenset[str] = frozenset()
    """``fingerprint``s of training examples that are not trained on, because they are in a contrast set."""
    notes: tuple[str, ...] = ()
    """What was found out, a line each, for the user to read: guessed columns, a part that was set aside."""

    @classmethod
    def from_config(cls, options: TaskConfig, labels: Sequence[str] | None = None) -> Self:
        """Make the task that a configuration names.

        Args:
            options: Name, data and columns.
            labels: Those of a model that exists already; then one's own data needs no training split.
        """
        raise NotImplementedError(f"{cls.__name__} is made by its constructor only")

    @property
    def num_outputs(self) -> int:
        """Numbers that the model's head gives for a row or token."""
        return max(1, len(self.labels))

    @abstractmethod
    def read(self, split: str, *, is_whole: bool = False) -> Split[E]:
        """Read a split's files.

        Args:
            split: Its name.
            is_whole: Read the whole of a training file of which a part is set aside (``is_split_off``): right for
                evaluating a model that was not trained on the rest.

        Raises:
            TaskError: naming file, line and remedy: a missing file or column, a malformed line, an unknown label.
        """

    def released(self, split: str) -> Sequence[E]:
        """Read all examples of a split as it was released, those of ``left_out`` among them."""
        return self.read(split).examples

    @abstractmethod
    def encode(
        self, examples: Sequence[E], tokenizer: PreTrainedTokenizerFast, length: int, *, is_training: bool
    ) -> Encoded:
        """Make rows of at most ``length`` tokens; with targets if ``is_training``."""

    @abstractmethod
    def objective(self) -> LabelledObjective:
        """Make the objective that fine-tuning minimises."""

    @abstractmethod
    def predictions(
        self, examples: Sequence[E], encoded: Encoded, outputs: Sequence[NDArray[np.float32]]
    ) -> list[Prediction]:
        """Turn outputs into predictions, one an example, in order.

        Args:
            examples: Those of one split.
            encoded: What ``encode`` made of them with ``is_training=False``.
            outputs: ``objective().outputs`` of each row: ``[numbers]`` or ``[tokens of the row, numbers]``.
        """

    def swapped(self, examples: Sequence[E]) -> list[E]:
        """Return the examples, and each again with its two texts in the other order.

        Raises:
            ConfigError: for a task that has no pairs.
        """
        raise ConfigError(f"task.swap_pairs: '{self.name}' has no pairs of texts: leave it out")

    @abstractmethod
    def subset(self, examples: Sequence[E], num: int, seed: int) -> list[E]:
        """Choose ``num`` examples, the same for the same seed, with each label's share kept where there are labels."""
