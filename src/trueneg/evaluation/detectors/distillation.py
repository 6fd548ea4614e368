"""Distillation: prototypes that rank words as a stronger detector does, at the cost of prototypes.

A strong detector encodes a sentence for every pair, or uses several models; prototypes need one dot product. So the
strong one scores, on a sample of a corpus, the words nearest by prototypes, and one linear map of the prototypes is
fitted so that their cosines predict its scores. The file format is unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trueneg.corpus.permutation import rows_at
from trueneg.corpus.rows import RowBatch, RowIndex
from trueneg.corpus.store import Corpus
from trueneg.detectors.rowtext import TokenText, substitution_kinds
from trueneg.detectors.scorers.base import Substitution, SubstitutionScorer
from trueneg.detectors.scorers.prototypes import Prototypes
from trueneg.errors import ConfigError, ModelError
from trueneg.evaluation.statistics.ranking import Curve
from trueneg.models.reading import Places, TextEncoder, WholeTextReader, unit_vectors
from trueneg.terminal.progress import ProgressCallback, no_progress

HELD_OUT = 0.2
"""Share of the rows held out for evaluation, and the same again for early stopping; the map is fitted to the others."""
PENALTY = 1e-3
"""Weight of the mean square of the map's change, times the width."""
STEPS = 300
_AT_ONCE = 32
"""Rows that the teacher reads at once."""
EVERY = 10
"""Steps between two evaluations for early stopping."""


@dataclass(frozen=True)
class Distilled:
    """Prototypes, and how well they do on held-out rows.

    Attributes:
        prototypes: New prototypes, with their own ``threshold`` in the provenance.
        num_pairs: Pairs of word and substitute that the teacher scored.
        num_accepted: Pairs that it accepts.
        before: Average precision of the old prototypes' cosines against the teacher's verdicts, on held-out rows; None
            if it accepts none there.
        after: The same for the new prototypes.
    """

    prototypes: Prototypes
    num_pairs: int
    num_accepted: int
    before: float | None
    after: float | None


@dataclass(frozen=True)
class _Lesson:
    """Sampled words: unit vectors ``[n, hidden]``, candidates, their scores and acceptance ``[n, top]``, rows."""

    vectors: NDArray[np.float32]
    candidates: NDArray[np.int64]
    scores: NDArray[np.float64]
    is_accepted: NDArray[np.bool_]
    rows: NDArray[np.int64]


def distil(
    teacher: SubstitutionScorer,
    prototypes: Prototypes,
    encoder: TextEncoder,
    corpus: Corpus,
    *,
    max_rows: int = 500,
    words: int = 4,
    top: int = 16,
    length: int = 128,
    seed: int = 0,
    progress: ProgressCallback = no_progress,
) -> Distilled:
    """Transform prototypes by one linear map, so that their cosines predict a stronger detector's scores.

    Args:
        teacher: Any scorer.
        prototypes: Prototypes to start from.
        encoder: The prototypes' encoder, at their layer.
        corpus: Corpus in the language that they are for.
        max_rows: Maximum number of rows that the teacher reads, drawn at random.
        words: Words per row that the teacher scores, drawn at random.
        top: Nearest prototypes that it scores per word.
        length: Tokens per row.
        seed: Seed for drawing rows and words and holding rows out.
        progress: Called with the number of rows read and their total.

    Raises:
        ConfigError: if the teacher accepts all or none of the pairs, or too few rows are read.
    """
    lesson = _ask(teacher, prototypes, encoder, corpus, max_rows, words, top, length, seed, progress)
    generator = np.random.default_rng(seed)
    numbers = np.unique(lesson.rows)
    num_held_out = max(1, round(len(numbers) * HELD_OUT))
    order = generator.permutation(numbers)
    is_held_out = np.isin(lesson.rows, order[:num_held_out])
    is_stopping = np.isin(lesson.rows, order[num_held_out : 2 * num_held_out])
    if len(numbers) < 3 or not lesson.is_accepted.any() or lesson.is_accepted.all():
        raise ConfigError(
            f"the teacher accepts {int(lesson.is_accepted.sum())} of {lesson.is_accepted.size} substitutes of "
            f"{len(numbers)} rows: there is nothing to learn: give more --rows, or a teacher with another threshold"
        )
    matrix = torch.from_numpy(prototypes.matrix)
    moved, threshold = _fit(lesson, ~(is_held_out | is_stopping), is_stopping, matrix, teacher.threshold)
    about = {**prototypes.provenance, "threshold": f"{threshold:.4f}", "distilled_rows": str(len(numbers))}
    about |= {f"teacher.{name}": value for name, value in teacher.provenance.items()}
    before, after = (_precision(lesson, is_held_out, table) for table in (matrix, moved))
    made = replace(prototypes, matrix=moved.numpy(), provenance=about)
    return Distilled(made, lesson.scores.size, int(lesson.is_accepted.sum()), before, after)


def _ask(
    teacher: SubstitutionScorer,
    prototypes: Prototypes,
    encoder: TextEncoder,
    corpus: Corpus,
    max_rows: int,
    words: int,
    top: int,
    length: int,
    seed: int,
    progress: ProgressCallback,
) -> _Lesson:
    """Have the teacher score the nearest prototypes of words in a sample of rows."""
    text = TokenText(corpus.load_tokenizer())
    is_word = substitution_kinds(text.surfaces).numpy() >= 0
    generator = np.random.default_rng(seed)
    index = RowIndex(corpus, length)
    numbers = rows_at(seed, np.arange(min(max_rows, len(index)), dtype=np.int64), len(index))
    reader = WholeTextReader(encoder)
    vectors, candidates, scores, rows = [], [], [], list[int]()
    for first in range(0, len(numbers), _AT_ONCE):
        batch = index.read(numbers[first : first + _AT_ONCE])
        read = [_words_of(batch, line, text, is_word, words, generator) for line in range(len(batch.input_ids))]
        asked = [(content, start, end) for content, places in read for start, end in places]
        if asked:
            units = unit_vectors(reader([content for content, _ in read], [places for _, places in read]))
            nearest = _nearest(units, prototypes, [content[start:end] for content, start, end in asked], top)
            vectors.append(units)
            candidates.append(nearest)
            pairs = [
                Substitution(*where, prototypes.words[other])
                for where, others in zip(asked, nearest.tolist(), strict=True)
                for other in others
            ]
            scores.append(teacher.scores(pairs).reshape(nearest.shape))
            lines = zip(numbers[first:].tolist(), read, strict=False)
            rows += [number for number, (_, places) in lines for _ in places]
        progress(first + len(read), len(numbers))
    if not vectors:
        raise ConfigError(f"none of {len(numbers)} rows of '{corpus.path}' has a word to ask about: read more rows")
    all_scores = np.concatenate(scores)
    accepted = all_scores >= teacher.threshold
    return _Lesson(np.concatenate(vectors), np.concatenate(candidates), all_scores, accepted, np.array(rows))


def _words_of(
    batch: RowBatch, line: int, text: TokenText, is_word: NDArray[np.bool_], most: int, generator: np.random.Generator
) -> tuple[str, Places]:
    """Return the text of a row's first document, and the positions of some of its words, in order."""
    columns = np.flatnonzero(batch.segments[line] == 1)
    ids = batch.input_ids[line, columns]
    wanted = np.flatnonzero(batch.is_whole_word[line, columns] & is_word[np.minimum(ids, len(is_word) - 1)])
    chosen = np.sort(generator.choice(wanted, min(most, len(wanted)), replace=False))
    read = text(ids.tolist())
    return read.text, [(read.starts[at], read.ends[at]) for at in chosen.tolist()]


def _nearest(units: NDArray[np.float32], prototypes: Prototypes, words: list[str], top: int) -> NDArray[np.int64]:
    """Find the nearest prototypes of words, except their own: int64 ``[words, top]``."""
    cosines = units @ prototypes.matrix.T
    own = [prototypes.find(word) for word in words]
    for line, row in enumerate(own):
        if row is not None:
            cosines[line, row] = -np.inf
    most = min(top, len(prototypes.words) - 1)
    return np.argsort(-cosines, axis=1, kind="stable")[:, :most].astype(np.int64)


def _fit(
    lesson: _Lesson,
    is_fitted: NDArray[np.bool_],
    is_stopping: NDArray[np.bool_],
    matrix: Tensor,
    teacher_threshold: float,
) -> tuple[Tensor, float]:
    """Fit the map with early stopping: the new prototypes, and the cosine that matches the teacher's threshold."""
    width = matrix.shape[1]
    change = nn.Parameter(torch.zeros(width, width))
    slope, constant = nn.Parameter(torch.tensor(10.0)), nn.Parameter(torch.tensor(-5.0))
    optimizer = torch.optim.Adam([{"params": [change], "lr": 1e-3}, {"params": [slope, constant], "lr": 0.1}])
    vectors, wanted = torch.from_numpy(lesson.vectors), torch.from_numpy(lesson.scores).float()
    candidates = torch.from_numpy(lesson.candidates)
    fitted, stopping = torch.from_numpy(is_fitted), torch.from_numpy(is_stopping)

    def moved(table: Tensor) -> Tensor:
        return nn.functional.normalize(table + table @ change, dim=-1)

    def loss(part: Tensor) -> Tensor:
        used, places = candidates[part].unique(return_inverse=True)
        cosines = torch.einsum("nh,nkh->nk", vectors[part], moved(matrix[used])[places])
        return nn.functional.binary_cross_entropy_with_logits(slope * cosines + constant, wanted[part])

    best, kept = np.inf, (change.detach().clone(), 10.0, -5.0)
    for step in range(STEPS + 1):
        if step % EVERY == 0:
            with torch.no_grad():
                value = float(loss(stopping))
            if value < best:
                best, kept = value, (change.detach().clone(), slope.item(), constant.item())
        optimizer.zero_grad()
        (loss(fitted) + PENALTY * change.square().mean() * width).backward()
        optimizer.step()
    with torch.no_grad():
        change.copy_(kept[0])
        at = min(max(teacher_threshold, 1e-3), 1 - 1e-3)
        threshold = (np.log(at / (1 - at)) - kept[2]) / kept[1]
        found = moved(matrix)
    if not torch.isfinite(found).all():
        raise ModelError("the distilled prototypes are not finite: the teacher's scores are not")
    return found, float(np.clip(threshold, 0.01, 0.99))


def _precision(lesson: _Lesson, part: NDArray[np.bool_], table: Tensor) -> float | None:
    """Compute the average precision of cosines against the teacher's verdicts."""
    if not lesson.is_accepted[part].any():
        return None
    cosines = np.einsum("nh,nkh->nk", lesson.vectors[part], table.numpy()[lesson.candidates[part]])
    return Curve.of(lesson.is_accepted[part].ravel(), cosines.ravel().astype(np.float64)).average_precision
