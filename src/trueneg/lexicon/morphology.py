"""Inflections, and how to inflect one word like a form of another: "climbed to" for "reached".

They come from lemminflect's dictionary. Its guesses for unknown words ("beautifuler", "quicklier") are never used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from trueneg.lexicon.surface import casing
from trueneg.lexicon.wordnet_location import PartOfSpeech

_UNIVERSAL: dict[PartOfSpeech, str] = {"n": "NOUN", "v": "VERB", "a": "ADJ", "r": "ADV"}

_BASE_TAGS: dict[PartOfSpeech, tuple[str, ...]] = {
    "n": ("NN",),
    "v": ("VB", "VBP"),
    "a": ("JJ",),
    "r": ("RB",),
}

_AUXILIARIES = frozenset(
    """
    have has had having 've 's 'd be am is are was were been being 'm 're get gets got getting
    haven't hasn't hadn't isn't aren't wasn't weren't
    """.split()  # noqa: SIM905
)
_BETWEEN = frozenset(["not", "never", "ever", "also", "just", "already", "always", "often", "now", "since", "so"])
_PREPOSITIONS = frozenset(
    """
    of in for to at on from with without by about into over under between against behind beyond during per through
    """.split()  # noqa: SIM905
)
_DEGREE = {"JJR": "more", "RBR": "more", "JJS": "most", "RBS": "most"}

# Of the tags that a form can have, the first in this order is used. A participle is preferred only after an auxiliary;
# "put" without one is read as the base form, not as the past.
_PREFERENCE: dict[PartOfSpeech, tuple[str, ...]] = {
    "n": ("NN", "NNS"),
    "v": ("VB", "VBP", "VBZ", "VBG", "VBD", "VBN"),
    "a": ("JJ", "JJR", "JJS"),
    "r": ("RB", "RBR", "RBS"),
}


def penn_tags(form: str, base: str, pos: PartOfSpeech) -> frozenset[str]:
    """The Penn Treebank tags that ``form`` can have as a form of ``base``; none if it is not one.

    Example:
        >>> sorted(penn_tags("stayed", "stay", "v"))
        ['VBD', 'VBN']
    """
    return frozenset(tag for tag, forms in inflections(base, pos).items() if form in forms)


@cache
def inflections(base: str, pos: PartOfSpeech) -> Mapping[str, tuple[str, ...]]:
    """Inflected forms of a base form by Penn Treebank tag, including the base form.

    A plural equal to the singular counts only if it is the usual one ("sheep"): the dictionary also lists
    "film" as a plural of "film", but "film" is no substitute for "movies".
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


def agreeing_substitute(
    target: str,
    target_lemma: str,
    substitute: str,
    pos: PartOfSpeech | None,
    *,
    before: str = "",
    tag: str | None = None,
) -> str:
    """Give a base form the inflection and the capitals of the word it replaces.

    Of a verb, the first word is inflected ("climb to"); of a noun, its head: the last word, or the one before a
    preposition ("point in time"). Adjectives and adverbs are inflected if they are one word; those without a
    comparative of their own take "more" or "most". A substitute that the dictionary of inflections lacks is left
    as it is, and so is every substitute for a target whose form the dictionary does not know.

    A verb form can be both past and participle ("stayed"). For most substitutes this makes no difference; for
    the others ("went", "gone") the target is read as a participle after a form of *have*, *be* or *get*.

    Args:
        target: the word as written in the text.
        target_lemma: its base form.
        substitute: base form of the substitute, one word or several.
        pos: part of speech of both; if None, only the capitals are copied.
        before: the text before the target, which distinguishes a past from a participle.
        tag: the target's Penn Treebank tag, where it is known; then it is not guessed from form and context.

    Example:
        >>> agreeing_substitute("reached", "reach", "climb to", "v")
        'climbed to'
        >>> agreeing_substitute("Moments", "moment", "point in time", "n")
        'Points in time'
        >>> [agreeing_substitute("left", "leave", "go", "v", before=text) for text in ("She ", "She has never ")]
        ['went', 'gone']
    """
    if pos and tag is None:
        tag = _tag(target.lower(), target_lemma.lower(), pos, before)
    return _cased(_inflected(substitute, pos, tag) if pos and tag else substitute, target)


def _tag(form: str, base: str, pos: PartOfSpeech, before: str) -> str | None:
    """The Penn Treebank tag of a form in its context."""
    possible = penn_tags(form, base, pos)
    if "VBN" in possible and _has_auxiliary(before):
        return "VBN"
    return next((tag for tag in _PREFERENCE[pos] if tag in possible), None)


def _has_auxiliary(before: str) -> bool:
    """Whether the last word of a text, adverbs aside, is a form of *have*, *be* or *get*."""
    words = re.findall(r"'\w+|\w+n't|\w+|[^\w\s]", before[-80:].lower().replace("’", "'"))
    last = next((w for w in reversed(words) if w not in _BETWEEN and not w.endswith("ly")), "")
    return last in _AUXILIARIES


def _inflected(base: str, pos: PartOfSpeech, tag: str) -> str:
    words = base.split(" ")
    if pos in ("a", "r"):
        return _of_degree(base, pos, tag)
    at = 0 if pos == "v" else _head(words)
    words[at] = next(iter(inflections(words[at], pos).get(tag, ())), words[at])
    return " ".join(words)


def _head(words: list[str]) -> int:
    """Index of the head of a noun phrase: before its first preposition, or at its end."""
    first = next((at for at, word in enumerate(words) if at and word in _PREPOSITIONS), len(words))
    return first - 1


def _of_degree(base: str, pos: PartOfSpeech, tag: str) -> str:
    """An adjective or adverb in its positive, comparative or superlative."""
    if " " in base or tag not in _DEGREE:
        return base
    if found := inflections(base, pos).get(tag):
        return found[0]
    return f"{_DEGREE[tag]} {base}" if _is_known(base, pos) else base


def _is_known(base: str, pos: PartOfSpeech) -> bool:
    """Whether the dictionary has a word as a base form: neither "qwzx" nor "better" takes "more"."""
    from lemminflect import getAllInflections

    return bool(getAllInflections(base, upos={"a": "ADJ", "r": "ADV"}[pos]))


def _cased(text: str, target: str) -> str:
    """Copy the casing of a word, and keep capitals that the text has of its own."""
    match casing(target):
        case "upper":
            return text.upper()
        case "title":
            return text[:1].upper() + text[1:]
        case _:
            return text
