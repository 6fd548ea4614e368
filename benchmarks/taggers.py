"""Taggers against people's tags: how often a word gets the right class (noun, verb, adjective, adverb, none of them).

    python benchmarks/taggers.py NLTK_DATA --tagger pattern --tagger spacy:en_core_web_sm

NLTK_DATA is a folder with NLTK's ``treebank.zip`` (a tenth of the Penn Treebank's Wall Street Journal), ``brown.zip``
and ``universal_tagset.zip``. Punctuation does not count. Modals and the adverbs of questions are in no class. The
Treebank is part of what spaCy's English pipelines were trained on (OntoNotes 5); the Brown corpus is not.
"""

from __future__ import annotations

import argparse
import json
import re
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from trueneg.lexicon.tagging import make_tagger
from trueneg.lexicon.tags import coarse

Sentence = list[tuple[str, str]]
"""Words and their classes."""

_CLASSES = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}


def treebank(folder: Path) -> Iterator[Sentence]:
    """The Treebank's sample: the leaves of its trees but the empty ones."""
    for text in _texts(folder / "treebank.zip", r"combined/.*\.mrg"):
        for tree in re.split(r"\n(?=\()", text):
            leaves = re.findall(r"\(([^\s()]+) ([^\s()]+)\)", tree)
            yield [(word, coarse(tag)) for tag, word in leaves if tag != "-NONE-"]


def brown(folder: Path) -> Iterator[Sentence]:
    """The Brown corpus, its tags mapped to classes as NLTK's universal tag set does."""
    (mapped,) = _texts(folder / "universal_tagset.zip", r"en-brown\.map")
    universal = dict(line.split("\t") for line in mapped.splitlines() if line)
    for text in _texts(folder / "brown.zip", r"brown/c[a-r]\d\d"):
        for line in filter(None, map(str.split, text.splitlines())):
            yield [(word, _brown_class(tag.upper(), universal)) for word, _, tag in (w.rpartition("/") for w in line)]


def _brown_class(tag: str, universal: Mapping[str, str]) -> str:
    is_none = tag.startswith(("MD", "WRB", "WQL"))
    return "" if is_none else _CLASSES.get(universal.get(tag, ""), "")


def _texts(archive: Path, pattern: str) -> Iterator[str]:
    with zipfile.ZipFile(archive) as opened:
        for name in sorted(name for name in opened.namelist() if re.search(rf"(?:^|/){pattern}$", name)):
            yield opened.read(name).decode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tagger", action="append", required=True)
    parser.add_argument("--every", type=int, default=1, help="Read one sentence of so many.")
    options = parser.parse_args()
    for name in options.tagger:
        tagger = make_tagger(name)
        result: dict[str, object] = {"tagger": name, **tagger.provenance}
        for corpus, read in (("treebank", treebank), ("brown", brown)):
            sentences = [sentence for sentence in read(options.data) if sentence][:: options.every]
            started = time.process_time()
            tagged = tagger([[word for word, _ in sentence] for sentence in sentences])
            seconds = time.process_time() - started
            pairs = [
                (gold, coarse(tag))
                for sentence, tags in zip(sentences, tagged, strict=True)
                for (word, gold), tag in zip(sentence, tags, strict=True)
                if any(map(str.isalnum, word))
            ]
            right = sum(gold == found for gold, found in pairs)
            content = [gold == found for gold, found in pairs if gold]
            result[corpus] = {
                "words": len(pairs),
                "accuracy": round(right / len(pairs), 4),
                "accuracy_content_words": round(sum(content) / len(content), 4),
                "words_per_second": round(len(pairs) / seconds),
            }
        print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
