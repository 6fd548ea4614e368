"""Attention by document boundaries: torch's varlen kernel under transformers' ``AttentionInterface``, without a mask.

Packed and padded rows become one sequence of tokens with a list of the positions where pieces begin. A pairwise mask
would be quadratic in the rows' length, is kept for the backward pass in every layer, and rules out flash kernels.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from trueneg.corruption.views.batch import Layout

NAME = "trueneg_documents"
"""Name of this attention in transformers, once ``register`` has been called."""

HALF = (torch.bfloat16, torch.float16)
"""Dtypes that the kernel supports."""


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    cu_seq_lens_q: Tensor | None = None,
    max_length_q: int = 0,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attend within documents, by their boundaries if they are given, else by the mask; never with dropout.

    Args:
        module: The calling attention module.
        query: ``[rows, heads, length, width]``; key and value have the same shape, or fewer heads.
        key: See ``query``.
        value: See ``query``.
        attention_mask: Mask for fused attention, if there are no boundaries.
        dropout: Ignored: the kernel has no dropout, and the mask must compute the same as the kernel.
        scaling: Factor of the scores.
        sliding_window: Number of tokens to each side that are seen, including the token itself.
        cu_seq_lens_q: Boundaries, int32 ``[documents + 1]``: see ``Layout.starts``.
        max_length_q: Length of the longest document, or more.
        others: Further arguments of fused attention.

    Returns:
        ``[rows, length, heads, width]``, and None for the attention weights.
    """
    if cu_seq_lens_q is None:
        others |= {"sliding_window": sliding_window}
        return sdpa_attention_forward(module, query, key, value, attention_mask, 0.0, scaling, **others)
    rows, heads, length, width = query.shape
    device = query.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else query.dtype
    # Rotary embeddings in float32 make queries and keys float32 under autocast, but not values.
    flat = [part.transpose(1, 2).flatten(0, 1).to(dtype) for part in (query, key, value)]
    flat = [part.repeat_interleave(heads // part.shape[1], 1) if part.shape[1] < heads else part for part in flat]
    reach = -1 if sliding_window is None else int(sliding_window) - 1
    found = _run(
        *flat,
        cu_seq_lens_q,
        cu_seq_lens_q,
        max_length_q,
        max_length_q,
        scale=scaling,
        window_size=(reach, reach),
    )
    return found.reshape(rows, length, heads, width), None


def kernel() -> Callable[..., Any]:
    """Torch's attention over sequences of varying length.

    Raises:
        ImportError: if this torch has none, or one without scale and windows.
    """
    from torch.nn.attention.varlen import varlen_attn

    if not {"scale", "window_size"} <= inspect.signature(varlen_attn).parameters.keys():
        raise ImportError("torch.nn.attention.varlen.varlen_attn takes no scale and no windows")
    return varlen_attn


def _run(*given: Any, **named: Any) -> Tensor:
    raise AssertionError("boundaries are given to models whose attention was registered, and the kernel found")


def register() -> None:
    """Register the attention in transformers, and import the kernel, before a step is compiled with it."""
    global _run
    with suppress(ImportError):
        _run = kernel()
    AttentionInterface.register(NAME, attend)
    # A token mask, passed to such a model without boundaries, is converted to the form that fused attention takes.
    AttentionMaskInterface.register(NAME, sdpa_mask)


def arguments(model: PreTrainedModel, rows: Layout) -> dict[str, Any] | None:
    """Arguments with the document boundaries; None unless the model uses this attention and the kernel can run."""
    if model.config._attn_implementation != NAME or rows.starts is None:
        return None
    device = rows.segments.device
    is_mixed = torch.is_autocast_enabled(device.type)
    dtype = torch.get_autocast_dtype(device.type) if is_mixed else model.dtype
    if not can_run(device, dtype):
        return None
    longest = rows.segments.shape[1]
    boundaries = {f"cu_seq_lens_{side}": rows.starts for side in "qk"}
    return {**boundaries, **{f"max_length_{side}": longest for side in "qk"}}


@contextmanager
def without_faulty_attention(device: torch.device, length: int | None) -> Iterator[None]:
    """Disable cuDNN attention where its backward pass may give NaN: masks at lengths of 128 n + 64 (pytorch#196678).

    Args:
        device: The training device.
        length: Number of tokens in each row; None if rows differ.
    """
    was_on = torch.backends.cuda.cudnn_sdp_enabled()
    is_sound = device.type != "cuda" or (length is not None and length % 128 != 64)
    torch.backends.cuda.enable_cudnn_sdp(was_on and is_sound)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(was_on)


def can_run(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the kernel runs on a device, in a dtype."""
    return device.type == "cuda" and dtype in HALF
