"""Operations of a training step, against torch's own count of a real one."""

from __future__ import annotations

import pytest
from torch.utils.flop_counter import FlopCounterMode

import tiny
from trueneg.config.codec import override
from trueneg.config.options import PretrainConfig
from trueneg.models.flops import training_flops
from trueneg.objectives import objective_kind, with_objective
from trueneg.objectives.base import TrainingModule

LENGTH, BATCH = 64, 4
SIZES = ["num_layers=4", "hidden_size=64", "num_heads=2", "intermediate_size=256", "model.attention=eager"]


@pytest.mark.parametrize(
    ("objective", "settings"),
    [
        ("mlm", ["architecture=bert"]),
        ("mlm", ["architecture=distilbert"]),
        ("mlm", ["architecture=albert", "embedding_size=32"]),
        ("mlm", ["architecture=modernbert"]),
        ("electra", ["generator_width=0.5", "embedding_size=32"]),
        ("electra", ["generator_width=1", "generator_depth=0.5", "embedding_size=64"]),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_real_step_takes_as_many(objective: str, settings: list[str]) -> None:
    base = with_objective(PretrainConfig(), objective)
    config = override(base, [f"corpus.length={LENGTH}", f"train.batch_size={BATCH}", *SIZES, *settings])
    kind, tokenizer = objective_kind(objective), tiny.make_tokenizer()
    model = kind.make_model(config, tokenizer)
    made = kind.make_objective(config.objective, tokenizer, kind.encoders(model)[0].embeddings.shape[0])
    batch = made.corrupt(tiny.make_rows([[LENGTH - 2]] * BATCH, LENGTH))
    module = TrainingModule(model, made)
    with FlopCounterMode(display=False) as counter:
        module(batch, made.counts(batch))[0].backward()
    ours = training_flops(kind.encoders(model), LENGTH, config.objective.masking.rate) * BATCH * LENGTH
    # Masked positions are a whole number a row, and the first layer's input takes no gradient.
    assert ours == pytest.approx(counter.get_total_flops(), rel=0.03)


def test_rows_read_more_often_cost_more_but_their_head() -> None:
    config = override(with_objective(PretrainConfig(), "mlm"), ["architecture=bert", *SIZES])
    kind = objective_kind("mlm")
    encoders = kind.encoders(kind.make_model(config, tiny.make_tokenizer()))
    once, thrice, headless = (
        training_flops(encoders, LENGTH, masked, times) for masked, times in ((0.15, 1), (0.15, 3), (0.0, 1))
    )
    assert thrice - once == pytest.approx(2 * headless)
