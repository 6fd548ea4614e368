"""Batches go to a device with all that is in them."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tiny import make_rows
from trueneg.corruption.rows import Batch, Substitutes
from trueneg.corruption.views.batch import View, Views
from trueneg.objectives.labelled import LabelledBatch


def tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        return [tensor for part in value.values() for tensor in tensors(part)]
    if is_dataclass(value):
        return [tensor for field in fields(value) for tensor in tensors(getattr(value, field.name))]
    return []


ROWS = make_rows([[6], [4]], length=8, seed=0)
LISTED = Substitutes(torch.zeros(2, 8, 3, dtype=torch.int32), torch.zeros(2, 8, 3, dtype=torch.uint8))
VIEW = View(ROWS.input_ids, ROWS.segments, ROWS.segments, ROWS.is_special, True, source=None, num_cut=torch.zeros(2))


@pytest.mark.parametrize(
    ("batch", "num"),
    [
        (ROWS, 6),
        (Views(ROWS, VIEW, VIEW), 6 + 5 + 5),
        (LabelledBatch(ROWS.keys, ROWS.keys, None, {"labels": ROWS.keys, "ends": ROWS.keys}, ROWS.keys), 5),
    ],
)
def test_everything_goes_along(batch: Batch, num: int) -> None:
    assert len(tensors(batch)) == num
    moved = batch.to("meta")
    assert type(moved) is type(batch) and {tensor.device.type for tensor in tensors(moved)} == {"meta"}
    assert [(t.shape, t.dtype) for t in tensors(moved)] == [(t.shape, t.dtype) for t in tensors(batch)]
    back = batch.to("cpu")
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(tensors(back), tensors(batch), strict=True))


def test_what_is_no_tensor_stays() -> None:
    annotated = replace(ROWS, is_packed=True, substitutes=LISTED).to("meta")
    assert annotated.is_packed and not annotated.is_full
    assert annotated.substitutes is not None and annotated.substitutes.credit.device.type == "meta"
    assert VIEW.to("meta").is_full and VIEW.to("meta").source is None
