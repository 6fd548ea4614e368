"""A corpus that needs no download: WordNet's own definitions and examples, 1.9 million tokens of English."""

from __future__ import annotations

from pathlib import Path

from trueneg.corpus.build import build_corpus
from trueneg.corpus.tokenizer_training import train_tokenizer
from trueneg.files.lock import locked
from trueneg.lexicon.wordnet import WordNet


def write_glosses(wordnet: WordNet, path: Path, synsets_per_document: int = 1) -> int:
    """Write WordNet's definitions and examples as text, one sentence per line; return the number of synsets.

    Args:
        wordnet: A loaded WordNet.
        path: The file to write.
        synsets_per_document: Number of consecutive synsets per document; these are often about one subject.
    """
    num = 0
    with path.open("w", encoding="utf-8") as file:
        for num, gloss in enumerate(wordnet.glosses(), start=1):
            file.writelines(f"{sentence}.\n" for sentence in (gloss.definition, *gloss.examples))
            if num % synsets_per_document == 0:
                file.write("\n")
    return num


def build_gloss_corpus(
    folder: Path, *, vocab_size: int, wordnet: str = "", valid: float | None = None, synsets_per_document: int = 20
) -> Path:
    """Build a corpus of WordNet's text, with a tokenizer of its own.

    Args:
        folder: Where text, tokenizer and corpus go.
        vocab_size: Vocabulary size of the tokenizer.
        wordnet: WordNet's folder; empty to look in the usual places.
        valid: Share of documents to hold out.
        synsets_per_document: See ``write_glosses``.

    Returns:
        The corpus's folder; an existing corpus is reused.

    Raises:
        BusyError: if another process is building it.
        LexiconError: if WordNet is not found.
    """
    corpus = folder / "corpus"
    if not (corpus / "corpus.json").is_file():
        with locked(folder, "a corpus of WordNet's text"):
            text = folder / "glosses.txt"
            write_glosses(WordNet.load(wordnet or None), text, synsets_per_document)
            train_tokenizer([str(text)], folder / "tokenizer", vocab_size=vocab_size)
            build_corpus([str(text)], folder / "tokenizer", corpus, valid=valid)
    return corpus
