"""CLINE's views: words of a text replaced by ones that keep its meaning, and by ones that do not (section 3.1).

All draws are functions of a row's key, so that a new process can reproduce a view.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from trueneg.config.objective_options import ViewsConfig
from trueneg.corruption import keyed
from trueneg.corruption.views.batch import ANTONYM, KEPT, SYNONYM, View
from trueneg.corruption.views.replacement_table import ReplacementTable
from trueneg.corruption.views.rewriting import Words, choose_by_share, hashes_of, rewrite, tokens_of, words_of
from trueneg.corruption.views.word_pieces import Articles, Names, WordPieces
from trueneg.lexicon.replacements import KINDS, Kind
from trueneg.lexicon.tags import PENN

Ints = NDArray[np.int64]

MEANING = ("synonym", "hypernym", "inflection")
"""Kinds of replacement that keep the meaning, as ``ViewsConfig.synonym_kinds`` names them."""


@dataclass(frozen=True)
class Lists:
    """Candidates of one kind: those of entry ``e`` are ``forms[starts[e] : starts[e] + sizes[e]]``."""

    starts: Ints
    """``[entries]``."""
    sizes: Ints
    """``[entries]``."""
    forms: Ints
    """Numbers of forms."""


class Candidates(Protocol):
    """What may replace a form with a tag."""

    def entries(self, forms: Ints, tags: NDArray[np.uint8]) -> Ints:
        """Number of the entry of each form (-1 for none) and tag; -1 for a word without replacements."""

    @property
    def meaning(self) -> tuple[Lists, ...]:
        """Words that keep the meaning, one ``Lists`` for each of ``MEANING``."""

    @property
    def antonyms(self) -> Lists:
        """Words that reverse the meaning."""

    @property
    def random(self) -> Lists:
        """Words with an unrelated meaning."""

    @property
    def digest(self) -> str:
        """Digest of all of them: the same digest means the same replacements."""


class TableCandidates:
    """A corpus's compiled replacements as ``Candidates``."""

    def __init__(self, table: ReplacementTable) -> None:
        forms = table.candidates.astype(np.int64)
        lists = {
            kind: Lists(offsets[:-1], np.diff(offsets), forms)
            for kind, offsets in zip(KINDS, table.offsets, strict=True)
        }
        self.meaning = tuple(lists[kind] for kind in (Kind.SYNONYM, Kind.HYPERNYM, Kind.INFLECTION))
        self.antonyms, self.random, self.digest = lists[Kind.ANTONYM], lists[Kind.RANDOM], table.digest
        # One lookup per word instead of a search in the table. The last row is for no form.
        self._rows = np.full((len(table.text_offsets), len(PENN)), -1, dtype=np.int32)
        self._rows[table.row_forms, table.row_tags] = np.arange(len(table))

    def entries(self, forms: Ints, tags: NDArray[np.uint8]) -> Ints:
        """Rows of the table."""
        return np.take(self._rows, forms * len(PENN) + tags, mode="wrap").astype(np.int64)


@dataclass(frozen=True)
class TextRows:
    """Rows of text as read from a corpus. Shapes: ``[rows, length]``, except ``keys``."""

    input_ids: Ints
    segments: NDArray[np.int32]
    is_word_start: NDArray[np.bool_]
    is_special: NDArray[np.bool_]
    tags: NDArray[np.uint8]
    keys: torch.Tensor
    """int64 ``[rows]``: keys of the random draws."""
    is_packed: bool


class ViewGenerator:
    """Makes both views of rows.

    Args:
        candidates: What may replace what.
        pieces: Token ids of the candidates' forms.
        config: How much is replaced.
        pad_id: The tokenizer's padding token.
        articles: Makes the article before a replaced word agree; None to leave articles as they are.
        names: Finds words to keep because they are part of a name; None to keep only those that the tagger finds.
    """

    def __init__(
        self,
        candidates: Candidates,
        pieces: WordPieces,
        config: ViewsConfig,
        pad_id: int,
        articles: Articles | None = None,
        names: Names | None = None,
    ) -> None:
        self.candidates, self.pieces, self.config, self.pad_id = candidates, pieces, config, pad_id
        self.articles, self.names = articles, names

    def views(self, rows: TextRows) -> tuple[View, View]:
        """The synonym view and the antonym view.

        A word is replaced as a whole, whatever its number of pieces, and keeps its capitalisation. About
        ``synonym_share`` and ``antonym_share`` of a row's tokens are replaced, as far as there are candidates; antonyms
        come before random words. An article that changes with the word after it counts as kept: it is grammar, not a
        replacement.
        """
        length = rows.input_ids.shape[1]
        # A tokenizer's word may contain punctuation, which has no tag: "(cat)," in SentencePiece.
        is_tagged = (rows.tags > 0) & ~rows.is_special
        after_other = np.zeros_like(is_tagged)
        # A row may begin with the rest of a word of the previous row.
        after_other[:, 1:] = ~is_tagged[:, :-1] & ~rows.is_special[:, :-1]
        # A word at the end of a full row may continue in the next one.
        is_cut = np.zeros_like(is_tagged)
        is_cut[:, length - 2] = True
        words = words_of(is_tagged & (rows.is_word_start | after_other), ~is_tagged, is_cut)
        hashes = hashes_of(rows.input_ids.ravel(), words.line * length + words.start, words.size)
        forms, variants = self.pieces.find(hashes)
        entries = self.candidates.entries(forms, rows.tags[words.line, words.start])
        known = entries >= 0
        if self.names is not None:
            known &= ~self.names.among(rows.input_ids, words)
        found = _Found(words.where(known), entries[known], variants[known], rows)
        return self._synonym_view(found), self._antonym_view(found)

    def _synonym_view(self, found: _Found) -> View:
        words, wanted_kinds = found.words, self.config.synonym_kinds.split("+")
        kinds = [lists for name, lists in zip(MEANING, self.candidates.meaning, strict=True) if name in wanted_kinds]
        sizes = np.stack([kind.sizes[found.entries] for kind in kinds], axis=1)
        draw = found.draws(keyed.SYNONYM_KINDS, by_row=self.config.kinds == "one")
        if self.config.kinds == "one":
            wanted = np.floor(draw * len(kinds)).astype(np.int64)
            sizes[np.arange(len(kinds)) != wanted[:, None]] = 0
        num_kinds = (sizes > 0).sum(axis=1)
        is_candidate = num_kinds > 0
        is_chosen = found.choose(is_candidate, found.draws(keyed.SYNONYM_WORDS), self.config.synonym_share)
        # The n-th of the kinds for which the word has candidates.
        nth = np.floor(draw * num_kinds).astype(np.int64) if self.config.kinds == "mixed" else np.zeros_like(num_kinds)
        kind = (np.cumsum(sizes > 0, axis=1) > nth[:, None]).argmax(axis=1)
        forms = np.full(len(words.line), -1, dtype=np.int64)
        choice = found.draws(keyed.SYNONYM_CHOICES)
        for number, lists in enumerate(kinds):
            own = is_chosen & (kind == number)
            forms[own] = _pick(lists, found.entries[own], choice[own])
        return self._rewritten(found, forms, is_candidate, SYNONYM)

    def _antonym_view(self, found: _Found) -> View:
        antonyms, random = self.candidates.antonyms, self.candidates.random
        has_antonym = antonyms.sizes[found.entries] > 0
        has_random = (random.sizes[found.entries] > 0) & (self.config.random != "none")
        if self.config.antonym_kinds == "one":
            is_random = found.draws(keyed.ANTONYM_KINDS, by_row=True) >= 0.5
            is_random |= ~np.isin(found.words.line, found.words.line[has_antonym])
            has_antonym, has_random = has_antonym & ~is_random, has_random & is_random
        is_candidate = has_antonym | has_random
        order = found.draws(keyed.ANTONYM_WORDS) + ~has_antonym
        is_chosen = found.choose(is_candidate, order, self.config.antonym_share)
        forms, choice = np.full(len(order), -1, dtype=np.int64), found.draws(keyed.ANTONYM_CHOICES)
        for lists, own in ((antonyms, is_chosen & has_antonym), (random, is_chosen & ~has_antonym)):
            forms[own] = _pick(lists, found.entries[own], choice[own])
        return self._rewritten(found, forms, is_candidate, ANTONYM)

    def _rewritten(self, found: _Found, forms: Ints, is_candidate: NDArray[np.bool_], label: int) -> View:
        """Rows with words replaced by ``forms``; -1 keeps a word."""
        rows, words = found.rows, found.words
        sizes = np.where(forms < 0, 0, self.pieces.sizes[forms, found.variants])
        new = sizes > 0
        place = self.pieces.starts[forms[new], found.variants[new]]
        replaced = words.where(new)
        input_ids = rows.input_ids
        if self.articles is not None:
            input_ids = self.articles.agreeing(input_ids, rows.tags, replaced, forms[new])
        written = rewrite(input_ids, rows.segments, replaced, self.pieces.pieces, place, sizes[new], self.pad_id)
        candidates = words.where(is_candidate)
        is_candidate_at = tokens_of(candidates, rows.input_ids.shape)
        is_text = written.source >= 0
        first = np.arange(len(is_text))[:, None] * is_text.shape[1]
        return View(
            torch.from_numpy(written.input_ids),
            torch.from_numpy(written.segments.astype(np.int64)),
            torch.from_numpy(np.where(written.is_replaced, label, KEPT)),
            torch.from_numpy(np.take(is_candidate_at, first + written.source, mode="wrap") & is_text),
            is_packed=rows.is_packed,
            source=torch.from_numpy(written.source),
            num_cut=torch.from_numpy(written.num_cut),
        )


@dataclass(frozen=True)
class _Found:
    """Words of rows that have replacements."""

    words: Words
    entries: Ints
    variants: Ints
    rows: TextRows

    def draws(self, stream: int, by_row: bool = False) -> NDArray[np.float64]:
        """A random number in [0, 1) for each word, from the row's key and the word's column, or from the key alone."""
        numbers = keyed.uniform(self.rows.keys, stream, self.rows.input_ids.shape[1]).numpy()
        columns = np.zeros_like(self.words.start) if by_row else self.words.start
        found: NDArray[np.float64] = numbers[self.words.line, columns].astype(np.float64)
        return found

    def choose(self, is_candidate: NDArray[np.bool_], order: NDArray[np.float64], share: float) -> NDArray[np.bool_]:
        """Choose candidates in order, until they are a share of the row's tokens."""
        wanted = np.rint(share * (~self.rows.is_special).sum(axis=1)).astype(np.int64)
        words, chosen = self.words, np.zeros(len(is_candidate), dtype=bool)
        line, size = words.line[is_candidate], words.size[is_candidate]
        chosen[is_candidate] = choose_by_share(line, size, order[is_candidate], wanted)
        return chosen


def _pick(lists: Lists, entries: Ints, draw: NDArray[np.float64]) -> Ints:
    """Pick one form of each entry's list, by a random number in [0, 1)."""
    within = np.floor(draw * lists.sizes[entries]).astype(np.int64)
    forms: Ints = lists.forms[lists.starts[entries] + within]
    return forms
