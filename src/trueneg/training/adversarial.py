"""Adversarial training: fine-tuning on word embeddings that are perturbed to the model's harm.

A hook adds the perturbation to what the word embeddings give, before an architecture's own projection and norm. Models
take ``inputs_embeds`` too, but then lack the ids by which some number positions or find padding; a hook leaves their
own path, and the objective's, as it is. Random draws depend on the seed, the step and a row's own tokens only, so that
a step is the same however it is cut; every pass of a micro-batch has the same dropout masks.
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
"""What a gradient's norm is divided by at least: an example whose loss is flat is not moved."""


def with_adversary(
    config: FinetuneConfig, objective: LabelledObjective
) -> tuple[Objective[Any, Any], GradientPasses | None]:
    """What a run minimises, and in which passes if not in one, by its configuration.

    Raises:
        ConfigError: if the objective is one that SMART does not know.
    """
    if config.adversarial == "freelb":
        return objective, FreeLB(config.freelb)
    if config.adversarial == "smart":
        return Smart(objective, config.smart, config.train.seed), None
    return objective, None


class FreeLB(GradientPasses):
    """Several passes, each at a worse perturbation, whose mean gradient is the step's (Zhu et al. 2020, Algorithm 1).

    The ascent costs nothing besides: a pass backward gives both the parameters' gradient and the perturbation's.
    ``steps`` counts passes, as the paper and its code for transformers; fairseq's ``--adv-steps`` counts ascents, one
    less. With one step and no magnitude it is plain training.
    """

    def __init__(self, config: FreeLBConfig) -> None:
        self.config = config
        self._last: Sums = {}

    def __call__(self, run: Run, batch: LabelledBatch, take_pass: Pass) -> tuple[Tensor, Outcome]:
        """Take the passes; the loss and its sums are the means over them."""
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
        """Of this process's last micro-batch.

        Returns:
            ``adversarial_rise``, the loss in the last pass as a multiple of that in the first, and ``perturbation``,
            the mean Euclidean norm of the last perturbations.
        """
        return {name: float(value) for name, value in self._last.items()}


def first_perturbation(config: FreeLBConfig, keys: Tensor, mask: Tensor, width: int) -> Tensor:
    """Uniform noise of about the configured magnitude, at all tokens that are not padding.

    Args:
        config: Magnitude and norm.
        keys: Of each row, int64 ``[rows]``.
        mask: 1 at text, ``[rows, length]``.
        width: Of the word embeddings.

    Returns:
        float32 ``[rows, length, width]``: from ``±magnitude``, for ``l2`` divided by the root of the row's numbers.
    """
    noise = 2 * uniform(keys, 0, mask.shape[1] * width).view(*mask.shape, width) - 1
    noise = noise * mask[..., None]
    if config.norm == "l2":
        noise = noise / (mask.sum(1) * width).clamp(min=1).sqrt()[:, None, None]
    return noise * config.magnitude


def ascend(config: FreeLBConfig, delta: Tensor, gradient: Tensor, mask: Tensor) -> Tensor:
    """Go a step up the loss in each row, and back to the bound.

    Args:
        config: Step, bound and norm.
        delta: ``[rows, length, width]``.
        gradient: Of the loss by it.
        mask: 1 at text, ``[rows, length]``.
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
    """An objective and how much the model's outputs can be changed by a small perturbation (Jiang et al. 2020).

    The term ``smart`` is a sum over the same targets: the symmetric Kullback-Leibler divergence between outputs with
    and without the perturbation (for quantities their squared difference), which steps of ascent have made large.
    Unlike in FreeLB the task's own loss is that of the text as it is.

    As in the released code (namisan/mt-dnn) the noise only shows where to go and is not kept; in the paper it is, and
    makes a hundredth of the perturbation. The code ascends on one direction of the divergence, to first order the same.
    The paper's bound, 1e-5, is below its step, 1e-3, so that steps end on it; the code has none.

    Args:
        objective: The task's.
        config: Weight, noise and ascent.
        seed: The run's.
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
        """As the task's objective does."""
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
        """Count steps: noise is drawn anew in each."""
        self.step += 1

    def _perturbation(self, model: Any, batch: LabelledBatch, outputs: Tensor, state: RandomState) -> Tensor:
        """Steps that change the outputs the most, each token's by its own scale; where to is seen beside the text."""
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
    """How far apart two outputs are, as the objective reads them: symmetric, 0 for equal ones.

    Args:
        objective: The task's.
        left: Of ``objective.outputs``, float32.
        right: Likewise.
        batch: What was read.

    Returns:
        float32 of the shape of ``objective.is_target``. Kullback-Leibler divergences in both directions, summed (nats),
        for spans of start and end; of quantities the squared difference.
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
    """Both directions in one: ``[*, choices]`` logits to ``[*]``. Equal logits have no gradient, to the bit."""
    ours, theirs = functional.log_softmax(left, -1), functional.log_softmax(right, -1)
    return ((ours.exp() - theirs.exp()) * (ours - theirs)).sum(-1)


@contextmanager
def perturbed(model: Any, delta: Tensor) -> Iterator[None]:
    """Within it, a model's word embeddings are those of its input and ``delta``, ``[rows, length, width]``."""
    hook = model.get_input_embeddings().register_forward_hook(lambda module, given, embedded: embedded + delta)
    try:
        yield
    finally:
        hook.remove()


def row_keys(batch: LabelledBatch, seed: int, step: int | Tensor) -> Tensor:
    """Key of each row in a step: a function of the seed, the step and the row's tokens, not of its neighbours.

    Rows of equal tokens have equal keys. ``step`` may be on the device: nothing waits for it.

    Returns:
        int64 ``[rows]``.
    """
    column = torch.arange(batch.input_ids.shape[1], device=batch.input_ids.device)
    tokens = example_keys(seed, batch.input_ids + (column << 32)) * batch.attention_mask
    return example_keys(seed, tokens.sum(1) + step)


def normal(keys: Tensor, num: int) -> Tensor:
    """``num`` standard normal numbers for each key: float32 ``[*keys, num]``."""
    # Half a unit up, so that neither end is reached, where the inverse is infinite.
    normal: Tensor = torch.erfinv(2 * uniform(keys, 0, num) - (1 - 2.0**-24))
    return normal * math.sqrt(2)


def _outputs_at(
    objective: LabelledObjective, model: Any, batch: LabelledBatch, delta: Tensor, state: RandomState
) -> Tensor:
    state.restore()
    with perturbed(model, delta):
        return objective.outputs(model, batch).float()


def _norm(values: Tensor, order: float) -> Tensor:
    """Of each row, ``[rows, length, width]`` to ``[rows, 1, 1]``."""
    norms: Tensor = torch.linalg.vector_norm(values, order, dim=(1, 2), keepdim=True)
    return norms


def _mean(outcomes: list[Outcome]) -> Outcome:
    def mean(sums: list[Sums]) -> Sums:
        return {name: torch.stack([each[name] for each in sums]).mean() for name in sums[0]}

    return Outcome(mean([outcome.terms for outcome in outcomes]), mean([outcome.stats for outcome in outcomes]))
