"""Greedy word substitution: rank words by their importance to the victim, then replace one after another.

The search of TextFooler (Jin et al. 2020) as in two implementations of it, with any source of candidates. Where they
differ, an option selects which is followed: the authors' (https://github.com/jind11/TextFooler, ``jin2019``) or
TextAttack's (``TextFoolerJin2019`` of 0.3.11, ``textattack``).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from trueneg.attacks.base import AdversarialExample, check_options
from trueneg.attacks.victim import Classifier
from trueneg.attacks.word_substitution.batched_search import run_batched
from trueneg.attacks.word_substitution.part_of_speech import UniversalTagger, may_replace
from trueneg.attacks.word_substitution.similarity import Similarity
from trueneg.attacks.words import WORDS, AttackableTexts, Passage
from trueneg.config.fields import option
from trueneg.config.validation import Needs
from trueneg.errors import ConfigError, TaskError
from trueneg.lexicon.tagging import Tagger
from trueneg.tasks.text import TextExample

Implementation = Literal["jin2019", "textattack"]
"""Implementation of the search that is followed."""


@dataclass(frozen=True, kw_only=True)
class GreedyOptions:
    """How words are selected, replaced and filtered; by default as in TextAttack.

    Raises:
        ConfigError: if an option has no such value.
    """

    listed_as = "attack-options"  # by `trueneg list`

    words: Implementation = "textattack"
    """What a word is. ``textattack``: letters and digits, with hyphens, apostrophes and the like between them.
    ``jin2019``: the same without hyphens, contractions being two words and some punctuation marks one each."""
    attacked: AttackableTexts = "second"
    """Which texts of a pair may change: in NLI the hypothesis."""
    pair_is_context: bool = True
    """Whether the text that may not change is context for the other (``jin2019``: no)."""
    stop_words: frozenset[str] = frozenset()
    """Words that are not replaced."""
    ignores_case: bool = False
    """Whether stop words match regardless of case (``jin2019``, whose texts are all lower case: yes)."""
    importance: Implementation = "textattack"
    """A word's importance. ``textattack``: one minus the label's probability with the word deleted; queried for words
    that may change. ``jin2019``: the drop of the label's probability with the word replaced by ``unknown``, plus, if
    the prediction changes, the rise of the new label's probability; queried for every word."""
    unknown: str = "<oov>"
    """Replaces a word to measure its importance (``jin2019``)."""
    part_of_speech: Literal["textattack", "jin2019", "any"] = "textattack"
    """Whether a candidate must have the same part of speech, nouns and verbs being one. ``textattack``: both are tagged
    within four words before and three after from the original; if a word repeats there, its first occurrence counts.
    ``jin2019``: the word is tagged in the original; the candidate in the current text, if this has more than ten words
    within four on either side."""
    max_angle: float = option(0.5, at_least=0)
    """Maximum angle between the window's vectors before and after a change, in radians; ``jin2019``'s similarity of 0.5
    is 1 - 0.5, and ``textattack``'s of 0.8408 is 1 - 0.5 / pi."""
    max_angle_short: float = option(math.pi, at_least=0)
    """The same for texts with fewer words than the window; pi means no limit and no encoding (``jin2019``: 0.9)."""
    window: int = option(15, at_least=1)
    """Number of words in the window, which is compared with the text before this change."""
    steps: Implementation = "textattack"
    """How a candidate is chosen. ``textattack``: the one with the lowest probability of the label, if that is lower
    than before; if it and the next ones in this order change the prediction, the most similar of these.
    ``jin2019``: the most similar of all that change the prediction; if none does, the one with the lowest probability
    of the label, if that is lower than for the original."""
    counts_filtered: bool = False
    """Whether candidates that a filter drops count as queries. The authors query all and filter afterwards, with the
    same results: a candidate that is filtered out is never chosen."""
    counts_skipped: bool = True
    """Whether the single query for an example that the victim already misclassifies counts."""

    def __post_init__(self) -> None:
        check_options(self)

    def described(self) -> dict[str, Any]:
        """The options as JSON, with stop words as their number and digest."""
        digest = hashlib.sha256(" ".join(sorted(self.stop_words)).encode()).hexdigest()[:16]
        return {**asdict(self), "stop_words": f"{len(self.stop_words)} words, {digest}"}


def greedy_needs(encoder: str) -> Needs:
    """Options that have no effect without others, given the encoder that was named."""
    needs: Needs = (
        (
            ("unknown",),
            lambda options: options.importance == "jin2019",
            "where a word's importance is that of deleting it: choose importance=jin2019, or leave it out",
        ),
        (
            ("max_pieces",),
            lambda options: not options.is_masked,
            "where the word is masked, which one token replaces: leave it out",
        ),
    )
    if encoder not in ("", "none"):
        return needs
    remedy = "where nothing measures how similar texts are: name an --encoder, or leave it out"
    return (*needs, (("max_angle", "max_angle_short", "window"), lambda options: False, remedy))


class Candidates(Protocol):
    """Proposes replacements for words; the search filters them."""

    def __call__(self, places: Sequence[Place]) -> Sequence[Sequence[str]]:
        """Propose words for each place, best first, in the case in which they are to be written.

        Proposals for a place must not depend on the other places. The word itself is removed afterwards.
        """


@dataclass(frozen=True)
class Place:
    """A word of an example under attack, for which candidates are needed."""

    original: Passage
    current: Passage
    """The text with the replacements so far; the word itself is not replaced yet."""
    position: int

    @property
    def word(self) -> str:
        """The word at this position."""
        return self.original.words[self.position]


@dataclass(frozen=True)
class _Query:
    """Query for the victim's predictions."""

    texts: Sequence[Passage]


@dataclass(frozen=True)
class _Tag:
    """Query for the parts of speech of words."""

    sentences: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class _Compare:
    """Query for the angles between texts and a reference."""

    reference: str
    texts: Sequence[str]


_Search = Generator[Any, Any, AdversarialExample[TextExample]]


def greedy_attack(
    victim: Classifier,
    examples: Sequence[TextExample],
    candidates: Candidates,
    *,
    options: GreedyOptions,
    tagger: Tagger | None = None,
    similarity: Similarity | None = None,
    at_once: int = 32,
    progress: Callable[[int, int], None] | None = None,
) -> list[AdversarialExample[TextExample]]:
    """Attack examples by replacing words.

    An example's result depends only on the example, the options, and the answers of victim, tagger, similarity and
    candidates; examples are attacked concurrently so that these get larger batches.

    Args:
        victim: The model.
        examples: Texts, or pairs of texts, with labels of the victim's.
        candidates: Source of replacements.
        options: Of the search.
        tagger: Needed unless ``options.part_of_speech`` is "any".
        similarity: None for no limit on similarity: all candidates are then equally similar.
        at_once: Number of examples that are attacked concurrently. More is faster; but the last digits of a model's
            outputs depend on the batch, so a near tie may be decided differently (one text of 200 at 8, none at 32 or
            on AG's). With 1, only the example itself matters.
        progress: Called after each example with the number done, and the total.

    Returns:
        One adversarial example each, in order. ``notes`` has ``changed``, ``[place, old, new]`` for each word that was
        replaced, and ``predicted``, the label that the victim predicts for the result. An example that the victim
        misclassifies is ``skipped``; one with nothing to replace has ``failed``.

    Raises:
        TaskError: for an example without a label, or with one that the victim does not have.
        ConfigError: if a tagger is needed and there is none.
    """
    for example in examples:
        _check_label(example, victim.num_labels)
    if tagger is None and options.part_of_speech != "any":
        raise ConfigError("no tagger to tell parts of speech: give one, or part_of_speech='any'")
    tag = UniversalTagger(tagger) if tagger else None

    def ask(queries: Sequence[_Query]) -> list[NDArray[np.float64]]:
        rows = victim.probabilities([passage.to_example() for query in queries for passage in query.texts])
        return _parted(rows, [len(query.texts) for query in queries])

    def tagged(queries: Sequence[_Tag]) -> list[Sequence[tuple[str, ...]]]:
        assert tag is not None
        found = tag([sentence for query in queries for sentence in query.sentences])
        return _parted(found, [len(query.sentences) for query in queries])

    def compare(queries: Sequence[_Compare]) -> list[NDArray[np.float64]]:
        assert similarity is not None
        found = similarity([(query.reference, text) for query in queries for text in query.texts])
        return _parted(found, [len(query.texts) for query in queries])

    return run_batched(
        (_search(example, options, similarity is not None) for example in examples),
        {Place: candidates, _Tag: tagged, _Compare: compare, _Query: ask},
        at_once=at_once,
        progress=None if progress is None else lambda done: progress(done, len(examples)),
    )


def _check_label(example: TextExample, num_labels: int) -> None:
    label = example.label
    if label is None:
        raise TaskError(
            f"'{example.key}' has no label, so nothing says when an attack succeeds: attack a labelled split"
        )
    if not isinstance(label, int) or not 0 <= label < num_labels:
        raise TaskError(
            f"'{example.key}' has the label {label}, and the victim knows 0 to {num_labels - 1}: attack a "
            f"model of this task"
        )


def _search(example: TextExample, options: GreedyOptions, has_similarity: bool) -> _Search:
    """Attack one example."""
    original = current = Passage.of(
        example, WORDS[options.words], options.attacked, is_alone=not options.pair_is_context
    )
    label = cast(int, example.label)
    (at_first,) = yield _Query([original])
    if (predicted := int(at_first.argmax())) != label:
        return AdversarialExample(
            example, example, "skipped", int(options.counts_skipped), _notes(original, original, predicted)
        )
    order, num_queries = yield from _ranked(original, label, at_first, options)
    num_queries += 1
    before = at_first
    for position in order:
        proposed = yield Place(original, current, position)
        words = [word for word in proposed if word != current.words[position]]
        kept = yield from _fit(original, current, position, words, options)
        num_queries += len(words) if options.counts_filtered else 0
        kept, angles = yield from _similar(current, position, kept, options, has_similarity)
        num_queries += 0 if options.counts_filtered else len(kept)
        if not kept:
            continue
        texts = [current.with_word(position, word) for word in kept]
        rows = yield _Query(texts)
        choose = _textattack_step if options.steps == "textattack" else _jin_step
        chosen = choose(rows, label, angles, at_first, before, texts)
        if chosen is None:
            continue
        current, before = texts[chosen], rows[chosen]
        if (predicted := int(before.argmax())) != label:
            notes = _notes(original, current, predicted)
            return AdversarialExample(example, current.to_example(), "succeeded", num_queries, notes)
    return AdversarialExample(example, current.to_example(), "failed", num_queries, _notes(original, current, label))


def _ranked(
    original: Passage, label: int, at_first: NDArray[np.float64], options: GreedyOptions
) -> Generator[Any, Any, tuple[list[int], int]]:
    """Positions of words that may change, the most important first, and the number of queries used."""
    places = [place for place in original.attackable if not _is_stop_word(original.words[place], options)]
    if options.importance == "textattack":
        rows = (yield _Query([original.without(place) for place in places])) if places else np.zeros((0, len(at_first)))
        importance = 1 - rows[:, label]
        return [places[number] for number in np.argsort(-importance, kind="stable")], len(places)
    hidden = list(original.attackable)
    rows = (
        (yield _Query([original.with_word(place, options.unknown) for place in hidden])) if hidden else np.zeros((0, 1))
    )
    importance = {place: _loss(row, label, at_first) for place, row in zip(hidden, rows, strict=True)}
    return sorted(places, key=lambda place: -importance[place]), len(hidden)


def _loss(row: NDArray[np.float64], label: int, at_first: NDArray[np.float64]) -> float:
    """Importance of a word as in the authors' code, from the probabilities without and with it."""
    predicted = int(row.argmax())
    rise = row[predicted] - at_first[predicted] if predicted != label else 0.0
    return float(at_first[label] - row[label] + rise)


def _is_stop_word(word: str, options: GreedyOptions) -> bool:
    return (word.lower() if options.ignores_case else word) in options.stop_words


def _fit(
    original: Passage, current: Passage, position: int, words: Sequence[str], options: GreedyOptions
) -> Generator[Any, Any, list[str]]:
    """Keep the words with the right part of speech."""
    if options.part_of_speech == "any" or not words:
        return list(words)
    if options.part_of_speech == "textattack":
        left, right = original.words[max(position - 4, 0) : position], original.words[position + 1 : position + 4]
        all_words = (original.words[position], *words)
        sentences = [(*left, word, *right) for word in all_words]
        # If the word occurs twice in its context, TextAttack uses the first.
        places = [sentence.index(word) for sentence, word in zip(sentences, all_words, strict=True)]
    else:
        is_long = len(current.words) > 10
        start, stop = (max(position - 4, 0), position + 5) if is_long else (0, len(current.words))
        left, right = current.words[start:position], current.words[position + 1 : stop]
        sentences = [original.words, *((*left, word, *right) for word in words)]
        places = [position, *[position - start] * len(words)]
    tags = yield _Tag(sentences)
    old, *new = (sentence[place] for sentence, place in zip(tags, places, strict=True))
    return [word for word, part in zip(words, new, strict=True) if may_replace(old, part)]


def _similar(
    current: Passage, position: int, words: list[str], options: GreedyOptions, has_similarity: bool
) -> Generator[Any, Any, tuple[list[str], NDArray[np.float64]]]:
    """Keep the words that leave the text around them similar, with their angles."""
    is_short = len(current.words) < options.window
    limit = options.max_angle_short if is_short else options.max_angle
    if not words or not has_similarity or limit >= math.pi:
        return words, np.zeros(len(words))
    start, stop = _window(position, len(current.words), options)
    texts = [current.with_word(position, word).window(start, stop) for word in words]
    angles = yield _Compare(current.window(start, stop), texts)
    is_similar = angles <= limit
    return [word for word, similar in zip(words, is_similar, strict=True) if similar], angles[is_similar]


def _window(position: int, length: int, options: GreedyOptions) -> tuple[int, int]:
    """The first word of the window around a word, and the one after its last."""
    half = (options.window - 1) // 2
    if position < half:
        return 0, min(options.window, length)
    if position + half >= length:
        start = length - options.window
        # In the authors' code a negative start counts from the end of a short text.
        return max(0, start + (length if start < 0 and options.steps == "jin2019" else 0)), length
    return position - half, position + half + 1


def _textattack_step(
    rows: NDArray[np.float64],
    label: int,
    angles: NDArray[np.float64],
    at_first: NDArray[np.float64],
    before: NDArray[np.float64],
    texts: Sequence[Passage],
) -> int | None:
    """Index of the candidate that is chosen, if any."""
    alphabetic = sorted(range(len(texts)), key=lambda number: texts[number].text)
    order = sorted(alphabetic, key=lambda number: rows[number, label])
    if rows[order[0], label] >= before[label]:
        return None
    flipping = []
    for number in order:
        if rows[number].argmax() == label:
            break
        flipping.append(number)
    return min(flipping, key=lambda number: angles[number], default=order[0])


def _jin_step(
    rows: NDArray[np.float64],
    label: int,
    angles: NDArray[np.float64],
    at_first: NDArray[np.float64],
    before: NDArray[np.float64],
    texts: Sequence[Passage],
) -> int | None:
    """Index of the candidate that is chosen, if any."""
    flipping = np.flatnonzero(rows.argmax(axis=1) != label)
    if len(flipping):
        return int(flipping[angles[flipping].argmin()])
    lowest = int(rows[:, label].argmin())
    return lowest if rows[lowest, label] < at_first[label] else None


def _parted(rows: Any, sizes: Sequence[int]) -> list[Any]:
    """Split rows into parts of these sizes."""
    ends = np.cumsum(sizes).tolist()
    return [rows[end - size : end] for end, size in zip(ends, sizes, strict=True)]


def _notes(original: Passage, current: Passage, predicted: int) -> dict[str, Any]:
    return {"changed": current.changed_from(original), "predicted": predicted}
