"""Similarities within a batch."""

from __future__ import annotations

from typing import Literal

import pytest
import torch

from trueneg.objectives.contrast import others_of_batch


@pytest.mark.parametrize("kind", ["dot", "cosine"])
def test_others_of_a_batch_are_compared_in_float32_under_autocast(kind: Literal["dot", "cosine"]) -> None:
    generator = torch.Generator().manual_seed(0)
    left, right = (10 * torch.randn(6, 64, generator=generator) for _ in range(2))
    wanted = others_of_batch(left, right, kind, 0.05)
    with torch.autocast("cpu", torch.bfloat16):
        found = others_of_batch(left, right, kind, 0.05)
    assert found.dtype == torch.float32 and torch.equal(found, wanted)
    assert wanted.diagonal().isneginf().all() and wanted.isfinite().sum() == 30
