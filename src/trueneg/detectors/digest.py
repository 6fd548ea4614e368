"""Names for what detectors read, so that a run does not go on under another encoder or another WordNet."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import PreTrainedTokenizerFast

from trueneg.tokenizer import fingerprint


def digest_of(*parts: object) -> str:
    """A name for settings and for digests of what is read: 16 hexadecimal digits of a SHA-256 over them as JSON.

    Example:
        >>> digest_of("first", 0.5) == digest_of("first", 0.5) != digest_of("second", 0.5)
        True
    """
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def weights_digest(module: nn.Module, tokenizer: PreTrainedTokenizerFast | None = None) -> str:
    """A name for a frozen encoder's weights, and for its tokenizer where text is read, wherever its files lie.

    About a second for a gigabyte; weights on a GPU are copied.
    """
    digest = hashlib.sha256(fingerprint(tokenizer).encode() if tokenizer is not None else b"")
    for name, tensor in module.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        # As bytes: numpy knows no bfloat16.
        digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def vectors_digest(words: tuple[str, ...], matrix: NDArray[np.float32]) -> str:
    """A name for words and their vectors."""
    digest = hashlib.sha256("\n".join(words).encode())
    digest.update(np.ascontiguousarray(matrix).data)
    return digest.hexdigest()[:16]
