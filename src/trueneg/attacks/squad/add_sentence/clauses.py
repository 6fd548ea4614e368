"""Verbs and noun phrases in tagged words: where a subject ends, where its verb stands, where an object is missing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from trueneg.attacks.squad.add_sentence.question_words import Word
from trueneg.lexicon.morphology import inflections

DO = {"do": "VBP", "does": "VBZ", "did": "VBD"}
"""The forms of *do* that ask, and the Penn tag that each leaves to the verb of a statement."""
BE = frozenset(["is", "are", "was", "were", "'s", "’s", "am", "'re", "’re"])
"""The forms of *be* that ask."""
HAVE = frozenset(["has", "have", "had"])
"""The forms of *have* that ask."""
MODAL = frozenset("can could will would shall should may might must".split())  # noqa: SIM905
"""Auxiliaries that a base form goes with."""
AUXILIARY = frozenset(DO) | BE | HAVE | MODAL
"""All of these."""
NOT = frozenset(["not", "n't", "n’t", "never"])
"""What negates a verb."""
STRANDED = frozenset(
    """
    of in on at from to with for by about into as after against like over through under upon than towards toward near
    around between within without off out up behind
    """.split()  # noqa: SIM905
)
"""Prepositions that can stand without their object."""
SUBORDINATING = frozenset(["when", "while", "after", "before", "because", "since", "if", "although", "until", "where"])
"""What begins a clause of its own."""
NOMINAL = frozenset("NN NNS NNP NNPS CD PRP DT EX WP".split())  # noqa: SIM905
"""Penn tags of what can be a noun phrase by itself."""


def nominal_end(body: Sequence[Word]) -> int:
    """Where the noun phrase ends that a text begins with, with what "of" attaches."""
    at = 0
    while at < len(body):
        word = body[at]
        following = body[at + 1].tag if at + 1 < len(body) else ""
        is_linked = (word.low == "of" or word.text == "'") and at > 0
        is_joined = word.tag == "CC" and following in ("NN", "NNS", "NNP", "NNPS", "DT", "JJ", "PRP$", "CD")
        is_participle = word.tag in ("VBG", "VBN") and following in ("NN", "NNS")
        inside = word.tag in (
            "DT",
            "PRP$",
            "CD",
            "JJ",
            "JJR",
            "JJS",
            "NN",
            "NNS",
            "NNP",
            "NNPS",
            "POS",
            "PDT",
            "PRP",
            "EX",
        )
        if word.tag in ("DT", "PRP") and at and body[at - 1].tag in ("NN", "NNS", "NNP", "NNPS", "PRP"):
            break
        if not (inside or is_linked or is_joined or is_participle or word.text in ('"', "“", "”", "(", ")")):
            break
        at += 1
    return max(at, 1)


def ends_nominal(body: Sequence[Word], at: int) -> bool:
    """Whether a noun phrase can end before a place, adverbs aside."""
    before = at - 1
    while before > 0 and (body[before].tag.startswith("RB") or body[before].low == "first"):
        before -= 1
    word = body[before]
    if word.tag in NOMINAL - {"DT"} or (not word.tag and word.text in (")", '"', "”", "'")):
        return True
    if word.tag == "DT":
        return word.low in ("this", "that", "these", "those", "both", "all", "some")
    if word.tag == "VBG" and before == 0:  # does cycling promote
        return True
    # "the French", "the rich"
    return (
        word.tag in ("JJ", "JJR", "VBG", "RB", "VBN")
        and before > 0
        and body[before - 1].tag in ("DT", "NN", "IN", "JJ")
    )


def is_over(body: Sequence[Word], at: int) -> bool:
    """Whether what stands at a place cannot go on with a noun phrase."""
    return at >= len(body) or body[at].tag in ("IN", "TO", "RB", "") or body[at].low in SUBORDINATING


def verb_place(body: Sequence[Word], form: str) -> int | None:
    """Where the predicate's verb stands, after a subject of one word at least."""
    weak = None
    for at in range(1, len(body)):
        word = body[at]
        if not ends_nominal(body, at):
            continue
        if form == "VB":
            if not _is_base(word.low) or word.text[0].isupper():
                continue
            if word.tag in ("VB", "VBP") or word.low in ("have", "be", "do"):
                return at
            following = body[at + 1].tag if at + 1 < len(body) else ""
            if word.tag in ("NN", "JJ", "IN", "VBD", "VBN", "RB"):
                if following in ("DT", "PRP", "PRP$", "NNP", "CD") and word.tag != "IN":
                    return at
                if (
                    following in ("NN", "NNS", "JJ")
                    and body[at - 1].tag in ("NNP", "NNPS", "NNS", "PRP")
                    and word.tag == "NN"
                ):
                    return at
                if word.tag in ("NN", "VBD", "VBN", "JJ") and following in ("IN", "TO", "", "RB", "NNS", "JJ", "RP"):
                    weak = at  # the last such word, unless a plain verb comes
        elif word.tag in ("VBN", "VBD") or word.low == "been":
            return at
    return weak


def predicate_place(body: Sequence[Word]) -> int | None:
    """Where a participle or an adjective stands that a form of *be* goes with."""
    for at in range(1, len(body)):
        word = body[at]
        start = at
        while start > 1 and body[start - 1].tag.startswith("RB"):
            start -= 1
        if not ends_nominal(body, at):
            continue
        following = body[at + 1].tag if at + 1 < len(body) else ""
        if word.tag in ("VBN", "VBD", "VBG") and (word.tag == "VBG" or _is_participle(word.low)):
            return start
        if word.tag == "JJ" and following in ("", "IN", "TO", "WRB", "WDT", "CC"):
            return start
    return None


def gap_place(tail: Sequence[Word], *, is_person: bool = False) -> int:
    """Where an object is missing after a verb."""
    if not tail:
        return 0
    if tail[-1].low in STRANDED and tail[-1].tag in ("IN", "TO", "RP", "RB"):
        return len(tail)
    stranded = next((at for at in range(len(tail)) if is_stranded(tail, at)), None)
    if stranded is not None:
        return stranded + 1
    if tail[0].low == "that":  # what did he think that it became
        return len(tail)
    if is_person and tail[0].tag != "TO":
        return 0
    at = 0
    while at < len(tail):
        word, following = tail[at], tail[at + 1] if at + 1 < len(tail) else None
        if (
            word.tag == "TO"
            and following is not None
            and following.tag in ("VB", "VBP", "NN")
            and _is_base(following.low)
        ):
            at += 2
            if following.low == "do":
                return at
        elif word.tag in ("VBG", "VBN", "VB"):
            at += 1
        elif following is not None and word.tag == "PRP" and following.tag in ("VBD", "VBP", "VBZ", "MD"):
            at += 2  # what did he say she made
        elif following is not None and word.tag == "IN" and following.tag == "VBG":
            at += 2  # what did he work on refining
        elif word.tag == "RP" or (word.low in STRANDED and is_stranded(tail, at)):
            at += 1
        elif at and word.tag in ("NN", "NNS", "JJ", "DT", "PRP$", "NNP", "PRP", "CD"):
            end = nominal_end(tail[at:]) + at
            if end < len(tail) and tail[end].tag in ("TO", "VB", "VBG"):
                at = end
            else:
                return 0 if tail[0].tag == "TO" else end  # what did he use to keep it
        elif not at and word.tag in ("NN", "NNS", "JJ", "JJR", "DT", "PRP$", "NNP", "NNPS", "PRP", "CD", "EX"):
            end = nominal_end(tail)
            if end < len(tail) and tail[end].tag in ("TO", "VB", "VBG", "VBN"):
                at = end
            else:
                return len(tail) if not _subordinate(tail) else _subordinate(tail)
        else:
            return at
    return at


def is_stranded(words: Sequence[Word], at: int) -> bool:
    """Whether a preposition has lost its object: nothing or another preposition follows."""
    if words[at].tag not in ("IN", "TO", "RP") or words[at].low not in STRANDED:
        return False
    following = words[at + 1] if at + 1 < len(words) else None
    if following is None or following.text in (",", ";"):
        return True
    return following.tag in ("IN", "WRB") and following.low not in ("than", "that", "of")


def _subordinate(tail: Sequence[Word]) -> int:
    return next((at for at, word in enumerate(tail) if at and word.low in SUBORDINATING), 0)


def without_not(body: list[Word]) -> tuple[list[Word], bool]:
    """What follows an auxiliary without its "not", and whether there was one."""
    if body and body[0].low in NOT - {"never"}:
        return body[1:], True
    at = next((at for at, word in enumerate(body[:6]) if word.low in ("not", "n't", "n’t")), None)
    if at is not None and any(word.tag[:2] in ("VB", "MD") for word in body[:at]):
        at = None  # of another clause
    return (body, False) if at is None else ([*body[:at], *body[at + 1 :]], True)


def conjugated(verb: str, tag: str) -> str:
    """A base form in the tense of *do*, *does* or *did*."""
    low = verb.lower()
    if tag == "VBP":
        return low
    if low == "have":
        return {"VBZ": "has", "VBD": "had"}[tag]
    if low == "be":
        return {"VBZ": "is", "VBD": "was"}[tag]
    found = inflections(low, "v").get(tag)
    if found:
        return found[0]
    return low + ("s" if tag == "VBZ" else "d" if low.endswith("e") else "ed")


def base_form(verb: str) -> str:
    """The base form of a verb; the verb itself if it has none."""
    from lemminflect import getAllLemmas

    return next(iter(getAllLemmas(verb).get("VERB", ())), verb)


def is_third_person(word: str) -> bool:
    """Whether a word is a verb in -s: "causes"."""
    from lemminflect import getAllLemmas

    return any(word in inflections(base, "v").get("VBZ", ()) for base in getAllLemmas(word).get("VERB", ()))


@lru_cache(maxsize=1 << 16)
def _is_base(word: str) -> bool:
    """Whether a word is the base form of a verb."""
    from lemminflect import getAllLemmas

    return word in getAllLemmas(word).get("VERB", ()) or word in ("be", "do", "have")


@lru_cache(maxsize=1 << 16)
def _is_participle(word: str) -> bool:
    """Whether a word is the past participle of a verb."""
    from lemminflect import getAllLemmas

    return any(word in inflections(base, "v").get("VBN", ()) for base in getAllLemmas(word).get("VERB", ()))
