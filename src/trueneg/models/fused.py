"""The same functions from the same weights, with fewer and cheaper kernel launches, for training on a GPU.

A module keeps its parameters and its name, and only gets another ``forward``; so checkpoints and exports are those of
the stock model.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from trueneg.config.options import ModelConfig
from trueneg.errors import ModelError, TruenegWarning
from trueneg.models.modes import eval_mode

FAMILY = ("bert", "camembert", "electra", "roberta", "xlm-roberta")
"""Architectures with BERT's self-attention, embeddings of token types, and norms after each sum, by ``model_type``."""


class AutocastNorm(nn.LayerNorm):
    """A layer norm whose input and output have autocast's dtype; without autocast, torch's own.

    Under autocast, CUDA computes norms in float32 and returns float32, so in BERT the residual stream is float32, which
    doubles the memory traffic that limits these operations. Mean and variance are float32 in both; rounded to bf16 are
    the input, which is a sum with a bf16 product, and the output.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Normalise the last dimension."""
        kind = input.device.type
        if not torch.is_autocast_enabled(kind):
            return super().forward(input)
        dtype = torch.get_autocast_dtype(kind)
        weight, bias = self.weight.to(dtype), None if self.bias is None else self.bias.to(dtype)
        with torch.autocast(kind, enabled=False):
            return functional.layer_norm(input.to(dtype), self.normalized_shape, weight, bias, self.eps)


class TypeZero(nn.Embedding):
    """Token-type embeddings where every type is 0: the first row, without a lookup.

    A lookup's gradient adds every token to one row by atomic operations; here it is a plain sum.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the first row for each token: ``[*]`` to ``[*, width]``; the values of ``input`` are ignored."""
        return self.weight[0].expand(*input.shape, -1)


class _OneProduct(nn.Module):
    """BERT's self-attention with one matrix product for queries, keys and values."""

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, past_key_values: Any = None, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Attend as the class of transformers that this one is derived from does."""
        if past_key_values is not None:
            raise ModelError("model.fused computes encoders only: a decoder with a cache wants model.fused=false")
        module: Any = self
        parts = (module.query, module.key, module.value)
        weight, bias = (torch.cat([getattr(part, name) for part in parts]) for name in ("weight", "bias"))
        product = functional.linear(hidden_states, weight, bias).unflatten(-1, (3, -1, module.attention_head_size))
        query, key, value = (part.transpose(1, 2) for part in product.unbind(-3))
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(module.config._attn_implementation, module.eager)
        dropout = module.dropout.p if self.training else 0.0
        mixed, weights = attend(
            self, query, key, value, attention_mask, dropout=dropout, scaling=module.scaling, **kwargs
        )
        return mixed.reshape(*hidden_states.shape[:-1], -1).contiguous(), weights


def fuse(model: PreTrainedModel, config: ModelConfig, is_gpu: bool) -> None:
    """Apply the options ``model.fused`` and ``model.norms`` to a model in pre-training.

    Raises:
        ModelError: if one of them is requested explicitly and the architecture has no such parts.
    """
    for option, value, named, change in (
        ("model.fused=true", config.fused, True, fuse_products),
        ("model.norms=bf16", config.norms, "bf16", cast_norms),
    ):
        is_named = value == named
        if is_named and model.config.model_type not in FAMILY:
            raise ModelError(
                f"{option} is for {', '.join(FAMILY)}: a '{model.config.model_type}' has no such parts: leave it out"
            )
        if is_named or (value == "auto" and is_gpu):
            change(model)


def fuse_products(model: PreTrainedModel) -> int:
    """Make self-attention use one product for queries, keys and values, and skip the lookup of token types.

    Every token type has to be 0, as in pre-training. That hidden states are the same is checked on dummy input: where
    they are not, as with a later transformers that computes differently, the model stays as it was, with a warning.

    Returns:
        Number of modules changed: 0 for architectures outside ``FAMILY``, and for a model that is changed already.
    """
    if model.config.model_type not in FAMILY or model.config.is_decoder:
        return 0
    changed: list[tuple[nn.Module, type[nn.Module]]] = []
    before = _made_up_states(model)
    try:
        for name, part in model.base_model.named_modules():
            kind = type(part)
            if name.endswith(".attention.self") and not isinstance(part, _OneProduct):
                part.__class__ = _one_product(kind)  # type: ignore[arg-type]
            elif name.endswith("token_type_embeddings") and kind is nn.Embedding:
                part.__class__ = TypeZero
            else:
                continue
            changed.append((part, kind))
        is_same = torch.allclose(_made_up_states(model), before, atol=1e-4)
    except (AttributeError, RuntimeError, TypeError, ValueError):
        is_same = False
    if not is_same:
        for part, kind in changed:
            part.__class__ = kind
        warnings.warn(
            f"this transformers computes a '{model.config.model_type}' in another way than model.fused: it is trained "
            f"as it is, slower",
            TruenegWarning,
            stacklevel=2,
        )
        return 0
    return len(changed)


def cast_norms(model: PreTrainedModel) -> int:
    """Make layer norms use autocast's dtype: see ``AutocastNorm``.

    Not for pre-norm architectures such as ModernBERT, whose residual stream is not normalised: it stays float32.

    Returns:
        Number of norms changed: 0 for architectures outside ``FAMILY``.
    """
    if model.config.model_type not in FAMILY:
        return 0
    norms = [part for part in model.modules() if type(part) is nn.LayerNorm]
    for norm in norms:
        norm.__class__ = AutocastNorm
    return len(norms)


@cache
def _one_product(kind: type[nn.Module]) -> type[nn.Module]:
    """Derive the class with one product from an architecture's own self-attention class."""
    eager = import_module(kind.__module__).eager_attention_forward
    return type(f"OneProduct{kind.__name__}", (_OneProduct, kind), {"eager": staticmethod(eager)})


@torch.no_grad()
def _made_up_states(model: PreTrainedModel) -> Tensor:
    table: Any = model.get_input_embeddings()
    ids = torch.arange(len(table.weight) - 1, max(len(table.weight) - 7, 0), -1, device=table.weight.device)
    with eval_mode(model):
        states: Tensor = model.base_model(input_ids=ids.unsqueeze(0), return_dict=True).last_hidden_state
    return states.float()
