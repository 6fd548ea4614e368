"""Words that a masked language model proposes: BERT-Attack (Li et al. 2020) and BAE-R (Garg and Ramakrishnan 2020).

Candidates come from the model alone, without WordNet or word vectors. So antonyms are proposed, too: "good" and "bad"
fit the same contexts. ``strict`` excludes WordNet's antonyms, and words composed of several pieces, many of which do
not exist. The search is that of ``greedy``. Differences from the authors:

- BERT-Attack. Of the words that change the prediction, the one that lowers the label's probability most is chosen; the
  authors choose the first in the model's order and query no more: other texts and more queries, the same successes.
  Words of several pieces are ranked by the model's predictions at each piece in the text, not by perplexity without
  it. Their filter of antonyms, an option, uses counter-fitted vectors.
- BAE. Only its replacements, no insertions. A change is compared with the text before it, not with the original.
- Both. Stop words are neither replaced nor proposed, and a word is proposed only if the model's tokenizer would
  tokenize it that way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from trueneg.attacks.base import AdversarialExample, Attack, Progress
from trueneg.attacks.setup import AttackSetup
from trueneg.attacks.victim import Victim
from trueneg.attacks.word_substitution.greedy import GreedyOptions, Implementation, Place, greedy_attack, greedy_needs
from trueneg.attacks.word_substitution.textfooler import TEXTFOOLER_STOP_WORDS
from trueneg.attacks.words import WORDS, Passage, with_case_of
from trueneg.bounded_cache import BoundedCache
from trueneg.config.fields import option
from trueneg.config.options import ModelConfig
from trueneg.errors import ConfigError
from trueneg.lexicon.relations import Relations
from trueneg.models.backbone import max_length
from trueneg.models.loading import load_masked_lm, resolve_checkpoint
from trueneg.models.reading import Span, SpanReader, by_budget, padded
from trueneg.tasks.text import TextExample
from trueneg.tokenizer import load_tokenizer, special_ids

BERT_MASK = "[MASK]"

_PIECES_AT_ONCE = 512  # each with logits over the vocabulary: 60 MB in total


@dataclass(frozen=True, kw_only=True)
class MaskedLMOptions(GreedyOptions):
    """One of the ``PROFILES``, or a variation."""

    stop_words: frozenset[str] = TEXTFOOLER_STOP_WORDS
    ignores_case: bool = True
    importance: Implementation = "jin2019"
    unknown: str = BERT_MASK
    """Replaces a word to measure its importance (``jin2019``); for BERT's mask token, the victim's own is used."""
    part_of_speech: Literal["jin2019", "textattack", "any"] = "any"
    is_masked: bool = False
    """Whether the masked LM reads the current text with the word masked; else the original, including the word."""
    num_candidates: int = option(48, at_least=1)
    """Number of proposals per place, before those that are not words are removed."""
    max_pieces: int = option(12, at_least=1)
    """Maximum number of pieces of a word that is replaced without being masked; 1 avoids words that do not exist."""
    antonyms: bool = option(True, formerly=("opposites",))
    """Whether a word may be replaced by one of its antonyms in WordNet: "happy" by "unhappy" or "sad"."""
    max_changed: float = option(0.4, above=0, at_most=1)
    """Maximum share of words that may change, rounded down, but at least one word."""
    context: int = option(128, at_least=3)
    """Maximum number of tokens that the masked LM reads; of a longer text, those around the word."""


PROFILES: Mapping[str, MaskedLMOptions] = MappingProxyType(
    {
        "bert-attack": MaskedLMOptions(),
        "bae": MaskedLMOptions(
            importance="textattack",
            part_of_speech="textattack",
            is_masked=True,
            num_candidates=50,
            max_changed=1.0,
            max_angle=0.359,  # a cosine of 0.936
        ),
        "strict": MaskedLMOptions(max_pieces=1, antonyms=False),
    }
)
"""``bert-attack``: no limit on similarity unless an encoder is named. ``bae``: TextAttack's ``BAEGarg2019``.
``strict``: the first, with fewer changes of meaning."""


def make_masked_lm(setup: AttackSetup) -> Attack:
    """Replace words by proposals of a masked LM until a classifier errs (Li et al. 2020): --masked-lm FOLDER."""
    options = setup.options(PROFILES, greedy_needs(setup.config.encoder))
    checkpoint = setup.masked_lm
    # Proposals for a masked word ignore its meaning, so omitting the similarity limit must then be explicit.
    similarity = setup.similarity(is_optional=not options.is_masked)
    tagger = setup.tagger if options.part_of_speech != "any" else None
    relations = Relations(setup.wordnet) if not options.antonyms else None
    candidates = MaskedLMCandidates(checkpoint, options, relations, setup.device)

    def run(victim: Victim, examples: Sequence[TextExample], *, progress: Progress) -> list[AdversarialExample[Any]]:
        mask = victim.tokenizer.mask_token if options.unknown == BERT_MASK else None
        chosen = replace(options, unknown=mask) if mask else options
        return greedy_attack(
            victim, examples, candidates, options=chosen, tagger=tagger, similarity=similarity, progress=progress
        )

    return Attack(run, options, queries_victim=True)


class MaskedLMCandidates:
    """Candidates for a word, the most probable first.

    A word of several pieces is replaced by one with as many pieces; if it is masked, by one of a single piece. Words
    are proposed in the model's case; a lower-case one gets the case of the word that it replaces. The composition of a
    batch affects only the last digits of probabilities (about 1e-6).

    Args:
        source: A checkpoint with a masked-LM head: a run, a Hugging Face folder or a hub name; any fast tokenizer.
        options: Of the attack.
        relations: Source of antonyms; needed to exclude them.
        device: Device that it runs on.

    Raises:
        ConfigError: if antonyms are to be excluded and there is no source of them.
        ModelError: if the checkpoint has no such head.
    """

    def __init__(
        self,
        source: str,
        options: MaskedLMOptions = PROFILES["bert-attack"],
        relations: Relations | None = None,
        device: str = "cpu",
    ) -> None:
        if relations is None and not options.antonyms:
            raise ConfigError("antonyms=false: WordNet says which words are antonyms, and none was given")
        self._relations = relations
        self.options = options
        self._tokenizer = load_tokenizer(resolve_checkpoint(source))
        self._model = load_masked_lm(ModelConfig(start_from=source), self._tokenizer).to(device).eval()
        self._model.requires_grad_(False)
        self._reader = SpanReader(self._tokenizer, min(options.context, max_length(self._model.model)))
        self._mask = str(self._tokenizer.convert_ids_to_tokens(special_ids(self._tokenizer)["mask"]))  # type: ignore[arg-type]
        self._cache: BoundedCache[Span, list[tuple[int, ...]]] = BoundedCache(1 << 13)  # 40 MB
        self._word = lru_cache(maxsize=1 << 16)(self._word_of)

    def __call__(self, places: Sequence[Place]) -> list[list[str]]:
        """Propose words for each place."""
        open_places = [place for place in places if self._may_change(place)]
        spans = [self._span(place) for place in open_places]
        proposed = self._cache.look_up([*spans, *self._other_words(open_places, spans)], self._read_spans)
        words = iter([self._words(*pair) for pair in zip(open_places, proposed, strict=False)])
        return [next(words) if self._may_change(place) else [] for place in places]

    def _may_change(self, place: Place) -> bool:
        """Whether the limit on changes allows another change."""
        num_changed = len(place.current.changed_from(place.original))
        return num_changed < max(1, int(self.options.max_changed * len(place.original.attackable) + 1e-9))

    def _span(self, place: Place) -> Span:
        """The text that is read for a place, and the place's position in it."""
        if not self.options.is_masked:
            return _span_of(place.original, place.position)
        return _span_of(place.current.with_word(place.position, self._mask), place.position)

    def _other_words(self, places: Sequence[Place], spans: Sequence[Span]) -> list[Span]:
        """Other words of texts that are read now: they are needed later, and reading them now costs nothing extra."""
        if self.options.is_masked:
            return []
        passages = {place.original.text: place.original for place in places}
        read = {span[0] for span in spans if span not in self._cache}
        return [_span_of(passages[text], at) for text in passages if text in read for at in passages[text].attackable]

    def _read_spans(self, spans: Sequence[Span]) -> Iterator[list[tuple[int, ...]]]:
        rows: dict[str, list[tuple[Span, int, int]]] = {}
        for span in spans:
            text, start, end = self._reader.cut(span)
            rows.setdefault(text, []).append((span, start, end))
        found = dict(self._read(rows))
        return (found.get(span, []) for span in spans)  # a word without tokens has no candidates

    @torch.no_grad()
    def _read(
        self, rows: Mapping[str, Sequence[tuple[Span, int, int]]]
    ) -> Iterator[tuple[Span, list[tuple[int, ...]]]]:
        """The best tokens at the pieces of words, for the words of each text."""
        texts = list(rows)
        encoded = self._tokenizer(
            texts, return_offsets_mapping=True, truncation=True, max_length=self._reader.window, verbose=False
        )
        lengths = np.array([len(ids) for ids in encoded["input_ids"]])
        device = self._model.embeddings.device
        for chosen in by_budget(np.argsort(lengths, kind="stable"), lengths, device):
            ids, mask = padded([encoded["input_ids"][number] for number in chosen], self._tokenizer)
            given = {"input_ids": ids.to(device), "attention_mask": mask.to(device)}
            hidden = self._model.model.base_model(**given, return_dict=True).last_hidden_state
            pieces = [
                (span, [(line, at) for at in _between(start, end, encoded["offset_mapping"][number])])
                for line, number in enumerate(chosen.tolist())
                for span, start, end in rows[texts[number]]
            ]
            places = torch.tensor([place for _, found in pieces for place in found], dtype=torch.int64).view(-1, 2)
            best, scores = self._best(hidden[places[:, 0], places[:, 1]])
            first = 0
            for span, found in pieces:
                part = slice(first, first := first + len(found))
                is_short = len(found) <= self.options.max_pieces
                yield span, combinations(best[part], scores[part], self.options.num_candidates) if is_short else []

    def _best(self, hidden: torch.Tensor) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The best tokens for hidden states, and their log probabilities: ``[pieces, num_candidates]``."""
        known = len(self._tokenizer)  # a padded model has more rows than there are tokens
        num = min(self.options.num_candidates, known)
        logits = (self._model.logits(part)[:, :known].float() for part in hidden.split(_PIECES_AT_ONCE))
        parts = [part.log_softmax(-1).topk(num) for part in logits]
        scores, ids = (torch.cat([part[side] for part in parts]).cpu() for side in (0, 1))
        return ids.numpy(), scores.double().numpy()

    def _words(self, place: Place, proposed: Sequence[tuple[int, ...]]) -> list[str]:
        """Proposed tokens that form a word other than the one to replace."""
        text, start, _ = self._span(place)
        has_space = text[:start][-1:].isspace()
        words = [word for ids in proposed if (word := self._word(ids, has_space))]
        kept = [w for w in words if w.lower() != place.word.lower() and w.lower() not in self.options.stop_words]
        if self._relations is not None and not self.options.antonyms:
            kept = [w for w in kept if "opposite" not in self._relations.between(place.word, w)]
        return list(dict.fromkeys(with_case_of(word, place.word) if word.islower() else word for word in kept))

    def _word_of(self, ids: tuple[int, ...], has_space: bool) -> str:
        """The word that tokens form, after a space or not; empty if they form none, or only a part of one."""
        word = str(self._tokenizer.decode(list(ids))).strip()
        is_word = WORDS[self.options.words].fullmatch(word) and any(letter.isalpha() for letter in word)
        # In a tokenizer that marks spaces, pieces within longer words are those without one.
        if not is_word or len(self._ids(f" {word}")) != len(ids):
            return ""
        return word if self._ids(f" {word}" if has_space else word) == ids else ""

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"])


def combinations(ids: NDArray[np.int64], scores: NDArray[np.float64], num: int) -> list[tuple[int, ...]]:
    """Sequences with one token per place that have the highest sums of scores.

    Args:
        ids: Tokens at each place, ``[places, tokens]``.
        scores: Scores of these tokens, in the same shape.
        num: Maximum number of combinations.

    Returns:
        The best first; in case of ties, the one whose tokens come first. Empty for no places.

    Example:
        >>> combinations(np.array([[1, 2], [3, 4]]), np.array([[0.0, -1.0], [0.0, -3.0]]), 3)
        [(1, 3), (2, 3), (1, 4)]
    """
    found: list[tuple[int, ...]] = [()]
    sums = np.zeros(1)
    for there, theirs in zip(ids, scores, strict=True):
        longer = (sums[:, None] + theirs).ravel()
        order = np.argsort(-longer, kind="stable")[:num]
        found = [(*found[number // len(there)], int(there[number % len(there)])) for number in order.tolist()]
        sums = longer[order]
    return found if len(ids) else []


def _between(start: int, end: int, offsets: Sequence[tuple[int, int]]) -> list[int]:
    """Indices of the tokens that overlap these characters."""
    return [number for number, (first, last) in enumerate(offsets) if first < min(last, end) and last > start]


def _span_of(passage: Passage, position: int) -> Span:
    """The passage's text and the start and end of a word in it."""
    before = passage.gaps[0] + (passage.window(0, position) + passage.gaps[position] if position else "")
    return passage.text, len(before), len(before) + len(passage.words[position])
