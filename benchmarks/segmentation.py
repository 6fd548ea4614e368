"""Words as our rules split a text, which every tagger is given, against those of spaCy's English tokenizer.

    python benchmarks/segmentation.py TEXT

Needs spaCy, and none of its pipelines: all English ones share the tokenizer. Counted are the words that have a letter
or a digit, by place; that is, how many of spaCy's are among ours, and what the others are like.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import spacy

from trueneg.lexicon.tagging import tag_text


class Nothing:
    """A tagger that gives no tags: words alone are looked at."""

    name = "nothing"
    provenance: Mapping[str, str] = MappingProxyType({})

    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Give each word no tag."""
        return [[""] * len(words) for words in sentences]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("text", type=Path)
    split = spacy.blank("en").tokenizer
    ours, theirs, both = 0, 0, 0
    others: Counter[str] = Counter()
    for line in filter(None, parser.parse_args().text.read_text(encoding="utf-8").split("\n")):
        found = tag_text(line, Nothing())
        spans = {
            (start, end)
            for start, end in zip(found.starts.tolist(), found.ends.tolist(), strict=True)
            if any(map(str.isalnum, line[start:end]))
        }
        words = {
            (word.idx, word.idx + len(word)): word.text for word in split(line) if any(map(str.isalnum, word.text))
        }
        ours, theirs, both = ours + len(spans), theirs + len(words), both + len(spans & words.keys())
        others.update(words[span] for span in words.keys() - spans)
    print(f"spaCy {spacy.__version__}: {theirs:,} words; ours: {ours:,}; the same: {both:,} ({both / theirs:.2%})")
    print("spaCy's alone, by number:", ", ".join(f"{word} {number}" for word, number in others.most_common(30)))


if __name__ == "__main__":
    main()
