"""The model's own average as teacher: what it averages, where it stands, and what it credits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import tiny
from trueneg.config.options import OptimizerConfig, TrainConfig
from trueneg.corruption.rows import MaskedRows
from trueneg.detectors.combination import CombinedDetector
from trueneg.detectors.ema import EmaDetector
from trueneg.detectors.scorers.base import acceptance
from trueneg.errors import ConfigError
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.models.logits import ChunkedLogits, WholeLogits
from trueneg.objectives.base import Objective
from trueneg.objectives.correction import HardCorrection
from trueneg.objectives.mlm import MaskedLM
from trueneg.objectives.rtd import ReplacedTokenDetection
from trueneg.training.step import Run, train_step


def averaged(kind: str, momentum: float = 0.9) -> tuple[Run, EmaDetector, MaskedLanguageModel]:
    """A run with a moving average, the average, and what it averages."""
    detector = EmaDetector(momentum)
    generator = MaskedLM(tiny.make_masking(), HardCorrection(detector), prediction="argmax")
    objective: Objective[Any, Any] = generator if kind == "mlm" else ReplacedTokenDetection(generator)
    model: Any = tiny.make_masked_lm() if kind == "mlm" else tiny.make_electra()
    objective.attach(model)
    config = OptimizerConfig(learning_rate=0.01, schedule="constant")
    run = Run.new(model, objective, config, TrainConfig(steps=10), torch.device("cpu"))
    return run, detector, model if kind == "mlm" else model.generator


def parameters_of(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in module.named_parameters()}


@pytest.mark.parametrize("kind", ["mlm", "electra"])
def test_the_average_is_the_recursion(kind: str) -> None:
    run, detector, model = averaged(kind)
    assert detector.teacher is not None
    wanted, start = parameters_of(model), parameters_of(model)
    tiny.assert_same(parameters_of(detector.teacher), wanted)
    for number in range(4):
        train_step(run, [tiny.make_rows([[14]] * 4, 16, seed=number)])
        current = parameters_of(model)
        wanted = {name: 0.9 * wanted[name] + 0.1 * current[name] for name in wanted}
        tiny.assert_same(parameters_of(detector.teacher), wanted, 1e-6)
    assert any(not torch.equal(start[name], wanted[name]) for name in wanted)


@pytest.mark.parametrize("kind", ["mlm", "electra"])
def test_it_is_part_of_the_run_but_not_of_what_learns(kind: str) -> None:
    run, detector, model = averaged(kind)
    assert isinstance(detector.teacher, nn.Module)
    own = {id(parameter) for parameter in detector.teacher.parameters()}
    assert own.isdisjoint(id(parameter) for parameter in model.parameters())
    assert own.isdisjoint(id(p) for group in run.optimizer.param_groups for p in group["params"])
    assert not any(parameter.requires_grad for parameter in detector.teacher.parameters())
    names = [name for name in run.module.state_dict() if ".teacher." in name]
    assert len(names) == len(detector.teacher.state_dict())
    train_step(run, [tiny.make_rows([[14]] * 4, 16)])
    assert all(parameter.grad is None for parameter in detector.teacher.parameters())


def test_it_never_trains() -> None:
    run, detector, model = averaged("electra")
    assert detector.teacher is not None
    run.module.eval()
    run.module.train()
    assert model.training and not any(module.training for module in detector.teacher.modules())
    run.module.eval()
    assert not detector.teacher.training


def sure_of(batch: MaskedRows, model: MaskedLanguageModel, logits: torch.Tensor, is_whole: bool) -> EmaDetector:
    """A detector whose average says these logits at the masked places: all at once, or four rows at a time."""
    detector, size = EmaDetector(threshold=0.05, top=3), tiny.VOCAB_SIZE
    detector.attach(model)
    chunked = ChunkedLogits(logits, torch.eye(size), torch.zeros(size), 4 * size * 4 / 2**20, temperatures=())
    detector._logits = lambda batch: WholeLogits(logits) if is_whole else chunked  # type: ignore[method-assign]
    return detector


@pytest.mark.parametrize("is_whole", [True, False])
def test_credit_is_the_share_of_probability_where_the_average_sees_gold(is_whole: bool) -> None:
    batch, model = tiny.padded_batch(), tiny.make_masked_lm()
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(*batch.gold.shape, tiny.VOCAB_SIZE, generator=generator)
    is_seen = torch.rand(batch.gold.shape, generator=generator) < 0.6
    logits.scatter_(2, batch.gold.unsqueeze(-1), torch.where(is_seen, 9.0, -1.0).unsqueeze(-1))
    predicted = logits.scatter(2, batch.gold.unsqueeze(-1), -99).topk(2).indices[..., 1]
    detector = sure_of(batch, model, logits, is_whole)
    credit = detector.credit(batch.gold, predicted, batch)
    p = logits.double().softmax(-1)
    p_gold, p_predicted = (p.gather(2, token.unsqueeze(-1)).squeeze(-1) for token in (batch.gold, predicted))
    share = (p_predicted / (p_predicted + p_gold)).numpy()
    may = (batch.is_whole_word & is_seen).numpy()
    wanted = np.where(may & (share >= 0.05), acceptance(share, 0.05), 0)
    np.testing.assert_allclose(credit.numpy(), wanted, atol=1e-5)
    assert credit.dtype == torch.float32 and (credit > 0).any()
    assert ((share >= 0.05) & may).sum() < (share >= 0.05).sum() and (may & (share < 0.05)).any()


@pytest.mark.parametrize("is_whole", [True, False])
def test_substitutes_are_its_best_tokens_without_gold(is_whole: bool) -> None:
    batch, model = tiny.padded_batch(), tiny.make_masked_lm()
    logits = torch.randn(*batch.gold.shape, tiny.VOCAB_SIZE, generator=torch.Generator().manual_seed(1))
    logits.scatter_(2, batch.gold.unsqueeze(-1), 5.0)
    detector = sure_of(batch, model, logits, is_whole)
    tokens, credit = detector.propose(batch.gold, batch.gold, batch)[1:]
    assert tokens.shape == credit.shape == (*batch.gold.shape, 4) and credit.dtype == torch.float32
    best = logits.scatter(2, batch.gold.unsqueeze(-1), -99).topk(3).indices
    for row, slot in np.ndindex(*batch.gold.shape):
        given = {int(t): float(c) for t, c in zip(tokens[row, slot], credit[row, slot], strict=True) if c > 0}
        alone = [torch.full_like(batch.gold, int(token)) for token in best[row, slot]]
        each = {int(one[0, 0]): float(detector.credit(batch.gold, one, batch)[row, slot]) for one in alone}
        assert given == pytest.approx({token: value for token, value in each.items() if value > 0})
    assert credit.any()


def test_it_reads_the_unmasked_text_at_the_masked_places() -> None:
    batch, model = tiny.padded_batch(), tiny.make_masked_lm()
    detector = EmaDetector()
    detector.attach(model)
    found = detector._logits(batch).whole()
    with torch.no_grad():
        whole = (
            model.eval().model(input_ids=batch.rows.input_ids, attention_mask=(batch.rows.segments > 0).long()).logits
        )
    wanted = whole.gather(1, batch.positions.unsqueeze(-1).expand(-1, -1, whole.shape[-1]))
    is_used = batch.is_masked
    torch.testing.assert_close(found[is_used], wanted[is_used], atol=1e-4, rtol=0)


def test_within_a_combination_it_sees_the_model_too() -> None:
    detector, model = EmaDetector(0.5), tiny.make_masked_lm()
    combined = CombinedDetector("&", [CombinedDetector("!", [detector]), tiny.ConstantDetector(1.0)])
    combined.attach(model)
    assert isinstance(detector.teacher, MaskedLanguageModel)
    before = parameters_of(detector.teacher)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 1
    combined.after_step(model)
    tiny.assert_same(parameters_of(detector.teacher), {name: value + 0.5 for name, value in before.items()}, 1e-5)
    assert not combined.train().detectors[0].detectors[0].teacher.training  # type: ignore[union-attr,index]


def test_without_a_masked_model_there_is_nothing_to_average() -> None:
    with pytest.raises(ConfigError, match="averages a masked language model, and this objective trains none"):
        EmaDetector().attach(nn.Linear(1, 1))
    with pytest.raises(AssertionError, match="attach was not called"):
        EmaDetector().after_step(tiny.make_masked_lm())
