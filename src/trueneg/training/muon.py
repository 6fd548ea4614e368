"""Muon for the hidden matrices of an encoder, AdamW for everything else."""

from __future__ import annotations

import re

import torch
from torch import nn
from torch.optim import AdamW, Muon, Optimizer

from trueneg.errors import ConfigError

IN_A_LAYER = re.compile(r"layers?\.\d+\.")


class MuonWithAdamW(Optimizer):
    """Torch's Muon and AdamW as one optimizer, with the parameter groups of both and one state.

    Args:
        muon: Muon over the hidden matrices.
        adamw: AdamW over all other parameters.
    """

    def __init__(self, muon: Muon, adamw: AdamW) -> None:
        self.parts = (muon, adamw)
        # The parts' own groups, not copies, so that a learning rate that is set here reaches them.
        super().__init__([*muon.param_groups, *adamw.param_groups], {})
        for part in self.parts:
            part.state = self.state

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for part in self.parts:
            part.step()  # type: ignore[no-untyped-call]


def hidden_matrices(module: nn.Module) -> frozenset[str]:
    """Names of the matrices within numbered layers: no embeddings, no heads, no norms, no biases.

    A matrix that fuses several (ModernBERT's ``Wqkv`` and ``Wi``) counts as a single one.

    Raises:
        ConfigError: if there are none, as in an architecture that names its layers differently.
    """
    tables = {id(part.weight) for part in module.modules() if isinstance(part, nn.Embedding)}
    found = frozenset(
        name
        for name, parameter in module.named_parameters()
        if parameter.ndim == 2 and IN_A_LAYER.search(name) and id(parameter) not in tables
    )
    if not found:
        raise ConfigError("optimizer.name=muon: this model has no matrices in numbered layers: choose adamw")
    return found
