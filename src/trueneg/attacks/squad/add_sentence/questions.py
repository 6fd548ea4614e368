"""Questions as tagged words, and their structure: [words before,] [preposition] question phrase, and the rest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from trueneg.lexicon.morphology import inflections
from trueneg.lexicon.tagging import Tagger, tag_text
from trueneg.lexicon.tags import PENN

DO = {"do": "VBP", "does": "VBZ", "did": "VBD"}
"""Forms of *do* that form questions, and the Penn tag that the verb of the statement gets from each."""
BE = frozenset(["is", "are", "was", "were", "'s", "’s", "am", "'re", "’re"])
"""Forms of *be* that form questions."""
HAVE = frozenset(["has", "have", "had"])
"""Forms of *have* that form questions."""
MODAL = frozenset("can could will would shall should may might must".split())  # noqa: SIM905
"""Auxiliaries that are followed by a base form."""
AUXILIARY = frozenset(DO) | BE | HAVE | MODAL
"""All of these."""
NOT = frozenset(["not", "n't", "n’t", "never"])
"""Words that negate a verb."""
STRANDED = frozenset(
    """
    of in on at from to with for by about into as after against like over through under upon than towards toward near
    around between within without off out up behind
    """.split()  # noqa: SIM905
)
"""Prepositions that can stand without their object."""
SUBORDINATING = frozenset(["when", "while", "after", "before", "because", "since", "if", "although", "until", "where"])
"""Words that begin a subordinate clause."""
NOMINAL = frozenset("NN NNS NNP NNPS CD PRP DT EX WP".split())  # noqa: SIM905
"""Penn tags of words that can form a noun phrase by themselves."""
WH = frozenset("what which who whom whose when where why how".split())  # noqa: SIM905
"""Question words."""
KINDS = frozenset("type types kind kinds sort sorts form forms style styles genre genres".split())  # noqa: SIM905
"""Nouns that ask for a kind of the noun after their "of"."""
TIME_NOUNS = frozenset(
    "year years month months century centuries decade decades era period date day time season".split()  # noqa: SIM905
)
"""Nouns that ask for a time."""

_JOINING = "-–/.&'’%+°_,:"
_CONTRACTED = re.compile(r"n['’]t|['’](?:s|m|d|ll|re|ve)", re.IGNORECASE)
_PLURAL_S = re.compile(r"['’]")


@dataclass(frozen=True, slots=True)
class Word:
    """A word or punctuation mark.

    Attributes:
        text: as written.
        tag: of the Penn Treebank; empty for punctuation.
        start: offset in the original text; -1 for an inserted word.
        is_glued: whether no space separates it from the word before.
    """

    text: str
    tag: str
    start: int = -1
    is_glued: bool = False

    @property
    def low(self) -> str:
        """The word in lower case."""
        return self.text.lower()

    @property
    def end(self) -> int:
        """Offset of its end in the original text."""
        return self.start + len(self.text)


def read_words(text: str, tagger: Tagger) -> list[Word]:
    """Split a text and tag its words; hyphenated words, numbers and abbreviations are single words.

    Example:
        With the tagger "pattern", the words of "St. Roch's $500,000 X-ray" are St. | Roch | 's | $500,000 | X-ray.
    """
    tagged = tag_text(text, tagger)
    places = zip(tagged.starts.tolist(), tagged.ends.tolist(), tagged.tags.tolist(), strict=True)
    words: list[Word] = []
    for start, end, tag in places:
        word = Word(text[start:end], PENN[tag], start, bool(words) and words[-1].end == start)
        if words and word.is_glued and _is_joined(words[-1], word, text[end : end + 1]):
            last = words[-1]
            joined = text[last.start : end]
            words[-1] = replace(last, text=joined, tag=_joined_tag(joined, last.tag, word.tag))
        else:
            words.append(word)
    return [_corrected(words, at) for at in range(len(words))]


def written(words: Sequence[Word]) -> str:
    """Join words to a text."""
    parts = []
    for at, word in enumerate(words):
        parts += ["" if at == 0 or word.is_glued else " ", word.text]
    return "".join(parts)


def _is_joined(last: Word, word: Word, following: str) -> bool:
    if _CONTRACTED.fullmatch(word.text):
        return False
    if word.text in ",:":
        return last.text[-1].isdigit() and following.isdigit()
    if word.text == ".":
        is_initial = re.fullmatch(r"(?:[A-Za-z]\.)*[A-Z]", last.text) is not None
        return is_initial or following.isalnum() or last.text in ("St", "Mr", "Mrs", "Dr", "Jr", "Sr", "No", "vs")
    if word.text in "-–/&'’%+°_":
        return word.text in "%+°" or bool(following.strip())
    return last.text[-1] in _JOINING + "$£€#" and last.text[-1] not in '"“'


def _joined_tag(text: str, first: str, last: str) -> str:
    if any(letter.isdigit() for letter in text):
        return "CD" if text[0].isdigit() or text[0] in "$£€#" else "NNP"
    if "." in text:
        return "NNP"
    if last in ("VBN", "VBD", "VBG"):
        return "JJ"
    return last or first


def _is_determiner(words: Sequence[Word], at: int) -> bool:
    """Whether a noun must follow: "this" is followed by one if a verb comes after it."""
    if words[at].low == "this":
        return at + 2 < len(words) and words[at + 2].tag == "VB"
    return words[at].tag in ("DT", "PRP$") and words[at].low != "that"


def _corrected(words: Sequence[Word], at: int) -> Word:
    """Fix tagging errors that occur mostly in questions."""
    word = words[at]
    text, tag = word.text, word.tag
    if _PLURAL_S.match(text):
        before = words[at - 1].low if at else ""
        tag = "VBZ" if before in ("what", "who", "where", "when", "how", "there", "it", "that") else "POS"
        tag = tag if text.lower() in ("'s", "’s", "'", "’") else "VBP"
    elif at and text in ("Who", "What", "When", "Which", "How") and words[at - 1].text[0].isupper():
        tag = "NNP"  # Doctor Who
    elif tag in ("VB", "VBP") and at and _is_determiner(words, at - 1):
        tag = "NN"
    elif tag.startswith("NNP") and text.islower():
        tag = "NNS" if tag == "NNPS" else "NN"
    elif text[0].isdigit() and tag:
        tag = "JJ" if re.fullmatch(r"\d+(?:st|nd|rd|th)", text) else "CD"
    elif at and text[0].isupper() and tag in ("NN", "NNS", "VB", "VBP", "VBD", "VBN", "VBZ", "VBG", "FW", "RB", "UH"):
        tag = "NNPS" if tag == "NNS" else "NNP"
    elif word.low in ("who", "whom", "what"):
        tag = "WP"
    elif word.low == "which":
        tag = "WDT"
    elif word.low in ("when", "where", "why", "how"):
        tag = "WRB"
    return word if tag == word.tag else replace(word, tag=tag)


@dataclass(frozen=True)
class Question:
    """A question split into parts.

    Attributes:
        before: words before the question phrase, without its preposition.
        preposition: of the question phrase: one word at most.
        wh: the question word: "who", "what" (also for "which"), "how many", "how long", "how".
        noun: the rest of the question phrase.
        start: offset of the question phrase in the text.
        rest: words after the question phrase, without the question mark and similar at the end.
        is_front: whether the question phrase is fronted, rather than in the position of the answer.
    """

    before: tuple[Word, ...]
    preposition: tuple[Word, ...]
    wh: str
    noun: tuple[Word, ...]
    start: int
    rest: tuple[Word, ...]
    is_front: bool

    @property
    def head(self) -> str:
        """The noun that is asked for, in lower case."""
        of = next((at for at, word in enumerate(self.noun) if at and word.tag in ("IN", "TO")), len(self.noun))
        head = self.noun[of - 1].low if self.noun[:of] else ""
        return self.noun[-1].low if head in KINDS and of + 1 < len(self.noun) else head


def read_question(words: Sequence[Word]) -> Question | None:
    """Parse the words that :func:`read_words` returns; None without a question phrase."""
    words = list(words)
    while words and not words[-1].tag and words[-1].text not in (")", '"', "”", "%"):
        words.pop()
    places = [at for at, word in enumerate(words) if word.low in WH and word.tag.startswith("W")]
    if not places:
        return None
    if len(places) > 1 and words[places[0]].low in ("when", "where") and places[0] == 0 and not _is_inverted(words, 0):
        places = places[1:]  # "When rock folds, what does it create?"
    front = [at for at in places if _opens_clause(words, at)]
    at = front[0] if front else _asking(words, places)
    if at is None:
        return None
    first = at
    if at and words[at - 1].tag in ("IN", "TO") and (at == 1 or words[at - 2].text == "," or not front):
        first = at - 1
    before = words[:first]
    preposition = [replace(word, text=word.low) for word in words[first:at]]
    wh, end = _phrase_end(words, at)
    if front and wh == "what" and not any(_is_verbal(word) for word in words[end:]):  # which law concerns the state
        inside = [n for n in range(at + 2, end) if words[n].tag == "NNS" and _is_form(words[n].low, "VBZ")]
        if inside and inside[-1] + 1 < len(words):
            end = inside[-1]
    if before and front:
        before = [*(before[:-1] if before[-1].text == "," else before), Word(",", "", is_glued=True)]
    noun = tuple(word for word in words[at + len(wh.split()) : end] if word.low != "else")
    return Question(
        tuple(before), tuple(preposition), wh, noun, words[at].start, tuple(words[end:]), is_front=bool(front)
    )


def is_adjunct(question: Question) -> bool:
    """Whether the question phrase is neither subject nor object."""
    if question.preposition and question.preposition[-1].low not in ("about", "approximately"):
        return True
    if question.wh in ("when", "where", "why", "how"):
        return True
    if question.wh.startswith("how ") and question.wh not in ("how many", "how much"):
        return True
    rest = question.rest
    if question.wh != "what" or question.head not in TIME_NOUNS or not rest:
        return False
    if rest[0].low in {*DO, *HAVE, *MODAL}:
        return rest[-1].low not in STRANDED
    return rest[0].low in BE and predicate_place(list(rest[1:])) is not None and len(rest) > 2


def _is_verbal(word: Word) -> bool:
    return word.tag[:2] in ("VB", "MD") or word.low in AUXILIARY


def _opens_clause(words: Sequence[Word], at: int) -> bool:
    """Whether the main clause begins with the question word."""
    if at == 0 or (at == 1 and (words[0].tag in ("IN", "TO", "CC", "RB") or not words[0].tag)):
        return True
    if words[at - 1].text == ",":
        return (
            at + 1 < len(words) and words[at].low not in ("which", "who", "where", "whose", "when")
        ) or _is_inverted(words, at)
    is_lead = at <= 8 and words[0].tag in ("IN", "JJ", "RB", "VBG") and words[at - 1].tag not in ("IN", "TO")
    if is_lead and words[at].low not in ("when", "where", "whose"):
        return not any(word.tag[:2] in ("VB", "MD") for word in words[1:at]) and _is_inverted(words, at)
    if words[at - 1].tag in ("IN", "TO") and at >= 2 and words[at - 2].text == ",":
        return _is_inverted(words, at) and words[at - 1].low != "of"
    return False


def _is_inverted(words: Sequence[Word], at: int) -> bool:
    """Whether the question phrase is followed by an auxiliary and a subject."""
    _, end = _phrase_end(words, at)
    return end + 1 < len(words) and (words[end].low in AUXILIARY or words[end].tag[:2] == "VB")


def _asking(words: Sequence[Word], places: Sequence[int]) -> int | None:
    """The question word in a sentence with the word order of a statement: "It was founded in what year"."""
    for at in reversed(places):
        if words[at].low in ("what", "how", "whom") or words[at - 1].tag in ("IN", "TO") or at + 1 == len(words):
            return at
        if words[at].low == "which" and words[at - 1].tag.startswith("VB"):
            return at
    return None


def _phrase_end(words: Sequence[Word], at: int) -> tuple[str, int]:
    """The question word and the end of its phrase."""
    wh, end = words[at].low, at + 1
    if wh == "which":
        wh = "what"
    if end < len(words) and words[end].low == "else":
        end += 1
    if wh in ("who", "whom", "when", "where", "why"):
        return wh, end
    if wh == "how":
        following = words[end] if end < len(words) else None
        if following is None or following.low in AUXILIARY or following.tag not in ("JJ", "RB", "JJR", "RBR"):
            return wh, end
        wh, end = f"how {following.low}", end + 1
        if following.low not in ("many", "much"):
            return wh, end
    begin = end
    while end < len(words):
        word, last = words[end], words[end - 1]
        if word.tag != "POS" and (word.low in AUXILIARY or word.tag[:2] in ("VB", "MD", "WP", "WD", "WR", "PR")):
            is_modifier = word.tag in ("VBN", "VBG") and end + 1 < len(words) and words[end + 1].tag in ("NN", "NNS")
            if not (is_modifier and word.low not in AUXILIARY):
                break
        if end == begin and wh == "what" and word.tag == "NNS" and _is_finite(words, end):
            break
        if word.tag in ("DT", "PDT", "EX") and last.tag not in ("IN", "TO", "POS") and last.low != "of":
            break
        if not word.tag and word.text not in ("-", '"', "“", "”", "'", "/"):
            break
        if word.tag in ("IN", "TO", "RB") and end == begin and word.low != "of":
            break
        if word.tag in ("RB", "TO"):
            break
        end += 1
    while end > begin and words[end - 1].tag in ("IN", "TO", "CC"):
        end -= 1
    return wh, end


def _is_finite(words: Sequence[Word], at: int) -> bool:
    """Whether a word in -s is the verb, as no other word can be: "what causes strain"."""
    return bool(verb_lemmas(words[at].low)) and at + 1 < len(words) and not any(map(_is_verbal, words[at + 1 :]))


def ends_nominal(body: Sequence[Word], at: int) -> bool:
    """Whether a noun phrase can end before a position, ignoring adverbs."""
    before = at - 1
    while before > 0 and (body[before].tag.startswith("RB") or body[before].low == "first"):
        before -= 1
    word = body[before]
    if word.tag in NOMINAL - {"DT"} or (not word.tag and word.text in (")", '"', "”", "'")):
        return True
    if word.tag == "DT":
        return word.low in ("this", "that", "these", "those", "both", "all", "some")
    if before <= 0:
        return before == 0 and word.tag == "VBG"  # does cycling promote
    # "the French", "the rich"
    return word.tag in ("JJ", "JJR", "VBG", "RB", "VBN") and body[before - 1].tag in ("DT", "NN", "IN", "JJ")


def predicate_place(body: Sequence[Word]) -> int | None:
    """Position of a participle or adjective that forms a predicate with *be*."""
    for at in range(1, len(body)):
        word = body[at]
        start = at
        while start > 1 and body[start - 1].tag.startswith("RB"):
            start -= 1
        if not ends_nominal(body, at):
            continue
        following = body[at + 1].tag if at + 1 < len(body) else ""
        if word.tag in ("VBN", "VBD", "VBG") and (word.tag == "VBG" or _is_form(word.low, "VBN")):
            return start
        if word.tag == "JJ" and following in ("", "IN", "TO", "WRB", "WDT", "CC"):
            return start
    return None


def verb_lemmas(word: str) -> tuple[str, ...]:
    """Base forms of a word as a verb."""
    from lemminflect import getAllLemmas

    return tuple(getAllLemmas(word).get("VERB", ()))


@lru_cache(maxsize=1 << 16)
def _is_form(word: str, tag: str) -> bool:
    """Whether a word is a form of a verb: "causes" with VBZ, "caused" with VBN."""
    return any(word in inflections(base, "v").get(tag, ()) for base in verb_lemmas(word))
