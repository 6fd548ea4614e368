"""Annotators: what lists the acceptable substitutes at every token of a corpus, beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from trueneg.corpus.annotate import Accepted, Annotator, TableAnnotator
from trueneg.corpus.rows import RowBatch
from trueneg.detectors import SCORERS, make_scorer
from trueneg.detectors.encoder import unit_vectors
from trueneg.detectors.prototype_detector import prototype_table
from trueneg.detectors.reading import WholeTextReader
from trueneg.detectors.rowtext import TokenText, substitution_kinds
from trueneg.detectors.scorers.base import Substitution, SubstitutionScorer, acceptance
from trueneg.detectors.scorers.prototypes import THRESHOLD, RowReader, load_pair
from trueneg.detectors.specification import Combination, Leaf, Resources, Specification, leaves, parse
from trueneg.errors import ConfigError, unknown_name
from trueneg.lexicon.table import cached_table

TOP = 32


class PrototypesAnnotator:
    """Accepts the words whose prototypes come near enough to a word's vector: one pass of the encoder for all.

    Args:
        reader: Reads rows.
        table: Prototype of each token, float32 ``[vocab, hidden]``.
        kinds: Kind of each token, int64 ``[vocab]``: only tokens of one kind may stand for one another.
        threshold: The least cosine to accept.
        detector: What options call it.
        provenance: Where the prototypes come from.
    """

    def __init__(
        self,
        reader: RowReader,
        table: NDArray[np.float32],
        kinds: NDArray[np.int64],
        threshold: float,
        detector: str,
        provenance: Mapping[str, str],
    ) -> None:
        self.detector = detector
        self.provenance = {**provenance, "threshold": str(threshold)}
        self.threshold = threshold
        self._reader = reader
        self._kinds = kinds
        self._candidates = np.flatnonzero(table.any(1) & (kinds >= 0))
        self._prototypes = np.ascontiguousarray(table[self._candidates].T)

    def __call__(self, batch: RowBatch) -> Accepted:
        """List the nearest words, the best ``TOP`` of them."""
        kinds = self._kinds[np.minimum(batch.input_ids, len(self._kinds) - 1)]
        is_wanted = batch.is_whole_word & (kinds >= 0) & (batch.input_ids < len(self._kinds))
        rows, columns = np.nonzero(is_wanted)
        units = unit_vectors(self._reader(batch.input_ids, is_wanted, batch.segments))
        gold = batch.input_ids[rows, columns]
        found = [self._near(units[s : s + 1024], gold[s : s + 1024], s) for s in range(0, len(gold), 1024)]
        places, tokens, cosines = (np.concatenate(part) for part in zip(*found, strict=True)) if found else _NOTHING
        credit = acceptance(np.clip(cosines, 0, 1), self.threshold)
        return Accepted(rows[places], columns[places], tokens, credit)

    def _near(
        self, units: NDArray[np.float32], gold: NDArray[np.int64], start: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Place, token and cosine of what is accepted for some words."""
        cosines = units @ self._prototypes
        batch, candidate = np.nonzero(cosines >= self.threshold)
        tokens, near = self._candidates[candidate], cosines[batch, candidate]
        is_other = (tokens != gold[batch]) & (self._kinds[tokens] == self._kinds[gold[batch]])
        batch, tokens, near = batch[is_other], tokens[is_other], near[is_other]
        order = np.lexsort((-near, batch))
        batch, tokens, near = batch[order], tokens[order], near[order]
        rank = np.arange(len(batch)) - np.searchsorted(batch, batch, side="left")
        kept = rank < TOP
        return batch[kept] + start, tokens[kept], near[kept]


_NOTHING = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))


class FilteredAnnotator:
    """What one annotator lists and a judge accepts in its sentence; credit is the lesser of the two.

    Args:
        proposer: Lists substitutes.
        scorer: Looks at each of them.
        text: Turns the corpus's tokens into text.
        detector: What options call it.
    """

    def __init__(self, proposer: Annotator, scorer: SubstitutionScorer, text: TokenText, detector: str) -> None:
        self.detector = detector
        self.provenance = {**proposer.provenance, **{f"filter.{name}": v for name, v in scorer.provenance.items()}}
        self._proposer = proposer
        self._judge = scorer
        self._text = text

    def __call__(self, batch: RowBatch) -> Accepted:
        """List what both accept."""
        proposed = self._proposer(batch)
        if not len(proposed.rows):
            return proposed
        texts = [self._text(row.tolist()) for row in batch.input_ids]
        substitutions = []
        for row, column, token in zip(proposed.rows, proposed.columns, proposed.substitutes, strict=True):
            text = texts[row]
            start, end = text.starts[column], text.ends[column]
            substitutions.append(Substitution(text.text, start, end, self._text.surfaces[token].word))
        judged = self._judge.acceptance(substitutions)
        kept = judged >= 0.5
        credit = np.minimum(proposed.credit, judged)
        return Accepted(proposed.rows[kept], proposed.columns[kept], proposed.substitutes[kept], credit[kept])


class UnitedAnnotator:
    """What any of several annotators lists, with the most credit it has."""

    def __init__(self, parts: Sequence[Annotator], detector: str) -> None:
        self.detector = detector
        self.provenance = {
            f"{number}.{name}": value for number, part in enumerate(parts) for name, value in part.provenance.items()
        }
        self._parts = parts

    def __call__(self, batch: RowBatch) -> Accepted:
        """List what any part lists, once."""
        found = [part(batch) for part in self._parts]
        rows, columns, tokens, credit = (
            np.concatenate([np.asarray(getattr(part, name)) for part in found])
            for name in ("rows", "columns", "substitutes", "credit")
        )
        order = np.lexsort((-credit, tokens, columns, rows))
        keys = np.stack([rows, columns, tokens], 1)[order]
        is_first = np.ones(len(keys), bool)
        is_first[1:] = (keys[1:] != keys[:-1]).any(1)
        kept = order[is_first]
        return Accepted(rows[kept], columns[kept], tokens[kept], credit[kept])


def make_annotator(specification: str, tokenizer: PreTrainedTokenizerFast, resources: Resources) -> Annotator:
    """Make the annotator of a detector.

    ``lexical`` and ``prototypes:FILE`` list substitutes. Of ``a & b & …`` the first that lists does so, and the others
    judge what it lists: ``prototypes:FILE@0.5 & contextual:ENCODER & !antonym``. Of ``a | b`` each lists its own.

    Raises:
        ConfigError: for a detector that lists nothing, such as ``contextual`` by itself, which judges pair by pair.
        LexiconError, ModelError: if what it is made from is not there.
    """
    text = TokenText(tokenizer)

    def make(wanted: Specification, name: str) -> Annotator:
        if isinstance(wanted, Leaf):
            if wanted.name == "lexical":
                wanted.check(argument=False)
                return TableAnnotator(cached_table(tokenizer, wordnet=resources.wordnet or None), name)
            return _prototypes_annotator(wanted, tokenizer, text, resources, name)
        if wanted.operator == "|":
            return UnitedAnnotator([make(part, name) for part in wanted.parts], name)
        proposing = next(number for number, part in enumerate(wanted.parts) if _can_list(part))
        others = tuple(part for number, part in enumerate(wanted.parts) if number != proposing)
        rest = others[0] if len(others) == 1 else Combination("&", others)
        return FilteredAnnotator(make(wanted.parts[proposing], name), make_scorer(rest, resources), text, name)

    wanted = parse(specification)
    for leaf in leaves(wanted):
        if leaf.name not in SCORERS:
            raise ConfigError(unknown_name("detector", leaf.name, SCORERS))
    if not _can_list(wanted):
        raise ConfigError(
            f"--detector {specification} judges pair by pair: say what lists the pairs, as 'prototypes:FILE@0.5 & "
            f"{specification}' or 'lexical & {specification}'"
        )
    return make(wanted, specification)


def _can_list(wanted: Specification) -> bool:
    """Whether a specification says which substitutes there are at all."""
    if isinstance(wanted, Leaf):
        return wanted.name in ("lexical", "prototypes")
    if wanted.operator == "!":
        return False
    return (all if wanted.operator == "|" else any)(_can_list(part) for part in wanted.parts)


def _prototypes_annotator(
    leaf: Leaf, tokenizer: PreTrainedTokenizerFast, text: TokenText, resources: Resources, name: str
) -> PrototypesAnnotator:
    encoder, prototypes = load_pair(leaf, resources.device)
    return PrototypesAnnotator(
        RowReader(WholeTextReader(encoder), text),
        prototype_table(prototypes, tokenizer).numpy(),
        substitution_kinds(text.surfaces).numpy(),
        leaf.threshold_or(THRESHOLD),
        name,
        prototypes.provenance,
    )
