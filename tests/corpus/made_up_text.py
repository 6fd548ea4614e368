"""Documents made of few words, with punctuation, accents, hyphens and digits."""

from __future__ import annotations

import random

VOCABULARY = [
    *("the", "a", "of", "and", "in", "river", "mountain", "village", "painter", "winter", "morning", "walked"),
    *("sang", "built", "unbelievable", "extraordinarily", "antidisestablishment", "colour", "grey", "house"),
    *("bridge", "stone", "water", "light", "shadow", "boat", "harbour", "fisherman's", "well-known", "1984"),
    *("don't", "café", "über", "naïve"),
]


def sentences(num_words: int, seed: int) -> str:
    choose = random.Random(seed)
    words = choose.choices(VOCABULARY, k=num_words)
    return " ".join(word + choose.choice(["", "", "", ",", ".", " -"]) for word in words)


def documents(count: int, seed: int = 0, longest: int = 60) -> list[str]:
    choose = random.Random(seed)
    return [
        "\n".join(
            sentences(choose.randint(1, longest), seed=choose.randrange(1 << 30)) for _ in range(choose.randint(1, 3))
        )
        for _ in range(count)
    ]
