"""Any Hugging Face encoder as a reader of words in sentences: one vector for a word where it stands."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoModel, PreTrainedModel, PreTrainedTokenizerFast

from trueneg.errors import ModelError
from trueneg.models.loading import resolve_checkpoint
from trueneg.models.quiet import quiet_transformers
from trueneg.tokenizer import load_tokenizer

Span = tuple[str, int, int]
"""A text, and the characters from which to which a word goes."""

TOKENS_A_BATCH = 8192


@dataclass(frozen=True)
class Read:
    """Texts as an encoder reads them, in one batch.

    Attributes:
        input_ids: int64 [n, length].
        attention_mask: int64 [n, length].
        is_word: bool [n, length]: pieces of the word that is looked at.
    """

    input_ids: Tensor
    attention_mask: Tensor
    is_word: Tensor


class SpanReader:
    """Cuts texts to a window around a word, tokenizes them, and finds the word's pieces by its characters.

    Any fast tokenizer will do: characters are what tokenizers have in common.

    Args:
        tokenizer: The encoder's.
        window: Most tokens of a text that are read; a longer one is cut around its word.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, window: int) -> None:
        self.tokenizer = tokenizer
        self.window = window

    def batches(self, spans: Sequence[Span]) -> Iterator[tuple[NDArray[np.int64], Read]]:
        """Batches of similar length, and which of the spans each holds."""
        if not spans:
            return
        texts, starts, ends = zip(*(self._cut(span) for span in spans), strict=True)
        encoded = self.tokenizer(list(texts), return_offsets_mapping=True, truncation=False)
        ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
        lengths = np.array([len(row) for row in ids])
        order = np.argsort(lengths, kind="stable")
        for chosen in _by_budget(order, lengths):
            shape = len(chosen), int(lengths[chosen].max())
            read = Read(*(torch.zeros(shape, dtype=kind) for kind in (torch.int64, torch.int64, torch.bool)))
            read.input_ids.fill_(_pad_id(self.tokenizer))
            for line, number in enumerate(chosen.tolist()):
                length = len(ids[number])
                read.input_ids[line, :length] = torch.tensor(ids[number])
                read.attention_mask[line, :length] = 1
                for column, (begin, end) in enumerate(offsets[number]):
                    read.is_word[line, column] = end > begin and begin < ends[number] and end > starts[number]
            yield chosen, read

    def _cut(self, span: Span) -> Span:
        """The span in as much text around it as the window holds, the same on both sides where there is enough."""
        text, start, end = span
        # A token has a character at least, so a short text needs no count.
        if len(text) <= self.window - 2:
            return span
        offsets = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        room = self.window - 2
        if len(offsets) <= room:
            return span
        first = bisect.bisect_right([end for _, end in offsets], start)
        last = max(bisect.bisect_left([begin for begin, _ in offsets], end) - 1, first)
        spare = max(0, room - (last - first + 1))
        low = max(0, min(first - spare // 2, len(offsets) - room))
        high = min(len(offsets), max(low + room, last + 1)) - 1
        begin, finish = min(offsets[low][0], start), max(offsets[high][1], end)
        return text[begin:finish], start - begin, end - begin


class TextEncoder:
    """An encoder whose hidden states are read at words.

    Args:
        source: A checkpoint: a run, a Hugging Face folder or a hub name, with a fast tokenizer.
        layers: Whose states to read: 0 is the embeddings, 1 the first layer.
        pooling: A word of several pieces is their mean, or its first.
        window: Most tokens of a text that are read.
        device: Where it runs.

    Raises:
        ModelError: if the checkpoint is no encoder, or has no such layer.
    """

    def __init__(
        self,
        source: str,
        layers: Sequence[int] = (),
        pooling: Literal["mean", "first"] = "mean",
        window: int = 128,
        device: str = "cpu",
    ) -> None:
        path = resolve_checkpoint(source)
        self.name = Path(source).name or source
        with quiet_transformers():
            try:
                self.model: PreTrainedModel = AutoModel.from_pretrained(path).to(device).eval()
            except (OSError, ValueError, KeyError) as error:
                raise ModelError(f"'{source}' is no encoder: {str(error).strip().splitlines()[0]}") from error
        self.model.requires_grad_(False)
        depth = int(self.model.config.num_hidden_layers)
        # Two thirds of the way up words are told apart best; see docs/detectors.md.
        self.layers = tuple(layers) or (round(depth * 2 / 3),)
        if outside := [layer for layer in self.layers if not 0 <= layer <= depth]:
            raise ModelError(f"'{source}' has layers 0 (embeddings) to {depth}, not {outside[0]}")
        self.pooling = pooling
        tokenizer = load_tokenizer(path)
        longest = getattr(self.model.config, "max_position_embeddings", None) or window
        self.reader = SpanReader(tokenizer, min(window, longest))
        self.num_unseen = 0
        """Words no piece of which the encoder's tokenizer sees, such as a lone control character."""

    @property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The encoder's own."""
        return self.reader.tokenizer

    def to(self, device: torch.device) -> None:
        """Move the encoder."""
        self.model.to(device)  # type: ignore[arg-type]

    @torch.no_grad()
    def vectors(self, spans: Sequence[Span]) -> NDArray[np.float32]:
        """One vector a word and layer, float32 ``[n, layers, hidden]``; zeros for a word that is not seen."""
        device = self.model.device
        found = np.zeros((len(spans), len(self.layers), self.model.config.hidden_size), np.float32)
        for chosen, read in self.reader.batches(spans):
            with torch.autocast(device.type, torch.bfloat16):
                states = self._states(read.input_ids.to(device), read.attention_mask.to(device))
            weights = read.is_word.to(device)
            if self.pooling == "first":
                weights &= weights.cumsum(1) == 1
            share = weights / weights.sum(1, keepdim=True).clamp(min=1)
            pooled = torch.stack([torch.einsum("nl,nlh->nh", share, states[layer].float()) for layer in self.layers], 1)
            found[chosen] = pooled.cpu().numpy()
            self.num_unseen += int((~read.is_word.any(1)).sum())
        return found

    def _states(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        output = self.model(input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=True)
        return output.hidden_states


def _by_budget(order: NDArray[np.int64], lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Cut an order of ascending lengths into batches of at most ``TOKENS_A_BATCH`` tokens, padding included."""
    start = 0
    while start < len(order):
        sizes = lengths[order[start:]] * np.arange(1, len(order) - start + 1)
        stop = start + max(1, int(np.searchsorted(sizes, TOKENS_A_BATCH, side="right")))
        yield order[start:stop]
        start = stop


def _pad_id(tokenizer: PreTrainedTokenizerFast) -> int:
    return tokenizer.pad_token_id if isinstance(tokenizer.pad_token_id, int) else 0
