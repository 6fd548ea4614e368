"""Adversarial training against the papers' updates, written out, and against training without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

import tiny
from trueneg.config.codec import override
from trueneg.config.finetune_options import FinetuneConfig, FreeLBConfig, SmartConfig
from trueneg.config.options import OptimizerConfig, TrainConfig
from trueneg.errors import ConfigError
from trueneg.objectives.base import Objective, Outcome
from trueneg.objectives.labelled import (
    Classification,
    LabelledBatch,
    LabelledObjective,
    Regression,
    SpanExtraction,
    Tagging,
)
from trueneg.training.adversarial import (
    FreeLB,
    Smart,
    divergence,
    first_perturbation,
    normal,
    perturbed,
    row_keys,
    with_adversary,
)
from trueneg.training.features import NO_TARGET, Features
from trueneg.training.step import GradientPasses, Run, train_step

LENGTHS = [7, 3, 5, 4, 6, 8]
SEED = 11
KINDS: dict[str, tuple[type[LabelledObjective], Any, int]] = {
    "classes": (Classification, AutoModelForSequenceClassification, 3),
    "quantities": (Regression, AutoModelForSequenceClassification, 1),
    "spans": (SpanExtraction, AutoModelForQuestionAnswering, 2),
    "tags": (Tagging, AutoModelForTokenClassification, 5),
}
METHODS = {
    "freelb": ["adversarial=freelb"],
    "smart": ["adversarial=smart", "smart.weight=50", "smart.step_size=0.1", "noise=0.1"],
}


def features(kind: str = "classes", seed: int = 0) -> Features:
    random = np.random.default_rng(seed)
    ids = [random.integers(len(tiny.SPECIAL), tiny.VOCAB_SIZE, length).tolist() for length in LENGTHS]
    if kind == "tags":
        tags = [[NO_TARGET, *random.integers(0, 5, length - 2).tolist(), NO_TARGET] for length in LENGTHS]
        return Features.of(ids, token_targets={"tags": tags})
    column = random.integers(0, LENGTHS)
    targets: dict[str, dict[str, Any]] = {
        "classes": {"label": random.integers(0, 3, 6)},
        "quantities": {"label": random.normal(size=6).astype(np.float32)},
        "spans": {"start": column, "end": column},
    }
    return Features.of(ids, row_targets=targets[kind])


def batch_of(kind: str = "classes", rows: Sequence[int] = range(6), num_counted: int | None = None) -> LabelledBatch:
    return features(kind).batch(np.array(rows), tiny.PAD, num_counted)


def encoder(kind: str = "classes", architecture: str = "bert", dropout: float = 0.0) -> Any:
    torch.manual_seed(0)
    size = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout, "num_labels": KINDS[kind][2]}
    return KINDS[kind][1].from_config(tiny.make_config(architecture, **size)).train()


def run_of(
    settings: list[str], kind: str = "classes", architecture: str = "bert", dropout: float = 0.0, **train: Any
) -> Run:
    config = override(FinetuneConfig(), settings)
    config = override(config, [f"train.seed={SEED}"])
    objective, passes = with_adversary(config, KINDS[kind][0]())
    optimizer = OptimizerConfig(learning_rate=1e-3, schedule="constant")
    options = TrainConfig(steps=10, seed=SEED, **train)
    model = encoder(kind, architecture, dropout)
    return Run.new(model, objective, optimizer, options, torch.device("cpu"), passes=passes)


def weights(run: Run) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in run.module.model.named_parameters()}


class LinearReader(nn.Module):
    """Logits of the mean word embedding: small enough to differentiate by hand."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.words = nn.Embedding(tiny.VOCAB_SIZE, 4)
        self.head = nn.Linear(4, 3)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.words

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        mask = attention_mask[..., None].float()
        return self.read(self.words(input_ids), mask)

    def read(self, embedded: Tensor, mask: Tensor) -> Any:
        return SimpleNamespace(logits=self.head((embedded * mask).sum(1) / mask.sum(1)))


def linear_run(objective: Objective[Any, Any] | None = None, passes: GradientPasses | None = None) -> Run:
    config = TrainConfig(steps=10, seed=SEED)
    device = torch.device("cpu")
    return Run.new(LinearReader(), objective or Classification(), OptimizerConfig(), config, device, passes=passes)


def by_hand(
    model: LinearReader, batch: LabelledBatch, delta: np.ndarray, config: FreeLBConfig
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """FreeLB's Algorithm 1 with gradients derived on paper, in float64: those of the parameters, and the last delta."""
    words, head, bias = (p.detach().double().numpy() for p in (model.words.weight, model.head.weight, model.head.bias))
    ids, mask = batch.input_ids.numpy(), batch.attention_mask.numpy().astype(float)
    labels, lengths, rows = batch.targets["label"].numpy(), mask.sum(1), len(ids)
    sums = {"words.weight": np.zeros_like(words), "head.weight": np.zeros_like(head), "head.bias": np.zeros_like(bias)}
    order = 2 if config.norm == "l2" else np.inf
    for number in range(config.steps):
        mean = ((words[ids] + delta) * mask[..., None]).sum(1) / lengths[:, None]
        scores = mean @ head.T + bias
        shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        wrong = (shares - np.eye(3)[labels]) / rows  # of the mean cross-entropy by the logits
        by_token = (wrong @ head / lengths[:, None])[:, None] * mask[..., None]
        np.add.at(sums["words.weight"], ids, by_token / config.steps)
        sums["head.weight"] += wrong.T @ mean / config.steps
        sums["head.bias"] += wrong.sum(0) / config.steps
        if number == config.steps - 1:
            break
        for row in range(rows):
            delta[row] += config.step_size * by_token[row] / np.linalg.norm(by_token[row].ravel(), order)
            if config.bound and config.norm == "l2":
                delta[row] *= min(1, config.bound / np.linalg.norm(delta[row]))
            if config.bound and config.norm == "linf":
                delta[row] = np.clip(delta[row], -config.bound, config.bound)
    return sums, delta


@pytest.mark.parametrize(
    "config",
    [
        FreeLBConfig(steps=1, magnitude=0.5),
        FreeLBConfig(steps=3, step_size=0.4, magnitude=0.5),
        FreeLBConfig(steps=4, step_size=0.4, magnitude=0.0),
        FreeLBConfig(steps=3, step_size=0.4, magnitude=0.5, bound=0.45),
        FreeLBConfig(steps=3, step_size=0.4, magnitude=0.5, norm="linf"),
        FreeLBConfig(steps=3, step_size=0.4, magnitude=0.5, norm="linf", bound=0.6),
    ],
    ids=str,
)
def test_freelb_is_the_papers_algorithm(config: FreeLBConfig) -> None:
    passes = FreeLB(config)
    run, batch = linear_run(passes=passes), batch_of()
    model: Any = run.module.model
    start = first_perturbation(config, row_keys(batch, SEED, 0), batch.attention_mask, 4)
    wanted, delta = by_hand(model, batch, start.double().numpy(), config)
    taken: list[tuple[float, bool]] = []

    def take_pass(share: float, is_last: bool) -> tuple[Tensor, Outcome]:
        taken.append((share, is_last))
        loss = functional.cross_entropy(model(**batch.inputs()).logits, batch.targets["label"])
        (loss * share).backward()
        return loss.detach(), Outcome({"classification": loss.detach() * 6})

    loss, outcome = passes(run, batch, take_pass)
    assert taken == [(1 / config.steps, number == config.steps - 1) for number in range(config.steps)]
    assert float(outcome.terms["classification"]) == pytest.approx(6 * float(loss), rel=1e-6)
    found = tiny.gradients(model)
    assert found.keys() == wanted.keys()
    for name, gradient in found.items():
        np.testing.assert_allclose(gradient.numpy(), wanted[name], atol=2e-7, err_msg=name)
    mean_norm = np.linalg.norm(delta.reshape(6, -1), axis=1).mean()
    assert passes.readings()["perturbation"] == pytest.approx(mean_norm, rel=1e-5)
    norm = np.sqrt(sum((gradient**2).sum() for gradient in wanted.values()))
    assert float(train_step(run, [batch])) == pytest.approx(norm, rel=1e-5), "the step takes these passes"


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_one_pass_has_the_gradient_at_the_perturbed_embeddings(architecture: str) -> None:
    """The reference hands ``inputs_embeds`` to the model, as the authors do."""
    run, batch = run_of(["adversarial=freelb", "freelb.steps=1", "magnitude=2"], architecture=architecture), batch_of()
    model: Any = run.module.model
    table = model.get_input_embeddings().weight
    config = FreeLBConfig(steps=1, magnitude=2.0)
    delta = first_perturbation(config, row_keys(batch, SEED, 0), batch.attention_mask, table.shape[1])
    said = model(inputs_embeds=table[batch.input_ids] + delta, attention_mask=batch.attention_mask).logits
    functional.cross_entropy(said, batch.targets["label"]).backward()
    wanted = tiny.gradients(model)
    norm = torch.stack([gradient.norm() for gradient in wanted.values()]).norm()
    assert float(train_step(run, [batch])) == pytest.approx(float(norm), rel=1e-5)
    plain = run_of([], architecture=architecture)
    assert abs(float(train_step(plain, [batch])) - float(norm)) > 1e-3 * float(norm), "the perturbation is felt"


NOTHING = {
    "freelb, one step from nothing": ["adversarial=freelb", "freelb.steps=1", "magnitude=0"],
    "freelb, steps of nothing": ["adversarial=freelb", "freelb.steps=2", "freelb.step_size=0", "magnitude=0"],
    "smart without weight": ["adversarial=smart", "smart.weight=0"],
    "smart without a step": ["adversarial=smart", "smart.step_size=0"],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", NOTHING)
def test_without_a_perturbation_it_is_plain_training_to_the_bit(method: str, kind: str) -> None:
    """With dropout: every pass has the same masks, and what is drawn disturbs none."""
    # Halves of gradients add up to the whole, but not after those of another micro-batch.
    is_whole = method == "freelb, steps of nothing"
    batches = [batch_of(kind)] if is_whole else [batch_of(kind, [0, 1, 2, 3]), batch_of(kind, [4, 5])]
    plain, other = run_of([], kind, dropout=0.1), run_of(NOTHING[method], kind, dropout=0.1)
    for _ in range(4):
        assert torch.equal(train_step(plain, batches), train_step(other, batches))
    tiny.assert_same(weights(plain), weights(other))


@pytest.mark.parametrize("method", METHODS)
def test_with_one_it_is_not(method: str) -> None:
    plain, other = run_of([]), run_of(METHODS[method])
    for run in (plain, other):
        train_step(run, [batch_of()])
    ours, theirs = weights(plain), weights(other)
    assert all(not torch.equal(ours[name], theirs[name]) for name in ours if name.startswith("classifier"))


@pytest.mark.parametrize(
    ("kind", "architecture"),
    [*((kind, "bert") for kind in KINDS), *(("classes", name) for name in tiny.ARCHITECTURES[1:])],
)
@pytest.mark.parametrize("method", METHODS)
def test_a_step_is_the_same_however_it_is_cut(method: str, kind: str, architecture: str) -> None:
    """Parts have other padding, other neighbours, and one of them a row that does not count."""
    cuts: list[list[LabelledBatch]] = [
        [batch_of(kind)],
        [batch_of(kind, [0, 5, 1]), batch_of(kind, [2, 3, 4])],
        [batch_of(kind, [3]), batch_of(kind, [1, 2]), batch_of(kind, [5, 4, 0, 1], num_counted=3)],
    ]
    runs = [run_of(METHODS[method], kind, architecture) for _ in cuts]
    norms = [[float(train_step(run, cut)) for _ in range(3)] for run, cut in zip(runs, cuts, strict=True)]
    assert norms[1] == pytest.approx(norms[0], rel=1e-4) and norms[2] == pytest.approx(norms[0], rel=1e-4)
    readings = [run.meter.read(run.processes, run.objective.weights) for run in runs]
    assert readings[1] == pytest.approx(readings[0], rel=1e-4) and readings[2] == pytest.approx(readings[0], rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_denominators_are_those_of_the_task(method: str, kind: str) -> None:
    task = KINDS[kind][0]()
    run, batch = run_of(METHODS[method], kind), batch_of(kind, num_counted=4)
    counts = run.objective.counts(batch)
    assert {float(count) for count in counts.values()} == {float(task.counts(batch)[task.term])}
    train_step(run, [batch])
    readings = run.meter.read(run.processes, run.objective.weights)
    assert readings.keys() == {"loss", f"loss/{task.term}", *(["loss/smart"] if method == "smart" else [])}
    weighted = readings[f"loss/{task.term}"] + 50 * readings.get("loss/smart", 0)
    assert readings["loss"] == pytest.approx(weighted)


def test_the_ascent_raises_the_loss() -> None:
    run, batch = run_of(["adversarial=freelb", "freelb.steps=4", "freelb.step_size=0.05", "magnitude=0"]), batch_of()
    for _ in range(3):
        train_step(run, [batch])
        readings = run.passes.readings()
        assert readings["adversarial_rise"] > 1.01
        assert 0.05 < readings["perturbation"] <= 3 * 0.05 * 1.0001, "three steps of that length"


@pytest.mark.parametrize("method", METHODS)
def test_mixed_precision_trains(method: str) -> None:
    run = run_of(METHODS[method], precision="bf16")
    before = weights(run)
    assert torch.isfinite(train_step(run, [batch_of()])) and run.first_bad_step < 0
    assert all(not torch.equal(before[name], value) for name, value in weights(run).items() if "classifier" in name)


def smart_reference(model: LinearReader, batch: LabelledBatch, config: SmartConfig) -> Tensor:
    """Jiang et al.'s objective with torch's own divergences, over embeddings handed in."""
    mask = batch.attention_mask[..., None].float()
    embedded = model.words(batch.input_ids)
    clean = model.read(embedded, mask).logits

    def changes(delta: Tensor, clean: Tensor) -> Tensor:
        ours, theirs = clean.log_softmax(-1), model.read(embedded + delta, mask).logits.log_softmax(-1)
        pairs = ((ours, theirs), (theirs, ours))
        return torch.stack([functional.kl_div(a, b, reduction="sum", log_target=True) for a, b in pairs]).sum()

    noise = config.noise * normal(row_keys(batch, SEED, 0), 8 * 4).view(6, 8, 4) * mask
    delta = torch.zeros(6, 8, 4)
    for number in range(config.steps):
        at = (delta if number else noise).requires_grad_()
        gradient = torch.autograd.grad(changes(at, clean.detach()), at, retain_graph=True)[0]
        scale = gradient.abs().amax(-1, keepdim=True)
        delta = (delta.detach() + config.step_size * torch.where(scale > 0, gradient / scale, 0)).detach()
        if config.bound:
            delta = delta.clamp(-config.bound, config.bound)
    task = functional.cross_entropy(clean, batch.targets["label"])
    return task + config.weight * changes(delta, clean) / len(delta)


@pytest.mark.parametrize(
    "config",
    [
        SmartConfig(weight=2, noise=0.1, step_size=0.3),
        SmartConfig(weight=2, noise=0.1, step_size=0.3, steps=2),
        SmartConfig(weight=2, noise=0.1, step_size=0.3, steps=2, bound=0.35),
    ],
    ids=str,
)
def test_smart_is_the_papers_objective(config: SmartConfig) -> None:
    run, batch = linear_run(Smart(Classification(), config, SEED)), batch_of()
    model: Any = run.module.model
    wanted = smart_reference(model, batch, config)
    wanted.backward()
    gradients = tiny.gradients(model)
    loss, _ = run.module(batch, run.objective.counts(batch))
    assert float(loss.detach()) == pytest.approx(float(wanted.detach()), rel=1e-5)
    loss.backward()
    tiny.assert_same(tiny.gradients(model), gradients, tolerance=1e-6)


def test_smarts_noise_is_drawn_anew_in_each_step_and_again_alike() -> None:
    settings = [*METHODS["smart"], "noise=1"]

    def divergences() -> list[float]:
        run = run_of(settings)
        run.optimizer_config = OptimizerConfig(learning_rate=0.0)
        found = []
        for _ in range(3):
            train_step(run, [batch_of()])
            found.append(run.meter.read(run.processes, run.objective.weights)["loss/smart"])
        return found

    first = divergences()
    assert len(set(first)) == 3 and divergences() == first


def logits(kind: str, seed: int) -> Tensor:
    shape = {"classes": (6, 3), "quantities": (6, 1), "spans": (6, 8, 2), "tags": (6, 8, 5)}[kind]
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32)).requires_grad_()


@pytest.mark.parametrize("kind", KINDS)
def test_the_divergence_is_symmetric_and_nothing_for_equals(kind: str) -> None:
    task, batch = KINDS[kind][0](), batch_of(kind)
    left, right = logits(kind, 1), logits(kind, 2)
    found = divergence(task, left, right, batch)
    assert found.shape == task.is_target(batch).shape
    assert (found > 0).all() and torch.equal(found, divergence(task, right, left, batch))
    none = divergence(task, left, left.detach(), batch)
    none.sum().backward()
    assert left.grad is not None
    assert not none.any() and not left.grad.any()


def test_divergences_are_those_of_scipy() -> None:
    from scipy.special import rel_entr, softmax

    def both(left: np.ndarray, right: np.ndarray) -> float:
        ours, theirs = softmax(left), softmax(right)
        return float(rel_entr(ours, theirs).sum() + rel_entr(theirs, ours).sum())

    by_row: dict[str, Callable[[np.ndarray, np.ndarray, int], Any]] = {
        "classes": lambda ours, theirs, length: both(ours, theirs),
        "quantities": lambda ours, theirs, length: (ours - theirs)[0] ** 2,
        "spans": lambda ours, theirs, length: sum(both(ours[:length, n], theirs[:length, n]) for n in (0, 1)),
        "tags": lambda ours, theirs, length: [both(*tokens) for tokens in zip(ours, theirs, strict=True)],
    }
    for kind, wanted in by_row.items():
        task, batch = KINDS[kind][0](), batch_of(kind)
        left, right = logits(kind, 1).detach(), logits(kind, 2).detach()
        found = divergence(task, left, right, batch).numpy()
        for row, length in enumerate(LENGTHS):
            ours, theirs = left[row].double().numpy(), right[row].double().numpy()
            np.testing.assert_allclose(found[row], wanted(ours, theirs, length), rtol=2e-5)


def test_an_objective_without_a_measure_is_refused() -> None:
    class Unknown(Classification):
        term = "unknown"

    class Alien(LabelledObjective):
        term = "alien"
        outputs = losses = None  # type: ignore[assignment]

    Smart(Unknown(), SmartConfig(), 1)
    Alien.__abstractmethods__ = frozenset()
    with pytest.raises(ConfigError, match="adversarial=smart: it has no measure for 'alien': use adversarial=freelb"):
        Smart(Alien(), SmartConfig(), 1)


class PaddingReader(LinearReader):
    """Reads padding as it does text, and keeps what it has read."""

    def __init__(self) -> None:
        super().__init__()
        self.read_so_far: list[Tensor] = []

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        embedded = self.words(input_ids)
        self.read_so_far.append((embedded - self.words.weight[input_ids]).detach())
        return self.read(embedded, torch.ones_like(attention_mask[..., None], dtype=torch.float32))


@pytest.mark.parametrize("method", METHODS)
def test_text_is_perturbed_and_padding_is_not(method: str) -> None:
    """Also by a model whose loss padding would change."""
    objective, passes = with_adversary(override(FinetuneConfig(), METHODS[method]), Classification())
    model, batch = PaddingReader(), batch_of()
    run = Run.new(model, objective, OptimizerConfig(), TrainConfig(steps=1), torch.device("cpu"), passes=passes)
    train_step(run, [batch])
    assert len(model.read_so_far) == 3, "FreeLB's passes; SMART's with nothing, with noise, with the perturbation"
    is_text = batch.attention_mask == 1
    for change in model.read_so_far[-2:]:
        assert change[is_text].any(1).all() and not change[~is_text].any()


def test_the_model_is_left_as_it_was() -> None:
    model, batch = encoder(), batch_of()
    before = model(**batch.inputs()).logits
    delta = torch.randn(6, 8, 32)
    with perturbed(model, delta):
        assert not torch.allclose(model(**batch.inputs()).logits, before)
    with pytest.raises(ZeroDivisionError), perturbed(model, delta):
        raise ZeroDivisionError
    assert torch.equal(model(**batch.inputs()).logits, before)


@pytest.mark.parametrize(
    ("name", "objective", "passes"),
    [("", Classification, type(None)), ("freelb", Classification, FreeLB), ("smart", Smart, type(None))],
)
def test_what_is_configured_is_made(name: str, objective: type, passes: type) -> None:
    made = with_adversary(override(FinetuneConfig(), [f"adversarial={name}"]), Classification())
    assert tuple(map(type, made)) == (objective, passes)
