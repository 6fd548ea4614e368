"""Read WordNet from the files Princeton documents (wndb(5WN), wninput(5WN), morphy(7WN)).

The data are plain bytes and dictionaries that never change after loading, so they are safe to share between threads
and across a fork, unlike NLTK's reader, in which all users share one open file and file position.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from trueneg.errors import LexiconError
from trueneg.lexicon.wordnet_location import (
    HOW_TO_GET,
    PARTS_OF_SPEECH,
    SUFFIX,
    PartOfSpeech,
    read_files,
    wordnet_digest,
)
from trueneg.lexicon.wordnet_location import find_wordnet as find_wordnet

_T = TypeVar("_T")

# morphy(7WN), rules of detachment.
_DETACHMENTS: dict[PartOfSpeech, tuple[tuple[str, str], ...]] = {
    "n": (
        ("s", ""),
        ("ses", "s"),
        ("ves", "f"),
        ("xes", "x"),
        ("zes", "z"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("men", "man"),
        ("ies", "y"),
    ),
    "v": (
        ("s", ""),
        ("ies", "y"),
        ("es", "e"),
        ("es", ""),
        ("ed", "e"),
        ("ed", ""),
        ("ing", "e"),
        ("ing", ""),
    ),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}

_MARKER = re.compile(r"\((?:a|p|ip)\)$")  # the syntactic position of an adjective, as in "galore(ip)"
_EXAMPLE = re.compile(r'"([^"]*)(?:"|$)')


@dataclass(frozen=True, slots=True)
class Pointer:
    """A relation of a synset to another.

    Attributes:
        symbol: the relation as wninput(5WN) writes it: ``@`` hypernym, ``!`` antonym, ``&`` similar to, …
        pos: part of speech of the target.
        offset: byte offset of the target in its data file.
        source: number (from 1) of the word the relation starts from; 0: the whole synset.
        target: number (from 1) of the word it points to; 0: the whole synset.
    """

    symbol: str
    pos: PartOfSpeech
    offset: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Synset:
    """One meaning: the words that share it, its relations, its gloss.

    Attributes:
        pos: part of speech; a satellite is an adjective with ``is_satellite``.
        offset: its byte offset in its data file; identifies it together with ``pos``.
        is_satellite: whether it is an adjective that has its antonyms through a head it is similar to.
        lemmas: its words as written, with spaces for underscores.
        pointers: its relations in the order of the file.
        gloss: definition and examples, as written.
    """

    pos: PartOfSpeech
    offset: int
    is_satellite: bool
    lemmas: tuple[str, ...]
    pointers: tuple[Pointer, ...]
    gloss: str

    @property
    def definition(self) -> str:
        """The gloss without its examples."""
        return split_gloss(self.gloss)[0]

    @property
    def examples(self) -> tuple[str, ...]:
        """The quoted examples of the gloss, without the quotation marks."""
        return split_gloss(self.gloss)[1]


@dataclass(frozen=True, slots=True)
class Gloss:
    """A synset's text: the words it explains, the definition, the examples of use."""

    lemmas: tuple[str, ...]
    pos: PartOfSpeech
    definition: str
    examples: tuple[str, ...]


def split_gloss(gloss: str) -> tuple[str, tuple[str, ...]]:
    """Split a gloss into its definition and its quoted examples.

    The examples begin at the first quotation mark that opens the gloss or follows one of ``; : , . )``, so a
    word quoted inside a definition stays there. Unquoted text between or after examples (the name of a cited
    author) belongs to neither.

    Example:
        >>> split_gloss('of first rank; "the main thing"; "primary goals"')
        ('of first rank', ('the main thing', 'primary goals'))
    """
    start = re.search(r'(^|[;:,.)])\s*"', gloss)
    if start is None:
        return gloss.strip(" ;"), ()
    examples = tuple(e for e in (m.strip() for m in _EXAMPLE.findall(gloss, start.start())) if e)
    return gloss[: start.end(1)].strip(" ;:,"), examples


@dataclass(frozen=True, eq=False)
class WordNet:
    """WordNet in memory: lookups by word, and its relations.

    Words are found in any casing, with spaces or underscores, and in any inflected form (``morphy``). Returned
    words have spaces. Create one with :meth:`load`.

    Attributes:
        path: the folder or archive it was read from.
        digest: identifies its content, see :func:`wordnet_digest`.
        version: the release its files state, "3.0" for the usual one; "unknown" if they state none.
    """

    path: Path
    digest: str
    version: str
    _index: Mapping[PartOfSpeech, Mapping[str, tuple[int, ...]]] = field(repr=False)
    _exceptions: Mapping[PartOfSpeech, Mapping[str, tuple[str, ...]]] = field(repr=False)
    _data: Mapping[PartOfSpeech, bytes] = field(repr=False)

    @classmethod
    def load(cls, path: str | Path | None = None) -> WordNet:
        """Read WordNet from ``path`` or from where :func:`find_wordnet` finds it (about half a second).

        Raises:
            LexiconError: if there is none, or if a line of an index or exception file is malformed. A
                malformed synset is reported, by file and line, when it is read.
        """
        place = find_wordnet(path)
        try:
            files, digest = read_files(place), wordnet_digest(place)
        except (OSError, zipfile.BadZipFile) as error:
            raise LexiconError(f"cannot read WordNet from {place}: {error}; {HOW_TO_GET}") from error
        stated = re.search(rb"WordNet ([\d.]+) Copyright", files["data.noun"][:4096])
        return cls(
            path=place,
            digest=digest,
            version=stated[1].decode() if stated else "unknown",
            _index={p: _parse_index(place, f"index.{s}", files[f"index.{s}"]) for p, s in SUFFIX.items()},
            _exceptions={p: _parse_exceptions(place, f"{s}.exc", files[f"{s}.exc"]) for p, s in SUFFIX.items()},
            _data={p: files[f"data.{s}"] for p, s in SUFFIX.items()},
        )

    def __len__(self) -> int:
        """The number of entries: lemma and part of speech (155,287 in WordNet 3.0)."""
        return sum(len(entries) for entries in self._index.values())

    def __contains__(self, word: str) -> bool:
        """Whether the word, or a base form of it, has a synset."""
        return any(self.morphy(word, pos) for pos in PARTS_OF_SPEECH)

    def morphy(self, word: str, pos: PartOfSpeech) -> tuple[str, ...]:
        """Base forms of a word that WordNet lists, the word itself first if it is one of them.

        The rules of detachment are applied once: iterating them finds false base forms (18,992 instead of
        18,987 entries of BERT's vocabulary). For an irregular form, only its listed bases are used.

        Example:
            ``morphy("mice", "n") == ("mouse",)``
        """
        form = _key(word)
        listed = self._exceptions[pos].get(form)
        detached = (
            (form[: -len(old)] + new for old, new in _DETACHMENTS[pos] if form.endswith(old))
            if listed is None
            else listed
        )
        index = self._index[pos]
        return tuple(base.replace("_", " ") for base in dict.fromkeys((form, *detached)) if base in index)

    def synsets(self, word: str, pos: PartOfSpeech | None = None) -> tuple[Synset, ...]:
        """The meanings of a word, most frequent first within a part of speech; none if it is unknown."""
        return tuple(self.synset(p, offset) for p, offset, _ in self.senses(word, pos))

    def senses(self, word: str, pos: PartOfSpeech | None = None) -> Iterator[tuple[PartOfSpeech, int, str]]:
        """Part of speech, offset and base form of each distinct meaning, in the order of senses.

        Like :meth:`synsets`, but without reading the synsets.
        """
        for p in PARTS_OF_SPEECH if pos is None else (pos,):
            seen: set[int] = set()
            for base in self.morphy(word, p):
                for offset in self._index[p][_key(base)]:
                    if offset not in seen:
                        seen.add(offset)
                        yield p, offset, base

    def synset(self, pos: PartOfSpeech, offset: int) -> Synset:
        """The synset that begins at byte ``offset`` of the data file of ``pos``.

        Raises:
            LexiconError: if none begins there, or if its line is malformed.
        """
        return self._read(pos, offset, _parse_synset)

    def lemmas(self, pos: PartOfSpeech, offset: int) -> tuple[str, ...]:
        """The words of the synset that begins at byte ``offset``: cheaper than reading all of it."""
        return self._read(pos, offset, _parse_lemmas)

    def _read(self, pos: PartOfSpeech, offset: int, parse: Callable[[PartOfSpeech, int, str], _T]) -> _T:
        data = self._data[pos]
        end = data.find(b"\n", offset)
        line = data[offset : end if end >= 0 else len(data)]
        try:
            return parse(pos, offset, line.decode())
        except (ValueError, IndexError, KeyError) as error:
            number = data.count(b"\n", 0, offset) + 1
            raise LexiconError(
                f"{self.path}/data.{SUFFIX[pos]}, line {number}: no synset at byte {offset}: the file is "
                f"damaged or not from the same WordNet as its index; {HOW_TO_GET}"
            ) from error

    def synonyms(self, word: str, pos: PartOfSpeech | None = None) -> frozenset[str]:
        """Every lemma of every synset of the word, its own base forms included."""
        return frozenset(lemma for p, offset, _ in self.senses(word, pos) for lemma in self.lemmas(p, offset))

    def antonyms(self, word: str, pos: PartOfSpeech | None = None, *, indirect: bool = False) -> frozenset[str]:
        """Words that mean the opposite.

        Args:
            word: any form of a word.
            pos: one part of speech, or all.
            indirect: take also the antonyms of the other words of its synsets and, for a satellite adjective
                such as "immediate", those of the heads it is similar to ("direct": "indirect").
        """
        found: set[str] = set()
        for p, offset, base in self.senses(word, pos):
            synset = self.synset(p, offset)
            holders = [synset]
            if indirect and synset.is_satellite:
                holders += [self.synset(q.pos, q.offset) for q in synset.pointers if q.symbol == "&"]
            own = _places(base, synset)
            for pointer in (q for holder in holders for q in holder.pointers if q.symbol == "!"):
                if indirect or pointer.source in own:
                    found.update(self._pointed_at(pointer))
        return frozenset(found)

    def derived(self, word: str, pos: PartOfSpeech | None = None) -> frozenset[str]:
        """Words related by derivation, and what an adjective or adverb is made from: "Japan" for "Japanese"."""
        found: set[str] = set()
        for p, offset, base in self.senses(word, pos):
            synset = self.synset(p, offset)
            own = _places(base, synset) | {0}
            for pointer in synset.pointers:
                if pointer.symbol in ("+", "\\") and pointer.source in own:
                    found.update(self._pointed_at(pointer))
        return frozenset(found)

    def are_synonyms(self, word: str, other: str) -> bool:
        """Whether two words, in any form, have a meaning in common."""
        meanings = {(pos, offset) for pos, offset, _ in self.senses(word)}
        return any((pos, offset) in meanings for pos, offset, _ in self.senses(other))

    def _pointed_at(self, pointer: Pointer) -> tuple[str, ...]:
        """The word that a pointer names, or all of its synset."""
        lemmas = self.lemmas(pointer.pos, pointer.offset)
        return lemmas[pointer.target - 1 : pointer.target] if pointer.target else lemmas

    def all_synsets(self) -> Iterator[Synset]:
        """Every synset in the order of the files: nouns, verbs, adjectives, adverbs."""
        for pos in PARTS_OF_SPEECH:
            offset = 0
            for line in self._data[pos].splitlines(keepends=True):
                if not line.startswith(b" "):  # the licence at the top of each file is indented
                    yield self.synset(pos, offset)
                offset += len(line)

    def glosses(self) -> Iterator[Gloss]:
        """Every gloss, in the order of the files (117,659 in WordNet 3.0, 1.9 M tokens of English)."""
        for synset in self.all_synsets():
            definition, examples = split_gloss(synset.gloss)
            yield Gloss(synset.lemmas, synset.pos, definition, examples)


def _places(base: str, synset: Synset) -> set[int]:
    """Numbers, from 1, of the words of a synset that equal ``base`` in lower case."""
    return {n for n, lemma in enumerate(synset.lemmas, 1) if lemma.lower() == base}


def _key(word: str) -> str:
    return word.lower().replace(" ", "_")


def _lines(place: Path, name: str, content: bytes) -> Iterator[tuple[int, list[str]]]:
    """Number and fields of each line that is not the indented licence."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise LexiconError(f"{place}/{name}, line {number}: not UTF-8 text; {HOW_TO_GET}") from error
    for number, line in enumerate(text.split("\n"), 1):
        if line and line[0] != " ":
            yield number, line.split()


def _parse_index(place: Path, name: str, content: bytes) -> dict[str, tuple[int, ...]]:
    """Entries of an index file: ``lemma pos synset_cnt p_cnt [symbol…] sense_cnt tagsense_cnt offset…``."""
    entries: dict[str, tuple[int, ...]] = {}
    for number, fields in _lines(place, name, content):
        try:
            num_synsets = int(fields[2])
            if num_synsets < 1 or len(fields) != 6 + int(fields[3]) + num_synsets:
                raise ValueError
            entries[fields[0]] = tuple(map(int, fields[-num_synsets:]))
        except (ValueError, IndexError) as error:
            raise LexiconError(f"{place}/{name}, line {number}: not an index entry; {HOW_TO_GET}") from error
    if not entries or not content.endswith(b"\n"):
        raise LexiconError(f"{place}/{name} is torn: it ends in the middle of a line; {HOW_TO_GET}")
    return entries


def _parse_exceptions(place: Path, name: str, content: bytes) -> dict[str, tuple[str, ...]]:
    """Irregular forms: ``form base…``; a form on several lines has the bases of all of them."""
    bases: dict[str, tuple[str, ...]] = {}
    for number, fields in _lines(place, name, content):
        if len(fields) < 2:
            raise LexiconError(f"{place}/{name}, line {number}: a form without its base; {HOW_TO_GET}")
        bases[fields[0]] = bases.get(fields[0], ()) + tuple(fields[1:])
    return bases


def _parse_synset(pos: PartOfSpeech, offset: int, line: str) -> Synset:
    """``offset file type w_cnt (word lex_id)… p_cnt (symbol offset pos source-target)… [frames] | gloss``.

    Word counts and word numbers are hexadecimal, the count of pointers is decimal.
    """
    lemmas = _parse_lemmas(pos, offset, line)
    head, _, gloss = line.partition("|")
    fields = head.split()
    first = 5 + 2 * len(lemmas)
    num_pointers = int(fields[first - 1])
    pointers = tuple(
        Pointer(
            symbol=fields[at],
            pos=_POS_OF_TYPE[fields[at + 2]],
            offset=int(fields[at + 1]),
            source=int(fields[at + 3][:2], 16),
            target=int(fields[at + 3][2:], 16),
        )
        for at in range(first, first + 4 * num_pointers, 4)
    )
    return Synset(
        pos=pos,
        offset=offset,
        is_satellite=fields[2] == "s",
        lemmas=lemmas,
        pointers=pointers,
        gloss=gloss.strip(),
    )


def _parse_lemmas(pos: PartOfSpeech, offset: int, line: str) -> tuple[str, ...]:
    """The words of a synset's line, as text, after checking their number and that the line is the right one."""
    start, _, _, count, rest = line.split(" ", 4)
    num_words = int(count, 16)
    fields = rest.split(" ", 2 * num_words)
    words = fields[: 2 * num_words : 2]
    if len(start) != 8 or int(start) != offset or len(words) != num_words or "|" not in fields[-1]:
        raise ValueError(line)
    if pos == "a":
        words = [_MARKER.sub("", word) for word in words]
    return tuple(word.replace("_", " ") for word in words)


_POS_OF_TYPE: dict[str, PartOfSpeech] = {"n": "n", "v": "v", "a": "a", "s": "a", "r": "r"}
