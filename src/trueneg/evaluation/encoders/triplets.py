"""Hits (Wang et al. 2021, §4.6, Table 7): does an encoder tell a synonym from an antonym?

A triplet is a sentence, a view of it with a word replaced by a synonym, and one with a word replaced by an antonym. It
is a hit if the sentence is strictly more similar to its synonym view, by the cosine of [CLS] vectors, of mean vectors,
or by BERTScore. A view with more replaced words is less similar whatever they mean: chance is 50 % only if both
views replace equally many, as the paper's do. The number of replaced words is reported next to Hits (``form_of``).

The paper reports the best layer, chosen on the triplets it is measured on. Here a layer is also chosen on one part of
the sentences and evaluated on the others, and Hits are given for every layer. The paper's 9,626 triplets were not
released, nor is it known how they were selected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trueneg.errors import ConfigError, TaskError
from trueneg.evaluation.encoders.sentence_similarity import cosines
from trueneg.evaluation.statistics.bootstrap import Bootstrap, ratio
from trueneg.evaluation.statistics.intervals import Interval
from trueneg.files.text import is_unicode
from trueneg.hardware import to_float64
from trueneg.models.text_reader import POOLINGS, Floats, States, TextReader
from trueneg.tasks.records import read_lines
from trueneg.terminal.progress import ProgressCallback, counted, no_progress


@dataclass(frozen=True)
class BertScore:
    """BERTScore (Zhang et al. 2020) of pairs of texts at every layer, ``[layers + 1, n]`` each.

    Attributes:
        precision: Mean over the candidate's tokens of the best cosine in the reference.
        recall: Mean over the reference's tokens of the best cosine in the candidate.
        f1: Their harmonic mean; 0 where both are 0, as for a text without tokens.
    """

    precision: Tensor
    recall: Tensor
    f1: Tensor


def bert_score(candidate: States, reference: States) -> BertScore:
    """Score candidates against references, the ``i``-th against the ``i``-th.

    As in the released code without idf weights, special tokens have no weight, but may be the best match of others.
    Unlike there, padding is never matched (its cosine of 0 would beat negative ones). Scores are not rescaled.

    Args:
        candidate: States of ``n`` texts.
        reference: States of ``n`` texts, from the same encoder.
    """
    left, right = (torch.nn.functional.normalize(states.hidden, dim=-1) for states in (candidate, reference))
    cosine = to_float64(torch.einsum("knah,knbh->knab", left, right))
    is_pair = candidate.is_token[:, :, None] & reference.is_token[:, None, :]
    cosine = cosine.masked_fill(~is_pair, -1.0)
    precision = _weighted(cosine.amax(3), candidate)
    recall = _weighted(cosine.amax(2), reference)
    total = precision + recall
    f1 = torch.where(total != 0, 2 * precision * recall / torch.where(total != 0, total, 1.0), 0.0)
    return BertScore(precision, recall, f1)


def _weighted(best: Tensor, states: States) -> Tensor:
    weights = to_float64(states.is_token & ~states.is_special)
    return (best * weights).sum(-1) / weights.sum(-1).clamp(min=1)


Similarity = Literal["cls", "mean", "bertscore"]
SIMILARITIES: tuple[Similarity, ...] = ("cls", "mean", "bertscore")

TIE = 1e-10
"""Similarities that differ by no more count as equal. It is far below float32's precision on purpose: where all vectors
nearly coincide, as [CLS] in the lower layers, margins of 1e-7 are real and rounding adds 1e-11 to them."""

Replaced = tuple[tuple[str, str], ...]
"""Words of the original, each with its replacement."""


@dataclass(frozen=True, slots=True)
class Triplet:
    """A sentence and two views of it."""

    original: str
    synonym: str
    """The view with the same meaning."""
    antonym: str
    """The view with another meaning."""
    synonym_words: Replaced = ()
    antonym_words: Replaced = ()


def form_of(triplets: Sequence[Triplet]) -> str:
    """Describe how many words triplets replace: Hits are only comparable if that is the same.

    Example:
        >>> form_of([Triplet("a big film", "a large film", "a small film", (("big", "large"),), (("big", "small"),))])
        'one word each'
    """
    numbers = np.array([(len(triplet.synonym_words), len(triplet.antonym_words)) for triplet in triplets])
    if not numbers.all():
        return "not said"
    if (numbers == 1).all():
        return "one word each"
    synonyms, antonyms = numbers.mean(axis=0)
    return f"{synonyms:.1f} words by synonyms, {antonyms:.1f} by antonyms"


def write_triplets(path: Path, triplets: Sequence[Triplet]) -> None:
    """Write one line of JSON per triplet."""
    lines = (
        {
            "original": triplet.original,
            "synonym": triplet.synonym,
            "antonym": triplet.antonym,
            "synonym_words": triplet.synonym_words,
            "antonym_words": triplet.antonym_words,
        }
        for triplet in triplets
    )
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


def read_triplets(path: Path) -> list[Triplet]:
    """Read a file of ``write_triplets``; the replaced words are optional, blank lines are skipped.

    Raises:
        TaskError: naming file and line, for a line that is not a triplet; or for a file without triplets.
    """
    triplets = []
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            triplets.append(_triplet(json.loads(line)))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise TaskError(
                f"{path}:{number}: {error!r}: a line is an object with the texts 'original', 'synonym', 'antonym' "
                "and optionally 'synonym_words', 'antonym_words' (lists of pairs)"
            ) from error
    if not triplets:
        raise TaskError(f"{path}: no triplets")
    return triplets


def _triplet(line: Mapping[str, Any]) -> Triplet:
    texts = [line[name] for name in ("original", "synonym", "antonym")]
    if not all(isinstance(text, str) and text.strip() and is_unicode(text) for text in texts):
        raise ValueError("a text is empty, not a string, or holds half of a surrogate pair")
    words = [
        tuple((str(word), str(other)) for word, other in line.get(name, ()))
        for name in ("synonym_words", "antonym_words")
    ]
    return Triplet(*texts, *words)


@dataclass(frozen=True)
class Margins:
    """How much more similar each sentence is to its synonym view than to its antonym view.

    Attributes:
        by_similarity: ``[n, layers + 1]``, layer 0 being the embeddings.
        sentences: Index of each triplet's sentence, int64 ``[n]``: the groups of the bootstrap.
        counts: Number of triplets with ``same_views`` or ``unchanged_views`` (kept), and of ``truncated`` texts.
    """

    by_similarity: Mapping[Similarity, Floats]
    sentences: NDArray[np.int64]
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Hits:
    """Shares of triplets that are hits: ``paper*`` of all, ``chosen*`` of those not used to choose the layer."""

    curve: tuple[float, ...]
    """Hits at each layer from the embeddings on, of all triplets."""
    ties: tuple[float, ...]
    """Share of ties at each layer, which are not hits."""
    paper_layer: int
    """Layer with the most hits, from layer 1 on; the lowest if tied."""
    chosen_layer: int
    """Layer with the most hits on the validation sentences, likewise."""
    chosen: Interval
    """Hits at ``chosen_layer`` on the other sentences, with a bootstrap interval over sentences."""
    chosen_ties: float
    """Ties at ``chosen_layer`` on the other sentences."""
    num_validation: int
    """Number of triplets used to choose the layer."""

    @property
    def paper(self) -> float:
        """Hits as the paper reports them: the most of any layer."""
        return self.curve[self.paper_layer]


def margins(reader: TextReader, triplets: Sequence[Triplet], progress: ProgressCallback = no_progress) -> Margins:
    """Compute the margins of triplets at every layer.

    Args:
        reader: The encoder.
        triplets: Triplets to read.
        progress: Called with the number of triplets read and the total.

    Raises:
        TaskError: for no triplets.
    """
    if not triplets:
        raise TaskError("no triplets to read")
    num_cut = reader.num_truncated
    views = [[getattr(t, name) for t in triplets] for name in ("original", "synonym", "antonym")]
    ids = [reader.tokenize(texts) for texts in views]
    longest = [max(of_triplet, key=len) for of_triplet in zip(*ids, strict=True)]
    found: dict[Similarity, Floats] = {
        similarity: np.zeros((len(triplets), reader.num_layers + 1)) for similarity in SIMILARITIES
    }
    batches = list(reader.batches(longest, texts_each=3))
    for chosen in counted(batches, map(len, batches), len(triplets), progress):
        states = reader.states([of_view[number] for of_view in ids for number in chosen])
        original, synonym, antonym = (_part(states, view, len(chosen)) for view in range(3))
        for pooling in POOLINGS:
            vectors = [view.pooled(pooling).cpu().numpy() for view in (original, synonym, antonym)]
            found[pooling][chosen] = (cosines(vectors[0], vectors[1]) - cosines(vectors[0], vectors[2])).T
        scores = [bert_score(view, original).f1.cpu().numpy() for view in (synonym, antonym)]
        found["bertscore"][chosen] = (scores[0] - scores[1]).T
    number = {text: at for at, text in enumerate(dict.fromkeys(views[0]))}
    counts = {
        "same_views": sum(t.synonym == t.antonym for t in triplets),
        "unchanged_views": sum(t.original in (t.synonym, t.antonym) for t in triplets),
        "truncated": reader.num_truncated - num_cut,
    }
    return Margins(
        found,
        np.array([number[text] for text in views[0]], dtype=np.int64),
        {name: count for name, count in counts.items() if count},
    )


def _part(states: States, view: int, num: int) -> States:
    rows = slice(view * num, (view + 1) * num)
    return States(states.hidden[:, rows], states.is_token[rows], states.is_special[rows])


def hits(
    measured: Margins,
    similarity: Similarity,
    *,
    validation_fraction: float = 0.2,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Hits:
    """Count hits and ties, and choose a layer.

    Args:
        measured: Margins of an encoder.
        similarity: One of ``SIMILARITIES``.
        validation_fraction: Share of the sentences used to choose the layer; the same for every encoder.
        confidence: Confidence level of the interval.
        resamples: Number of bootstrap samples.
        seed: Seed for choosing sentences and for the bootstrap.

    Raises:
        ConfigError: for a fraction outside (0, 1), or fewer than two sentences.
    """
    margin, sentences = measured.by_similarity[similarity], measured.sentences
    num_sentences = int(sentences.max()) + 1
    if not 0 < validation_fraction < 1 or num_sentences < 2:
        raise ConfigError("choosing a layer needs a fraction of the sentences in (0, 1), and at least two sentences")
    is_hit, is_tie = margin > TIE, np.abs(margin) <= TIE
    num_chosen = min(max(1, round(validation_fraction * num_sentences)), num_sentences - 1)
    validation = np.random.default_rng(seed).permutation(num_sentences)[:num_chosen]
    is_validation = np.isin(sentences, validation)
    layer = 1 + int(is_hit[is_validation, 1:].mean(axis=0).argmax())
    others = is_hit[~is_validation, layer]
    share_of_hits = ratio(others, np.ones_like(others))
    chosen = Bootstrap(sentences[~is_validation], resamples, seed).of(share_of_hits, confidence)
    curve = is_hit.mean(axis=0)
    return Hits(
        tuple(curve.tolist()),
        tuple(is_tie.mean(axis=0).tolist()),
        1 + int(curve[1:].argmax()),
        layer,
        chosen,
        float(is_tie[~is_validation, layer].mean()),
        int(is_validation.sum()),
    )
