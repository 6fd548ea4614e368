"""Objectives with their head in chunks: the same predictions, losses and gradients, in one graph."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import tiny
from trueneg.corruption.rows import MaskedRows
from trueneg.detectors.base import Detector, Proposals
from trueneg.detectors.ema import EmaDetector
from trueneg.errors import TruenegWarning
from trueneg.models.logits import ChunkedLogits, WholeLogits
from trueneg.objectives.base import TrainingModule
from trueneg.objectives.correction import HardCorrection
from trueneg.objectives.mlm import MaskedLM
from trueneg.objectives.regularization import SentenceRegularization, SoftRegularization
from trueneg.objectives.rtd import ReplacedTokenDetection
from trueneg.objectives.smoothing import Smoothing

BATCH = tiny.padded_batch()
CHUNK = 5 * tiny.VOCAB_SIZE * 4 / 2**20
"""MiB of five rows, of more than thirty."""
USES: list[Any] = [None, "drop", "down_weight", "marginal", "soft_targets"]
PREDICTIONS: list[tuple[Any, float]] = [("argmax", 1.0), ("sampled", 1.0), ("sampled", 0.7)]


class Lists(Detector):
    """Credits by place, and lists four tokens: gold itself, one of them twice, and one without acceptance."""

    def credit(self, gold: Tensor, tokens: Tensor, batch: MaskedRows) -> Tensor:
        return ((7 * gold + 3 * tokens + batch.positions) % 11).float() / 10

    def propose(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> Proposals:
        tokens = torch.stack([gold, (gold + 9) % tiny.VOCAB_SIZE, (gold + 9) % tiny.VOCAB_SIZE, predicted], -1)
        acceptance = torch.tensor([1.0, 0.7, 0.2, 0.0]).expand(tokens.shape)
        return Proposals(self.credit(gold, predicted, batch), tokens, acceptance)


def make(use: str | None, max_logits_mb: float, **options: Any) -> MaskedLM:
    correction = None if use is None else HardCorrection(Lists(), use)  # type: ignore[arg-type]
    return MaskedLM(tiny.make_masking(), correction, max_logits_mb=max_logits_mb, **options)


def step(model: nn.Module, objective: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Terms and statistics, and gradients, of one pass."""
    loss, outcome = TrainingModule(model, objective)(BATCH, objective.counts(BATCH))
    loss.backward()
    return {"loss": loss.detach(), **outcome.terms, **outcome.stats}, tiny.gradients(model)


def assert_same_step(left: Any, right: Any) -> None:
    for ours, theirs in zip(left, right, strict=True):
        assert ours.keys() == theirs.keys()
        for name, value in theirs.items():
            scale = max(1.0, float(value.abs().max()))
            torch.testing.assert_close(
                ours[name], value, rtol=2e-6, atol=2e-6 * scale, msg=lambda m, n=name: f"{n}: {m}"
            )


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("prediction", "temperature"), PREDICTIONS)
@pytest.mark.parametrize("loss_temperature", [1.0, 1.7])
def test_every_use_of_a_correction_is_the_same(
    use: str | None, prediction: Any, temperature: float, loss_temperature: float
) -> None:
    model = tiny.make_masked_lm()
    options = {"prediction": prediction, "temperature": temperature, "loss_temperature": loss_temperature}
    whole, chunked = (make(use, mb, **options) for mb in (0.0, CHUNK))
    predictions = [objective.predict(model, BATCH) for objective in (whole, chunked)]
    assert isinstance(predictions[1].logits, ChunkedLogits)
    assert predictions[0].predicted.equal(predictions[1].predicted)
    assert_same_step(step(model, chunked), step(model, whole))


@pytest.mark.parametrize("denominator", ["masked", "kept"])
@pytest.mark.parametrize("judged", ["predicted", "argmax"])
@pytest.mark.parametrize("variant", ["predicted", "soft"])
def test_electra_with_regularizers_is_the_same(denominator: Any, judged: Any, variant: Any) -> None:
    """The generator's table is the discriminator's, and both regularizers read the predictions."""
    found = []
    for mb in (0.0, CHUNK):
        correction = HardCorrection(Lists(), denominator=denominator)
        regularizers = (SoftRegularization(variant), SentenceRegularization())
        generator = MaskedLM(tiny.make_masking(), correction, regularizers, "sampled", judged=judged, max_logits_mb=mb)
        found.append(step(tiny.make_electra(), ReplacedTokenDetection(generator)))
    assert_same_step(*found)
    assert found[0][0]["sr"] > 0


@pytest.mark.parametrize(("use", "loss_temperature"), [*itertools.product(USES, (1.0, 1.7))])
def test_loss_and_gradients_are_the_equations_over_transformers_logits(
    use: str | None, loss_temperature: float
) -> None:
    """In float64, over every logit, position by position."""
    model = tiny.make_masked_lm().eval()
    objective = make(use, CHUNK, loss_temperature=loss_temperature)
    prediction = objective.predict(model, BATCH)
    loss = objective.outcome(model, prediction).terms["mlm"]
    loss.backward()
    ours = tiny.gradients(model)
    model = tiny.make_masked_lm().eval().double()
    logits = model.model(input_ids=BATCH.input_ids, attention_mask=(BATCH.rows.segments > 0).long()).logits
    total: Any = 0.0
    for row, slot in BATCH.is_masked.nonzero().tolist():
        position, gold = int(BATCH.positions[row, slot]), int(BATCH.gold[row, slot])
        predicted = int(logits[row, position].argmax())
        assert predicted == int(prediction.predicted[row, slot])
        log_p = (logits[row, position] / loss_temperature).log_softmax(-1)
        credit = (7 * gold + 3 * predicted + position) % 11 / 10 if predicted != gold else 0.0
        other = (gold + 9) % tiny.VOCAB_SIZE  # listed twice, at 0.7 and at 0.2
        if use == "drop":
            total = total - (log_p[gold] if credit < 0.5 else 0.0)
        elif use == "down_weight":
            total = total - (1 - credit) * log_p[gold]
        elif use == "marginal":
            total = total - (log_p[gold].exp() + 0.9 * log_p[other].exp()).log()
        elif use == "soft_targets":
            total = total - (log_p[gold] + 0.9 * log_p[other]) / 1.9
        else:
            total = total - log_p[gold]
    total.backward()
    np.testing.assert_allclose(loss.item(), total.item(), rtol=2e-6)
    for name, gradient in tiny.gradients(model).items():
        scale = max(1.0, float(gradient.abs().max()))
        torch.testing.assert_close(ours[name].double(), gradient, rtol=0, atol=1e-5 * scale)


def test_draws_are_the_inverse_of_the_distribution_function_in_float64() -> None:
    model = tiny.make_masked_lm().eval()
    prediction = make(None, CHUNK, prediction="sampled", temperature=0.7).predict(model, BATCH)
    with torch.no_grad():
        mask = (BATCH.rows.segments > 0).long()
        logits = model.double().model(input_ids=BATCH.input_ids, attention_mask=mask).logits.numpy()
    drawn = []
    for row, slot in BATCH.is_masked.nonzero().tolist():
        values = logits[row, int(BATCH.positions[row, slot])] / 0.7
        weights = np.exp(values - values.max())
        cumulative = weights.cumsum()
        wanted = float(BATCH.draws[row, slot]) * cumulative[-1]
        drawn.append(int(np.searchsorted(cumulative, wanted, side="right")))
        assert int(prediction.predicted[row, slot]) == drawn[-1]
    assert len(set(drawn)) > 5


@pytest.mark.parametrize("use", ["drop", "marginal"])
def test_a_moving_average_lists_the_same(use: Any) -> None:
    """The detector has a head of its own, whose logits it reads."""
    model = tiny.make_masked_lm()
    found = []
    for mb in (0.0, CHUNK):
        correction = HardCorrection(EmaDetector(0.9, 0.05, 8), use)
        found.append(step(model, MaskedLM(tiny.make_masking(), correction, max_logits_mb=mb)))
    assert_same_step(*found)


PARAMETERS = {shape for p in tiny.make_masked_lm().parameters() for shape in (tuple(p.shape), tuple(p.shape)[::-1])}
OBJECTIVES: dict[str, dict[str, Any]] = {
    "plain": {},
    "sampled": {"prediction": "sampled", "temperature": 0.7},
    "drop": {"use": "drop", "loss_temperature": 2.0},
    "marginal": {"use": "marginal"},
    "soft": {"regularizers": (SoftRegularization("soft"),)},
}


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_step_is_one_graph_and_the_same(name: str, precision: str) -> None:
    model = tiny.make_masked_lm()
    found = []
    for is_compiled in (False, True):
        torch._dynamo.reset()
        module = TrainingModule(model, make(**{"use": None, "max_logits_mb": CHUNK, **OBJECTIVES[name]}))
        run: Any = torch.compile(module, fullgraph=True, backend="aot_eager") if is_compiled else module
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss, outcome = run(BATCH, module.objective.counts(BATCH))
        loss.backward()
        found.append(({"loss": loss.detach(), **outcome.terms, **outcome.stats}, tiny.gradients(model)))
    assert_same_step(*found)


class Shapes(TorchDispatchMode):
    """Shapes of all tensors that are made."""

    def __init__(self) -> None:
        super().__init__()
        self.made: set[tuple[int, ...]] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        values = result if isinstance(result, tuple | list) else (result,)
        self.made |= {tuple(value.shape) for value in values if isinstance(value, Tensor)}
        return result


def compiled_shapes(module: nn.Module) -> set[tuple[int, ...]]:
    """Shapes of all tensors in the two graphs of a compiled step, as torch cuts its joint graph by what it keeps."""
    made: set[tuple[int, ...]] = set()

    def note(graph: Any, _: Any) -> Any:
        values = [value for node in graph.graph.nodes for value in pytree.tree_leaves(node.meta.get("val"))]
        made.update(tuple(value.shape) for value in values if isinstance(value, Tensor))
        return make_boxed_func(graph.forward)

    backend = aot_autograd(fw_compiler=note, bw_compiler=note, partition_fn=min_cut_rematerialization_partition)
    torch._dynamo.reset()
    run: Any = torch.compile(module, fullgraph=True, backend=backend)
    run(BATCH, module.objective.counts(BATCH))[0].backward()  # type: ignore[union-attr, operator]
    return made


@pytest.mark.parametrize("name", [*OBJECTIVES, "whole"])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_no_step_makes_rows_times_vocabulary(name: str, is_compiled: bool) -> None:
    """Nor does a compiler keep, from the forward pass, what the backward pass would make again."""
    options = {"use": None, "max_logits_mb": 0.0 if name == "whole" else CHUNK} | OBJECTIVES.get(name, {})
    module = TrainingModule(tiny.make_masked_lm(), make(**options))
    if is_compiled:
        made = compiled_shapes(module)
    else:
        with Shapes() as shapes:
            module(BATCH, module.objective.counts(BATCH))[0].backward()
        made = shapes.made
    most = BATCH.gold.numel() * tiny.VOCAB_SIZE
    too_large = {shape for shape in made - PARAMETERS if math.prod(shape) >= most}
    assert bool(too_large) == (name == "whole"), too_large


def test_held_out_losses_are_the_same() -> None:
    model = tiny.make_masked_lm().eval()
    with torch.no_grad():
        whole, chunked = (make("soft_targets", mb)(model, BATCH) for mb in (0.0, CHUNK))
    assert_same_step((chunked.terms, chunked.stats), (whole.terms, whole.stats))


def test_a_head_that_cannot_be_cut_says_so_once() -> None:
    model = tiny.make_masked_lm("roberta")
    model.has_linear_head = False
    with pytest.warns(TruenegWarning, match=r"logits of 'roberta' .* objective.max_logits_mb"):
        TrainingModule(model, make(None, CHUNK))
    prediction = make(None, CHUNK).predict(model, BATCH)
    assert not isinstance(prediction.logits, ChunkedLogits)


@pytest.mark.parametrize("source", ["self", "average", "teacher", "ema"])
def test_no_part_holds_more_logits_than_are_allowed(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Whole(WholeLogits):
        def __init__(self, *_: Any) -> None:
            raise AssertionError("all logits are held at once")

    monkeypatch.setattr("trueneg.models.logits.WholeLogits", Whole)
    teacher = tiny.make_masked_lm(seed=7) if source == "teacher" else None
    correction = HardCorrection(EmaDetector(top=4), "soft_targets") if source == "ema" else None
    smoothing = None if source == "ema" else Smoothing(source, teacher=teacher)
    objective = MaskedLM(tiny.make_masking(), correction, smoothing=smoothing, max_logits_mb=CHUNK)
    model = tiny.make_masked_lm()
    objective.attach(model)
    assert objective(model, BATCH).terms["mlm"].isfinite()
