"""Names for what detectors read, so that a run does not go on under another encoder or another WordNet."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from trueneg.tokenizer import fingerprint


class Hash(Protocol):
    """What ``hashlib`` makes."""

    def update(self, data: Any, /) -> None:
        """Take in bytes."""


def add_tensors(digest: Hash, tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Take in tensors with their names, types and shapes; those on a GPU are copied."""
    for name, tensor in tensors:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        # As bytes: numpy knows no bfloat16.
        digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)


def weights_digest(module: nn.Module, tokenizer: PreTrainedTokenizerFast | None = None) -> str:
    """A name for a frozen encoder's weights, and for its tokenizer where text is read, wherever its files lie.

    About a second for a gigabyte.
    """
    digest = hashlib.sha256(fingerprint(tokenizer).encode() if tokenizer is not None else b"")
    add_tensors(digest, module.state_dict().items())
    return digest.hexdigest()[:16]


def vectors_digest(words: tuple[str, ...], matrix: NDArray[np.float32]) -> str:
    """A name for words and their vectors."""
    digest = hashlib.sha256("\n".join(words).encode())
    digest.update(np.ascontiguousarray(matrix).data)
    return digest.hexdigest()[:16]
