"""Write the hand-made WordNet of the tests in wndb format: run it in this folder after a change of SYNSETS.

No text of the real WordNet is in it. Relations are given by name and become byte offsets.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

SUFFIX = {"n": "noun", "v": "verb", "a": "adj", "s": "adj", "r": "adv"}

LICENCE = "".join(
    f"  {n} {line}  \n" for n, line in enumerate(("Hand-made for the tests of trueneg.", "Free to use."), 1)
)

# name: type, words, relations (symbol, name of target, source-target word numbers), gloss
SYNSETS: dict[str, tuple[str, str, list[tuple[str, str, str]], str]] = {
    "thing": ("n", "thing entity", [], "whatever there is"),
    "show": ("n", "show performance", [("@", "thing", "0000")], 'something staged; "a show a night"'),
    "film": (
        "n",
        "movie film picture motion_picture pic",
        [("@", "show", "0000")],
        'a story in moving pictures; "we saw a film"; "two movies in a row" - A. Critic',
    ),
    "layer": ("n", "film coating", [("@", "thing", "0000")], "a thin layer"),
    "beast": ("n", "animal beast", [("@", "thing", "0000"), ("~", "mouse", "0000")], "a living thing that moves"),
    "mouse": ("n", "mouse", [("@", "beast", "0000")], "a small beast with a tail"),
    "town": ("n", "city metropolis", [("@", "thing", "0000")], "a large town"),
    "Paris": ("n", "Paris French_capital", [("@i", "town", "0000")], 'a city called "of light"'),
    "gas": ("n", "helium he", [("@", "thing", "0000")], "a light gas"),
    "paper": ("n", "will testament", [("@", "thing", "0000")], "a last wish, on paper"),
    "year": ("n", "mcmxc 1990", [], "the year after 1989"),
    "parent": ("n", "father dad pa", [("@", "thing", "0000")], "a man with a child"),
    "axe": ("n", "axe ax", [("@", "thing", "0000")], "a tool with one edge"),
    "stop": ("n", "stay arrest check", [("@", "thing", "0000")], "the act of stopping"),
    "cutter": ("n", "saw", [("@", "thing", "0000")], "a tool with teeth"),
    "stay": (
        "v",
        "stay remain rest",
        [("!", "move", "0101")],
        'keep still; "she stayed", "they remained"',
    ),
    "move": ("v", "move go", [("!", "stay", "0101")], "change place"),
    "see": ("v", "see notice", [], "take in by eye"),
    "cut": ("v", "saw cut", [], "cut with teeth"),
    "walk": ("v", "walk", [("@", "move", "0000")], "go on foot"),
    "large": ("a", "large big", [("!", "small", "0101"), ("!", "small", "0202")], "of great size"),
    "small": ("a", "small little", [("!", "large", "0101"), ("!", "large", "0202")], "of no great size"),
    "happy": ("a", "happy", [("!", "unhappy", "0101"), ("&", "glad", "0000")], '"a happy child"; "happy days"'),
    "unhappy": ("a", "unhappy", [("!", "happy", "0101")], "not happy (only of `people')"),
    "glad": ("s", "glad cheerful", [("&", "happy", "0000")], "showing joy"),
    "primary": ("a", "primary main(a) chief", [], "of first rank"),
    "galore": ("s", "galore(ip)", [("&", "large", "0000")], 'in plenty; "food galore'),
    "fast": ("r", "quickly rapidly", [("!", "slow", "0101")], "with speed"),
    "slow": ("r", "slowly", [("!", "fast", "0101")], "without speed"),
}

EXCEPTIONS = {
    "noun": "mice mouse\n",
    "verb": "saw see\nwent go\ngone go\nwent move\n",
    "adj": "bigger big\nbiggest big\n",
    "adv": "",
}


def build() -> dict[str, str]:
    """The text of every file, by name."""
    of_suffix: dict[str, list[str]] = defaultdict(list)
    for name, (kind, *_) in SYNSETS.items():
        of_suffix[SUFFIX[kind]].append(name)
    offsets = dict.fromkeys(SYNSETS, 0)
    files: dict[str, str] = {}
    for final in (False, True):  # an offset has eight digits whatever it is: two passes fix them all
        for suffix, names in of_suffix.items():
            text = LICENCE
            for name in names:
                offsets[name] = len(text) if not final else offsets[name]
                text += data_line(name, offsets)
            files[f"data.{suffix}"] = text
    for suffix, names in of_suffix.items():
        files[f"index.{suffix}"] = LICENCE + index_lines(names, offsets)
        files[f"{suffix}.exc"] = EXCEPTIONS[suffix]
    return files


def data_line(name: str, offsets: dict[str, int]) -> str:
    """One synset as wndb(5WN) writes it."""
    kind, words, relations, gloss = SYNSETS[name]
    members = " ".join(f"{word} 0" for word in words.split())
    pointers = "".join(f" {s} {offsets[t]:08d} {SYNSETS[t][0]} {w}".replace(" s ", " a ") for s, t, w in relations)
    frames = " 01 + 02 00" if kind == "v" else ""
    return (
        f"{offsets[name]:08d} 03 {kind} {len(words.split()):02x} {members} {len(relations):03d}{pointers}{frames}"
        f" | {gloss}  \n"
    )


def index_lines(names: list[str], offsets: dict[str, int]) -> str:
    """The entries of one part of speech, sorted by lemma."""
    senses: dict[str, list[str]] = defaultdict(list)
    for name in names:
        for word in SYNSETS[name][1].split():
            senses[word.split("(")[0].lower()].append(name)
    lines = []
    for lemma, held in sorted(senses.items()):
        symbols = sorted({symbol for name in held for symbol, _, _ in SYNSETS[name][2]})
        pos = SYNSETS[held[0]][0].replace("s", "a")
        fields = [
            lemma,
            pos,
            len(held),
            len(symbols),
            *symbols,
            len(held),
            0,
            *(f"{offsets[n]:08d}" for n in held),
        ]
        lines.append(" ".join(map(str, fields)) + "  \n")
    return "".join(lines)


if __name__ == "__main__":
    for file, content in build().items():
        (Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent).joinpath(file).write_text(content)
