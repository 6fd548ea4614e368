"""Floating-point operations of a training step, counted from a model's weights."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from trueneg.models.backbone import Encoder, MaskedLanguageModel


def training_flops(encoders: Sequence[Encoder], length: int, masked: float, readings: int = 1) -> float:
    """Count the FLOPs per position of a forward and a backward pass, in matrix products.

    Per position, a weight of a linear layer costs 2 forward and 4 backward; attention, per layer, 4 times width times
    length forward and 8 backward; a head that predicts tokens costs as much as other layers, at masked positions only.
    Embeddings, norms, corrections and the recomputation of gradient checkpointing are not counted; attention that stops
    at the borders of packed documents, or of a window, counts as full attention.

    Args:
        encoders: The encoders that read each row, with their heads.
        length: Positions in a row.
        masked: Share of positions that are masked.
        readings: How often each encoder reads a row.

    Example::

        training_flops(kind.encoders(model), 128, masked=0.15) * 128 * 32  # a step of 32 rows of 128
    """
    return 3 * sum(readings * _forward(one, length) + _head(one, masked) for one in encoders)


def _forward(encoder: Encoder, length: int) -> float:
    config = encoder.model.config
    layers: int = config.num_hidden_layers
    repeats: float = layers / getattr(config, "num_hidden_groups", layers)  # ALBERT's layers share their weights
    width: int = config.hidden_size
    return 2 * repeats * _linear_weights(encoder.model.base_model) + 4 * layers * width * length


def _head(encoder: Encoder, masked: float) -> float:
    weights = _linear_weights(encoder.model) - _linear_weights(encoder.model.base_model)
    return 2 * weights * (masked if isinstance(encoder, MaskedLanguageModel) else 1.0)


def _linear_weights(module: nn.Module) -> int:
    return sum(layer.weight.numel() for layer in module.modules() if isinstance(layer, nn.Linear))
