"""Questions, a hand-made WordNet with counts of senses, and a tagger: what the tests of attacks on SQuAD share."""

from __future__ import annotations

import runpy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from trueneg.lexicon.tagging import Tagger, make_tagger
from trueneg.lexicon.wordnet import WordNet
from trueneg.tasks.squad_reading import SquadAnswer, SquadExample

MAKE = Path(__file__).parents[1] / "data" / "wordnet" / "make.py"

# name: type, words, relations (symbol, name of target, source-target word numbers), gloss
SYNSETS = {
    "thing": ("n", "entity", [("~", "show", "0000"), ("~", "group", "0000")], "g"),
    "person": ("n", "person", [], "g"),
    "town": ("n", "city metropolis", [("@", "place", "0000"), ("~i", "Paris", "0000"), ("~i", "Rome", "0000")], "g"),
    "place": ("n", "location", [("@", "thing", "0000")], "g"),
    "Paris": ("n", "Paris", [("@i", "town", "0000")], "g"),
    "Rome": ("n", "Rome", [("@i", "town", "0000")], "g"),
    "painter": ("n", "painter", [("@", "person", "0000")], "g"),
    "Luther": ("n", "Luther Martin_Luther", [("@i", "painter", "0000")], "g"),
    "company": ("n", "company", [("@", "organization", "0000")], "g"),
    "organization": ("n", "organization", [("@", "group", "0000")], "g"),
    "group": ("n", "group", [("@", "thing", "0000")], "g"),
    "show": ("n", "show", [("@", "thing", "0000"), ("~", "film", "0000"), ("~", "concert", "0000")], "g"),
    "film": ("n", "movie film pic Movie", [("@", "show", "0000")], "g"),
    "concert": ("n", "concert", [("@", "show", "0000")], "g"),
    "layer": ("n", "film coating", [("@", "thing", "0000")], "g"),
    "school": ("n", "high_school", [("@", "thing", "0000")], "g"),
    "car": ("n", "car automobile", [("@", "thing", "0000")], "g"),
    "begin": ("v", "start commence", [], "g"),
    "large": ("a", "large big", [("!", "small", "0101"), ("!", "small", "0202")], "g"),
    "small": ("a", "small little", [("!", "large", "0101"), ("!", "large", "0202")], "g"),
    "heavy": ("a", "heavy", [("!", "light", "0101")], "g"),
    "light": ("a", "light", [("!", "heavy", "0101")], "g"),
    "glad": ("s", "cheerful blithe", [("&", "large", "0000")], "g"),
    "fast": ("r", "quickly rapidly", [("!", "slow", "0101")], "g"),
    "slow": ("r", "slowly", [("!", "fast", "0101")], "g"),
}
COUNTS = """
movie%1:00:00:: 1 30
film%1:00:00:: 1 20
concert%1:00:00:: 1 9
car%1:00:00:: 1 30
automobile%1:00:00:: 1 20
commence%2:00:00:: 1 30
start%2:00:00:: 1 30
large%3:00:00:: 1 40
big%3:00:00:: 1 30
small%3:00:00:: 1 30
little%3:00:00:: 1 30
cheerful%5:00:00:: 1 8
blithe%5:00:00:: 1 4
quickly%4:00:00:: 1 8
rapidly%4:00:00:: 1 8
slowly%4:00:00:: 1 8
"""


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory()  # for as long as the tests run: counts are read when they are needed


@cache
def wordnet() -> WordNet:
    """The WordNet above."""
    module = runpy.run_path(str(MAKE))
    module["SYNSETS"].clear()
    module["SYNSETS"].update(SYNSETS)
    module["EXCEPTIONS"].update(dict.fromkeys(module["EXCEPTIONS"], ""))
    folder = Path(_folder().name)
    for name, text in module["build"]().items():
        (folder / name).write_text(text)
    (folder / "cntlist.rev").write_text(COUNTS.lstrip())
    return WordNet.load(folder)


@cache
def tagger() -> Tagger:
    """The tagger that needs nothing."""
    return make_tagger("pattern")


def squad(question: str, context: str, *answers: str, key: str = "q1", is_impossible: bool = False) -> SquadExample:
    """A question whose answers are where the context first has them."""
    found = tuple(SquadAnswer(text, at if (at := context.find(text)) >= 0 else None) for text in answers)
    return SquadExample(key, "title/0", question, context, found, is_impossible)
