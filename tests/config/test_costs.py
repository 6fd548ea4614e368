"""What a run costs, against torch's own count of a real step."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import tiny
from trueneg.config import costs
from trueneg.config.codec import override
from trueneg.config.costs import cost_of
from trueneg.config.options import PretrainConfig
from trueneg.config.presets import PRESETS, preset
from trueneg.config.stages import stages_of
from trueneg.corruption.rows import Rows
from trueneg.corruption.views.batch import View, Views
from trueneg.objectives import objective_kind, with_objective
from trueneg.objectives.base import TrainingModule

LENGTH, BATCH = 64, 4
SIZES = ["num_layers=4", "hidden_size=64", "num_heads=2", "intermediate_size=256", "model.attention=eager"]


def views_of(rows: Rows) -> Views:
    labels = torch.zeros_like(rows.input_ids)
    labels[:, 3] = 1
    view = View(rows.input_ids, rows.segments, labels, labels > 0)
    return Views(rows, view, view)


@pytest.mark.parametrize(
    ("objective", "settings"),
    [
        ("mlm", []),
        ("electra", ["generator_width=0.5", "embedding_size=32"]),
        ("electra", ["generator_width=1", "generator_depth=0.5", "embedding_size=64"]),
        ("cline", []),
        ("cline", ["cline.original=clean"]),
        ("cline", ["cline.negatives=random"]),
        ("cline", ["cline.rtd=false", "cline.contrast=false"]),
    ],
)
def test_a_real_step_costs_as_much(objective: str, settings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "_USUAL_VOCABULARY", tiny.VOCAB_SIZE)
    if objective != "electra":
        settings = ["architecture=bert", *settings]
    base = with_objective(PretrainConfig(), objective)
    steps = ["train.steps=1", f"train.batch_size={BATCH}", f"corpus.length={LENGTH}"]
    config = override(base, [*steps, *SIZES, *settings])
    kind, tokenizer = objective_kind(objective), tiny.make_tokenizer()
    model = kind.make_model(config, tokenizer)
    made = kind.make_objective(config.objective, tokenizer, kind.encoders(model)[0].embeddings.shape[0])
    rows = tiny.make_rows([[LENGTH - 2]] * BATCH, LENGTH)
    batch = made.corrupt(views_of(rows) if objective == "cline" else rows)
    module = TrainingModule(model, made)
    with FlopCounterMode(display=False) as counter:
        module(batch, made.counts(batch))[0].backward()
    cost = cost_of(config)
    assert cost.tokens == BATCH * LENGTH
    # The heads over every token, of detection, are left out of the estimate.
    assert cost.flops == pytest.approx(counter.get_total_flops(), rel=0.06)


def test_hours() -> None:
    """By hand: 200,000 steps of BERT-base, 85 million weights in layers, 24 million in its head at 15 % of tokens."""
    cost = cost_of(preset("tn-bert-base"))
    tokens = 200_000 * 128 * 512
    layers = 12 * (4 * 768**2 + 2 * 768 * 3072)
    head = 768**2 + 768 * 30_522
    flops = 6 * tokens * (layers + 2 * 12 * 512 * 768 + 0.15 * head)
    assert (cost.tokens, cost.flops) == (tokens, pytest.approx(flops))
    assert cost.gpu_hours == pytest.approx(flops / (0.4 * 312e12) / 3600)
    assert cost_of(preset("electra-small")).gpu_hours == pytest.approx(
        cost_of(preset("electra-small")).flops / (0.4 / 3 * 312e12) / 3600
    )


def test_the_vocabulary_is_the_published_one() -> None:
    """mmBERT's has 256,000 entries, ModernBERT's 50,368; the head is a matrix of them at masked positions."""
    config = preset("mmbert-base-staged")
    other = replace(config, preset="mine")
    masked = sum(stage.num_tokens * stage.config.objective.masking.rate for stage in stages_of(config))
    added = 6 * masked * 768 * (256_000 - 50_368)
    assert cost_of(config).flops - cost_of(other).flops == pytest.approx(added)


def test_every_preset_has_a_cost() -> None:
    assert all(cost_of(config).gpu_hours > 0 for config in PRESETS.values())
