"""Adversarial training: fine-tuning on word embeddings that are perturbed so as to raise the loss.

A hook adds the perturbation to the output of the word embeddings, before an architecture's own projection and norm.
Models also accept ``inputs_embeds``, but some need the ids to compute positions or to find padding; a hook changes
neither the model's forward pass nor the objective. Random draws depend only on the seed, the step and a row's own
tokens, so a step is the same however it is split; every pass of a micro-batch has the same dropout masks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import singledispatch
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from trueneg.config.finetune_options import FinetuneConfig, FreeLBConfig, SmartConfig
from trueneg.corruption.keyed import example_keys, uniform
from trueneg.errors import ConfigError
from trueneg.hardware import RandomState
from trueneg.models.backbone import embedding_table
from trueneg.objectives.base import Objective, Outcome, Sums
from trueneg.objectives.labelled import (
    Classification,
    LabelledBatch,
    LabelledObjective,
    Regression,
    SpanExtraction,
    Tagging,
)
from trueneg.training.step import GradientPasses, Pass, Run

EPS = 1e-30
"""Smallest norm that a gradient is divided by: an example whose loss is flat is not moved."""


def with_adversary(
    config: FinetuneConfig, objective: LabelledObjective
) -> tuple[Objective[Any, Any], GradientPasses | None]:
    """The objective that a configuration asks for, and its gradient passes if there are several.

    Raises:
        ConfigError: if SMART does not support the objective.
    """
    if config.adversarial == "freelb":
        return objective, FreeLB(config.freelb)
    if config.adversarial == "smart":
        return Smart(objective, config.smart, config.train.seed), None
    return objective, None


class FreeLB(GradientPasses):
    """Several passes, each at a worse perturbation; the step uses their mean gradient (Zhu et al. 2020, Algorithm 1).

    The ascent costs nothing extra: a backward pass gives both the parameters' gradient and the perturbation's.
    ``steps`` counts passes, as the paper and its code for transformers do; fairseq's ``--adv-steps`` counts ascents,
    one fewer. With one step and a magnitude of 0 this is plain training.
    """

    def __init__(self, config: FreeLBConfig) -> None:
        self.config = config
        self._last: Sums = {}

    def __call__(self, run: Run, batch: LabelledBatch, take_pass: Pass) -> tuple[Tensor, Outcome]:
        """Run the passes; the loss and its sums are means over them."""
        steps, model = self.config.steps, cast(PreTrainedModel, run.module.model)
        width = embedding_table(model).shape[1]
        delta = first_perturbation(self.config, row_keys(batch, run.config.seed, run.step), batch.attention_mask, width)
        losses, outcomes = [], []
        for number in range(steps):
            is_last = number == steps - 1
            with perturbed(model, delta.requires_grad_()):
                loss, outcome = take_pass(1 / steps, is_last)
            losses.append(loss)
            outcomes.append(outcome)
            if not is_last:
                assert delta.grad is not None
                delta = ascend(self.config, delta.detach(), delta.grad, batch.attention_mask)
        norms = delta.detach().flatten(1).norm(dim=1)
        self._last = {"adversarial_rise": losses[-1] / losses[0], "perturbation": norms.mean()}
        return torch.stack(losses).mean(), _mean(outcomes)

    def readings(self) -> dict[str, float]:
        """Metrics of this process's last micro-batch.

        Returns:
            ``adversarial_rise``, the loss in the last pass as a multiple of that in the first, and ``perturbation``,
            the mean Euclidean norm of the last perturbations.
        """
        return {name: float(value) for name, value in self._last.items()}


def first_perturbation(config: FreeLBConfig, keys: Tensor, mask: Tensor, width: int) -> Tensor:
    """Uniform noise of about the configured magnitude, at all tokens that are not padding.

    Args:
        config: Magnitude and norm.
        keys: Key of each row, int64 ``[rows]``.
        mask: Attention mask, ``[rows, length]``.
        width: Width of the word embeddings.

    Returns:
        float32 ``[rows, length, width]`` within ``±magnitude``; for ``l2`` divided by the square root of the number of
        the row's values.
    """
    noise = 2 * uniform(keys, 0, mask.shape[1] * width).view(*mask.shape, width) - 1
    noise = noise * mask[..., None]
    if config.norm == "l2":
        noise = noise / (mask.sum(1) * width).clamp(min=1).sqrt()[:, None, None]
    return noise * config.magnitude


def ascend(config: FreeLBConfig, delta: Tensor, gradient: Tensor, mask: Tensor) -> Tensor:
    """Take a step of gradient ascent in each row, and project it back onto the bound.

    Args:
        config: Step size, bound and norm.
        delta: The perturbation, ``[rows, length, width]``.
        gradient: Gradient of the loss with respect to ``delta``.
        mask: Attention mask, ``[rows, length]``.
    """
    order = 2.0 if config.norm == "l2" else float("inf")
    gradient = gradient * mask[..., None]
    delta = delta + config.step_size * gradient / _norm(gradient, order).clamp(min=EPS)
    if not config.bound:
        return delta
    if config.norm == "linf":
        return delta.clamp(-config.bound, config.bound)
    return delta * (config.bound / _norm(delta, order).clamp(min=EPS)).clamp(max=1)


class Smart(Objective[LabelledBatch, LabelledBatch]):
    """An objective, regularised by how much a small perturbation can change the model's outputs (Jiang et al. 2020).

    The term ``smart`` is a sum over the same targets: the symmetric Kullback-Leibler divergence between outputs with
    and without the perturbation (in regression, their squared difference), which gradient ascent has made large.
    Unlike in FreeLB, the task's own loss is computed on the unperturbed text.

    As in the released code (namisan/mt-dnn), the noise only serves to find the direction and is not kept; the paper
    keeps it, as a hundredth of the perturbation. The code ascends on one direction of the divergence, which is the same
    to first order. The paper's bound, 1e-5, is smaller than its step, 1e-3, so steps end on the bound; the code has
    none.

    Args:
        objective: The task's objective.
        config: Weight, noise and ascent.
        seed: The run's seed.
    """

    step: Tensor

    def __init__(self, objective: LabelledObjective, config: SmartConfig, seed: int) -> None:
        super().__init__()
        if divergence.dispatch(type(objective)) is divergence.dispatch(object):
            raise ConfigError(f"adversarial=smart: it has no measure for '{objective.term}': use adversarial=freelb")
        self.objective, self.config, self._seed = objective, config, seed
        self.weights = {**objective.weights, "smart": config.weight}
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def corrupt(self, rows: LabelledBatch) -> LabelledBatch:
        """Corrupt rows as the task's objective does."""
        return self.objective.corrupt(rows)

    def counts(self, batch: LabelledBatch) -> Sums:
        """The task's count, for both terms."""
        counts = self.objective.counts(batch)
        return {**counts, "smart": counts[self.objective.term]}

    def forward(self, model: Any, batch: LabelledBatch) -> Outcome:
        """Sums of the task's losses and of the divergences."""
        objective = self.objective
        state = RandomState(batch.input_ids.device)
        outputs = objective.outputs(model, batch).float()
        is_target = objective.is_target(batch)
        losses = objective.losses(outputs, batch)
        delta = self._perturbation(model, batch, outputs.detach(), state)
        changes = divergence(objective, outputs, _outputs_at(objective, model, batch, delta, state), batch)
        return Outcome(
            {
                objective.term: torch.where(is_target, losses, 0.0).sum(),
                "smart": torch.where(is_target, changes, 0.0).sum(),
            }
        )

    def after_step(self, model: Any) -> None:
        """Count steps: each draws new noise."""
        self.step += 1

    def _perturbation(self, model: Any, batch: LabelledBatch, outputs: Tensor, state: RandomState) -> Tensor:
        """Ascend on the divergence, each token at its own scale; the first gradient is taken at the noise."""
        config, mask = self.config, batch.attention_mask[..., None]
        width = embedding_table(model).shape[1]
        keys = row_keys(batch, self._seed, self.step)
        delta = torch.zeros(*mask.shape[:2], width, device=mask.device)
        noise = config.noise * normal(keys, mask.shape[1] * width).view_as(delta) * mask
        is_target = self.objective.is_target(batch)
        for number in range(config.steps):
            at = (noise if number == 0 else delta).requires_grad_()
            changes = divergence(self.objective, outputs, _outputs_at(self.objective, model, batch, at, state), batch)
            (gradient,) = torch.autograd.grad(torch.where(is_target, changes, 0.0).sum(), at)
            largest = gradient.abs().amax(-1, keepdim=True).clamp(min=EPS)
            delta = delta.detach() + config.step_size * mask * gradient / largest
            delta = delta.clamp(-config.bound, config.bound) if config.bound else delta
        return delta.detach()


@singledispatch
def divergence(objective: LabelledObjective, left: Tensor, right: Tensor, batch: LabelledBatch) -> Tensor:
    """Distance between two outputs, as the objective interprets them: symmetric, 0 for equal ones.

    Args:
        objective: The task's objective.
        left: Output of ``objective.outputs``, float32.
        right: Another one.
        batch: The batch that the outputs are for.

    Returns:
        float32 of the shape of ``objective.is_target``. Kullback-Leibler divergences in both directions, summed (nats);
        for spans, summed over start and end; for regression, the squared difference.
    """
    raise AssertionError(f"Smart refuses {type(objective).__name__}, which has no measure, when it is made")


@divergence.register(Classification)
@divergence.register(Tagging)
def _of_labels(objective: LabelledObjective, left: Tensor, right: Tensor, batch: LabelledBatch) -> Tensor:
    return _symmetric_divergence(left, right)


@divergence.register
def _of_quantities(objective: Regression, left: Tensor, right: Tensor, batch: LabelledBatch) -> Tensor:
    return (left - right).squeeze(-1).square()


@divergence.register
def _of_spans(objective: SpanExtraction, left: Tensor, right: Tensor, batch: LabelledBatch) -> Tensor:
    is_padding = batch.attention_mask[:, None, :] == 0

    def over_text(outputs: Tensor) -> Tensor:
        return outputs.transpose(1, 2).masked_fill(is_padding, torch.finfo(torch.float32).min)

    return _symmetric_divergence(over_text(left), over_text(right)).sum(-1)


def _symmetric_divergence(left: Tensor, right: Tensor) -> Tensor:
    """Sum of both directions: ``[*, classes]`` logits to ``[*]``. The gradient at equal logits is exactly 0."""
    ours, theirs = functional.log_softmax(left, -1), functional.log_softmax(right, -1)
    return ((ours.exp() - theirs.exp()) * (ours - theirs)).sum(-1)


@contextmanager
def perturbed(model: Any, delta: Tensor) -> Iterator[None]:
    """Add ``delta``, ``[rows, length, width]``, to the output of a model's word embeddings within the context."""
    hook = model.get_input_embeddings().register_forward_hook(lambda module, given, embedded: embedded + delta)
    try:
        yield
    finally:
        hook.remove()


def row_keys(batch: LabelledBatch, seed: int, step: int | Tensor) -> Tensor:
    """Key of each row in a step: a function of the seed, the step and the row's tokens, not of other rows.

    Rows of equal tokens have equal keys. ``step`` may be a tensor on the device, without a synchronisation.

    Returns:
        int64 ``[rows]``.
    """
    column = torch.arange(batch.input_ids.shape[1], device=batch.input_ids.device)
    tokens = example_keys(seed, batch.input_ids + (column << 32)) * batch.attention_mask
    return example_keys(seed, tokens.sum(1) + step)


def normal(keys: Tensor, num: int) -> Tensor:
    """``num`` standard normal numbers for each key: float32 ``[*keys, num]``."""
    # Shifted up by half a unit, so that neither end is reached, where the inverse is infinite.
    normal: Tensor = torch.erfinv(2 * uniform(keys, 0, num) - (1 - 2.0**-24))
    return normal * math.sqrt(2)


def _outputs_at(
    objective: LabelledObjective, model: Any, batch: LabelledBatch, delta: Tensor, state: RandomState
) -> Tensor:
    state.restore()
    with perturbed(model, delta):
        return objective.outputs(model, batch).float()


def _norm(values: Tensor, order: float) -> Tensor:
    """Norm of each row, ``[rows, length, width]`` to ``[rows, 1, 1]``."""
    norms: Tensor = torch.linalg.vector_norm(values, order, dim=(1, 2), keepdim=True)
    return norms


def _mean(outcomes: list[Outcome]) -> Outcome:
    def mean(sums: list[Sums]) -> Sums:
        return {name: torch.stack([each[name] for each in sums]).mean() for name in sums[0]}

    return Outcome(mean([outcome.terms for outcome in outcomes]), mean([outcome.stats for outcome in outcomes]))
