"""Logits over a vocabulary, which are the largest tensor of a step: held whole, or made anew a part at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.models.backbone import MaskedLanguageModel

AUTO = -1.0
"""Of ``max_mb``: ``GPU_MB`` on a GPU, no limit on a CPU."""
GPU_MB = 512.0
MULTIPLE = 256
"""Entries that a GPU's product is padded to a multiple of: rows of 30,522 logits are not aligned."""
NEVER = -1e30
"""Logit of an entry that is no token."""

Read = Callable[..., tuple[Tensor, ...]]


class Logits(ABC):
    """What a masked-LM head says at some slots, float32 over the vocabulary: ``[batch, slots, vocab]``."""

    vocab_size: int
    """Entries of the vocabulary."""

    @abstractmethod
    def read(self, function: Read, *of_slots: Tensor) -> tuple[Tensor, ...]:
        """Apply a function to the logits, without gradient.

        Args:
            function: Takes logits ``[*, vocab]``, float32 (entries beyond the vocabulary may follow, of probability 0),
                and the same rows of ``of_slots``; returns tensors ``[*, ...]``. It may be applied a few rows at a time.
            of_slots: Tensors ``[batch, slots, ...]``.

        Returns:
            What the function returns, ``[batch, slots, ...]``.
        """

    @abstractmethod
    def losses(
        self, gold: Tensor, others: Tensor | None = None, temperature: float = 1.0
    ) -> tuple[Tensor, Tensor | None]:
        """Give the loss of each slot, and a few logits, all of ``logits / temperature``.

        Args:
            gold: int64 ``[batch, slots]``.
            others: Further tokens whose logits are wanted: int64 ``[batch, slots, n]``.
            temperature: Divides the logits.

        Returns:
            ``-log p(gold)``, float32 ``[batch, slots]``; and, if others are given, the logits of gold and of each of
            them, float32 ``[batch, slots, 1 + n]``.
        """

    @abstractmethod
    def mean(self, temperature: float = 1.0) -> Tensor:
        """Give the mean of each slot's ``logits / temperature`` over the vocabulary, float32 ``[batch, slots]``."""

    @abstractmethod
    def expected(self, table: Tensor) -> Tensor:
        """Give the expectation of a table's rows: float32 ``[vocab, width]`` to ``[batch, slots, width]``."""

    @abstractmethod
    def whole(self) -> Tensor:
        """Give all logits, float32 ``[batch, slots, vocab]``."""


class WholeLogits(Logits):
    """Logits that are held.

    Args:
        values: float32 ``[batch, slots, vocab]``, with gradient; entries beyond the vocabulary may follow.
        vocab_size: Entries of the vocabulary; all by default.
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
        """Give the loss of each slot, and a few logits."""
        values = self.values if temperature == 1 else self.values / temperature
        loss = functional.cross_entropy(values.flatten(0, 1), gold.flatten(), reduction="none").view_as(gold)
        return loss, None if others is None else values.gather(2, torch.cat([gold.unsqueeze(-1), others], 2))

    def mean(self, temperature: float = 1.0) -> Tensor:
        """Give the mean logit of each slot."""
        return self.whole().mean(-1) / temperature

    def expected(self, table: Tensor) -> Tensor:
        """Give the expectation of a table's rows."""
        with torch.autocast(table.device.type, enabled=False):  # a distance near 0 has no digits to spare
            return self.values.softmax(-1)[..., : self.vocab_size] @ table

    def whole(self) -> Tensor:
        """Give all logits."""
        return self.values[..., : self.vocab_size]


class ChunkedLogits(Logits):
    """Logits of which a chunk exists at a time: some rows of them forward, some columns backward.

    The forward pass keeps each row's log-normaliser and what ``read`` makes of it; the few logits that a loss needs are
    products of a row and of rows of the table that are looked up. Backward, the chunks are made once more: by columns,
    so that each gives its rows of the table's gradient whole. Log-normalisers and gradients of logits are float32.

    Args:
        hidden: Rows before the last product, ``[batch, slots, width]``, in the type of the product.
        weight: ``[vocab, width]``, of the same type; entries beyond the vocabulary may follow.
        bias: ``[vocab]``.
        max_mb: Largest size of a chunk in float32, in MiB.
        vocab_size: Entries of the vocabulary; all by default.
        temperatures: What ``losses`` is going to be asked for, so that one reading finds all log-normalisers.
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

        with torch.no_grad():  # as a decorator it would cut a compiled graph
            flat = [values.flatten(0, 1) for values in of_slots]
            found = _by_rows(read_chunk, self.hidden, self.weight, self.bias, self.most, *flat)
        self._log_normalisers.update(zip(missing, found, strict=False))
        return tuple(values.unflatten(0, self.shape) for values in found[len(missing) :])

    def losses(
        self, gold: Tensor, others: Tensor | None = None, temperature: float = 1.0
    ) -> tuple[Tensor, Tensor | None]:
        """Give the loss of each slot, and a few logits."""
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
        """Give the mean logit of each slot: its product with the table's mean row."""
        row, shift = (values[: self.vocab_size].float().mean(0) for values in (self.weight, self.bias))
        with torch.autocast(self.hidden.device.type, enabled=False):
            mean = (self.hidden.float() @ row + shift) / temperature
        of_slots: Tensor = mean.unflatten(0, self.shape)
        return of_slots

    def expected(self, table: Tensor) -> Tensor:
        """Give the expectation of a table's rows."""
        table = functional.pad(table, (0, 0, 0, len(self.weight) - len(table)))
        found = _apply(_Expected, self.hidden, self.weight, self.bias, self._log_normaliser(1.0), table, self.most)
        expected: Tensor = found.unflatten(0, self.shape)
        return expected

    def whole(self) -> Tensor:
        """Give all logits."""
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
    """Apply a model's head to hidden states, in chunks where its logits would be too large.

    On a GPU the product is padded to a multiple of ``MULTIPLE`` entries, which nobody sees.

    Args:
        model: Encoder and head. One whose head is not a linear layer over what precedes it has its logits held whole.
        hidden: Of the slots, ``[batch, slots, hidden]``.
        max_mb: Largest size of the logits that are held, in float32 MiB; 0 for no limit, ``AUTO`` for the device's.
        temperatures: What ``losses`` is going to be asked for.
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
    """Apply a model's head at chosen columns of its hidden states.

    Args:
        model: Encoder and head.
        hidden: ``[batch, length, hidden]``.
        positions: Columns, int64 ``[batch, slots]``.
        max_mb: See ``logits_of``.
        temperatures: See ``logits_of``.
    """
    at_slots = hidden.gather(1, positions.unsqueeze(-1).expand(-1, -1, hidden.shape[-1]))
    return logits_of(model, at_slots, max_mb, temperatures)


def padded(weight: Tensor, bias: Tensor | None, multiple: int) -> tuple[Tensor, Tensor]:
    """Lengthen a product to a multiple of entries; those that are added have no probability and no gradient.

    Example:
        >>> weight, bias = padded(torch.ones(3, 2), None, 4)
        >>> torch.nn.functional.linear(torch.ones(1, 2), weight, bias).softmax(-1)
        tensor([[0.3333, 0.3333, 0.3333, 0.0000]])
    """
    bias = weight.new_zeros(len(weight)) if bias is None else bias
    num = -len(weight) % multiple
    if not num:
        return weight, bias
    return functional.pad(weight, (0, 0, 0, num)), functional.pad(bias, (0, num), value=NEVER)


def _apply(function: Any, *given: Any) -> Any:
    """Apply an autograd function, which has no annotations."""
    return function.apply(*given)


def _by_rows(
    function: Read, hidden: Tensor, weight: Tensor, bias: Tensor, most: int, *of_rows: Tensor
) -> tuple[Tensor, ...]:
    """Apply a function to the logits of a few rows at a time, and put what it returns together."""
    sizes = _even(len(hidden), most // len(weight))
    parts = zip(*(values.split(sizes) for values in (hidden, *of_rows)), strict=True)
    found = [function(functional.linear(part, weight, bias).float(), *others) for part, *others in parts]
    return tuple(torch.cat(values) for values in zip(*found, strict=True))


def _even(num: int, most: int) -> list[int]:
    """Cut a number into few parts, each of ``most`` or less, of two sizes at most.

    Example:
        >>> _even(10, 4), _even(3, 0), _even(0, 4)
        ([4, 4, 2], [1, 1, 1], [0])
    """
    num_parts = max(1, -(-num // max(1, most)))
    size = max(1, -(-num // num_parts))
    return [size] * (num // size) + ([num % size] if num % size or not num else [])


def _looked_up(hidden: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor, most: int) -> Tensor:
    """Logits of some tokens ``[rows, n]``, from rows of the table: float32, rounded as the whole product is."""
    sizes = _even(len(hidden), most // (tokens.shape[1] * hidden.shape[1]))
    found = [
        torch.baddbmm(bias[wanted].unsqueeze(-1), functional.embedding(wanted, weight), rows.unsqueeze(-1)).squeeze(-1)
        for rows, wanted in zip(hidden.split(sizes), tokens.split(sizes), strict=True)
    ]
    return torch.cat(found).float()


def _backward(
    hidden: Tensor, weight: Tensor, bias: Tensor, most: int, gradient: Callable[[Tensor, int, int], Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of a head, with its logits made anew for some entries at a time.

    Args:
        hidden: ``[rows, width]``.
        weight: ``[vocab, width]``.
        bias: ``[vocab]``.
        most: Numbers of a chunk.
        gradient: From logits ``[rows, entries]`` of the entries from one to another, float32, to their gradient.
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
    """Expectation of the rows of a table ``[vocab, width]`` at each row."""

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
