"""Does an encoder tell a synonym from an antonym? Hits (Wang et al. 2021, §4.6, Table 7).

A triplet is a sentence, a view of it with synonyms in the place of words, and one with antonyms; in the paper one word
is replaced in each. It is a hit where the sentence is more like its synonym view: strictly, by the cosine of [CLS]
vectors, of mean vectors, or by BERTScore. Hits also measure how many words were replaced: a view with more of them is
less like the sentence, whatever they mean. Only where both replace as many is half of the triplets what chance gives.

The paper gives the most hits of all layers, a layer chosen on the triplets it is measured on. Beside it stands a layer
chosen on a part of the sentences and measured on the others, and the curve over all layers. The paper's own 9,626
triplets were not released, nor how they were selected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trueneg.errors import ConfigError, TaskError
from trueneg.evaluation.encoders.bertscore import bert_score
from trueneg.evaluation.encoders.sentence_similarity import POOLINGS, Floats, States, TextReader, cosines
from trueneg.evaluation.statistics.bootstrap import Bootstrap, ratio
from trueneg.evaluation.statistics.intervals import Interval
from trueneg.tasks.records import read_lines
from trueneg.terminal.progress import Tell, counted, untold

Way = Literal["cls", "mean", "bertscore"]
WAYS: tuple[Way, ...] = ("cls", "mean", "bertscore")

TIE = 1e-10
"""Similarities that differ by no more are the same. Far below float32's precision, and rightly so: where all vectors
nearly coincide, as [CLS] in the lower layers, margins of 1e-7 are real and what rounding adds to them is 1e-11."""

Replaced = tuple[tuple[str, str], ...]
"""Words of the original, and what stands in their place."""


@dataclass(frozen=True, slots=True)
class Triplet:
    """A sentence and two views of it."""

    original: str
    synonym: str
    """The view that says the same."""
    antonym: str
    """The view that says something else."""
    synonym_words: Replaced = ()
    antonym_words: Replaced = ()


def write_triplets(path: Path, triplets: Sequence[Triplet]) -> None:
    """Write a line of JSON a triplet."""
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
    """Read what ``write_triplets`` writes; the words may be missing, blank lines are nothing.

    Raises:
        TaskError: naming file and line, for what is no triplet; for a file without any.
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
                "and maybe 'synonym_words', 'antonym_words' (lists of pairs)"
            ) from error
    if not triplets:
        raise TaskError(f"{path}: no triplets")
    return triplets


def _triplet(line: Mapping[str, Any]) -> Triplet:
    texts = [line[name] for name in ("original", "synonym", "antonym")]
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise ValueError("a text is empty or no text")
    words = [
        tuple((str(word), str(other)) for word, other in line.get(name, ()))
        for name in ("synonym_words", "antonym_words")
    ]
    return Triplet(*texts, *words)


@dataclass(frozen=True)
class Margins:
    """How much more like its synonym view each sentence is than like its antonym view.

    Attributes:
        by_way: ``[n, layers + 1]``, layer 0 being the embeddings.
        sentences: Number of each triplet's sentence, int64 ``[n]``: triplets of one sentence stand or fall together.
        counts: ``same_views`` and ``unchanged_views`` (no hit is possible, or hits are no merit; kept), ``truncated``
            texts.
    """

    by_way: Mapping[Way, Floats]
    sentences: NDArray[np.int64]
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Hits:
    """Shares of triplets; ``paper_*`` of all of them, ``chosen`` of those whose sentences did not choose the layer."""

    curve: tuple[float, ...]
    """Hits at each layer from the embeddings on, of all triplets."""
    ties: tuple[float, ...]
    """Triplets at each layer with no difference, which are no hits."""
    paper_layer: int
    """With the most hits, from layer 1 on; the lowest of several."""
    chosen_layer: int
    """With the most hits on the validation sentences, likewise."""
    chosen: Interval
    """Hits at ``chosen_layer`` on the others, with an interval of a bootstrap over sentences."""
    chosen_ties: float
    num_validation: int
    """Triplets that chose the layer."""

    @property
    def paper(self) -> float:
        """The paper's figure: the most hits of any layer."""
        return self.curve[self.paper_layer]


def margins(reader: TextReader, triplets: Sequence[Triplet], progress: Tell = untold) -> Margins:
    """Read triplets with an encoder, at every layer.

    Args:
        reader: The encoder.
        triplets: What it reads.
        progress: Told how many are read, of how many.

    Raises:
        TaskError: for no triplets.
    """
    if not triplets:
        raise TaskError("no triplets to read")
    num_cut = reader.num_truncated
    views = [[getattr(t, name) for t in triplets] for name in ("original", "synonym", "antonym")]
    ids = [reader.tokenize(texts) for texts in views]
    longest = [max(of_triplet, key=len) for of_triplet in zip(*ids, strict=True)]
    found: dict[Way, Floats] = {way: np.zeros((len(triplets), reader.num_layers + 1)) for way in WAYS}
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
    way: Way,
    *,
    validation_fraction: float = 0.2,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Hits:
    """Count hits and ties, and choose a layer.

    Args:
        measured: Of an encoder.
        way: How alike two texts are.
        validation_fraction: Share of the sentences whose triplets choose the layer; the same ones for every encoder.
        confidence: Of the interval.
        resamples: Of the bootstrap.
        seed: Of the choice of sentences, and of the bootstrap.

    Raises:
        ConfigError: for a fraction that is not between 0 and 1, or fewer than two sentences.
    """
    margin, sentences = measured.by_way[way], measured.sentences
    num_sentences = int(sentences.max()) + 1
    if not 0 < validation_fraction < 1 or num_sentences < 2:
        raise ConfigError("a layer is chosen on a fraction of the sentences between 0 and 1, of two sentences at least")
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
