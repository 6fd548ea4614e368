"""Candidates to replace a word in context: for a form and its Penn tag, by kind (CLINE, section 3.1).

The paper says only that synonyms, hypernyms and morphological changes keep the meaning, and that antonyms and random
words change it. Its released code takes every sense of a word, inserts the candidate's base form, and allows
candidates of several words (the preset ``released`` of :class:`~trueneg.config.objective_options.ViewsConfig`). The
defaults are stricter, because most senses in a dictionary are rare, and a base form in the place of an inflected one
gives the replacement away by grammar alone.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Literal, cast, get_args

from trueneg.errors import ConfigError, LexiconError, unknown_name
from trueneg.lexicon.compatibility import is_number
from trueneg.lexicon.morphology import agreeing_substitute, inflections, penn_tags
from trueneg.lexicon.stopwords import STOP_WORDS
from trueneg.lexicon.surface import is_candidate
from trueneg.lexicon.tags import coarse
from trueneg.lexicon.wn_lexicon import WnLexicon
from trueneg.lexicon.wordnet import Synset, WordNet
from trueneg.lexicon.wordnet_location import COUNTS, PartOfSpeech

Senses = Literal["first", "frequent", "all"]
"""Which meanings of a word count: the first that WordNet lists, those that WordNet's counts in tagged text show to be
frequent, or all of them (the released code)."""

Pool = Literal["band", "uniform", "any"]
"""Where random words come from: words of about the same frequency in the same slot, any in the same slot, or any."""

Scope = Literal["content", "tagged"]
"""Which words are replaced and serve as replacements: content words, or everything tagged as a noun, verb,
adjective or adverb (the paper)."""

SENSES: tuple[Senses, ...] = get_args(Senses)
POOLS: tuple[Pool, ...] = get_args(Pool)
SCOPES: tuple[Scope, ...] = get_args(Scope)

AUXILIARIES = frozenset(["be", "have", "do"])
"""Base forms that are never replaced and never replace others, whether used as auxiliaries or not."""

_NEAR = ("@", "@i", "~", "~i", "&", "!", "^")  # wninput(5WN): above, below, similar to, opposite, see also
_POS_OF_SENSE_KEY = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}  # ss_type, senseidx(5WN)


class Kind(StrEnum):
    """How a candidate is related to the word: the first three keep its meaning, the last two change it."""

    SYNONYM = "synonym"
    HYPERNYM = "hypernym"
    INFLECTION = "inflection"
    ANTONYM = "antonym"
    RANDOM = "random"


KINDS: tuple[Kind, ...] = tuple(Kind)
"""Every kind; its index is its number in a :class:`~replacement_table.ReplacementTable`."""


@dataclass(frozen=True)
class ReplacementOptions:
    """Requirements on candidates.

    Attributes:
        senses: which meanings of a word supply synonyms, hypernyms and antonyms. With "frequent", that meaning must
            also be frequent for the synonym or hypernym: "class" is no synonym of "year", though a rare meaning is.
        min_share: minimum share of a word's occurrences in WordNet's tagged text for a meaning to be frequent. The
            first meaning always counts. Unused with other ``senses``.
        agree: inflect the candidate as the tag requires, and drop it if the dictionary of inflections lacks that form;
            if False, use its base form as WordNet has it (the paper's code).
        multiword: admit candidates of several words, or with a hyphen.
        indirect: also admit the antonyms of the other words of a synset, and of the head of a satellite adjective.
        words: with "content", stop words and forms of *be*, *have* and *do* are neither replaced nor used as
            replacements, and words of fewer than three letters are not used as replacements.
        min_count: minimum count of a candidate in the corpus, whatever its tag; 0 for no limit. For a candidate of
            several words, that of the rarest.
        min_ratio: the same, relative to the count of the word's form: "optics" is no synonym of "eyes".
        random: where random words come from.
        band: the random words of a word have between 1 / ``band`` and ``band`` times its count.
        num_random: maximum number of random words of a word; a rare word has as many as occurrences, at least 8.

    Raises:
        ConfigError: if an option has an invalid value.
    """

    senses: Senses = "frequent"
    min_share: float = 0.2
    agree: bool = True
    multiword: bool = False
    indirect: bool = False
    words: Scope = "content"
    min_count: int = 2
    min_ratio: float = 0.01
    random: Pool = "band"
    band: float = 2.0
    num_random: int = 64

    def __post_init__(self) -> None:
        if self.senses not in SENSES:
            raise ConfigError(unknown_name("senses", self.senses, SENSES))
        if self.random not in POOLS:
            raise ConfigError(unknown_name("random", self.random, POOLS))
        if self.words not in SCOPES:
            raise ConfigError(unknown_name("words", self.words, SCOPES))
        for name, is_right, wanted in (
            ("min_share", 0 < self.min_share <= 1, "in (0, 1]"),
            ("min_count", self.min_count >= 0, "at least 0"),
            ("min_ratio", 0 <= self.min_ratio <= 1, "in [0, 1]"),
            ("band", self.band >= 1, "at least 1"),
            ("num_random", self.num_random >= 0, "at least 0"),
        ):
            if not is_right:
                raise ConfigError(f"{name} must be {wanted}, got {getattr(self, name)}")


class Replacements:
    """Candidates for single words, from a WordNet; each base form is read once.

    Forms and candidates are lower case: the caller copies the capitals of the word that is replaced. A word that
    WordNet always capitalizes ("China", "French") neither has candidates nor is one.

    Args:
        wordnet: source of the candidates: WordNet, or a lexicon of another language, whose words are not inflected.
        options: requirements on them.

    Raises:
        LexiconError: if ``senses`` is "frequent" and the WordNet has no counts.
        ConfigError: if a lexicon of ``wn`` lacks the inflections or counts that the options need.
    """

    def __init__(self, wordnet: WordNet | WnLexicon, options: ReplacementOptions | None = None) -> None:
        self.wordnet = wordnet
        self.options = options or ReplacementOptions()
        self._is_english = isinstance(wordnet, WordNet) or wordnet.is_english
        if isinstance(wordnet, WnLexicon):
            _check_wn(wordnet, self.options)
        self._counts = sense_counts(wordnet.path) if self.options.senses == "frequent" else {}
        self._synset = cache(wordnet.synset)
        self._lemmas = cache(wordnet.lemmas)
        self._offsets = cache(self._read_offsets)
        self._senses = cache(self._read_senses)
        self._readable = cache(self._read_readable)
        self._related = cache(self._read_related)
        self._inflected = cache(self._inflect)
        self._bases = cache(self._read_bases)

    def of(self, form: str, tag: str) -> dict[Kind, list[str]]:
        """The candidates for a form, by kind, most frequent meaning first; kinds without one are left out.

        Options that depend on corpus counts are not applied, so there are no random words: those are in the
        table of :func:`~trueneg.corruption.views.replacement_table.compile_replacements`.

        Args:
            form: a word in lower case.
            tag: its Penn Treebank tag.

        Returns:
            Candidates, none of which is the form itself or in two kinds. No synonym is another spelling of the word, or
            its antonym in any meaning. Empty if nothing may replace the word.

        Example:
            With a WordNet loaded, ``Replacements(wordnet).of("movies", "NNS")[Kind.SYNONYM]`` is ``["films"]``.
        """
        pos, slot = cast(PartOfSpeech, coarse(tag)), self.slot(form, tag)
        found: dict[Kind, list[str]] = {kind: [] for kind in KINDS}
        taken = {form}
        for base in self.readings(form, tag):
            related = self._related(base, pos)
            for kind, lemmas in related.items():
                for lemma in lemmas:
                    candidate = self._placed(form, tag, base, lemma, pos, slot)
                    if candidate and candidate not in taken:
                        taken.add(candidate)
                        found[kind].append(candidate)
            for forms in inflections(base, pos).values() if self._is_english else ():
                if self.is_candidate(forms[0]) and forms[0] not in taken:
                    taken.add(forms[0])
                    found[Kind.INFLECTION].append(forms[0])
        return {kind: candidates for kind, candidates in found.items() if candidates}

    def readings(self, form: str, tag: str) -> tuple[str, ...]:
        """The base forms of a form with this tag; none if nothing may replace it.

        Nothing may replace proper nouns, words that are not nouns, verbs, adjectives or adverbs, numbers, single
        letters, words with characters other than letters, and words that WordNet does not list or lists as names.
        The same holds for stop words and forms of *be*, *have* and *do* unless ``words`` is "tagged", and, with
        ``agree``, for forms that the tag does not fit.

        Example:
            With a WordNet loaded, "saw" as VBD is a form of "see" alone, as NN of "saw".
        """
        return self._bases(form, tag)

    def slot(self, form: str, tag: str) -> str:
        """The inflection class that words must share to replace each other.

        The Penn tag, with two exceptions: the base form and the present of a verb share a slot, as they look the
        same; and so do past and participle of most verbs ("wanted"), which taggers confuse, where only verbs for
        which the two are equal fit. Without ``agree``, the coarse tag.

        Example:
            With a WordNet loaded, "went" as VBD has "VBD", "wanted" as VBD or VBN has "VBD=VBN".
        """
        if not self.options.agree:
            return coarse(tag)
        if tag in ("VBD", "VBN") and any(
            {"VBD", "VBN"} <= penn_tags(form, base, "v") for base in self.readings(form, tag)
        ):
            return "VBD=VBN"
        return "VB" if tag == "VBP" else tag

    def near(self, base: str, pos: PartOfSpeech) -> frozenset[str]:
        """Base forms within one relation of a base form in any meaning: too close to serve as random words."""
        found = {base}
        for offset in self._offsets(base, pos):
            synset = self._synset(pos, offset)
            found.update(map(str.lower, synset.lemmas))
            for pointer in synset.pointers:
                if pointer.symbol in _NEAR:
                    found.update(map(str.lower, self._lemmas(pointer.pos, pointer.offset)))
        return frozenset(found)

    def _read_bases(self, form: str, tag: str) -> tuple[str, ...]:
        if not is_content(form, tag, self.options.words) or len(form) < 2 or not form.isalpha() or is_number(form):
            return ()
        pos = cast(PartOfSpeech, coarse(tag))
        bases = self.wordnet.morphy(form, pos)
        if pos == "v" and self.options.words == "content" and not AUXILIARIES.isdisjoint(bases):
            return ()
        return tuple(
            base
            for base in bases
            if (not self.options.agree or tag in penn_tags(form, base, pos))
            and any(base in self._synset(pos, offset).lemmas for offset in self._offsets(base, pos))
        )

    def _placed(self, form: str, tag: str, base: str, lemma: str, pos: PartOfSpeech, slot: str) -> str:
        """A candidate's base form inflected to replace the form; empty if it cannot be."""
        if " " in lemma and self.options.agree:
            return agreeing_substitute(form, base, lemma, pos, tag=tag)
        return self._inflected(lemma, pos, slot) if self.options.agree else lemma

    def _inflect(self, lemma: str, pos: PartOfSpeech, slot: str) -> str:
        forms = inflections(lemma, pos)
        found = {forms.get(tag, ("",))[0] for tag in slot.split("=")}
        return found.pop() if len(found) == 1 else ""

    def _read_offsets(self, base: str, pos: PartOfSpeech) -> tuple[int, ...]:
        """Offsets of the synsets of a base form, in the order of its senses."""
        return tuple(offset for _, offset, found in self.wordnet.senses(base, pos) if found == base)

    def _read_senses(self, base: str, pos: PartOfSpeech) -> tuple[int, ...]:
        """Offsets of the meanings that ``senses`` selects."""
        offsets = self._offsets(base, pos)
        if self.options.senses == "all":
            return offsets
        counts = self._counts.get((pos, base), {})
        least = self.options.min_share * sum(counts.values())
        return offsets[:1] + tuple(o for rank, o in enumerate(offsets[1:], 2) if counts.get(rank, 0) >= max(least, 1))

    def _read_related(self, base: str, pos: PartOfSpeech) -> Mapping[Kind, tuple[str, ...]]:
        """Related base forms by kind, without those that can never be a candidate for this base form."""
        found: dict[Kind, list[str]] = {Kind.SYNONYM: [], Kind.HYPERNYM: [], Kind.ANTONYM: []}
        for offset in self._senses(base, pos):
            synset = self._synset(pos, offset)
            if base not in synset.lemmas:  # written with a capital: a name
                continue
            found[Kind.SYNONYM] += self._readable(pos, offset)
            for pointer in synset.pointers:
                if pointer.symbol == "@":
                    found[Kind.HYPERNYM] += self._readable(pointer.pos, pointer.offset)
            found[Kind.ANTONYM] += filter(self.is_candidate, self._antonyms(synset, base, self.options.indirect))
        opposites = {
            lemma
            for offset in self._offsets(base, pos)
            for lemma in self._antonyms(self._synset(pos, offset), base, indirect=True)
        }
        for kind in (Kind.SYNONYM, Kind.HYPERNYM):
            found[kind] = [x for x in found[kind] if x not in opposites and not self._is_variant(x, base)]
        return {kind: tuple(dict.fromkeys(lemmas)) for kind, lemmas in found.items()}

    def _read_readable(self, pos: PartOfSpeech, offset: int) -> tuple[str, ...]:
        """The words of a synset that can be candidates, and that a reader would understand in this meaning."""
        is_mutual = self.options.senses == "frequent"
        return tuple(
            lemma
            for lemma in self._lemmas(pos, offset)
            if self.is_candidate(lemma) and (not is_mutual or offset in self._senses(lemma, pos))
        )

    def _antonyms(self, synset: Synset, base: str, indirect: bool) -> Iterator[str]:
        """Opposites of a base form in one meaning, as :attr:`ReplacementOptions.indirect` says."""
        holders = [synset]
        if indirect and synset.is_satellite:
            holders += [self._synset(p.pos, p.offset) for p in synset.pointers if p.symbol == "&"]
        for holder in holders:
            for pointer in holder.pointers:
                # An antonym is always a relation of two words, numbered from 1.
                if pointer.symbol == "!" and (indirect or synset.lemmas[pointer.source - 1] == base):
                    yield self._lemmas(pointer.pos, pointer.offset)[pointer.target - 1]

    def _is_variant(self, word: str, other: str) -> bool:
        """Whether two synonyms are the same word or, in English, two spellings of it."""
        return word == other or (self._is_english and same_spelling(word, other))

    def is_candidate(self, word: str) -> bool:
        """Whether a word may replace others at all: by its letters and, with ``words="content"``, as a content word."""
        if word != word.lower():
            return False
        if self.options.multiword and not word.isalpha():
            return word.replace("-", "").replace(" ", "").isalpha()
        return word.isalpha() if self.options.words == "tagged" else word not in AUXILIARIES and is_candidate(word)


def _check_wn(lexicon: WnLexicon, options: ReplacementOptions) -> None:
    """Refuse options that need what such a lexicon lacks."""
    lacking = []
    if options.agree and not lexicon.is_english:
        lacking.append(("inflections", "agree=false"))
    if options.senses == "frequent":
        lacking.append(("counts of senses", "senses=first"))
    if lacking:
        what, remedy = (" and ".join(part) for part in zip(*lacking, strict=True))
        raise ConfigError(f"{lexicon.name} ({lexicon.language}) comes without {what}: choose {remedy}")


def is_content(form: str, tag: str, words: Scope = "content") -> bool:
    """Whether a lower-case form counts as a content word: by its tag, and neither a proper noun nor a stop word.

    With ``words="tagged"`` stop words count, too, where they are tagged as nouns, verbs, adjectives or adverbs.

    Example:
        >>> [is_content(*word) for word in (("movies", "NNS"), ("paris", "NNP"), ("was", "VBD"), ("of", "IN"))]
        [True, False, False, False]
    """
    return bool(coarse(tag)) and not tag.startswith("NNP") and (words == "tagged" or form not in STOP_WORDS)


def same_spelling(word: str, other: str) -> bool:
    """Whether two synonyms are one word spelt in two ways: one letter apart, or equal with common variants normalized.

    Meant for words that share a meaning; too many others would match ("cat", "bat").

    Example:
        >>> pairs = ("colour color", "organise organize", "centre center", "catalogue catalog", "movie film")
        >>> [same_spelling(*pair.split()) for pair in pairs]
        [True, True, True, True, False]
    """
    return _is_one_edit_away(word, other) or _skeleton(word) == _skeleton(other)


@cache
def _skeleton(word: str) -> str:
    """A word with its spelling variants normalized: colour, aesthetic, programme, sulphur, jewellery, well-known."""
    text = word.replace("-", "").replace(" ", "")
    for usual, bare in (("ph", "f"), ("ough", "o"), ("ou", "o"), ("ae", "e"), ("oe", "e"), ("y", "i"), ("z", "s")):
        text = text.replace(usual, bare)
    for ending, bare in (
        ("mme", "m"),
        ("gue", "g"),
        ("que", "k"),
        ("tte", "t"),
        ("re", "er"),
        ("le", "el"),
        ("eri", "ri"),
    ):
        if text.endswith(ending):
            text = text.removesuffix(ending) + bare
    return "".join(letter for at, letter in enumerate(text) if at == 0 or letter != text[at - 1])


def _is_one_edit_away(word: str, other: str) -> bool:
    """Whether inserting, deleting or changing a letter, or swapping two neighbours, turns one word into the other."""
    short, long = sorted((word, other), key=len)
    if len(long) - len(short) > 1:
        return False
    at = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(long) > len(short):
        return short[at:] == long[at + 1 :]
    swapped = short[at + 1 : at + 2] + short[at : at + 1] + short[at + 2 :]
    return short[at + 1 :] == long[at + 1 :] or swapped == long[at:]


def sense_counts_digest(path: Path) -> str:
    """Digest of the sense counts of the WordNet in a folder or archive: 16 hexadecimal digits.

    Raises:
        LexiconError: if it has none.
    """
    return hashlib.blake2b(_read_counts(path), digest_size=8).hexdigest()


def sense_counts(path: Path) -> Mapping[tuple[str, str], Mapping[int, int]]:
    """How often each meaning of a word occurs in the texts WordNet's authors tagged, by (pos, word) and sense number.

    Lines of ``cntlist.rev`` (cntlist(5WN)) are ``sense_key sense_number tag_cnt``.
    """
    counts: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for number, line in enumerate(_read_counts(path).decode("utf-8", "replace").splitlines(), 1):
        try:
            key, sense, count = line.split()
            lemma, _, rest = key.partition("%")
            counts[_POS_OF_SENSE_KEY[rest[0]], lemma.replace("_", " ")][int(sense)] = int(count)
        except (ValueError, LookupError) as error:
            raise LexiconError(
                f"{path}/{COUNTS}, line {number}: not a count of a sense: get WordNet again, or choose senses=first"
            ) from error
    return counts


def _read_counts(path: Path) -> bytes:
    try:
        if path.is_dir():
            return (path / COUNTS).read_bytes()
        with zipfile.ZipFile(path) as archive:
            return archive.read(next(name for name in archive.namelist() if Path(name).name == COUNTS))
    except (OSError, StopIteration, zipfile.BadZipFile) as error:
        raise LexiconError(
            f"{path} has no {COUNTS}, the counts that senses=frequent goes by: choose senses=first, or run  "
            f"apt-get install --no-install-recommends wordnet-base"
        ) from error
