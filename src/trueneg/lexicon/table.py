"""The lookup table of hard correction: for every vocabulary token, its synonym tokens (section 3.2).

Stored as sorted keys ``gold * vocab_size + predicted``: half a megabyte for BERT's vocabulary; a whole
batch is looked up by one binary search, on any device, without a host synchronisation.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trueneg.errors import ConfigError, LexiconError, TruenegWarning, unknown_name
from trueneg.files.arrays import ArrayFile
from trueneg.lexicon.morphology import penn_tags
from trueneg.lexicon.stopwords import STOP_WORDS
from trueneg.lexicon.surface import MIN_LETTERS, is_candidate, substitution_groups, surfaces
from trueneg.lexicon.wordnet import WordNet
from trueneg.lexicon.wordnet_location import PARTS_OF_SPEECH, PartOfSpeech, cache_folder, find_wordnet, wordnet_digest
from trueneg.tokenizer import fingerprint
from trueneg.version import __version__

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Forms = Literal["agree", "lemma", "retrieved"]
"""Which words enter a table of synonyms: see :func:`build_table`."""

FORMS: tuple[Forms, ...] = get_args(Forms)

TABLE_VERSION = "2"
"""Changes whenever the same words would give a different table, or the file layout changes."""

_OURS = f"alphabetic, letters>={MIN_LETTERS}, no stop words, no self, same prefix and casing"
_FILTERS: dict[Forms, str] = {
    "agree": _OURS,
    "lemma": _OURS,
    "retrieved": "gold is no stop word, no self, same prefix and casing",
}

_FILE = ArrayFile("lookup table", TABLE_VERSION, LexiconError, "build it again with  trueneg lexicon build")


@dataclass(frozen=True)
class _About:
    """What a file holds besides the keys."""

    vocab_size: int
    tokenizer_fingerprint: str
    provenance: dict[str, str]


@dataclass(frozen=True, eq=False)
class LookupTable:
    """For every vocabulary token, its synonym tokens.

    Attributes:
        keys: int64 [num_pairs], ascending, without repeats: ``gold * vocab_size + predicted``.
        vocab_size: one more than the largest token id.
        tokenizer_fingerprint: the tokenizer whose ids these are.
        provenance: what it was made from and how: WordNet, forms, filters, versions, counts.
    """

    keys: NDArray[np.int64] = field(repr=False)
    vocab_size: int
    tokenizer_fingerprint: str
    provenance: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        keys = self.keys
        if keys.dtype != np.int64 or keys.ndim != 1:
            raise LexiconError(f"a lookup table's keys are int64 [pairs], not {keys.dtype} {list(keys.shape)}")
        in_range = not len(keys) or (keys[0] >= 0 and keys[-1] < self.vocab_size**2)
        if not (in_range and (keys[1:] > keys[:-1]).all()):
            raise LexiconError(f"a lookup table's keys must ascend without repeats below {self.vocab_size}²")
        object.__setattr__(self, "provenance", MappingProxyType(dict(self.provenance)))

    @classmethod
    def empty(cls, tokenizer: PreTrainedTokenizerFast) -> LookupTable:
        """The table without any pairs."""
        size = max(tokenizer.get_vocab().values()) + 1
        return cls(np.empty(0, np.int64), size, fingerprint(tokenizer), {"source": "empty"})

    @classmethod
    def from_rows(
        cls,
        rows: Mapping[int, frozenset[int] | set[int]],
        tokenizer: PreTrainedTokenizerFast,
        provenance: Mapping[str, str],
    ) -> LookupTable:
        """The table with ``rows[gold]`` as the substitutes of ``gold``, however they were found."""
        size = max(tokenizer.get_vocab().values()) + 1
        keys = np.fromiter((g * size + p for g, row in rows.items() for p in row), dtype=np.int64)
        return cls(np.sort(keys), size, fingerprint(tokenizer), provenance)

    def __len__(self) -> int:
        """The number of (gold, predicted) pairs."""
        return len(self.keys)

    @property
    def num_golds(self) -> int:
        """The number of tokens that have a substitute."""
        return len(np.unique(self.keys // self.vocab_size))

    def contains(self, gold: ArrayLike, predicted: ArrayLike) -> NDArray[np.bool_]:
        """Whether each predicted token is a listed substitute of its gold token.

        Args:
            gold: token ids, any shape.
            predicted: token ids, of a shape that broadcasts with ``gold``.

        Returns:
            bool, the broadcast shape. Ids outside the vocabulary (padded output rows, -100) are in no pair.
        """
        g, p = np.broadcast_arrays(np.asarray(gold, np.int64), np.asarray(predicted, np.int64))
        wanted = g * self.vocab_size + p
        at = np.searchsorted(self.keys, wanted)
        found = np.append(self.keys, -1)[at] == wanted
        # An id beyond the vocabulary would otherwise be read as a pair of the next gold token.
        return np.asarray(found & (g >= 0) & (p >= 0) & (p < self.vocab_size), np.bool_)

    def substitutes(self, gold: int) -> list[int]:
        """The substitutes of one token, ascending."""
        low, high = np.searchsorted(self.keys, [gold * self.vocab_size, (gold + 1) * self.vocab_size])
        return [int(key) - gold * self.vocab_size for key in self.keys[low:high]]

    def check(self, tokenizer: PreTrainedTokenizerFast) -> None:
        """Make sure the table is for this tokenizer.

        Raises:
            LexiconError: if its ids are those of another tokenizer.
        """
        if (given := fingerprint(tokenizer)) != self.tokenizer_fingerprint:
            raise LexiconError(
                f"the lookup table is for tokenizer {self.tokenizer_fingerprint}, not for {given}: "
                f"build one for this tokenizer with  trueneg lexicon build"
            )

    def save(self, path: str | Path) -> None:
        """Write the table as safetensors, its provenance in the metadata; whole or not at all.

        Raises:
            LexiconError: if the file cannot be written.
        """
        about = _About(self.vocab_size, self.tokenizer_fingerprint, dict(self.provenance))
        _FILE.write(Path(path), {"keys": self.keys}, asdict(about))

    @classmethod
    def load(cls, path: str | Path) -> LookupTable:
        """Read a table that :meth:`save` wrote.

        Raises:
            LexiconError: if there is no such file, or it is damaged, not a lookup table, or of another version.
        """
        arrays, about = _FILE.read(Path(path), _About)
        try:
            return cls(arrays["keys"], about.vocab_size, about.tokenizer_fingerprint, about.provenance)
        except (KeyError, LexiconError) as error:
            raise _FILE.damaged(Path(path), error) from error


@dataclass(frozen=True)
class Coverage:
    """How much of a vocabulary WordNet knows (footnote 5).

    Attributes:
        num_tokens: vocabulary entries that are not stop words, including word pieces and special tokens.
        num_with_synset: those of them that are a word with a synset.
    """

    num_tokens: int
    num_with_synset: int

    @property
    def share(self) -> float:
        """The part with a synset, in [0, 1]."""
        return self.num_with_synset / self.num_tokens if self.num_tokens else 0.0


def coverage(tokenizer: PreTrainedTokenizerFast, wordnet: WordNet) -> Coverage:
    """Count the vocabulary entries WordNet knows, and all entries, both without stop words.

    18,987 of 30,372 for bert-base-uncased: the paper's 62.51 %. It counts entries with a synset, whether or
    not that holds a usable synonym: a table has rows for fewer (``LookupTable.num_golds``).
    """
    # As in the paper's count, a piece is not a word, and entries that are not words stay in the denominator.
    words = [s.word.lower() if s.starts_word else "" for s in surfaces(tokenizer)]
    counted = [word for word in words if word not in STOP_WORDS]
    return Coverage(len(counted), sum(word in wordnet for word in counted))


def build_table(tokenizer: PreTrainedTokenizerFast, wordnet: WordNet, *, forms: Forms = "agree") -> LookupTable:
    """List, for every word of the vocabulary, the words that share a synset with it.

    The paper builds its table "by retrieving the synonym alternatives for each word in the model vocabulary" (section
    3.2), and counts how much of the vocabulary has some "after removing all the stopwords" (footnote 5): that stop
    words are not corrected, but may be substitutes, is our reading. False negatives are, first of all, words "written
    in different forms" (section 2). The table itself was not released. Three variants are available here:

    ==============  ===============================================================  ========================
    ``forms``       what is accepted for "movies"                                    pairs, bert-base-uncased
    ==============  ===============================================================  ========================
    ``retrieved``   movie, film, flick, pic, picture: every lemma of every synset    59,681 for 13,395 words
                    that the vocabulary has, gold's own base form too (the paper)
    ``lemma``       film, flick, pic, picture: without gold's base form, numbers,    52,368 for 11,999
                    words of one or two letters and stop words (ours)
    ``agree``       films, pictures: of these synonyms, the forms that fit in        46,425 for 11,477, of which
                    gold's place (ours)                                              27,217 are ``retrieved``
    ==============  ===============================================================  ========================

    In all three a pair agrees in prefix (``Ġprimary``, ``Ġmain``) and casing (``Primary``, ``Main``), and no word is a
    substitute of itself. In ``retrieved`` stop words have no substitutes, but may be substitutes (made: have).

    NLTK's reader finds 59,677 pairs: of the two lines that WordNet's ``adj.exc`` has for "offer" it keeps the last, and
    so misses that "offer" is a form of "off" too.

    Args:
        tokenizer: any fast tokenizer.
        wordnet: where synonyms come from.
        forms: which table.

    Raises:
        ConfigError: if ``forms`` is unknown.
    """
    if forms not in FORMS:
        raise ConfigError(unknown_name("forms", forms, FORMS))
    groups = substitution_groups(tokenizer, every_word=forms == "retrieved")
    vocabulary = frozenset(word for ids in groups.values() for word in ids)
    listed = _substitute_words(vocabulary, wordnet, forms)
    rows = {
        gold: {ids[other] for other in listed[word] if other in ids}
        for ids in groups.values()
        for word, gold in ids.items()
    }
    return LookupTable.from_rows(
        rows,
        tokenizer,
        {
            "source": "WordNet",
            "wordnet_version": wordnet.version,
            "wordnet_digest": wordnet.digest,
            "wordnet_path": str(wordnet.path),
            "forms": forms,
            "filters": _FILTERS[forms],
            "trueneg": __version__,
            **({"lemminflect": _installed("lemminflect")} if forms == "agree" else {}),
            "num_words": str(len(vocabulary)),
            "num_golds": str(sum(bool(row) for row in rows.values())),
            "num_pairs": str(sum(map(len, rows.values()))),
        },
    )


def cached_table(
    tokenizer: PreTrainedTokenizerFast,
    *,
    wordnet: WordNet | str | Path | None = None,
    forms: Forms = "agree",
    cache_dir: str | Path | None = None,
) -> LookupTable:
    """The table of :func:`build_table`, built once for a tokenizer, a WordNet and ``forms``, then cached.

    Args:
        tokenizer: any fast tokenizer.
        wordnet: a loaded WordNet, or its path; by default the one that :func:`find_wordnet` finds.
        forms: see :func:`build_table`.
        cache_dir: where tables are kept; ``tables`` in the cache folder if not given.

    Raises:
        LexiconError: if there is no WordNet, or the cache cannot be written.
        ConfigError: if ``forms`` is unknown.
    """
    if forms not in FORMS:
        raise ConfigError(unknown_name("forms", forms, FORMS))
    place = wordnet.path if isinstance(wordnet, WordNet) else find_wordnet(wordnet)
    digest = wordnet.digest if isinstance(wordnet, WordNet) else wordnet_digest(place)
    rules = f"{forms}{_installed('lemminflect')}" if forms == "agree" else forms
    name = f"{fingerprint(tokenizer)}-{digest}-{rules}"

    def build() -> LookupTable:
        loaded = wordnet if isinstance(wordnet, WordNet) else WordNet.load(place)
        return build_table(tokenizer, loaded, forms=forms)

    return kept_table(name, build, cache_dir)


def kept_table(name: str, build: Callable[[], LookupTable], cache_dir: str | Path | None = None) -> LookupTable:
    """Read a table from the cache, or build and keep it.

    Args:
        name: Name of its file, which says all that it depends on.
        build: Builds it.
        cache_dir: Where tables are kept; ``tables`` in the cache folder if not given.

    Raises:
        LexiconError: if the cache cannot be written.
    """
    folder = Path(cache_dir) if cache_dir is not None else cache_folder() / "tables"
    path = folder / f"{name}-v{TABLE_VERSION}.safetensors"
    if path.exists():
        try:
            return LookupTable.load(path)
        except LexiconError as error:
            warnings.warn(f"building the lookup table again: {error}", TruenegWarning, stacklevel=2)
    table = build()
    table.save(path)
    return table


def is_listed(word: str, other: str, wordnet: WordNet, forms: Forms) -> bool:
    """Whether the table of a vocabulary that holds both words lists ``other`` for ``word``, casing aside.

    Example:
        With a WordNet loaded, ``is_listed("movies", "movie", wordnet, "retrieved")`` holds; for "lemma" it does not.
    """
    pair = frozenset({word.lower(), other.lower()})
    if forms != "retrieved" and not all(map(is_candidate, pair)):
        return False
    return other.lower() in _substitute_words(pair, wordnet, forms)[word.lower()]


def _substitute_words(vocabulary: frozenset[str], wordnet: WordNet, forms: Forms) -> dict[str, set[str]]:
    """For each word, the words of the vocabulary that may replace it, all in lower case."""
    if forms == "retrieved":
        retrieved = {word: wordnet.synonyms(word) if word not in STOP_WORDS else () for word in vocabulary}
        return {word: ({s.lower() for s in found} & vocabulary) - {word} for word, found in retrieved.items()}
    forms_of: dict[tuple[PartOfSpeech, str], list[str]] = defaultdict(list)
    for form in vocabulary:
        for pos in PARTS_OF_SPEECH:
            for base in wordnet.morphy(form, pos):
                forms_of[pos, base].append(form)
    lemmas, tags = cache(wordnet.lemmas), cache(penn_tags)

    def substitutes(word: str) -> Iterator[str]:
        for pos, offset, base in wordnet.senses(word):
            for lemma in map(str.lower, lemmas(pos, offset)):
                if lemma == base:
                    continue
                if forms == "lemma":
                    yield lemma
                else:
                    # WordNet and the dictionary of inflections must both know the form: the latter has "staves"
                    # for "stays".
                    own = tags(word, base, pos)
                    yield from (f for f in forms_of.get((pos, lemma), ()) if own & tags(f, lemma, pos))

    return {word: (set(substitutes(word)) & vocabulary) - {word} for word in vocabulary}


def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
