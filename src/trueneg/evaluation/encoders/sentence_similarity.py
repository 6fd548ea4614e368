"""Sentence similarity without training (STS-B): cosines of [CLS] and mean vectors against human scores, by layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from trueneg.errors import ConfigError, TaskError
from trueneg.evaluation.statistics.bootstrap import Bootstrap
from trueneg.evaluation.statistics.intervals import Interval, percentiles
from trueneg.models.backbone import max_length
from trueneg.models.loading import resolve_checkpoint
from trueneg.models.reading import by_budget, load_encoder, padded
from trueneg.tasks.base import Prediction
from trueneg.tasks.metrics import METRICS
from trueneg.tasks.text import TextExample
from trueneg.terminal.progress import Tell, counted, untold
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
        is_special: bool ``[n, length]``: True for the tokens that frame a text ([CLS], [SEP]).
    """

    hidden: Tensor
    is_token: Tensor
    is_special: Tensor

    def pooled(self, pooling: Pooling) -> Tensor:
        """Pool the states of each text: float64 ``[layers + 1, n, hidden]``."""
        if pooling == "cls":
            return self.hidden[:, :, 0].double()
        weights = self.is_token.double()
        return torch.einsum("nt,knth->knh", weights, self.hidden.double()) / weights.sum(1)[:, None]


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
        """Read one batch of tokenized texts."""
        device = self.model.device
        input_ids, mask = (tensor.to(device) for tensor in padded(ids, self.tokenizer))
        output = self.model(input_ids=input_ids, attention_mask=mask, output_hidden_states=True)
        ids_of = special_ids(self.tokenizer)
        is_special = (input_ids == ids_of["start"]) | (input_ids == ids_of["end"])
        return States(torch.stack([layer.float() for layer in output.hidden_states]), mask > 0, is_special & (mask > 0))

    def batches(self, ids: Sequence[Sequence[int]], texts_each: int = 1) -> Iterator[NDArray[np.int64]]:
        """Group texts of similar length into batches that fit memory; yields their numbers.

        Args:
            ids: Token ids of the texts.
            texts_each: How many texts of at most its length each of them stands for.
        """
        lengths = np.array([len(row) for row in ids], dtype=np.int64)
        yield from by_budget(np.argsort(lengths, kind="stable"), lengths * texts_each)

    def vectors(self, texts: Sequence[str], progress: Tell = untold) -> dict[Pooling, Floats]:
        """Encode texts: ``[n, layers + 1, hidden]`` for each pooling."""
        ids = self.tokenize(texts)
        shape = len(texts), self.num_layers + 1, int(self.model.config.hidden_size)
        found: dict[Pooling, Floats] = {pooling: np.zeros(shape) for pooling in POOLINGS}
        batches = list(self.batches(ids))
        for chosen in counted(batches, map(len, batches), len(ids), progress):
            states = self.states([ids[number] for number in chosen])
            for pooling in POOLINGS:
                found[pooling][chosen] = states.pooled(pooling).transpose(0, 1).cpu().numpy()
        return found


def cosines(left: ArrayLike, right: ArrayLike) -> Floats:
    """Compute cosines along the last axis; 0 for a zero vector.

    Example:
        >>> cosines([[3.0, 4.0], [0.0, 0.0]], [[4.0, 3.0], [1.0, 0.0]]).round(2).tolist()
        [0.96, 0.0]
    """
    x, y = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    lengths = np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1)
    products = np.einsum("...h,...h->...", x, y)
    return np.asarray(np.divide(products, lengths, out=np.zeros_like(lengths), where=lengths > 0))


@dataclass(frozen=True)
class SentenceSimilarity:
    """Similarities of pairs of sentences by an encoder.

    Attributes:
        keys: Keys of the pairs.
        gold: Human similarity scores, ``[n]``.
        cosines: ``[n, layers + 1]`` for each pooling, rounded to six digits so that equal texts tie.
    """

    keys: Sequence[str]
    gold: Floats
    cosines: Mapping[Pooling, Floats]

    def spearman(self, pooling: Pooling = "mean", layer: int = -1) -> float:
        """Compute Spearman's correlation of a layer's cosines with gold, in [-1, 1]."""
        return METRICS["spearman"](self._columns(pooling, layer))

    def interval(
        self,
        pooling: Pooling = "mean",
        layer: int = -1,
        *,
        confidence: float = 0.95,
        resamples: int = 2000,
        seed: int = 0,
    ) -> Interval:
        """Compute Spearman's correlation with a bootstrap interval over pairs."""
        columns = self._columns(pooling, layer)
        samples = Bootstrap.over(columns, resamples, seed).measure(METRICS["spearman"], [columns])
        return Interval(METRICS["spearman"](columns), *percentiles(samples, confidence), len(self.gold))

    def predictions(self, pooling: Pooling = "mean", layer: int = -1) -> list[Prediction]:
        """Give one prediction per pair, as tasks do, so that ``trueneg compare`` can compare encoders."""
        columns = self._columns(pooling, layer)
        return [
            {"key": key, "gold": gold, "predicted": predicted}
            for key, gold, predicted in zip(
                self.keys, columns["gold"].tolist(), columns["predicted"].tolist(), strict=True
            )
        ]

    def _columns(self, pooling: Pooling, layer: int) -> dict[str, Floats]:
        return {"gold": self.gold, "predicted": self.cosines[pooling][:, layer]}


def sentence_similarity(
    reader: TextReader, examples: Sequence[TextExample], progress: Tell = untold
) -> SentenceSimilarity:
    """Compare the sentences of pairs at every layer.

    Args:
        reader: The encoder.
        examples: Pairs with a number as label, such as STS-B's.
        progress: Called with the number of distinct sentences read, and of all.

    Raises:
        TaskError: for no examples, or one without a second text or a label.
    """
    if not examples:
        raise TaskError("no pairs of sentences: read a split with examples")
    for example in examples:
        if example.second is None or example.label is None:
            raise TaskError(
                f"'{example.key}' is not a labelled pair: read a labelled split of pairs, such as STS-B's dev"
            )
    # Many sentences come in several pairs.
    number = {text: n for n, text in enumerate(dict.fromkeys(t for e in examples for t in (e.text, e.second or "")))}
    vectors = reader.vectors(list(number), progress)
    left = [number[example.text] for example in examples]
    right = [number[example.second or ""] for example in examples]
    return SentenceSimilarity(
        [example.key for example in examples],
        np.array([example.label for example in examples], dtype=np.float64),
        {pooling: cosines(found[left], found[right]).round(6) for pooling, found in vectors.items()},
    )
