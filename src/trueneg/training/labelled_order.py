"""The order in which labelled rows are seen: shuffled epochs in batches of like lengths."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from trueneg.config.options import TrainConfig
from trueneg.corpus.permutation import permute, rows_at
from trueneg.corruption.keyed import mixed_seed
from trueneg.objectives.labelled import LabelledBatch
from trueneg.training.distributed import Processes
from trueneg.training.features import Features
from trueneg.training.order import BatchLoader


class LabelledBatches(BatchLoader[LabelledBatch]):
    """The micro-batches of any step, of encoded rows.

    Each epoch is a seeded permutation of all rows, cut into windows of ``window`` batches; within a window rows are
    sorted by length before they are cut into batches, and the epoch's batches come in a seeded order. So a batch has
    rows of like lengths and hardly any padding, while which rows meet changes from epoch to epoch. The last batch of
    an epoch may be short. ``window=1`` is plain shuffling.

    Args:
        features: What is trained on.
        pad_id: Of the tokenizer.
        window: Batches among which rows are sorted.
        config: Batch size, seed, accumulation.
        processes: Who shares a step.
    """

    def __init__(
        self, features: Features, pad_id: int, window: int, config: TrainConfig, processes: Processes | None = None
    ) -> None:
        super().__init__(config, processes or Processes())
        self._features, self._pad_id, self._window = features, pad_id, window
        self._epoch = lru_cache(maxsize=2)(self._batches_of_epoch)

    @property
    def steps_per_epoch(self) -> int:
        """Batches that hold all rows, the last one maybe in part."""
        return -(-len(self._features) // self.config.batch_size)

    @property
    def tokens_per_step(self) -> float:
        """Tokens that are not padding, on average."""
        return float(self._features.lengths.sum()) / self.steps_per_epoch

    def rows(self, step: int) -> NDArray[np.int64]:
        """Which rows a step sees, ``[at most batch_size]``, the shortest first."""
        epoch, number = divmod(step, self.steps_per_epoch)
        return self._epoch(epoch)[number]

    def micro_batches(self, step: int) -> list[LabelledBatch]:
        """This process's rows of one optimizer step, as many batches as ``accumulation``."""
        rows = self.rows(step)
        return [
            # Every process takes part in every micro-batch, if only with a row that does not count.
            self._features.batch(own, self._pad_id) if len(own) else self._features.batch(rows[:1], self._pad_id, 0)
            for own in self.own_parts(rows)
        ]

    def _batches_of_epoch(self, epoch: int) -> list[NDArray[np.int64]]:
        size, num = self.config.batch_size, len(self._features)
        rows = rows_at(self.config.seed, np.arange(epoch * num, (epoch + 1) * num), num)
        # Windows are sorted by (window, length); rows of equal length stay in their random order.
        window = np.arange(num) // (size * self._window)
        rows = rows[np.lexsort((self._features.lengths[rows], window))] if self._window > 1 else rows
        batches = np.split(rows, np.arange(size, num, size))
        order = permute(np.arange(len(batches)), len(batches), key=mixed_seed(self.config.seed, epoch))
        return [batches[number] for number in order]
