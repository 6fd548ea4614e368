"""Many words of a text read at once: the vectors of all of them for one pass of the encoder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import PreTrainedModel

from trueneg.detectors.encoder import TextEncoder, by_budget, padded

Places = Sequence[tuple[int, int]]
"""Characters from which to which words go."""


class WholeTextReader:
    """Reads texts whole and gives the vectors of their words at the first of an encoder's layers.

    They are those that ``TextEncoder.vectors`` gives. Layers above that one are not computed: they are taken from the
    encoder, which is of no other use afterwards.

    Args:
        encoder: Reads one layer.
    """

    def __init__(self, encoder: TextEncoder) -> None:
        if len(encoder.layers) != 1:
            raise ValueError(f"one layer is read, not {len(encoder.layers)}")
        self.encoder = encoder
        drop_layers_above(encoder.model, encoder.layers[0])

    @property
    def hidden_size(self) -> int:
        """Numbers of a vector."""
        return int(self.encoder.model.config.hidden_size)

    @torch.no_grad()
    def __call__(self, texts: Sequence[str], words: Sequence[Places]) -> NDArray[np.float32]:
        """Vectors of the words of each text, one text after the other: float32 ``[words, hidden]``.

        A word that the encoder's tokenizer does not see has zeros. In a text longer than the encoder's window, each
        word is read by itself.
        """
        first = np.cumsum([0, *(len(places) for places in words)])
        found = np.zeros((int(first[-1]), self.hidden_size), np.float32)
        if not len(found):
            return found
        encoded = self.encoder.tokenizer(list(texts), return_offsets_mapping=True, truncation=False, verbose=False)
        ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
        lengths = np.array([len(row) for row in ids])
        for number in np.flatnonzero(lengths > self.encoder.reader.window).tolist():
            spans = [(texts[number], start, end) for start, end in words[number]]
            found[first[number] : first[number + 1]] = self.encoder.vectors(spans)[:, 0]
        order = np.argsort(lengths, kind="stable")
        order = order[lengths[order] <= self.encoder.reader.window]
        for batch in by_budget(order, lengths):
            chosen = batch.tolist()
            pieces = [_pieces(offsets[number], words[number]) for number in chosen]
            places = np.concatenate([np.arange(first[number], first[number + 1]) for number in chosen])
            if len(places):
                found[places] = self._pooled(
                    [ids[number] for number in chosen], pieces, [len(words[n]) for n in chosen]
                )
        return found

    def _pooled(
        self, ids: Sequence[Sequence[int]], pieces: Sequence[NDArray[np.int64]], num_words: Sequence[int]
    ) -> NDArray[np.float32]:
        """Vectors of a batch's words; ``pieces`` of a text are (column, word, is its first), int64 ``[pieces, 3]``."""
        encoder, device = self.encoder, self.encoder.model.device
        input_ids, mask = padded(ids, encoder.tokenizer)
        with torch.autocast(device.type, torch.bfloat16):
            output = encoder.model(
                input_ids=input_ids.to(device), attention_mask=mask.to(device), output_hidden_states=True
            )
        states = output.hidden_states[encoder.layers[0]].float()
        shift = np.cumsum([0, *num_words[:-1]])
        table = np.concatenate(
            [
                np.c_[np.full(len(part), line), part[:, 0], part[:, 1] + shift[line], part[:, 2]]
                for line, part in enumerate(pieces)
            ]
        )
        line, column, word, is_first = torch.from_numpy(table).to(device).unbind(1)
        line_of = torch.repeat_interleave(torch.tensor(num_words)).to(device)
        at_pieces, total = states[line, column], int(sum(num_words))
        sums = states.new_zeros(total, states.shape[-1]).index_add_(0, word, at_pieces)
        num_pieces = torch.bincount(word, minlength=total).unsqueeze(-1)
        if encoder.pooling == "first":
            own = torch.zeros_like(sums).index_add_(0, word, at_pieces * is_first.unsqueeze(-1))
        else:
            own = sums / num_pieces.clamp(min=1)
        if encoder.center:
            weights = mask.to(device).unsqueeze(-1)
            num_rest = (weights.sum(1)[line_of] - num_pieces).clamp(min=1)
            own = own - ((states * weights).sum(1)[line_of] - sums) / num_rest
        return np.asarray((own * (num_pieces > 0)).cpu().numpy())


@torch.no_grad()
def drop_layers_above(model: PreTrainedModel, last: int) -> bool:
    """Make a model compute no more layers than ``hidden_states[last]`` needs, where it keeps them in one list.

    A model that normalises after its last layer shows a layer's own states only if one more follows; which it is is
    found out by looking.

    Returns:
        Whether ``hidden_states[last]`` is now the model's last hidden state.
    """
    depth = int(model.config.num_hidden_layers)
    stacks = [module for module in model.modules() if isinstance(module, nn.ModuleList) and len(module) == depth]
    if len(stacks) != 1 or last >= depth:
        return last == depth
    ids = torch.arange(8, device=model.device).unsqueeze(0) + min(5, model.config.vocab_size - 8)
    expected = model(input_ids=ids, output_hidden_states=True).hidden_states[last]
    stack, layers = stacks[0], list(stacks[0])
    for num_kept in (max(last, 1), last + 1):
        del stack[num_kept:]
        found = model(input_ids=ids, output_hidden_states=True).hidden_states
        if len(found) > last and torch.allclose(found[last], expected, atol=1e-5):
            return num_kept == last
        stack.extend(layers[num_kept:])
    return False


def _pieces(offsets: Sequence[tuple[int, int]], words: Places) -> NDArray[np.int64]:
    """Tokens that share a character with a word: (column, word, whether it is the word's first), int64 ``[n, 3]``."""
    bounds = np.array(offsets, np.int64).reshape(-1, 2)
    spans = np.array(words, np.int64).reshape(-1, 2)
    is_text = bounds[:, 1] > bounds[:, 0]
    is_shared = is_text & (bounds[:, 0] < spans[:, 1:]) & (bounds[:, 1] > spans[:, :1])
    word, column = np.nonzero(is_shared)
    is_first = np.diff(word, prepend=-1) > 0
    return np.stack([column, word, is_first], 1).astype(np.int64)
