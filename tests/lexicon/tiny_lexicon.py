"""What the tests of the lexicon share: the hand-made WordNet's folder and the words of tiny tokenizers."""

from __future__ import annotations

from pathlib import Path

TINY_WORDNET = Path(__file__).parents[1] / "data" / "wordnet"

WORDS = """
    movie movies film films picture pictures pic thing show mouse mice animal animals primary main chief stay stays
    stayed remain remains remained rest rested the will he helium saw see notice cut large larger big bigger happy
    glad cheerful testament 1990 mcmxc father dad pa axes paris quickly rapidly
""".split()  # noqa: SIM905
