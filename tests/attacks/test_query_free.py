"""What holds for every attack that needs no model: reasons to leave an example alone, seeds, keys, processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from squad_world import squad, tagger, wordnet

from trueneg.attacks.base import AdversarialExample
from trueneg.attacks.squad.add_sentence.attack import PROFILES, add_sentence
from trueneg.attacks.squad.swap_synonyms import SwapOptions, swap_synonyms
from trueneg.attacks.typos import TypoOptions, typos
from trueneg.tasks.squad_reading import SquadAnswer, SquadExample

CONTEXT = "Luther saw cheerful movies, large and big, in Rome."
GOOD = squad("Where was Luther seen in 1985?", CONTEXT, "Rome")
_WITH_WORDNET = {"wordnet": wordnet(), "tagger": tagger()}
ATTACKS: dict[str, Callable[..., list[AdversarialExample[Any]]]] = {
    "swap-synonyms": partial(swap_synonyms, **_WITH_WORDNET, options=SwapOptions(max_swaps=1)),
    "textflint": partial(swap_synonyms, **_WITH_WORDNET, options=SwapOptions.textflint()),
    **{f"add {name}": partial(add_sentence, **_WITH_WORDNET, options=found) for name, found in PROFILES.items()},
    "typos": partial(typos, options=TypoOptions()),
}
each_attack = pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)


@each_attack
@pytest.mark.parametrize(
    ("example", "reason"),
    [
        (replace(GOOD, context="  "), "empty context"),
        (replace(GOOD, question=" "), "empty question"),
        (replace(GOOD, is_impossible=True), "impossible question"),
        (replace(GOOD, answers=()), "no answers"),
        (squad(GOOD.question, CONTEXT, "Vienna"), "no answer is in the context"),
        (replace(GOOD, answers=(SquadAnswer("Rome", 3),)), "an answer is not at its offset"),
    ],
)
def test_what_cannot_be_attacked_says_why(
    attack: Callable[..., list[AdversarialExample[Any]]], example: SquadExample, reason: str
) -> None:
    (found,) = attack([example], seed=1)
    assert (found.outcome, found.adversarial, found.notes) == ("unchanged", example, {"reason": reason})


def with_keys(num: int) -> Sequence[SquadExample]:
    return [replace(GOOD, key=f"q{number}") for number in range(num)]


@each_attack
def test_an_example_depends_on_seed_and_key_alone(attack: Callable[..., list[AdversarialExample[Any]]]) -> None:
    examples = with_keys(8)
    together = attack(examples, seed=3)
    assert together == [found for example in examples for found in attack([example], seed=3)]
    assert attack(examples[::-1], seed=3) == together[::-1]
    assert len({found.adversarial.context for found in together}) > 1, "the key counts"
    assert attack(examples, seed=4) != together


def everything() -> list[str]:
    return [repr(attack(with_keys(2), seed=3)) for attack in ATTACKS.values()]


def test_nothing_depends_on_hashing() -> None:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "1"}  # in this process it is another
    script = "from test_query_free import everything; print(*everything(), sep=chr(0), end='')"
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True, text=True)
    assert done.stdout.split("\0") == everything()
