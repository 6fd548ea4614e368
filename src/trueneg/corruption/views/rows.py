"""Rows of a corpus with both views of them: what CLINE trains on."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable
from dataclasses import asdict, replace
from importlib.metadata import version

import numpy as np
from transformers import PreTrainedTokenizerFast

from trueneg.config.objective_options import ViewsConfig
from trueneg.corpus.rows import NumberedRows
from trueneg.corpus.tags import Tags
from trueneg.corruption.rows import piece_starts, rows_of
from trueneg.corruption.views.batch import Views
from trueneg.corruption.views.generator import TableCandidates, TextRows, ViewGenerator
from trueneg.corruption.views.replacement_table import (
    REPLACEMENTS_VERSION,
    ReplacementTable,
    Word,
    compile_replacements,
)
from trueneg.corruption.views.word_pieces import Articles, Names, WordPieces
from trueneg.errors import ConfigError, LexiconError, TruenegWarning
from trueneg.lexicon.replacements import KINDS, ReplacementOptions, sense_counts_digest
from trueneg.lexicon.tags import PENN
from trueneg.lexicon.wn_lexicon import WnLexicon
from trueneg.lexicon.wordnet import WordNet
from trueneg.lexicon.wordnet_location import cache_folder, find_wordnet, wordnet_digest
from trueneg.tokenizer import special_ids

LEAST_COVERAGE, FEWEST_WORDS = 0.35, 100
"""Share of content words that must have a replacement, in a corpus of at least so many: 0.92 have one in English text;
0.2 in German and Spanish, which share words such as "war" and "piano" with it."""


class ViewReader:
    """Reads rows and makes their views: a ``corruption.rows.ReadRows``.

    Args:
        substitution: Generator of the views.
    """

    def __init__(self, substitution: ViewGenerator) -> None:
        self.substitution = substitution

    @property
    def digest(self) -> str:
        """Digest of the replacements that views are made of."""
        return self.substitution.candidates.digest

    def __call__(self, index: NumberedRows, numbers: np.ndarray, seed: int, positions: np.ndarray) -> Views:
        """Read rows with their views.

        Args:
            index: A corpus's rows, with tags.
            numbers: Row numbers, int64 ``[batch]``.
            seed: Seed of the draws.
            positions: Positions of the examples in the training order, int64 ``[batch]``; views differ from epoch to
                epoch.
        """
        batch = index.read(numbers)
        if batch.tags is None:
            raise AssertionError("rows for views are opened with their tags")
        rows = rows_of(batch, index, seed, positions)
        text = TextRows(
            batch.input_ids,
            batch.segments,
            batch.is_word_start,
            batch.is_special,
            batch.tags,
            rows.keys,
            is_packed=rows.is_packed,
        )
        views = self.substitution.views(text)
        return Views(rows, *(replace(view, starts=piece_starts(view.segments.numpy(), index)) for view in views))


def make_substitution(
    config: ViewsConfig, tags: Tags, tokenizer: PreTrainedTokenizerFast, wordnet: str = ""
) -> ViewGenerator:
    """Make the generator of a corpus's views; the replacements are compiled once and then read from the cache.

    Args:
        config: How much is replaced, and by what.
        tags: Tags of the corpus's training split, whose words are counted.
        tokenizer: The corpus's tokenizer.
        wordnet: WordNet's folder; empty to search for it.

    Raises:
        ConfigError: if names are found by capitals and the tokenizer has none; for options that a lexicon of ``wn``
            does not support.
        LexiconError: if WordNet is not found, the cache cannot be written, or the text and the lexicon are in different
            languages.
        CorpusError: if the table of words is incomplete.
    """
    table = cached_replacements(tags, options_of(config), config.lexicon or wordnet)
    _check_coverage(table, tags)
    pad_id = special_ids(tokenizer)["pad"]
    if pad_id is None:
        raise AssertionError("load_tokenizer lets no tokenizer without a padding token pass")
    return ViewGenerator(
        TableCandidates(table),
        WordPieces.of(table.forms, tokenizer),
        config,
        pad_id,
        Articles.of(table.forms, tokenizer) if config.articles else None,
        Names.of(tokenizer) if config.entities == "capitals" else None,
    )


def options_of(config: ViewsConfig) -> ReplacementOptions:
    """Requirements of candidates."""
    return ReplacementOptions(
        senses=config.senses,
        agree=config.agree,
        multiword=config.multiword,
        indirect=config.indirect,
        words=config.words,
        min_count=config.min_count,
        min_ratio=config.min_ratio,
        random="band" if config.random == "none" else config.random,
    )


def cached_replacements(tags: Tags, options: ReplacementOptions, wordnet: str = "") -> ReplacementTable:
    """Load the replacements of a corpus's words, compiled once for its tags, a WordNet and options.

    Args:
        tags: Tags of a corpus's training split, whose words are counted.
        options: Requirements of candidates.
        wordnet: WordNet's folder, empty to search for it; or ``wn:LEXICON``.

    Raises:
        ConfigError: for a ``wn:LEXICON`` that is not English, if the tagger is English.
        LexiconError: if WordNet is not found, or the cache cannot be written.
    """
    lexicon = WnLexicon(wordnet.removeprefix("wn:")) if wordnet.startswith("wn:") else None
    if lexicon is None:
        place = find_wordnet(wordnet or None)
        digest = wordnet_digest(place)
    else:
        digest = lexicon.digest
        if not lexicon.is_english and not tags.info.tagger.startswith("spacy:"):
            raise ConfigError(
                f"{lexicon.name} is of the language '{lexicon.language}', and the corpus was tagged by "
                f"'{tags.info.tagger}', which knows English: build it with --tag --tagger spacy:MODEL"
            )
    counts = sense_counts_digest(place) if lexicon is None and options.senses == "frequent" else ""
    inflections = version("lemminflect") if options.agree else ""
    read = [asdict(options), tags.corpus.split, REPLACEMENTS_VERSION, counts, inflections]
    asked = json.dumps(read, sort_keys=True)
    name = f"{tags.info.fingerprint}-{digest}-{hashlib.sha256(asked.encode()).hexdigest()[:12]}"
    path = cache_folder() / "replacements" / f"{name}.safetensors"
    if path.exists():
        try:
            return ReplacementTable.load(path)
        except LexiconError as error:
            warnings.warn(f"compiling the replacements again: {error}", TruenegWarning, stacklevel=2)
    table = compile_replacements(_words(tags), lexicon or WordNet.load(place), options)
    table.save(path)
    return table


def _check_coverage(table: ReplacementTable, tags: Tags) -> None:
    """Refuse text of which the lexicon knows hardly any word: both views would be the text itself."""
    num_words, share = int(table.provenance["num_content_words"]), table.coverage(*KINDS)
    if num_words >= FEWEST_WORDS and share < LEAST_COVERAGE:
        source = table.provenance["source"]
        english = ", which is English" if source == "WordNet" else ""
        asked, usual = ReplacementOptions(**json.loads(table.provenance["options"])), ReplacementOptions()
        rare = f"lower views.min_count={asked.min_count} or views.min_ratio={asked.min_ratio}, or "
        is_strict = asked.min_count > usual.min_count or asked.min_ratio > usual.min_ratio
        raise LexiconError(
            f"only {share:.1%} of the nouns, verbs, adjectives and adverbs of '{tags.corpus.path}' have anything in "
            f"{source}{english}, to be replaced by: {rare if is_strict else ''}if the text is in another "
            f"language, name a lexicon of it, views.lexicon=wn:LEXICON, and tag it with --tagger spacy:MODEL"
        )


def _words(tags: Tags) -> Iterable[Word]:
    words = tags.words()
    for text, tag, count in zip(words.texts, words.tags.tolist(), words.counts.tolist(), strict=True):
        yield text, PENN[tag], count
