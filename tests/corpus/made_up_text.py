"""Documents made of few words, with punctuation, accents, hyphens and digits; and damage to what is made of them."""

from __future__ import annotations

import random
import re
from pathlib import Path

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


def change_number(file: Path, field: str) -> None:
    """Make the first number of a name in a JSON file one larger."""
    changed, num = re.subn(rf'("{field}": )(\d+)', lambda m: m[1] + str(int(m[2]) + 1), file.read_text(), count=1)
    assert num == 1
    file.write_text(changed)
