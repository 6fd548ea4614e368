"""Encoding of whole texts: hidden states at every layer, and pooled text vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trueneg.errors import ConfigError
from trueneg.hardware import to_float64
from trueneg.models.backbone import max_length
from trueneg.models.loading import resolve_checkpoint
from trueneg.models.reading import by_budget, hidden_states, load_encoder, padded, weighted_sum
from trueneg.terminal.progress import ProgressCallback, counted, no_progress
from trueneg.tokenizer import load_tokenizer, special_ids

Floats = NDArray[np.float64]
Pooling = Literal["cls", "mean"]
POOLINGS: tuple[Pooling, ...] = ("cls", "mean")
"""The vector of the first token, or the mean over all tokens, special ones included."""


@dataclass(frozen=True)
class States:
    """Hidden states of a batch of texts at every layer, layer 0 being the embeddings.

    Attributes:
        hidden: float32 ``[layers + 1, n, length, hidden]``.
        is_token: bool ``[n, length]``: False for padding.
        is_special: bool ``[n, length]``: True for the start and end tokens of a text ([CLS], [SEP]).
    """

    hidden: Tensor
    is_token: Tensor
    is_special: Tensor

    def pooled(self, pooling: Pooling) -> Tensor:
        """Pool the states of each text: float64 ``[layers + 1, n, hidden]``."""
        if pooling == "cls":
            return to_float64(self.hidden[:, :, 0])
        weights = to_float64(self.is_token)
        return weighted_sum(to_float64(self.hidden), weights) / weights.sum(1)[:, None]


class TextReader:
    """Reads whole texts with an encoder, at every layer and in float32.

    Args:
        source: A checkpoint with a fast tokenizer: a run, a Hugging Face folder or a hub name.
        window: Maximum number of tokens; longer texts are truncated, and counted in ``num_truncated``.
        device: Device to run on.

    Raises:
        ConfigError: for a window that leaves no room for text.
        ModelError: if the checkpoint is not an encoder.
    """

    def __init__(self, source: str, window: int = 128, device: str = "cpu") -> None:
        self.model = load_encoder(source)
        self.model.to(torch.device(device))  # type: ignore[arg-type]
        self.tokenizer = load_tokenizer(resolve_checkpoint(source))
        self.window = min(window, max_length(self.model))
        if self.window <= self.tokenizer.num_special_tokens_to_add():
            raise ConfigError(f"a window of {window} tokens has no room for text: give a wider one")
        self.num_layers = int(self.model.config.num_hidden_layers)
        self.num_truncated = 0

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize texts, special tokens included."""
        if not texts:
            return []
        encoded = self.tokenizer(list(texts), truncation=True, max_length=self.window, verbose=False)
        self.num_truncated += sum(bool(one.overflowing) for one in encoded.encodings)
        return list(encoded["input_ids"])

    @torch.no_grad()
    def states(self, ids: Sequence[Sequence[int]]) -> States:
        """Encode one batch of tokenized texts."""
        input_ids, mask = (tensor.to(self.model.device) for tensor in padded(ids, self.tokenizer))
        layers = hidden_states(self.model, input_ids, mask)
        ids_of = special_ids(self.tokenizer)
        is_special = (input_ids == ids_of["start"]) | (input_ids == ids_of["end"])
        return States(torch.stack([layer.float() for layer in layers]), mask > 0, is_special & (mask > 0))

    def batches(self, ids: Sequence[Sequence[int]], texts_each: int = 1) -> Iterator[NDArray[np.int64]]:
        """Group texts of similar length into batches that fit memory; yields their numbers.

        Args:
            ids: Token ids of the texts.
            texts_each: How many texts of at most its length each of them represents.
        """
        lengths = np.array([len(row) for row in ids], dtype=np.int64)
        yield from by_budget(np.argsort(lengths, kind="stable"), lengths * texts_each, self.model.device)

    def vectors(
        self,
        texts: Sequence[str],
        progress: ProgressCallback = no_progress,
        *,
        poolings: Sequence[Pooling] = POOLINGS,
        layers: slice = slice(None),
    ) -> dict[Pooling, Floats]:
        """Encode texts: ``[n, layers + 1, hidden]`` for each pooling, or fewer layers if ``layers`` selects some."""
        ids = self.tokenize(texts)
        shape = len(texts), len(range(self.num_layers + 1)[layers]), int(self.model.config.hidden_size)
        found: dict[Pooling, Floats] = {pooling: np.zeros(shape) for pooling in poolings}
        batches = list(self.batches(ids))
        for chosen in counted(batches, map(len, batches), len(ids), progress):
            states = self.states([ids[number] for number in chosen])
            states = replace(states, hidden=states.hidden[layers])
            for pooling in poolings:
                found[pooling][chosen] = states.pooled(pooling).transpose(0, 1).cpu().numpy()
        return found
