"""The lookup table of section 3.2 retrieved by NLTK's own reader of WordNet, against ours (``forms=retrieved``).

    NLTK_DATA=FOLDER python benchmarks/table_by_nltk.py TOKENIZER

FOLDER has ``corpora/wordnet``, as NLTK downloads it, and TOKENIZER is an uncased WordPiece one. By NLTK a word that is
no stop word has every lemma of every synset that is a word of the vocabulary.
"""

from __future__ import annotations

import argparse

from nltk.corpus import wordnet

from trueneg.lexicon.stopwords import STOP_WORDS
from trueneg.lexicon.table import build_table
from trueneg.lexicon.wordnet import WordNet
from trueneg.tokenizer import load_tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tokenizer")
    parser.add_argument("--wordnet", help="ours; without, where the program finds it")
    options = parser.parse_args()
    tokenizer = load_tokenizer(options.tokenizer)
    tokens = {number: token for token, number in tokenizer.get_vocab().items()}
    words = {token for number, token in tokens.items() if number not in tokenizer.all_special_ids}
    theirs = {
        (word, lemma.lower())
        for word in words - STOP_WORDS
        if not word.startswith("##")
        for synset in wordnet.synsets(word)
        for lemma in synset.lemma_names()
        if lemma.lower() in words - {word}
    }
    table = build_table(tokenizer, WordNet.load(options.wordnet), forms="retrieved")
    size = table.vocab_size
    ours = {(tokens[key // size], tokens[key % size]) for key in table.keys.tolist()}
    for name, pairs in (("NLTK", theirs), ("ours", ours), ("both", theirs & ours)):
        print(f"{name}: {len(pairs):,} pairs for {len({word for word, _ in pairs}):,} words")
    for name, pairs in (("NLTK", theirs - ours), ("ours", ours - theirs)):
        print(f"{name} alone: {', '.join(f'{word} -> {other}' for word, other in sorted(pairs)[:20]) or 'none'}")


if __name__ == "__main__":
    main()
