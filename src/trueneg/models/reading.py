"""Word vectors from encoders: tokenize, batch by tokens, take hidden states of layers, pool words.

Works with any Hugging Face encoder that has a fast tokenizer, for one word of a text or all of them.
"""

from __future__ import annotations

import bisect
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import MODEL_MAPPING, AutoModel, PreTrainedModel, PreTrainedTokenizerFast

from trueneg.arithmetic import reading_autocast, reading_tokens
from trueneg.errors import ConfigError, ModelError
from trueneg.models.backbone import max_length
from trueneg.models.export import save_hugging_face
from trueneg.models.loading import config_of, from_pretrained, resolve_checkpoint, without_pooler
from trueneg.tokenizer import fingerprint, load_tokenizer

Span = tuple[str, int, int]
"""A text, and the start and end of a word in it, in characters."""

Places = Sequence[tuple[int, int]]
"""Starts and ends of words, in characters."""

WINDOW = 128
"""Default maximum number of tokens of a text."""

_TOKENS_AT_ONCE = 8192


@dataclass(frozen=True)
class EncodedSpans:
    """A batch of tokenized texts.

    Attributes:
        input_ids: int64 [n, length].
        attention_mask: int64 [n, length].
        is_word: bool [n, length]: tokens of the word of interest.
    """

    input_ids: Tensor
    attention_mask: Tensor
    is_word: Tensor


class SpanReader:
    """Cuts texts to a window around a word, tokenizes them, and finds the word's tokens by its character offsets.

    Works with any fast tokenizer, since words are given in characters.

    Args:
        tokenizer: The encoder's tokenizer.
        window: Maximum number of tokens, special ones included; longer texts are cut around the word.

    Raises:
        ConfigError: if the window has no room besides the special tokens.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, window: int) -> None:
        self.tokenizer = tokenizer
        self.window = window
        self.counts = Counter[str]()
        """Number of texts (``texts_cut``) and words (``words_cut``) that were cut to the window, and of words for which
        the tokenizer has no token, such as a lone control character (``words_without_tokens``); over all readings."""
        self.room = window - tokenizer.num_special_tokens_to_add()
        """Number of tokens of a text that fit into the window."""
        if self.room < 1:
            raise ConfigError(f"a window of {window} tokens has no room for a word: give a wider one")

    def batches(self, spans: Sequence[Span], device: torch.device) -> Iterator[tuple[NDArray[np.int64], EncodedSpans]]:
        """Yield batches of spans of similar length for a device, each after the numbers of its spans."""
        if not spans:
            return
        spans = list(spans)
        ids, offsets = self._encode([text for text, _, _ in spans])
        for number in [n for n, row in enumerate(ids) if len(row) > self.window]:
            spans[number] = self.cut(spans[number])
            (row,), (places,) = self._encode([spans[number][0]])
            # One character can have more tokens than fit into a narrow window.
            ids[number], offsets[number] = row[: self.window], places[: self.window]
        lengths = np.array([len(row) for row in ids])
        order = np.argsort(lengths, kind="stable")
        for chosen in by_budget(order, lengths, device):
            input_ids, attention_mask = padded([ids[number] for number in chosen], self.tokenizer)
            is_word = torch.zeros_like(input_ids, dtype=torch.bool)
            for line, number in enumerate(chosen.tolist()):
                _, start, end = spans[number]
                overlaps = [a < b and a < end and b > start for a, b in offsets[number]]
                is_word[line, : len(overlaps)] = torch.tensor(overlaps)
                self.counts["words_without_tokens"] += not any(overlaps)
            yield chosen, EncodedSpans(input_ids, attention_mask, is_word)

    def cut(self, span: Span) -> Span:
        """Cut a span's text to the window, with equal context on both sides where there is enough.

        A word longer than the window is cut at its end.
        """
        whole = span
        # A token at the edge, cut from its word, may be tokenized into several: then retry with less room.
        for room in range(self.room, 0, -1):
            offsets = self._encode([span[0]], special=False)[1][0]
            if len(offsets) <= self.room:
                break
            span = _cut_to(room, span, offsets)
        self.counts["texts_cut"] += len(span[0]) < len(whole[0])
        self.counts["words_cut"] += span[2] - span[1] < whole[2] - whole[1]
        return span

    def _encode(self, texts: list[str], special: bool = True) -> tuple[list[list[int]], list[list[tuple[int, int]]]]:
        """Token ids of texts, and each token's start and end in characters."""
        encoded = self.tokenizer(
            texts, add_special_tokens=special, return_offsets_mapping=True, truncation=False, verbose=False
        )
        return list(encoded["input_ids"]), list(encoded["offset_mapping"])


class TextEncoder:
    """An encoder that gives word vectors from its hidden states.

    Args:
        source: A checkpoint: a run, a Hugging Face folder or a hub name, with a fast tokenizer.
        layers: Layers whose hidden states to use, 0 for the embeddings, 1 for the first layer; or ``all``. By default
            the one two thirds of the way up.
        pooling: Whether a word of several tokens is represented by their mean or by the first.
        center: Subtract the mean of the text's other tokens, special ones included, from a word's vector: what all
            words of a text have in common does not distinguish them.
        window: Maximum number of tokens of a text.
        device: Device to run on.

    Raises:
        ModelError: if the checkpoint is not an encoder, or has no such layer.
    """

    def __init__(
        self,
        source: str,
        layers: Sequence[int] | Literal["all"] = (),
        pooling: Literal["mean", "first"] = "mean",
        window: int = WINDOW,
        center: bool = True,
        device: str = "cpu",
    ) -> None:
        self.name = Path(source).name or source
        self.model = load_encoder(source)
        self.to(torch.device(device))
        depth = int(self.model.config.num_hidden_layers)
        if layers == "all":
            layers = range(depth + 1)
        self.layers: tuple[int, ...] = tuple(layers) or (default_layer(self.model),)
        if outside := [layer for layer in self.layers if not 0 <= layer <= depth]:
            raise ModelError(f"'{source}' has layers 0 (embeddings) to {depth}, not {outside[0]}")
        self.pooling = pooling
        self.center = center
        self.reader = SpanReader(load_tokenizer(resolve_checkpoint(source)), min(window, max_length(self.model)))

    @property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The encoder's own tokenizer."""
        return self.reader.tokenizer

    def to(self, device: torch.device) -> None:
        """Move the encoder."""
        self.model.to(device)  # type: ignore[arg-type]

    def save(self, folder: Path) -> None:
        """Write the encoder and its tokenizer as a checkpoint in Hugging Face's layout."""
        save_hugging_face(self.model, self.tokenizer, folder)

    def digest(self) -> str:
        """Digest of the weights and the tokenizer; see :func:`weights_digest`."""
        return weights_digest(self.model, self.tokenizer)

    @torch.no_grad()
    def vectors(self, spans: Sequence[Span]) -> NDArray[np.float32]:
        """One vector per word and layer, float32 ``[n, layers, hidden]``; zeros for a word without tokens.

        Computed in ``reading_dtype``; in bfloat16, the other texts of a batch affect the third digit.
        """
        device = self.model.device
        found = np.zeros((len(spans), len(self.layers), self.model.config.hidden_size), np.float32)
        for chosen, read in self.reader.batches(spans, device):
            with reading_autocast(device):
                states = hidden_states(self.model, read.input_ids, read.attention_mask)
            weights = self.weights(read).to(device)
            vectors = [weighted_sum(states[layer].float(), weights) for layer in self.layers]
            found[chosen] = torch.stack(vectors, 1).cpu().numpy()
        return found

    def weights(self, read: EncodedSpans) -> Tensor:
        """Weight of each token's state in a word's vector, float32 ``[n, length]``: all 0 for a word without tokens."""
        is_word = read.is_word & (read.is_word.cumsum(1) == 1) if self.pooling == "first" else read.is_word
        weights = is_word / is_word.sum(1, keepdim=True).clamp(min=1)
        if self.center:
            is_rest = (read.attention_mask > 0) & ~read.is_word & read.is_word.any(1, keepdim=True)
            weights = weights - is_rest / is_rest.sum(1, keepdim=True).clamp(min=1)
        return weights


class WholeTextReader:
    """Reads whole texts and returns the vectors of their words at an encoder's only layer.

    The vectors are those of ``TextEncoder.vectors``. Layers above that one are removed from the encoder, which must not
    be used for anything else afterwards.

    Args:
        encoder: An encoder that reads one layer.
    """

    def __init__(self, encoder: TextEncoder) -> None:
        if len(encoder.layers) != 1:
            raise ValueError(f"one layer is read, not {len(encoder.layers)}")
        self.encoder = encoder
        drop_layers_above(encoder.model, encoder.layers[0])

    @property
    def hidden_size(self) -> int:
        """Dimension of the vectors."""
        return int(self.encoder.model.config.hidden_size)

    @torch.no_grad()
    def __call__(self, texts: Sequence[str], words: Sequence[Places]) -> NDArray[np.float32]:
        """Vectors of the words of each text, one text after the other: float32 ``[words, hidden]``.

        A word without tokens has zeros. A text longer than the encoder's window is read in stretches that overlap by
        half, and each word in the one that has it nearest to its middle.
        """
        first = np.cumsum([0, *(len(places) for places in words)])
        found = np.zeros((int(first[-1]), self.hidden_size), np.float32)
        if not len(found):
            return found
        encoded = self.encoder.tokenizer(list(texts), return_offsets_mapping=True, truncation=False, verbose=False)
        ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
        lengths = np.array([len(row) for row in ids])
        stretches: list[_Stretch] = []
        for number in np.flatnonzero(lengths > self.encoder.reader.window).tolist():
            cut = _stretches(texts[number], words[number], offsets[number], self.encoder.reader.room)
            if any(stretch.text == texts[number] for stretch in cut):  # tokens that share a character, or have none
                spans = [(texts[number], start, end) for start, end in words[number]]
                found[first[number] : first[number + 1]] = self.encoder.vectors(spans)[:, 0]
            else:
                stretches += [replace(stretch, numbers=first[number] + stretch.numbers) for stretch in cut]
        if stretches:
            # A word at the edge of a stretch may have more tokens there, so that the stretch is cut once more.
            vectors = self([stretch.text for stretch in stretches], [stretch.places for stretch in stretches])
            found[np.concatenate([stretch.numbers for stretch in stretches])] = vectors
        order = np.argsort(lengths, kind="stable")
        order = order[lengths[order] <= self.encoder.reader.window]
        for batch in by_budget(order, lengths, self.encoder.model.device):
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
        """Vectors of a batch's words; ``pieces`` of a text are as ``_pieces`` returns them."""
        encoder, device = self.encoder, self.encoder.model.device
        input_ids, mask = padded(ids, encoder.tokenizer)
        with reading_autocast(device):
            states = hidden_states(encoder.model, input_ids, mask)[encoder.layers[0]].float()
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


@dataclass(frozen=True)
class _Stretch:
    """A part of a text, and the words that are read in it."""

    text: str
    places: Places
    """Places of the words in this part."""
    numbers: NDArray[np.int64]
    """Numbers of the words, in the same order."""


def _stretches(text: str, words: Places, offsets: Sequence[tuple[int, int]], room: int) -> list[_Stretch]:
    """Cut a text of more than ``room`` tokens into stretches of ``room`` that overlap by half; share out its words."""
    bounds = np.array([(start, end) for start, end in offsets if end > start], np.int64)
    if len(bounds) <= room:  # the other tokens have no characters
        return [_Stretch(text, words, np.arange(len(words)))]
    starts = np.unique([*range(0, len(bounds) - room, max(1, room // 2)), len(bounds) - room])
    spans = np.array(words, np.int64).reshape(-1, 2)
    at = np.searchsorted(bounds[:, 1], spans[:, 0], side="right")
    chosen = np.abs(at[:, None] - (starts + room / 2)).argmin(1)
    cut = []
    for number, start in enumerate(starts.tolist()):
        begin, end = int(bounds[start, 0]), int(bounds[start + room - 1, 1])
        numbers = np.flatnonzero(chosen == number)
        places = (spans[numbers] - begin).clip(0, end - begin).tolist()
        cut.append(_Stretch(text[begin:end], [(a, b) for a, b in places], numbers))
    return [stretch for stretch in cut if len(stretch.numbers)]


def _cut_to(room: int, span: Span, offsets: Sequence[tuple[int, int]]) -> Span:
    """Cut a span to ``room`` tokens or fewer, given the offsets of all; tokens are not split."""
    text, start, end = span
    first = min(bisect.bisect_right([b for _, b in offsets], start), len(offsets) - 1)
    last = max(bisect.bisect_left([a for a, _ in offsets], end) - 1, first)
    spare = max(0, room - (last - first + 1))
    low = max(0, min(first - spare // 2, len(offsets) - room))
    begin, finish = offsets[low][0], offsets[min(low + room, len(offsets)) - 1][1]
    # Characters of the word without a token are kept.
    begin = min(begin, start)
    if last < low + room:
        finish = max(finish, end)
    return text[begin:finish], start - begin, min(end, finish) - begin


def by_budget(
    order: NDArray[np.int64], lengths: NDArray[np.int64], device: torch.device
) -> Iterator[NDArray[np.int64]]:
    """Split indices in order of ascending length into batches of as many tokens, with padding, as suit a device."""
    start, budget = 0, reading_tokens(device, _TOKENS_AT_ONCE)
    while start < len(order):
        sizes = lengths[order[start:]] * np.arange(1, len(order) - start + 1)
        stop = start + max(1, int(np.searchsorted(sizes, budget, side="right")))
        yield order[start:stop]
        start = stop


def padded(ids: Sequence[Sequence[int]], tokenizer: PreTrainedTokenizerFast) -> tuple[Tensor, Tensor]:
    """Token ids and attention mask of texts, int64 ``[n, longest]``."""
    shape = len(ids), max(len(row) for row in ids)
    pad_id = tokenizer.pad_token_id if isinstance(tokenizer.pad_token_id, int) else 0
    input_ids, mask = torch.full(shape, pad_id), torch.zeros(shape, dtype=torch.int64)
    for line, row in enumerate(ids):
        input_ids[line, : len(row)] = torch.tensor(row)
        mask[line, : len(row)] = 1
    return input_ids, mask


def hidden_states(model: PreTrainedModel, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
    """Run a batch on the model's device: states ``[n, length, hidden]`` of every layer, embeddings first."""
    given = {"input_ids": input_ids.to(model.device), "attention_mask": attention_mask.to(model.device)}
    states: tuple[Tensor, ...] = model(**given, output_hidden_states=True).hidden_states
    return states


def weighted_sum(states: Tensor, weights: Tensor) -> Tensor:
    """Sum states ``[..., n, length, hidden]`` over tokens, weighted by ``[n, length]``: ``[..., n, hidden]``."""
    return torch.einsum("nt,...nth->...nh", weights, states)


def unit_vectors(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Normalise vectors to length one along the last axis; zero vectors stay 0."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12), np.float32)


def default_layer(model: PreTrainedModel) -> int:
    """The layer two thirds of the way up, which distinguishes words best: see docs/detectors.md."""
    return round(int(model.config.num_hidden_layers) * 2 / 3)


def load_encoder(source: str) -> PreTrainedModel:
    """Load an encoder without its head, frozen and in evaluation mode.

    Raises:
        ModelError: if there is none, or it has only pickled weights.
    """
    path = resolve_checkpoint(source)
    hf = config_of(path)
    kind = cast(type[PreTrainedModel], MODEL_MAPPING[type(hf)])
    attention = "sdpa" if kind._supports_sdpa else "eager"
    model, report = from_pretrained(AutoModel, path, hf, attention, without_pooler(hf))
    if missing := report["missing_keys"]:
        raise ModelError(f"'{source}' lacks {len(missing)} weights of an encoder, '{min(missing)}' among them")
    model.requires_grad_(False)
    frozen: PreTrainedModel = model.eval()
    return frozen


def add_tensors(digest: hashlib._Hash, tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Hash tensors with their names, dtypes and shapes; those on a GPU are copied."""
    for name, tensor in tensors:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        # As bytes: numpy has no bfloat16.
        digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)


def weights_digest(module: nn.Module, tokenizer: PreTrainedTokenizerFast | None = None) -> str:
    """Digest of a frozen encoder's weights, and of its tokenizer if given, independent of where its files are.

    Takes about a second for a gigabyte.
    """
    digest = hashlib.sha256(fingerprint(tokenizer).encode() if tokenizer is not None else b"")
    add_tensors(digest, module.state_dict().items())
    return digest.hexdigest()[:16]


@torch.no_grad()
def drop_layers_above(model: PreTrainedModel, last: int) -> bool:
    """Remove the layers that ``hidden_states[last]`` does not need, if the model keeps its layers in one list.

    A model that normalises after its last layer returns a layer's own states only if another layer follows; which case
    applies is determined by a forward pass.

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
