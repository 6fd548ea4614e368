"""Annotators: what lists the acceptable substitutes at every token of a corpus, beforehand."""

from __future__ import annotations

from transformers import PreTrainedTokenizerFast

from trueneg.corpus.annotate import Annotator, TableAnnotator
from trueneg.detectors import JUDGES
from trueneg.detectors.specification import Leaf, Resources, leaves, parse
from trueneg.errors import ConfigError, unknown_name
from trueneg.lexicon.table import cached_table


def make_annotator(specification: str, tokenizer: PreTrainedTokenizerFast, resources: Resources) -> Annotator:
    """Make the annotator of a detector.

    Raises:
        ConfigError: for a detector that cannot annotate.
        LexiconError: if it needs a lexicon that is not there.
    """
    wanted = parse(specification)
    for leaf in leaves(wanted):
        if leaf.name not in JUDGES:
            raise ConfigError(unknown_name("detector", leaf.name, JUDGES))
    if isinstance(wanted, Leaf) and wanted.name == "lexical":
        wanted.check(argument=False)
        return TableAnnotator(cached_table(tokenizer, wordnet=resources.wordnet or None), specification)
    raise ConfigError(f"--detector {specification}: only 'lexical' annotates so far")
