"""Outputs come back in the order of the rows, each what the model says of that row alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification

from tiny import make_config
from trueneg.objectives.labelled import LabelledBatch, LabelledObjective
from trueneg.training.features import Features
from trueneg.training.predict import predict

ROWS = [np.random.default_rng(n).integers(5, 300, size).tolist() for n, size in enumerate((3, 17, 9, 2, 30, 9, 5))]


class Logits(LabelledObjective):
    term = "none"

    def outputs(self, model: torch.nn.Module, batch: LabelledBatch) -> Tensor:
        logits: Tensor = model(**batch.inputs()).logits
        return logits

    def losses(self, outputs: Tensor, batch: LabelledBatch) -> Tensor:
        raise AssertionError("predict asks for outputs, not for losses")


@pytest.mark.parametrize("tokens_at_once", [1, 40, 10_000])
@pytest.mark.parametrize("kind", [AutoModelForSequenceClassification, AutoModelForTokenClassification])
def test_each_row_has_its_own_output(kind: type, tokens_at_once: int) -> None:
    torch.manual_seed(0)
    model = kind.from_config(make_config("bert", num_labels=3, hidden_dropout_prob=0.5)).train()  # type: ignore[attr-defined]
    found = predict(model, Logits(), Features.of(ROWS), pad_id=0, tokens_at_once=tokens_at_once)
    assert model.training, "as it was"
    model.eval()
    for row, output in zip(ROWS, found, strict=True):
        with torch.no_grad():
            alone = model(input_ids=torch.tensor([row])).logits[0].numpy()
        assert output.shape == alone.shape and output.dtype == np.float32
        np.testing.assert_allclose(output, alone, atol=1e-5)


def test_nothing_to_read_gives_nothing() -> None:
    assert predict(torch.nn.Linear(1, 1), Logits(), Features.of([]), pad_id=0) == []


@pytest.mark.parametrize(("num_threads", "num_batches"), [(1, 3), (2, 2), (64, 1)])
def test_on_a_cpu_batches_are_small(num_threads: int, num_batches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    class Recorded(Logits):
        def outputs(self, model: torch.nn.Module, batch: LabelledBatch) -> Tensor:
            sizes.append(batch.attention_mask.numel())
            return torch.zeros(len(batch.attention_mask), 1)

    monkeypatch.setattr(torch, "get_num_threads", lambda: num_threads)
    assert len(predict(torch.nn.Linear(1, 1), Recorded(), Features.of([[5] * 30] * 80), pad_id=0)) == 80
    assert len(sizes) == num_batches and max(sizes) <= 1024 * num_threads
