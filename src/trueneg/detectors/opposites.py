"""Opposites while training, which a veto takes out: ``prototypes:FILE & !antonym``."""

from __future__ import annotations

from transformers import PreTrainedTokenizerFast

from trueneg.config import CorrectionConfig
from trueneg.detectors.specification import Leaf
from trueneg.detectors.table import TableDetector
from trueneg.lexicon.opposites import opposites_table
from trueneg.lexicon.wordnet import WordNet


def make_detector(leaf: Leaf, config: CorrectionConfig, tokenizer: PreTrainedTokenizerFast) -> TableDetector:
    """Compile ``antonym`` into a table of a tokenizer.

    Raises:
        LexiconError: if WordNet is not found.
    """
    leaf.check(argument=False)
    return TableDetector(opposites_table(tokenizer, WordNet.load(config.wordnet or None)))
