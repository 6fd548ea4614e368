"""Fine-tuning's objectives against transformers' own losses: their mean is our sum over our count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification

import tiny
from trueneg.objectives.labelled import Classification, LabelledBatch, LabelledObjective, Regression, Tagging
from trueneg.training.features import NO_TARGET, Features

LENGTHS = [7, 3, 5, 4]


def features(target: str) -> Features:
    random = np.random.default_rng(0)
    ids = [random.integers(len(tiny.SPECIAL), tiny.VOCAB_SIZE, length).tolist() for length in LENGTHS]
    if target == "classes":
        return Features.of(ids, row_targets={"label": np.array([2, 0, 1, 2])})
    if target == "quantities":
        return Features.of(ids, row_targets={"label": np.array([0.5, 4.0, -1.0, 2.25], np.float32)})
    tags = [[NO_TARGET, *random.integers(0, 5, length - 2).tolist(), NO_TARGET] for length in LENGTHS]
    return Features.of(ids, token_targets={"tags": tags})


def model(auto_class: Any, architecture: str, num_labels: int) -> torch.nn.Module:
    torch.manual_seed(0)
    made: torch.nn.Module = auto_class.from_config(tiny.make_config(architecture, num_labels=num_labels))
    return made.eval()


CASES = [
    ("classes", Classification, AutoModelForSequenceClassification, 3),
    ("quantities", Regression, AutoModelForSequenceClassification, 1),
    ("tags", Tagging, AutoModelForTokenClassification, 5),
]
NAMES = [target for target, *_ in CASES]


def batch_of(target: str, num_counted: int | None = None) -> LabelledBatch:
    return features(target).batch(np.arange(4), tiny.PAD, num_counted)


def labels(batch: LabelledBatch) -> torch.Tensor:
    return next(iter(batch.targets.values()))


def mean(objective: LabelledObjective, model: Any, batch: LabelledBatch) -> torch.Tensor:
    return objective(model, batch).terms[objective.term] / objective.counts(batch)[objective.term]


@pytest.mark.parametrize("architecture", ["bert", "electra", "roberta"])
@pytest.mark.parametrize(("target", "kind", "auto_class", "num_labels"), CASES, ids=NAMES)
def test_the_mean_is_that_of_transformers(
    architecture: str, target: str, kind: type[LabelledObjective], auto_class: Any, num_labels: int
) -> None:
    encoder, batch = model(auto_class, architecture, num_labels), batch_of(target)
    theirs = encoder(**batch.inputs(), labels=labels(batch)).loss
    ours = mean(kind(), encoder, batch)
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-6)
    ours.backward()
    mine = tiny.gradients(encoder)
    encoder(**batch.inputs(), labels=labels(batch)).loss.backward()
    tiny.assert_same(mine, tiny.gradients(encoder), tolerance=1e-6)


@pytest.mark.parametrize(("target", "kind", "auto_class", "num_labels"), CASES, ids=NAMES)
def test_rows_that_only_make_up_a_share_do_not_count(
    target: str, kind: type[LabelledObjective], auto_class: Any, num_labels: int
) -> None:
    encoder, objective = model(auto_class, "bert", num_labels), kind()
    two = features(target).batch(np.arange(2), tiny.PAD)
    padded = batch_of(target, num_counted=2)
    assert objective.counts(padded)[objective.term] == objective.counts(two)[objective.term]
    torch.testing.assert_close(mean(objective, encoder, padded), mean(objective, encoder, two), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(("target", "kind", "auto_class", "num_labels"), CASES, ids=NAMES)
def test_parts_of_a_batch_add_up_to_the_whole(
    target: str, kind: type[LabelledObjective], auto_class: Any, num_labels: int
) -> None:
    encoder, objective = model(auto_class, "bert", num_labels), kind()
    parts = [features(target).batch(np.array(rows), tiny.PAD) for rows in ([0, 3], [1, 2])]
    whole = objective(encoder, batch_of(target)).terms[objective.term]
    torch.testing.assert_close(sum(objective(encoder, part).terms[objective.term] for part in parts), whole)
    count = sum(objective.counts(part)[objective.term] for part in parts)
    assert count == objective.counts(batch_of(target))[objective.term]


def test_tags_count_words_and_quantities_and_classes_rows() -> None:
    assert Tagging().counts(batch_of("tags"))["tagging"] == sum(LENGTHS) - 2 * len(LENGTHS)
    assert Classification().counts(batch_of("classes"))["classification"] == 4
    assert Regression().counts(batch_of("quantities"))["regression"] == 4


def test_outputs_have_the_shapes_that_answers_are_made_of() -> None:
    sequence, token = AutoModelForSequenceClassification, AutoModelForTokenClassification
    assert Classification().outputs(model(sequence, "bert", 3), batch_of("classes")).shape == (4, 3)
    assert Regression().outputs(model(sequence, "bert", 1), batch_of("quantities")).shape == (4, 1)
    assert Tagging().outputs(model(token, "bert", 5), batch_of("tags")).shape == (4, 7, 5)
