"""Gradient-disentangled embedding sharing: the discriminator's embeddings do not move the generator's.

He et al. 2023, DeBERTaV3, section 3.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel


class DisentangledEmbedding(nn.Embedding):
    """A table E_D = sg(E_G) + E_delta: another module's table without gradient, plus its own (Eq. 2).

    ``weight`` is E_delta; in checkpoints it has the name that the whole table has elsewhere. ``disentangle`` converts
    stock embeddings to this class.
    """

    base: tuple[nn.Embedding]
    """The other module; in a tuple it is not a submodule, so its parameters are listed once."""

    @property
    def table(self) -> Tensor:
        """E_D, ``[entries, width]``; only E_delta gets a gradient."""
        return self.base[0].weight.detach() + self.weight

    def forward(self, input: Tensor) -> Tensor:
        """Look up rows of E_D: ``[*]`` to ``[*, width]``."""
        own = functional.embedding(input, self.weight, self.padding_idx)
        return own + functional.embedding(input, self.base[0].weight.detach())


@torch.no_grad()
def disentangle(own: nn.Module, base: nn.Module, *, is_new: bool) -> None:
    """Replace every table in ``own`` by the table of the same name in ``base``, detached, plus a difference.

    What ``own`` computes does not change: the difference is set to its table minus the base's. With ``is_new`` the
    tables are first copied to the base, and every difference is zero.

    Args:
        own: The discriminator's embeddings.
        base: The generator's embeddings, of the same shapes.
        is_new: Whether the base's tables are untrained.
    """
    tables = {name: part for name, part in base.named_modules() if isinstance(part, nn.Embedding)}
    for name, part in own.named_modules():
        if isinstance(part, nn.Embedding):
            if is_new:
                tables[name].weight.copy_(part.weight)
            part.weight.sub_(tables[name].weight)
            part.__class__ = DisentangledEmbedding
            part.base = (tables[name],)  # type: ignore[assignment]


def weights_behind(model: PreTrainedModel) -> list[nn.Parameter]:
    """Parameters that an encoder's output depends on: its own, and the base tables of disentangled embeddings."""
    base: nn.Module = model.base_model
    parts = [part for part in base.modules() if isinstance(part, DisentangledEmbedding)]
    return [*base.parameters(), *(cast(nn.Parameter, part.base[0].weight) for part in parts)]


@contextmanager
def whole_tables(model: nn.Module) -> Iterator[None]:
    """Give a model stock embeddings with the whole tables within the context, as transformers saves and loads them."""
    parts = [(part, part.weight) for part in model.modules() if isinstance(part, DisentangledEmbedding)]
    try:
        for part, weight in parts:
            whole = part.table.detach()
            part.__class__ = nn.Embedding  # type: ignore[assignment]
            part.weight = nn.Parameter(whole, weight.requires_grad)
        yield
    finally:
        for part, weight in parts:
            part.__class__ = DisentangledEmbedding
            part.weight = weight
