"""What a task is: labelled examples, how a model reads them, and how its answers are scored."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

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
    """One split's examples, and what was met while they were read."""

    name: str
    examples: Sequence[E]
    is_labelled: bool
    """False for a test split whose labels are withheld."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """What is worth reporting: examples left out and why, labels that do not fit their text, empty texts."""


@dataclass(frozen=True)
class Encoded:
    """A split as a model reads it. A family may add what it needs to turn outputs into answers."""

    features: Features
    counts: Mapping[str, int] = field(default_factory=dict)
    """``truncated`` and whatever else was met."""


def digest_of(split: Split[Any]) -> str:
    """16 hexadecimal digits of a split's examples, in order: their texts, labels and keys."""
    digest = hashlib.sha256()
    for example in split.examples:
        digest.update(f"{example!r}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


class Task(ABC, Generic[E]):
    """A kind of labelled text: one of its family, with its files, labels and metrics.

    ``read`` knows file formats, ``encode`` tokenizers, ``answers`` what outputs mean. None of them knows the loop.
    """

    name: str
    """As it is written on the command line: ``glue/mrpc``."""
    metrics: tuple[str, ...]
    """Names in ``evaluation.metrics.METRICS``, the one that models are chosen and compared by first."""
    labels: tuple[str, ...]
    """What the numbers of ``gold`` and ``predicted`` stand for; empty where they are quantities."""
    train_split: str = "train"
    dev_splits: tuple[str, ...] = ("dev",)
    """Splits with labels that results are reported on."""
    notes: tuple[str, ...] = ()
    """What was not said but found out: columns that were guessed, a part that was set aside."""
    auto_class: ClassVar[str]
    """Of transformers: ``AutoModelForSequenceClassification``, …"""

    @property
    def num_outputs(self) -> int:
        """Numbers that the model's head gives for a row or token."""
        return max(1, len(self.labels))

    @abstractmethod
    def read(self, split: str) -> Split[E]:
        """Read a split's files.

        Raises:
            TaskError: naming file, line and remedy: a missing file or column, a malformed line, an unknown label.
        """

    @abstractmethod
    def encode(
        self, examples: Sequence[E], tokenizer: PreTrainedTokenizerFast, length: int, *, is_training: bool
    ) -> Encoded:
        """Make rows of at most ``length`` tokens; with targets if ``is_training``."""

    @abstractmethod
    def objective(self) -> LabelledObjective:
        """What fine-tuning minimises."""

    @abstractmethod
    def answers(
        self, examples: Sequence[E], encoded: Encoded, outputs: Sequence[NDArray[np.float32]]
    ) -> list[Prediction]:
        """What outputs mean, one answer an example, in order.

        Args:
            examples: Of one split.
            encoded: What ``encode`` made of them with ``is_training=False``.
            outputs: Of ``objective().outputs`` for each row: ``[numbers]`` or ``[tokens of the row, numbers]``.
        """

    def swapped(self, examples: Sequence[E]) -> list[E]:
        """Examples, and each again with its two texts in the other order.

        Raises:
            ConfigError: for a task that has no pairs.
        """
        raise ConfigError(f"task.swap_pairs: '{self.name}' has no pairs of texts: leave it out")

    @property
    def is_split_off(self) -> bool:
        """Whether the validation split is a part of the training file."""
        return False

    def ask_about_all(self) -> None:
        """Take a part that was set aside of a training file for the whole: no model was trained on the rest."""

    @abstractmethod
    def subset(self, examples: Sequence[E], num: int, seed: int) -> list[E]:
        """Choose so many examples, alike for the same seed, with each label's share kept where there are labels."""
