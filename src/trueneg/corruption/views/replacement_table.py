"""The replacements of every word of a corpus, compiled into flat arrays that do not depend on a tokenizer.

Candidates are numbers of forms, in compressed sparse rows: those of row ``r`` and kind ``k`` are
``candidates[offsets[k, r]:offsets[k, r + 1]]``. Drawing for a million words takes three array operations.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trueneg.errors import LexiconError
from trueneg.files.arrays import ArrayFile
from trueneg.lexicon.replacements import (
    KINDS,
    Kind,
    ReplacementOptions,
    Replacements,
    Scope,
    is_content,
    sense_counts_digest,
)
from trueneg.lexicon.tags import NUMBERS, PENN, coarse
from trueneg.lexicon.wn_lexicon import WnLexicon
from trueneg.lexicon.wordnet import WordNet
from trueneg.lexicon.wordnet_location import PartOfSpeech
from trueneg.version import __version__

REPLACEMENTS_VERSION = "4"
"""Changes whenever the same words would give another table, or the file layout changes."""

_FILE = ArrayFile("replacement table", REPLACEMENTS_VERSION, LexiconError, "compile it again")
_MIN_BAND = 64  # minimum number of forms of about the same frequency to draw random words from
_MIN_RANDOM = 8  # number of random words of the rarest forms
_TAG_BITS = 8


@dataclass(frozen=True)
class _About:
    """Metadata in a file next to the arrays."""

    kinds: list[str]
    tags: list[str]
    provenance: dict[str, str]


Word = tuple[str, str, int]
"""A form as in the corpus, its Penn tag, and how often the two occur together."""


@dataclass(frozen=True, eq=False)
class ReplacementTable:
    """The candidates by kind for each (form, tag) of a corpus that has any.

    Attributes:
        text: uint8 [bytes], the forms one after another in UTF-8, in ascending order.
        text_offsets: int64 [num_forms + 1], where each begins.
        keys: int64 [num_rows], ascending: ``form number << 8 | tag number``, the tag's place in ``PENN``.
        counts: int64 [num_rows], how often each occurs in the corpus.
        offsets: int64 [5, num_rows + 1], for each kind in the order of ``KINDS``: where in ``candidates`` a row begins.
        candidates: int32 [num_candidates], numbers of forms.
        provenance: what the table was made from and how: WordNet, options, versions, counts.
    """

    text: NDArray[np.uint8] = field(repr=False)
    text_offsets: NDArray[np.int64] = field(repr=False)
    keys: NDArray[np.int64] = field(repr=False)
    counts: NDArray[np.int64] = field(repr=False)
    offsets: NDArray[np.int64] = field(repr=False)
    candidates: NDArray[np.int32] = field(repr=False)
    provenance: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check(self)
        object.__setattr__(self, "provenance", MappingProxyType(dict(self.provenance)))

    def __len__(self) -> int:
        """The number of rows: forms with a tag."""
        return len(self.keys)

    @cached_property
    def forms(self) -> tuple[str, ...]:
        """The forms by number, lower case."""
        text, at = self.text.tobytes(), self.text_offsets.tolist()
        return tuple(text[start:stop].decode() for start, stop in pairwise(at))

    @cached_property
    def _number_of(self) -> Mapping[str, int]:
        return {form: number for number, form in enumerate(self.forms)}

    @property
    def row_forms(self) -> NDArray[np.int64]:
        """int64 [num_rows]: the number of each row's form."""
        return self.keys >> _TAG_BITS

    @property
    def row_tags(self) -> NDArray[np.int64]:
        """int64 [num_rows]: the number of each row's tag."""
        return self.keys & ((1 << _TAG_BITS) - 1)

    def rows(self, forms: ArrayLike, tags: ArrayLike) -> NDArray[np.int64]:
        """The rows of forms with tags.

        Args:
            forms: numbers of forms, any shape; negative for a form that the table lacks.
            tags: numbers of tags, of a shape that broadcasts with it.

        Returns:
            int64, the broadcast shape: a row, or -1 where the form with that tag has no replacement.
        """
        number, tag = np.broadcast_arrays(np.asarray(forms, np.int64), np.asarray(tags, np.int64))
        wanted = number << _TAG_BITS | tag
        at = np.searchsorted(self.keys, wanted)
        is_available = (np.append(self.keys, -1)[at] == wanted) & (wanted >= 0) & (tag < len(PENN))
        return np.asarray(np.where(is_available, at, -1), np.int64)

    def num_candidates(self, kind: Kind) -> NDArray[np.int64]:
        """int64 [num_rows]: how many candidates of a kind each row has."""
        return np.asarray(np.diff(self.offsets[KINDS.index(kind)]), np.int64)

    def lookup(self, form: str, tag: str) -> dict[Kind, list[str]]:
        """Candidates for a lower-case form with a Penn tag, by kind; kinds without a candidate are left out."""
        row = int(self.rows(self._number_of.get(form, -1), NUMBERS.get(tag, 0)))
        if row < 0:
            return {}
        found = {
            kind: [self.forms[n] for n in self.candidates[self.offsets[k, row] : self.offsets[k, row + 1]]]
            for k, kind in enumerate(KINDS)
        }
        return {kind: forms for kind, forms in found.items() if forms}

    def coverage(self, *kinds: Kind) -> float:
        """The share of the corpus's content words, by occurrence, that have a candidate of one of the kinds.

        Content words are nouns, verbs, adjectives and adverbs that are neither proper nouns nor, unless ``words`` was
        "tagged", stop words (:func:`~trueneg.lexicon.replacements.is_content`), whether replaceable or not.
        """
        has_one = np.zeros(len(self), np.bool_)
        for kind in kinds:
            has_one |= self.num_candidates(kind) > 0
        num_content = int(self.provenance.get("num_content_words", 0))
        return float(self.counts[has_one].sum() / num_content) if num_content else 0.0

    @cached_property
    def digest(self) -> str:
        """Digest of all arrays, 16 hexadecimal digits: the same digest means the same replacements."""
        digest = hashlib.blake2b(digest_size=8)
        for name, array in _arrays(self).items():
            digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def save(self, path: str | Path) -> None:
        """Write the table as safetensors, with its provenance in the metadata, atomically.

        Raises:
            LexiconError: if the file cannot be written.
        """
        _FILE.write(Path(path), _arrays(self), asdict(_About(list(KINDS), list(PENN), dict(self.provenance))))

    @classmethod
    def load(cls, path: str | Path) -> ReplacementTable:
        """Read a table that :meth:`save` wrote.

        Raises:
            LexiconError: if the file is missing, damaged, not a replacement table, or of a version with other kinds,
                tags or layout.
        """
        arrays, about = _FILE.read(Path(path), _About)
        if (about.kinds, about.tags) != (list(KINDS), list(PENN)):
            raise LexiconError(f"'{path}' is a replacement table with other kinds or tags: {_FILE.remedy}")
        try:
            return cls(**arrays, provenance=about.provenance)
        except (TypeError, IndexError, LexiconError) as error:
            raise _FILE.damaged(Path(path), error) from error


def compile_replacements(
    words: Iterable[Word], wordnet: WordNet | WnLexicon, options: ReplacementOptions | None = None
) -> ReplacementTable:
    """Find the replacements of all words of a corpus (about 15 s for 100,000 forms with a tag).

    Forms are lower-cased and their counts added up. A form that occurs only with capitals is a name, whatever its tag,
    and gets no row; nor is it a candidate. (In a corpus without capitals there are no such forms.)

    Args:
        words: each form with a tag and how often it occurs; a form with an unknown tag is not a content word.
        wordnet: where candidates come from.
        options: requirements of candidates.

    Returns:
        The table; the same for the same words in any order. Its provenance includes the counts ``num_words``,
        ``num_content_words`` and ``num_only_capitalised`` of occurrences.

    Raises:
        LexiconError: if a count is negative, or the WordNet lacks what the options need.
        ConfigError: if a lexicon of ``wn`` lacks it.
    """
    options = options or ReplacementOptions()
    corpus = _Counted.of(words, options.words)
    replacements = Replacements(wordnet, options)
    found: dict[tuple[str, str], dict[Kind, list[str]]] = {}
    for (form, tag), count in sorted(corpus.replaceable.items()):
        if count and replacements.readings(form, tag):
            least = max(options.min_count, options.min_ratio * corpus.of_form[form])
            found[form, tag] = {
                kind: [c for c in candidates if corpus.count(c) >= least]
                for kind, candidates in replacements.of(form, tag).items()
            }
    random = _draw_random(found, corpus, replacements)
    for (word, kinds), drawn in zip(found.items(), random, strict=True):
        kinds[Kind.RANDOM] = drawn
        found[word] = {kind: candidates for kind, candidates in kinds.items() if candidates}
    about = {
        "source": "WordNet" if isinstance(wordnet, WordNet) else wordnet.name,
        "wordnet_version": wordnet.version,
        "wordnet_digest": wordnet.digest,
        "wordnet_path": str(wordnet.path),
        **({"sense_counts_digest": sense_counts_digest(wordnet.path)} if options.senses == "frequent" else {}),
        "options": json.dumps(asdict(options)),
        "words_digest": corpus.digest,
        "trueneg": __version__,
        "lemminflect": metadata.version("lemminflect"),
        "num_words": str(corpus.num_words),
        "num_content_words": str(corpus.num_content_words),
        "num_only_capitalised": str(corpus.num_only_capitalised),
    }
    return _assemble({word: kinds for word, kinds in found.items() if kinds}, corpus.replaceable, about)


@dataclass(frozen=True)
class _Counted:
    """The words of a corpus, in lower case.

    Attributes:
        replaceable: the content words, without those that occur only with capitals, and how often each occurs.
        of_form: how often a form occurs, whatever its tag; without those that occur only with capitals.
        num_words, num_content_words, num_only_capitalised: occurrences of all, of content words, and of those
            content words that ``replaceable`` lacks.
        digest: digest of the words as given.
    """

    replaceable: Mapping[tuple[str, str], int]
    of_form: Mapping[str, int]
    num_words: int
    num_content_words: int
    num_only_capitalised: int
    digest: str

    @classmethod
    def of(cls, words: Iterable[Word], scope: Scope) -> _Counted:
        given: Counter[tuple[str, str]] = Counter()
        for form, tag, count in words:
            if count < 0:
                raise LexiconError(f"{form!r} with tag {tag!r} is counted {count} times: count the words again")
            given[form, tag] += count
        counts: Counter[tuple[str, str]] = Counter()
        of_form: Counter[str] = Counter()
        lower = set()
        for (form, tag), count in given.items():
            counts[form.lower(), tag] += count
            of_form[form.lower()] += count
            if form == form.lower():
                lower.add(form)
        content = {word: count for word, count in counts.items() if word[1] in NUMBERS and is_content(*word, scope)}
        replaceable = {word: count for word, count in content.items() if word[0] in lower}
        listed = "".join(f"{form}\t{tag}\t{count}\n" for (form, tag), count in sorted(given.items()))
        return cls(
            replaceable,
            {form: count for form, count in of_form.items() if form in lower},
            counts.total(),
            sum(content.values()),
            sum(content.values()) - sum(replaceable.values()),
            hashlib.blake2b(listed.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest(),
        )

    def count(self, candidate: str) -> int:
        """How often a candidate occurs; one of several words is not counted and gets the count of its rarest."""
        return self.of_form.get(candidate) or min(self.of_form.get(word, 0) for word in re.split("[ -]", candidate))


def _draw_random(words: Iterable[tuple[str, str]], corpus: _Counted, replacements: Replacements) -> list[list[str]]:
    """Draw random words for each word: by ``random``, of its slot and about its frequency; not close in meaning.

    They are drawn once, here, because leaving out close words at training time would have a cost: a word with the same
    meaning would be a false negative.
    """
    options, rows = replacements.options, list(words)
    numbers: dict[str, int] = {}
    form_of = np.array([numbers.setdefault(form, len(numbers)) for form, _ in rows], np.int64)
    names = list(numbers)
    counts = np.array([corpus.replaceable[word] for word in rows], np.int64)
    close, close_to = _closeness(rows, replacements)
    slots: dict[str, list[int]] = defaultdict(list)
    for number, word in enumerate(rows):
        slots["" if options.random == "any" else replacements.slot(*word)].append(number)
    generator = np.random.Generator(np.random.PCG64(0))
    pairs = [np.empty((2, 0), np.int64)]
    for _, members in sorted(slots.items()):
        row = np.array(members, np.int64)
        row = row[np.argsort(-counts[row], kind="stable")]
        forms = (rows[r][0] for r in row)
        pool = row[[replacements.is_candidate(f) and corpus.of_form[f] >= options.min_count for f in forms]]
        low, high = _bands(-counts[pool], counts[row], options)
        wanted = np.clip(counts[row], _MIN_RANDOM, None).clip(None, options.num_random)
        # One from each of ``drawn`` equal parts of the band: all of it if it is no longer than wanted.
        drawn = np.minimum(wanted, high - low)
        drawn_for = np.repeat(np.arange(len(row)), drawn)
        part = np.arange(len(drawn_for)) - (np.cumsum(drawn) - drawn)[drawn_for]
        width = ((high - low) / drawn.clip(1))[drawn_for]
        place = low[drawn_for] + ((part + generator.random(len(part))) * width).astype(np.int64)
        pairs.append(np.stack([row[drawn_for], pool[place]]))
    target, other = np.concatenate(pairs, axis=1)
    is_far = ~np.isin(close_to[target] * len(rows) + close_to[other], close)  # a word is close to itself
    ordered = np.unique(target[is_far] * len(names) + form_of[other[is_far]])
    found = [names[n] for n in (ordered % max(len(names), 1)).tolist()]
    begins = np.searchsorted(ordered, np.arange(len(rows) + 1) * len(names)).tolist()
    return [found[start:stop] for start, stop in pairwise(begins)]


def _bands(
    pool: NDArray[np.int64], counts: NDArray[np.int64], options: ReplacementOptions
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the band of each count begins and ends in a pool, given as negated counts in ascending order."""
    if options.random != "band":
        return np.zeros(len(counts), np.int64), np.full(len(counts), len(pool))
    low = np.searchsorted(pool, -counts * options.band, "left")
    high = np.searchsorted(pool, -counts / options.band, "right")
    middle = np.searchsorted(pool, -counts)
    low = np.minimum(low, middle - _MIN_BAND // 2).clip(0, None)
    return low, np.maximum(high, middle + _MIN_BAND // 2).clip(None, len(pool))


def _closeness(rows: list[tuple[str, str]], replacements: Replacements) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which words are close in meaning.

    Returns:
        The pairs as keys ``group * len(rows) + group``, and each row's group: words with the same base forms share one.
    """
    groups: dict[tuple[str, tuple[str, ...]], int] = {}
    group_of = np.array(
        [groups.setdefault((coarse(t), replacements.readings(f, t)), len(groups)) for f, t in rows], np.int64
    )
    holding: dict[tuple[str, str], list[int]] = defaultdict(list)
    for (pos, bases), group in groups.items():
        for base in bases:
            holding[pos, base].append(group)
    keys = {
        group * len(rows) + other
        for (pos, bases), group in groups.items()
        for base in bases
        for lemma in replacements.near(base, cast(PartOfSpeech, pos))
        for other in holding.get((pos, lemma), ())
    }
    return np.fromiter(keys, np.int64, len(keys)), group_of


def _assemble(
    found: Mapping[tuple[str, str], Mapping[Kind, list[str]]],
    counts: Mapping[tuple[str, str], int],
    provenance: Mapping[str, str],
) -> ReplacementTable:
    forms = sorted({form for form, _ in found} | {c for kinds in found.values() for cs in kinds.values() for c in cs})
    numbers = {form: number for number, form in enumerate(forms)}
    rows = sorted((numbers[form] << _TAG_BITS | NUMBERS[tag], form, tag) for form, tag in found)
    cells = [[found[form, tag].get(kind, []) for _, form, tag in rows] for kind in KINDS]
    encoded = [form.encode() for form in forms]
    lengths = np.array([[len(cell) for cell in kind] for kind in cells], np.int64).reshape(len(KINDS), len(rows))
    ends = np.cumsum(lengths.ravel()).reshape(lengths.shape)
    starts = np.concatenate([[0], lengths.sum(axis=1).cumsum()[:-1]])[:, None]
    return ReplacementTable(
        text=np.frombuffer(b"".join(encoded), np.uint8),
        text_offsets=np.cumsum([0, *map(len, encoded)], dtype=np.int64),
        keys=np.array([key for key, _, _ in rows], np.int64),
        counts=np.array([counts[form, tag] for _, form, tag in rows], np.int64),
        offsets=np.concatenate([starts, ends], axis=1).astype(np.int64),
        candidates=np.array([numbers[c] for kind in cells for cell in kind for c in cell], np.int32),
        provenance=provenance,
    )


def _arrays(table: ReplacementTable) -> dict[str, NDArray[np.generic]]:
    names = ("text", "text_offsets", "keys", "counts", "offsets", "candidates")
    return {name: getattr(table, name) for name in names}


def _check(table: ReplacementTable) -> None:
    """Make sure that no index is out of bounds."""
    num_forms, num_rows = len(table.text_offsets) - 1, len(table.keys)
    wanted = {
        "text": (np.uint8, (len(table.text),)),
        "text_offsets": (np.int64, (num_forms + 1,)),
        "keys": (np.int64, (num_rows,)),
        "counts": (np.int64, (num_rows,)),
        "offsets": (np.int64, (len(KINDS), num_rows + 1)),
        "candidates": (np.int32, (len(table.candidates),)),
    }
    for name, (dtype, shape) in wanted.items():
        array = getattr(table, name)
        if array.dtype != dtype or array.shape != shape:
            raise LexiconError(f"a replacement table's {name} are {np.dtype(dtype)} {list(shape)}")
    for name, array, end in (
        ("text_offsets", table.text_offsets, len(table.text)),
        ("offsets", table.offsets.ravel(), len(table.candidates)),
    ):
        if array[0] != 0 or array[-1] != end or (array[1:] < array[:-1]).any():
            raise LexiconError(f"a replacement table's {name} must ascend from 0 to {end}")
    if (table.keys[1:] <= table.keys[:-1]).any() or (
        num_rows and not 0 <= table.keys[0] <= table.keys[-1] < num_forms << _TAG_BITS
    ):
        raise LexiconError("a replacement table's keys must ascend without repeats, below the number of forms")
    if len(table.candidates) and not 0 <= table.candidates.min() <= table.candidates.max() < num_forms:
        raise LexiconError("a replacement table's candidates must be numbers of forms")
