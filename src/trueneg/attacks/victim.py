"""The model under attack: queried in batches with little padding, and only once for each text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from trueneg.bounded_cache import BoundedCache
from trueneg.errors import ConfigError, ModelError
from trueneg.evaluation.predictions import pad_id
from trueneg.objectives.labelled import Classification, LabelledBatch
from trueneg.tasks.text import TextExample, TextTask
from trueneg.training.features import Features
from trueneg.training.predict import predict


class Classifier(Protocol):
    """A model that can be attacked: it computes label probabilities for a text, or a pair of texts."""

    @property
    def num_labels(self) -> int:
        """Number of labels."""

    def probabilities(self, examples: Sequence[TextExample]) -> NDArray[np.float64]:
        """Compute probabilities, ``[examples, labels]``; those of an example do not depend on the others."""


@dataclass
class Counts:
    """Statistics of a victim's queries."""

    examples: int = 0
    """Texts that were queried."""
    cached: int = 0
    """Texts whose probabilities were cached, so that no forward pass was needed."""
    forwards: int = 0
    """Batches (forward passes)."""
    tokens: int = 0
    padded_tokens: int = 0
    """Tokens including padding."""
    truncated: int = 0
    """Texts that were truncated."""


class Victim:
    """A model that was fine-tuned for a classification task.

    Probabilities are computed in float64 from float32 logits. The composition of a batch affects their last digits
    (about 1e-7), as on any hardware; texts with the same tokens get identical probabilities while these are cached.

    Args:
        model: Fine-tuned, with the task's head.
        task: The task.
        tokenizer: The model's.
        length: Maximum number of tokens of a text.
        precision: ``fp32``, ``bf16`` or ``fp16``.
        tokens_at_once: Padded tokens per batch; by default as many as ``predict`` chooses for its device.
        cache_size: Number of texts whose probabilities are cached, so that texts with the same tokens are read once.

    Raises:
        ConfigError: for a regression task, which has no label to change.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        task: TextTask,
        tokenizer: PreTrainedTokenizerFast,
        length: int,
        *,
        precision: str = "fp32",
        tokens_at_once: int = 0,
        cache_size: int = 1 << 17,  # about 50 MB
    ) -> None:
        if not task.labels:
            raise ConfigError(
                f"'{task.name}' is a regression task, and attacks change labels: attack a classification task"
            )
        self.model = model
        self.task = task
        self.tokenizer = tokenizer
        self.length = length
        self.counts = Counts()
        self._precision = precision
        self._tokens_at_once = tokens_at_once
        self._pad_id = pad_id(tokenizer)
        self._objective = _Counted(self.counts)
        self._cache: BoundedCache[bytes, NDArray[np.float64]] = BoundedCache(cache_size)

    @property
    def labels(self) -> tuple[str, ...]:
        """The task's labels."""
        return self.task.labels

    @property
    def num_labels(self) -> int:
        """Number of labels."""
        return len(self.task.labels)

    def probabilities(self, examples: Sequence[TextExample]) -> NDArray[np.float64]:
        """Compute the probability of each label.

        Args:
            examples: Texts, or pairs of texts; not both.

        Returns:
            float64 ``[examples, labels]``; each row sums to 1.

        Raises:
            ModelError: for outputs that are not finite.
        """
        if not examples:
            return np.zeros((0, self.num_labels))
        encoded = self.task.encode(examples, self.tokenizer, self.length, is_training=False)
        features = encoded.features
        self.counts.examples += len(examples)
        self.counts.truncated += encoded.counts["truncated"]
        names = row_names(features)

        def read(new: list[bytes]) -> NDArray[np.float64]:
            first = {name: row for row, name in reversed(list(enumerate(names)))}
            rows = [first[name] for name in new]
            self.counts.cached -= len(new)
            return self._read(_chosen_rows(features, rows), [examples[row] for row in rows])

        self.counts.cached += len(examples)
        return np.stack(self._cache.look_up(names, read))

    def _read(self, features: Features, examples: Sequence[TextExample]) -> NDArray[np.float64]:
        outputs = predict(
            self.model,
            self._objective,
            features,
            self._pad_id,
            precision=self._precision,
            tokens_at_once=self._tokens_at_once,
        )
        logits = np.stack(outputs).astype(np.float64)
        if not np.isfinite(logits).all():
            key = examples[int(np.flatnonzero(~np.isfinite(logits).all(axis=1))[0])].key
            raise ModelError(f"{self.task.name}: the victim's output for '{key}' is not finite: train it again")
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))


class _Counted(Classification):
    """Counts batches and tokens."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def outputs(self, model: Any, batch: LabelledBatch) -> Tensor:
        self._counts.forwards += 1
        self._counts.tokens += int(batch.attention_mask.sum())
        self._counts.padded_tokens += batch.attention_mask.numel()
        return super().outputs(model, batch)


def row_names(features: Features) -> list[bytes]:
    """Keys that identify rows of the same tokenizer: their tokens and token types."""
    names = []
    for start, stop in zip(features.starts[:-1].tolist(), features.starts[1:].tolist(), strict=True):
        name = features.input_ids[start:stop].tobytes()
        if features.token_type_ids is not None:
            name += features.token_type_ids[start:stop].tobytes()
        names.append(name)
    return names


def _chosen_rows(features: Features, rows: Sequence[int]) -> Features:
    """Keep some of the rows."""
    if len(rows) == len(features):
        return features
    starts, types = features.starts, features.token_type_ids
    places = np.concatenate([np.arange(starts[row], starts[row + 1]) for row in rows])
    lengths = features.lengths[list(rows)]
    return Features(
        features.input_ids[places],
        None if types is None else types[places],
        np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
    )
