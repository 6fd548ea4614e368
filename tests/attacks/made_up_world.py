"""A world to attack in: a classifier, a tagger, an encoder and neighbours that are functions of the words alone.

It needs nothing but numpy, so that other implementations of the attack can be run in it, in environments of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

NUM_LABELS = 3
TAGS = ("NN", "VB", "JJ", "NNS", "VBD", "RB")

WORDS: list[str] = """
    film movie picture plot story tale actor cast scene script humor joke ending opening moment hour
    good great fine bad poor awful dull bright dark funny silly warm cold slow quick fresh old new
    make tell find lose watch love hate laugh cry follow build break
""".split()  # noqa: SIM905
COMMON = ["the", "a", "of", "to", "and", "is", "in", "it", "with", "this", "that", "not", "only", "very"]


def neighbours() -> dict[str, list[list[str | float]]]:
    """Seven of ten words have up to twelve neighbours, some of them too far."""
    random = np.random.default_rng(1)
    table: dict[str, list[list[str | float]]] = {}
    for word in WORDS:
        if random.random() < 0.7:
            near = random.permutation([other for other in WORDS if other != word])[: random.integers(1, 13)]
            cosines = np.sort(random.integers(20, 100, size=len(near)) / 100)[::-1]
            table[word] = [[str(other), float(cosine)] for other, cosine in zip(near, cosines, strict=True)]
    return table


def texts(*, is_plain: bool) -> list[tuple[str, str | None]]:
    """Texts of one to thirty words, the last ones pairs; plain ones have single spaces and no capitals."""
    random = np.random.default_rng(2)
    pool = [*WORDS, *WORDS, *COMMON]
    made = []
    for number in range(30):
        words = random.choice(pool, size=random.integers(9, 31) if number % 3 else random.integers(1, 13)).tolist()
        marks = random.choice(["", "", "", "", " ,", " !"] if is_plain else ["", "", "", ",", "...", " --"], len(words))
        if not is_plain:
            cases = random.choice(["lower", "lower", "lower", "capitalize", "upper"], len(words))
            words = [getattr(word, case)() for word, case in zip(words, cases, strict=True)]
            words = [f"'{word}'" if random.random() < 0.05 else word for word in words]
        made.append(" ".join(word + mark for word, mark in zip(words, marks, strict=True)))
    return [(text, None) for text in made[:24]] + [(made[n], made[n + 1]) for n in range(24, 29)]


def logits(*parts: str) -> NDArray[np.float64]:
    """Each word speaks for a label, the more the earlier it stands."""
    total = np.zeros(NUM_LABELS)
    for part in parts:
        for place, word in enumerate(re.findall(r"[^\W_]+|<oov>", part.lower())):
            total[crc32(word.encode()) % NUM_LABELS] += (crc32(b"!" + word.encode()) % 1000) / 1000 + 1 / (place + 3)
    return total


def probabilities(*parts: str) -> NDArray[np.float64]:
    """Of the labels, for a text or a pair."""
    weights = np.exp(logits(*parts))
    return np.asarray(weights / weights.sum())


def tag(words: Sequence[str]) -> list[str]:
    """Penn tags: a word's own, or another one between certain words."""
    codes = [crc32(word.lower().encode()) for word in words]
    around = [
        (codes[n - 1] if n else 0) // 7 + (codes[n + 1] if n + 1 < len(codes) else 0) // 7 for n in range(len(words))
    ]
    return [TAGS[(code % 6 + (other % 4 == 0)) % 6] for code, other in zip(codes, around, strict=True)]


def vector(text: str) -> NDArray[np.float64]:
    """What letters a text has, after each other letter modulo 5."""
    found = np.full((5, 26), 0.01)
    letters = [ord(letter) - 97 for letter in text.lower() if "a" <= letter <= "z"]
    for before, letter in zip([0, *letters], letters, strict=False):
        found[before % 5, letter] += 1
    return found.ravel()


def angle(left: str, right: str) -> float:
    """Between the vectors of two texts."""
    x, y = vector(left), vector(right)
    return float(np.arccos(min(1.0, x @ y / np.sqrt(x @ x) / np.sqrt(y @ y))))


def label_of(number: int, *parts: str) -> int:
    """What the classifier says; for every seventh text something else."""
    said = int(probabilities(*parts).argmax())
    return (said + 1) % NUM_LABELS if number % 7 == 6 else said
