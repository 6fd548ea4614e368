"""TextBlob's English tagger: a lexicon, suffix rules for unknown words, and contextual rules.

TextBlob ships Brill's contextual rules (E. Brill, "A simple rule-based part of speech tagger", 1992) in the format of
the library Pattern, but its ``PatternTagger`` never applies them: ``Parser.find_tags`` does not pass them on. They are
applied here from their file, with the same results as TextBlob's ``Context.apply``.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trueneg.lexicon.tags import coarse

_EDGE = "STAART"  # how the file of rules marks sentence boundaries
_ANY = "*"  # any tag of the word, as that file writes it in rules about single words ("* IN CURWD from")
_REACH = 3
_CACHED_WORDS = 1 << 18

# What each command compares with its arguments: a tag or a word, at any of these offsets from the word itself.
_TAG, _WORD = 0, 1
_COMMANDS: Mapping[str, tuple[tuple[int, tuple[int, ...]], ...]] = {
    "prevtag": ((_TAG, (-1,)),),
    "nexttag": ((_TAG, (1,)),),
    "prev2tag": ((_TAG, (-2,)),),
    "next2tag": ((_TAG, (2,)),),
    "prev1or2tag": ((_TAG, (-1, -2)),),
    "next1or2tag": ((_TAG, (1, 2)),),
    "prev1or2or3tag": ((_TAG, (-1, -2, -3)),),
    "next1or2or3tag": ((_TAG, (1, 2, 3)),),
    "surroundtag": ((_TAG, (-1,)), (_TAG, (1,))),
    "curwd": ((_WORD, (0,)),),
    "prevwd": ((_WORD, (-1,)),),
    "nextwd": ((_WORD, (1,)),),
    "prev1or2wd": ((_WORD, (-1, -2)),),
    "next1or2wd": ((_WORD, (1, 2)),),
    "wdprevtag": ((_TAG, (-1,)), (_WORD, (0,))),
    "wdnexttag": ((_WORD, (0,)), (_TAG, (1,))),
    "wdand2aft": ((_WORD, (0,)), (_WORD, (2,))),
    "wdand2tagbfr": ((_TAG, (-2,)), (_WORD, (0,))),
    "wdand2tagaft": ((_WORD, (0,)), (_TAG, (2,))),
    "lbigram": ((_WORD, (-1,)), (_WORD, (0,))),
    "rbigram": ((_WORD, (0,)), (_WORD, (1,))),
    "prevbigram": ((_TAG, (-2,)), (_TAG, (-1,))),
    "nextbigram": ((_TAG, (1,)), (_TAG, (2,))),
}
_Condition = tuple[int, tuple[int, ...], str]
"""Whether tags (0) or words (1) are compared, the offsets of which one must have the value, and the value."""
_LEADING = frozenset(["TO", "MD", "DT", "PRP", "PRP$", "POS", "IN", "JJ"])


@dataclass(frozen=True)
class Rule:
    """A contextual rule: where all conditions hold, a word tagged ``old`` is tagged ``new``.

    Attributes:
        old: the tag it applies to.
        new: the tag it gives.
        conditions: what must be found around the word.
    """

    old: str
    new: str
    conditions: tuple[_Condition, ...]

    @classmethod
    def parse(cls, line: str) -> Rule:
        """Read a line of the file of rules: ``VBD VBN PREV1OR2WD have``."""
        old, new, command, *values = line.split()
        kinds = _COMMANDS[command.lower()]
        return cls(old, new, tuple((*kind, value) for kind, value in zip(kinds, values, strict=False)))

    @property
    def is_safe(self) -> bool:
        """Whether it keeps the class of the word, separates nouns from verbs by preceding context, or is about a word.

        The others do more harm than good: without them 96.7 % instead of 95.7 % of words have the right class in the
        Wall Street Journal, 95.3 % instead of 93.9 % in the Brown corpus, against 96.3 % and 95.0 % without any rules
        (``benchmarks/taggers.py``).
        """
        classes = {coarse(self.old), coarse(self.new)}
        leads = all(at < 0 for _, places, _ in self.conditions for at in places)
        is_led = leads and any(value in _LEADING for *_, value in self.conditions)
        return self.old == _ANY or len(classes) == 1 or (classes == {"n", "v"} and is_led)


class PatternTagger:
    """TextBlob's lexicon and suffix rules, then the contextual rules in their order.

    Words in capitals that the lexicon lacks are looked up in lower case; unknown words without a single ASCII letter
    or digit are tagged as foreign (FW), where TextBlob tags them as nouns.

    Args:
        name: its name in the options.
        keep: selects the rules to apply.
    """

    def __init__(self, name: str, keep: Callable[[Rule], bool]) -> None:
        from textblob._text import _read
        from textblob.en import lexicon, parser

        self.name = name
        self.provenance = {"textblob": importlib.metadata.version("textblob")}
        self._lexicon: Mapping[str, str] = lexicon
        self._find_tags: Callable[[Sequence[str]], list[list[str]]] = parser.find_tags
        rules = (Rule.parse(line) for line in _read(lexicon.context.path) if line.strip())
        self._rules = [rule for rule in rules if keep(rule)]
        # The words that conditions name, and the tags that rules change; rules for any tag are about a word.
        self._telling = {value for rule in self._rules for kind, _, value in rule.conditions if kind == _WORD}
        self._changing = {rule.old for rule in self._rules}
        cached = functools.lru_cache(_CACHED_WORDS)
        self._first, self._other = (cached(functools.partial(self._look_up, is_first=first)) for first in (True, False))
        self._candidates = _Candidates(self._rules)

    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Tag sentences."""
        return [self._tag(words) for words in sentences]

    def _tag(self, words: Sequence[str]) -> list[str]:
        tags = [*map(self._first, words[:1]), *map(self._other, words[1:])]
        if not self._rules:
            return tags
        edge, changing = [_EDGE] * _REACH, self._changing
        tags = [*edge, *tags, *edge]
        telling = [*edge, *(word if word in self._telling else "" for word in words), *edge]
        rows = (tags, telling)
        for at in range(_REACH, len(words) + _REACH):
            if tags[at] not in changing and not telling[at]:
                continue
            around = (tags[at - 1], tags[at], tags[at + 1], telling[at - 1], telling[at], telling[at + 1])
            for new, conditions in self._candidates[around]:
                if _hold(conditions, rows, at):
                    tags[at] = new
                    break
        return tags[_REACH:-_REACH]

    def _look_up(self, word: str, is_first: bool) -> str:
        lexicon = self._lexicon
        if word not in lexicon:
            if word.isupper() and word.lower() in lexicon:
                word = word.lower()
            elif not any(letter.isascii() for letter in word if letter.isalnum()):
                return "FW"
        tag = self._find_tags([word] if is_first else ["", word])[-1][1]
        return tag.partition("|")[0]


class _Candidates(dict[tuple[str, ...], tuple[tuple[str, tuple[_Condition, ...]], ...]]):
    """New tags and the conditions left to check, by the tags and the words that rules name at offsets -1, 0 and 1.

    Of several rules the last one wins, so they come in reverse, up to the first that holds unconditionally.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        super().__init__()
        self._rules = rules

    def __missing__(self, around: tuple[str, ...]) -> tuple[tuple[str, tuple[_Condition, ...]], ...]:
        tags, words = around[:3], around[3:]
        found = []
        for rule in reversed(self._rules):
            if rule.old not in (tags[1], _ANY):
                continue
            left = []
            for kind, places, value in rule.conditions:
                known = words if kind == _WORD else tags
                if not any(abs(place) <= 1 and known[place + 1] == value for place in places):
                    left.append((kind, tuple(place for place in places if abs(place) > 1), value))
            if all(places for _, places, _ in left):
                found.append((rule.new, tuple(left)))
                if not left:
                    break
        self[around] = tuple(found)
        return self[around]


def _hold(conditions: tuple[_Condition, ...], rows: tuple[list[str], list[str]], at: int) -> bool:
    for kind, places, value in conditions:
        row = rows[kind]
        for place in places:
            if row[at + place] == value:
                break
        else:
            return False
    return True


def with_safe_rules() -> PatternTagger:
    """The tagger ``pattern``: the rules that help, see :attr:`Rule.is_safe`."""
    return PatternTagger("pattern", lambda rule: rule.is_safe)


def with_all_rules() -> PatternTagger:
    """The tagger ``pattern-all``: every rule, as in Pattern itself."""
    return PatternTagger("pattern-all", lambda rule: True)


def without_rules() -> PatternTagger:
    """The tagger ``pattern-fast``: no rule, as in TextBlob."""
    return PatternTagger("pattern-fast", lambda rule: False)
