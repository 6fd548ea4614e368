"""AddSent and AddSentDiverse: a sentence that resembles the answer, but is about something else.

A question is altered, a wrong answer of the right kind is made up, and both are combined into a sentence that is added
to the context (Jia and Liang 2017, section 4.1; Wang and Bansal 2018 for random positions). Jia and Liang's own
sentences, which were corrected by crowd workers, are read by :mod:`trueneg.attacks.published`. The profiles:

* ``strict`` (default): the sentence is inserted at a random position between two sentences; nothing is added unless the
  question was altered, a rule could turn it into a sentence, and the sentence contains no right answer.
* ``textflint`` (for Table 5 of Zhang et al. 2023): the sentence is inserted right before the one with the first answer,
  as described for TextFlint's AddSentDiverse (TextFlint itself inserts it one sentence earlier if that answer begins
  its sentence), and it is *not checked that the question was altered*, so it may answer the original question.
  Such examples have ``is_valid`` false.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from trueneg.attacks.base import AdversarialExample, Attack, check_options
from trueneg.attacks.setup import AttackSetup
from trueneg.attacks.squad.add_sentence.answers import fake_answer
from trueneg.attacks.squad.add_sentence.declarative import declarative, expected_answer
from trueneg.attacks.squad.add_sentence.question_alteration import alter_question
from trueneg.attacks.squad.add_sentence.questions import read_words
from trueneg.attacks.squad.add_sentence.substitutes import WordNetEntities, WordNetNeighbours
from trueneg.attacks.squad.edits import Edit, edited_context, edited_text, example_randomness, reason_not_attackable
from trueneg.errors import ConfigError
from trueneg.lexicon.english import TITLES, not_after
from trueneg.lexicon.tagging import Tagger
from trueneg.lexicon.wordnet import WordNet
from trueneg.tasks.squad_reading import SquadExample

Position = Literal["append", "prepend", "before_answer", "random"]

REMEDY = (
    "for Jia and Liang's own sentences evaluate on their adversarial SQuAD, `trueneg attack MODEL --load FILE.json`; "
    "else choose --profile strict or textflint"
)
"""Remedy if options of a former version's AddSent are used."""
_TRIES = 5
_REASONS = {
    "is_question_changed": "the sentence has nothing of what was altered",
    "has_fake_answer": "the sentence has no wrong answer",
    "is_answer_outside": "the right answer is in the sentence",
}
# End of a sentence: not after a title or an initial, and not before a lower-case letter.
_BOUNDARY = re.compile(rf"[.!?]{not_after((*TITLES, 'ca', 'No'))}[\"”’)\]]*\s+(?=[\"“(\[]?[A-Z0-9])")


@dataclass(frozen=True)
class AddOptions:
    """How a sentence is made and where it is inserted.

    Raises:
        ConfigError: if an option has no such value.
    """

    listed_as = "attack-options"  # by `trueneg list`

    position: Position = "random"
    """Where it is inserted: append to the context; prepend; before_answer (before the sentence with the first answer);
    random: anywhere between two sentences, including the first and last position."""
    require_valid: bool = True
    """Whether nothing is added if the question could not be altered, or if the sentence lacks the altered words or the
    wrong answer, or contains a right one."""
    last_resort: bool = False
    """Whether, if no rule makes a sentence, the question phrase is replaced and the word order kept."""

    def __post_init__(self) -> None:
        check_options(self)


PROFILES: Mapping[str, AddOptions] = MappingProxyType(
    {"strict": AddOptions(), "textflint": AddOptions("before_answer", require_valid=False, last_resort=True)}
)


def make_add_sentence(setup: AttackSetup) -> Attack:
    """Add a sentence that answers another question to a SQuAD context (Jia and Liang 2017)."""
    given = [setting.partition("=")[0].strip() for setting in setup.config.settings]
    names = [name for name in ("fake", "alteration", "answers", "profile", "require_change") if name in given]
    if names or setup.config.profile == "jia2017":
        raise ConfigError(f"add-sentence has {', '.join(names) or '--profile jia2017'} no more: {REMEDY}")
    options = setup.options(PROFILES)
    seed = setup.seed
    run = partial(add_sentence, seed=seed, wordnet=setup.wordnet, tagger=setup.tagger, options=options)
    return Attack(run, options, ("squad",))


@dataclass(frozen=True)
class _Readers:
    """Tagger, neighbours and entity types, loaded once."""

    tagger: Tagger
    neighbours: WordNetNeighbours
    entities: WordNetEntities


def add_sentence(
    examples: Sequence[SquadExample],
    *,
    seed: int,
    wordnet: WordNet,
    tagger: Tagger,
    options: AddOptions | None = None,
) -> list[AdversarialExample[SquadExample]]:
    """Add a distracting sentence to contexts; questions, answers and all other text are kept byte for byte.

    Args:
        examples: examples to attack.
        seed: determines all random choices, for each example together with its key.
        wordnet: for antonyms, neighbours of words and types of names.
        tagger: part-of-speech tagger.
        options: how a sentence is made and where it is inserted.

    Returns:
        One for each example: ``changed``, or ``unchanged`` with a ``reason``. The notes of a changed one:
        ``distractor``, ``altered_question``, ``fake_answer``, ``position`` (offset of the sentence in the new context),
        ``rules`` (``alteration``, ``answer`` and ``sentence``), ``is_question_changed`` (the sentence contains altered
        words), ``has_fake_answer`` (it contains the fake answer), ``is_answer_outside`` (it contains no right answer)
        and ``is_valid``: all three.

    Raises:
        LexiconError: if WordNet lacks sense counts.
    """
    readers = _Readers(tagger, WordNetNeighbours(wordnet), WordNetEntities(wordnet))
    return [_attacked(example, seed, options or PROFILES["strict"], readers) for example in examples]


def _attacked(
    example: SquadExample, seed: int, options: AddOptions, readers: _Readers
) -> AdversarialExample[SquadExample]:
    def unchanged(reason: str) -> AdversarialExample[SquadExample]:
        return AdversarialExample(example, example, "unchanged", notes={"reason": reason})

    if reason := reason_not_attackable(example):
        return unchanged(reason)
    words = read_words(example.question, readers.tagger)
    expected = expected_answer(words)
    if expected is None:
        return unchanged("no question phrase")
    randomness = example_randomness(seed, example.key)
    altered = alter_question(
        words,
        neighbours=readers.neighbours,
        entities=readers.entities,
        context=example.context,
        randomness=randomness,
        phrase=expected.phrase,
    )
    if options.require_valid and not altered.edits:
        return unchanged("question not altered")
    shortest = min((answer.text for answer in example.answers if answer.text.strip()), key=len)
    answer_words = read_words(shortest, readers.tagger)
    taken = f"{example.context} {edited_text(example.question, altered.edits)}".lower()
    for _ in range(_TRIES):
        fake = fake_answer(answer_words, expected, entities=readers.entities, taken=taken, randomness=randomness)
        made = declarative(altered.words, fake, last_resort=options.last_resort)
        if made is None:
            return unchanged("no rule makes a sentence of the question")
        sentence, how_made = made.text, made.rule
        flags = {
            "is_question_changed": any(
                rule != "agreement" and edit.text.lower() in sentence.lower()
                for edit, rule in zip(altered.edits, altered.rules, strict=True)
            ),
            # In the sentence its verb may be inflected, and its preposition replaced by the question's.
            "has_fake_answer": fake.text.split(" ", 1)[-1].lower() in sentence.lower(),
            "is_answer_outside": not any(_has(sentence, answer.text) for answer in example.answers),
        }
        if all(flags.values()):
            break
    if options.require_valid and not all(flags.values()):
        return unchanged(next(reason for flag, reason in _REASONS.items() if not flags[flag]))
    at, new = _place(example, sentence, options.position, randomness)
    adversarial = edited_context(example, [Edit(at, at, new)])
    notes: dict[str, Any] = {
        "distractor": sentence,
        "altered_question": edited_text(example.question, altered.edits),
        "fake_answer": fake.text,
        "position": at + new.index(sentence),
        "rules": {"alteration": list(altered.rules), "answer": fake.rule, "sentence": how_made},
        **flags,
        "is_valid": all(flags.values()),
    }
    return AdversarialExample(example, adversarial, "changed", notes=notes)


def _has(sentence: str, answer: str) -> bool:
    """Whether a sentence contains an answer as whole words, ignoring case and articles."""
    answer = re.sub(r"^(?:the|an?)\s+", "", answer.strip().lower()).strip(" .,;:\"'")
    return bool(answer) and re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", sentence.lower()) is not None


def _place(example: SquadExample, sentence: str, position: Position, randomness: random.Random) -> tuple[int, str]:
    """Offset of the insertion, and the sentence with the space that separates it."""
    end = len(example.context.rstrip())
    if position == "append":
        return end, f" {sentence}"
    if position == "prepend":
        return 0, f"{sentence} "
    spans = [(a.start, a.start + len(a.text)) for a in example.answers if a.start is not None]
    # An answer may span the end of a sentence.
    starts = [0, *(match.end() for match in _BOUNDARY.finditer(example.context))]
    starts = [start for start in starts if not any(first < start < last for first, last in spans)]
    if position == "before_answer":
        return max(start for start in starts if start <= spans[0][0]), f"{sentence} "
    at = randomness.choice([*starts, end])
    return at, f" {sentence}" if at == end else f"{sentence} "
