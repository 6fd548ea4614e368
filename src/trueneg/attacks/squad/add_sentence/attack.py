"""AddSent and AddSentDiverse: a sentence that looks like the answer, and is about something else.

A question is altered, a wrong answer of the right kind is made up, and both become a sentence that is added to the
context (Jia and Liang 2017, section 4.1; Wang and Bansal 2018 for places at random). The profiles:

* ``strict`` (ours, default): names, numbers and opposites are changed as phrases, wrong answers are drawn, the sentence
  goes to a random place between two sentences; nothing is added unless the question was altered, the sentence
  could be made by a rule, and no right answer is in it.
* ``jia2017``: the authors' rules for words and answers, fixed answers, the sentence at the end.
* ``textflint`` (for Table 5 of Zhang et al. 2023): as TextFlint's AddSentDiverse was described, none of its code being
  here: no dates and numbers among the answers, the sentence right before the one with the first answer (TextFlint's own
  goes one sentence further to the front where that answer opens its sentence), and *no test that the question was
  altered*, so that a sentence may answer the very question. Such examples are there, with ``is_valid`` false.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from trueneg.attacks.base import AdversarialExample
from trueneg.attacks.squad.add_sentence.declarative import asked, declarative
from trueneg.attacks.squad.add_sentence.declarative_trees import Parser, declarative_by_tree
from trueneg.attacks.squad.add_sentence.entities import EntityTyper, WordNetEntities
from trueneg.attacks.squad.add_sentence.fake_answer import ANSWER_RULES, AnswerRules, FakeAnswer, fake_answer
from trueneg.attacks.squad.add_sentence.question_alteration import (
    ALTERATION_RULES,
    AlterationRules,
    AlteredQuestion,
    alter_question,
)
from trueneg.attacks.squad.add_sentence.question_words import read_words
from trueneg.attacks.squad.add_sentence.word_neighbours import Neighbours, WordNetNeighbours
from trueneg.attacks.squad.edits import Edit, edited_context, edited_text, example_randomness, reason_not_attackable
from trueneg.errors import ConfigError, unknown_name
from trueneg.lexicon.tagging import Tagger
from trueneg.lexicon.wordnet import WordNet
from trueneg.tasks.squad_reading import SquadExample

Position = Literal["append", "prepend", "before_answer", "random"]
POSITIONS: tuple[Position, ...] = get_args(Position)
Fake = Literal["fixed", "sampled"]
FAKES: tuple[Fake, ...] = get_args(Fake)
AddProfile = Literal["strict", "jia2017", "textflint"]
ADD_PROFILES: tuple[AddProfile, ...] = get_args(AddProfile)

_TRIES = 5
_REASONS = {
    "is_question_changed": "the sentence has nothing of what was altered",
    "has_fake_answer": "the sentence has no wrong answer",
    "is_answer_outside": "the right answer is in the sentence",
}
# A sentence ends here: not after a title or an initial, and not where a small letter follows.
_TITLES = "".join(
    rf"(?<!\b{title}\.)" for title in ("Mr", "Mrs", "Ms", "Dr", "St", "Jr", "Sr", "vs", "ca", "No", "[A-Z]")
)
_BOUNDARY = re.compile(rf"[.!?]{_TITLES}[\"”’)\]]*\s+(?=[\"“(\[]?[A-Z0-9])")


@dataclass(frozen=True)
class AddOptions:
    """How a sentence is made and where it goes.

    Attributes:
        profile: the name of the choices below, for the record; see :meth:`named`.
        position: "append" to the context, "prepend", "before_answer" (before the sentence that the first answer is
            in), or "random": anywhere between two sentences, first and last place included.
        fake: whether a wrong answer is always the same for its kind, or drawn.
        alteration: the rules that alter a question, see :func:`~question_alteration.alter_question`.
        answers: the rules that make up an answer, see :mod:`trueneg.attacks.squad.add_sentence.fake_answer`.
        require_change: add nothing if the question could not be altered.
        last_resort: where no rule makes a sentence, replace the question phrase and leave the order of words.

    Raises:
        ConfigError: if an option has no such value.
    """

    profile: AddProfile = "strict"
    position: Position = "random"
    fake: Fake = "sampled"
    alteration: AlterationRules = "phrases"
    answers: AnswerRules = "strict"
    require_change: bool = True
    last_resort: bool = False

    def __post_init__(self) -> None:
        for name, value, known in (
            ("profile", self.profile, ADD_PROFILES),
            ("position", self.position, POSITIONS),
            ("fake", self.fake, FAKES),
            ("alteration", self.alteration, ALTERATION_RULES),
            ("answers", self.answers, ANSWER_RULES),
        ):
            if value not in known:
                raise ConfigError(unknown_name(name, value, known))
        if self.answers != "strict" and self.fake == "sampled":
            raise ConfigError(f"answers={self.answers} are fixed: choose fake=fixed, or answers=strict")

    @classmethod
    def named(cls, profile: str) -> AddOptions:
        """The choices of a profile.

        Raises:
            ConfigError: if there is none of this name.
        """
        if profile == "strict":
            return cls()
        if profile == "jia2017":
            return cls("jia2017", "append", "fixed", "tokens", "jia2017", require_change=True, last_resort=True)
        if profile == "textflint":
            return cls(
                "textflint", "before_answer", "fixed", "tokens", "textflint", require_change=False, last_resort=True
            )
        raise ConfigError(unknown_name("profile", profile, ADD_PROFILES))


@dataclass(frozen=True)
class _Resources:
    """What an attack goes by, made once.

    Attributes:
        tagger: of words.
        wordnet_neighbours: opposites of words, and the neighbours where no others are given.
        wordnet_entities: what a noun is a kind of, and the types of names where no other guess is given.
        entities: what a name is a name of.
        neighbours: words that could stand for others.
        parser: trees of questions; None for the rules that need none.
    """

    tagger: Tagger
    wordnet_neighbours: WordNetNeighbours
    wordnet_entities: WordNetEntities
    entities: EntityTyper
    neighbours: Neighbours
    parser: Parser | None = None


def add_sentence(
    examples: Sequence[SquadExample],
    *,
    seed: int,
    wordnet: WordNet,
    tagger: Tagger,
    options: AddOptions | None = None,
    neighbours: Neighbours | None = None,
    entities: EntityTyper | None = None,
    parser: Parser | None = None,
) -> list[AdversarialExample[SquadExample]]:
    """Add a distracting sentence to contexts; questions, answers and all other text stay as they are, byte for byte.

    Args:
        examples: what to attack.
        seed: what is drawn; for an example it counts together with its key only.
        wordnet: for opposites, and in the place of ``neighbours`` and ``entities`` where they are not given.
        tagger: what tells the part of speech.
        options: see there.
        neighbours: other words for words, such as :class:`~word_neighbours.VectorNeighbours`.
        entities: what names are names of, such as a recognizer of named entities.
        parser: constituency trees of questions, see :mod:`declarative_trees`; a question without one
            is turned into a sentence by the rules that need none.

    Returns:
        One for each example: ``changed``, or ``unchanged`` with a ``reason``. The notes of a changed one:
        ``distractor``, ``altered_question``, ``fake_answer``, ``position`` (offset of the sentence in the new context),
        ``rules`` (``alteration``, ``answer`` and ``sentence``), ``neighbours`` (what they come from),
        ``is_question_changed`` (and the sentence shows it), ``has_fake_answer`` (the sentence has it),
        ``is_answer_outside`` (no right answer is in the sentence) and ``is_valid``: all three.

    Raises:
        LexiconError: if WordNet lacks the counts of senses.
    """
    options = options or AddOptions()
    own_neighbours, own_entities = WordNetNeighbours(wordnet), WordNetEntities(wordnet)
    resources = _Resources(
        tagger, own_neighbours, own_entities, entities or own_entities, neighbours or own_neighbours, parser
    )
    return [_attacked(example, seed, options, resources) for example in examples]


def _attacked(
    example: SquadExample, seed: int, options: AddOptions, resources: _Resources
) -> AdversarialExample[SquadExample]:
    def left(reason: str) -> AdversarialExample[SquadExample]:
        return AdversarialExample(example, example, "unchanged", notes={"reason": reason})

    if reason := reason_not_attackable(example):
        return left(reason)
    words = read_words(example.question, resources.tagger)
    wanted = asked(words)
    if wanted is None:
        return left("no question phrase")
    randomness = example_randomness(seed, example.key)
    altered = alter_question(
        words,
        rules=options.alteration,
        neighbours=resources.neighbours,
        entities=resources.entities,
        opposites=getattr(resources.wordnet_neighbours, "antonyms" if options.alteration == "tokens" else "opposites"),
        context=example.context,
        randomness=randomness,
        phrase=wanted.phrase,
    )
    if options.require_change and not altered.edits:
        return left("question not altered")
    answer_words = read_words(_short_answer(example), resources.tagger)
    taken = f"{example.context} {edited_text(example.question, altered.edits)}".lower()
    for _ in range(_TRIES if options.fake == "sampled" else 1):
        fake = fake_answer(
            answer_words,
            wanted,
            rules=options.answers,
            is_sampled=options.fake == "sampled",
            entities=resources.entities,
            kind_of=resources.wordnet_entities.kind,
            taken=taken,
            randomness=randomness,
        )
        made = _sentence(example.question, altered, fake, options, resources)
        if made is None:
            return left("no rule makes a sentence of the question")
        sentence, rule = made
        flags = {
            "is_question_changed": any(
                rule != "agreement" and edit.text.lower() in sentence.lower()
                for edit, rule in zip(altered.edits, altered.rules, strict=True)
            ),
            # Its verb may have got another form there, and its preposition may have given way to the question's.
            "has_fake_answer": fake.text.split(" ", 1)[-1].lower() in sentence.lower(),
            "is_answer_outside": not any(_has(sentence, answer.text) for answer in example.answers),
        }
        if all(flags.values()):
            break
    if options.profile == "strict" and not all(flags.values()):
        return left(next(reason for flag, reason in _REASONS.items() if not flags[flag]))
    at, new = _place(example, sentence, options.position, randomness)
    adversarial = edited_context(example, [Edit(at, at, new)])
    notes: dict[str, Any] = {
        "distractor": sentence,
        "altered_question": edited_text(example.question, altered.edits),
        "fake_answer": fake.text,
        "position": at + new.index(sentence),
        "rules": {"alteration": list(altered.rules), "answer": fake.rule, "sentence": rule},
        "neighbours": getattr(resources.neighbours, "name", "given"),
        **flags,
        "is_valid": all(flags.values()),
    }
    return AdversarialExample(example, adversarial, "changed", notes=notes)


def _sentence(
    question: str, altered: AlteredQuestion, fake: FakeAnswer, options: AddOptions, resources: _Resources
) -> tuple[str, str] | None:
    if resources.parser is not None and (tree := resources.parser(question)):
        found = declarative_by_tree(question, tree, altered.edits, fake.text)
        if found:
            return found[0], f"tree: {found[1]}"
    made = declarative(altered.words, fake, last_resort=options.last_resort)
    return (made.text, made.rule) if made else None


def _short_answer(example: SquadExample) -> str:
    """The shortest right answer, the first of several."""
    return min((answer.text for answer in example.answers if answer.text.strip()), key=len)


def _has(sentence: str, answer: str) -> bool:
    """Whether a sentence has an answer, as words, whatever their capitals and articles."""
    answer = re.sub(r"^(?:the|an?)\s+", "", answer.strip().lower()).strip(" .,;:\"'")
    return bool(answer) and re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", sentence.lower()) is not None


def _place(example: SquadExample, sentence: str, position: Position, randomness: random.Random) -> tuple[int, str]:
    """Where to insert what, with the space that sets it apart."""
    context = example.context
    if position == "append":
        return _behind(context, len(context.rstrip()), sentence)
    if position == "prepend":
        return 0, f"{sentence} "
    spans = [(a.start, a.start + len(a.text)) for a in example.answers if a.start is not None]
    # An answer may reach over the end of a sentence.
    starts = [0, *(match.end() for match in _BOUNDARY.finditer(context))]
    starts = [start for start in starts if not any(first < start < last for first, last in spans)]
    if position == "before_answer":
        return max(start for start in starts if start <= spans[0][0]), f"{sentence} "
    at = randomness.choice([*starts, len(context.rstrip())])
    return _behind(context, at, sentence) if at == len(context.rstrip()) else (at, f"{sentence} ")


def _behind(context: str, at: int, sentence: str) -> tuple[int, str]:
    return at, f" {sentence}" if at else f"{sentence} "
