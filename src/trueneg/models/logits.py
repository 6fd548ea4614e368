"""Logits over a vocabulary, the largest tensor of a step: held whole, or recomputed in chunks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from trueneg.models.backbone import MaskedLanguageModel

AUTO = -1.0
"""Value of ``max_mb`` that means ``GPU_MB`` on a GPU, no limit on a CPU."""
GPU_MB = 512.0
MULTIPLE = 256
"""On a GPU the vocabulary is padded to a multiple of this many entries: rows of 30,522 logits are not aligned."""
NEVER = -1e30
"""Logit of padding entries of the vocabulary."""

Read = Callable[..., tuple[Tensor, ...]]


class MakesLogits:
    """A part of an objective that computes logits of its own besides those of the loss."""

    max_logits_mb: float = AUTO
    """Largest size of logits held in memory: see ``logits_of``."""


def limit_logits(module: nn.Module, max_mb: float) -> None:
    """Set ``max_logits_mb`` of all parts of a module that compute logits."""
    for part in module.modules():
        if isinstance(part, MakesLogits):
            part.max_logits_mb = max_mb


class Logits(ABC):
    """Logits of a masked-LM head at some slots, float32 over the vocabulary: ``[batch, slots, vocab]``."""

    vocab_size: int
    """Size of the vocabulary."""

    @abstractmethod
    def read(self, function: Read, *of_slots: Tensor) -> tuple[Tensor, ...]:
        """Apply a function to the logits, without gradient.

        Args:
            function: Takes logits ``[*, vocab]``, float32 (padding entries of probability 0 may follow), and the same
                rows of ``of_slots``; returns tensors ``[*, ...]``. It may be applied to a few rows at a time.
            of_slots: Tensors ``[batch, slots, ...]``.

        Returns:
            What the function returns, ``[batch, slots, ...]``.
        """

    @abstractmethod
    def losses(
        self, gold: Tensor, others: Tensor | None = None, temperature: float = 1.0
    ) -> tuple[Tensor, Tensor | None]:
        """Return the loss of each slot, and the logits of a few tokens, both from ``logits / temperature``.

        Args:
            gold: Gold tokens, int64 ``[batch, slots]``.
            others: Further tokens whose logits are returned: int64 ``[batch, slots, n]``.
            temperature: Divisor of the logits.

        Returns:
            ``-log p(gold)``, float32 ``[batch, slots]``; and, if ``others`` is given, the logits of the gold token and
            of each other one, float32 ``[batch, slots, 1 + n]``.
        """

    @abstractmethod
    def mean(self, temperature: float = 1.0) -> Tensor:
        """Return the mean of each slot's ``logits / temperature`` over the vocabulary, float32 ``[batch, slots]``."""

    @abstractmethod
    def expected(self, table: Tensor) -> Tensor:
        """Return a table's expected row in each slot: float32 ``[vocab, width]`` to ``[batch, slots, width]``."""

    @abstractmethod
    def whole(self) -> Tensor:
        """Return all logits, float32 ``[batch, slots, vocab]``."""


class WholeLogits(Logits):
    """Logits that are held in memory.

    Args:
        values: float32 ``[batch, slots, vocab]``, with gradient; padding entries may follow.
        vocab_size: Size of the vocabulary; by default that of ``values``.
    """

    def __init__(self, values: Tensor, vocab_size: int | None = None) -> None:
        self.values = values
        self.vocab_size = values.shape[-1] if vocab_size is None else vocab_size

    def read(self, function: Read, *of_slots: Tensor) -> tuple[Tensor, ...]:
        """Apply a function to the logits, without gradient."""
        with torch.no_grad():
            return function(self.values, *of_slots)

    def losses(
        self, gold: Tensor, others: Tensor | None = None, temperature: float = 1.0
    ) -> tuple[Tensor, Tensor | None]:
        """Return the loss of each slot, and the logits of a few tokens."""
        values = self.values if temperature == 1 else self.values / temperature
        loss = functional.cross_entropy(values.flatten(0, 1), gold.flatten(), reduction="none").view_as(gold)
        return loss, None if others is None else values.gather(2, torch.cat([gold.unsqueeze(-1), others], 2))

    def mean(self, temperature: float = 1.0) -> Tensor:
        """Return the mean logit of each slot."""
        return self.whole().mean(-1) / temperature

    def expected(self, table: Tensor) -> Tensor:
        """Return a table's expected row in each slot."""
        with torch.autocast(table.device.type, enabled=False):  # a distance near 0 needs full precision
            return self.values.softmax(-1)[..., : self.vocab_size] @ table

    def whole(self) -> Tensor:
        """Return all logits."""
        return self.values[..., : self.vocab_size]


class ChunkedLogits(Logits):
    """Logits of which only a chunk exists at a time: some rows in the forward pass, some columns in the backward pass.

    The forward pass keeps each row's log-normaliser and what ``read`` computes; the few logits that a loss needs are
    products of hidden states and looked-up rows of ``weight``. The backward pass recomputes the chunks, by columns, so
    that each yields complete rows of the gradient of ``weight``. Log-normalisers and gradients of logits are float32.

    Args:
        hidden: Input of the last linear layer, ``[batch, slots, width]``, in the layer's dtype.
        weight: ``[vocab, width]``, of the same dtype; padding entries may follow.
        bias: ``[vocab]``.
        max_mb: Largest size of a chunk in float32, in MiB.
        vocab_size: Size of the vocabulary; by default that of ``weight``.
        temperatures: Temperatures that ``losses`` will be called with, so that one pass computes all log-normalisers.
    """

    def __init__(
        self,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        max_mb: float,
        vocab_size: int | None = None,
        temperatures: Sequence[float] = (1.0,),
    ) -> None:
        self.hidden, self.weight, self.bias = hidden.flatten(0, 1), weight, bias
        self.shape = hidden.shape[:2]
        self.most = max(1, int(max_mb * 2**20 / 4))
        self.vocab_size = len(weight) if vocab_size is None else vocab_size
        self.temperatures = tuple(temperatures)
        self._log_normalisers: dict[float, Tensor] = {}

    def read(self, function: Read, *of_slots: Tensor) -> tuple[Tensor, ...]:
        """Apply a function to the logits, without gradient."""
        missing = [temperature for temperature in self.temperatures if temperature not in self._log_normalisers]

        def read_chunk(logits: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
            normalisers = [(logits if t == 1 else logits / t).logsumexp(-1) for t in missing]
            return (*normalisers, *function(logits, *others))

        with torch.no_grad():  # as a decorator it would break a compiled graph
            flat = [values.flatten(0, 1) for values in of_slots]
            found = _by_rows(read_chunk, self.hidden, self.weight, self.bias, self.most, *flat)
        self._log_normalisers.update(zip(missing, found, strict=False))
        return tuple(values.unflatten(0, self.shape) for values in found[len(missing) :])

    def losses(
        self, gold: Tensor, others: Tensor | None = None, temperature: float = 1.0
    ) -> tuple[Tensor, Tensor | None]:
        """Return the loss of each slot, and the logits of a few tokens."""
        tokens = gold.unsqueeze(-1) if others is None else torch.cat([gold.unsqueeze(-1), others], 2)
        loss, picked = _apply(
            _Losses,
            self.hidden,
            self.weight,
            self.bias,
            self._log_normaliser(temperature),
            tokens.flatten(0, 1),
            temperature,
            self.most,
        )
        return loss.unflatten(0, self.shape), None if others is None else picked.unflatten(0, self.shape)

    def mean(self, temperature: float = 1.0) -> Tensor:
        """Return the mean logit of each slot: its product with the mean row of ``weight``."""
        row, shift = (values[: self.vocab_size].float().mean(0) for values in (self.weight, self.bias))
        with torch.autocast(self.hidden.device.type, enabled=False):
            mean = (self.hidden.float() @ row + shift) / temperature
        of_slots: Tensor = mean.unflatten(0, self.shape)
        return of_slots

    def expected(self, table: Tensor) -> Tensor:
        """Return a table's expected row in each slot."""
        table = functional.pad(table, (0, 0, 0, len(self.weight) - len(table)))
        found = _apply(_Expected, self.hidden, self.weight, self.bias, self._log_normaliser(1.0), table, self.most)
        expected: Tensor = found.unflatten(0, self.shape)
        return expected

    def whole(self) -> Tensor:
        """Return all logits."""
        logits = functional.linear(self.hidden, self.weight, self.bias).float()[:, : self.vocab_size]
        return logits.view(*self.shape, -1)

    def _log_normaliser(self, temperature: float) -> Tensor:
        """``logsumexp(logits / temperature)``, float32 ``[batch * slots]``, without gradient."""
        if temperature not in self._log_normalisers:
            self.temperatures = (*self.temperatures, temperature)
            self.read(lambda logits: ())
        return self._log_normalisers[temperature]


def logits_of(
    model: MaskedLanguageModel, hidden: Tensor, max_mb: float = AUTO, temperatures: Sequence[float] = (1.0,)
) -> Logits:
    """Apply a model's head to hidden states, in chunks if the logits would be too large.

    On a GPU the vocabulary is padded to a multiple of ``MULTIPLE`` entries; callers do not see the padding.

    Args:
        model: Encoder and head. If the head does not end in a linear layer, its logits are held whole.
        hidden: Hidden states at the slots, ``[batch, slots, hidden]``.
        max_mb: Largest size of the logits that are held, in float32 MiB; 0 for no limit, ``AUTO`` for the device's.
        temperatures: Temperatures that ``losses`` will be called with.
    """
    is_gpu = hidden.device.type != "cpu"
    if max_mb < 0:
        max_mb = GPU_MB if is_gpu else 0.0
    num_mb = hidden.shape[0] * hidden.shape[1] * model.vocab_size * 4 / 2**20
    is_chunked = 0 < max_mb < num_mb
    if not model.has_linear_head or not (is_gpu or is_chunked):
        return WholeLogits(model.logits(hidden.flatten(0, 1)).unflatten(0, hidden.shape[:2]).float())
    before, weight, bias = model.head_parts(hidden)
    vocab_size = len(weight)
    weight, bias = padded(weight, bias, MULTIPLE if is_gpu else 1)
    if is_chunked:
        return ChunkedLogits(before, weight, bias, max_mb, vocab_size, temperatures)
    return WholeLogits(functional.linear(before, weight, bias).float(), vocab_size)


def logits_at(
    model: MaskedLanguageModel,
    hidden: Tensor,
    positions: Tensor,
    max_mb: float = AUTO,
    temperatures: Sequence[float] = (1.0,),
) -> Logits:
    """Apply a model's head to its hidden states at chosen positions.

    Args:
        model: Encoder and head.
        hidden: ``[batch, length, hidden]``.
        positions: int64 ``[batch, slots]``.
        max_mb: See ``logits_of``.
        temperatures: See ``logits_of``.
    """
    at_slots = hidden.gather(1, positions.unsqueeze(-1).expand(-1, -1, hidden.shape[-1]))
    return logits_of(model, at_slots, max_mb, temperatures)


def padded(weight: Tensor, bias: Tensor | None, multiple: int) -> tuple[Tensor, Tensor]:
    """Pad a linear layer to a multiple of entries; the padding has probability 0 and no gradient.

    Example:
        >>> weight, bias = padded(torch.ones(3, 2), None, 4)
        >>> torch.nn.functional.linear(torch.ones(1, 2), weight, bias).softmax(-1)
        tensor([[0.3333, 0.3333, 0.3333, 0.0000]])
    """
    bias = weight.new_zeros(len(weight)) if bias is None else bias
    num = -len(weight) % multiple
    if not num:
        return weight, bias
    never = max(NEVER, torch.finfo(bias.dtype).min)  # float16 has no number as small as NEVER
    return functional.pad(weight, (0, 0, 0, num)), functional.pad(bias, (0, num), value=never)


def _apply(function: Any, *given: Any) -> Any:
    """Apply an autograd function, whose ``apply`` has no type annotations."""
    return function.apply(*given)


def _by_rows(
    function: Read, hidden: Tensor, weight: Tensor, bias: Tensor, most: int, *of_rows: Tensor
) -> tuple[Tensor, ...]:
    """Apply a function to the logits of a few rows at a time, and concatenate the results."""
    sizes = _even(len(hidden), most // len(weight))
    parts = zip(*(values.split(sizes) for values in (hidden, *of_rows)), strict=True)
    found = [function(functional.linear(part, weight, bias).float(), *others) for part, *others in parts]
    return tuple(torch.cat(values) for values in zip(*found, strict=True))


def _even(num: int, most: int) -> list[int]:
    """Split a number into few parts, each of ``most`` or less, of at most two sizes.

    Example:
        >>> _even(10, 4), _even(3, 0), _even(0, 4)
        ([4, 4, 2], [1, 1, 1], [0])
    """
    num_parts = max(1, -(-num // max(1, most)))
    size = max(1, -(-num // num_parts))
    return [size] * (num // size) + ([num % size] if num % size or not num else [])


def _looked_up(hidden: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor, most: int) -> Tensor:
    """Logits of some tokens ``[rows, n]``, from looked-up rows of ``weight``: float32, rounded like the full logits."""
    sizes = _even(len(hidden), most // (tokens.shape[1] * hidden.shape[1]))
    found = [
        torch.baddbmm(bias[wanted].unsqueeze(-1), functional.embedding(wanted, weight), rows.unsqueeze(-1)).squeeze(-1)
        for rows, wanted in zip(hidden.split(sizes), tokens.split(sizes), strict=True)
    ]
    return torch.cat(found).float()


def _backward(
    hidden: Tensor, weight: Tensor, bias: Tensor, most: int, gradient: Callable[[Tensor, int, int], Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of a head, with its logits recomputed for some entries of the vocabulary at a time.

    Args:
        hidden: ``[rows, width]``.
        weight: ``[vocab, width]``.
        bias: ``[vocab]``.
        most: Largest number of logits in a chunk.
        gradient: Takes logits ``[rows, entries]``, float32, with their first entry and end; returns their gradient.
    """
    of_hidden = torch.zeros_like(hidden, dtype=torch.float32)
    of_weight, of_bias, first = [], [], 0
    sizes = _even(len(weight), most // max(1, len(hidden)))
    for entries, shift in zip(weight.split(sizes), bias.split(sizes), strict=True):
        of_logits = gradient(functional.linear(hidden, entries, shift).float(), first, first + len(entries))
        of_bias.append(of_logits.sum(0))
        of_logits = of_logits.to(hidden.dtype)
        of_hidden = of_hidden + of_logits @ entries
        of_weight.append(of_logits.T @ hidden)
        first += len(entries)
    return of_hidden.to(hidden.dtype), torch.cat(of_weight), torch.cat(of_bias).to(bias.dtype)


class _Losses(torch.autograd.Function):
    """``-log p`` of the first of some tokens ``[rows, n]``, and the logits of all of them."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        log_normaliser: Tensor,
        tokens: Tensor,
        temperature: float,
        most: int,
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(hidden, weight, bias, log_normaliser, tokens)
        ctx.temperature, ctx.most = temperature, most
        picked = _looked_up(hidden, weight, bias, tokens, most) / temperature
        return log_normaliser - picked[:, 0], picked

    @staticmethod
    def backward(ctx: Any, of_loss: Tensor, of_picked: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, log_normaliser, tokens = ctx.saved_tensors
        temperature = ctx.temperature
        of_tokens = torch.cat([of_picked[:, :1] - of_loss.unsqueeze(-1), of_picked[:, 1:]], 1)

        def gradient(logits: Tensor, first: int, end: int) -> Tensor:
            p = logits.div_(temperature).sub_(log_normaliser.unsqueeze(-1)).exp_()
            is_inside = (tokens >= first) & (tokens < end)
            place = (tokens - first).clamp(0, end - first - 1)
            of_logits = p.mul_(of_loss.unsqueeze(-1)).scatter_add_(1, place, of_tokens * is_inside)
            return of_logits.div_(temperature)

        return (*_backward(hidden, weight, bias, ctx.most, gradient), None, None, None, None)


class _Expected(torch.autograd.Function):
    """Expected row of a table ``[vocab, width]`` for each row of hidden states."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, log_normaliser: Tensor, table: Tensor, most: int
    ) -> Tensor:
        def expected(logits: Tensor, normaliser: Tensor) -> tuple[Tensor]:
            with torch.autocast(table.device.type, enabled=False):
                return ((logits - normaliser.unsqueeze(-1)).exp() @ table,)

        (found,) = _by_rows(expected, hidden, weight, bias, most, log_normaliser)
        ctx.save_for_backward(hidden, weight, bias, log_normaliser, table, found)
        ctx.most = most
        return found

    @staticmethod
    def backward(ctx: Any, of_expected: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, log_normaliser, table, expected = ctx.saved_tensors
        mean = (of_expected * expected).sum(-1, keepdim=True)
        of_table = []

        def gradient(logits: Tensor, first: int, end: int) -> Tensor:
            p = logits.sub_(log_normaliser.unsqueeze(-1)).exp_()
            with torch.autocast(table.device.type, enabled=False):
                of_table.append(p.T @ of_expected)
                of_logits: Tensor = (of_expected @ table[first:end].T).sub_(mean).mul_(p)
                return of_logits

        of_head = _backward(hidden, weight, bias, ctx.most, gradient)
        return (*of_head, None, torch.cat(of_table), None)
