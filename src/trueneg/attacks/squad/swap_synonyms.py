"""SwapSynWordNet: words of a context are replaced by synonyms, and all answers are kept (TextFlint, Gui et al. 2021).

Written from a description of TextFlint's behaviour, without its code. :meth:`SwapOptions.textflint` behaves as
described, with these differences: it uses our tagger and our list of stop words instead of spaCy's tags and a list
of 55 words; and the synonym is drawn with the seed, where TextFlint depends on the order of Python's hashes, which
differs between processes.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Literal

from trueneg.attacks.base import AdversarialExample, Attack, check_options
from trueneg.attacks.setup import AttackSetup
from trueneg.attacks.squad.edits import Edit, edited_context, example_randomness, is_in_answer, reason_not_attackable
from trueneg.attacks.squad.sense_frequencies import SenseFrequencies
from trueneg.config.fields import option
from trueneg.config.validation import Needs
from trueneg.lexicon.articles import agreeing_article
from trueneg.lexicon.replacements import Kind, ReplacementOptions, Replacements
from trueneg.lexicon.stopwords import STOP_WORDS
from trueneg.lexicon.surface import casing
from trueneg.lexicon.tagging import Tagger, tag_text
from trueneg.lexicon.tags import PENN, coarse
from trueneg.lexicon.wordnet import WordNet
from trueneg.tasks.squad_reading import SquadExample

SwapProfile = Literal["strict", "textflint"]
_BEFORE_NOUNS = frozenset(["DT", "JJ", "JJR", "JJS", "PRP$", "POS", "CD"])


@dataclass(frozen=True)
class SwapOptions:
    """How words are replaced by synonyms.

    Raises:
        ConfigError: if an option has no such value.
    """

    listed_as = "attack-options"  # by `trueneg list`

    profile: SwapProfile = "strict"
    """strict (ours) requires that word and synonym share the usual meaning of both, and that the synonym is not much
    rarer, not an antonym in another meaning and not just another spelling; names, parts of compounds and fixed
    expressions are kept, and "a" and "an" are adjusted. textflint uses any lemma of any meaning, as written in WordNet,
    including other capitalizations of the word itself, but no lemmas of satellite adjectives. Set by ``--profile``."""
    share: float = option(0.1, above=0, at_most=1)
    """Share of the words and punctuation marks of the context that is swapped."""
    max_swaps: int = option(10, at_least=1, formerly=("most",))
    """Maximum number of swaps. At least one word is swapped, if possible."""
    min_share: float = option(0.65, at_least=0, at_most=1)
    """Minimum share of the first meaning among a word's occurrences in WordNet's tagged text, for both the word and its
    synonym; counts of all meanings are smoothed by adding one half (``strict`` only)."""
    min_ratio: float = option(0.2, at_least=0, at_most=1)
    """Minimum count of a synonym there, as a share of the count of the word; at least one occurrence (``strict``
    only)."""
    agree: bool = True
    """Whether a synonym is inflected like the word it replaces (``strict`` only)."""
    num_candidates: int = option(2, at_least=0)
    """Number of synonyms of a word to draw from, most frequent meaning first; 0 for all."""

    def __post_init__(self) -> None:
        check_options(self)

    @classmethod
    def textflint(cls) -> SwapOptions:
        """Options that follow TextFlint."""
        return cls(profile="textflint", agree=False, num_candidates=0)


PROFILES: Mapping[str, SwapOptions] = MappingProxyType({"strict": SwapOptions(), "textflint": SwapOptions.textflint()})
_NEEDS: Needs = (
    (("profile",), lambda options: False, "but change a name: choose a profile with --profile"),
    (
        ("min_share", "min_ratio", "agree"),
        lambda options: options.profile == "strict",
        "but for --profile strict: choose it, or leave it out",
    ),
)


def make_swap_synonyms(setup: AttackSetup) -> Attack:
    """Replace words of a SQuAD context by synonyms from WordNet (TextFlint's SwapSynWordNet)."""
    options = setup.options(PROFILES, _NEEDS)
    seed = setup.seed
    run = partial(swap_synonyms, seed=seed, wordnet=setup.wordnet, tagger=setup.tagger, options=options)
    return Attack(run, options, ("squad",))


def swap_synonyms(
    examples: Sequence[SquadExample],
    *,
    seed: int,
    wordnet: WordNet,
    tagger: Tagger,
    options: SwapOptions | None = None,
) -> list[AdversarialExample[SquadExample]]:
    """Swap words of contexts for synonyms; questions, answers and all other text are kept byte for byte.

    Words of any answer are not changed anywhere in the context, and no word becomes one of them.

    Args:
        examples: examples to attack.
        seed: determines, together with the key of an example, which words and synonyms are drawn.
        wordnet: source of synonyms.
        tagger: part-of-speech tagger.
        options: how words are replaced.

    Returns:
        One for each example: ``changed``, with the words in ``notes["swaps"]`` as ``[start, old, new]``, where
        ``start`` is in the original context; or ``unchanged``, with a ``reason``.

    Raises:
        LexiconError: if WordNet lacks the sense counts that "strict" needs.
    """
    options = options or SwapOptions()
    swapper = _Swapper(wordnet, options)
    read: dict[str, list[_Word]] = {}  # consecutive questions share a paragraph
    found = []
    for example in examples:
        if reason := reason_not_attackable(example):
            found.append(AdversarialExample(example, example, "unchanged", notes={"reason": reason}))
            continue
        if example.context not in read:
            read = {example.context: _words(example.context, tagger)}
        found.append(swapper.swap(example, read[example.context], example_randomness(seed, example.key)))
    return found


@dataclass(frozen=True, slots=True)
class _Word:
    start: int
    end: int
    text: str
    tag: str


def _words(text: str, tagger: Tagger) -> list[_Word]:
    tagged = tag_text(text, tagger)
    places = zip(tagged.starts.tolist(), tagged.ends.tolist(), tagged.tags.tolist(), strict=True)
    return [_Word(start, end, text[start:end], PENN[tag]) for start, end, tag in places]


class _Swapper:
    """The synonyms of words in a context, under some options."""

    def __init__(self, wordnet: WordNet, options: SwapOptions) -> None:
        self._wordnet = wordnet
        self._options = options
        self._lemmas: dict[tuple[str, str], tuple[str, ...]] = {}
        self._synonyms: Callable[[Sequence[_Word], int, str], tuple[str, ...]] = self._any_lemma
        if options.profile == "strict":
            self._replacements = Replacements(wordnet, ReplacementOptions(min_share=1.0, agree=options.agree))
            self._usual = SenseFrequencies(wordnet)
            self._synonyms = self._close_synonyms

    def swap(
        self, example: SquadExample, words: Sequence[_Word], randomness: random.Random
    ) -> AdversarialExample[SquadExample]:
        context, options = example.context, self._options
        protected = _answer_words(example)
        found = {
            at: candidates
            for at, word in enumerate(words)
            if word.text.isalnum()
            and word.text.casefold() not in protected
            and not is_in_answer(word.start, word.end, example)
            if (candidates := self._admitted(words, at, context, protected, example))
        }
        if not found:
            return AdversarialExample(example, example, "unchanged", notes={"reason": "no word has a synonym"})
        num = max(1, min(options.max_swaps, int(options.share * len(words))))
        edits: list[Edit] = []
        swaps = []
        for at in sorted(randomness.sample(sorted(found), min(num, len(found)))):
            word, new = words[at], randomness.choice(found[at])
            edits += [*_article_edit(words, at, new, options), Edit(word.start, word.end, new)]
            swaps.append([word.start, word.text, new])
        return AdversarialExample(example, edited_context(example, edits), "changed", notes={"swaps": swaps})

    def _admitted(
        self, words: Sequence[_Word], at: int, context: str, protected: frozenset[str], example: SquadExample
    ) -> tuple[str, ...]:
        """Permitted synonyms of a word: no word of an answer, and none that requires an edit within an answer."""
        candidates = tuple(c for c in self._synonyms(words, at, context) if c.casefold() not in protected)
        if at and self._options.profile == "strict" and is_in_answer(words[at - 1].start, words[at - 1].end, example):
            candidates = tuple(c for c in candidates if not _article_edit(words, at, c, self._options))
        return candidates[: self._options.num_candidates or None]

    def _close_synonyms(self, words: Sequence[_Word], at: int, context: str) -> tuple[str, ...]:
        word = words[at]
        if not word.text.isalpha() or _is_joined(word, context):
            return ()
        if self._is_name(words, at) or self._may_be_verb(words, at):
            return ()
        form = word.text.lower()
        if (form, word.tag) not in self._lemmas:
            self._lemmas[form, word.tag] = tuple(self._usual_synonyms(form, word.tag))
        candidates = self._lemmas[form, word.tag]
        if not candidates or self._in_expression(words, at):
            return ()
        return tuple(map(str.capitalize, candidates)) if casing(word.text) == "title" else candidates

    def _usual_synonyms(self, form: str, tag: str) -> Iterator[str]:
        pos, min_share, usual = coarse(tag), self._options.min_share, self._usual
        readings = self._replacements.readings(form, tag)
        if not pos or not all(usual.is_settled(base, pos, min_share) for base in readings):
            return
        min_count = max(1, self._options.min_ratio * usual.count(form, pos))
        for synonym in self._replacements.of(form, tag).get(Kind.SYNONYM, ()):
            bases = self._wordnet.morphy(synonym, pos)
            if usual.count(synonym, pos) >= min_count and all(usual.is_settled(base, pos, min_share) for base in bases):
                yield synonym

    def _any_lemma(self, words: Sequence[_Word], at: int, context: str) -> tuple[str, ...]:
        word = words[at]
        if word.text.lower() in STOP_WORDS:
            return ()
        if (word.text, word.tag) not in self._lemmas:
            synsets = self._wordnet.synsets(word.text, coarse(word.tag) or None)
            # A satellite's part of speech is "s", which differs from the "a" of a tag.
            kept = (synset for synset in synsets if not (synset.is_satellite and coarse(word.tag)))
            lemmas = dict.fromkeys(lemma for synset in kept for lemma in synset.lemmas)
            self._lemmas[word.text, word.tag] = tuple(x for x in lemmas if x != word.text and " " not in x)
        return self._lemmas[word.text, word.tag]

    def _is_name(self, words: Sequence[_Word], at: int) -> bool:
        """Whether a word is capitalized other than at the beginning of a sentence."""
        if casing(words[at].text) == "lower":
            return False
        return casing(words[at].text) != "title" or (at > 0 and words[at - 1].text not in tuple(".?!"))

    def _may_be_verb(self, words: Sequence[_Word], at: int) -> bool:
        """Whether a word tagged as a noun could be a verb, and no preceding word requires a noun: "it results in"."""
        word = words[at]
        if coarse(word.tag) != "n" or (at and words[at - 1].tag in _BEFORE_NOUNS):
            return False
        return bool(self._wordnet.morphy(word.text, "v"))

    def _in_expression(self, words: Sequence[_Word], at: int) -> bool:
        """Whether WordNet has the word and a neighbour as one entry: "high school", "takes place"."""
        around = [word.text.lower() for word in words[max(at - 2, 0) : at + 3]]
        place = min(at, 2)
        spans = [around[first : last + 1] for first in range(place + 1) for last in range(place, len(around))]
        return any(
            " ".join([first, *span[1:]]) in self._wordnet
            for span in spans
            if len(span) in (2, 3)
            for first in {span[0], *self._wordnet.morphy(span[0], "v")}
        )


def _answer_words(example: SquadExample) -> frozenset[str]:
    return frozenset(word.casefold() for answer in example.answers for word in re.findall(r"\w+", answer.text))


def _is_joined(word: _Word, context: str) -> bool:
    """Whether a hyphen, an apostrophe or similar makes the word a part of a longer one."""
    before, after = context[max(word.start - 2, 0) : word.start], context[word.end : word.end + 2]
    return bool(re.search(r"[-–—/'’&@_.]$", before) or re.match(r"[-–/&@_]|['’.]\w", after))


def _article_edit(words: Sequence[_Word], at: int, new: str, options: SwapOptions) -> Iterable[Edit]:
    if not at or options.profile != "strict" or words[at - 1].text.lower() not in ("a", "an"):
        return ()
    before = words[at - 1]
    article = agreeing_article(before.text, words[at].text, new)
    return () if article == before.text else (Edit(before.start, before.end, article),)
