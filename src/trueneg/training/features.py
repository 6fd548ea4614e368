"""Encoded rows of varying length, and batches of them without needless padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trueneg.objectives.labelled import LabelledBatch

NO_TARGET = -100
"""Label of tokens that an objective over tokens ignores, and of padding."""


@dataclass(frozen=True)
class Features:
    """Concatenated rows; row ``i`` is the tokens ``starts[i]`` to ``starts[i + 1]``."""

    input_ids: NDArray[np.int32]
    """``[tokens]``."""
    token_type_ids: NDArray[np.int8] | None
    """``[tokens]``, if the model uses it to distinguish two texts."""
    starts: NDArray[np.int64]
    """``[rows + 1]``."""
    row_targets: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    """By name, ``[rows]`` each: int64 or float32."""
    token_targets: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    """By name, ``[tokens]`` each; ``NO_TARGET`` where there is none."""

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens in each row, ``[rows]``."""
        return np.diff(self.starts)

    @classmethod
    def of(
        cls,
        input_ids: Sequence[Sequence[int]],
        token_type_ids: Sequence[Sequence[int]] | None = None,
        *,
        row_targets: Mapping[str, NDArray[np.generic]] | None = None,
        token_targets: Mapping[str, Sequence[Sequence[int]]] | None = None,
    ) -> Features:
        """Concatenate rows.

        Example:
            >>> rows = Features.of([[5, 6, 7], [8]], row_targets={"label": np.array([1, 0])})
            >>> len(rows), rows.lengths.tolist()
            (2, [3, 1])
        """
        starts = np.zeros(len(input_ids) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in input_ids], out=starts[1:])
        return cls(
            _end_to_end(input_ids, np.int32),
            None if token_type_ids is None else _end_to_end(token_type_ids, np.int8),
            starts,
            row_targets or {},
            {name: _end_to_end(rows, np.int64) for name, rows in (token_targets or {}).items()},
        )

    def batch(self, numbers: NDArray[np.int64], pad_id: int, num_counted: int | None = None) -> LabelledBatch:
        """Collate rows, padded to the longest of them.

        Args:
            numbers: Row numbers, ``[batch]``.
            pad_id: Padding id of the tokenizer.
            num_counted: How many rows, from the first, count; by default all.
        """
        lengths = self.lengths[numbers]
        column = np.arange(int(lengths.max(initial=1)))
        is_text = column < lengths[:, None]
        place = np.where(is_text, self.starts[numbers][:, None] + column, 0)

        def padded(values: NDArray[np.generic], filler: int) -> torch.Tensor:
            return torch.from_numpy(np.where(is_text, values[place], filler).astype(np.int64))

        targets = {name: torch.from_numpy(values[numbers]) for name, values in self.row_targets.items()}
        targets |= {name: padded(values, NO_TARGET) for name, values in self.token_targets.items()}
        is_counted = np.arange(len(numbers)) < (len(numbers) if num_counted is None else num_counted)
        return LabelledBatch(
            padded(self.input_ids, pad_id),
            torch.from_numpy(is_text.astype(np.int64)),
            None if self.token_type_ids is None else padded(self.token_type_ids, 0),
            targets,
            torch.from_numpy(is_counted),
        )


def _end_to_end(rows: Sequence[Sequence[int]], dtype: type) -> NDArray[Any]:
    return np.concatenate([np.asarray(row, dtype=dtype) for row in rows]) if len(rows) else np.zeros(0, dtype)
