"""The cost of a span: by its equation, by transformers' own heads, and whatever else is in the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForQuestionAnswering

import tiny
from trueneg.objectives.base import TrainingModule
from trueneg.objectives.labelled import LabelledBatch, SpanExtraction
from trueneg.training.features import Features


def make_model(architecture: str = "bert") -> Any:
    torch.manual_seed(0)
    return AutoModelForQuestionAnswering.from_config(tiny.make_config(architecture)).eval()


def rows(lengths: list[int], seed: int = 0) -> Features:
    random = np.random.default_rng(seed)
    ids = [random.integers(5, tiny.VOCAB_SIZE, length).tolist() for length in lengths]
    start = np.array([random.integers(0, length) for length in lengths])
    end = np.array([random.integers(at, length) for at, length in zip(start, lengths, strict=True)])
    return Features.of(ids, row_targets={"start": start, "end": end})


def batch_of(features: Features, numbers: list[int], num_counted: int | None = None) -> LabelledBatch:
    return features.batch(np.array(numbers), tiny.PAD, num_counted)


def test_the_loss_is_the_mean_of_two_cross_entropies_over_text() -> None:
    features = rows([7, 3, 5])
    batch = batch_of(features, [0, 1, 2])
    logits = torch.randn(3, 7, 2, generator=torch.Generator().manual_seed(1))
    losses = SpanExtraction().losses(logits, batch)
    for row, length in enumerate((7, 3, 5)):
        both = logits[row, :length].double().numpy()
        log_p = both - np.log(np.exp(both).sum(0))
        places = (int(batch.targets["start"][row]), int(batch.targets["end"][row]))
        expected = -(log_p[places[0], 0] + log_p[places[1], 1]) / 2
        assert float(losses[row]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_without_padding_the_loss_is_that_of_transformers(architecture: str) -> None:
    model = make_model(architecture)
    batch = batch_of(rows([9, 9, 9, 9]), [0, 1, 2, 3])
    starts, ends = batch.targets["start"], batch.targets["end"]
    with torch.no_grad():
        theirs = model(**batch.inputs(), start_positions=starts, end_positions=ends).loss
        objective = SpanExtraction()
        loss, outcome = TrainingModule(model, objective)(batch, objective.counts(batch))
    torch.testing.assert_close(loss, theirs, atol=1e-6, rtol=0)
    torch.testing.assert_close(outcome.terms["span"], 4 * theirs, atol=1e-5, rtol=0)


def test_a_row_costs_the_same_in_any_batch() -> None:
    model, objective, features = make_model(), SpanExtraction(), rows([4, 30])
    with torch.no_grad():
        alone, beside = (batch_of(features, numbers) for numbers in ([0], [0, 1]))
        both = objective.losses(objective.outputs(model, beside), beside)
        torch.testing.assert_close(objective.losses(objective.outputs(model, alone), alone)[0], both[0])


def test_rows_that_do_not_count_cost_nothing() -> None:
    model, objective, features = make_model(), SpanExtraction(), rows([6, 6, 6])
    padded, plain = batch_of(features, [0, 1, 2], num_counted=2), batch_of(features, [0, 1])
    assert objective.counts(padded) == {"span": 2}
    torch.testing.assert_close(objective(model, padded).terms, objective(model, plain).terms)


def test_training_finds_the_spans() -> None:
    model, objective = make_model().train(), SpanExtraction()
    batch = batch_of(rows([6, 8, 5]), [0, 1, 2])
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(40):
        loss, _ = TrainingModule(model, objective)(batch, objective.counts(batch))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    found = objective.outputs(model.eval(), batch).argmax(1)
    assert found.tolist() == torch.stack([batch.targets["start"], batch.targets["end"]], -1).tolist()
