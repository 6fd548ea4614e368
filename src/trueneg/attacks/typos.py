"""Keyboard typos in a few words: a query-free control that ignores meaning.

A typo may produce another word ("form", "from"); this is not checked.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from trueneg.attacks.base import AdversarialExample, Attack, check_options
from trueneg.attacks.setup import AttackSetup
from trueneg.attacks.squad.edits import Edit, edited_context, example_randomness, is_in_answer, reason_not_attackable
from trueneg.attacks.words import AttackableTexts, Passage
from trueneg.config.fields import option
from trueneg.tasks.squad_reading import SquadExample
from trueneg.tasks.text import TextExample

E = TypeVar("E", TextExample, SquadExample)

_WORD = re.compile(r"[^\W_]+")
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


@dataclass(frozen=True, kw_only=True)
class TypoOptions:
    """Number and location of typos.

    Raises:
        ConfigError: if an option has no such value.
    """

    listed_as = "attack-options"  # by `trueneg list`

    share: float = option(0.1, above=0, at_most=1)
    """Share of words that change, rounded down, but at least one, if one is long enough."""
    min_letters: int = option(4, at_least=1)
    """Minimum length of a word that may change; words with digits never do."""
    keeps_ends: bool = True
    """Whether a word's first and last letters, on which readers rely, are kept."""
    attacked: AttackableTexts = "second"
    """Which texts of a pair may change: in NLI the hypothesis. In SQuAD it is the context."""

    def __post_init__(self) -> None:
        check_options(self)


PROFILES: Mapping[str, TypoOptions] = MappingProxyType({"default": TypoOptions()})


def make_typos(setup: AttackSetup) -> Attack:
    """Keyboard typos in texts or SQuAD contexts: a query-free control."""
    options = setup.options(PROFILES)
    return Attack(partial(typos, seed=setup.seed, options=options), options, ("text", "squad"))


def typos(examples: Sequence[E], *, seed: int, options: TypoOptions | None = None) -> list[AdversarialExample[E]]:
    """Insert typos into texts, or into the contexts of questions.

    Answers are kept: in SQuAD, words of any answer do not change anywhere, and no word becomes one of them.

    Args:
        examples: Examples to attack.
        seed: Determines, together with the key of an example, which words change, and how.
        options: Number and location of typos.

    Returns:
        One for each example: ``changed``, with ``notes["changed"]`` as ``[place, old, new]``, where the place is a
        word's index in a text (or in both of a pair), or its first character in a context; or ``unchanged``, with a
        ``reason``.
    """
    options = options or TypoOptions()
    found: list[AdversarialExample[E]] = []
    for example in examples:
        randomness = example_randomness(seed, example.key)
        if isinstance(example, SquadExample):
            found.append(_in_context(example, randomness, options))
        else:
            found.append(_in_text(example, randomness, options))
    return found


def _in_text(example: TextExample, randomness: random.Random, options: TypoOptions) -> AdversarialExample[TextExample]:
    original = changed = Passage.of(example, _WORD, options.attacked)
    num = len(original.attackable)
    for place, word in _slips(original.words, original.attackable, num, randomness, options, frozenset()).items():
        changed = changed.with_word(place, word)
    if changed is original:
        return _unchanged(example)
    return AdversarialExample(
        example, changed.to_example(), "changed", notes={"changed": changed.changed_from(original)}
    )


def _in_context(
    example: SquadExample, randomness: random.Random, options: TypoOptions
) -> AdversarialExample[SquadExample]:
    if reason := reason_not_attackable(example):
        return AdversarialExample(example, example, "unchanged", notes={"reason": reason})
    kept = frozenset(word.casefold() for answer in example.answers for word in _WORD.findall(answer.text))
    words = list(_WORD.finditer(example.context))
    may_change = [
        place
        for place, word in enumerate(words)
        if word.group().casefold() not in kept and not is_in_answer(word.start(), word.end(), example)
    ]
    slips = _slips([word.group() for word in words], may_change, len(words), randomness, options, kept)
    if not slips:
        return _unchanged(example)
    edits = [Edit(*words[place].span(), slipped) for place, slipped in slips.items()]
    notes = {"changed": [[words[place].start(), words[place].group(), slipped] for place, slipped in slips.items()]}
    return AdversarialExample(example, edited_context(example, edits), "changed", notes=notes)


def _unchanged(example: E) -> AdversarialExample[E]:
    return AdversarialExample(example, example, "unchanged", notes={"reason": "no word is long enough"})


def _slips(
    words: Sequence[str],
    may_change: Sequence[int],
    num_words: int,
    randomness: random.Random,
    options: TypoOptions,
    taken: frozenset[str],
) -> dict[int, str]:
    """New words by their places, in order."""
    possible = {
        place: kinds
        for place in may_change
        if words[place].isalpha() and len(words[place]) >= options.min_letters
        if (kinds := _kinds(words[place], options.keeps_ends, taken))
    }
    num = min(len(possible), max(1, int(options.share * num_words)))
    chosen = sorted(randomness.sample(sorted(possible), num))
    return {place: randomness.choice(randomness.choice(possible[place])) for place in chosen}


def _kinds(word: str, keeps_ends: bool, taken: frozenset[str]) -> list[list[str]]:
    """Words that a word can become, for each kind of typo that is possible in it."""
    places = range(1, len(word) - 1) if keeps_ends else range(len(word))
    made = ([new for at in places for new in slip(word, at, places)] for slip in SLIPS.values())
    found = ([new for new in kind if new != word and new.casefold() not in taken] for kind in made)
    return [kind for kind in found if kind]


def _swapped(word: str, at: int, places: range) -> list[str]:
    return [word[:at] + word[at + 1] + word[at] + word[at + 2 :]] if at + 1 in places else []


def _dropped(word: str, at: int, places: range) -> list[str]:
    return [word[:at] + word[at + 1 :]] if len(word) > 1 else []


def _doubled(word: str, at: int, places: range) -> list[str]:
    return [word[: at + 1] + word[at:]]


def _next_key(word: str, at: int, places: range) -> list[str]:
    keys = NEAR_KEYS.get(word[at].lower(), "")
    return [word[:at] + (key.upper() if word[at].isupper() else key) + word[at + 1 :] for key in keys]


SLIPS: Mapping[str, Callable[[str, int, range], list[str]]] = MappingProxyType(
    {"swap": _swapped, "drop": _dropped, "double": _doubled, "key": _next_key}
)
"""Words that a typo at a letter can produce: all kinds are equally probable, and so are all outcomes of a kind."""


def _near(row: int, column: int) -> str:
    """Keys adjacent to a key, with each row shifted by about half a key against the one above."""
    places = [(row, column - 1), (row, column + 1), (row - 1, column), (row - 1, column + 1)]
    places += [(row + 1, column - 1), (row + 1, column)]
    return "".join(_ROWS[r][c] for r, c in places if 0 <= r < len(_ROWS) and 0 <= c < len(_ROWS[r]))


NEAR_KEYS: Mapping[str, str] = MappingProxyType(
    {key: _near(row, column) for row, keys in enumerate(_ROWS) for column, key in enumerate(keys)}
)
"""The letters next to each letter on an American keyboard (QWERTY)."""
