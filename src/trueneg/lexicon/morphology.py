"""Which forms of one word agree with a form of another: "movies" with "films", "remained" with "stayed".

Inflections come from lemminflect's dictionary, only while a table is built. Its guesses for unknown words
("beautifuler", "quicklier") are never used.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from trueneg.lexicon.wordnet_location import PartOfSpeech

_UNIVERSAL: dict[PartOfSpeech, str] = {"n": "NOUN", "v": "VERB", "a": "ADJ", "r": "ADV"}

_BASE_TAGS: dict[PartOfSpeech, tuple[str, ...]] = {
    "n": ("NN",),
    "v": ("VB", "VBP"),
    "a": ("JJ",),
    "r": ("RB",),
}


def agreeing_forms(form: str, base: str, substitute: str, pos: PartOfSpeech) -> frozenset[str]:
    """The forms of ``substitute`` that can stand where ``form``, a form of ``base``, stands.

    Args:
        form: the word in the text, lower case.
        base: its base form in this reading.
        substitute: base form of the word to put there.
        pos: part of speech of both in this reading.

    Returns:
        Every form of ``substitute`` that shares a Penn Treebank tag with ``form``. A word that the dictionary
        lacks has its base form only.

    Example:
        >>> sorted(agreeing_forms("movies", "movie", "film", "n"))
        ['films']
        >>> sorted(agreeing_forms("bigger", "big", "large", "a"))
        ['larger']
    """
    tags = penn_tags(form, base, pos)
    return frozenset(f for tag, forms in inflections(substitute, pos).items() if tag in tags for f in forms)


def penn_tags(form: str, base: str, pos: PartOfSpeech) -> frozenset[str]:
    """The Penn Treebank tags that ``form`` can have as a form of ``base``; none if it is not one.

    Example:
        >>> sorted(penn_tags("stayed", "stay", "v"))
        ['VBD', 'VBN']
    """
    return frozenset(tag for tag, forms in inflections(base, pos).items() if form in forms)


@cache
def inflections(base: str, pos: PartOfSpeech) -> Mapping[str, tuple[str, ...]]:
    """Forms of a base form by Penn Treebank tag, the base form among them.

    A plural equal to the singular counts only where it is the usual one ("sheep"): the dictionary also lists
    "film" as a plural of "film", and "movies" is not rightly corrected to it.
    """
    from lemminflect import getAllInflections

    forms: dict[str, tuple[str, ...]] = dict(getAllInflections(base, upos=_UNIVERSAL[pos]))
    if "VBD" in forms:  # the dictionary leaves out a participle that equals the past
        forms.setdefault("VBN", forms["VBD"])
    if plurals := forms.get("NNS"):
        forms["NNS"] = tuple(p for p in plurals if p != base) if plurals[0] != base else plurals
    for tag in _BASE_TAGS[pos]:
        forms[tag] = tuple(dict.fromkeys((base, *forms.get(tag, ()))))
    return forms
